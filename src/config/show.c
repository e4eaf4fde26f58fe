#include "config/show.h"

#include <inttypes.h>
#include <signal.h>
#include <string.h>

#include "base/duration.h"
#include "base/url.h"
#include "config/draft.h"

static const char *text_of(int64_t ns, char out[TN_DURATION_TEXT])
{
    tn_duration_format(ns >= TN_MS ? ns / TN_MS * TN_MS : ns, out);
    return out;
}

/* ---- For people ---------------------------------------------------------- */

static void line(FILE *to, const char *name, const char *value)
{
    if (value)
        fprintf(to, "  %-16s %s\n", name, value);
}

/* An address may have a password in it. */
static const char *probe_of(const char *spec, char *out, size_t size)
{
    if (!spec || strncmp(spec, "http", 4) != 0)
        return spec;
    tenure_url_redact(spec, out, size);
    return out;
}

static void show_time(FILE *to, const char *name, int64_t ns)
{
    char text[TN_DURATION_TEXT];

    line(to, name, text_of(ns, text));
}

static void show_timing(const struct tn_timing *t, FILE *to)
{
    char w[TN_DURATION_TEXT], d[TN_DURATION_TEXT], k[TN_DURATION_TEXT], renew[TN_DURATION_TEXT];
    char request[TN_DURATION_TEXT], sum[TN_DURATION_TEXT], grace[TN_DURATION_TEXT];
    char late[TN_DURATION_TEXT];
    double rho = t->rho_ppm / 1e6;
    int64_t wait = (int64_t)((double)t->ttl_ns / (1 - rho)) / TN_MS * TN_MS;

    fprintf(to, "  times\n");
    fprintf(to, "    W = %-10s ttl: standbys wait this long after the last renewal they saw\n",
            text_of(t->ttl_ns, w));
    fprintf(to, "    K = %-10s kill time: from D until nothing of the program is left\n",
            text_of(t->kill_ns, k));
    fprintf(to,
            "    D = %-10s W x (1 - %.4g) / (1 + %.4g) - K: how long a holder may act after it\n",
            text_of(t->hold_ns, d), rho, rho);
    fprintf(to, "    %-14s sent its last good renewal; clock rates may be off by %.4g %%\n", "",
            rho * 100);
    fprintf(to, "    renew %-8s + 2 x request %s = %s, within D: one lost request costs nothing\n",
            text_of(t->renew_ns, renew), text_of(t->request_ns, request),
            text_of(t->renew_ns + 2 * t->request_ns, sum));
    fprintf(to, "    grace %-8s when renewals fail: TERM this long before D, KILL at D\n",
            text_of(t->grace_ns, grace));
    fprintf(to,
            "    take-over      at most %s after a crash of the whole machine: W / (1 - %.4g)\n",
            text_of(wait, late), rho);
}

static void show_command(const struct tn_config_election *e, FILE *to)
{
    fprintf(to, "  %-16s", "command");
    if (!e->command)
        fprintf(to, " none: programs ask over HTTP, and stop when left_ms has passed");
    for (size_t i = 0; i < e->n_command; i++) {
        bool plain = e->command[i].shown[0] && !strpbrk(e->command[i].shown, " \t'\"$\\|&;<>()`");

        fprintf(to, plain ? " %s" : " '%s'", e->command[i].shown);
    }
    fputc('\n', to);
    for (size_t i = 0; e->env && e->env[i]; i++)
        fprintf(to, "  %-16s %.*s=***\n", i ? "" : "env", (int)strcspn(e->env[i], "="), e->env[i]);
}

