/*
 * os/worker.h - what may block, one after another on another thread; its completion in a loop.
 *
 * The thread exists only while there is something to do.  A task that hangs holds up the tasks
 * behind it, never the loop; so tasks that must not wait for each other have workers of their own.
 */
#ifndef TN_OS_WORKER_H
#define TN_OS_WORKER_H

#include "os/loop.h"

struct tn_task {
    void (*run)(struct tn_task *task);  /* on the worker's thread */
    void (*done)(struct tn_task *task); /* in the loop; not if the worker is gone by then */
    void (*free)(struct tn_task *task); /* after that, on either thread */
    struct tn_task *next;
};

/* name: of the thread, at most 15 characters; lives on.  NULL: out of memory. */
struct tn_worker *tn_worker_new(const char *name, struct tn_loop *loop);
/* Takes the task, also on failure: then it was freed without being run. */
enum tenure_status tn_worker_post(struct tn_worker *w, struct tn_task *task,
                                  struct tenure_error *err);
/* Everything that was posted has run, and is done. */
bool tn_worker_idle(struct tn_worker *w);
/* What is under way is not waited for: nobody hears of it any more.  Accepts NULL. */
void tn_worker_free(struct tn_worker *w);

#endif
