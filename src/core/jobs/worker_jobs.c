/* core/jobs/worker_jobs.c - the registers of the jobs: claims, commits, releases. */
#include "core/jobs/worker_inner.h"

bool tn_worker_planned(const struct tn_worker *w, uint32_t job)
{
    const struct tn_known *k = &w->cfg.known[job];

    return w->planned && !w->leaving && job < w->job_count && k->listed &&
           k->wanted == TN_WANTED_RUNNING && k->slot == w->own;
}

struct tn_owner tn_worker_owner(const struct tn_worker *w)
{
    struct tn_owner own = {.identity = w->identity};

    memcpy(own.id, w->cfg.id, sizeof own.id);
    return own;
}

struct tn_run tn_held_run(const struct tn_worker *w, const struct tn_held *h)
{
    struct tn_run run = {.owner = tn_worker_owner(w), .epoch = h->epoch};

    memcpy(run.grant, h->grant, sizeof run.grant);
    return run;
}

/* ---- The table ----------------------------------------------------------- */

static struct tn_held *hold(struct tn_worker *w, uint32_t job)
{
    struct tn_held *h;

    if (w->held_count == w->cfg.held_max)
        return NULL;
    h = &w->cfg.held[w->held_count++];
    memset(h, 0, sizeof *h);
    memset(version_of(w, h), 0, w->cfg.version_size);
    h->job = job;
    h->request = TN_REQUEST_READ;
    w->reads_due = true;
    w->cfg.known[job].held = w->held_count;
    return h;
}

/* The last one takes its place. */
static void drop(struct tn_worker *w, struct tn_held *h)
{
    struct tn_held *last = &w->cfg.held[--w->held_count];

    assert(h->program == TN_PROGRAM_NONE && !h->stop);
    w->cfg.known[h->job].held = 0;
    if (h == last)
        return;
    *h = *last;
    memcpy(version_of(w, h), version_of(w, last), w->cfg.version_size);
    w->cfg.known[h->job].held = (uint32_t)(h - w->cfg.held) + 1;
}

void tn_held_forget(struct tn_worker *w)
{
    for (uint32_t i = w->held_count; i-- > 0;) {
        struct tn_held *h = &w->cfg.held[i];

        h->request = TN_REQUEST_NONE;
        h->fenced = true; /* nothing of it is written any more */
        h->stop = false;  /* the heartbeat stops them all */
        if (h->program == TN_PROGRAM_NONE)
            drop(w, h);
        else
            h->program = TN_PROGRAM_STOPPING;
    }
    w->stops_due = 0;
}

/* ---- Start and stop ------------------------------------------------------ */

/* Told to the caller at the end of the step, or of a later one if they are many. */
static void stop_job(struct tn_worker *w, struct tn_held *h)
{
    if (h->program != TN_PROGRAM_RUNNING || h->stop)
        return;
    h->stop = true;
    w->stops_due++;
}

/* At D the guard ends everything, and a fenced run may already run elsewhere. */
static int64_t stop_by(const struct tn_worker *w, const struct tn_held *h)
{
    int64_t by_ns = w->now_ns + w->cfg.drain_ns;

    if (h->fenced)
        return w->now_ns;
    return by_ns < w->deadline_ns ? by_ns : w->deadline_ns;
}

void tn_held_tell_stops(struct tn_worker *w, struct tn_work_actions *out)
{
    for (uint32_t i = 0; i < w->held_count && w->stops_due > 0; i++) {
        struct tn_held *h = &w->cfg.held[i];

        if (!h->stop)
            continue;
        if (out->stop_count == w->cfg.batch_max)
            return;
        h->stop = false;
        w->stops_due--;
        h->program = TN_PROGRAM_STOPPING;
        w->lists.stop_by_ns[out->stop_count] = stop_by(w, h);
        w->lists.fenced[out->stop_count] = h->fenced;
        w->lists.stops[out->stop_count++] = h->job;
    }
}

static void forget_stop(struct tn_worker *w, struct tn_held *h)
{
    w->stops_due -= h->stop;
    h->stop = false;
}

static void release_due(struct tn_held *h)
{
    h->purpose = TN_SWAP_RELEASE;
    h->request = TN_REQUEST_SWAP;
    h->doubt = h->refused = false;
}

