/*
 * store/redis/reply.h - what a server's bytes mean: errors, values, tokens.
 *
 * A register is one string:
 *
 *     "tenure1 " version " " nonce " " prev " " ("v" | "t") "\n" data
 *
 * with a decimal version and nonces in hex; 't' marks a tombstone.  It reads
 * well in redis-cli, is written by one SET, and its start can be compared
 * without fetching the data.
 *
 * A token's version is that version, '@', and the TIMELINE: the first 16
 * digits of the server's replication id, which changes whenever a replica is
 * promoted or the server restarts, that is whenever Redis may have forgotten
 * writes.  So a fail-over looks like a change of every register: observers
 * start to count from zero, and nobody swaps on what an older master told (ADR 7).
 */
#ifndef TN_STORE_REDIS_REPLY_H
#define TN_STORE_REDIS_REPLY_H

#include <hiredis/hiredis.h>

#include "store/redis/conf.h"
#include "tenure/store.h"

#define TN_REDIS_MAGIC    "tenure1 "
#define TN_REDIS_TIMELINE 16  /* digits of the replication id in a version */
#define TN_REDIS_HEAD_MAX 128 /* bytes before the data, at most, and more */

/* What an error answer asks the caller to do. */
enum tn_redis_fault {
    TN_REDIS_FAULT_NONE,     /* not an error */
    TN_REDIS_FAULT_FINAL,    /* tell the caller */
    TN_REDIS_FAULT_NOSCRIPT, /* load the script, send again: nothing was run */
    TN_REDIS_FAULT_MOVED,    /* go to another node, send again: nothing was run */
    TN_REDIS_FAULT_ROUTE,    /* this is not the master (any more) */
};

/*
 * Classify an answer.  For an error, err gets its status (one that says that
 * nothing was changed: every script writes registers in its last step) and a
 * sentence.  For MOVED, moved gets the address.
 */
enum tn_redis_fault tn_redis_fault(const redisReply *reply, struct tn_remote_addr *moved,
                                   struct tenure_error *err);

/* The server has started and reads its own data: it will answer in a while. */
bool tn_redis_is_loading(const redisReply *reply);

/* "version nonce " behind the magic, as the scripts compare it; "" for an absent register. */
size_t tn_redis_expect(const struct tenure_token *token, char out[TN_REDIS_HEAD_MAX]);
/* The token was seen on this timeline.  An absent register belongs to every one. */
bool tn_redis_same_timeline(const struct tenure_token *token, const char *timeline);
/* A token's version: "17@0123456789abcdef". */
void tn_redis_version(const char *number, size_t len, const char *timeline,
                      char out[TENURE_VERSION_MAX + 1]);

/*
 * Decode a register of n bytes.  CORRUPT if it is none; value is then
 * untouched.  NOMEM.
 */
enum tenure_status tn_redis_decode(const char *text, size_t n, const char *timeline,
                                   struct tenure_value *value, struct tenure_error *err);
/* Decode what a change publishes: "version nonce ". */
bool tn_redis_decode_news(const char *text, size_t n, const char *timeline,
                          struct tenure_token *token);

/* A decimal number without sign or leading zero that fits 2^53: what scripts compute with. */
bool tn_redis_number(const char *text, size_t n);

#endif
