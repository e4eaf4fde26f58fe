/* A draft becomes an election: everything that can be wrong with it is found here. */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/duration.h"
#include "base/name.h"
#include "config/draft.h"
#include "config/refs.h"
#include "driver/timing_text.h"

static void *alloc(struct tn_reader *r, size_t size)
{
    void *p = tn_arena_alloc(r->arena, size);

    r->no_memory |= !p;
    return p;
}

static char *copy(struct tn_reader *r, const char *text, size_t len)
{
    char *p = tn_arena_copy(r->arena, text, len);

    r->no_memory |= !p;
    return p;
}

/* ---- The command --------------------------------------------------------- */

/* A string of plain words; what a shell would act upon is not guessed at. */
static bool split(struct tn_reader *r, const struct tn_yaml *node, struct tn_text *words, size_t *n,
                  size_t most)
{
    if (strpbrk(node->text, "|&;<>()`\"'*?[]~#\\\n")) {
        tn_complain(r, node->line,
                    "run.command: as one string it is split at spaces, and no shell sees it; write "
                    "a list, or [sh, -c, '...'] if a shell is meant");
        return false;
    }
    for (const char *p = node->text + strspn(node->text, " \t"); *p; p += strspn(p, " \t")) {
        size_t len = strcspn(p, " \t");
        char *word = copy(r, p, len);

        if (!word || *n == most)
            return false;
        if (!tn_refs_expand(r, node->line, "run.command", word, &words[(*n)++]))
            return false;
        p += len;
    }
    return true;
}

#define WORDS_MAX 256

static bool take_command(struct tn_reader *r, const struct tn_yaml *node,
                         struct tn_config_election *e)
{
    static const struct tn_key key = {"command", NULL, TN_KEY_TEXT, 0};
    struct tn_text words[WORDS_MAX] = {0};
    size_t n = 0;

    if (node->kind == TN_YAML_VALUE && !split(r, node, words, &n, WORDS_MAX - 1))
        return false;
    const struct tn_yaml *item = node->kind == TN_YAML_LIST ? node->first : NULL;
    for (; item && n < WORDS_MAX - 1; item = item->next, n++) {
        words[n] = (struct tn_text){"", ""};
        if (!tn_key_take(r, item, "run.command", &key, &words[n]))
            return false;
    }
    if (item || node->kind == TN_YAML_MAP || n == 0 || !words[0].text[0]) {
        tn_complain(r, node->line,
                    "run.command: give a list of 1 to %d words: the program and its "
                    "arguments",
                    WORDS_MAX - 1);
        return false;
    }
    char **args = alloc(r, (n + 1) * sizeof *args);
    e->command = alloc(r, n * sizeof *e->command);
    if (!args || !e->command)
        return false;
    for (size_t i = 0; i < n; i++) {
        e->command[i] = words[i];
        args[i] = copy(r, words[i].text, strlen(words[i].text));
    }
    e->n_command = n;
    e->run.program.args = args;
    return true;
}

