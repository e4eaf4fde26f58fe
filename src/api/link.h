/*
 * api/link.h - the election's end of the socket pair to its agent (api/wire.h).
 *
 * It has no thread: it runs in its owner's loop.  What is asked and may block runs
 * on threads of its own meanwhile.
 */
#ifndef TN_API_LINK_H
#define TN_API_LINK_H

#include "os/loop.h"
#include "status/election.h"

struct tn_link;

/* socket is the caller's, and stays open until close().  Loop and election must outlive it. */
enum tenure_status tn_link_open(struct tn_loop *loop, int socket, struct tn_election *election,
                                struct tn_link **link, struct tenure_error *err);
/* After the last turn of the loop.  Waits for what uses the election.  Accepts NULL. */
void tn_link_close(struct tn_link *link);

#endif
