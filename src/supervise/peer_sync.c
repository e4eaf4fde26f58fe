#include "supervise/peer_sync.h"

#include <stdlib.h>
#include <string.h>

#include "control/control.h"
#include "core/timing.h"
#include "tenure/lease.h"

#define LIMIT_NS (3 * TN_S) /* for one job */
#define CALL_NS  (2 * TN_S)

bool tn_peer_outranks(const struct tenure_candidate *a, const struct tenure_candidate *b,
                      enum tn_prefer prefer)
{
    int order = strverscmp(a->build, b->build);

    if (a->priority != b->priority)
        return a->priority > b->priority;
    return (prefer == TN_PREFER_OLDEST && order < 0) || (prefer == TN_PREFER_NEWEST && order > 0);
}

static bool leads(const struct tenure_candidate *c)
{
    return strcmp(c->state, "leading") == 0;
}

static bool stands_by(const struct tenure_candidate *c)
{
    return c->healthy && strcmp(c->state, "standby") == 0;
}

bool tn_peer_holds_back(const struct tenure_candidate *self, const struct tenure_candidate *other)
{
    int order = strcmp(self->since, other->since);

    if (leads(self) || leads(other))
        return !leads(self);
    if (!stands_by(self) || !stands_by(other))
        return stands_by(other);
    return order != 0 ? order > 0 : strcmp(self->incarnation, other->incarnation) > 0;
}

/* ---- Jobs ---------------------------------------------------------------- */

struct ranking {
    const struct tn_peer_sync *sync;
    const struct tenure_candidate *self;
    unsigned better;
    struct tenure_candidate own; /* under our id; its id is "" if there is none */
};

static bool rank(void *arg, const struct tenure_candidate *other)
{
    struct ranking *r = arg;

    if (strcmp(other->id, r->self->id) == 0)
        r->own = *other;
    else if (strcmp(other->state, "standby") == 0 &&
             tn_peer_outranks(other, r->self, r->sync->prefer))
        r->better++;
    return true;
}

struct search {
    const char *self;
    bool found;
};

static bool find_standby(void *arg, const struct tenure_candidate *other)
{
    struct search *s = arg;

    s->found = stands_by(other) && strcmp(other->id, s->self) != 0;
    return !s->found;
}

/* No call is made where no candidate is announced: that nobody answers is known only when a call
 * has timed out. */
static bool find_successor(const struct tn_peer_sync *p, tenure_store *store,
                           const struct tenure_candidate *self)
{
    struct tenure_candidate found = TENURE_CANDIDATE;
    struct search search = {.self = self->id};

    tenure_candidates(store, p->name, find_standby, &search, tenure_now() + LIMIT_NS, NULL);
    int64_t by = tenure_now() + CALL_NS;
    return search.found && tenure_control_call(store, p->name, NULL, &found, by, NULL) == TENURE_OK;
}

static void preempt(const struct tn_peer_sync *p, tenure_store *store,
                    const struct tenure_candidate *self)
{
    struct tenure_lease_view lease = TENURE_LEASE_VIEW;
    struct tenure_candidate leader = TENURE_CANDIDATE;
    int64_t by = tenure_now() + LIMIT_NS;

    if (tenure_lease_look(store, p->name, &lease, by, NULL) != TENURE_OK ||
        lease.state != TENURE_LEASE_HELD || strcmp(lease.holder, self->id) == 0)
        return;
    leader.priority = lease.priority;
    memcpy(leader.build, lease.build, sizeof leader.build);
    if (tn_peer_outranks(self, &leader, p->prefer))
        tenure_control_yield(store, p->name, lease.epoch, self->id, 0, by, NULL);
}

/* From now on one request, or a few, that end in so long. */
static int64_t within(const struct tn_peer_sync *p, int64_t span_ns)
{
    int64_t until = tenure_now() + span_ns;

    if (p->request)
        p->request(p->arg, until);
    return until;
}

/* ---- On the worker ------------------------------------------------------- */

struct sync_task {
    struct tn_task task;
    struct tn_peer_sync *sync; /* its constants; the rest belongs to the loop */
    struct tenure_candidate self;
    bool announced;
    struct tn_fence_turn turn;
    struct tenure_token suspect;
    struct tn_peer_result result;
};

/* Every record that one process writes is found by the other one: in the list, or when it replaces
 * it.  What stood there before our first was left by a process that is gone, or will answer. */
