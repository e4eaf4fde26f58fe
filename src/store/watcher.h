/*
 * store/watcher.h - wait() of a store, once for all back ends.
 *
 * A back end gives three functions: subscribe, next and compare.  The watcher owns everything
 * else: the order of the three, so that no change falls between them (C6); what is known of each
 * register, so that a standby that waits again need not ask again; deadlines and cancellation;
 * attempts at other servers; a subscription that ended, was silent for too long, or ends again
 * and again.  Nothing runs unless somebody waits: there is no thread, and the subscription is the
 * back end's own descriptor.
 *
 *   1. subscribe   from now on changes reach next()
 *   2. next        what came before is taken in, and only updates what is known
 *   3. compare     is what the caller last saw still there?  Asked only of what is not known
 *   4. next        wait; a change of something watched ends it
 *
 * After a gap (the subscription was lost, or is not believed) it begins again at 1: what was
 * missed is found by comparing.
 */
#ifndef TN_STORE_WATCHER_H
#define TN_STORE_WATCHER_H

#include "tenure/store.h"

#define TN_WATCHER_MAX 16 /* registers and prefixes that are followed */
#define TN_WATCHER_CONFIRM_NS                                                                      \
    INT64_C(2000000000) /* a subscription not confirmed by then is lost                            \
                         */

/* A register or prefix that is followed. */
struct tn_followed {
    char key[TENURE_KEY_MAX + 1];
    bool prefix;
    bool live;     /* its changes reach next() */
    bool compared; /* since it became live: before that no event is believed */
    bool known;    /* token is the register's, or news of a later one is on its way; only if live */
    struct tenure_token token;
    int64_t began_ns; /* when it became live, */
    int64_t heard_ns; /* and when it last said something, or was found to be right */
    void *feed;       /* the back end's own */
    unsigned number;  /* likewise */
};

struct tn_watcher;

struct tn_watcher_ops {
    /*
     * Subscribe to all of w->followed that is not live, and tn_watcher_confirm() each.  What is
     * under way when the time is up (TIMEOUT, CANCELLED) goes on in the next call.
     */
    enum tenure_status (*subscribe)(struct tn_watcher *w, int64_t by, struct tenure_error *err);
    /*
     * Take in what is there; if nothing is, wait for it until `until` (0: do not wait).  Tells by
     * tn_watcher_heard(), _event(), _changed() and _lost().  TIMEOUT: nothing came.  CANCELLED.
     * Anything else: the whole subscription has ended.
     */
    enum tenure_status (*next)(struct tn_watcher *w, int64_t until, struct tenure_error *err);
    /* *changed: one of these watches is not as its caller last saw it. */
    enum tenure_status (*compare)(struct tn_watcher *w, const struct tenure_watch *const *watches,
                                  size_t n, int64_t by, bool *changed, struct tenure_error *err);
    /* OPTIONAL.  Close the subscription; that of one register or prefix, or (NULL) all. */
    void (*unsubscribe)(struct tn_watcher *w, struct tn_followed *one);
    /* OPTIONAL.  The next attempt asks another server. */
    void (*next_server)(struct tn_watcher *w);
};

/* The first member of the back end's handle.  Zeroed, then filled by the back end up to the line.
 */
struct tn_watcher {
    const struct tn_watcher_ops *ops;
    void *impl;
    const char *scheme;     /* for messages */
    int *cancel_fd;         /* where the back end looks for a descriptor that ends a request */
    unsigned *unanswered;   /* may be NULL: requests so far that the servers left unanswered */
    unsigned attempts;      /* at subscribing and comparing before a wait fails; at least 1 */
    int64_t attempt_max_ns; /* that one of them may take; 0: all the time there is */
    bool share;             /* the attempts share the time */
    bool session;           /* a subscription that ends takes more with it: so does the wait */
    int64_t silence_ns;     /* who says nothing for so long is asked; 0: is believed */
    int64_t poll_ns;        /* compare that often, because nothing tells of changes; 0: not */
    /* ---- */
    struct tn_followed *followed; /* TN_WATCHER_MAX of them; NULL until somebody waits */
    unsigned n_followed;
    unsigned unanswered_then; /* when the subscription began */
    const struct tenure_watch *watches;
    size_t n_watches; /* of the wait in progress */
    int64_t deadline;
    int64_t compared_ns;
    bool compared;  /* what is there was compared: from now on events count */
    bool changed;   /* something watched has changed */
    bool again;     /* something has to be subscribed or compared again */
    unsigned brief; /* subscriptions that ended as soon as they had begun, in this wait */
};

/* wait() of struct tenure_store_ops, for a handle whose first member is its watcher. */
enum tenure_status tn_watcher_wait(void *impl, const struct tenure_watch *watches, size_t n,
                                   int wake_fd, int64_t deadline, struct tenure_error *err);

/* The handle has just seen the register like that. */
void tn_watcher_learn(struct tn_watcher *w, const char *key, const struct tenure_token *token);
/* What was known of it (NULL: of everything) may be over. */
void tn_watcher_forget(struct tn_watcher *w, const char *key);
/* Close the subscription; the next wait makes another.  Accepts one that was never made. */
void tn_watcher_drop(struct tn_watcher *w);
/* For close(). */
void tn_watcher_free(struct tn_watcher *w);

/* ---- For the three functions --------------------------------------------- */

struct tn_followed *tn_watcher_find(const struct tn_watcher *w, const char *key, bool prefix);
/* Everything that is followed is live. */
bool tn_watcher_live(const struct tn_watcher *w);
void tn_watcher_confirm(struct tn_followed *one);
/* The subscription (NULL: the one of all) has just said something. */
void tn_watcher_heard(struct tn_watcher *w, struct tn_followed *one);
/* A register has changed; to what cannot be told if token is NULL, nor which if key is. */
void tn_watcher_event(struct tn_watcher *w, const char *key, const struct tenure_token *token);
/* Something under the prefixes of this key has changed, but not the register itself. */
void tn_watcher_event_under(struct tn_watcher *w, const char *key);
/* Something watched has changed. */
void tn_watcher_changed(struct tn_watcher *w);
/* The subscription to one has ended; there will be another before the wait goes on. */
void tn_watcher_lost(struct tn_watcher *w, struct tn_followed *one);

#endif
