/* What a worker knows of its group, for people. */
#include "jobs/view.h"

#include <stdlib.h>
#include <string.h>

#include "core/jobs/plan_inner.h"
#include "jobs/driver_inner.h"
#include "os/clock.h"

#define REASONS_MAX 64u /* different ones; the rest is counted */
#define SAMPLE      20u /* jobs that are named for each */

/* What the plan gives to each member of the table; all of peer_count. */
struct loads {
    bool *counts;
    uint32_t *jobs;
    uint64_t *load, *fair;
};

static void free_loads(struct loads *l)
{
    tn_jobs_array_free(l->counts);
    tn_jobs_array_free(l->jobs);
    tn_jobs_array_free(l->load);
    tn_jobs_array_free(l->fair);
}

static bool is_runnable(const struct tn_known *k)
{
    return k->listed && k->wanted == TN_WANTED_RUNNING;
}

/* Fair as the plan has it: by share, limits by water filling. */
static bool set_fair(const struct tn_worker *w, struct loads *l, uint64_t total)
{
    struct tn_plan_member *members = tn_jobs_array(w->peer_count, sizeof *members);
    struct load *loads = tn_jobs_array(w->peer_count, sizeof *loads);
    struct tn_plan_input in = {.members = members};
    struct plan plan = {.in = &in, .loads = loads, .total = total};
    uint32_t n = 0;
    bool done = members && loads;

    for (uint32_t at = 0; done && at < w->peer_count; at++) {
        const struct tn_member *r = &w->cfg.records[at];

        if (!l->counts[at])
            continue;
        members[n] = (struct tn_plan_member){.share = r->share ? r->share : 1, .limit = r->limit};
        loads[n++].has = l->load[at];
    }
    in.member_count = n;
    if (done)
        tn_plan_set_quotas(&plan);
    n = 0;
    for (uint32_t at = 0; done && at < w->peer_count; at++)
        l->fair[at] = l->counts[at] ? loads[n++].quota : 0;
    tn_jobs_array_free(members);
    tn_jobs_array_free(loads);
    return done;
}

static bool measure(const struct tn_worker *w, struct loads *l)
{
    uint64_t total = 0;

    l->counts = tn_jobs_array(w->peer_count, sizeof *l->counts);
    l->jobs = tn_jobs_array(w->peer_count, sizeof *l->jobs);
    l->load = tn_jobs_array(w->peer_count, sizeof *l->load);
    l->fair = tn_jobs_array(w->peer_count, sizeof *l->fair);
    if (!l->counts || !l->jobs || !l->load || !l->fair)
        return false;
    tn_members_count(w->cfg.records, w->peer_count, w->active, l->counts);
    for (uint32_t j = 0; j < w->job_count; j++) {
        const struct tn_known *k = &w->cfg.known[j];

        if (!is_runnable(k))
            continue;
        total += k->weight;
        if (k->slot == TN_SLOT_NONE)
            continue;
        l->jobs[k->slot]++;
        l->load[k->slot] += k->weight;
    }
    return set_fair(w, l, total);
}

/* ---- Members ------------------------------------------------------------- */

static const char *state_of(const struct tn_worker *w, uint32_t at)
{
    const struct tn_member *r = &w->cfg.records[at];

    if (!w->cfg.peers[at].present)
        return "absent";
    if (w->cfg.peers[at].damaged)
        return "damaged";
    if (r->state != TN_MEMBER_ALIVE)
        return r->state == TN_MEMBER_LEFT ? "left" : "dead";
    if (r->mark != TN_MARK_NONE)
        return r->mark == TN_MARK_EVICTED ? "evicted" : "placeholder";
    if (r->draining)
        return "draining";
    return r->standby ? "standby" : "alive";
}

/* Those that have ended are shown while jobs are planned for them. */
static bool is_shown(const struct tn_worker *w, const struct loads *l, uint32_t at)
{
    return l->jobs[at] > 0 ||
           (w->cfg.peers[at].present && w->cfg.records[at].state == TN_MEMBER_ALIVE);
}