static void check_record(struct sync_task *t, const struct tenure_candidate *found)
{
    struct tn_peer_result *r = &t->result;
    bool ours = !found->incarnation[0] || strcmp(found->incarnation, t->self.incarnation) == 0;

    if (!t->announced || (found->id[0] && ours))
        return;
    r->duplicate = *found;
    r->removed = !found->id[0];
}

static void announce(const struct tn_peer_sync *p, tenure_store *store, struct sync_task *t)
{
    struct tenure_candidate was = TENURE_CANDIDATE;

    if (tn_candidate_announce(store, p->name, &t->self, &was, within(p, LIMIT_NS), NULL))
        return;
    check_record(t, &was);
    t->announced = true;
}

static void do_jobs(const struct tn_peer_sync *p, tenure_store *store, struct sync_task *t)
{
    struct ranking ranking = {.sync = p, .self = &t->self};
    unsigned jobs = t->result.done;

    if (jobs & TN_PEER_ANNOUNCE)
        announce(p, store, t);
    if (jobs & TN_PEER_WITHDRAW)
        tn_candidate_withdraw(store, p->name, t->self.id, t->self.incarnation, within(p, LIMIT_NS),
                              NULL);
    if (jobs & TN_PEER_MEMBERSHIP)
        tn_control_roll(store, p->name, within(p, LIMIT_NS), NULL);
    if (jobs & TN_PEER_RANK) {
        if (!tenure_candidates(store, p->name, rank, &ranking, within(p, LIMIT_NS), NULL))
            check_record(t, &ranking.own);
        t->result.better = ranking.better;
    }
    if (jobs & TN_PEER_STEP_DOWN) {
        within(p, CALL_NS + 3 * LIMIT_NS);
        t->result.successor = find_successor(p, store, &t->self);
    }
    if (jobs & TN_PEER_PREEMPT) {
        within(p, LIMIT_NS);
        preempt(p, store, &t->self);
    }
    if (jobs & TN_PEER_TURN_OVER)
        tn_fence_turn_end(&t->turn, store, p->name, within(p, LIMIT_NS));
    if (jobs & TN_PEER_TURN)
        t->result.turn = tn_fence_turn_take(&t->turn, store, p->name, t->self.id, &t->suspect,
                                            p->turn_limit_ns, within(p, LIMIT_NS));
    within(p, LIMIT_NS); /* to close may mean to write */
}

static void run(struct tn_task *task)
{
    struct sync_task *t = (struct sync_task *)task;
    struct tn_peer_sync *p = t->sync;
    tenure_store *store = NULL;

    if (tenure_store_open(p->store, within(p, LIMIT_NS), &store, NULL) == TENURE_OK)
        do_jobs(p, store, t);
    tenure_store_close(store);
    if (p->request)
        p->request(p->arg, 0);
}

static void start(struct tn_peer_sync *p);

static void done(struct tn_task *task)
{
    struct sync_task *t = (struct sync_task *)task;
    struct tn_peer_sync *p = t->sync;

    p->running = false;
    p->announced = t->announced;
    p->turn = t->turn;
    start(p);
    p->finished(p->arg, &t->result);
}

static void free_task(struct tn_task *task)
{
    free(task);
}

/* No thread or no memory: later, with the next jobs.  But nobody waits for a step-down or a turn
 * that does not come: it has found no standby, or is not ours. */
static void postpone(struct tn_peer_sync *p, unsigned jobs)
{
    struct tn_peer_result none = {.done = jobs & (TN_PEER_STEP_DOWN | TN_PEER_TURN)};

    p->jobs = jobs & ~none.done;
    if (none.done)
        p->finished(p->arg, &none);
}

static void start(struct tn_peer_sync *p)
{
    unsigned jobs = p->jobs;
    struct sync_task *t = jobs && !p->running ? calloc(1, sizeof *t) : NULL;

    if (!t) {
        if (jobs && !p->running)
            postpone(p, jobs);
        return;
    }
    t->task = (struct tn_task){.run = run, .done = done, .free = free_task};
    t->sync = p;
    t->self = p->self;
    t->announced = p->announced;
    t->turn = p->turn;
    t->suspect = p->suspect;
    t->result.done = jobs;
    p->jobs = 0;
    p->running = tn_worker_post(p->worker, &t->task, NULL) == TENURE_OK;
    if (!p->running)
        postpone(p, jobs);
}

void tn_peer_sync_post(struct tn_peer_sync *p, unsigned jobs, const struct tenure_candidate *self)
{
    p->jobs = jobs & TN_PEER_WITHDRAW ? jobs : p->jobs | jobs;
    p->self = *self;
    start(p);
}

bool tn_peer_sync_idle(const struct tn_peer_sync *p)
{
    return !p->running;
}
