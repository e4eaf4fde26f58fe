/*
 * The elector's callbacks.  The loop runs them, but for those that block: a seal waits for the
 * state's store, and a stop for the end of the program, which only the loop can bring about.
 * These run on a worker, so that a thread exists only while there is one.
 */
#include <stddef.h>

#include "core/timing.h"
#include "supervise/supervisor_inner.h"

/* No thread can be made: try again then. */
#define AGAIN_NS (10 * TN_MS)

static struct tn_supervisor *owner(struct tn_task *task)
{
    return (struct tn_supervisor *)((char *)task - offsetof(struct tn_supervisor, blocking));
}

static void run_blocking(struct tn_task *task)
{
    tenure_elector_dispatch(owner(task)->elector);
}

static void blocking_done(struct tn_task *task)
{
    struct tn_supervisor *s = owner(task);

    s->dispatching = false;
    tn_watch_set(&s->callbacks, tenure_elector_fd(s->elector), POLLIN);
}

static void keep_task(struct tn_task *task)
{
    (void)task;
}

static void dispatch(struct tn_supervisor *s)
{
    if (tn_driver_dispatch(s->elector))
        return;
    s->blocking = (struct tn_task){.run = run_blocking, .done = blocking_done, .free = keep_task};
    s->dispatching = tn_worker_post(s->callback_worker, &s->blocking, NULL) == TENURE_OK;
    tn_watch_set(&s->callbacks, -1, 0);
    if (!s->dispatching)
        s->dispatch_again.at_ns = tenure_now() + AGAIN_NS;
}

static void on_callbacks(void *arg, short events)
{
    (void)events;
    dispatch(arg);
}

static void dispatch_again(void *arg, int64_t now)
{
    struct tn_supervisor *s = arg;

    (void)now;
    tn_watch_set(&s->callbacks, tenure_elector_fd(s->elector), POLLIN);
    dispatch(s);
}

bool tn_supervisor_callbacks_open(struct tn_supervisor *s)
{
    tn_loop_watch(&s->loop, &s->callbacks, -1, on_callbacks, s);
    tn_loop_timer(&s->loop, &s->dispatch_again, dispatch_again, s);
    s->callback_worker = tn_worker_new("tenure-callback", &s->loop);
    return s->callback_worker;
}

void tn_supervisor_callbacks_begin(struct tn_supervisor *s)
{
    tn_watch_set(&s->callbacks, tenure_elector_fd(s->elector), POLLIN);
}
