/* core/jobs/worker.c - the events of a worker, and its round. */
#include "core/jobs/worker_inner.h"

/* ---- Memory -------------------------------------------------------------- */

size_t tn_worker_batch_size(uint32_t batch_max)
{
    return rounded(batch_max * sizeof(struct tn_job_swap)) +
           rounded(batch_max * sizeof(struct tn_start)) +
           4 * rounded(batch_max * sizeof(uint32_t)) + rounded(batch_max * sizeof(int64_t)) +
           rounded(batch_max * sizeof(bool));
}

static void lay_out(struct tn_work_lists *l, uint32_t batch_max, void *memory)
{
    unsigned char *at = memory;

    l->swaps = carve(&at, batch_max * sizeof *l->swaps);
    l->starts = carve(&at, batch_max * sizeof *l->starts);
    l->jobs = carve(&at, batch_max * sizeof *l->jobs);
    l->stops = carve(&at, batch_max * sizeof *l->stops);
    l->committed = carve(&at, batch_max * sizeof *l->committed);
    l->batch = carve(&at, batch_max * sizeof *l->batch);
    l->stop_by_ns = carve(&at, batch_max * sizeof *l->stop_by_ns);
    l->fenced = carve(&at, batch_max * sizeof *l->fenced);
}

void tn_worker_init(struct tn_worker *w, const struct tn_worker_config *cfg)
{
    assert(cfg->id[0] != '\0' && cfg->members_max < TN_PLAN_MEMBERS_MAX);
    assert(cfg->version_size <= TENURE_VERSION_MAX + 1);
    assert(cfg->batch_max >= 1 && cfg->batch_max <= TN_WORK_BATCH_MAX && cfg->batch != NULL);
    assert(cfg->batch_min >= 1 && cfg->batch_min <= cfg->batch_max);
    memset(w, 0, sizeof *w);
    w->cfg = *cfg;
    lay_out(&w->lists, cfg->batch_max, cfg->batch);
    w->pace = cfg->batch_max < TN_WORK_BATCH_FIRST ? cfg->batch_max : TN_WORK_BATCH_FIRST;
    memset(cfg->known, 0, cfg->jobs_max * sizeof *cfg->known);
    for (uint32_t j = 0; j < cfg->jobs_max; j++)
        cfg->known[j].slot = TN_SLOT_NONE;
}

bool tn_worker_busy(const struct tn_worker *w)
{
    for (uint32_t i = 0; i < w->held_count; i++)
        if (w->cfg.held[i].program != TN_PROGRAM_NONE)
            return true;
    return false;
}

/* ---- The round ----------------------------------------------------------- */

static void end_round(struct tn_worker *w, int64_t next_ns)
{
    w->stage = TN_STAGE_IDLE;
    w->round_at_ns = w->now_ns + next_ns;
}

/* An answer of the round came: the next stage, or the whole round again later. */
static bool advance(struct tn_worker *w, enum tn_work_request answered, bool ok)
{
    if (w->out != answered)
        return false;
    w->out = TN_WORK_NOTHING;
    if (w->stage == TN_STAGE_IDLE)
        return false; /* asked by an incarnation that is over */
    if (!ok) {
        end_round(w, w->cfg.timing.retry_ns);
        return false;
    }
    w->stage = (enum tn_work_stage)(w->stage + 1);
    return true;
}

static void ask_stage(struct tn_worker *w, enum tn_work_request request,
                      struct tn_work_actions *out)
{
    out->request = request;
    out->request_by_ns = w->now_ns + w->cfg.timing.request_ns;
}

static void begin_round(struct tn_worker *w, struct tn_work_actions *out)
{
    w->stage = TN_STAGE_PLAN;
    w->round_began_ns = w->now_ns;
    w->round_at_ns = w->now_ns + w->cfg.timing.poll_ns;
    w->served = false;
    w->bell = false;
    w->plan_tried = false;
    /* The plan first: members and catalogue are never older than the plan they are held to. */
    ask_stage(w, TN_WORK_READ_PLAN, out);
}

/* Programs that commit all the time, or many claims, do not put the next round off. */
static bool is_round_due(const struct tn_worker *w)
{
    return w->now_ns >= w->round_at_ns ||
           (w->bell && w->now_ns >= w->round_began_ns + w->cfg.timing.retry_ns);
}

static void act(struct tn_worker *w, const struct tn_work_event *ev, struct tn_work_actions *out)
{
    if (tn_view_silent_at(w) < w->round_at_ns)
        w->round_at_ns = tn_view_silent_at(w);
    if (tn_view_bury(w, ev, out) || tn_plan_ask(w, ev, out))
        return;
    if (!(w->served && is_round_due(w)) && tn_held_ask(w, ev, out))
        w->served = true;
    else
        w->stage = TN_STAGE_IDLE;
}

