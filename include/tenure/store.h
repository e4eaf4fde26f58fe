/*
 * tenure/store.h - the register: the one primitive that everything rests on.
 *
 * A store holds registers.  A register is named by a key and holds one value:
 * bytes, the nonce of the request that wrote them, the nonce of the value that
 * they replaced, and perhaps a tombstone mark.  It can be read, swapped if it
 * is still exactly what the caller last saw, and waited on.  A lease is a
 * register; so are a checkpoint and a job's owner.
 *
 * THE CONTRACT that every store keeps, and tests/conformance checks:
 *
 *  C1  Reads are linearizable: a read shows every swap that was answered OK
 *      before the read was sent.  A read error is never told as absence.
 *  C2  A swap takes effect only if version AND nonce are those expected, and
 *      then atomically; of any number of swaps on one token at most one does.
 *      (Version numbers repeat after a restore or a re-creation; nonces do
 *      not.)  This serves invariant I5.
 *  C3  An answer is one of
 *        OK           the swap took effect, and is durable
 *        CONFLICT     it did not, and never will
 *        UNKNOWN      it may have, or still may, at any later time
 *        any other    it did not, and never will; see the class of the status
 *      A timeout after the request may have left this process is UNKNOWN, never
 *      TIMEOUT or CONFLICT (I6).
 *  C4  Nothing is ever removed: erasing writes a tombstone, which is a value
 *      like any other.  Absence is only ever "never written" (or lost), or a
 *      tombstone that was purged, long after its epoch was kept elsewhere.
 *  C5  A call returns at its deadline at the latest, plus scheduling.
 *  C6  wait() never misses: it subscribes, then compares, then sleeps.  It may
 *      return OK without a change; callers read again.
 *
 * Threads: one handle is used by one thread at a time.  Open a second handle
 * for a second thread; they see the same registers.
 *
 * Times are absolute nanoseconds on CLOCK_BOOTTIME (tenure_now()).
 */
#ifndef TENURE_STORE_H
#define TENURE_STORE_H

#include <stddef.h>
#include <stdint.h>

#include "status.h"