/* A claim took effect.  Only as the same incarnation, before the deadline, and still planned. */
static void claimed(struct tn_worker *w, struct tn_held *h, struct tn_work_actions *out)
{
    struct tn_start *s = &w->lists.starts[out->start_count];

    h->doubt = h->refused = h->asked = false;
    h->request = TN_REQUEST_NONE;
    if (!w->in || h->number != w->identity.number || !tn_worker_planned(w, h->job)) {
        release_due(h);
        return;
    }
    h->program = TN_PROGRAM_RUNNING;
    h->wanted = TN_WANTED_RUNNING;
    s->job = h->job;
    s->epoch = h->epoch;
    memcpy(s->grant, h->grant, sizeof s->grant);
    out->start_count++;
}

void tn_held_stopped(struct tn_worker *w, uint32_t job)
{
    struct tn_held *h = held_of(w, job);

    if (h == NULL || h->program == TN_PROGRAM_NONE)
        return;
    forget_stop(w, h);
    h->program = TN_PROGRAM_NONE;
    h->commit = false;
    if (h->fenced || w->leaving)
        drop(w, h);
    else if (h->request == TN_REQUEST_NONE)
        release_due(h);
    /* Else a commit is out or in doubt: its answer comes first. */
}

void tn_held_commit(struct tn_worker *w, uint32_t job)
{
    struct tn_held *h = held_of(w, job);

    if (h == NULL || h->program == TN_PROGRAM_NONE || h->fenced)
        return;
    h->commit = true;
    if (h->request != TN_REQUEST_NONE)
        return;
    h->purpose = TN_SWAP_COMMIT;
    h->request = TN_REQUEST_SWAP;
}

static void committed(struct tn_worker *w, struct tn_held *h, const struct tenure_token *token,
                      uint64_t seq, struct tn_work_actions *out)
{
    set_held_token(w, h, token);
    h->seq = seq;
    h->doubt = h->refused = false;
    h->request = TN_REQUEST_NONE;
    if (h->commit)
        w->lists.committed[out->committed_count++] = h->job;
    h->commit = false;
    if (h->program == TN_PROGRAM_NONE)
        release_due(h);
}

/* ---- Review -------------------------------------------------------------- */

static void review_held(struct tn_worker *w, struct tn_held *h)
{
    bool planned = tn_worker_planned(w, h->job) && h->wanted == TN_WANTED_RUNNING;
    bool claims = h->request == TN_REQUEST_SWAP && h->purpose == TN_SWAP_CLAIM;

    if (h->request == TN_REQUEST_LATER)
        h->request = TN_REQUEST_READ;
    else if (claims && !planned) /* the plan has changed since it was read */
        h->request = TN_REQUEST_READ;
    w->reads_due |= h->request == TN_REQUEST_READ;
    if (!planned && w->planned)
        stop_job(w, h);
}

/* Who is asked for a job that it may own, and does not run, looks: it releases what it owns. */
static void review_asks(struct tn_worker *w)
{
    for (uint32_t at = 0; at < w->peer_count; at++) {
        const struct tn_member *r = &w->cfg.records[at];

        if (r->state != TN_MEMBER_ALIVE || strcmp(w->cfg.peers[at].id, w->cfg.id) == 0)
            continue;
        for (uint32_t i = 0; i < r->ask_count && i < TN_MEMBER_ASKS_MAX; i++)
            if (r->asks[i] < w->job_count && held_of(w, r->asks[i]) == NULL)
                hold(w, r->asks[i]);
    }
}

static void add_ask(struct tn_member *profile, uint32_t job)
{
    uint32_t at = profile->ask_count++;

    for (; at > 0 && profile->asks[at - 1] > job; at--)
        profile->asks[at] = profile->asks[at - 1];
    profile->asks[at] = job;
}

/* What is planned for us and has a living owner goes into our record; if many, in turns. */
static void fill_asks(struct tn_worker *w)
{
    uint32_t first = w->ask_next;

    w->profile.ask_count = 0;
    for (uint32_t i = 0; i < w->held_count && w->profile.ask_count < TN_MEMBER_ASKS_MAX; i++) {
        uint32_t at = (first + i) % w->held_count;

        if (!w->cfg.held[at].asked)
            continue;
        add_ask(&w->profile, w->cfg.held[at].job);
        w->ask_next = at + 1;
    }
}