static bool is_variable(const char *name)
{
    if (!*name || (*name >= '0' && *name <= '9'))
        return false;
    return name[strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_")] ==
           '\0';
}

static void take_env(struct tn_reader *r, const struct tn_yaml *node, struct tn_config_election *e)
{
    static const struct tn_key key = {"env", NULL, TN_KEY_SECRET, 0};
    size_t n = 0;

    if (node->kind != TN_YAML_MAP) {
        tn_complain(r, node->line, "run.env: variables belong here, as 'NAME: value'");
        return;
    }
    for (const struct tn_yaml *one = node->first; one; one = one->next)
        n++;
    char **list = alloc(r, (n + 1) * sizeof *list);
    n = 0;
    for (const struct tn_yaml *one = node->first; list && one; one = one->next) {
        struct tn_text value = {"", ""};
        char full[100];

        snprintf(full, sizeof full, "run.env.%.60s", one->key);
        if (!is_variable(one->key)) {
            tn_complain(r, one->key_line, "run.env: '%.60s' cannot be the name of a variable",
                        one->key);
        } else if (tn_key_take(r, one, full, &key, &value)) {
            size_t len = strlen(one->key) + strlen(value.text) + 2;

            if ((list[n] = alloc(r, len)))
                snprintf(list[n++], len, "%s=%s", one->key, value.text);
        }
    }
    e->env = (const char *const *)list;
}

/* ---- The rest of run ----------------------------------------------------- */

static void take_probe(struct tn_reader *r, const struct tn_draft *d, struct tn_run_options *o)
{
    const struct tn_draft_probe *p = &d->probe;
    int given = !!p->spec.text + !!p->exec.text + !!p->http.text + !!p->tcp.text + p->notify;
    unsigned line = d->run.probe ? d->run.probe->line : d->run_line;
    char spec[TN_CONFIG_TEXT_MAX + 8];

    o->probe = (struct tn_probe_options){.delay_ns = p->delay_ns,
                                         .interval_ns = p->interval_ms * TN_MS,
                                         .timeout_ns = p->timeout_ms * TN_MS,
                                         .threshold = (int)p->threshold};
    o->candidate_probe = o->probe;
    o->candidate_probe.delay_ns = 0;
    o->candidate_probe.spec = d->run.candidate_probe.text;
    if (d->run.probe && given != 1) {
        tn_complain(r, line, "run.probe: give one of exec, http, tcp and notify");
        return;
    }
    if (given == 0)
        return;
    snprintf(spec, sizeof spec, "%s%s%s",
             p->exec.text  ? "exec:"
             : p->tcp.text ? "tcp:"
                           : "",
             p->http.text && strncmp(p->http.text, "http://", 7) != 0 ? "http://" : "",
             p->spec.text   ? p->spec.text
             : p->exec.text ? p->exec.text
             : p->http.text ? p->http.text
             : p->tcp.text  ? p->tcp.text
                            : "notify");
    o->probe.spec = copy(r, spec, strlen(spec));
    static const char *const known[] = {"exec:", "http://", "tcp:", "notify"};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        if (strncmp(spec, known[i], strlen(known[i])) == 0)
            return;
    }
    tn_complain(r, line,
                "run.probe: '%.60s': give exec:COMMAND, http://HOST:PORT/PATH, tcp:HOST:PORT or "
                "notify",
                spec);
}

static void check_run(struct tn_reader *r, const struct tn_draft *d, const struct tn_run_options *o)
{
    bool program = o->program.args != NULL;
    unsigned line = d->run_line;

    if (o->warm && !o->warm_file && !o->warm_signal)
        tn_complain(r, line,
                    "run.warm: needs a way to tell the program that it leads: warm_file or "
                    "warm_signal");
    if (o->on_loss == TN_LOSS_RESTART && !o->warm)
        tn_complain(r, line, "run.on_loss: restart-program is for warm programs; give standby");
    if (!program && (o->probe.spec || o->warm || o->program.user || o->program.cwd))
        tn_complain(r, line,
                    "run: probe, warm, user and chdir are about a program, and there is "
                    "none: give 'command'");
}

static void take_run(struct tn_reader *r, const struct tn_draft *d, struct tn_config_election *e)
{
    const struct tn_draft_run *run = &d->run;
    struct tn_run_options *o = &e->run;

    if (run->command)
        take_command(r, run->command, e);
    if (run->env)
        take_env(r, run->env, e);
    o->elector.grace_ms = run->grace_ms;
    o->program.user = run->user.text;
    o->program.cwd = run->chdir.text;
    o->program.privs = run->allow_new_privs;
    o->allow_duplicate_id = run->allow_duplicate_id;
    o->stop_signal = run->stop_signal;
    o->on_loss = (enum tn_on_loss)run->on_loss;
    o->on_exit = (enum tn_on_exit)run->on_exit;
    o->crash_limit = (int)run->crash_limit;
    o->contain = (enum tn_contain)run->contain;
    o->start_timeout_ns = run->start_timeout_ns;
    o->orphan_grace_ns = run->orphan_grace_ns;
    o->release_delay_ns = run->release_delay_ns;
    const char *device = run->watchdog_device.text ? run->watchdog_device.text : "/dev/watchdog";
    if (run->watchdog == 2 || (run->watchdog == 1 && access(device, W_OK) == 0))
        o->watchdog = device;
    o->on_started = run->on_started.text;
    o->on_stopped = run->on_stopped.text;
    o->on_new_leader = run->on_new_leader.text;
    o->hook_timeout_ns = run->hook_timeout_ms * TN_MS;
    o->fence_command = run->fence_command.text;
    o->fence_after_ns = run->fence_after_ns;
    o->fence_timeout_ns = run->fence_timeout_ms * TN_MS;
    o->warm_file = run->warm_file.text;
    o->warm_signal = run->warm_signal;
    o->warm = run->warm || run->warm_file.text || run->warm_signal;
    o->program.warm = o->warm;
    o->program.ignored = run->warm_signal;
    take_probe(r, d, o);
    check_run(r, d, o);
}

