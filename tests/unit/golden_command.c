/*
 * The language of the timelines.  A line is
 *
 *     [at SECONDS | +SECONDS] COMMAND
 *
 *   candidate NAME [ttl= renew= kill= grace= request= poll= rho=ppm drain= dies= notifies]
 *   chapter                       everything begins anew, at 0
 *   plan ttl= ...                 tn_timing_plan()
 *   wall MS | dice N              the wall clock; the jitter of the steps that follow
 *   put held NAME grant=WORD epoch=N ttl=D | free epoch= | tombstone [epoch=] | corrupt
 *   vanish | restore vN           the register is lost, or an old value comes back
 *   land NAME#N                   a request of unknown outcome arrives
 *   run until SECONDS [latency=D] everybody's requests are answered
 *   freeze | thaw | cut | heal NAME   for run: a stopped process, a lost network
 *   epoch previous= wall= floor=  tn_epoch_next()
 *
 *   NAME start [floor=N] | timer | wakes | changed | restart
 *   NAME answered                 its request reaches the store, and the answer comes back
 *   NAME unknown [applied]        no answer; it was applied, or may land later
 *   NAME fails [STATUS] | conflicts   another answer, nothing applied
 *   NAME sealed [grant=] | fenced floor= [grant=] | stopped | fired
 *   NAME yield [until=] | shutdown | pause | resume | delay by=D | timing ttl= ...
 *   NAME leads                    what is-leader says now
 *   NAME wins                     start, and answer until it leads; told in one line
 */
#include "golden_world.h"

#include <stdlib.h>
#include <string.h>

#include "base/duration.h"
#include "core/elector_inner.h"

#define WORDS 16

struct words {
    char text[512];
    char *word[WORDS];
    unsigned n, at;
    struct world *w;
};

/* ---- Words --------------------------------------------------------------- */

static void split(struct words *words, const char *line)
{
    char *rest = words->text;

    snprintf(words->text, sizeof words->text, "%s", line);
    for (char *word; (word = strtok_r(rest, " \t", &rest)) && words->n < WORDS;)
        words->word[words->n++] = word;
}

static const char *take(struct words *words)
{
    return words->at < words->n ? words->word[words->at++] : "";
}

static bool take_if(struct words *words, const char *word)
{
    if (words->at == words->n || strcmp(words->word[words->at], word) != 0)
        return false;
    words->at++;
    return true;
}

/* The value of NAME=value, wherever it stands; NULL if it does not.  It is used up. */
static const char *option(struct words *words, const char *name)
{
    size_t len = strlen(name);

    for (unsigned i = words->at; i < words->n; i++) {
        char *word = words->word[i];

        if (strncmp(word, name, len) == 0 && word[len] == '=') {
            memmove(&words->word[i], &words->word[i + 1],
                    (words->n - i - 1) * sizeof words->word[0]);
            words->n--;
            return word + len + 1;
        }
    }
    return NULL;
}

static int64_t to_time(struct words *words, const char *text)
{
    char unit[64];
    int64_t ns = 0;

    snprintf(unit, sizeof unit, "%ss", text);
    if (!tn_duration_parse(unit, &ns))
        print_fault(words->w, "\"%s\" is not a time in seconds", text);
    return ns;
}

static int64_t duration_or(struct words *words, const char *name, int64_t other)
{
    const char *text = option(words, name);
    bool negative = text && text[0] == '-';

    if (text && !tn_duration_parse(text + negative, &other))
        print_fault(words->w, "\"%s\" is not a duration", text);
    return negative ? -other : other;
}

static uint64_t number_or(struct words *words, const char *name, uint64_t other)
{
    const char *text = option(words, name);
    char *end = NULL;

    if (!text)
        return other;
    if (strcmp(text, "max") == 0)
        return TN_EPOCH_MAX;
    if (strncmp(text, "max-", 4) == 0)
        return TN_EPOCH_MAX - strtoull(text + 4, NULL, 10);
    other = strtoull(text, &end, 0);
    if (*end)
        print_fault(words->w, "\"%s\" is not a number", text);
    return other;
}

