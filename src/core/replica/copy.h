/*
 * core/replica/copy.h - one copy of the state: what it holds, what it takes, what it gives.
 *
 * The copy keeps the last change of each document, indexed by n; deleted documents are changes.
 * The head below is written in the same local transaction as the documents (R2).
 *
 * A GROUP holds each document whose LAST change is in (from, to], as the sender has it, at one
 * state of the sender: the end of `chain`.  It is whole if `to` is that end (R4).  What is not
 * whole is staged beside the documents and takes effect together with the whole one (R5), so
 * that a copy is at every instant at a state that a primary had.
 *
 * There are three ways to take the first chunk of a group:
 *   plain     the copy's position is on the sender's chain
 *   rewind    it is not, and the sender's chain goes on in a higher epoch (R10): the group begins
 *             at the common point or below, and brings, beside its own documents, each one that
 *             the copy has changed since `from`, as it was there (or that there was none)
 *   snapshot  it begins at nothing, and REPLACES: what is not in it is gone (R8)
 */
#ifndef TN_CORE_REPLICA_COPY_H
#define TN_CORE_REPLICA_COPY_H

#include "core/replica/chain.h"

enum tn_taking { TN_TAKE_NOTHING, TN_TAKE_PLAIN, TN_TAKE_REWIND, TN_TAKE_SNAPSHOT };

/* Chunks that wait for the whole one.  They survive connections and restarts (R7). */
struct tn_staging {
    enum tn_taking taking;  /* TN_TAKE_NOTHING: there are none */
    uint64_t begun;         /* the sender of the first chunk was at this change */
    uint64_t floor;         /* the highest of its senders: they did not send older deletions */
    uint64_t to;            /* everything up to here is staged ... */
    struct tn_position far; /* ... of a sender that was as far as this */
};

struct tn_copy_head {
    uint8_t database[TENURE_NONCE_SIZE]; /* random, new when the file is made or restored (R3) */
    uint64_t epoch;                      /* the highest ever seen (R9) */
    struct tn_chain chain;               /* its end is the position */
    uint64_t floor;                      /* deletions up to here are forgotten (R21) */
    struct tn_position committed;        /* the commit point, as far as it is known */
    struct tn_staging staging;
};

/* What a receiver says: where it is, and from where it asks.  A sender remembers nothing (R2). */
struct tn_hello {
    uint8_t database[TENURE_NONCE_SIZE];
    uint64_t epoch;
    struct tn_chain chain;
    uint64_t floor;
    struct tn_staging staging;
    bool rewinds; /* it names the documents that it has changed since wants_from */
    uint64_t wants_from;
};

struct tn_group {
    uint64_t epoch; /* the highest that its sender has seen */
    struct tn_chain chain;
    uint64_t floor;
    struct tn_position committed;
    uint64_t from, to;
    bool snapshot;               /* it begins a snapshot: from is 0 */
    bool rewinds;                /* it answers the wants of a hello ... */
    struct tn_position rewinder; /* ... that was sent at this position */
};

enum tn_judgement {
    TN_GROUP_STALE,  /* its epoch is lower than one that was seen: refuse it with that one */
    TN_GROUP_KNOWN,  /* nothing new: say where we are */
    TN_GROUP_MISFIT, /* not for this position: say hello again */
    TN_GROUP_STAGE,
    TN_GROUP_APPLY,
};

/*
 * What to do with a group (R6 to R10).  `epoch`: the highest seen, flushed or not.  For STAGE and
 * APPLY *after is the head to write with it, and *take how; MISFIT changes both, too.
 */
struct tn_take {
    enum tn_taking taking; /* how the first chunk was taken */
    bool fresh;            /* this is the first: what else is staged is dropped */
};
enum tn_judgement tn_copy_judge(const struct tn_copy_head *head, uint64_t epoch,
                                const struct tn_group *group, struct tn_copy_head *after,
                                struct tn_take *take);

/* The common point with this chain if the copy has to rewind to it, and can. */
bool tn_copy_rewinds(const struct tn_copy_head *head, const struct tn_chain *chain, uint64_t *to);

/* What a sender does about a hello. */
struct tn_answer {
    bool send; /* false: nothing fits, or nothing is new: the head alone */
    bool snapshot, rewinds;
    uint64_t from;
};
struct tn_answer tn_copy_answer(const struct tn_copy_head *head, const struct tn_hello *hello);

/* From a peer: numbers in order and within bounds.  What is not valid is not looked at. */
bool tn_hello_valid(const struct tn_hello *hello);
bool tn_group_valid(const struct tn_group *group);

#endif