/* ---- Names, places, times ------------------------------------------------ */

/* A lease that is a file is named like the file. */
static void name_of_path(struct tn_reader *r, const struct tn_text *path, struct tn_text *name)
{
    const char *slash = path->text ? strrchr(path->text, '/') : NULL;
    const char *base = slash ? slash + 1 : path->text ? path->text : "";
    size_t n = strcspn(base, ".");

    if (n > 0)
        name->text = name->shown = copy(r, base, n);
}

static bool take_name(struct tn_reader *r, const struct tn_draft *d, struct tn_config_election *e)
{
    const struct tn_draft_coordinate *c = &d->coordinate;

    e->name = d->name.text ? d->name : c->lease_name;
    if (d->name.text && c->lease_name.text && strcmp(d->name.text, c->lease_name.text) != 0)
        tn_complain(
            r, d->line,
            "name: the election is called '%.60s' and its lease '%.60s'; they must be the same; "
            "remove one of them",
            d->name.shown, c->lease_name.shown);
    if (!e->name.text && c->place.type.text && tn_key_same(c->place.type.text, "file_lease"))
        name_of_path(r, &c->place.path, &e->name);
    if (!e->name.text) {
        tn_complain(r, d->line, "name: missing; give one, the same on every machine");
        return false;
    }
    const char *fault = tn_name_fault(e->name.text);
    if (fault)
        tn_complain(r, d->line, "name: '%.60s' cannot be the name of an election: %s",
                    e->name.shown, fault);
    return !fault;
}

static void take_state(struct tn_reader *r, const struct tn_draft *d, struct tn_config_election *e)
{
    static const struct tn_key key = {"seal", NULL, TN_KEY_TEXT, 0};
    const char *word = d->state.place.url.text;
    size_t n = 0;

    if (word && (tn_key_same(word, "same") || tn_key_same(word, "lease"))) {
        e->state = e->store;
    } else if (!tn_place_url(r, &d->state.place, d->state_line, "state", &e->state)) {
        return;
    }
    e->run.state = e->state.text;
    const struct tn_yaml *seal = d->state.seal;
    if (!seal)
        return;
    if (!e->state.text) {
        tn_complain(r, seal->line, "state.seal: needs state.store");
        return;
    }
    const char **list = alloc(r, 65 * sizeof *list);
    const struct tn_yaml *one = seal->kind == TN_YAML_LIST ? seal->first : seal;
    for (; list && one && n < 64; one = seal->kind == TN_YAML_LIST ? one->next : NULL) {
        struct tn_text text = {0};

        if (tn_key_take(r, one, "state.seal", &key, &text) && text.text)
            list[n++] = text.text;
    }
    if (one && n == 64)
        tn_complain(r, seal->line, "state.seal: at most 64 collections");
    e->run.seal = list;
}

