/* store/redis/net.h - a connected socket, by a deadline, name resolution included. */
#ifndef TN_STORE_REDIS_NET_H
#define TN_STORE_REDIS_NET_H

#include <stdint.h>

#include "store/redis/conf.h"

/*
 * Connect to addr.  *fd is a non-blocking socket that the caller closes; real
 * (may be NULL) gets its numeric address.  TIMEOUT, CANCELLED, UNAVAILABLE, or
 * DENIED by the file system; then *fd is -1, or after one of the first two a
 * socket that is still connecting: tn_redis_connected() goes on with it.
 */
enum tenure_status tn_redis_connect(const struct tn_remote_addr *addr, int cancel_fd,
                                    int64_t deadline, int *fd, struct tn_remote_addr *real,
                                    struct tenure_error *err);

enum tenure_status tn_redis_connected(int fd, int cancel_fd, int64_t deadline,
                                      struct tenure_error *err);

/* Wait for events on fd.  OK, TIMEOUT, CANCELLED if cancel_fd (if not -1) is readable, UNAVAILABLE.
 */
enum tenure_status tn_redis_await(int fd, short events, int cancel_fd, int64_t deadline,
                                  struct tenure_error *err);

#endif
