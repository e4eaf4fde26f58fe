/* Turns: a store handle and what belongs to it are used by one thread at a time. */
#include <assert.h>
#include <string.h>
#include <time.h>

#include "state/calls.h"

void tn_turn_init(struct tn_turn *turn)
{
    pthread_condattr_t attr;

    pthread_mutex_init(&turn->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&turn->changed, &attr);
    pthread_condattr_destroy(&attr);
}

void tn_turn_destroy(struct tn_turn *turn)
{
    assert(!turn->taken);
    pthread_cond_destroy(&turn->changed);
    pthread_mutex_destroy(&turn->lock);
}

bool tn_turn_wait(struct tn_turn *turn, int64_t deadline)
{
    int64_t left = deadline - tenure_now(), ns;
    struct timespec until;

    if (left <= 0)
        return false;
    clock_gettime(CLOCK_MONOTONIC, &until);
    ns = until.tv_nsec + left % 1000000000;
    until.tv_sec += left / 1000000000 + ns / 1000000000;
    until.tv_nsec = ns % 1000000000;
    pthread_cond_timedwait(&turn->changed, &turn->lock, &until);
    return true;
}

bool tn_turn_take(struct tn_turn *turn, int64_t deadline)
{
    bool in_time = true;

    pthread_mutex_lock(&turn->lock);
    while (turn->taken && in_time)
        in_time = tn_turn_wait(turn, deadline);
    if (in_time)
        turn->taken = true;
    pthread_mutex_unlock(&turn->lock);
    return in_time;
}

void tn_turn_give(struct tn_turn *turn)
{
    pthread_mutex_lock(&turn->lock);
    assert(turn->taken);
    turn->taken = false;
    pthread_cond_broadcast(&turn->changed);
    pthread_mutex_unlock(&turn->lock);
}

enum tenure_status tn_state_begin(tenure_state *s, const char *what, int64_t deadline,
                                  struct tenure_error *err)
{
    if (!tn_turn_take(&s->turn, deadline))
        return tenure_fail(err, TENURE_TIMEOUT, "%s: the deadline passed behind another call",
                           what);
    if (!s->fenced)
        return TENURE_OK;
    tn_turn_give(&s->turn);
    return tn_state_set_fenced(s, what, err);
}

void tn_state_end(tenure_state *s)
{
    s->settled = s->nonces;
    tn_turn_give(&s->turn);
}

/* ---- Reading beside the caller that has the turn ------------------------- */

enum tenure_status tn_reading_begin(tenure_state *s, struct tn_reading *r, int64_t deadline,
                                    struct tenure_error *err)
{
    *r = (struct tn_reading){.turn = &s->turn, .store = s->store};
    if (tn_turn_take(r->turn, 0))
        return TENURE_OK;
    /* Another handle of noop: has registers of its own. */
    if (strcmp(s->info.scheme, "noop") != 0 && tn_turn_take(&s->reader_turn, deadline)) {
        if (s->reader || !tenure_store_open(s->url, deadline, &s->reader, err)) {
            *r = (struct tn_reading){&s->reader_turn, s->reader, true};
            return TENURE_OK;
        }
        tn_turn_give(&s->reader_turn);
    }
    if (tn_turn_take(r->turn, deadline))
        return TENURE_OK;
    return tenure_fail(err, TENURE_TIMEOUT, "the deadline passed behind another call");
}

void tn_reading_end(struct tn_reading *r)
{
    tn_turn_give(r->turn);
}
