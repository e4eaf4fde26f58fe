#include "supervise/clerk.h"

#include <string.h>

#include "control/control.h"
#include "core/timing.h"
#include "os/thread.h"
#include "tenure/lease.h"

#define LIMIT_NS (3 * TN_S) /* for one job */
#define CALL_NS  (2 * TN_S)

bool tn_clerk_outranks(const struct tenure_candidate *a, const struct tenure_candidate *b,
                       enum tn_prefer prefer)
{
    int order = strverscmp(a->build, b->build);

    if (a->priority != b->priority)
        return a->priority > b->priority;
    return (prefer == TN_PREFER_OLDEST && order < 0) || (prefer == TN_PREFER_NEWEST && order > 0);
}

/* ---- Jobs ---------------------------------------------------------------- */

struct ranking {
    const struct tn_clerk *clerk;
    const struct tenure_candidate *self;
    unsigned better;
};

static bool rank(void *arg, const struct tenure_candidate *other)
{
    struct ranking *r = arg;

    if (strcmp(other->id, r->self->id) != 0 && strcmp(other->state, "standby") == 0 &&
        tn_clerk_outranks(other, r->self, r->clerk->prefer))
        r->better++;
    return true;
}

struct search {
    const char *self;
    bool found;
};

static bool look_for_standby(void *arg, const struct tenure_candidate *other)
{
    struct search *s = arg;

    s->found =
        other->healthy && strcmp(other->state, "standby") == 0 && strcmp(other->id, s->self) != 0;
    return !s->found;
}

/* True if the leader was asked: by its own control register, like everybody else.  Nobody is called
 * where nobody has announced himself: to find out that nobody answers takes as long as a call. */
static bool step_aside(struct tn_clerk *c, tenure_store *store, const struct tenure_candidate *self,
                       uint64_t epoch)
{
    struct tenure_candidate found = TENURE_CANDIDATE;
    struct search search = {.self = self->id};

    tenure_candidates(store, c->name, look_for_standby, &search, tenure_now() + LIMIT_NS, NULL);
    int64_t by = tenure_now() + CALL_NS;
    return search.found &&
           tenure_control_call(store, c->name, NULL, &found, by, NULL) == TENURE_OK &&
           tenure_control_yield(store, c->name, epoch, found.id, 0, tenure_now() + LIMIT_NS,
                                NULL) == TENURE_OK;
}

static void preempt(struct tn_clerk *c, tenure_store *store, const struct tenure_candidate *self)
{
    struct tenure_lease_view lease = TENURE_LEASE_VIEW;
    struct tenure_candidate leader = TENURE_CANDIDATE;
    int64_t by = tenure_now() + LIMIT_NS;

    if (tenure_lease_look(store, c->name, &lease, by, NULL) != TENURE_OK ||
        lease.state != TENURE_LEASE_HELD || strcmp(lease.holder, self->id) == 0)
        return;
    leader.priority = lease.priority;
    memcpy(leader.build, lease.build, sizeof leader.build);
    if (tn_clerk_outranks(self, &leader, c->prefer))
        tenure_control_yield(store, c->name, lease.epoch, self->id, 0, by, NULL);
}

/* From now on one request, or a few, that end in so long. */
static int64_t within(const struct tn_clerk *c, int64_t span_ns)
{
    int64_t until = tenure_now() + span_ns;

    if (c->request)
        c->request(c->arg, until);
    return until;
}

static void do_jobs(struct tn_clerk *c, unsigned jobs, tenure_store *store,
                    const struct tenure_candidate *self, uint64_t epoch, struct tn_clerk_news *news)
{
    struct ranking ranking = {.clerk = c, .self = self};

    if (jobs & TN_CLERK_ANNOUNCE)
        tn_candidate_announce(store, c->name, self, within(c, LIMIT_NS), NULL);
    if (jobs & TN_CLERK_ROLL)
        tn_control_roll(store, c->name, within(c, LIMIT_NS), NULL);
    if (jobs & TN_CLERK_RANK) {
        tenure_candidates(store, c->name, rank, &ranking, within(c, LIMIT_NS), NULL);
        news->better = ranking.better;
    }
    if (jobs & TN_CLERK_ASIDE) {
        within(c, CALL_NS + 3 * LIMIT_NS);
        news->aside = step_aside(c, store, self, epoch);
    }
    if (jobs & TN_CLERK_PREEMPT) {
        within(c, LIMIT_NS);
        preempt(c, store, self);
    }
    if (jobs & TN_CLERK_WITHDRAW)
        tn_candidate_withdraw(store, c->name, self->id, within(c, LIMIT_NS), NULL);
    within(c, LIMIT_NS); /* to close may mean to write */
}

static void work(struct tn_clerk *c, unsigned jobs, const struct tenure_candidate *self,
                 uint64_t epoch, struct tn_clerk_news *news)
{
    tenure_store *store = NULL;

    if (tenure_store_open(c->store, within(c, LIMIT_NS), &store, NULL) == TENURE_OK)
        do_jobs(c, jobs, store, self, epoch, news);
    tenure_store_close(store);
    if (c->request)
        c->request(c->arg, 0);
}

static void *clerk_main(void *arg)
{
    struct tn_clerk *c = arg;
    struct tenure_candidate self;
    bool more = true;

    tn_thread_name("tenure-clerk");
    while (more) {
        pthread_mutex_lock(&c->lock);
        struct tn_clerk_news news = {.done = c->jobs};
        uint64_t epoch = c->epoch;
        self = c->self;
        c->jobs = 0;
        pthread_mutex_unlock(&c->lock);
        work(c, news.done, &self, epoch, &news);
        pthread_mutex_lock(&c->lock);
        more = c->busy = c->jobs != 0;
        pthread_mutex_unlock(&c->lock);
        c->tell(c->arg, &news); /* who hears it finds us idle, if that was all */
    }
    return NULL;
}

/* ---- Life ---------------------------------------------------------------- */

void tn_clerk_init(struct tn_clerk *c)
{
    pthread_mutex_init(&c->lock, NULL);
}

void tn_clerk_do(struct tn_clerk *c, unsigned jobs, const struct tenure_candidate *self,
                 uint64_t epoch)
{
    pthread_mutex_lock(&c->lock);
    c->jobs = jobs & TN_CLERK_WITHDRAW ? TN_CLERK_WITHDRAW : c->jobs | jobs;
    c->self = *self;
    c->epoch = epoch;
    bool idle = !c->busy;
    c->busy = true;
    pthread_mutex_unlock(&c->lock);
    if (!idle)
        return; /* it takes them when it is done with what it does */
    if (c->started)
        pthread_join(c->thread, NULL);
    c->started = tn_thread_start(&c->thread, clerk_main, c, NULL) == TENURE_OK;
    if (!c->started) {
        pthread_mutex_lock(&c->lock);
        c->busy = false;
        pthread_mutex_unlock(&c->lock);
    }
}

bool tn_clerk_idle(struct tn_clerk *c)
{
    pthread_mutex_lock(&c->lock);
    bool idle = !c->busy;
    pthread_mutex_unlock(&c->lock);
    return idle;
}

void tn_clerk_end(struct tn_clerk *c)
{
    if (c->started)
        pthread_join(c->thread, NULL);
    c->started = false;
    pthread_mutex_destroy(&c->lock);
}
