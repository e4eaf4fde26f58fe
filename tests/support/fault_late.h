/* fault_late.h - swaps that were told UNKNOWN and are still under way. */
#ifndef TN_FAULT_LATE_H
#define TN_FAULT_LATE_H

#include <pthread.h>

#include <tenure/store.h>

struct late_queue {
    pthread_mutex_t lock;
    struct late *first;
    tenure_store *sender; /* opened when first needed */
};

void late_init(struct late_queue *q);
/* Forgets what is still to come. */
void late_clear(struct late_queue *q);
/* Copies swap.  It is due at that call, or if due_call is 0 at that time.  false: no memory. */
bool late_add(struct late_queue *q, const struct tenure_swap *swap, uint64_t due_call,
              int64_t due_ns);
/* Sends to url what is due by now, in the order in which it was asked for; how many took effect. */
size_t late_send(struct late_queue *q, const char *url, uint64_t call, int64_t now);
size_t late_count(struct late_queue *q);
/* When the next one is due by time; INT64_MAX if none is. */
int64_t late_next(struct late_queue *q);

#endif
