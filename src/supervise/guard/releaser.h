/*
 * supervise/guard/releaser.h - `tenure release-grant`: what frees the lease when tenure is
 * dead and the program's whole tree is too.
 *
 * The guard becomes one.  Where it takes long to open a store, tenure also keeps
 * one prepared while it leads (supervise/guard/prepared.h): it has everything open already
 * and only waits for the guard's word, which is the one thing that makes it
 * write (I8).
 *
 * The ticket come in a memfd that the guard was born with: it holds the store's
 * URL, which may hold a password, so it never stands in an argument.  Behind it
 * stands tenure's environment, for the same reason (supervise/program/environment.h).
 */
#ifndef TN_SUPERVISE_RELEASER_H
#define TN_SUPERVISE_RELEASER_H

#include <stddef.h>
#include <stdint.h>

#include "supervise/guard/link.h"
#include "tenure/status.h"
#include "tenure/store.h"

#define TN_RELEASE_TICKET_MAX 4096

struct tn_release_ticket {
    const char *store;
    const char *name;
    const char *id;
    uint8_t incarnation[TENURE_NONCE_SIZE];
    uint8_t grant[TENURE_NONCE_SIZE];
    bool member; /* name is a group, id a worker of it: its member record is to be left */
};

/* Returns the length. */
size_t tn_release_ticket_write(const struct tn_release_ticket *ticket, char *text, size_t size);
/* Give it to the guard, with our environment behind it, in the place of the one before.  false: it
 * could not be written. */
bool tn_release_ticket_give(struct tn_guard_link *link, const struct tn_release_ticket *ticket);
/* The strings point into text, which is cut up.  false: not complete. */
bool tn_release_ticket_read(struct tn_release_ticket *ticket, char *text);

/* Take over the environment that stands behind the ticket, before anybody looks into it. */
void tn_release_environment(int fd);
/* Read the ticket from fd and release.  Tries for as long as somebody may gain by it. */
enum tenure_status tn_release_from(int fd, struct tenure_error *err);

/*
 * Open the store of the ticket in fd, keep it open, and do the same when the word
 * comes on the socket (guard/protocol.h).  OK also if it ends without a word.
 */
enum tenure_status tn_release_when_told(int socket, int fd, struct tenure_error *err);

#endif
