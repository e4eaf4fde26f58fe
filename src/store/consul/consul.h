/*
 * store/consul/consul.h - consul: and consuls:, over the HTTP API of Consul's key-value store.
 *
 * A register KEY is two keys of Consul:
 *
 *   PREFIX/KEY#        its anchor: without it the register is absent, whatever stands behind it
 *   PREFIX/KEY#NONCE   "tenure1 NONCE PREV v\n" and the data (store/frame.h)
 *
 * A swap is one transaction: the row of the expected nonce is still at the expected index; delete
 * it; write the row of the new nonce.  The first one: no anchor is there; write both.  So version
 * and nonce are compared by the server (C2): indexes repeat after a restore, names do not.  And no
 * two rows are ever equal: a compare-and-swap of equal bytes would succeed twice.  The version is
 * the row's ModifyIndex.
 *
 * '#' sorts before every character of a key, so the two stand side by side, in the registers'
 * order, and a listing of names alone tells the token of every register.
 */
#ifndef TN_STORE_CONSUL_CONSUL_H
#define TN_STORE_CONSUL_CONSUL_H

#include <jansson.h>

#include "base/hex.h"
#include "store/http/http.h"
#include "store/raw.h"
#include "store/remote.h"
#include "store/watcher.h"
#include "tenure/store.h"

#define TN_CONSUL_PREFIX      128
#define TN_CONSUL_NAME_MAX    (TN_CONSUL_PREFIX + TENURE_KEY_MAX + TN_NONCE_HEX + 8)
/* A transaction has 64 operations, and its request 512 KiB, in base64. */
#define TN_CONSUL_OPS_MAX     64
#define TN_CONSUL_SWAP_OPS    4 /* at most */
#define TN_CONSUL_BATCH_MAX   (TN_CONSUL_OPS_MAX / TN_CONSUL_SWAP_OPS)
#define TN_CONSUL_READS_MAX   32 /* so many of the largest registers fit into an answer */
#define TN_CONSUL_DATA_MAX    (370u << 10)
#define TN_CONSUL_BATCH_BYTES (340u << 10)

struct tn_consul_conf {
    struct tn_remote remote;
    struct tn_secret token;
    char hosts[TN_REMOTE_HOSTS][TN_REMOTE_ORIGIN]; /* "http://host:port" */
    unsigned n_hosts;
    char base[TN_CONSUL_PREFIX + 2]; /* "PREFIX/" */
    bool repair;                     /* a damaged register is read as it is, and may be replaced */
    struct tn_http_conf http;
};

struct tn_consul {
    struct tn_watcher watcher; /* first (store/watcher.h) */
    struct tn_consul_conf conf;
    struct tn_http *http;
    unsigned at;         /* the agent that answered last */
    bool unready;        /* the last one that answered had trouble of its own (an election?) */
    unsigned unanswered; /* requests so far that nobody answered */
};

/* ---- conf.c */
extern const struct tn_option tn_consul_options[];
/* Into a zeroed one, which is freed on failure too. */
enum tenure_status tn_consul_conf_parse(const char *url, struct tn_consul_conf *conf,
                                        struct tenure_error *err);
void tn_consul_conf_free(struct tn_consul_conf *conf);

/* ---- call.c */

/* What a transaction came to. */
struct tn_consul_verdict {
    json_t *answer; /* a new reference, on OK */
    bool refused;   /* nothing was done: see Errors */
    bool lost;      /* no answer came, but it may have arrived, or still be decided */
};

/*
 * Send a transaction, whose reference it takes, to one agent after the other, until one answers.
 * One that changes something leaves at most once.  DENIED if one of its keys may not be used.
 */
enum tenure_status tn_consul_txn(struct tn_consul *h, json_t *ops, bool change, int64_t deadline,
                                 struct tn_consul_verdict *verdict, struct tenure_error *err);
/* The names that start with this one: *names is a new reference.  *index is what to block from. */
enum tenure_status tn_consul_names(struct tn_consul *h, const char *name, int64_t deadline,
                                   json_t **names, unsigned long long *index,
                                   struct tenure_error *err);
/* The same as a stream that is answered when there is a later index, or after some time; the first
 * one of a feed on a fresh connection, so that a call that follows tells whether the server hangs.
 */
enum tenure_status tn_consul_block(struct tn_consul *h, const char *name, unsigned long long index,
                                   bool fresh, struct tn_http_stream **stream,
                                   struct tenure_error *err);