static json_t *members_of(const tn_jobs_driver *d, const struct loads *l)
{
    const struct tn_worker *w = &d->worker;
    json_t *all = json_array();

    for (uint32_t at = 0; at < w->peer_count; at++) {
        const struct tn_member *r = &w->cfg.records[at];
        json_t *limit = r->limit == UINT32_MAX ? json_null() : json_integer(r->limit);

        if (is_shown(w, l, at))
            json_array_append_new(
                all, json_pack("{s:s, s:s, s:b, s:b, s:I, s:I, s:I, s:i, s:O, s:s, s:b}", "id",
                               w->cfg.peers[at].id, "state", state_of(w, at), "self",
                               strcmp(w->cfg.peers[at].id, d->id) == 0, "counts", l->counts[at],
                               "jobs", (json_int_t)l->jobs[at], "load", (json_int_t)l->load[at],
                               "fair", (json_int_t)l->fair[at], "share", (int)r->share, "limit",
                               limit, "labels", w->cfg.peers[at].present ? r->labels : "",
                               "applied", r->applied == w->plan_seq));
        json_decref(limit);
    }
    return all;
}

/* ---- Jobs that cannot be placed ------------------------------------------ */

static bool is_unfit(const struct tn_member *r, uint32_t job)
{
    for (uint32_t i = 0; i < r->unfit_count && i < TN_MEMBER_ASKS_MAX; i++) {
        if (r->unfit[i] == job)
            return true;
    }
    return false;
}

/* Why nobody has it, in words that many jobs share. */
static void reason_of(const struct tn_worker *w, const struct loads *l, uint32_t job, char *out,
                      size_t size)
{
    const struct tn_known *k = &w->cfg.known[job];
    const struct tn_requirements *q = &w->cfg.requirements[k->requirements];
    unsigned counting = 0, labelled = 0, willing = 0, roomy = 0;

    for (uint32_t at = 0; at < w->peer_count; at++) {
        const struct tn_member *r = &w->cfg.records[at];

        if (!l->counts[at] || (*q->pin && strcmp(q->pin, w->cfg.peers[at].id) != 0))
            continue;
        counting++;
        if (!tn_labels_have(r->labels, q->must))
            continue;
        labelled++;
        if (is_unfit(r, job))
            continue;
        willing++;
        roomy += l->load[at] + k->weight <= r->limit;
    }
    if (counting == 0 && *q->pin)
        snprintf(out, size, "pinned to %s, which is not active", q->pin);
    else if (counting == 0)
        snprintf(out, size, "no worker is active");
    else if (labelled == 0)
        snprintf(out, size, "no active worker has the labels %s", q->must);
    else if (willing == 0)
        snprintf(out, size, "every worker that fits has reported that it cannot run it");
    else if (roomy == 0)
        snprintf(out, size, "every worker that fits is at its capacity");
    else
        snprintf(out, size, "waiting for the next plan");
}

static json_t *reason_entry(json_t *all, const char *reason)
{
    size_t i;
    json_t *one;

    json_array_foreach(all, i, one)
    {
        if (strcmp(json_string_value(json_object_get(one, "reason")), reason) == 0)
            return one;
    }
    if (json_array_size(all) == REASONS_MAX)
        return NULL;
    one = json_pack("{s:s, s:i, s:[]}", "reason", reason, "count", 0, "jobs");
    json_array_append_new(all, one);
    return one;
}