static void take_times(struct tn_reader *r, const struct tn_draft *d, struct tn_config_election *e)
{
    const struct tenure_elector_options *o = &e->run.elector;
    struct tn_timing_wish wish = {.ttl_ns = o->ttl_ms * TN_MS,
                                  .renew_ns = o->renew_ms * TN_MS,
                                  .grace_ns = o->grace_ms * TN_MS,
                                  .kill_ns = o->kill_ms * TN_MS,
                                  .rho_ppm = o->rho_ppm};
    struct tenure_error err = {0};
    unsigned line = d->ttl_line ? d->ttl_line : d->coordinate_line ? d->coordinate_line : d->line;
    enum tn_timing_fault fault;

    /* An hour is the most that is ever allowed; more would not even fit a nanosecond count. */
    if (o->ttl_ms > 86400000 || o->renew_ms > 86400000 || o->grace_ms > 86400000 ||
        o->kill_ms > 86400000) {
        tn_complain(r, line,
                    "coordinate: ttl, renew_interval, kill_time and grace are at most 1d, "
                    "ttl at most 1h");
        return;
    }
    fault = tn_timing_plan(&wish, &e->timing);
    if (fault == TN_TIMING_OK && strncmp(o->store, "kube:", 5) == 0 &&
        (e->timing.ttl_ns < 5 * TN_S || e->timing.ttl_ns % TN_S != 0))
        tn_complain(r, line,
                    "coordinate: a Kubernetes Lease counts whole seconds: give a ttl of 5s, "
                    "6s, ...");
    if (fault == TN_TIMING_OK)
        return;
    if ((fault == TN_TIMING_RENEW || fault == TN_TIMING_REQUEST) && d->renew_line)
        line = d->renew_line;
    if (fault == TN_TIMING_KILL && d->kill_line)
        line = d->kill_line;
    tn_timing_explain(fault, &e->timing, &err);
    tn_complain(r, line, "coordinate: %s", err.text);
}

/* ---- HTTP ---------------------------------------------------------------- */

/* A value or a list of them, with NULL at the end. */
static const char **take_list(struct tn_reader *r, const struct tn_yaml *node, const char *path,
                              size_t most)
{
    static const struct tn_key key = {"list", NULL, TN_KEY_TEXT, 0};
    const char **list = alloc(r, (most + 1) * sizeof *list);
    const struct tn_yaml *one = node->kind == TN_YAML_LIST ? node->first : node;
    size_t n = 0;

    for (; list && one && n < most; one = node->kind == TN_YAML_LIST ? one->next : NULL) {
        struct tn_text text = {0};

        if (tn_key_take(r, one, path, &key, &text) && text.text)
            list[n++] = text.text;
    }
    if (one)
        tn_complain(r, node->line, "%s: at most %zu", path, most);
    return list;
}

void tn_draft_settle_http(struct tn_reader *r, const struct tn_draft *d, struct tn_api_options *o)
{
    const struct tn_draft_http *h = &d->http;
    const char **listen =
        h->listen ? take_list(r, h->listen, "http.listen", TN_API_LISTENERS) : NULL;

    for (size_t i = 0; listen && listen[i]; i++) {
        o->listen[i] = listen[i];
        if (!strchr(listen[i], ':'))
            tn_complain(r, h->listen->line,
                        "http.listen: '%.60s': give ADDRESS:PORT, such as 127.0.0.1:8080, or "
                        "unix:/path",
                        listen[i]);
    }
    if (h->hosts)
        o->hosts = take_list(r, h->hosts, "http.hosts", 16);
    o->token_file = h->token_file.text;
    if (h->token.text && strncmp(h->token.text, "file:", 5) == 0)
        o->token_file = h->token.text + 5;
    else if (h->token.text)
        tn_complain(r, d->http_line, "http.token: give file:/path, a file that holds the token");
    o->reads_token = h->reads == 1;
    o->tls_cert = h->tls_cert.text;
    o->tls_key = h->tls_key.text;
    o->tls_client_ca = h->tls_client_ca.text;
    if (!o->tls_cert != !o->tls_key)
        tn_complain(r, d->http_line, "http: tls_cert and tls_key belong together");
    if (o->reads_token && !o->token_file)
        tn_complain(r, d->http_line, "http.reads: token needs token_file");
}

