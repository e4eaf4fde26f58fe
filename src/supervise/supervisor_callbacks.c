/*
 * The elector's callbacks run in the loop, but for the seal, which waits for the state's store: it
 * has a worker, so that a thread exists only while there is something to seal.
 */
#include <stddef.h>

#include "core/timing.h"
#include "supervise/supervisor_inner.h"

/* No thread can be made: try again then. */
#define RESEAL_NS (50 * TN_MS)

static struct tn_supervisor *owner(struct tn_task *task)
{
    return (struct tn_supervisor *)((char *)task - offsetof(struct tn_supervisor, sealing));
}

static void seal(struct tn_task *task)
{
    tn_driver_seal(owner(task)->elector);
}

static void sealed(struct tn_task *task)
{
    struct tn_supervisor *s = owner(task);

    s->seals = false;
    tn_supervisor_callbacks_begin(s);
}

static void keep_task(struct tn_task *task)
{
    (void)task;
}

static void dispatch(struct tn_supervisor *s)
{
    struct tenure_error err;

    if (tn_driver_dispatch(s->elector))
        return;
    s->sealing = (struct tn_task){.run = seal, .done = sealed, .free = keep_task};
    s->seals = tn_worker_post(s->seal_worker, &s->sealing, &err) == TENURE_OK;
    if (s->seals) {
        tn_watch_set(&s->callbacks, -1, 0);
        return;
    }
    if (!s->unsealed)
        tn_supervisor_unsealed(s, err.text);
    s->reseal.at_ns = tenure_now() + RESEAL_NS;
}

static void on_callbacks(void *arg, short events)
{
    (void)events;
    dispatch(arg);
}

static void reseal(void *arg, int64_t now)
{
    (void)now;
    dispatch(arg);
}

bool tn_supervisor_callbacks_open(struct tn_supervisor *s)
{
    tn_loop_watch(&s->loop, &s->callbacks, -1, on_callbacks, s);
    tn_loop_timer(&s->loop, &s->reseal, reseal, s);
    s->seal_worker = tn_worker_new("tenure-seal", &s->loop);
    return s->seal_worker;
}

void tn_supervisor_callbacks_begin(struct tn_supervisor *s)
{
    tn_watch_set(&s->callbacks, tenure_elector_fd(s->elector), POLLIN);
}