/* A nonce by its name; one that is new gets bytes of its own. */
static void nonce_named(struct world *w, const char *name, uint8_t nonce[TENURE_NONCE_SIZE])
{
    if (world_find_nonce(w, name, nonce))
        return;
    memset(nonce, 0xdd, TENURE_NONCE_SIZE);
    nonce[0] = (uint8_t)w->n_names;
    world_name_nonce(w, nonce, name);
}

static struct candidate *candidate_named(struct world *w, const char *name)
{
    for (unsigned i = 0; i < w->n; i++) {
        if (strcmp(w->candidates[i].name, name) == 0)
            return &w->candidates[i];
    }
    return NULL;
}

/* ---- Candidates ---------------------------------------------------------- */

static bool plan_timing(struct words *words, struct tn_timing *timing)
{
    unsigned before = words->n;
    static const char *const faults[] = {"ok",    "ttl",     "rho",  "kill",
                                         "renew", "request", "poll", "grace"};
    struct tn_timing_wish wish = {
        .ttl_ns = duration_or(words, "ttl", 0),
        .renew_ns = duration_or(words, "renew", 0),
        .kill_ns = duration_or(words, "kill", 0),
        .grace_ns = duration_or(words, "grace", 0),
        .request_ns = duration_or(words, "request", 0),
        .poll_ns = duration_or(words, "poll", 0),
        .rho_ppm = (uint32_t)number_or(words, "rho", 0),
        .notifies = take_if(words, "notifies"),
    };
    enum tn_timing_fault fault = tn_timing_plan(&wish, timing);
    char ttl[TEXT], d[TEXT], k[TEXT], renew[TEXT], request[TEXT], retry[TEXT], poll[TEXT],
        grace[TEXT];

    if (fault) {
        fprintf(words->w->out, "  refused: %s\n", faults[fault]);
        return false;
    }
    if (words->n == before)
        return true; /* the usual ones */
    fprintf(words->w->out,
            "  ttl %s  D %s  K %s  renew %s  request %s  retry %s  poll %s  grace %s\n",
            show_time(timing->ttl_ns, ttl), show_time(timing->hold_ns, d),
            show_time(timing->kill_ns, k), show_time(timing->renew_ns, renew),
            show_time(timing->request_ns, request), show_time(timing->retry_ns, retry),
            show_time(timing->poll_ns, poll), show_time(timing->grace_ns, grace));
    return true;
}

/* A life of a candidate: a fresh process under the same id. */
static void be_born(struct candidate *c)
{
    c->lives++;
    memset(c->config.incarnation, 0, TENURE_NONCE_SIZE);
    memcpy(c->config.incarnation, c->name, 1);
    c->config.incarnation[1] = (uint8_t)c->lives;
    memset(&c->request, 0, sizeof c->request);
    memset(&c->last, 0, sizeof c->last);
    c->running = false;
    c->seal_at_ns = c->death_at_ns = c->shown_ns = 0;
    tn_elector_init(&c->elector, &c->config);
}

static void do_candidate(struct words *words)
{
    struct world *w = words->w;
    struct candidate *c = &w->candidates[w->n];

    if (w->n == CANDIDATES) {
        print_fault(w, "too many candidates");
        return;
    }
    const char *name = take(words);
    snprintf(c->name, sizeof c->name, "%s", name);
    snprintf(c->config.id, sizeof c->config.id, "%s", name);
    c->config.drain_ns = duration_or(words, "drain", 8 * TN_S);
    c->config.priority = (int32_t)number_or(words, "priority", 0);
    c->dies_ns = duration_or(words, "dies", TN_S / 10);
    if (!plan_timing(words, &c->config.timing)) {
        print_fault(w, "%s cannot be a candidate", c->name);
        return;
    }
    w->n++;
    be_born(c);
}

/* ---- The register, by hand ----------------------------------------------- */

