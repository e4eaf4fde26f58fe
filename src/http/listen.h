/* http/listen.h - a listening socket from "host:port" or "unix:/path". */
#ifndef TN_HTTP_LISTEN_H
#define TN_HTTP_LISTEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tenure/status.h"

struct tn_listener {
    int fd;
    bool local;             /* a Unix socket */
    uint16_t port;          /* TCP */
    char path[108];         /* Unix: removed at the end, if it is still */
    uint64_t device, inode; /* this file */
};

enum tenure_status tn_listen(const char *address, struct tn_listener *out,
                             struct tenure_error *err);
/* Remove the file of a Unix socket, unless somebody else's is in its place. */
void tn_listen_remove(const struct tn_listener *listener);
/* Does the peer of this connection run as our own user, as that other one, or root? */
bool tn_listen_peer_is_ours(int fd, uint32_t user);
/* The peer of this connection, for people: an address and a port, or a user and a process. */
void tn_listen_peer(int fd, char *out, size_t size);

#endif
