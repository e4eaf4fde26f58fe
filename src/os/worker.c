#include "os/worker.h"

#include <assert.h>
#include <stddef.h>
#include <stdlib.h>

#include "os/thread.h"

struct tn_worker {
    const char *name;
    pthread_mutex_t lock;
    struct tn_loop *loop; /* NULL: its owner is gone */
    struct tn_call call;
    struct tn_task *queue, *finished;
    bool running; /* there is a thread; it shares the ownership */
    bool busy;    /* which runs a task */
};

static void append(struct tn_task **list, struct tn_task *task)
{
    while (*list)
        list = &(*list)->next;
    task->next = NULL;
    *list = task;
}

/* Under the lock. */
static struct tn_task *pop_task(struct tn_task **list)
{
    struct tn_task *task = *list;

    if (task)
        *list = task->next;
    return task;
}

/* Under the lock, which it gives back. */
static void release(struct tn_worker *w)
{
    bool last = !w->loop && !w->running;

    pthread_mutex_unlock(&w->lock);
    if (!last)
        return;
    pthread_mutex_destroy(&w->lock);
    free(w);
}

static void complete(struct tn_call *call)
{
    struct tn_worker *w = (struct tn_worker *)((char *)call - offsetof(struct tn_worker, call));

    for (;;) {
        pthread_mutex_lock(&w->lock);
        struct tn_task *task = pop_task(&w->finished);
        pthread_mutex_unlock(&w->lock);
        if (!task)
            return;
        task->done(task);
        task->free(task);
    }
}

struct tn_worker *tn_worker_new(const char *name, struct tn_loop *loop)
{
    struct tn_worker *w = calloc(1, sizeof *w);

    if (!w)
        return NULL;
    w->name = name;
    w->loop = loop;
    w->call.run = complete;
    pthread_mutex_init(&w->lock, NULL);
    return w;
}

static void *worker_main(void *arg)
{
    struct tn_worker *w = arg;
    struct tn_task *task;

    tn_thread_name(w->name);
    pthread_mutex_lock(&w->lock);
    while ((task = pop_task(&w->queue))) {
        w->busy = true;
        pthread_mutex_unlock(&w->lock);
        task->run(task);
        pthread_mutex_lock(&w->lock);
        w->busy = false;
        if (w->loop) {
            append(&w->finished, task);
            tn_loop_post(w->loop, &w->call);
        } else {
            task->free(task);
        }
    }
    w->running = false;
    release(w);
    return NULL;
}

enum tenure_status tn_worker_post(struct tn_worker *w, struct tn_task *task,
                                  struct tenure_error *err)
{
    enum tenure_status status = TENURE_OK;
    pthread_t thread;

    pthread_mutex_lock(&w->lock);
    assert(w->loop);
    if (!w->running && !(status = tn_thread_start(&thread, worker_main, w, err))) {
        pthread_detach(thread);
        w->running = true;
    }
    if (!status)
        append(&w->queue, task);
    pthread_mutex_unlock(&w->lock);
    if (status)
        task->free(task);
    return status;
}

bool tn_worker_idle(struct tn_worker *w)
{
    pthread_mutex_lock(&w->lock);
    bool idle = !w->queue && !w->busy && !w->finished;
    pthread_mutex_unlock(&w->lock);
    return idle;
}

void tn_worker_free(struct tn_worker *w)
{
    struct tn_task *task;

    if (!w)
        return;
    pthread_mutex_lock(&w->lock);
    tn_loop_cancel(w->loop, &w->call);
    w->loop = NULL;
    while ((task = pop_task(&w->queue)) || (task = pop_task(&w->finished)))
        task->free(task);
    release(w);
}
