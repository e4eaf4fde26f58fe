/*
 * history.h - was a register linearizable?  Judged from what its clients saw.
 *
 * Every swap carries a nonce of its own and names the one that it replaces, so
 * the swaps that took effect form a chain and the order need not be guessed.
 * It remains to compare that order with real time.
 */
#ifndef CF_HISTORY_H
#define CF_HISTORY_H

#include <stddef.h>

#include <tenure/store.h>

enum cf_op_kind { CF_OP_READ, CF_OP_SWAP };

struct cf_op {
    enum cf_op_kind kind;
    enum tenure_status status;
    int64_t start, end;                /* CLOCK_BOOTTIME, around the call */
    uint8_t nonce[TENURE_NONCE_SIZE];  /* a read: found; a swap: written */
    uint8_t before[TENURE_NONCE_SIZE]; /* a read: value.prev; a swap: expected */
    char version[TENURE_VERSION_MAX + 1];
};

struct cf_history {
    size_t reads, swaps; /* answered */
    size_t applied;      /* swaps that took effect */
    size_t conflicts;
    size_t unknown; /* swaps whose outcome was not told */
};

/*
 * Checks n operations on a register that held `initial` (its nonce) before any
 * of them.  true: linearizable.  false: why says what is
 * wrong.  A read with another status than OK is ignored.
 */
bool cf_history_check(const struct cf_op *ops, size_t n, const uint8_t initial[TENURE_NONCE_SIZE],
                      struct cf_history *seen, char *why, size_t why_size);

#endif