static void do_put(struct words *words)
{
    struct world *w = words->w;
    struct value v = {0};
    const char *what = take(words);
    char when[TEXT];

    v.record.epoch = number_or(words, "epoch", 1);
    v.record.ttl_ms = (uint32_t)(duration_or(words, "ttl", 15 * TN_S) / TN_MS);
    v.record.transitions = number_or(words, "transitions", 1);
    nonce_named(w, "stranger", v.record.incarnation);
    if (strcmp(what, "held") == 0) {
        const char *grant = option(words, "grant");

        nonce_named(w, grant ? grant : "g1", v.record.grant);
        snprintf(v.record.holder, sizeof v.record.holder, "%s", take(words));
    } else if (strcmp(what, "tombstone") == 0) {
        v.tombstone = true;
        v.bare = take_if(words, "empty");
    } else if (strcmp(what, "nothing") == 0) {
        v.bare = true;
    } else if (strcmp(what, "corrupt") == 0) {
        v.corrupt = true;
    } else if (strcmp(what, "free") != 0) {
        print_fault(w, "put what? \"%s\"", what);
    }
    world_put(w, &v);
    fprintf(w->out, "[%7s] store ", show_time(w->now_ns, when));
    print_value(w, &w->now);
    fputc('\n', w->out);
}

static void do_restore(struct words *words)
{
    struct world *w = words->w;
    const char *version = take(words);

    for (unsigned i = 0; i < w->versions; i++) {
        if (strcmp(w->past[i].token.version, version) == 0) {
            w->now = w->past[i];
            print_line(w, "store", "%s is back", version);
            return;
        }
    }
    print_fault(w, "there never was a %s", version);
}

static void do_epoch(struct words *words)
{
    uint64_t previous = number_or(words, "previous", 0);
    uint64_t wall = number_or(words, "wall", 0);
    uint64_t epoch = tn_epoch_next(previous, wall, number_or(words, "floor", 0));

    if (epoch > TN_EPOCH_MAX - 1000)
        fprintf(words->w->out, "  max-%llu\n", (unsigned long long)(TN_EPOCH_MAX - epoch));
    else
        fprintf(words->w->out, "  %llu\n", (unsigned long long)epoch);
}

/* ---- What happens to a candidate ----------------------------------------- */

static void on_start(struct words *words, struct candidate *c)
{
    struct tn_event ev = {.kind = TN_EV_START, .floor = number_or(words, "floor", 0)};

    world_event(words->w, c, &ev);
}

static void on_timer(struct words *words, struct candidate *c)
{
    world_wake(words->w, c, TN_EV_TIMER);
}

static void on_changed(struct words *words, struct candidate *c)
{
    world_wake(words->w, c, TN_EV_CHANGED);
}

/* Answers that nobody asked for. */
static void on_read(struct words *words, struct candidate *c)
{
    world_wake(words->w, c, TN_EV_READ);
}

static void on_swapped(struct words *words, struct candidate *c)
{
    world_wake(words->w, c, TN_EV_SWAPPED);
}

static void seal_event(struct words *words, struct candidate *c, enum tn_event_kind kind)
{
    struct tn_event ev = {.kind = kind, .floor = number_or(words, "floor", 0)};
    const char *grant = option(words, "grant");

    c->seal_at_ns = 0;
    memcpy(ev.grant, c->elector.grant, TENURE_NONCE_SIZE);
    if (grant)
        nonce_named(words->w, grant, ev.grant);
    world_event(words->w, c, &ev);
}

static void on_sealed(struct words *words, struct candidate *c)
{
    seal_event(words, c, TN_EV_SEALED);
}

static void on_fenced(struct words *words, struct candidate *c)
{
    seal_event(words, c, TN_EV_FENCED);
}

static void on_stopped(struct words *words, struct candidate *c)
{
    world_wake(words->w, c, TN_EV_STOPPED);
}

static void on_fired(struct words *words, struct candidate *c)
{
    world_wake(words->w, c, TN_EV_FIRED);
}

static void on_shutdown(struct words *words, struct candidate *c)
{
    world_wake(words->w, c, TN_EV_SHUTDOWN);
}

static void on_yield(struct words *words, struct candidate *c)
{
    const char *until = option(words, "until");
    struct tn_event ev = {.kind = TN_EV_YIELD, .until_ns = until ? to_time(words, until) : 0};

    world_event(words->w, c, &ev);
}

