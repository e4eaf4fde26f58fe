/*
 * store/redis/link.h - one connection: bytes out, replies in, by a deadline.
 *
 * hiredis formats and parses; the transport (TCP, a Unix socket, TLS) is ours,
 * because Debian's hiredis has neither TLS nor a deadline that counts suspend.
 */
#ifndef TN_STORE_REDIS_LINK_H
#define TN_STORE_REDIS_LINK_H

#include <hiredis/hiredis.h>
#include <stdint.h>

#include "store/redis/conf.h"

#define TN_REDIS_REPLY_MAX (4u << 20) /* bytes of one reply; more is hostile */
#define TN_REDIS_ARRAY_MAX 1024       /* elements of one array */

struct tn_redis_link;

/* A link that is not connected yet; NULL: no memory.  conf must outlive it. */
struct tn_redis_link *tn_redis_link_new(const struct tn_redis_conf *conf,
                                        const struct tn_remote_addr *addr);
/*
 * Connect, and shake hands if the URL says TLS.  No login.  After TIMEOUT and
 * CANCELLED a later call goes on where this one ended; UNAVAILABLE, DENIED (a
 * certificate) and CONFIG are the end of it.
 */
enum tenure_status tn_redis_link_advance(struct tn_redis_link *link, int64_t deadline,
                                         struct tenure_error *err);
/* Both in one; if it does not work now there is no link. */
enum tenure_status tn_redis_link_open(const struct tn_redis_conf *conf,
                                      const struct tn_remote_addr *addr, int64_t deadline,
                                      struct tn_redis_link **link, struct tenure_error *err);
/* Accepts NULL. */
void tn_redis_link_close(struct tn_redis_link *link);

/* The numeric address at the other end; a second link there reaches the same server. */
const struct tn_remote_addr *tn_redis_link_addr(const struct tn_redis_link *link);
int tn_redis_link_fd(const struct tn_redis_link *link);

/* For how long nothing came, no byte and no step of connecting, since something was last sent. */
int64_t tn_redis_link_silent(const struct tn_redis_link *link);
/* The next reply is for a request that was given up: nobody gets to see it. */
void tn_redis_link_skip(struct tn_redis_link *link);

/* Connected, and nothing came that nobody asked for.  Does not block. */
bool tn_redis_link_idle(struct tn_redis_link *link);

/*
 * Send n bytes.  *sent (may be NULL) says how many may have left, also on
 * failure: TIMEOUT or UNAVAILABLE.  A link that failed is good for nothing but
 * tn_redis_link_close().
 */
enum tenure_status tn_redis_link_send(struct tn_redis_link *link, const void *data, size_t n,
                                      int64_t deadline, size_t *sent, struct tenure_error *err);
/* The next reply, freed by freeReplyObject().  TIMEOUT, UNAVAILABLE. */
enum tenure_status tn_redis_link_reply(struct tn_redis_link *link, int64_t deadline,
                                       redisReply **reply, struct tenure_error *err);
/* The same without blocking: OK and NULL if no reply is complete. */
enum tenure_status tn_redis_link_try_reply(struct tn_redis_link *link, redisReply **reply,
                                           struct tenure_error *err);

/* One request and its reply.  argv of texts, ended by NULL. */
enum tenure_status tn_redis_link_ask(struct tn_redis_link *link, const char *const *argv,
                                     int64_t deadline, redisReply **reply,
                                     struct tenure_error *err);

#endif