static json_t *unplaced_of(const tn_jobs_driver *d, const struct loads *l)
{
    const struct tn_worker *w = &d->worker;
    json_t *all = json_array();

    for (uint32_t j = 0; j < w->job_count; j++) {
        const char *id = tn_jobs_id_of(d, j, NULL);
        char reason[2 * TN_MEMBER_LABELS_MAX];
        json_t *one, *jobs;

        if (!is_runnable(&w->cfg.known[j]) || w->cfg.known[j].slot != TN_SLOT_NONE || !id)
            continue;
        reason_of(w, l, j, reason, sizeof reason);
        one = reason_entry(all, reason);
        if (!one)
            continue;
        jobs = json_object_get(one, "jobs");
        json_integer_set(json_object_get(one, "count"),
                         json_integer_value(json_object_get(one, "count")) + 1);
        if (json_array_size(jobs) < SAMPLE)
            json_array_append_new(jobs, json_string(id));
    }
    return all;
}

/* ---- Jobs ---------------------------------------------------------------- */

static const char *held_word(const struct tn_held *h)
{
    if (h->doubt)
        return "in doubt";
    if (h->program == TN_PROGRAM_STOPPING)
        return "stopping";
    if (h->program == TN_PROGRAM_RUNNING)
        return "running";
    return h->asked ? "awaiting release" : "claiming";
}

/* Its own: what runs, what is claimed, what it waits for. */
static json_t *own_job(const tn_jobs_driver *d, const struct tn_held *h)
{
    const struct tn_observed *o = &d->observed;
    const char *id = tn_jobs_id_of(d, h->job, NULL);
    bool runs = h->program != TN_PROGRAM_NONE;
    json_t *job = json_pack("{s:s, s:i, s:s}", "id", id ? id : "", "number", (int)h->job, "state",
                            held_word(h));

    if (runs)
        json_object_set_new(job, "epoch", json_integer((json_int_t)h->epoch));
    if (runs && h->job < o->since_room && o->since_ms[h->job])
        json_object_set_new(job, "since_ms", json_integer(o->since_ms[h->job]));
    return job;
}

static json_t *own_of(const tn_jobs_driver *d, uint32_t limit)
{
    json_t *all = json_array();

    for (uint32_t i = 0; i < d->worker.held_count && i < limit; i++)
        json_array_append_new(all, own_job(d, &d->worker.cfg.held[i]));
    return all;
}

static json_t *found_job(const tn_jobs_driver *d, const struct loads *l, uint32_t job)
{
    static const char *const wanted[] = {[TN_WANTED_RUNNING] = "running",
                                         [TN_WANTED_PAUSED] = "paused",
                                         [TN_WANTED_REMOVED] = "removed"};
    const struct tn_worker *w = &d->worker;
    const struct tn_known *k = &w->cfg.known[job];
    const char *worker = k->slot == TN_SLOT_NONE ? NULL : w->cfg.peers[k->slot].id;
    json_t *one =
        k->held ? own_job(d, &w->cfg.held[k->held - 1])
                : json_pack("{s:s, s:i}", "id", tn_jobs_id_of(d, job, NULL), "number", (int)job);
    char reason[2 * TN_MEMBER_LABELS_MAX];

    json_object_set_new(one, "wanted", json_string(wanted[k->wanted]));
    json_object_set_new(one, "weight", json_integer(k->weight));
    json_object_set_new(one, "worker", worker ? json_string(worker) : json_null());
    if (!worker && is_runnable(k)) {
        reason_of(w, l, job, reason, sizeof reason);
        json_object_set_new(one, "reason", json_string(reason));
    }
    return one;
}

/* ---- Moves --------------------------------------------------------------- */

static json_t *member_name(const char *id, bool several)
{
    return several || !*id ? json_null() : json_string(id);
}

/* The newest first. */
static json_t *moves_of(const tn_jobs_driver *d)
{
    const struct tn_observed *o = &d->observed;
    json_t *all = json_array();

    for (uint64_t i = 0; i < o->kept_count && i < TN_MOVES_KEPT; i++) {
        const struct tn_move *m = &o->kept[(o->kept_count - 1 - i) % TN_MOVES_KEPT];
        json_t *jobs = json_array();

        for (unsigned k = 0; k < sizeof m->jobs / sizeof m->jobs[0] && m->jobs[k][0]; k++)
            json_array_append_new(jobs, json_string(m->jobs[k]));
        json_array_append_new(all,
                              json_pack("{s:I, s:I, s:s, s:i, s:o, s:o, s:b, s:o}", "at_ms",
                                        (json_int_t)m->at_ms, "plan", (json_int_t)m->plan, "cause",
                                        tn_move_cause_word(m->cause), "count", (int)m->count,
                                        "from", member_name(m->from, m->from_several), "to",
                                        member_name(m->to, m->to_several), "several",
                                        m->from_several || m->to_several, "jobs", jobs));
    }
    return all;
}

