/* agent/proxy_inner.h - the proxy's state; proxy.c and its sisters share it. */
#ifndef TN_AGENT_PROXY_INNER_H
#define TN_AGENT_PROXY_INNER_H

#include <pthread.h>
#include <stdatomic.h>

#include "agent/proxy.h"
#include "api/inner.h"
#include "core/timing.h"

#define TN_PROXY_CALLS 64 /* under way, of all elections */

/* An election of another process.  Never freed before the proxy is: answers may be under way. */
struct tn_upstream {
    struct tn_upstream *next;
    struct tn_proxy *proxy;
    char name[TENURE_NAME_MAX + 1];
    struct tn_election *election; /* its face to the listener */
    struct tn_leader_page *page;
    int page_fd;
    int life_fd; /* of the process, readable once it is dead; another one is put in its place */
    _Atomic uint64_t starts;
    _Atomic int64_t looked_ns;
    _Atomic uint64_t wanted; /* the highest ping that somebody waits for */

    /* Under the proxy's lock. */
    bool there;     /* its process */
    char fate[200]; /* why not */
    int new_socket; /* of a process that was just started, for the thread; -1: none */
    uint64_t acked; /* the highest ping that it has answered */
    bool answered;  /* since it was started, and since somebody looks */
    bool unresponsive;
    struct tn_election_snapshot *last; /* what it last said; NULL: nothing */
    uint64_t news; /* what it cannot report itself: its start, its end, its silence */
    unsigned open; /* requests without an answer */

    /* Of the thread. */
    int socket;         /* -1: none */
    bool watched;       /* somebody looks */
    uint64_t pinged;    /* the last ping that was sent */
    bool ping_lost;     /* it could not be sent, and is tried again */
    int64_t waits_ns;   /* since when its answer is waited for; 0: it has answered */
    int64_t ping_at_ns; /* when the next is due */
};

/* One request that is passed on. */
struct tn_forward {
    struct tn_forward *next;
    struct tn_proxy *proxy;
    struct tn_upstream *upstream;
    uint64_t number;
    struct tn_wire_request request;
    char *path;
    unsigned char *body;
    int64_t by_ns;
    bool sent;                    /* of the thread */
    bool done, forgotten;         /* under the lock */
    struct tn_wire_answer answer; /* status 0: none came */
    unsigned char *answer_body;
};

struct tn_proxy {
    struct tn_api *api;
    int epoll_fd, event_fd;
    pthread_t thread;
    bool thread_started;
    _Atomic bool ending;
    _Atomic(struct tn_upstream *) upstreams; /* grows at its head */
    _Atomic uint64_t pings, numbers;
    union tn_wire_buffer in; /* of the thread */

    pthread_mutex_t lock; /* held for a copy, never over I/O */
    struct tn_forward *calls;
    unsigned n_calls;
};

/* remote.c: what the listener asks of one. */
extern const struct tn_election_remote tn_remote_table;
/* It has sent this.  false: it is malformed. */
bool tn_remote_snapshot(struct tn_upstream *u, uint64_t ping,
                        const struct tn_election_snapshot *bytes, size_t len);

/* proxy_loop.c: the thread. */
void *tn_proxy_main(void *proxy);
void tn_proxy_wake(struct tn_proxy *proxy);

/* proxy_request.c: requests that are passed on. */
extern const struct tn_api_upstream tn_proxy_requests;
void tn_proxy_calls_step(struct tn_proxy *proxy, int64_t now);
/* The upstream has answered; body is a descriptor or -1, and closed. */
bool tn_proxy_answered(struct tn_upstream *u, uint64_t number, const void *bytes, size_t len,
                       int body);
void tn_proxy_calls_end(struct tn_proxy *proxy);

#endif
