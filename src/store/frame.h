/*
 * store/frame.h - a register as one value of a server that keeps bytes and nothing else:
 *
 *   "tenure1 NONCE PREV v\n" and the data ('t' instead of 'v': a tombstone)
 *
 * The version is the server's own.
 */
#ifndef TN_STORE_FRAME_H
#define TN_STORE_FRAME_H

#include "base/hex.h"
#include "tenure/store.h"

#define TN_FRAME_HEAD (8 + 2 * TN_NONCE_HEX + 4) /* bytes before the data */

struct tn_frame {
    uint8_t nonce[TENURE_NONCE_SIZE];
    uint8_t prev[TENURE_NONCE_SIZE];
    bool tombstone;
    const char *data; /* inside what was parsed */
    size_t len;
};

/* What a swap writes: *len bytes, malloc'ed; NULL when out of memory. */
char *tn_frame_write(const struct tenure_swap *swap, size_t *len);
/* The nonce alone, for news of a change.  False if these bytes are not a register. */
bool tn_frame_nonce(const char *bytes, size_t len, uint8_t nonce[TENURE_NONCE_SIZE]);
/* False, with frame untouched, if it is not what tn_frame_write() makes. */
bool tn_frame_parse(const char *bytes, size_t len, struct tn_frame *frame);
/* The value of a register that holds this, at that version. */
enum tenure_status tn_frame_value(const struct tn_frame *frame, const char *version,
                                  struct tenure_value *value, struct tenure_error *err);

#endif
