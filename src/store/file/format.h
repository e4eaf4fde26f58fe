/*
 * store/file/format.h - one slot of a file: register, as bytes.
 *
 * A slot is a text line of fixed length and, behind it, the data as it is:
 *
 *   tenure-slot 1 @0000000000000042 nonce=… prev=… base=… live length=0000123 sum=…
 *
 * so that `cat` shows it.  `base` is the sum of the slot that this one replaced,
 * `prev` its nonce; `sum` covers the line before it, and the data.  The number
 * is that of the file's name: a slot that was renamed is not believed.
 *
 * Everything here is pure.
 */
#ifndef TN_STORE_FILE_FORMAT_H
#define TN_STORE_FILE_FORMAT_H

#include "tenure/store.h"

#define TN_SLOT_NAME   17                                 /* "@" and 16 digits */
#define TN_SLOT_LIMIT  UINT64_C(9999999999999999)         /* highest number */
#define TN_SLOT_HEADER 172                                /* bytes of the line, with its '\n' */
#define TN_SLOT_SIZE   (TN_SLOT_HEADER + TENURE_DATA_MAX) /* bytes of a slot at most */

struct tn_slot {
    uint64_t number; /* from 1 */
    uint8_t nonce[TENURE_NONCE_SIZE];
    uint8_t prev[TENURE_NONCE_SIZE]; /* zero in the first slot */
    uint64_t base;                   /* zero in the first slot */
    uint64_t sum;
    uint32_t len;
    bool tombstone;
    bool damaged; /* it cannot be trusted, and len is that of the whole file: see repair.c */
};

/* "@0000000000000042" */
void tn_slot_name(uint64_t number, char name[TN_SLOT_NAME + 1]);
/* The number in a file's name; 0 if it is not the name of a slot. */
uint64_t tn_slot_number(const char *name);

/* Sets slot->sum from its other members and data (slot->len bytes), and writes the line. */
void tn_slot_encode(struct tn_slot *slot, const void *data, char line[TN_SLOT_HEADER + 1]);
/*
 * Read the line at the front of a slot of `size` bytes in all.  Returns NULL,
 * or what is wrong with it, for a person; *slot is then untouched.  bytes must
 * hold min(size, TN_SLOT_HEADER).
 */
const char *tn_slot_decode(const unsigned char *bytes, uint64_t size, uint64_t number,
                           struct tn_slot *slot);
/* Does the data (slot->len bytes) belong to this line? */
bool tn_slot_verify(const struct tn_slot *slot, const void *data);

/* The token of a slot: its version is "42.1f2e3d4c5b6a7988", number and sum. */
void tn_slot_token(const struct tn_slot *slot, struct tenure_token *token);
/* The number and the sum in a version; false if it is none of ours. */
bool tn_slot_version(const char *version, uint64_t *number, uint64_t *sum);

#endif
