/* A snapshot as JSON: what docs/reference/openapi.yaml calls Election, Leadership, Term and
 * Candidate. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/rfc3339.h"
#include "core/timing.h"
#include "status/snapshot.h"

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

/* A process that is gone does not lead. */
bool tn_snapshot_has_leader(const struct tn_election_snapshot *s)
{
    return s->driver.seen == TN_SEEN_HELD &&
           !(s->reach == TN_REACH_ENDED && strcmp(s->driver.lease.holder, s->driver.id) == 0);
}

/* That nobody leads is what the store said last; it says nothing now, or nothing that can be used.
 */
static bool is_leader_known(const struct tn_election_snapshot *s)
{
    bool read = s->driver.seen != TN_SEEN_NOTHING && s->driver.seen != TN_SEEN_REFUSED;

    return tn_snapshot_has_leader(s) || (read && !s->driver.trouble[0]);
}

static json_t *leader_json(const struct tn_election_snapshot *s)
{
    const struct tn_lease *l = &s->driver.lease;

    if (!tn_snapshot_has_leader(s))
        return json_null();
    return json_pack("{s:o, s:I, s:I, s:o, s:o, s:I}", "id", text(l->holder), "epoch",
                     (json_int_t)l->epoch, "since_ms", (json_int_t)l->acquired_ms, "address",
                     text(l->address), "version", text(l->build), "seen_ms",
                     (json_int_t)((s->now_ns - s->driver.observed_ns) / TN_MS));
}

static json_t *paused_json(const struct tenure_control *c)
{
    if (!c->paused)
        return json_null();
    return json_pack("{s:o, s:o, s:o}", "by", text(c->paused_by), "at", text(c->paused_at),
                     "reason", text(c->reason));
}

/* A page on a loopback address can be opened on its own machine alone: boot is ours. */
static const char *page_of(const struct tenure_candidate *c, const char *boot)
{
    static const char *const loopback[] = {"://127.", "://[::1]", "://localhost:"};

    for (size_t i = 0; i < sizeof loopback / sizeof loopback[0]; i++) {
        if (strstr(c->page, loopback[i]) && strcmp(c->boot, boot) != 0)
            return "";
    }
    return c->page;
}

static json_t *candidate_json(const struct tenure_candidate *c, const char *boot)
{
    uint64_t since = 0;

    tn_rfc3339_parse(c->since, &since);
    return json_pack("{s:o, s:o, s:b, s:i, s:o, s:o, s:o, s:I, s:o, s:o}", "id", text(c->id),
                     "state", text(c->state), "healthy", (int)c->healthy, "priority",
                     (int)c->priority, "version", text(c->build), "address", text(c->address),
                     "containment", text(c->contain), "since_ms", (json_int_t)since, "reason",
                     text(c->trouble), "page", text(page_of(c, boot)));
}

