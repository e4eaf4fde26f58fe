/*
 * store/file/mark.h - a digest of a listing, for stores whose server has no revision
 * of its own: wait() on a prefix lists again and compares.
 */
#ifndef TN_STORE_FILE_MARK_H
#define TN_STORE_FILE_MARK_H

#include "tenure/store.h"

struct tn_mark {
    uint64_t state[2];
};

void tn_mark_begin(struct tn_mark *mark);
/* Add one register: its key and the nonce of its value. */
void tn_mark_add(struct tn_mark *mark, const char *key, const uint8_t nonce[TENURE_NONCE_SIZE]);
void tn_mark_end(const struct tn_mark *mark, char out[TENURE_VERSION_MAX + 1]);

#endif
