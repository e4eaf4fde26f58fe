/*
 * os/resolve.h - host names to addresses, with a deadline.
 *
 * getaddrinfo(3) has none: it blocks for as long as the resolver likes, which
 * would break a store's promise to return in time (C5).
 */
#ifndef TN_OS_RESOLVE_H
#define TN_OS_RESOLVE_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>

#include "tenure/status.h"

#define TN_RESOLVE_MAX 8 /* addresses of one name that are kept */

struct tn_addresses {
    unsigned n;
    char text[TN_RESOLVE_MAX][INET6_ADDRSTRLEN + 16]; /* numeric; a scope may follow after '%' */
};

/*
 * The addresses of host, in the system's order of preference.  A numeric one is
 * returned as it is.  Blocks until deadline, or until wake_fd (-1: none) can be
 * read: CANCELLED.  TIMEOUT at the deadline, UNAVAILABLE if there is no such
 * name now.  The look-up itself goes on in a thread of its own and is then
 * thrown away.
 */
enum tenure_status tn_resolve(const char *host, int wake_fd, int64_t deadline,
                              struct tn_addresses *out, struct tenure_error *err);

/* host is a name or a number for this very machine: "localhost", 127.x.x.x, ::1. */
bool tn_host_is_local(const char *host);

#endif
