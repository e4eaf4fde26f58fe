/*
 * store/redis/tls.h - TLS as a table, so that OpenSSL is mapped only by the
 * module that serves rediss: (tls.c); redis: has no table.
 */
#ifndef TN_STORE_REDIS_TLS_H
#define TN_STORE_REDIS_TLS_H

#include <sys/types.h>

#include "store/redis/conf.h"

/*
 * A session over a non-blocking socket.  Functions that move bytes return how
 * many; 0 says that *want (POLLIN or POLLOUT) must be awaited; -1 that the
 * session is over, with the reason in why.
 */
#define TN_REDIS_TLS_WHY 256

struct tn_redis_tls_ops {
    enum tenure_status (*open)(const struct tn_redis_conf *conf, const char *name, int fd,
                               void **session, struct tenure_error *err);
    /* 1: done.  -2: refused, by a certificate or the protocol; trying again cannot help. */
    int (*handshake)(void *session, short *want, char why[TN_REDIS_TLS_WHY]);
    ssize_t (*read)(void *session, void *data, size_t n, short *want, char why[TN_REDIS_TLS_WHY]);
    ssize_t (*write)(void *session, const void *data, size_t n, short *want,
                     char why[TN_REDIS_TLS_WHY]);
    void (*close)(void *session);
};

/* NULL in the module that has none. */
extern const struct tn_redis_tls_ops *const tn_redis_tls;

#endif