static void control(struct words *words, struct candidate *c, bool may_claim, int64_t delay_ns)
{
    struct tn_event ev = {.kind = TN_EV_CONTROL};

    ev.may_claim = may_claim;
    ev.claim_delay_ns = delay_ns;
    world_event(words->w, c, &ev);
}

static void on_pause(struct words *words, struct candidate *c)
{
    control(words, c, false, c->elector.claim_delay_ns);
}

static void on_resume(struct words *words, struct candidate *c)
{
    control(words, c, true, c->elector.claim_delay_ns);
}

static void on_delay(struct words *words, struct candidate *c)
{
    control(words, c, c->elector.may_claim, duration_or(words, "by", 0));
}

static void on_timing(struct words *words, struct candidate *c)
{
    struct tn_timing timing;
    struct tn_event ev = {.kind = TN_EV_TIMING, .timing = &timing};

    if (plan_timing(words, &timing))
        world_event(words->w, c, &ev);
}

/* ---- What a script does with a candidate --------------------------------- */

static void do_answered(struct words *words, struct candidate *c)
{
    world_answer(words->w, c);
}

static void do_unknown(struct words *words, struct candidate *c)
{
    world_answer_as(words->w, c, TENURE_UNKNOWN, take_if(words, "applied"));
}

static void do_conflicts(struct words *words, struct candidate *c)
{
    world_answer_as(words->w, c, TENURE_CONFLICT, false);
}

static void do_fails(struct words *words, struct candidate *c)
{
    const char *word = words->at < words->n ? take(words) : "unavailable";

    for (enum tenure_status status = TENURE_TIMEOUT; status <= TENURE_CANCELLED; status++) {
        if (strcmp(word, tenure_status_word(status)) == 0) {
            world_answer_as(words->w, c, status, false);
            return;
        }
    }
    print_fault(words->w, "\"%s\" is no status that fails", word);
}

static void do_wakes(struct words *words, struct candidate *c)
{
    struct world *w = words->w;

    if (!(c->last.set & TN_ACT_WAIT) || c->last.wait_until_ns < w->now_ns ||
        c->last.wait_until_ns >= TN_FOREVER) {
        print_fault(w, "%s waits for no time that is still to come", c->name);
        return;
    }
    w->now_ns = c->last.wait_until_ns;
    print_line(w, c->name, "< timer");
    world_wake(w, c, TN_EV_TIMER);
}

/* The usual beginning of a story, without its details. */
static void do_wins(struct words *words, struct candidate *c)
{
    struct world *w = words->w;
    FILE *out = w->out, *quiet = fopen("/dev/null", "w");
    char deadline[TEXT], until[TEXT];

    if (!quiet)
        abort();
    w->out = quiet;
    if (c->elector.phase == TN_PHASE_NEW)
        world_wake(w, c, TN_EV_START);
    for (int i = 0; i < 8 && c->request.out; i++)
        world_answer(w, c);
    world_wake(w, c, TN_EV_SEALED);
    w->out = out;
    fclose(quiet);
    if (!tn_elector_leads(&c->elector, w->now_ns))
        print_fault(w, "%s does not win", c->name);
    print_line(w, c->name, "leads: %s, epoch %llu, deadline %s, waits until %s",
               w->now.token.version, (unsigned long long)c->elector.epoch,
               show_time(c->last.deadline_ns, deadline), show_time(c->last.wait_until_ns, until));
}

static void do_restart(struct words *words, struct candidate *c)
{
    print_line(words->w, c->name, "is a new process");
    be_born(c);
}

static void do_leads(struct words *words, struct candidate *c)
{
    struct world *w = words->w;

    print_line(w, c->name, "%s, %s", tn_phase_word(c->elector.phase),
               tn_elector_leads(&c->elector, w->now_ns) ? "leads" : "does not lead");
}

