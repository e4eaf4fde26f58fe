/* An election as JSON: what docs/reference/openapi.yaml calls Election, Leadership, Term and
 * Candidate. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rfc3339.h"
#include "base/text.h"
#include "core/timing.h"
#include "status/election_inner.h"

/* One look at everything, so that an answer does not contradict itself. */
struct view {
    struct tn_snapshot now;
    struct tn_election_facts facts;
    bool leads;
    uint64_t epoch;
    int64_t left_ms, now_ns;
};

static void fill_view(struct tn_election *e, struct view *v)
{
    tn_election_copy_facts(e, &v->facts);
    tn_election_snapshot(e, &v->now);
    v->now_ns = tenure_now();
    v->epoch = tn_snapshot_epoch(&v->now, v->now_ns);
    v->leads = v->epoch != 0;
    v->left_ms = tn_snapshot_left(&v->now, v->now_ns) / TN_MS;
    /* What is told here has run out before the lease is released (supervisor_clients.c). */
    if (e->answer_ns > 0 && v->left_ms > e->answer_ns / TN_MS)
        v->left_ms = e->answer_ns / TN_MS;
}

static const char *role_of(const struct tn_election *e, const struct view *v)
{
    if (v->leads)
        return "leader";
    if (v->now.phase == TN_PHASE_SEALING)
        return "sealing";
    if (atomic_load(&e->stopping) || v->now.phase == TN_PHASE_STOPPING ||
        v->now.phase == TN_PHASE_RELEASING)
        return "stopping";
    if (v->now.phase == TN_PHASE_HALTED)
        return "halted";
    if (v->now.control.paused)
        return "paused";
    return v->facts.healthy ? "standby" : "unhealthy";
}

/* ---- Why ----------------------------------------------------------------- */

static void why_standing_by(const struct view *v, char *out, size_t size)
{
    const struct tn_lease *lease = &v->now.lease;
    double ago = (double)(v->now_ns - v->now.observed_ns) / 1e9;

    switch (v->now.seen) {
    case TN_SEEN_HELD:
        snprintf(out, size, "%s leads, epoch %" PRIu64 "; it was last seen to renew %.1f s ago",
                 lease->holder, lease->epoch, ago);
        break;
    case TN_SEEN_REFUSED:
        snprintf(out, size, "the lease record cannot be used; look at it, then `tenure reset`");
        break;
    case TN_SEEN_NOTHING:
        snprintf(out, size, "the lease has not been read yet%s%s", v->now.trouble[0] ? ": " : "",
                 v->now.trouble);
        break;
    default:
        snprintf(out, size, "nobody leads; this candidate is about to claim");
    }
}

static void describe(const struct tn_election *e, const struct view *v, char *out, size_t size)
{
    const struct tenure_control *c = &v->now.control;
    const char *role = role_of(e, v);
    size_t n;

    if (strcmp(role, "leader") == 0)
        snprintf(out, size, "leads, epoch %" PRIu64 " (%s)%s", v->epoch,
                 tn_cause_word(v->facts.cause),
                 atomic_load(&e->running) ? "" : "; its program does not run yet");
    else if (strcmp(role, "sealing") == 0)
        snprintf(out, size, "has won a term, and seals the state before its program starts");
    else if (strcmp(role, "stopping") == 0)
        snprintf(out, size, "is stopping%s%s", v->facts.end[0] ? ": " : "", v->facts.end);
    else if (strcmp(role, "halted") == 0)
        snprintf(out, size, "does not contend");
    else if (strcmp(role, "paused") == 0)
        snprintf(out, size, "paused%s%s%s%s: nobody takes over until `tenure resume`",
                 c->paused_by[0] ? " by " : "", c->paused_by, c->reason[0] ? ", " : "", c->reason);
    else if (strcmp(role, "unhealthy") == 0)
        snprintf(out, size, "may not lead: %s",
                 v->facts.unhealthy[0] ? v->facts.unhealthy : "its probe has not succeeded");
    else
        why_standing_by(v, out, size);
    n = strlen(out);
    if (v->facts.unsealed[0] && n + 16 < size)
        snprintf(out + n, size - n, "; the state could not be sealed: %s", v->facts.unsealed);
    n = strlen(out);
    if (v->now.trouble[0] && v->now.seen != TN_SEEN_NOTHING && n + 16 < size)
        snprintf(out + n, size - n, "; the store: %s", v->now.trouble);
    tn_text_repair(out, '?');
}

void tn_election_reason(struct tn_election *e, char *out, size_t size)
{
    struct view v;

    if (e->far) {
        e->far->reason(e->far_arg, out, size);
        return;
    }
    fill_view(e, &v);
    describe(e, &v, out, size);
}