/* The plan is applied when nothing is left here that it gives to others. */
static bool is_applied(const struct tn_worker *w)
{
    for (uint32_t i = 0; i < w->held_count; i++) {
        const struct tn_held *h = &w->cfg.held[i];

        if (!tn_worker_planned(w, h->job) &&
            (h->program != TN_PROGRAM_NONE || h->purpose == TN_SWAP_RELEASE))
            return false;
    }
    return true;
}

void tn_held_review(struct tn_worker *w)
{
    for (uint32_t i = 0; i < w->held_count; i++)
        review_held(w, &w->cfg.held[i]);
    for (uint32_t j = 0; j < w->job_count; j++)
        if (tn_worker_planned(w, j) && held_of(w, j) == NULL)
            hold(w, j);
    review_asks(w);
    fill_asks(w);
    if (w->planned && is_applied(w))
        w->profile.applied = w->plan_seq;
}

/* ---- Reads --------------------------------------------------------------- */

static void fence(struct tn_worker *w, struct tn_held *h)
{
    h->fenced = true;
    h->request = TN_REQUEST_NONE;
    if (h->program == TN_PROGRAM_NONE)
        drop(w, h);
    else
        stop_job(w, h);
}

static void adopt(const struct tn_worker *w, struct tn_held *h, const struct tn_read *r)
{
    set_held_token(w, h, &r->token);
    h->seq = r->record.seq;
    h->wanted = (uint8_t)r->record.wanted;
    h->doubt = h->refused = false;
}

/* A run of ours whose last swap met a conflict, or got no answer. */
static void read_of_run(struct tn_worker *w, struct tn_held *h, const struct tn_read *r,
                        struct tn_work_actions *out)
{
    struct tn_run run = tn_held_run(w, h);
    struct tn_swap_attempt attempt = {.base = held_token(w, h), .answered = h->refused};

    memcpy(attempt.nonce, h->nonce, sizeof attempt.nonce);
    switch (tn_commit_fate(&attempt, &r->token, r->prev, &r->record, &run)) {
    case TN_SWAP_DONE:
        adopt(w, h, r);
        committed(w, h, &r->token, r->record.seq, out);
        break;
    case TN_SWAP_PENDING:
        h->request = TN_REQUEST_SWAP;
        break;
    case TN_SWAP_ADOPT:
        adopt(w, h, r);
        h->request = TN_REQUEST_SWAP;
        break;
    default:
        fence(w, h);
        break;
    }
    if (held_of(w, r->job) == h && h->program == TN_PROGRAM_NONE && !h->fenced &&
        h->request == TN_REQUEST_SWAP)
        release_due(h);
}

static void read_release(struct tn_worker *w, struct tn_held *h, const struct tn_read *r)
{
    struct tn_run run = tn_held_run(w, h);

    if (!tn_job_is_run(&r->record, &run)) {
        drop(w, h);
        return;
    }
    adopt(w, h, r);
    release_due(h);
}

static void claim_due(struct tn_worker *w, struct tn_held *h, const struct tn_read *r)
{
    set_held_token(w, h, &r->token);
    h->epoch = r->record.epoch;
    h->seq = r->record.seq;
    h->number = w->identity.number;
    h->purpose = TN_SWAP_CLAIM;
    h->request = TN_REQUEST_SWAP;
    h->doubt = h->refused = h->asked = false;
}

/* It is ours by the register, and not to be: released. */
static void release_own(const struct tn_worker *w, struct tn_held *h, const struct tn_read *r)
{
    adopt(w, h, r);
    h->epoch = r->record.epoch;
    memcpy(h->grant, r->record.grant, sizeof h->grant);
    release_due(h);
}

/* One member at a time; of its jobs the highest number and the longest ttl: one W is enough. */
static void add_orphan(struct tn_worker *w, const struct tn_job *job)
{
    if (w->orphaned && strcmp(w->orphan.id, job->owner.id) != 0)
        return;
    if (!w->orphaned || job->owner.identity.number > w->orphan.identity.number)
        w->orphan = job->owner;
    if (!w->orphaned || job->ttl_ms > w->orphan_ttl_ms)
        w->orphan_ttl_ms = job->ttl_ms;
    w->orphaned = true;
}

