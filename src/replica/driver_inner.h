/*
 * replica/driver_inner.h - what the files of the driver share.
 *
 *   driver.c          life, the inbox, the thread
 *   driver_calls.c    what other threads ask of it: begin, end, swap
 *   driver_machine.c  steps of the machine, and what they ask for
 *   driver_links.c    peers; messages in and out
 *   driver_set.c      the register NAME/replicas, on a thread of its own
 */
#ifndef TN_REPLICA_DRIVER_INNER_H
#define TN_REPLICA_DRIVER_INNER_H

#include <pthread.h>

#include "replica/database.h"
#include "replica/driver.h"
#include "replica/message.h"

#define TN_NODE_SLOTS 8u /* connections: links i (down) and i + TN_NODE_SLOTS (up) */
#define TN_NODE_HEARD 32u
#define TN_NODE_FIFO  64u

enum tn_item_kind {
    TN_ITEM_OPENED,
    TN_ITEM_MESSAGE,
    TN_ITEM_CLOSED,
    TN_ITEM_SWAP,
    TN_ITEM_BEGIN,
    TN_ITEM_END,
    TN_ITEM_ANSWER,
};

struct tn_swap_request;

/* Something for the driver's thread, in the order in which it came. */
struct tn_item {
    struct tn_item *next;
    enum tn_item_kind kind;
    unsigned slot;
    struct tenure_grant grant;
    struct tn_swap_request *request; /* SWAP */
    struct tn_set_answer *answer;    /* ANSWER */
    size_t size;
    uint8_t bytes[]; /* MESSAGE */
};

/* What the register answered. */
struct tn_set_answer {
    unsigned life; /* of the machine that asked */
    struct tn_replica_event event;
    struct tn_replica_set set;
};

/* A connection.  peer is NULL once it has ended; the slot is free when its thread knows that. */
struct tn_slot {
    bool used;
    struct tn_peer *peer;
    struct tn_peer_identity who;
    size_t queued; /* bytes of its messages in the inbox */
    /* The driver's thread alone: */
    bool up;
    struct tn_hello hello; /* the last one */
    char **wants;          /* the documents that it wants ... */
    size_t n_wants;
    char **more; /* ... and those that were named for the hello to come */
    size_t n_more;
};

/* When a database was heard of last. */
struct tn_heard {
    uint8_t database[TENURE_NONCE_SIZE];
    int64_t at_ns;
};

/* What everybody may see, under the lock. */
struct tn_node_view {
    enum tn_replica_phase phase;
    struct tenure_grant grant; /* of the term, if phase is not STANDBY */
    uint64_t heard;
    uint64_t first;              /* the first change of the term */
    uint64_t acknowledged;       /* in it */
    struct tenure_grant refused; /* a grant that does not lead ... */
    enum tenure_status refusal;  /* ... and why */
    char why[TENURE_ERROR_TEXT_MAX + 1];
    char trouble[TENURE_ERROR_TEXT_MAX + 1]; /* with register or disk; "": none */
};

struct tn_replica_driver {
    struct tn_replica_driver *next; /* of this process */
    unsigned references;
    const struct tn_replica_host *host;
    struct tn_replica_conf conf;
    char *store_url, *name, *node;
    int lock_fd;

    pthread_mutex_t lock;
    pthread_cond_t wake;    /* the driver's thread */
    pthread_cond_t changed; /* everybody else: the view, or a request */
    bool stop;
    struct tn_item *inbox, **inbox_tail;
    struct tn_slot slot[TN_NODE_SLOTS];
    struct tn_node_view view;

    pthread_t thread;
    struct tn_database *db;
    struct tn_replica core;
    struct tn_replica_actions out;
    struct tn_replica_event fifo[TN_NODE_FIFO];
    unsigned fifo_first, fifo_count;
    unsigned life; /* rises when the machine begins again */
    bool broken;   /* the database must be opened again */
    struct tn_message_writer writer;
    struct tn_message message;
    struct tn_swap_request *waiting, **waiting_tail; /* written, not acknowledged yet */
    struct tn_heard heard[TN_NODE_HEARD];
    unsigned n_heard;
    int64_t led_ns; /* since when it leads */

    /* driver_set.c */
    pthread_t set_thread;
    pthread_cond_t set_wake;
    tenure_store *store;
    char set_key[TENURE_KEY_MAX + 1];
    enum tn_replica_request set_request;
    struct tenure_token set_expect;
    struct tn_replica_set set_wanted;
    unsigned set_life;

    struct tn_transport *transport;
};

/* What a step needs beside its event. */
struct tn_cause {
    const struct tn_record *records;
    size_t count;
    const struct tn_replica_ack *ack;
};

/* ---- driver.c ------------------------------------------------------------------ */
struct tn_item *tn_node_item(enum tn_item_kind kind, size_t size);
/* Takes it, and the lock. */
void tn_node_post(struct tn_replica_driver *d, struct tn_item *item);
void tn_node_post_locked(struct tn_replica_driver *d, struct tn_item *item);
/* Under the lock; false: the deadline has passed. */
bool tn_node_wait(struct tn_replica_driver *d, pthread_cond_t *cond, int64_t deadline);
#define tn_node_log(d, ...)                                                                        \
    do {                                                                                           \
        if ((d)->host->log != NULL)                                                                \
            (d)->host->log(__VA_ARGS__);                                                           \
    } while (0)

/* ---- driver_machine.c ---------------------------------------------------------- */
void tn_node_step(struct tn_replica_driver *d, const struct tn_replica_event *event,
                  const struct tn_cause *cause);
void tn_node_event(struct tn_replica_driver *d, enum tn_replica_kind kind, unsigned link);
void tn_node_queue_event(struct tn_replica_driver *d, const struct tn_replica_event *event);
/* Read the head, begin as a standby, with the links that are there.  false: not yet. */
bool tn_node_restart(struct tn_replica_driver *d);
void tn_node_tick(struct tn_replica_driver *d);
void tn_node_set_trouble(struct tn_replica_driver *d, const char *text);

/* ---- driver_calls.c ------------------------------------------------------------ */
void tn_node_begin_term(struct tn_replica_driver *d, const struct tenure_grant *grant);
void tn_node_end_term(struct tn_replica_driver *d, const struct tenure_grant *grant);
void tn_node_write_request(struct tn_replica_driver *d, struct tn_swap_request *request);
/* Those up to n are acknowledged. */
void tn_node_acknowledge(struct tn_replica_driver *d, uint64_t n);
/* Whatever waits gets no answer: it may be kept. */
void tn_node_abandon(struct tn_replica_driver *d);
void tn_node_fail_request(struct tn_replica_driver *d, struct tn_swap_request *request,
                          enum tenure_status status, const char *text);

/* ---- driver_links.c ------------------------------------------------------------ */
extern const struct tn_transport_events tn_node_links;
void tn_node_link_opened(struct tn_replica_driver *d, unsigned slot);
void tn_node_link_closed(struct tn_replica_driver *d, unsigned slot);
void tn_node_link_message(struct tn_replica_driver *d, unsigned slot, const uint8_t *bytes,
                          size_t size);
void tn_node_use_links(struct tn_replica_driver *d, const struct tn_cause *cause);
void tn_node_free_slot(struct tn_slot *slot);

/* ---- driver_set.c -------------------------------------------------------------- */
enum tenure_status tn_node_set_start(struct tn_replica_driver *d, struct tenure_error *err);
void tn_node_set_stop(struct tn_replica_driver *d);
void tn_node_set_ask(struct tn_replica_driver *d);

#endif