static void ask_next(struct tn_worker *w, const struct tn_work_event *ev,
                     struct tn_work_actions *out)
{
    if (w->out != TN_WORK_NOTHING || !w->in)
        return;
    if (w->leaving) /* the last commits; the swap to `left` frees the jobs */
        tn_held_ask(w, ev, out);
    else if (w->stage == TN_STAGE_MEMBERS)
        ask_stage(w, TN_WORK_LIST_MEMBERS, out);
    else if (w->stage == TN_STAGE_CATALOGUE)
        ask_stage(w, TN_WORK_READ_CATALOGUE, out);
    else if (w->stage == TN_STAGE_ACT)
        act(w, ev, out);
    if (w->stage == TN_STAGE_IDLE && !w->leaving && (w->bell || w->now_ns >= w->round_at_ns))
        begin_round(w, out);
    else if (w->stage == TN_STAGE_IDLE && !w->leaving)
        tn_held_ask(w, ev, out);
    w->out = out->request;
}

/* ---- The machine --------------------------------------------------------- */

static void take_event(struct tn_worker *w, const struct tn_work_event *ev,
                       struct tn_work_actions *out)
{
    switch (ev->kind) {
    case TN_WORK_TIMER:
        break;
    case TN_WORK_BELL:
        w->bell = true;
        break;
    case TN_WORK_PLAN:
        if (advance(w, TN_WORK_READ_PLAN, ev->status == TENURE_OK))
            tn_view_plan(w, ev);
        break;
    case TN_WORK_MEMBERS:
        if (advance(w, TN_WORK_LIST_MEMBERS, ev->status == TENURE_OK))
            tn_view_members(w, ev);
        break;
    case TN_WORK_CATALOGUE:
        /* Pages are read once: they count even if the incarnation that asked is over. */
        if (w->out == TN_WORK_READ_CATALOGUE && ev->status == TENURE_OK)
            tn_view_catalogue(w, ev);
        if (advance(w, TN_WORK_READ_CATALOGUE, ev->status == TENURE_OK))
            tn_held_review(w);
        break;
    case TN_WORK_READ:
        w->out = TN_WORK_NOTHING;
        tn_held_pace(w);
        tn_held_read(w, ev, out);
        break;
    case TN_WORK_SWAPPED:
        w->out = TN_WORK_NOTHING;
        tn_held_pace(w);
        tn_held_swapped(w, ev, out);
        break;
    case TN_WORK_MEMBER_SWAPPED:
    case TN_WORK_PLAN_SWAPPED:
        /* Whatever came of it, the next round shows it. */
        w->out = TN_WORK_NOTHING;
        out->ring = ev->status == TENURE_OK;
        end_round(w, ev->status == TENURE_OK ? 0 : w->cfg.timing.retry_ns);
        break;
    case TN_WORK_STOPPED:
        tn_held_stopped(w, ev->job);
        break;
    case TN_WORK_COMMIT:
        for (unsigned i = 0; i < ev->n; i++)
            tn_held_commit(w, ev->jobs[i]);
        break;
    }
}

/* Nothing that was begun under another incarnation goes on. */
static void take_membership(struct tn_worker *w, const struct tn_work_event *ev)
{
    if (w->in && (!ev->in || !tn_identity_equal(&w->identity, &ev->identity))) {
        tn_held_forget(w);
        w->stage = TN_STAGE_IDLE;
        w->bell = true;
    }
    assert(!ev->in || ev->deadline_ns > ev->now_ns);
    w->in = ev->in;
    w->deadline_ns = ev->deadline_ns;
    w->leaving = ev->leaving;
    if (ev->in)
        w->identity = ev->identity;
}

void tn_worker_step(struct tn_worker *w, const struct tn_work_event *ev,
                    struct tn_work_actions *out)
{
    assert(ev->now_ns >= w->now_ns);
    w->now_ns = ev->now_ns;
    out->request = TN_WORK_NOTHING;
    out->ring = false;
    out->n = out->start_count = out->stop_count = out->committed_count = 0;
    out->jobs = w->lists.jobs;
    out->swaps = w->lists.swaps;
    out->starts = w->lists.starts;
    out->stops = w->lists.stops;
    out->fenced = w->lists.fenced;
    out->stop_by_ns = w->lists.stop_by_ns;
    out->committed = w->lists.committed;
    take_membership(w, ev);
    take_event(w, ev, out);
    tn_held_tell_stops(w, out);
    ask_next(w, ev, out);
    out->wake_ns =
        w->in && w->round_at_ns > w->now_ns ? w->round_at_ns : w->now_ns + w->cfg.timing.retry_ns;
    if (w->stops_due > 0)
        out->wake_ns = w->now_ns;
}
