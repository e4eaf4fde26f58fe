/* The clock, the register and the candidates of a timeline. */
#include "golden_world.h"

#include <string.h>

#include "core/elector_inner.h"

/* ---- Nonces by name ------------------------------------------------------ */

void world_name_nonce(struct world *w, const uint8_t nonce[TENURE_NONCE_SIZE], const char *name)
{
    if (w->n_names == NAMES) {
        print_fault(w, "too many nonces for one script");
        return;
    }
    memcpy(w->names[w->n_names].nonce, nonce, TENURE_NONCE_SIZE);
    snprintf(w->names[w->n_names].name, sizeof w->names[0].name, "%s", name);
    w->n_names++;
}

/* One that is new gets bytes of its own. */
void world_nonce(struct world *w, const char *name, uint8_t nonce[TENURE_NONCE_SIZE])
{
    for (unsigned i = 0; i < w->n_names; i++) {
        if (strcmp(w->names[i].name, name) == 0) {
            memcpy(nonce, w->names[i].nonce, TENURE_NONCE_SIZE);
            return;
        }
    }
    memset(nonce, 0xdd, TENURE_NONCE_SIZE);
    nonce[0] = (uint8_t)w->n_names;
    if (strcmp(name, "zero") == 0)
        memset(nonce, 0, TENURE_NONCE_SIZE);
    world_name_nonce(w, nonce, name);
}

/* ---- The register -------------------------------------------------------- */

static void write_value(struct world *w, const struct value *value)
{
    if (w->versions == VERSIONS) {
        print_fault(w, "too many versions for one script");
        return;
    }
    w->now = *value;
    w->past[w->versions++] = w->now;
}

static void next_version(struct world *w, struct value *value)
{
    snprintf(value->token.version, sizeof value->token.version, "v%u", w->versions + 1);
}

/* C2: version and nonce must be those expected. */
static bool apply(struct world *w, struct request *r)
{
    if (!tenure_token_equal(&r->expect, &w->now.token))
        return false;
    next_version(w, &r->value);
    write_value(w, &r->value);
    return true;
}

void world_put(struct world *w, const struct value *value, const char *nonce)
{
    struct value v = *value;
    char name[24];

    next_version(w, &v);
    snprintf(name, sizeof name, "edit#%u", ++w->edits);
    world_nonce(w, nonce ? nonce : name, v.token.nonce);
    write_value(w, &v);
}

void world_land(struct world *w, const char *name)
{
    for (int i = 0; i < LIMBO; i++) {
        struct request *r = &w->limbo[i];

        if (!r->out || strcmp(show_nonce(w, r->value.token.nonce), name) != 0)
            continue;
        bool landed = apply(w, r);
        print_line(w, "store", landed ? "%s lands as %s" : "%s fails: the register is at %s", name,
                   w->now.token.version);
        r->out = false;
        return;
    }
    print_fault(w, "no request %s is on its way", name);
}

/* ---- Steps --------------------------------------------------------------- */

static void remember_request(struct world *w, struct candidate *c, const struct tn_actions *out)
{
    struct request *r = &c->request;
    char name[24];

    if (!(out->set & (TN_ACT_READ | TN_ACT_SWAP)))
        return;
    memset(r, 0, sizeof *r);
    r->out = true;
    r->read = out->set & TN_ACT_READ;
    r->with_floor = r->read && out->with_floor;
    r->sent_ns = w->now_ns;
    r->by_ns = out->request_by_ns;
    if (r->read)
        return;
    r->expect = out->expect;
    r->value.record = out->record;
    memcpy(r->value.token.nonce, out->nonce, TENURE_NONCE_SIZE);
    snprintf(name, sizeof name, "%s#%u", c->name, ++c->swaps);
    world_name_nonce(w, out->nonce, name);
}

static void remember_program(struct world *w, struct candidate *c, const struct tn_actions *out)
{
    if (out->set & TN_ACT_START)
        c->running = true;
    if (out->set & TN_ACT_SEAL)
        c->sealing = true;
    if (out->set & TN_ACT_STOP) {
        c->sealing = false;
        c->dying = true;
        c->death_at_ns = w->now_ns + (c->running ? c->dies_ns : 0);
    }
    if (c->death_at_ns > out->deadline_ns)
        c->death_at_ns = out->deadline_ns; /* the guard's work */
}

void world_event(struct world *w, struct candidate *c, struct tn_event *ev)
{
    struct tn_actions out;

    memset(&out, 0x5a, sizeof out); /* what a step does not name, nobody may rely on */
    out.watch = w->steps % 2;
    ev->now_ns = w->now_ns;
    ev->wall_ms = w->wall_ms;
    ev->entropy[0] = w->dice;
    ev->entropy[1] = ++w->steps;
    tn_elector_step(&c->elector, ev, &out);
    check_actions(w, c, &out);
    remember_request(w, c, &out);
    remember_program(w, c, &out);
    print_actions(w, c, &out);
    c->last = out;
}

void world_wake(struct world *w, struct candidate *c, enum tn_event_kind kind)
{
    struct tn_event ev = {.kind = kind};

    if (kind == TN_EV_SEALED || kind == TN_EV_STOPPED)
        memcpy(ev.grant, c->elector.grant, TENURE_NONCE_SIZE);
    if (kind == TN_EV_SEALED)
        c->sealing = false;
    if (kind == TN_EV_STOPPED)
        c->running = c->dying = false;
    world_event(w, c, &ev);
}

