/*
 * core/jobs/worker_inner.h - what the worker's files share.
 *
 *   worker.c       the events, and the round
 *   worker_view.c  what was read: plan, members, catalogue; burials, placeholders
 *   worker_jobs.c  the registers of the jobs: claims, commits, releases
 *   worker_batch.c the requests about them
 *   worker_plan.c  the need of a plan, and its making
 */
#ifndef TN_CORE_JOBS_WORKER_INNER_H
#define TN_CORE_JOBS_WORKER_INNER_H

#include <assert.h>
#include <string.h>

#include "core/jobs/worker.h"

static inline bool nonce_equal(const uint8_t *a, const uint8_t *b)
{
    return memcmp(a, b, TENURE_NONCE_SIZE) == 0;
}

static inline struct tn_held *held_of(const struct tn_worker *w, uint32_t job)
{
    uint32_t at = job < w->cfg.jobs_max ? w->cfg.known[job].held : 0;

    return at ? &w->cfg.held[at - 1] : NULL;
}

static inline char *version_of(const struct tn_worker *w, const struct tn_held *h)
{
    return w->cfg.versions + (size_t)(h - w->cfg.held) * w->cfg.version_size;
}

static inline struct tenure_token held_token(const struct tn_worker *w, const struct tn_held *h)
{
    struct tenure_token token = {.version = ""};

    memcpy(token.version, version_of(w, h), w->cfg.version_size);
    memcpy(token.nonce, h->expect, sizeof token.nonce);
    return token;
}

static inline void set_held_token(const struct tn_worker *w, struct tn_held *h,
                                  const struct tenure_token *token)
{
    size_t n = strlen(token->version);

    assert(n < w->cfg.version_size);
    memset(version_of(w, h), 0, w->cfg.version_size);
    memcpy(version_of(w, h), token->version, n);
    memcpy(h->expect, token->nonce, sizeof h->expect);
}

/* The caller's memory in parts, each aligned for uint64_t. */
static inline size_t rounded(size_t bytes)
{
    return (bytes + 7) / 8 * 8;
}

static inline void *carve(unsigned char **at, size_t bytes)
{
    void *part = *at;

    *at += rounded(bytes);
    return part;
}

/* The place of a member in the table; peer_count: it is not there. */
uint32_t tn_worker_peer(const struct tn_worker *w, const char *id);
/* The job is planned for this worker, and is to run. */
bool tn_worker_planned(const struct tn_worker *w, uint32_t job);
struct tn_owner tn_worker_owner(const struct tn_worker *w);

/* ---- worker_view.c ------------------------------------------------------- */
void tn_view_plan(struct tn_worker *w, const struct tn_work_event *ev);
void tn_view_members(struct tn_worker *w, const struct tn_work_event *ev);
void tn_view_catalogue(struct tn_worker *w, const struct tn_work_event *ev);
/* When the next member will have been silent for W; nobody is waited for longer. */
int64_t tn_view_silent_at(const struct tn_worker *w);
/* Swap a silent member to dead, or put a placeholder; false: there is nothing to do. */
bool tn_view_bury(struct tn_worker *w, const struct tn_work_event *ev, struct tn_work_actions *out);

/* ---- worker_jobs.c ------------------------------------------------------- */
/* The membership is over: nothing is claimed, committed or released under it any more. */
void tn_held_forget(struct tn_worker *w);
/* By the plan and the catalogue: what is to be read, stopped, released. */
void tn_held_review(struct tn_worker *w);
void tn_held_read(struct tn_worker *w, const struct tn_work_event *ev, struct tn_work_actions *out);
void tn_held_swapped(struct tn_worker *w, const struct tn_work_event *ev,
                     struct tn_work_actions *out);
void tn_held_stopped(struct tn_worker *w, uint32_t job);
void tn_held_commit(struct tn_worker *w, uint32_t job);
/* One run of ours, by what is held. */
struct tn_run tn_held_run(const struct tn_worker *w, const struct tn_held *h);
/* What is to be stopped, as much as one step can say. */
void tn_held_tell_stops(struct tn_worker *w, struct tn_work_actions *out);

/* ---- worker_batch.c ------------------------------------------------------ */
/* The next batch; false: nothing is due. */
bool tn_held_ask(struct tn_worker *w, const struct tn_work_event *ev, struct tn_work_actions *out);
/* A batch was answered: how many jobs the next one may have. */
void tn_held_pace(struct tn_worker *w);

/* ---- worker_plan.c ------------------------------------------------------- */
/* Plan, if it is needed and this worker's turn; false: it is not. */
bool tn_plan_ask(struct tn_worker *w, const struct tn_work_event *ev, struct tn_work_actions *out);

#endif
