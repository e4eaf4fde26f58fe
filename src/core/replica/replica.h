/*
 * core/replica/replica.h - one node of a replicated state: a pure state machine.
 *
 *     step(replica, event, actions)
 *
 * It decides who may change the state and when a change is acknowledged, what a copy takes and
 * gives, and which copies count.  It sees no document and no clock: documents are the caller's
 * (core/replica/copy.h says which), and so is the judgement that a copy was silent for too long.
 *
 * THE CALLER'S DUTIES, after every step, in this order:
 *
 *  1. out->demoted: no change is acknowledged from now on, to anybody.
 *  2. out->write: ONE local transaction, with out->head, flushed.  Then send TN_REPLICA_FLUSHED.
 *     Until then no TN_REPLICA_GROUP, _WRITE, _WON or _FORGET is sent.  What the kinds do to the
 *     documents is said at enum tn_write.  If the flush fails, open the database again (its head
 *     is what counts then) and begin with tn_replica_init().
 *  3. out->acknowledged: changes up to this one may be acknowledged; it never falls in a term.
 *  4. out->lead: the term of out->epoch begins.  out->release: it does not; release the lease.
 *  5. out->request: at most one, on the register NAME/replicas.  A swap without an answer is
 *     TENURE_UNKNOWN.
 *  6. For each link out->link[i], what its flags say.  What is sent is read in one transaction,
 *     and only what is flushed (R2).
 */
#ifndef TN_CORE_REPLICA_REPLICA_H
#define TN_CORE_REPLICA_REPLICA_H

#include "core/replica/copy.h"
#include "core/replica/set.h"

#define TN_REPLICA_LINKS 16u
#define TN_REPLICA_ACKS  32u

/* The register NAME/replicas. */
struct tn_replica_set {
    uint64_t epoch;
    uint8_t grant[TENURE_NONCE_SIZE];
    uint64_t serial; /* of the swap, in its grant: so its outcome can be read back (I6) */
    struct tn_set set;
    struct tn_chain committed; /* the commit point, and the chain that leads to it */
};

struct tn_replica_ack {
    uint8_t database[TENURE_NONCE_SIZE];
    uint64_t epoch;
    struct tn_position position;
    bool observer; /* it is never a member: nobody could be promoted from it */
};

enum tn_replica_kind {
    TN_REPLICA_TICK,    /* once a heartbeat: what was lost is said again */
    TN_REPLICA_FLUSHED, /* the transaction is on the disk */
    TN_REPLICA_UP,      /* link; upstream: groups come from it, else they go to it */
    TN_REPLICA_DOWN,    /* link */
    TN_REPLICA_HELLO,   /* link, hello: from a receiver */
    TN_REPLICA_GROUP,   /* link, group: from a sender */
    TN_REPLICA_SENT,    /* link, n: the group asked for was read, up to n */
    TN_REPLICA_ACK,     /* link, ack */
    TN_REPLICA_REFUSED, /* n: a peer has seen this epoch */
    TN_REPLICA_LOST,    /* id: nothing was heard of this database for the fail-over time */
    TN_REPLICA_WRITE,   /* n changes, primary only */
    TN_REPLICA_FORGET,  /* deletions up to the commit point are forgotten */
    TN_REPLICA_WON,     /* n, id: the lease, its epoch and grant; force: by an operator's order */
    TN_REPLICA_DEMOTE,  /* the lease was lost, or is given up */
    TN_REPLICA_READ,    /* status, token, set (NULL: absent) */
    TN_REPLICA_SWAPPED, /* status, token */
};

struct tn_replica_event {
    enum tn_replica_kind kind;
    unsigned link;
    bool upstream, force;
    uint64_t n;
    const uint8_t *id;
    const struct tn_hello *hello;
    const struct tn_group *group;
    const struct tn_replica_ack *ack;
    enum tenure_status status;
    struct tenure_token token;
    const struct tn_replica_set *set;
};

/* What a transaction does beside writing the head. */
enum tn_write {
    TN_WRITE_NOTHING, /* no transaction */
    TN_WRITE_HEAD,    /* nothing */
    TN_WRITE_DROP,    /* what is staged is dropped */
    TN_WRITE_BEGIN,   /* ... and the term is begun: its first change is empty */
    TN_WRITE_CHANGES, /* the changes, numbered to the end of out->head.chain */
    TN_WRITE_FORGET,  /* deletions up to out->head.floor are forgotten */
    TN_WRITE_STAGE,   /* the group is staged, by document; out->fresh: what was, is dropped first */
    TN_WRITE_APPLY,   /* what is staged (not if out->fresh), then the group, take effect:
                         out->taking says how.  Documents with a change above out->common are put
                         aside before they are replaced (R11); deletions up to the new floor are
                         forgotten; nothing stays staged */
};

