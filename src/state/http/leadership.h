/*
 * state/http/leadership.h - the program is told whether it leads: at once, at the next change
 * (?wait=), or all the time (?stream=1).
 *
 * A thread wakes those who wait when the owner says that something has changed, and when time
 * alone ends the term.  It is started by the first who waits, and sleeps while nobody does.
 */
#ifndef TN_STATE_HTTP_LEADERSHIP_H
#define TN_STATE_HTTP_LEADERSHIP_H

#include "http/module.h"

/* The current term, at one moment. */
struct tn_leadership_view {
    const char *name; /* of the election */
    bool leading;     /* there is time left of it */
    bool draining;    /* the program is to stop: a hand-over, or tenure stops */
    uint64_t epoch, turn;
    int64_t left_ns; /* until the work must have ended, if nothing is renewed */
};

struct tn_leadership;

struct tn_leadership_options {
    /* Any thread; may block for as long as a seal does. */
    void (*view)(void *arg, struct tn_leadership_view *view);
    /* The server, as http/module.h has it: they do nothing once it is gone. */
    void (*count)(void *arg, struct tn_http_counts *counts);
    void (*wake)(void *arg);
    void (*publish)(void *arg, const char *text, size_t len);
    void *arg;
};

/* NOMEM; UNAVAILABLE without a descriptor. */
enum tenure_status tn_leadership_open(const struct tn_leadership_options *options,
                                      struct tn_leadership **leadership, struct tenure_error *err);
/* The server must have stopped: nobody is told any more, and the view is not asked for.  Accepts
 * NULL, as close() does, which frees it too. */
void tn_leadership_end(struct tn_leadership *leadership);
void tn_leadership_close(struct tn_leadership *leadership);
/* Something may have changed.  Never blocks. */
void tn_leadership_notify(struct tn_leadership *leadership);
/* Answers GET /v1/leadership, or parks it.  On the server's thread. */
void tn_leadership_answer(struct tn_leadership *leadership, const struct tn_http_request *request,
                          struct tn_http_reply *reply);

#endif