static void read_fresh(struct tn_worker *w, struct tn_held *h, const struct tn_read *r)
{
    struct tn_owner own = tn_worker_owner(w);
    uint32_t at = tn_worker_peer(w, r->record.owner.id);
    bool present = at < w->peer_count && w->cfg.peers[at].present;
    bool planned = tn_worker_planned(w, h->job);
    enum tn_job_state state = tn_job_state(&r->record, &own, present ? &w->cfg.records[at] : NULL);

    h->doubt = h->asked = false;
    h->request = TN_REQUEST_LATER;
    if ((state == TN_JOB_CLAIMABLE || state == TN_JOB_OURS) && planned) {
        claim_due(w, h, r);
    } else if (tn_owner_equal(&r->record.owner, &own)) {
        release_own(w, h, r);
    } else if (!planned) {
        drop(w, h);
    } else if (state == TN_JOB_HELD) {
        h->asked = true;
    } else if (state == TN_JOB_ORPHANED) {
        add_orphan(w, &r->record);
    }
}

static void read_of_claim(struct tn_worker *w, struct tn_held *h, const struct tn_read *r,
                          struct tn_work_actions *out)
{
    struct tn_owner own = tn_worker_owner(w);
    struct tn_swap_attempt attempt = {.base = held_token(w, h), .answered = h->refused};

    memcpy(attempt.nonce, h->nonce, sizeof attempt.nonce);
    switch (tn_claim_fate(&attempt, &r->token, &r->record, &own)) {
    case TN_SWAP_DONE:
        adopt(w, h, r);
        claimed(w, h, out);
        break;
    case TN_SWAP_PENDING:
        /* It may still land: in doubt until the register differs, or a swap on it decides. */
        if (tn_worker_planned(w, h->job))
            claim_due(w, h, r);
        else if (tn_owner_equal(&r->record.owner, &own))
            release_own(w, h, r);
        else
            h->request = TN_REQUEST_LATER;
        break;
    default:
        read_fresh(w, h, r); /* ours without a pending nonce: a new claim, with a new epoch */
        break;
    }
}

static void read_one(struct tn_worker *w, const struct tn_read *r, struct tn_work_actions *out)
{
    struct tn_held *h = held_of(w, r->job);

    if (h == NULL || h->request != TN_REQUEST_READING)
        return;
    h->request = TN_REQUEST_LATER;
    if (r->status != TENURE_OK)
        return;
    if (tenure_token_absent(&r->token))
        fence(w, h); /* reported by the caller, never claimed */
    else if (h->program != TN_PROGRAM_NONE || (h->doubt && h->purpose == TN_SWAP_COMMIT))
        read_of_run(w, h, r, out);
    else if (h->purpose == TN_SWAP_RELEASE)
        read_release(w, h, r);
    else if (h->doubt)
        read_of_claim(w, h, r, out);
    else
        read_fresh(w, h, r);
}

void tn_held_read(struct tn_worker *w, const struct tn_work_event *ev, struct tn_work_actions *out)
{
    for (unsigned i = 0; i < ev->n; i++)
        read_one(w, &ev->reads[i], out);
}

/* ---- Swaps --------------------------------------------------------------- */

static void swap_took_effect(struct tn_worker *w, struct tn_held *h,
                             const struct tenure_token *token, struct tn_work_actions *out)
{
    set_held_token(w, h, token);
    switch (h->purpose) {
    case TN_SWAP_CLAIM:
        claimed(w, h, out);
        break;
    case TN_SWAP_COMMIT:
        committed(w, h, token, h->seq + 1, out);
        break;
    default:
        out->ring = true;
        drop(w, h);
        break;
    }
}

static void swapped_one(struct tn_worker *w, uint32_t job, enum tenure_status status,
                        const struct tenure_token *token, struct tn_work_actions *out)
{
    struct tn_held *h = held_of(w, job);

    if (h == NULL || h->request != TN_REQUEST_SWAPPING)
        return;
    if (status == TENURE_OK) {
        swap_took_effect(w, h, token, out);
        return;
    }
    h->doubt = true;
    h->refused = status == TENURE_CONFLICT;
    h->request = status == TENURE_CONFLICT ? TN_REQUEST_READ : TN_REQUEST_LATER;
}

void tn_held_swapped(struct tn_worker *w, const struct tn_work_event *ev,
                     struct tn_work_actions *out)
{
    for (unsigned i = 0; i < w->batch_n; i++) {
        w->reads_due |= ev->statuses[i] == TENURE_CONFLICT;
        swapped_one(w, w->lists.batch[i], ev->statuses[i], &ev->tokens[i], out);
    }
    w->batch_n = 0;
}