static const struct {
    const char *verb;
    void (*obey)(struct words *words, struct candidate *c);
    bool event; /* is told as "< verb ..." */
} verbs[] = {
    {"start", on_start, true},      {"timer", on_timer, true},
    {"changed", on_changed, true},  {"read", on_read, true},
    {"swapped", on_swapped, true},  {"sealed", on_sealed, true},
    {"fenced", on_fenced, true},    {"stopped", on_stopped, true},
    {"fired", on_fired, true},      {"shutdown", on_shutdown, true},
    {"yield", on_yield, true},      {"pause", on_pause, true},
    {"resume", on_resume, true},    {"delay", on_delay, true},
    {"timing", on_timing, true},    {"answered", do_answered, false},
    {"unknown", do_unknown, false}, {"conflicts", do_conflicts, false},
    {"fails", do_fails, false},     {"wakes", do_wakes, false},
    {"wins", do_wins, false},       {"restart", do_restart, false},
    {"leads", do_leads, false},
};

static void obey_candidate(struct words *words, struct candidate *c)
{
    struct world *w = words->w;
    const char *verb = take(words);
    char told[256] = "";

    for (unsigned i = words->at; i < words->n; i++)
        snprintf(told + strlen(told), sizeof told - strlen(told), " %s", words->word[i]);
    for (size_t i = 0; i < sizeof verbs / sizeof verbs[0]; i++) {
        if (strcmp(verb, verbs[i].verb) != 0)
            continue;
        if (verbs[i].event)
            print_line(w, c->name, "< %s%s", verb, told);
        verbs[i].obey(words, c);
        return;
    }
    print_fault(w, "%s what? \"%s\"", c->name, verb);
}

/* ---- A line -------------------------------------------------------------- */

static void do_run(struct words *words)
{
    const char *until = take_if(words, "until") ? take(words) : "";

    world_run(words->w, to_time(words, until), duration_or(words, "latency", 10 * TN_MS));
}

static void do_to(struct words *words, const char *verb)
{
    struct candidate *c = candidate_named(words->w, take(words));

    if (!c) {
        print_fault(words->w, "%s whom?", verb);
        return;
    }
    if (verb[0] == 'f' || verb[0] == 't')
        c->frozen = verb[0] == 'f';
    else
        c->cut = verb[0] == 'c';
}

static void do_chapter(struct world *w)
{
    FILE *out = w->out;
    bool failed = w->failed;

    memset(w, 0, sizeof *w);
    w->out = out;
    w->failed = failed;
}

static void take_time(struct words *words)
{
    struct world *w = words->w;
    int64_t at = w->now_ns;

    if (take_if(words, "at"))
        at = to_time(words, take(words));
    else if (words->n && words->word[0][0] == '+')
        at += to_time(words, take(words) + 1);
    if (at < w->now_ns)
        print_fault(w, "time does not go back");
    else
        w->now_ns = at;
}

void world_obey(struct world *w, const char *line)
{
    struct words words = {.w = w};

    split(&words, line);
    take_time(&words);
    const char *verb = take(&words);
    struct candidate *c = candidate_named(w, verb);
    if (c)
        obey_candidate(&words, c);
    else if (strcmp(verb, "candidate") == 0)
        do_candidate(&words);
    else if (strcmp(verb, "chapter") == 0)
        do_chapter(w);
    else if (strcmp(verb, "plan") == 0)
        plan_timing(&words, &(struct tn_timing){0});
    else if (strcmp(verb, "put") == 0)
        do_put(&words);
    else if (strcmp(verb, "vanish") == 0)
        memset(&w->now, 0, sizeof w->now);
    else if (strcmp(verb, "restore") == 0)
        do_restore(&words);
    else if (strcmp(verb, "land") == 0)
        world_land(w, take(&words));
    else if (strcmp(verb, "run") == 0)
        do_run(&words);
    else if (strcmp(verb, "wall") == 0)
        w->wall_ms = strtoull(take(&words), NULL, 0);
    else if (strcmp(verb, "dice") == 0)
        w->dice = strtoull(take(&words), NULL, 0);
    else if (strcmp(verb, "epoch") == 0)
        do_epoch(&words);
    else if (strcmp(verb, "freeze") == 0 || strcmp(verb, "thaw") == 0 || strcmp(verb, "cut") == 0 ||
             strcmp(verb, "heal") == 0)
        do_to(&words, verb);
    else if (verb[0] != '#')
        print_fault(w, "what is \"%s\"?", verb);
    if (verb[0] != '#' && words.at < words.n)
        print_fault(w, "\"%s\" is too much", words.word[words.at]);
}
