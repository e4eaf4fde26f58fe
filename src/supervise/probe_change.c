#include "supervise/probe_change.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "os/thread.h"

struct tn_probe_change {
    _Atomic int owners; /* the thread, and who asked */
    _Atomic bool done;
    struct tn_probe_options options;
    int wake_fd; /* a copy: whoever asked may be gone */
    struct tn_probe probe;
    enum tenure_status status;
    struct tenure_error err;
};

void tn_probe_change_drop(struct tn_probe_change *c)
{
    if (!c || atomic_fetch_sub(&c->owners, 1) > 1)
        return;
    close(c->wake_fd);
    free(c);
}

static void *make_ready(void *arg)
{
    struct tn_probe_change *c = arg;
    uint64_t one = 1;

    tn_thread_name("tenure-probe");
    c->status = tn_probe_open(&c->probe, &c->options, &c->err);
    atomic_store(&c->done, true);
    if (write(c->wake_fd, &one, sizeof one) < 0) {
        /* It is full: whoever reads it wakes up in any case. */
    }
    tn_probe_change_drop(c);
    return NULL;
}

enum tenure_status tn_probe_change_begin(const struct tn_probe_options *o, int wake_fd,
                                         struct tn_probe_change **out, struct tenure_error *err)
{
    struct tn_probe_change *c = calloc(1, sizeof *c);
    enum tenure_status status;
    pthread_t thread;

    *out = NULL;
    if (!c)
        return tenure_fail(err, TENURE_NOMEM, "out of memory");
    c->options = *o;
    c->wake_fd = fcntl(wake_fd, F_DUPFD_CLOEXEC, 3);
    atomic_store(&c->owners, 2);
    status = tn_thread_start(&thread, make_ready, c, err);
    if (status) {
        atomic_store(&c->owners, 1);
        tn_probe_change_drop(c);
        return status;
    }
    pthread_detach(thread);
    *out = c;
    return TENURE_OK;
}

bool tn_probe_change_done(const struct tn_probe_change *c, struct tn_probe *probe,
                          enum tenure_status *status, struct tenure_error *err)
{
    if (!c || !atomic_load(&c->done))
        return false;
    *probe = c->probe;
    *status = c->status;
    *err = c->err;
    return true;
}
