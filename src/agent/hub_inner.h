/* agent/hub_inner.h - the hub's state; hub.c, far.c and their sisters share it. */
#ifndef TN_AGENT_HUB_INNER_H
#define TN_AGENT_HUB_INNER_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/socket.h>

#include "agent/hub.h"
#include "api/inner.h"
#include "core/timing.h"

#define TN_HUB_NAMES  256 /* that there ever were */
#define TN_HUB_CALLS  64  /* under way */
#define TN_HUB_ORDERS 16  /* of one election */

/* Who has said nothing for so long is told as silent; its own beat is two seconds. */
#define TN_FAR_SILENT_NS (6 * TN_S)
/* A stream is kept so long after the last look. */
#define TN_FAR_KEEP_NS   (30 * TN_S)

struct tn_bytes {
    char *data;
    size_t len, cap;
};

/* One descriptor in the thread's epoll. */
struct tn_end {
    int fd; /* -1: none */
    struct tn_far *link;
    struct tn_leg *leg; /* either of them */
};

/* An election of another process.  Never freed before the hub is. */
struct tn_far {
    struct tn_hub *hub;
    char name[TENURE_NAME_MAX + 1];
    struct tn_election *election; /* its face to the listener */
    struct tn_facts *facts;
    int facts_fd;
    int life_fd; /* of the process, readable once it is dead; another one is put in its place */
    int pair_fd; /* to it: connections are handed over there; likewise */
    _Atomic uint64_t starts;
    _Atomic int64_t looked_ns;

    /* Under the hub's lock. */
    bool there;       /* its process */
    char fate[200];   /* why not */
    json_t *last;     /* what it told last; copied, never shared */
    int64_t heard_ns; /* when */
    bool told;        /* since it was started, and since somebody looks */
    bool silent;
    uint64_t news; /* what it cannot tell itself: its start, its end, its silence */
    unsigned orders;

    /* Of the thread. */
    struct tn_end end;
    struct tn_bytes in;
    bool body; /* the answer's head is behind us */
    uint64_t link_start;
    int64_t link_ns; /* since when, or when to try again */
};

enum tn_call_kind { TN_CALL_ORDER, TN_CALL_HEALTH, TN_CALL_METRICS };

/* One request that is passed on to one process. */
struct tn_leg {
    struct tn_end end;
    struct tn_call *call;
    struct tn_far *far;
    struct tn_bytes in;
    size_t sent;
    bool over, whole; /* whole: in is the answer */
};

struct tn_call {
    struct tn_call *next;
    struct tn_hub *hub;
    enum tn_call_kind kind;
    bool open; /* OpenMetrics */
    char *out; /* the request */
    size_t out_len;
    int64_t by_ns;
    bool begun, done, forgotten;  /* done, forgotten: under the lock */
    char type[64], values[4][64]; /* of the answer */
    size_t n;
    struct tn_leg legs[];
};

struct tn_hub {
    struct tn_api *api;
    int epoll_fd, event_fd;
    struct tn_end wake;
    pthread_t thread;
    bool thread_started;
    _Atomic bool ending;
    _Atomic size_t n_fars;
    struct tn_far *fars[TN_HUB_NAMES];

    pthread_mutex_t lock; /* held for a copy, never over I/O */
    struct tn_call *calls;
    unsigned n_calls;
};

/* far.c: what the listener asks. */
extern const struct tn_election_far tn_far_table;
/* far_events.c: takes what has arrived on its event stream apart; false: it makes no sense. */
bool tn_far_take(struct tn_far *far);

/* hub_link.c: the thread. */
void *tn_hub_main(void *hub);
void tn_hub_wake(struct tn_hub *hub);
/* To its process, not blocking; -1: it is not there, or takes no more. */
int tn_hub_connect(struct tn_hub *hub, struct tn_far *far);
/* Reads what there is, up to a limit.  1: more to come; 0: it is over; -1: failed. */
int tn_bytes_read(struct tn_bytes *b, int fd, size_t max);
void tn_bytes_free(struct tn_bytes *b);
void tn_end_close(struct tn_hub *hub, struct tn_end *end);

/* hub_call.c: requests that are passed on. */
extern const struct tn_api_elsewhere tn_hub_elsewhere;
void tn_hub_calls_step(struct tn_hub *hub, int64_t now);
void tn_hub_leg_step(struct tn_leg *leg);
void tn_hub_calls_end(struct tn_hub *hub);
/* hub_answer.c: all of its legs are over. */
void tn_call_answer(struct tn_call *call, struct tn_http_reply *reply);
/* hub_metrics.c: those of all of them as one text, malloc'ed. */
char *tn_hub_metrics(struct tn_call *call, const struct tn_http_counts *http, size_t *len);
/* The body of an answer; NULL: it is no answer. */
const char *tn_leg_body(const struct tn_leg *leg, unsigned *status, size_t *len);

#endif