bool tn_election_is_well(struct tn_election *e, char *why, size_t size)
{
    struct view v;

    fill_view(e, &v);
    if (v.now.trouble[0])
        snprintf(why, size, "%s: the store: %s", e->name, v.now.trouble);
    else if (!v.facts.healthy)
        snprintf(why, size, "%s: %s", e->name,
                 v.facts.unhealthy[0] ? v.facts.unhealthy : "its probe has not succeeded");
    else if (v.facts.unsealed[0])
        snprintf(why, size, "%s: the state could not be sealed: %s", e->name, v.facts.unsealed);
    else if (v.now.seen == TN_SEEN_REFUSED)
        snprintf(why, size, "%s: the lease record cannot be used", e->name);
    else
        return true;
    return false;
}

/* ---- Parts --------------------------------------------------------------- */

/* Anybody's bytes; what is no UTF-8 is left out. */
static json_t *text(const char *s)
{
    json_t *json = json_string(s);

    return json ? json : json_string("");
}

static json_t *ms_of(int64_t ns)
{
    return json_real((double)((ns + 500) / 1000) / 1000.0);
}

static json_t *leader_json(const struct view *v)
{
    const struct tn_lease *l = &v->now.lease;

    if (v->now.seen != TN_SEEN_HELD)
        return json_null();
    return json_pack("{s:o, s:I, s:I, s:o, s:o, s:I}", "id", text(l->holder), "epoch",
                     (json_int_t)l->epoch, "since_ms", (json_int_t)l->acquired_ms, "address",
                     text(l->address), "version", text(l->build), "seen_ms",
                     (json_int_t)((v->now_ns - v->now.observed_ns) / TN_MS));
}

static json_t *paused_json(const struct tenure_control *c)
{
    if (!c->paused)
        return json_null();
    return json_pack("{s:o, s:o, s:o}", "by", text(c->paused_by), "at", text(c->paused_at),
                     "reason", text(c->reason));
}

static json_t *candidate_json(const struct tenure_candidate *c)
{
    uint64_t since = 0;

    tn_rfc3339_parse(c->since, &since);
    return json_pack("{s:o, s:o, s:b, s:i, s:o, s:o, s:o, s:I, s:o}", "id", text(c->id), "state",
                     text(c->state), "healthy", (int)c->healthy, "priority", (int)c->priority,
                     "version", text(c->build), "address", text(c->address), "containment",
                     text(c->contain), "since_ms", (json_int_t)since, "reason", text(c->trouble));
}

/* A part of what another process told. */
static json_t *far_part(struct tn_election *e, const char *member)
{
    json_t *whole = e->far->json(e->far_arg), *part = json_incref(json_object_get(whole, member));

    json_decref(whole);
    return part ? part : json_array();
}

json_t *tn_election_json_candidates(struct tn_election *e)
{
    if (e->far)
        return far_part(e, "candidates");
    json_t *array = json_array();

    tn_papers_look(e);
    pthread_mutex_lock(&e->papers_lock);
    for (unsigned i = 0; e->papers && i < e->papers->n_candidates; i++)
        json_array_append_new(array, candidate_json(&e->papers->candidates[i]));
    pthread_mutex_unlock(&e->papers_lock);
    return array;
}

static json_t *term_json(const struct tenure_term_record *t)
{
    return json_pack("{s:I, s:o, s:I, s:o, s:b, s:o, s:o, s:o}", "epoch", (json_int_t)t->epoch,
                     "holder", text(t->holder), "from_ms", (json_int_t)t->from_ms, "to_ms",
                     t->to_ms ? json_integer((json_int_t)t->to_ms) : json_null(), "estimated",
                     (int)t->estimated, "cause", text(t->cause), "end", text(t->end), "gap_ms",
                     t->gap_ms >= 0 ? json_integer(t->gap_ms) : json_null());
}

json_t *tn_election_json_history(struct tn_election *e)
{
    if (e->far)
        return far_part(e, "history");
    json_t *array = json_array();

    tn_papers_look(e);
    pthread_mutex_lock(&e->papers_lock);
    for (uint32_t i = 0; e->papers && i < e->papers->history.n; i++)
        json_array_append_new(array, term_json(&e->papers->history.terms[i]));
    pthread_mutex_unlock(&e->papers_lock);
    return array;
}

static int by_size(const void *a, const void *b)
{
    const int64_t *x = a, *y = b;

    return (*x > *y) - (*x < *y);
}