#ifdef __cplusplus
extern "C" {
#endif

#define TENURE_KEY_MAX     255        /* bytes in a key */
#define TENURE_VERSION_MAX 63         /* bytes in a version or a mark */
#define TENURE_NONCE_SIZE  16         /* bytes in a nonce */
#define TENURE_DATA_MAX    (1u << 20) /* bytes in a value, unless info says less */

/* One term of leadership, as what it writes carries it.  An epoch is granted once; the id tells
 * two grants apart that a lost lease record gave the same epoch (I3). */
struct tenure_grant {
    uint64_t epoch;
    uint8_t id[TENURE_NONCE_SIZE];
};

/* One written state of a register.  All zero: the register is absent. */
struct tenure_token {
    char version[TENURE_VERSION_MAX + 1]; /* opaque, printable, terminated; "" if absent */
    uint8_t nonce[TENURE_NONCE_SIZE];     /* of the request that wrote it */
};

/*
 * What a read found.  The caller owns it: zero it before the first use, pass it
 * to as many reads as you like (the buffer is reused), free it at the end.
 */
struct tenure_value {
    struct tenure_token token;
    uint8_t prev[TENURE_NONCE_SIZE]; /* nonce of the value this one replaced; zero if first */
    bool tombstone;                  /* erased; what data it keeps (an epoch) is the eraser's */
    size_t len;
    unsigned char *data; /* malloc'ed, len bytes and a NUL behind them; may be NULL if len is 0 */
    size_t cap;
};

/* One swap.  The first members are the caller's, the last three the store's answer. */
struct tenure_swap {
    const char *key;
    struct tenure_token expect;       /* what the caller last saw; all zero to create */
    uint8_t nonce[TENURE_NONCE_SIZE]; /* fresh for EVERY request (I6), not all zero */
    const void *data;
    size_t len;
    bool tombstone; /* erase: data is what must outlive it, such as an epoch, or empty */

    enum tenure_status status;
    struct tenure_token token; /* the new token, if status is OK */
};

/* One read of many.  key is the caller's; value too, as in a single read; status the answer. */
struct tenure_read {
    const char *key;
    struct tenure_value value; /* zeroed before the first use, freed by the caller */
    enum tenure_status status; /* OK (also if absent), CORRUPT, or why it was not answered */
};

#define TENURE_WATCH_MAX 8 /* watches in one wait */

/* Something to wait on: a register, or everything under a prefix. */
struct tenure_watch {
    const char *key; /* a key; or a prefix, if prefix is set */
    bool prefix;
    struct tenure_token seen;          /* a register: return at once if it is not this */
    char mark[TENURE_VERSION_MAX + 1]; /* a prefix: the mark that list() returned */
};

/*
 * Called for each register under a prefix, in byte order of the keys,
 * tombstones included.  Key and value are the store's, until it returns.
 * Return false to stop; go on later with `after` set to that key.
 */
typedef bool (*tenure_visit_fn)(void *arg, const char *key, const struct tenure_value *value);

/* What a store is like; constant for one handle. */
struct tenure_store_info {
    const char *scheme;   /* "sqlite" */
    const char *promise;  /* one sentence for people: what it keeps, and what it may lose */
    bool notifies;        /* wait() returns on a change, not only by polling */
    bool shared;          /* other processes see the same registers */
    bool atomic_batch;    /* a batch takes effect as a whole or not at all */
    uint32_t data_max;    /* bytes in a value */
    uint32_t batch_max;   /* swaps in one call that are worth sending together */
    uint32_t ttl_min_ms;  /* shortest lease that makes sense here; 0 for the general bound */
    uint32_t ttl_step_ms; /* a lease lasts a multiple of this; 0 for any */
    uint32_t batch_bytes; /* of values in one swap_many(); 0 for any number */
    const char
        *weakness;       /* why a restart of it may forget what it acknowledged; NULL: it may not */
    uint32_t poll_ms;    /* how often a wait asks, where nothing tells of changes; 0: it does not */
    uint32_t swap_price; /* of one request, in billionths of a US dollar; 0: it has no price */
    uint32_t read_price;
};

/*
 * What a back end implements: a name and a few functions, in one const table.
 * `impl` is what open() returned.  err is never NULL.  Arguments have been
 * checked: keys are well formed, nonces not zero, lengths within info.
 */
#define TENURE_STORE_ABI 4

struct tn_option;

struct tenure_store_ops {
    uint32_t abi;       /* TENURE_STORE_ABI */
    const char *scheme; /* the URL scheme, without the colon */

    /*
     * REQUIRED, may block until deadline.  url is the whole URL, which may hold
     * secrets: never copy it into err; tenure_url_redact() in a message.
     */
    enum tenure_status (*open)(const char *url, int64_t deadline, void **impl,
                               struct tenure_error *err);
    /* REQUIRED, may not block for long.  Accepts what open() returned, once. */
    void (*close)(void *impl);
    /* REQUIRED, does not block.  Fills info; strings live as long as the handle. */
    void (*info)(void *impl, struct tenure_store_info *info);
    /*
     * REQUIRED, may block.  An absent register is OK with a zero token.
     * Never UNKNOWN: a read that did not answer is TIMEOUT or UNAVAILABLE.
     */
    enum tenure_status (*read)(void *impl, const char *key, struct tenure_value *value,
                               int64_t deadline, struct tenure_error *err);
    /* REQUIRED, may block.  Returns what it also leaves in swap->status. */
    enum tenure_status (*swap)(void *impl, struct tenure_swap *swap, int64_t deadline,
                               struct tenure_error *err);
    /*
     * OPTIONAL (NULL: one swap() after the other), may block.  Keys are sorted
     * and distinct; there are at most batch_max, and fewer if their values are
     * more than batch_bytes or would take too long.  Every member gets a status of its own; returns
     * OK if each member was answered (with whatever status), else the reason, and then members that
     * may have been applied are UNKNOWN.
     */
    enum tenure_status (*swap_many)(void *impl, struct tenure_swap *swaps, size_t n,
                                    int64_t deadline, struct tenure_error *err);
    /*
     * REQUIRED, blocks.  OK: something may have changed.  TIMEOUT: the deadline.
     * CANCELLED: wake_fd (if not -1) became readable; it is not drained here.
     */
    enum tenure_status (*wait)(void *impl, const struct tenure_watch *watches, size_t n,
                               int wake_fd, int64_t deadline, struct tenure_error *err);
    /*
     * REQUIRED, may block.  Visits keys that start with prefix and are greater
     * than after (may be NULL).  mark (may be NULL) receives what wait() needs
     * to tell whether anything under the prefix changed since this call began.
     */
    enum tenure_status (*list)(void *impl, const char *prefix, const char *after,
                               tenure_visit_fn visit, void *arg, char mark[TENURE_VERSION_MAX + 1],
                               int64_t deadline, struct tenure_error *err);
    /* OPTIONAL: what a URL may say behind '?'; the form is tenure's own (src/base/options.h). */
    const struct tn_option *options;
    /*
     * OPTIONAL (NULL: one read() after the other), may block.  Answers the first *done of n >= 1
     * reads, as many as are worth sending together; OK and 0: the first is left to read().  Each is
     * as linearizable as a single one (C1).  A damaged register is CORRUPT in its own status and
     * ends nothing.  Returns OK, or why none of them was answered.
     */
    enum tenure_status (*read_many)(void *impl, struct tenure_read *reads, size_t n, size_t *done,
                                    int64_t deadline, struct tenure_error *err);
    /*
     * OPTIONAL (NULL: tombstones stay for ever), may block.  Delete the register swap->key if it
     * is exactly swap->expect, which is a tombstone, as a swap would replace it; data, len and
     * nonce do not count.  Answers as swap() does; it may refuse what was written last in the whole
     * store (CONFLICT).  A token of before never matches what is created later, not even what a
     * request of before makes that arrives once more: so versions do not begin again after it,
     * unless no request can take effect twice.  wait() need not tell of it: a tombstone is taken
     * for absence already.
     */
    enum tenure_status (*purge)(void *impl, struct tenure_swap *swap, int64_t deadline,
                                struct tenure_error *err);
};

/* ---- Using a store ------------------------------------------------------- */

typedef struct tenure_store tenure_store;

/* Nanoseconds on CLOCK_BOOTTIME: the clock of every deadline in this library. */
TENURE_API int64_t tenure_now(void);

/*
 * Make ops known under ops->scheme, for tenure_store_open().  The table must
 * live as long as the process.  A scheme that is already known is INVALID.
 * Thread-safe.
 */
TENURE_CHECKED enum tenure_status tenure_store_register(const struct tenure_store_ops *ops,
                                                        struct tenure_error *err);
/* Also look for store modules (tenure-store-SCHEME.so) in dir.  Copies dir. */
TENURE_API enum tenure_status tenure_store_module_dir(const char *dir, struct tenure_error *err);

/*
 * Open a store by its URL: "sqlite:/var/lib/x.db", "file:/shared/dir",
 * "memory:name", "noop:".  May block until deadline.  On failure *store is
 * untouched; CONFIG names an unknown scheme and lists the known ones.
 */
TENURE_CHECKED enum tenure_status tenure_store_open(const char *url, int64_t deadline,
                                                    tenure_store **store, struct tenure_error *err);
/*
 * Is there a store for this URL, with the client library that it needs?  Loads it, and connects to
 * nothing.  CONFIG and UNSUPPORTED as tenure_store_open().
 */
TENURE_CHECKED enum tenure_status tenure_store_known(const char *url, struct tenure_error *err);
/* Accepts NULL. */
TENURE_API void tenure_store_close(tenure_store *store);
/* The library's, for as long as the handle is open. */
TENURE_API const struct tenure_store_info *tenure_store_info(const tenure_store *store);

/*
 * What somebody who owns the database runs once, so that the store of url can
 * be used by a role that may not create it: *text, which the caller frees.  If
 * role is not NULL, with the rights that it needs.  Connects to nothing.
 * UNSUPPORTED for stores that need nothing.
 */
TENURE_CHECKED enum tenure_status tenure_store_schema(const char *url, const char *role,
                                                      char **text, struct tenure_error *err);

/*
 * What the URL of such a store may say behind '?', one option a line: *text, which the caller
 * frees.  Only the scheme of url counts.  Connects to nothing.  CONFIG and UNSUPPORTED as
 * tenure_store_known().
 */
TENURE_API enum tenure_status tenure_store_options(const char *url, char **text,
                                                   struct tenure_error *err);

/* The calls of the contract.  err may be NULL.  Keys: see tenure_key_valid(). */
TENURE_CHECKED enum tenure_status tenure_store_read(tenure_store *store, const char *key,
                                                    struct tenure_value *value, int64_t deadline,
                                                    struct tenure_error *err);
TENURE_API enum tenure_status tenure_store_swap(tenure_store *store, struct tenure_swap *swap,
                                                int64_t deadline, struct tenure_error *err);
/* Sorts swaps by key.  See swap_many above. */
TENURE_API enum tenure_status tenure_store_swap_many(tenure_store *store, struct tenure_swap *swaps,
                                                     size_t n, int64_t deadline,
                                                     struct tenure_error *err);
/*
 * Read many registers, in the order given; a key may occur twice.  OK: each was answered, with a
 * status of its own (OK or CORRUPT; tenure_store_read() tells why it is CORRUPT).  Otherwise the
 * reason, which is also the status of those that were not answered.
 */
TENURE_API enum tenure_status tenure_store_read_many(tenure_store *store, struct tenure_read *reads,
                                                     size_t n, int64_t deadline,
                                                     struct tenure_error *err);
/* Write an empty tombstone over what the caller last saw. */
TENURE_CHECKED enum tenure_status tenure_store_erase(tenure_store *store, const char *key,
                                                     const struct tenure_token *expect,
                                                     const uint8_t nonce[TENURE_NONCE_SIZE],
                                                     struct tenure_token *token, int64_t deadline,
                                                     struct tenure_error *err);
/* Does this store delete tombstones at all?  Constant for one handle. */
TENURE_API bool tenure_store_purges(const tenure_store *store);
/*
 * Delete the register if it is exactly this tombstone.  OK, CONFLICT and UNKNOWN as of a swap;
 * UNSUPPORTED if the store keeps what it has.  Absence has no version: the caller that deletes has
 * to make sure that a create of long ago, which lands afterwards, does no harm
 * (docs/adr/0024-compaction.md).
 */
TENURE_CHECKED enum tenure_status tenure_store_purge(tenure_store *store, const char *key,
                                                     const struct tenure_token *tombstone,
                                                     int64_t deadline, struct tenure_error *err);
TENURE_API enum tenure_status tenure_store_wait(tenure_store *store,
                                                const struct tenure_watch *watches, size_t n,
                                                int wake_fd, int64_t deadline,
                                                struct tenure_error *err);
TENURE_CHECKED enum tenure_status tenure_store_list(tenure_store *store, const char *prefix,
                                                    const char *after, tenure_visit_fn visit,
                                                    void *arg, char mark[TENURE_VERSION_MAX + 1],
                                                    int64_t deadline, struct tenure_error *err);

/* Frees the buffer and zeroes the value.  Accepts NULL. */
TENURE_API void tenure_value_free(struct tenure_value *value);
/* For back ends: make value hold len bytes (copied from data, which may be NULL if len is 0). */
TENURE_CHECKED enum tenure_status tenure_value_set(struct tenure_value *value, const void *data,
                                                   size_t len, struct tenure_error *err);
/* For back ends: make value what a register reads as that was never written. */
TENURE_CHECKED enum tenure_status tenure_value_absent(struct tenure_value *value,
                                                      struct tenure_error *err);
TENURE_API bool tenure_token_equal(const struct tenure_token *a, const struct tenure_token *b);
/* All zero: the register was never written. */
TENURE_API bool tenure_token_absent(const struct tenure_token *token);
/* Fills a nonce from the system's random source.  Never all zero. */
TENURE_API enum tenure_status tenure_nonce(uint8_t nonce[TENURE_NONCE_SIZE],
                                           struct tenure_error *err);

/*
 * A key: 1 to 255 bytes of [A-Za-z0-9._-] in segments divided by single '/'.
 * No segment is empty or starts with a dot.  A prefix may also end with '/'
 * or be empty.
 */
TENURE_API bool tenure_key_valid(const char *key);
TENURE_API bool tenure_prefix_valid(const char *prefix);

/*
 * Copy url into out (of size bytes, terminated) with user info passwords and
 * query values that look like secrets replaced by "***".  Safe to show.
 */
TENURE_API void tenure_url_redact(const char *url, char *out, size_t size);

#ifdef __cplusplus
}
#endif
#endif
