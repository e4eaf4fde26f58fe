/*
 * store/redis/server.h - one handle's way to the master, and scripts run there.
 */
#ifndef TN_STORE_REDIS_SERVER_H
#define TN_STORE_REDIS_SERVER_H

#include "store/redis/link.h"
#include "store/redis/reply.h"
#include "store/redis/script.h"
#include "store/redis/sentinel.h"
#include "store/watcher.h"
#include "tenure/store.h"

#define TN_REDIS_SHA      40
#define TN_REDIS_NAME_MAX (TN_REDIS_PREFIX_MAX + TENURE_KEY_MAX + 8)

struct tn_redis_news; /* wait.c */

/*
 * A link to the master that may not be used yet.  It outlives the request that
 * began it: else a line on which every answer comes in time, but not all answers
 * of the set-up within one request, would never get a link again.
 */
struct tn_redis_setup {
    struct tn_redis_link *link; /* NULL: none is being set up */
    struct tn_remote_addr to;
    unsigned asked, answered; /* requests of the greeting (greet.c), and replies */
    unsigned logins;          /* so many of them, the first ones, log in */
    bool probed;
    int64_t patience_ns; /* the longest that one request could wait for it */
};

struct tn_redis {
    struct tn_watcher watcher; /* first (store/watcher.h) */
    struct tn_redis_conf conf;
    struct tn_redis_sentinels sentinels;
    struct tn_redis_setup setup;
    struct tn_redis_link *link;           /* to the master; NULL: none now */
    int64_t span_ns;                      /* that the request in hand had when it began */
    struct tn_remote_addr at;             /* what the link was opened to, as it was named */
    struct tn_remote_addr moved;          /* the cluster's node for our slot, if it told us */
    char timeline[TN_REDIS_TIMELINE + 1]; /* of the link */
    char sha[TN_REDIS_SCRIPTS][TN_REDIS_SHA + 1];
    char registers[TN_REDIS_PREFIX_MAX + 6]; /* "{PREFIX}:k:" */
    char seq[TN_REDIS_PREFIX_MAX + 10];      /* the names of script.h */
    char index[TN_REDIS_PREFIX_MAX + 10];
    char log[TN_REDIS_PREFIX_MAX + 10];
    char sync[TN_REDIS_PREFIX_MAX + 10];
    char promise[512];
    bool no_log;  /* appendonly no */
    bool loading; /* that was the answer to the last greeting */
    struct tn_redis_news *news;
};

/* What became of one request. */
struct tn_redis_answer {
    redisReply *reply;         /* not an error, if the call was OK; the caller frees it */
    enum tn_redis_fault fault; /* what to do about an error */
    bool lost;                 /* no answer came, but the request may have arrived */
    bool unconfirmed;          /* fewer replicas than the URL demands have it */
};

/*
 * Make sure that there is a link to the master, that it is alive, and (with
 * Sentinel) that a majority still calls it the master.  Nothing that the
 * caller wants was sent yet, so every failure is a definite one.
 */
enum tenure_status tn_redis_ready(struct tn_redis *h, int64_t deadline, struct tenure_error *err);
/* Close the link, and with it what was known on it. */
void tn_redis_drop(struct tn_redis *h);
void tn_redis_drop_setup(struct tn_redis *h);

/* Arguments of a script, binary; the pointers are the caller's. */
struct tn_redis_args {
    const char **argv;
    size_t *lens;
    int n, cap;
};
bool tn_redis_args_init(struct tn_redis_args *args, int cap);
void tn_redis_args_free(struct tn_redis_args *args);
void tn_redis_args_reset(struct tn_redis_args *args);
void tn_redis_args_add(struct tn_redis_args *args, const char *text, size_t n);
void tn_redis_args_text(struct tn_redis_args *args, const char *text);

/*
 * Run a script on the link that tn_redis_ready() left.  args begin with the
 * number of keys.  On failure answer->reply is NULL, and the link is gone unless
 * the server itself answered with an error, or had not its time to answer.
 */
enum tenure_status tn_redis_run(struct tn_redis *h, enum tn_redis_script script,
                                const struct tn_redis_args *args, int64_t deadline,
                                struct tn_redis_answer *answer, struct tenure_error *err);

/*
 * After a failed run: should the caller get ready and try again?  Yes if the
 * request certainly did not run and another server, or a fresh connection, may
 * take it.  Bounded by *tries, which starts at 0.
 */
bool tn_redis_try_again(struct tn_redis *h, const struct tn_redis_answer *answer, unsigned *tries);
/*
 * Get ready and run a script that reads, again where that may help.  OK: *reply
 * for the caller to free, which as many replicas confirm as the URL demands.
 */
enum tenure_status tn_redis_ask(struct tn_redis *h, enum tn_redis_script script,
                                const struct tn_redis_args *args, int64_t deadline,
                                redisReply **reply, struct tenure_error *err);
/* The same for a script that reads one register, at most so many bytes of it. */
enum tenure_status tn_redis_fetch(struct tn_redis *h, enum tn_redis_script script, const char *name,
                                  size_t most, int64_t deadline, redisReply **reply,
                                  struct tenure_error *err);

#endif
