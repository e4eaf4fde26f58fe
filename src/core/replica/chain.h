/*
 * core/replica/chain.h - where a copy is: positions on chains (R1).
 *
 * Every change is numbered by the holder of the lease; n rises by one, also over epochs.  A chain
 * says who numbered which part: a link is (epoch, grant, first n), and ends where the next begins,
 * the last one at n.  A link is written by one holder onto one state, so two chains that share a
 * link share everything below it, and equal positions are equal states.
 */
#ifndef TN_CORE_REPLICA_CHAIN_H
#define TN_CORE_REPLICA_CHAIN_H

#include "core/lease.h"

/* Older links are forgotten: a copy that shares none of the rest gets a full snapshot. */
#define TN_CHAIN_MAX 32u

struct tn_link {
    uint64_t epoch;
    uint64_t first;
    uint8_t grant[TENURE_NONCE_SIZE];
};

struct tn_chain {
    uint64_t n;     /* the last change; 0: none, the copy is empty */
    uint32_t count; /* 0 if n is */
    struct tn_link link[TN_CHAIN_MAX];
};

struct tn_position {
    uint64_t epoch;
    uint64_t n;
    uint8_t grant[TENURE_NONCE_SIZE];
};

/* From a peer or a register: epochs and first numbers rise, the last is not beyond n. */
bool tn_chain_valid(const struct tn_chain *chain);

/* The epoch of the last link; 0 if there is none. */
uint64_t tn_chain_epoch(const struct tn_chain *chain);

/* The end of the chain, as a position. */
struct tn_position tn_chain_end(const struct tn_chain *chain);

/* The position is on the chain, not beyond its end.  n = 0 is on every chain. */
bool tn_chain_has(const struct tn_chain *chain, const struct tn_position *position);

/* The last change that both have; 0 if there is none that both know of. */
uint64_t tn_chain_common(const struct tn_chain *a, const struct tn_chain *b);

/* The end of `a` is on `b`. */
static inline bool tn_chain_within(const struct tn_chain *a, const struct tn_chain *b)
{
    return tn_chain_common(a, b) == a->n;
}

/* The chain up to n, which is on it. */
struct tn_chain tn_chain_cut(const struct tn_chain *chain, uint64_t n);

/* A new epoch begins with its empty first change. */
void tn_chain_begin(struct tn_chain *chain, uint64_t epoch, const uint8_t grant[TENURE_NONCE_SIZE]);

#endif