static json_t *renewals_json(const struct tn_election_facts *f)
{
    int64_t sorted[TN_RECENT];
    json_t *recent = json_array(), *failed = json_object();
    unsigned n = f->recent_n;

    memcpy(sorted, f->recent_ns, sizeof sorted);
    qsort(sorted, n, sizeof sorted[0], by_size);
    for (unsigned i = 0; i < n; i++)
        json_array_append_new(recent,
                              ms_of(f->recent_ns[(f->recent_at + TN_RECENT - n + i) % TN_RECENT]));
    for (int i = 1; i < TN_STATUSES; i++) {
        if (f->failures[i])
            json_object_set_new(failed, tenure_status_word((enum tenure_status)i),
                                json_integer((json_int_t)f->failures[i]));
    }
    return json_pack("{s:I, s:o, s:o, s:o, s:o}", "ok", (json_int_t)f->renewals, "failed", failed,
                     "p50_ms", ms_of(n ? sorted[n / 2] : 0), "p99_ms",
                     ms_of(n ? sorted[(n * 99) / 100] : 0), "recent_ms", recent);
}

static json_t *state_json(const struct tn_election_facts *f)
{
    json_t *collections, *last;

    if (!f->has_state)
        return json_null();
    collections = json_array();
    last = json_array();
    for (unsigned i = 0; i < f->n_collections; i++)
        json_array_append_new(collections, text(f->collections[i]));
    for (unsigned i = 0; i < f->last_n; i++) {
        const struct tn_commit_note *c =
            &f->last[(f->last_at + TN_COMMITS - f->last_n + i) % TN_COMMITS];

        json_array_append_new(last, json_pack("{s:o, s:o, s:I, s:I}", "collection",
                                              text(c->collection), "id", text(c->id), "seq",
                                              (json_int_t)c->seq, "at_ms", (json_int_t)c->at_ms));
    }
    return json_pack("{s:o, s:I, s:I, s:o}", "collections", collections, "commits",
                     (json_int_t)f->commits, "fenced", (json_int_t)f->fenced, "last", last);
}

static json_t *guard_json(const struct tn_election_facts *f)
{
    if (!f->has_guard)
        return json_null();
    return json_pack("{s:o, s:I}", "containment", text(f->containment), "kills",
                     (json_int_t)f->kills);
}

/* ---- The whole ----------------------------------------------------------- */

static json_t *version_json(const struct tn_election *e)
{
    return json_sprintf("%" PRIx64 "-%" PRIu64, e->started_ms, tn_election_version(e));
}

json_t *tn_election_json(struct tn_election *e)
{
    if (e->far)
        return e->far->json(e->far_arg);
    /* Before the look: a change in between makes an asker ask once more, not miss it. */
    json_t *version = version_json(e);
    struct view v;
    char reason[512];

    fill_view(e, &v);
    describe(e, &v, reason, sizeof reason);
    return json_pack("{s:s, s:o, s:s, s:b, s:o, s:I, s:I, s:I, s:I, s:o, s:o, s:o, s:o, s:o, s:o, "
                     "s:o, s:o}",
                     "name", e->name, "id", text(v.now.id), "role", role_of(e, &v), "leading",
                     (int)v.leads, "reason", text(reason), "epoch", (json_int_t)v.epoch, "left_ms",
                     (json_int_t)v.left_ms, "ttl_ms", (json_int_t)(v.now.ttl_ns / TN_MS),
                     "renew_ms", (json_int_t)(v.now.renew_ns / TN_MS), "version", version, "leader",
                     leader_json(&v), "paused", paused_json(&v.now.control), "candidates",
                     tn_election_json_candidates(e), "history", tn_election_json_history(e),
                     "renewals", renewals_json(&v.facts), "state", state_json(&v.facts), "guard",
                     guard_json(&v.facts));
}

json_t *tn_election_json_leadership(struct tn_election *e)
{
    if (e->far)
        return e->far->leadership(e->far_arg);
    json_t *version = version_json(e);
    bool held;
    struct view v;
    char reason[512];

    fill_view(e, &v);
    describe(e, &v, reason, sizeof reason);
    held = v.now.seen == TN_SEEN_HELD;
    return json_pack("{s:s, s:o, s:b, s:s, s:o, s:I, s:I, s:o, s:I, s:o, s:o}", "name", e->name,
                     "id", text(v.now.id), "leading", (int)v.leads, "role", role_of(e, &v),
                     "reason", text(reason), "epoch", (json_int_t)v.epoch, "left_ms",
                     (json_int_t)v.left_ms, "leader", held ? text(v.now.lease.holder) : json_null(),
                     "leader_epoch", (json_int_t)(held ? v.now.lease.epoch : 0), "leader_address",
                     text(held ? v.now.lease.address : ""), "version", version);
}