static void show_run(const struct tn_config_election *e, FILE *to)
{
    const struct tn_run_options *o = &e->run;
    char number[16], probe[TN_CONFIG_TEXT_MAX + 16];

    show_command(e, to);
    line(to, "user", o->program.user);
    line(to, "chdir", o->program.cwd);
    if (e->command) {
        line(to, "stop_signal", sigabbrev_np(o->stop_signal));
        show_time(to, "grace", (o->elector.grace_ms ? o->elector.grace_ms : 8000) * TN_MS);
        line(to, "on_exit", tn_config_exits[o->on_exit]);
        line(to, "contain", tn_config_contains[o->contain]);
    } else
        show_time(to, "answer_for", o->answer_ns);
    line(to, "on_loss", tn_config_losses[o->on_loss]);
    if (o->on_exit == TN_EXIT_RESTART && e->command) {
        snprintf(number, sizeof number, "%d", o->crash_limit);
        line(to, "crash_limit", number);
    }
    line(to, "probe", probe_of(o->probe.spec, probe, sizeof probe));
    line(to, "candidate_probe", probe_of(o->candidate_probe.spec, probe, sizeof probe));
    line(to, "on_started", o->on_started);
    line(to, "on_stopped", o->on_stopped);
    line(to, "on_new_leader", o->on_new_leader);
    line(to, "fence_command", o->fence_command);
    if (o->fence_after_ns)
        show_time(to, "fence_after", o->fence_after_ns);
    line(to, "warm_file", o->warm_file);
    line(to, "watchdog", o->watchdog);
    if (o->start_timeout_ns)
        show_time(to, "start_timeout", o->start_timeout_ns);
    if (o->orphan_grace_ns)
        show_time(to, "orphan_grace", o->orphan_grace_ns);
    if (o->release_delay_ns)
        show_time(to, "release_delay", o->release_delay_ns);
}

static void show_http(const struct tn_api_options *o, FILE *to)
{
    for (size_t i = 0; o->listen[i]; i++)
        line(to, i ? "" : "listen", o->listen[i]);
    if (!o->listen[0])
        return;
    line(to, "token_file", o->token_file ? o->token_file : "none: no changes over TCP");
    line(to, "reads", tn_config_reads[o->reads_token]);
    for (size_t i = 0; o->hosts && o->hosts[i]; i++)
        line(to, i ? "" : "hosts", o->hosts[i]);
    line(to, "tls_cert", o->tls_cert);
    line(to, "tls_client_ca", o->tls_client_ca);
}

static void show_election(const struct tn_config_election *e, FILE *to)
{
    const struct tenure_elector_options *o = &e->run.elector;
    char number[16];

    fprintf(to, "\nelection %s\n", e->name.shown);
    line(to, "store", e->store.shown);
    line(to, "state", e->state.shown);
    for (size_t i = 0; e->run.seal && e->run.seal[i]; i++)
        line(to, i ? "" : "seal", e->run.seal[i]);
    line(to, "holder_id",
         o->id ? o->id : "chosen at start: the host name; -2, -3 ... if it is taken");
    line(to, "address", o->address);
    line(to, "build", o->build);
    snprintf(number, sizeof number, "%d", (int)o->priority);
    line(to, "priority", o->priority ? number : NULL);
    line(to, "prefer", e->run.prefer ? tn_config_prefers[e->run.prefer] : NULL);
    if (e->run.preempt)
        show_time(to, "preempt after", e->run.preempt_delay_ns);
    show_run(e, to);
    show_http(&e->run.api, to);
    show_timing(&e->timing, to);
}

void tn_config_show(const struct tn_config *c, FILE *to)
{
    fprintf(to, "%s: %zu election%s, can be used\n", c->file, c->n_elections,
            c->n_elections == 1 ? "" : "s");
    if (c->api.listen[0]) {
        fprintf(to, "\nhttp\n");
        show_http(&c->api, to);
    }
    for (size_t i = 0; i < c->n_elections; i++)
        show_election(&c->elections[i], to);
    fprintf(to, "\nlog\n");
    line(to, "format", tn_config_logs[c->log]);
    line(to, "level", tn_config_levels[c->log_level]);
    line(to, "time", tn_config_stamps[c->log_stamp]);
}

/* ---- For programs -------------------------------------------------------- */

static void set_text(json_t *to, const char *name, const char *value)
{
    if (value)
        json_object_set_new(to, name, json_string(value));
}

static void set_ms(json_t *to, const char *name, int64_t ns)
{
    json_object_set_new(to, name, json_integer(ns / TN_MS));
}

static json_t *timing_json(const struct tn_timing *t)
{
    json_t *j = json_object();

    set_ms(j, "ttl_ms", t->ttl_ns);
    set_ms(j, "hold_ms", t->hold_ns);
    set_ms(j, "kill_ms", t->kill_ns);
    set_ms(j, "renew_ms", t->renew_ns);
    set_ms(j, "request_ms", t->request_ns);
    set_ms(j, "grace_ms", t->grace_ns);
    json_object_set_new(j, "clock_drift_ppm", json_integer(t->rho_ppm));
    return j;
}