/* Those who ask instead of being run: how long an answer holds (supervise/machine.c). */
static void take_answers(struct tn_reader *r, const struct tn_draft *d,
                         struct tn_config_election *e)
{
    struct tn_run_options *o = &e->run;
    char hold[TN_DURATION_TEXT];

    if (d->run.command && d->run.answer_for_ms)
        tn_complain(r, d->answer_line, "run.answer_for: only for elections without a command");
    if (d->run.command || e->timing.hold_ns == 0)
        return;
    o->answer_ns =
        d->run.answer_for_ms ? d->run.answer_for_ms * TN_MS : e->timing.hold_ns / 2 / TN_MS * TN_MS;
    if (o->answer_ns >= e->timing.hold_ns) {
        tn_duration_format(e->timing.hold_ns / TN_MS * TN_MS, hold);
        tn_complain(r, d->answer_line,
                    "run.answer_for: give less than D = %s: an answer must run out before the "
                    "lease can pass on",
                    hold);
    }
    /* The drain lasts until the last answer has run out, and the hook has ended. */
    int64_t drain_ms = (o->answer_ns + o->hook_timeout_ns) / TN_MS;
    if ((o->elector.grace_ms ? o->elector.grace_ms : 8000) < drain_ms)
        o->elector.grace_ms = drain_ms;
}

static void check_fence(struct tn_reader *r, const struct tn_draft *d,
                        const struct tn_config_election *e)
{
    const struct tn_run_options *o = &e->run;
    struct tenure_error err;

    if (!o->fence_command != !o->fence_after_ns)
        tn_complain(r, d->run_line, "run: fence_command and fence_after belong together");
    else if (o->fence_command && e->timing.hold_ns &&
             tn_timing_explain_fence(&e->timing, o->fence_after_ns, &err))
        tn_complain(r, d->run_line, "run.fence_after: %s", err.text);
}

/* There is no default: where every machine has a store of its own, every machine leads. */
static void take_store(struct tn_reader *r, const struct tn_draft *d, struct tn_config_election *e)
{
    unsigned line = d->coordinate_line ? d->coordinate_line : d->line, before = r->n_complaints;

    tn_place_url(r, &d->coordinate.place, line, "coordinate", &e->store);
    if (e->store.text)
        return;
    e->store = (struct tn_text){"noop:", "noop:"};
    if (r->n_complaints == before && !r->store_missing)
        tn_complain(r, line,
                    "coordinate: no store is given: write 'coordinate: {store: "
                    "\"postgres://db/app\"}', or 'type: sqlite' and 'path' on one host; 'type: "
                    "noop' if every machine may lead");
    r->store_missing = true;
}

bool tn_draft_settle(struct tn_reader *r, const struct tn_draft *d, enum tn_log_format log,
                     struct tn_config_election *e)
{
    const struct tn_draft_coordinate *c = &d->coordinate;
    struct tenure_elector_options *o = &e->run.elector;
    unsigned before = r->n_complaints;

    *e = (struct tn_config_election){.line = d->line, .run.elector = TENURE_ELECTOR_OPTIONS};
    take_name(r, d, e);
    take_store(r, d, e);
    o->name = e->name.text;
    o->store = e->store.text;
    o->id = c->id.text;
    o->address = c->address.text;
    o->build = c->build.text;
    o->priority = (int32_t)c->priority;
    o->ttl_ms = c->ttl_ms;
    o->renew_ms = c->renew_ms;
    o->kill_ms = c->kill_ms;
    o->rho_ppm = c->drift_ppm;
    if (o->id && strlen(o->id) > TENURE_ID_MAX)
        tn_complain(r, d->coordinate_line, "coordinate.holder_id: at most %d bytes", TENURE_ID_MAX);
    e->run.prefer = (enum tn_prefer)c->prefer;
    e->run.preempt = c->preempt;
    e->run.preempt_delay_ns = c->preempt_delay_ns;
    e->run.log = log;
    take_run(r, d, e);
    take_state(r, d, e);
    take_times(r, d, e);
    take_answers(r, d, e);
    check_fence(r, d, e);
    tn_draft_settle_http(r, d, &e->run.api);
    return r->n_complaints == before && !r->no_memory;
}