/* ---- Answers ------------------------------------------------------------- */

static void answer_read(struct world *w, struct candidate *c)
{
    struct tn_event ev = {.kind = TN_EV_READ, .token = w->now.token};
    char when[TEXT];

    fprintf(w->out, "[%7s] %s < read ", show_time(w->now_ns, when), c->name);
    print_value(w, &w->now);
    if (c->request.with_floor && w->floor_damaged)
        fputs(", the floor is damaged", w->out);
    else if (c->request.with_floor)
        fprintf(w->out, ", floor %llu", (unsigned long long)w->floor);
    fputc('\n', w->out);
    ev.floor = c->request.with_floor ? w->floor : 0;
    ev.floor_damaged = c->request.with_floor && w->floor_damaged;
    ev.tombstone = w->now.tombstone;
    ev.corrupt = w->now.corrupt;
    if (!tenure_token_absent(&w->now.token) && !w->now.corrupt && !w->now.bare)
        ev.record = &w->now.record;
    world_event(w, c, &ev);
}

void world_answer_as(struct world *w, struct candidate *c, enum tenure_status status, bool applied)
{
    struct request *r = &c->request;
    struct tn_event ev = {.kind = r->read ? TN_EV_READ : TN_EV_SWAPPED, .status = status};
    bool late = status == TENURE_UNKNOWN && !applied;

    ev.final = r->read && tenure_status_class(status) == TENURE_CLASS_PERMANENT;
    if (!r->out) {
        print_fault(w, "%s has no request out", c->name);
        return;
    }
    r->out = false;
    if (applied && !apply(w, r))
        print_fault(w, "%s cannot be applied: the register is at %s",
                    show_nonce(w, r->value.token.nonce), w->now.token.version);
    for (int i = 0; i < LIMBO && late; i++) {
        if (!w->limbo[i].out) {
            w->limbo[i] = *r;
            w->limbo[i].out = true;
            late = false;
        }
    }
    ev.token = w->now.token;
    if (status == TENURE_OK)
        print_line(w, c->name, "< swapped to %s", w->now.token.version);
    else
        print_line(w, c->name, "< %s %s", r->read ? "read" : show_nonce(w, r->value.token.nonce),
                   tenure_status_word(status));
    world_event(w, c, &ev);
}

void world_answer(struct world *w, struct candidate *c)
{
    struct request *r = &c->request;

    if (r->out && r->read) {
        r->out = false;
        answer_read(w, c);
        return;
    }
    bool fits = tenure_token_equal(&r->expect, &w->now.token);
    world_answer_as(w, c, fits ? TENURE_OK : TENURE_CONFLICT, fits);
}

/* ---- A world that answers by itself -------------------------------------- */

/* When the next thing happens to this candidate; TN_FOREVER if nothing does. */
static int64_t next_at(const struct world *w, const struct candidate *c, int64_t latency_ns)
{
    const struct tn_actions *last = &c->last;

    if (c->frozen || c->elector.phase == TN_PHASE_NEW || c->elector.phase == TN_PHASE_HALTED)
        return TN_FOREVER;
    if (c->sealing)
        return w->now_ns;
    int64_t at = c->dying ? c->death_at_ns : TN_FOREVER;
    int64_t next = last->set & TN_ACT_WAIT ? last->wait_until_ns : TN_FOREVER;
    if (c->request.out)
        next = c->cut ? c->request.by_ns : c->request.sent_ns + latency_ns;
    else if (last->watch && !c->cut && !tenure_token_equal(&last->expect, &w->now.token))
        next = w->now_ns;
    return at < next ? at : next;
}

static void happen(struct world *w, struct candidate *c)
{
    if (c->sealing) {
        print_line(w, c->name, "< sealed");
        world_wake(w, c, TN_EV_SEALED);
    } else if (c->dying && c->death_at_ns <= w->now_ns) {
        print_line(w, c->name, "< stopped");
        world_wake(w, c, TN_EV_STOPPED);
    } else if (c->request.out && c->cut) {
        world_answer_as(w, c, c->request.read ? TENURE_TIMEOUT : TENURE_UNKNOWN, false);
    } else if (c->request.out) {
        world_answer(w, c);
    } else {
        bool due = c->last.wait_until_ns <= w->now_ns;
        print_line(w, c->name, due ? "< timer" : "< changed");
        world_wake(w, c, due ? TN_EV_TIMER : TN_EV_CHANGED);
    }
}

void world_run(struct world *w, int64_t until_ns, int64_t latency_ns)
{
    for (int events = 0; events < 10000; events++) {
        struct candidate *first = NULL;
        int64_t at = TN_FOREVER;

        for (unsigned i = 0; i < w->n; i++) {
            int64_t next = next_at(w, &w->candidates[i], latency_ns);

            if (next < at) {
                at = next;
                first = &w->candidates[i];
            }
        }
        if (!first || at > until_ns) {
            w->now_ns = until_ns;
            return;
        }
        w->now_ns = at > w->now_ns ? at : w->now_ns;
        happen(w, first);
    }
    print_fault(w, "ten thousand events and no end: a hot loop");
}