enum tenure_status tn_consul_unblock(struct tn_consul *h, struct tn_http_stream *stream,
                                     json_t **names, unsigned long long *index,
                                     struct tenure_error *err);

/* ---- value.c */

bool tn_consul_is_index(const char *text);
/* PREFIX/KEY#SUFFIX */
void tn_consul_name(const struct tn_consul *h, const char *key, const char *suffix,
                    char out[TN_CONSUL_NAME_MAX]);
void tn_consul_row_name(const struct tn_consul *h, const char *key,
                        const uint8_t nonce[TENURE_NONCE_SIZE], char out[TN_CONSUL_NAME_MAX]);
/* Whose name it is, and what stands behind '#'.  False if it is not one of ours. */
bool tn_consul_split(const struct tn_consul *h, const char *name, char key[TENURE_KEY_MAX + 1],
                     const char **suffix);
/* What stands behind '#' in a name of this register (NULL: none); NULL if it is another's. */
const char *tn_consul_suffix(const struct tn_consul *h, const char *name, const char *key);
/* The nonce of a row's suffix.  False if it is none: an anchor, or somebody else's. */
bool tn_consul_nonce(const char *suffix, uint8_t nonce[TENURE_NONCE_SIZE]);

/* Append operations to a transaction.  False: no memory. */
bool tn_consul_op(json_t *ops, const char *verb, const char *name, const char *index);
/* That nothing is left of a register but its anchor. */
bool tn_consul_op_anchor(const struct tn_consul *h, json_t *ops, const char *key);
/* The row that a swap writes. */
bool tn_consul_op_row(const struct tn_consul *h, json_t *ops, const struct tenure_swap *swap);

/* One entry of an answer; NULL members if it is not one. */
const char *tn_consul_entry_name(const json_t *entry);
/* The digits of its ModifyIndex.  False if there is none. */
bool tn_consul_entry_index(const json_t *entry, char out[TENURE_VERSION_MAX + 1]);
/* Its bytes, malloc'ed.  NULL: no memory, or no base64. */
char *tn_consul_entry_bytes(const json_t *entry, size_t *len);

/* What an answer has of one register. */
struct tn_consul_register {
    const json_t *anchor, *row; /* the first row; NULL: none */
    unsigned rows;
};
struct tn_consul_register tn_consul_gather(const struct tn_consul *h, const json_t *answer,
                                           const char *key);
/* An absent one too.  CORRUPT leaves value untouched. */
enum tenure_status tn_consul_decode(const struct tn_consul *h, const char *key,
                                    const struct tn_consul_register *r, struct tenure_value *value,
                                    struct tenure_error *err);

/* ---- repair.c */

/* A register that is CORRUPT, as it is (store/damaged.h). */
enum tenure_status tn_consul_take_damaged(const struct tn_consul *h, const char *key,
                                          const json_t *answer, struct tenure_value *value,
                                          struct tenure_error *err);
extern const struct tn_raw_ops tn_consul_raw;

/* ---- consul.c */

/*
 * Read n registers, at most TN_CONSUL_READS_MAX, in one transaction: *answer is a new reference.
 * DENIED if the token may not read one of them.
 */
enum tenure_status tn_consul_fetch(struct tn_consul *h, const char *const *keys, size_t n,
                                   int64_t deadline, json_t **answer, struct tenure_error *err);

/* ---- list.c, swap.c, wait.c */

/* What tells one state of a prefix from another, from its names and index. */
void tn_consul_mark(const json_t *names, unsigned long long index,
                    char mark[TENURE_VERSION_MAX + 1]);
enum tenure_status tn_consul_list(void *impl, const char *prefix, const char *after,
                                  tenure_visit_fn visit, void *arg,
                                  char mark[TENURE_VERSION_MAX + 1], int64_t deadline,
                                  struct tenure_error *err);
enum tenure_status tn_consul_swap(void *impl, struct tenure_swap *swap, int64_t deadline,
                                  struct tenure_error *err);
enum tenure_status tn_consul_swap_many(void *impl, struct tenure_swap *swaps, size_t n,
                                       int64_t deadline, struct tenure_error *err);
/* Send the operations of one swap, whose reference it takes, and tell what became of it. */
enum tenure_status tn_consul_commit(struct tn_consul *h, struct tenure_swap *swap, json_t *ops,
                                    int64_t deadline, struct tenure_error *err);
void tn_consul_watcher_init(struct tn_consul *h);

#endif
