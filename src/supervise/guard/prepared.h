/*
 * supervise/guard/prepared.h - tenure's side of the prepared releaser: starts it, hands the
 * guard the word to it, and ends it.
 *
 * It is a child of tenure's in a session of its own, so it belongs neither to the
 * program's tree nor dies with tenure.  Its life hangs from the guard's end of
 * their socket (guard/protocol.h): when that is closed, it ends.  The store's URL
 * comes to it in the same memfd as to the guard's own releaser, never in an
 * argument.
 */
#ifndef TN_SUPERVISE_PREPARED_H
#define TN_SUPERVISE_PREPARED_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "os/loop.h"
#include "supervise/guard/link.h"

struct tn_prepared {
    pid_t pid; /* 0: none */
    bool wanted;
    struct tn_timer timer; /* there should be one, or none: that is seen to then */
    struct tn_guard_link *link;
};

/* Does it take long to open such a store? */
bool tn_prepared_pays(const char *store);

void tn_prepared_open(struct tn_prepared *p, struct tn_loop *loop, struct tn_guard_link *link);

/*
 * Called often: wanted says whether there should be one.  Starts it, or ends it,
 * a moment later, so that nobody's start or end has to wait for it.
 */
void tn_prepared_want(struct tn_prepared *p, bool wanted, int64_t now);
/* A child was reaped.  true: it was this one. */
bool tn_prepared_reaped(struct tn_prepared *p, pid_t pid, int64_t now);
/* End it, and reap it. */
void tn_prepared_end(struct tn_prepared *p);

#endif
