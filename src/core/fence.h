/*
 * core/fence.h - may this writer write?  The rule of I3, in one place.
 *
 * A resource remembers the highest (epoch, grant) that it has accepted.  A
 * lower epoch is stale; so is an equal one with another grant, because two
 * leaders that drew the same number are still two.
 */
#ifndef TN_CORE_FENCE_H
#define TN_CORE_FENCE_H

#include <stdint.h>

#include "core/lease.h"

struct tn_fence {
    uint64_t epoch; /* 0: nothing was accepted yet */
    uint8_t grant[TENURE_NONCE_SIZE];
};

enum tn_verdict {
    TN_VERDICT_RAISE,   /* higher than anything accepted: accept, and remember it first */
    TN_VERDICT_SAME,    /* the very writer that was accepted last */
    TN_VERDICT_STALE,   /* refuse: somebody later was here */
    TN_VERDICT_INVALID, /* refuse: epoch 0 or beyond the range is nobody's (no bypass) */
};

enum tn_verdict tn_fence_judge(const struct tn_fence *accepted, const struct tn_fence *writer);

#endif
