/* os/thread.h - threads with small stacks that never take a signal. */
#ifndef TN_OS_THREAD_H
#define TN_OS_THREAD_H

#include <pthread.h>

#include "tenure/status.h"

/* name: at most 15 characters, shown by ps and gdb. */
enum tenure_status tn_thread_start(pthread_t *thread, const char *name, void *(*run)(void *),
                                   void *arg, struct tenure_error *err);

#endif
