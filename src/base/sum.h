/* base/sum.h - FNV-1a: each byte that differs gives another sum.  Finds damage, keeps nobody out.
 */
#ifndef TN_BASE_SUM_H
#define TN_BASE_SUM_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define TN_SUM_START UINT64_C(0xcbf29ce484222325)

static inline uint64_t tn_sum(uint64_t sum, const void *bytes, size_t n)
{
    const unsigned char *p = (const unsigned char *)bytes;

    for (size_t i = 0; i < n; i++)
        sum = (sum ^ p[i]) * UINT64_C(0x100000001b3);
    return sum;
}

/* 16 bytes that stand for a sum where a nonce belongs; never all zero. */
static inline void tn_sum_nonce(uint64_t sum, uint8_t nonce[16])
{
    uint64_t halves[2] = {sum, ~sum};

    memcpy(nonce, halves, sizeof halves);
}

#endif