enum tn_replica_request { TN_REPLICA_NO_REQUEST, TN_REPLICA_READ_SET, TN_REPLICA_SWAP_SET };

/* Why a term does not begin. */
enum tn_replica_release {
    TN_RELEASE_NOT,
    TN_RELEASE_NO_MEMBER, /* this database may lack what was acknowledged */
    TN_RELEASE_BEHIND,    /* the commit point is not on its chain, or too far ahead */
    TN_RELEASE_SEALED,    /* somebody with a higher epoch has sealed the register */
};

struct tn_replica_link_actions {
    bool hello;   /* say tn_replica_hello(), with the documents that it wants if it rewinds */
    bool ack;     /* say out->ack */
    bool forward; /* say event->ack */
    bool refuse;  /* say out->epoch */
    bool status;  /* say the head, as a group from its end to its end */
    bool send;    /* read and send a group: answer.  Then send TN_REPLICA_SENT */
    struct tn_answer answer;
};

struct tn_replica_actions {
    enum tn_write write;
    struct tn_copy_head head;
    bool fresh;
    enum tn_taking taking;
    uint64_t common;
    bool demoted, lead;
    enum tn_replica_release release;
    uint64_t lag; /* of a release: changes behind the commit point */
    uint64_t epoch;
    uint64_t acknowledged;
    enum tn_replica_request request;
    struct tenure_token expect;
    struct tn_replica_set set;
    struct tn_replica_ack ack;
    struct tn_replica_link_actions link[TN_REPLICA_LINKS];
};

struct tn_replica_config {
    uint32_t k;           /* semi-sync: how many standbys; 0: `available` */
    bool async;           /* acknowledged when flushed here ... */
    uint64_t unpublished; /* ... at most so many beyond the commit point of the register */
    uint64_t max_lag;     /* async: who is further behind it is not promoted */
    bool observer;        /* a hub, or a copy behind a filter */
    uint32_t window;      /* groups on their way to a receiver, at least 1 */
};

enum tn_replica_phase {
    TN_REPLICA_STANDBY,
    TN_REPLICA_RAISING, /* won: the epoch is being flushed */
    TN_REPLICA_SEALING, /* ... the register sealed */
    TN_REPLICA_OPENING, /* ... the empty change written */
    TN_REPLICA_PRIMARY,
};

struct tn_replica_link {
    bool up, upstream;
    bool asked;   /* upstream: hello was said, and nothing has changed since */
    bool fed;     /* ... a group was taken since the last tick */
    bool rewinds; /* ... and the common point is wants_from */
    uint64_t wants_from;
    bool greeted; /* downstream: it has said hello ... */
    bool flowing; /* ... and gets what follows `cursor` */
    bool sending; /* a group is being read */
    uint32_t under_way;
    uint64_t cursor; /* sent up to here */
    uint8_t database[TENURE_NONCE_SIZE];
};

struct tn_replica {
    struct tn_replica_config cfg;
    struct tn_copy_head head; /* as it is on the disk */
    struct tn_copy_head draft;
    enum tn_write writing;
    unsigned group_link; /* what is being written is acknowledged here; TN_REPLICA_LINKS: nowhere */
    uint64_t heard;      /* the highest epoch, flushed or not */

    enum tn_replica_phase phase;
    uint64_t epoch;
    uint8_t grant[TENURE_NONCE_SIZE];
    bool force;
    uint64_t acknowledged;

    struct tenure_token token;
    struct tn_replica_set landed, wanted;
    bool doubt;                      /* `wanted` is out, or its outcome is unknown */
    bool must_read, pause;           /* ... now, or at the next tick */
    bool sealed;                     /* the register is, and this copy may lead */
    enum tn_replica_request request; /* that is out */
    bool outdated;                   /* ... and was made in a term that is over */
    uint64_t first;                  /* the first change of the term */
    struct tn_set_ack acks[TN_REPLICA_ACKS];
    unsigned ack_count;

    struct tn_replica_link link[TN_REPLICA_LINKS];
};

/* `head`: as the database has it.  A new one has a random id, and zeros. */
void tn_replica_init(struct tn_replica *r, const struct tn_replica_config *cfg,
                     const struct tn_copy_head *head);
void tn_replica_step(struct tn_replica *r, const struct tn_replica_event *ev,
                     struct tn_replica_actions *out);

/* What to say to this upstream. */
struct tn_hello tn_replica_hello(const struct tn_replica *r, unsigned link);
/* What goes with every group: the head as it is on the disk. */
struct tn_group tn_replica_group(const struct tn_replica *r);

/*
 * How far a copy is behind the commit point of the register: what would be lost of the changes up
 * to it if the copy led.  0: nothing.
 */
uint64_t tn_replica_lag(const struct tn_copy_head *head, const struct tn_replica_set *set);

#endif
