/*
 * store/redis/script.h - what runs inside the server, atomically.
 *
 * Keys, all in one slot of a cluster thanks to the hash tag {PREFIX}:
 *
 *   {PREFIX}:k:KEY   a register (reply.h), and the channel of its changes
 *   {PREFIX}:seq     "N ORIGIN": the number of the last change, and who began to count
 *   {PREFIX}:index   sorted set of all keys, in byte order, for list
 *   {PREFIX}:log     sorted set of all keys by the number of their last change, for wait
 *   {PREFIX}:sync    written by reads that wait for replicas
 *
 * Every script first does something that only a master may do, so that a
 * replica refuses it as a whole (READONLY): a read is never served by one.
 * Registers are written by the last command of a script: an error means that
 * no register has changed.
 */
#ifndef TN_STORE_REDIS_SCRIPT_H
#define TN_STORE_REDIS_SCRIPT_H

#include <stddef.h>

enum tn_redis_script {
    /* What kind of server is this?  Answers the INFO sections that matter, as one text.
     * KEYS: seq */
    TN_REDIS_PROBE,
    /* KEYS: seq, sync, register.  ARGV: "1" to write sync, size limit.
     * Answers the register's string, or nil. */
    TN_REDIS_READ,
    /* KEYS: seq, index, log, registers...  ARGV: offset of the key in a register's name, origin
     * if there is none, then for each register what it must start with ("" for absent) and what
     * follows "tenure1 VERSION " in the new string; "" for the only one deletes it.
     * Answers {version, one letter for each register: o done, c conflict, g garbage}. */
    TN_REDIS_SWAP,
    /* KEYS: seq, sync, index.  ARGV: "1" to write sync, size limit, "{PREFIX}:k:", lower and upper
     * bound as ZRANGEBYLEX takes them, most keys.
     * Answers {seq, "1" if there is more, last key looked at, key, string, key, string, ...}. */
    TN_REDIS_LIST,
    /* KEYS: seq, log, registers...  ARGV: for each register what it must start with; then for
     * each prefix: the prefix, N, ORIGIN.
     * Answers 1 if anything differs, else 0. */
    TN_REDIS_CHECK,
    /* KEYS: seq, sync, registers...  ARGV: "1" to write sync, size limit.
     * Answers the string of each register or nil, or of fewer if they get long: at least one. */
    TN_REDIS_READ_MANY,
    TN_REDIS_PLAIN, /* all that are loaded by who does not repair */
    /* KEYS: seq, sync, register.  ARGV: "1" to write sync, size limit.
     * Answers nil, or {its type, how many bytes, these}: a string as it is, anything else as DUMP
     * gives it; no bytes if they are more than the limit. */
    TN_REDIS_LOOK = TN_REDIS_PLAIN,
    /* KEYS: seq, index, log, register.  ARGV: as for a swap the offset and the origin; the type
     * and the bytes that the register must have; what follows "tenure1 VERSION " in the new string.
     * Answers as a swap does. */
    TN_REDIS_REPAIR,
    TN_REDIS_SCRIPTS,
};

extern const char *const tn_redis_script_text[TN_REDIS_SCRIPTS];

#endif