static json_t *run_json(const struct tn_config_election *e)
{
    const struct tn_run_options *o = &e->run;
    json_t *j = json_object(), *words = json_array(), *env = json_array();
    char probe[TN_CONFIG_TEXT_MAX + 16];

    for (size_t i = 0; i < e->n_command; i++)
        json_array_append_new(words, json_string(e->command[i].shown));
    for (size_t i = 0; e->env && e->env[i]; i++)
        json_array_append_new(env, json_stringn(e->env[i], strcspn(e->env[i], "=")));
    json_object_set_new(j, "command", e->command ? words : json_null());
    if (!e->command)
        json_decref(words);
    json_object_set_new(j, "env", env);
    if (!e->command)
        set_ms(j, "answer_for_ms", o->answer_ns);
    set_text(j, "user", o->program.user);
    set_text(j, "chdir", o->program.cwd);
    set_text(j, "stop_signal", sigabbrev_np(o->stop_signal));
    set_text(j, "on_loss", tn_config_losses[o->on_loss]);
    set_text(j, "on_exit", tn_config_exits[o->on_exit]);
    set_text(j, "contain", tn_config_contains[o->contain]);
    set_text(j, "probe", probe_of(o->probe.spec, probe, sizeof probe));
    set_text(j, "candidate_probe", probe_of(o->candidate_probe.spec, probe, sizeof probe));
    set_text(j, "on_started", o->on_started);
    set_text(j, "on_stopped", o->on_stopped);
    set_text(j, "on_new_leader", o->on_new_leader);
    set_text(j, "fence_command", o->fence_command);
    return j;
}

static json_t *http_json(const struct tn_api_options *o)
{
    json_t *j = json_object(), *listen = json_array();

    for (size_t i = 0; o->listen[i]; i++)
        json_array_append_new(listen, json_string(o->listen[i]));
    json_object_set_new(j, "listen", listen);
    set_text(j, "token_file", o->token_file);
    set_text(j, "reads", tn_config_reads[o->reads_token]);
    set_text(j, "tls_cert", o->tls_cert);
    set_text(j, "tls_client_ca", o->tls_client_ca);
    return j;
}

static json_t *election_json(const struct tn_config_election *e)
{
    const struct tenure_elector_options *o = &e->run.elector;
    json_t *j = json_object(), *seal = json_array();

    for (size_t i = 0; e->run.seal && e->run.seal[i]; i++)
        json_array_append_new(seal, json_string(e->run.seal[i]));
    set_text(j, "name", e->name.shown);
    set_text(j, "store", e->store.shown);
    set_text(j, "state", e->state.shown);
    json_object_set_new(j, "seal", seal);
    set_text(j, "holder_id", o->id);
    set_text(j, "address", o->address);
    set_text(j, "build", o->build);
    json_object_set_new(j, "priority", json_integer(o->priority));
    json_object_set_new(j, "run", run_json(e));
    json_object_set_new(j, "http", http_json(&e->run.api));
    json_object_set_new(j, "times", timing_json(&e->timing));
    return j;
}

json_t *tn_config_json(const struct tn_config *c)
{
    json_t *j = json_object(), *list = json_array();

    set_text(j, "file", c->file);
    for (unsigned i = 0; i < c->n_complaints && i < TN_CONFIG_COMPLAINTS; i++)
        json_array_append_new(list, json_string(c->complaints[i]));
    if (c->n_complaints) {
        json_object_set_new(j, "errors", list);
        return j;
    }
    for (size_t i = 0; i < c->n_elections; i++)
        json_array_append_new(list, election_json(&c->elections[i]));
    json_object_set_new(j, "elections", list);
    json_object_set_new(j, "http", http_json(&c->api));
    json_object_set_new(j, "log",
                        json_pack("{s:s, s:s, s:s}", "format", tn_config_logs[c->log], "level",
                                  tn_config_levels[c->log_level], "time",
                                  tn_config_stamps[c->log_stamp]));
    return j;
}
