#include "thread.h"

#include <signal.h>
#include <string.h>

/* Client libraries of stores (TLS handshakes, SQLite) run on these. */
#define STACK_SIZE (256 * 1024)

enum tenure_status tn_thread_start(pthread_t *thread, void *(*run)(void *), void *arg,
                                   struct tenure_error *err)
{
    pthread_attr_t attr;
    sigset_t all, before;
    int failed;

    failed = pthread_attr_init(&attr);
    if (failed)
        return tenure_fail(err, TENURE_NOMEM, "cannot start a thread: %s", strerror(failed));
    pthread_attr_setstacksize(&attr, STACK_SIZE);
    /* The new thread inherits the mask: signals go to the program's own threads. */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    failed = pthread_create(thread, &attr, run, arg);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attr);
    if (failed)
        return tenure_fail(err, TENURE_UNAVAILABLE, "cannot start a thread: %s", strerror(failed));
    return TENURE_OK;
}

void tn_thread_name(const char *name)
{
    pthread_setname_np(pthread_self(), name);
}
