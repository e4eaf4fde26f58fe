/* What a script makes happen to a candidate. */
#include <stdlib.h>
#include <string.h>

#include "base/duration.h"
#include "core/elector_inner.h"
#include "golden_words.h"

struct candidate *candidate_named(struct world *w, const char *name)
{
    for (unsigned i = 0; name && i < w->n; i++) {
        if (strcmp(w->candidates[i].name, name) == 0)
            return &w->candidates[i];
    }
    return NULL;
}

/* A life of a candidate: a fresh process under the same id. */
static void be_born(struct world *w, struct candidate *c)
{
    char name[24];

    c->lives++;
    memset(c->config.incarnation, 0, TENURE_NONCE_SIZE);
    memcpy(c->config.incarnation, c->name, 1);
    c->config.incarnation[1] = (uint8_t)c->lives;
    snprintf(name, sizeof name, "%.15s/%u", c->name, c->lives);
    world_name_nonce(w, c->config.incarnation, name);
    memset(&c->request, 0, sizeof c->request);
    memset(&c->last, 0, sizeof c->last);
    c->running = c->sealing = c->dying = false;
    c->shown_ns = 0;
    tn_elector_init(&c->elector, &c->config);
}

void candidate_add(struct words *words)
{
    struct world *w = words->w;
    struct candidate *c = &w->candidates[w->n];

    if (w->n == CANDIDATES) {
        print_fault(w, "too many candidates");
        return;
    }
    const char *name = words_take(words);
    snprintf(c->name, sizeof c->name, "%s", name);
    snprintf(c->config.id, sizeof c->config.id, "%s", name);
    c->config.drain_ns = words_duration(words, "drain", 8 * TN_S);
    c->config.purges = words_take_if(words, "purges");
    c->config.prove_ns = words_duration(words, "prove", 0);
    c->config.priority = (int32_t)words_number(words, "priority", 0);
    words_copy(words, "address", c->config.address, sizeof c->config.address);
    words_copy(words, "build", c->config.build, sizeof c->config.build);
    c->dies_ns = words_duration(words, "dies", TN_S / 10);
    if (!words_timing(words, &c->config.timing)) {
        print_fault(w, "%s cannot be a candidate", c->name);
        return;
    }
    w->n++;
    be_born(w, c);
}

/* ---- What happens to a candidate ----------------------------------------- */

static void on_start(struct words *words, struct candidate *c)
{
    struct tn_event ev = {.kind = TN_EV_START, .floor = words_number(words, "floor", 0)};

    world_event(words->w, c, &ev);
}

