/*
 * state/http/desk.h - requests for the state that wait for one thread to do them.
 *
 * The server's thread hands them over and parks them; the desk's thread takes
 * all that have come meanwhile and answers them together, so that commits of
 * many connections share one flush.  Then the server is woken and collects.
 */
#ifndef TN_STATE_HTTP_DESK_H
#define TN_STATE_HTTP_DESK_H

#include "state/http/http.h"

struct tn_state_desk;

struct tn_state_desk_options {
    /* Answer them all.  On the desk's thread; blocks. */
    void (*work)(void *arg, struct tn_state_ask *const *asks, size_t n);
    /* Some are answered. */
    void (*wake)(void *arg);
    /* The turn that a request comes in.  On the server's thread; must not block. */
    uint64_t (*turn)(void *arg);
    void *arg;
};

enum tenure_status tn_state_desk_open(const struct tn_state_desk_options *options,
                                      struct tn_state_desk **desk, struct tenure_error *err);
/* The server must have stopped.  Accepts NULL. */
void tn_state_desk_close(struct tn_state_desk *desk);

/* The server's handler: parks a request, and answers it when it is done.  Not begun if it is full.
 */
void tn_state_desk_handle(struct tn_state_desk *desk, const struct tn_http_request *request,
                          struct tn_http_reply *reply);
/* The server's word that a request is over: whatever is left of it is waited for. */
void tn_state_desk_done(struct tn_state_desk *desk, struct tn_http_memo *memo);

#endif
