/*
 * replica/message_inner.h - one description of each layout, which serves both ways.
 *
 * Reading, what does not fit makes the rest zeros, and `bad` says what it was.
 */
#ifndef TN_REPLICA_MESSAGE_INNER_H
#define TN_REPLICA_MESSAGE_INNER_H

#include "replica/message.h"

struct tn_io {
    uint8_t *out;       /* writing; there is room */
    const uint8_t *in;  /* reading */
    const uint8_t *end; /* of what is read */
    const char *bad;
};

/* The first one stays. */
void tn_io_fail(struct tn_io *io, const char *what);
/* A number of n bytes. */
uint64_t tn_io_number(struct tn_io *io, uint64_t value, size_t n);
void tn_io_u64(struct tn_io *io, uint64_t *value);
void tn_io_u32(struct tn_io *io, uint32_t *value);
/* An epoch, or the number of a change. */
void tn_io_count(struct tn_io *io, uint64_t *value);
/* A byte of 0 to max. */
unsigned tn_io_word(struct tn_io *io, unsigned value, unsigned max);
/* All of a message between its first 16 bytes and its items. */
void tn_io_body(struct tn_io *io, struct tn_message *message);

#endif