/* ---- The whole ----------------------------------------------------------- */

static json_t *counts_of(const struct tn_jobs_status *s, int64_t now_ns)
{
    return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:f}", "runnable", (json_int_t)s->jobs,
                     "planned_here", (json_int_t)s->planned, "running_here", (json_int_t)s->running,
                     "unplaced", (json_int_t)s->unplaced, "unowned", (json_int_t)s->unowned,
                     "in_doubt", (json_int_t)s->in_doubt, "unowned_seconds",
                     s->oldest_ns ? (double)(now_ns - s->oldest_ns) / 1e9 : 0.0);
}

json_t *tn_jobs_view(tn_jobs_driver *d, uint32_t limit)
{
    int64_t now_ns = tenure_now();
    struct tn_jobs_status s;
    struct loads l = {0};
    json_t *view = NULL;

    tn_jobs_driver_status(d, &s);
    pthread_mutex_lock(&d->table_lock);
    if (measure(&d->worker, &l))
        view = json_pack(
            "{s:s, s:s, s:s, s:I, s:I, s:s, s:s, s:{s:I, s:I, s:I, s:b}, s:o, s:o, s:o, s:I, s:o, "
            "s:o}",
            "group", d->group, "worker", d->id, "phase", tn_jobs_phase_word(s.phase), "now_ms",
            (json_int_t)tn_wall_ms(), "left_ms",
            (json_int_t)(s.deadline_ns > now_ns ? (s.deadline_ns - now_ns) / TN_MS : 0), "trouble",
            s.trouble, "waits", s.waits, "plan", "seq", (json_int_t)d->worker.plan_seq, "changes",
            (json_int_t)s.plan_changes, "written", (json_int_t)s.plans_written, "cut",
            d->worker.plan_cut, "jobs", counts_of(&s, now_ns), "members", members_of(d, &l), "own",
            own_of(d, limit), "own_count", (json_int_t)d->worker.held_count, "unplaced",
            unplaced_of(d, &l), "moves", moves_of(d));
    pthread_mutex_unlock(&d->table_lock);
    free_loads(&l);
    return view;
}

json_t *tn_jobs_find(tn_jobs_driver *d, const char *text, uint32_t limit)
{
    struct loads l = {0};
    json_t *found = NULL;
    json_int_t count = 0;

    pthread_mutex_lock(&d->table_lock);
    if (measure(&d->worker, &l))
        found = json_array();
    for (uint32_t j = 0; found && j < d->worker.job_count; j++) {
        const char *id = tn_jobs_id_of(d, j, NULL);

        if (!id || !d->worker.cfg.known[j].listed || !strstr(id, text))
            continue;
        if (count++ < limit)
            json_array_append_new(found, found_job(d, &l, j));
    }
    pthread_mutex_unlock(&d->table_lock);
    free_loads(&l);
    return found ? json_pack("{s:s, s:I, s:o}", "search", text, "count", count, "jobs", found)
                 : NULL;
}

uint64_t tn_jobs_fair(tn_jobs_driver *d)
{
    struct loads l = {0};
    uint64_t fair = 0;
    uint32_t at;

    pthread_mutex_lock(&d->table_lock);
    at = tn_jobs_peer(d, d->id);
    if (at != UINT32_MAX && measure(&d->worker, &l))
        fair = l.fair[at];
    pthread_mutex_unlock(&d->table_lock);
    free_loads(&l);
    return fair;
}
