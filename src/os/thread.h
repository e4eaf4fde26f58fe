/* os/thread.h - threads with small stacks that never take a signal. */
#ifndef TN_OS_THREAD_H
#define TN_OS_THREAD_H

#include <pthread.h>

#include "tenure/status.h"

enum tenure_status tn_thread_start(pthread_t *thread, void *(*run)(void *), void *arg,
                                   struct tenure_error *err);
/* For ps and gdb, at most 15 characters.  A thread names itself: from outside it takes three more
 * system calls, of whoever is waiting for it. */
void tn_thread_name(const char *name);

#endif