json_t *tn_snapshot_json_candidates(struct tn_election_snapshot *s)
{
    const struct tenure_candidate *all = tn_snapshot_candidates(s);
    const char *boot = "?";
    json_t *array = json_array();

    for (uint32_t i = 0; i < s->n_listed; i++) {
        if (strcmp(all[i].id, s->driver.id) == 0)
            boot = all[i].boot;
    }
    for (uint32_t i = 0; i < s->n_listed; i++)
        json_array_append_new(array, candidate_json(&all[i], boot));
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

json_t *tn_snapshot_json_history(struct tn_election_snapshot *s)
{
    json_t *array = json_array();

    for (uint32_t i = 0; i < s->n_terms; i++)
        json_array_append_new(array, term_json(&tn_snapshot_terms(s)[i]));
    return array;
}

static int by_size(const void *a, const void *b)
{
    const int64_t *x = a, *y = b;

    return (*x > *y) - (*x < *y);
}

static json_t *renewals_json(const struct tn_election_record *f)
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

static json_t *state_json(const struct tn_election_record *f)
{
    json_t *collections, *last;

    if (!f->has_state)
        return json_null();
    collections = json_array();
    last = json_array();
    for (unsigned i = 0; i < f->n_collections; i++)
        json_array_append_new(collections, text(f->collections[i]));
    for (unsigned i = 0; i < f->last_n; i++) {
        const struct tn_commit_record *c =
            &f->last[(f->last_at + TN_COMMITS - f->last_n + i) % TN_COMMITS];

        json_array_append_new(last, json_pack("{s:o, s:o, s:I, s:I}", "collection",
                                              text(c->collection), "id", text(c->id), "seq",
                                              (json_int_t)c->seq, "at_ms", (json_int_t)c->at_ms));
    }
    return json_pack("{s:o, s:I, s:I, s:o}", "collections", collections, "commits",
                     (json_int_t)f->commits, "fenced", (json_int_t)f->fenced, "last", last);
}

static json_t *guard_json(const struct tn_election_record *f)
{
    if (!f->has_guard)
        return json_null();
    return json_pack("{s:o, s:I}", "containment", text(f->containment), "kills",
                     (json_int_t)f->kills);
}

/* ---- The whole ----------------------------------------------------------- */

/* Changes whenever an answer does that somebody may wait for. */
static json_t *version_json(const struct tn_election_snapshot *s)
{
    if (s->remote)
        return json_sprintf("%" PRIx64 "-%" PRIu64 ".%" PRIu64 "%s", s->started_ms, s->changes,
                            s->news, s->leads ? "l" : "");
    return json_sprintf("%" PRIx64 "-%" PRIu64, s->started_ms, s->changes);
}

static json_t *reason_json(const struct tn_election_snapshot *s)
{
    char reason[512];

    tn_snapshot_reason(s, reason, sizeof reason);
    return text(reason);
}

/* The gravest first. */
static json_t *warnings_json(const struct tn_election_snapshot *s)
{
    json_t *array = json_array();

    for (int i = 0; i < TN_WARNINGS; i++) {
        const char *what = tn_snapshot_warning(s, (enum tn_warning)i);

        if (what[0])
            json_array_append_new(array, json_pack("{s:s, s:o}", "kind",
                                                   tn_warning_word((enum tn_warning)i), "text",
                                                   text(what)));
    }
    return array;
}

json_t *tn_snapshot_json(struct tn_election_snapshot *s)
{
    return json_pack(
        "{s:s, s:o, s:s, s:b, s:o, s:I, s:I, s:I, s:I, s:o, s:o, s:o, s:o, s:o, s:o, "
        "s:o, s:o, s:o, s:b}",
        "name", s->driver.name, "id", text(s->driver.id), "role", tn_snapshot_role(s), "leading",
        (int)s->leads, "reason", reason_json(s), "epoch", (json_int_t)s->epoch, "left_ms",
        (json_int_t)(s->left_ns / TN_MS), "ttl_ms", (json_int_t)(s->driver.ttl_ns / TN_MS),
        "renew_ms", (json_int_t)(s->driver.renew_ns / TN_MS), "version", version_json(s), "leader",
        leader_json(s), "paused", paused_json(&s->driver.control), "candidates",
        tn_snapshot_json_candidates(s), "history", tn_snapshot_json_history(s), "renewals",
        renewals_json(&s->record), "state", state_json(&s->record), "guard", guard_json(&s->record),
        "warnings", warnings_json(s), "leader_known", (int)is_leader_known(s));
}

json_t *tn_snapshot_json_leadership(const struct tn_election_snapshot *s)
{
    bool held = tn_snapshot_has_leader(s);

    return json_pack("{s:s, s:o, s:b, s:s, s:o, s:I, s:I, s:o, s:I, s:o, s:o}", "name",
                     s->driver.name, "id", text(s->driver.id), "leading", (int)s->leads, "role",
                     tn_snapshot_role(s), "reason", reason_json(s), "epoch", (json_int_t)s->epoch,
                     "left_ms", (json_int_t)(s->left_ns / TN_MS), "leader",
                     held ? text(s->driver.lease.holder) : json_null(), "leader_epoch",
                     (json_int_t)(held ? s->driver.lease.epoch : 0), "leader_address",
                     text(held ? s->driver.lease.address : ""), "version", version_json(s));
}