static void seal_event(struct words *words, struct candidate *c, enum tn_event_kind kind)
{
    struct tn_event ev = {.kind = kind, .floor = words_number(words, "floor", 0)};
    const char *grant = words_option(words, "grant");

    c->sealing = c->sealing && kind == TN_EV_UNSEALED;
    ev.gained = words_take_if(words, "gained");
    ev.final = words_take_if(words, "final");
    memcpy(ev.grant, c->elector.grant, TENURE_NONCE_SIZE);
    if (grant)
        world_nonce(words->w, grant, ev.grant);
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

static void on_unsealed(struct words *words, struct candidate *c)
{
    seal_event(words, c, TN_EV_UNSEALED);
}

static void on_yield(struct words *words, struct candidate *c)
{
    const char *until = words_option(words, "until");
    struct tn_event ev = {.kind = TN_EV_YIELD, .until_ns = until ? words_time(words, until) : 0};

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
    control(words, c, c->elector.may_claim, words_duration(words, "by", 0));
}

static void on_timing(struct words *words, struct candidate *c)
{
    struct tn_timing timing;
    struct tn_event ev = {.kind = TN_EV_TIMING, .timing = &timing};

    if (words_timing(words, &timing))
        world_event(words->w, c, &ev);
}

static void on_proved(struct words *words, struct candidate *c)
{
    struct tn_event ev = {.kind = TN_EV_PROVED};

    ev.status = words_take_if(words, "failed") ? TENURE_UNAVAILABLE : TENURE_OK;
    world_event(words->w, c, &ev);
}

/* ---- What a script does with a candidate --------------------------------- */

static void do_answered(struct words *words, struct candidate *c)
{
    world_answer(words->w, c);
}

static void do_unknown(struct words *words, struct candidate *c)
{
    world_answer_as(words->w, c, TENURE_UNKNOWN, words_take_if(words, "applied"));
}

static void do_conflicts(struct words *words, struct candidate *c)
{
    world_answer_as(words->w, c, TENURE_CONFLICT, false);
}

static void do_fails(struct words *words, struct candidate *c)
{
    const char *word = words->at < words->n ? words_take(words) : "unavailable";

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
    be_born(words->w, c);
}

/* All that the swap which is out would write. */
static void do_writes(struct words *words, struct candidate *c)
{
    struct world *w = words->w;
    const struct tn_lease *r = &c->request.value.record;

    fprintf(w->out, "  holder \"%s\" incarnation %s grant %s epoch %llu\n", r->holder,
            show_nonce(w, r->incarnation), show_nonce(w, r->grant), (unsigned long long)r->epoch);
    fprintf(w->out, "  transitions %llu acquired %llu renewed %llu ttl %u ms\n",
            (unsigned long long)r->transitions, (unsigned long long)r->acquired_ms,
            (unsigned long long)r->renewed_ms, r->ttl_ms);
    fprintf(w->out, "  priority %d address \"%s\" build \"%s\" cause \"%s\"\n", r->priority,
            r->address, r->build, r->cause);
}

static void do_leads(struct words *words, struct candidate *c)
{
    struct world *w = words->w;

    print_line(w, c->name, "%s, %s", tn_phase_word(c->elector.phase),
               tn_elector_leads(&c->elector, w->now_ns) ? "leads" : "does not lead");
}

/* Told as "< verb ..."; those without a function carry nothing. */
static const struct {
    const char *verb;
    enum tn_event_kind kind;
    void (*obey)(struct words *words, struct candidate *c);
} events[] = {
    {"start", TN_EV_START, on_start},
    {"timer", TN_EV_TIMER, NULL},
    {"changed", TN_EV_CHANGED, NULL},
    {"read", TN_EV_READ, NULL},
    {"swapped", TN_EV_SWAPPED, NULL},
    {"sealed", TN_EV_SEALED, on_sealed},
    {"fenced", TN_EV_FENCED, on_fenced},
    {"stopped", TN_EV_STOPPED, NULL},
    {"fired", TN_EV_FIRED, NULL},
    {"shutdown", TN_EV_SHUTDOWN, NULL},
    {"yield", TN_EV_YIELD, on_yield},
    {"pause", TN_EV_CONTROL, on_pause},
    {"resume", TN_EV_CONTROL, on_resume},
    {"delay", TN_EV_CONTROL, on_delay},
    {"unsealed", TN_EV_UNSEALED, on_unsealed},
    {"timing", TN_EV_TIMING, on_timing},
    {"proved", TN_EV_PROVED, on_proved},
    {"nonsense", (enum tn_event_kind)99, NULL},
};

/* Told by what follows from them. */
static const struct {
    const char *verb;
    void (*obey)(struct words *words, struct candidate *c);
} deeds[] = {
    {"answered", do_answered}, {"unknown", do_unknown}, {"conflicts", do_conflicts},
    {"fails", do_fails},       {"wakes", do_wakes},     {"wins", do_wins},
    {"restart", do_restart},   {"leads", do_leads},     {"writes", do_writes},
};

static bool obey_event(struct words *words, struct candidate *c, const char *verb)
{
    char told[256] = "";

    for (unsigned i = words->at; i < words->n; i++)
        snprintf(told + strlen(told), sizeof told - strlen(told), " %s", words->word[i]);
    for (size_t i = 0; i < sizeof events / sizeof events[0]; i++) {
        if (strcmp(verb, events[i].verb) != 0)
            continue;
        print_line(words->w, c->name, "< %s%s", verb, told);
        if (events[i].obey)
            events[i].obey(words, c);
        else
            world_wake(words->w, c, events[i].kind);
        return true;
    }
    return false;
}

void candidate_obey(struct words *words, struct candidate *c)
{
    const char *verb = words_take(words);

    if (obey_event(words, c, verb))
        return;
    for (size_t i = 0; i < sizeof deeds / sizeof deeds[0]; i++) {
        if (strcmp(verb, deeds[i].verb) == 0) {
            deeds[i].obey(words, c);
            return;
        }
    }
    print_fault(words->w, "%s what? \"%s\"", c->name, verb);
}
