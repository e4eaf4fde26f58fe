/*
 * base/sized.h - public structs that begin with their size, as the caller knows it.
 *
 * Ours may have grown since the caller was compiled: what it has no room for is not written.
 */
#ifndef TN_BASE_SIZED_H
#define TN_BASE_SIZED_H

#include <stdint.h>
#include <string.h>

#include "tenure/status.h"

/* INVALID unless the caller's struct holds at least its own size. */
static inline enum tenure_status tn_sized_check(uint32_t size, const char *initialiser,
                                                struct tenure_error *err)
{
    if (size >= sizeof size)
        return TENURE_OK;
    return tenure_fail(err, TENURE_INVALID, "the struct has no size: initialise it with %s",
                       initialiser);
}

/* Copy all that out has room for, but for its size. */
static inline void tn_sized_copy(void *out, const void *whole, size_t whole_size)
{
    uint32_t size;

    memcpy(&size, out, sizeof size);
    size_t n = size < whole_size ? size : whole_size;
    if (n > sizeof size)
        memcpy((char *)out + sizeof size, (const char *)whole + sizeof size, n - sizeof size);
}

#endif
