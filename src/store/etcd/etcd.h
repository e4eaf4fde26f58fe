/*
 * store/etcd/etcd.h - etcd: and etcds:, over the JSON gateway of etcd's v3 API.
 *
 * A register KEY is two keys of etcd, written by one transaction:
 *
 *   /PREFIX/KEY         "tenure1 NONCE PREV v\n" and the data ('t': a tombstone)
 *   /PREFIX/KEY#nonce   NONCE
 *
 * The version is etcd's mod_revision of the first.  etcd can compare a
 * revision, or a whole value, but no part of one; the second key lets a
 * transaction compare the nonce as well, because revisions repeat after a
 * restore (C2).  '#' sorts before every character of a key, so the two stand
 * side by side, in the registers' order.
 */
#ifndef TN_STORE_ETCD_ETCD_H
#define TN_STORE_ETCD_ETCD_H

#include <jansson.h>

#include "store/http/http.h"
#include "store/raw.h"
#include "store/remote.h"
#include "store/watcher.h"
#include "tenure/store.h"

#define TN_ETCD_ID          20 /* digits */
#define TN_ETCD_PREFIX      128
#define TN_ETCD_KEY_MAX     (TN_ETCD_PREFIX + TENURE_KEY_MAX + 10)
/* The server's --max-txn-ops is 128 nested transactions, and it takes 1.5 MiB in one request, of
 * which each swap's frame may take 600 bytes. */
#define TN_ETCD_BATCH_MAX   100
#define TN_ETCD_BATCH_BYTES (900u << 10)
/* Ranges in one transaction of reads: so many of the largest registers fit into an answer. */
#define TN_ETCD_READS_MAX   64

struct tn_etcd_conf {
    struct tn_remote remote;
    char hosts[TN_REMOTE_HOSTS][TN_REMOTE_ORIGIN]; /* "http://host:port" */
    unsigned n_hosts;
    char base[TN_ETCD_PREFIX + 3]; /* "/PREFIX/" */
    bool repair;                   /* a damaged register is read as it is, and may be replaced */
    struct tn_http_conf http;
};

struct tn_etcd_news; /* wait.c */

struct tn_etcd {
    struct tn_watcher watcher; /* first (store/watcher.h) */
    struct tn_etcd_conf conf;
    struct tn_http *http;
    unsigned at;         /* the endpoint that answered last */
    bool unready;        /* the last one that answered had trouble of its own (an election?) */
    unsigned unanswered; /* requests so far that nobody answered */
    char cluster[TN_ETCD_ID + 1];                   /* whose answers count; \"\": not known yet */
    char clusters[TN_REMOTE_HOSTS][TN_ETCD_ID + 1]; /* what each endpoint said last */
    char *token;                                    /* "Authorization: ...", NULL: none */
    struct tn_etcd_news *news;
};

/* ---- conf.c */
extern const struct tn_option tn_etcd_options[];
/* Into a zeroed one, which is freed on failure too. */
enum tenure_status tn_etcd_conf_parse(const char *url, struct tn_etcd_conf *conf,
                                      struct tenure_error *err);
void tn_etcd_conf_free(struct tn_etcd_conf *conf);

/* ---- call.c */

/*
 * POST a request to one endpoint after the other, until one takes it.  A change
 * is sent at most once.  *answer is a new reference.  *lost (may be NULL for a
 * read): no answer came, but the request may have arrived, or still be decided.
 */
enum tenure_status tn_etcd_call(struct tn_etcd *h, const char *path, json_t *request, bool change,
                                int64_t deadline, json_t **answer, bool *lost,
                                struct tenure_error *err);
/* Make sure that there is a token, if the URL has a user. */
enum tenure_status tn_etcd_login(struct tn_etcd *h, int64_t deadline, struct tenure_error *err);
void tn_etcd_forget_token(struct tn_etcd *h);
/* The headers of every request; out has room for 3. */
void tn_etcd_headers(const struct tn_etcd *h, const char *out[3]);
/* What an error's body says, as a status; *definite: it was certainly not carried out. */
enum tenure_status tn_etcd_explain(long code, const char *body, bool *definite, bool *token,
                                   struct tenure_error *err);

/* The same for a message alone. */
enum tenure_status tn_etcd_explain_text(const char *text, bool *definite, bool *token,
                                        struct tenure_error *err);

/* ---- value.c */

/* "/PREFIX/KEY" and, with nonce, "#nonce"; in base64.  A new reference or NULL. */
json_t *tn_etcd_key(const struct tn_etcd *h, const char *key, const char *suffix);
/* Bytes in base64.  A new reference or NULL. */
json_t *tn_etcd_bytes(const void *data, size_t n);
/* What KEY#nonce holds.  A new reference or NULL. */
json_t *tn_etcd_nonce(const uint8_t nonce[TENURE_NONCE_SIZE]);
/* A text of digits: revisions are strings in JSON.  NULL if it is none, or zero. */
const char *tn_etcd_number(const json_t *object, const char *member);
bool tn_etcd_is_number(const char *text);
/* A key-value pair of etcd, decoded. */
struct tn_etcd_pair {
    char key[TENURE_KEY_MAX + 1]; /* the register's */
    bool nonce;                   /* it is the KEY#nonce */
    bool broken;                  /* whose it is cannot be told */
    char revision[TENURE_VERSION_MAX + 1];
    char *data; /* malloc'ed */
    size_t len;
};
/* One swap as a transaction.  A new reference or NULL. */
json_t *tn_etcd_txn(const struct tn_etcd *h, const struct tenure_swap *swap);
/* And one that deletes it. */
json_t *tn_etcd_txn_purge(const struct tn_etcd *h, const struct tenure_swap *swap);
/* The same under another condition, whose reference it takes. */
json_t *tn_etcd_txn_if(const struct tn_etcd *h, const struct tenure_swap *swap, json_t *compare);
/* That a pair is what it was; NULL: not there.  A new reference or NULL. */
json_t *tn_etcd_same(const struct tn_etcd *h, const char *key, bool nonce,
                     const struct tn_etcd_pair *pair);
/* What tells one listing from another: "REVISION.TERM.CLUSTER".  False if the header is none. */
bool tn_etcd_mark(const json_t *answer, char mark[TENURE_VERSION_MAX + 1]);

/* False if it is not one of ours.  pair->data is the caller's; NULL if it cannot be read. */
bool tn_etcd_pair(const struct tn_etcd *h, const json_t *kv, struct tn_etcd_pair *pair);
/* A register from its two pairs; nonce may be NULL (missing).  CORRUPT leaves value untouched. */
enum tenure_status tn_etcd_decode(const struct tn_etcd_pair *data, const struct tn_etcd_pair *nonce,
                                  struct tenure_value *value, struct tenure_error *err);
/* The token in a data pair alone, for news.  False if it is not a register. */
bool tn_etcd_token(const struct tn_etcd_pair *data, struct tenure_token *token);

/* ---- etcd.c */

/* The pairs of a register now: zeroed if not there.  The caller frees the data of both. */
enum tenure_status tn_etcd_look(struct tn_etcd *h, const char *key, struct tn_etcd_pair *data,
                                struct tn_etcd_pair *nonce, int64_t deadline,
                                struct tenure_error *err);

/* ---- repair.c */

/* A register that is CORRUPT, as it is (store/damaged.h). */
enum tenure_status tn_etcd_take_damaged(const struct tn_etcd_pair *data,
                                        const struct tn_etcd_pair *nonce,
                                        struct tenure_value *value, struct tenure_error *err);
extern const struct tn_raw_ops tn_etcd_raw;

/* ---- list.c, swap.c, wait.c: the functions of the table */
enum tenure_status tn_etcd_list(void *impl, const char *prefix, const char *after,
                                tenure_visit_fn visit, void *arg, char mark[TENURE_VERSION_MAX + 1],
                                int64_t deadline, struct tenure_error *err);
enum tenure_status tn_etcd_swap(void *impl, struct tenure_swap *swap, int64_t deadline,
                                struct tenure_error *err);
enum tenure_status tn_etcd_purge(void *impl, struct tenure_swap *swap, int64_t deadline,
                                 struct tenure_error *err);
enum tenure_status tn_etcd_swap_many(void *impl, struct tenure_swap *swaps, size_t n,
                                     int64_t deadline, struct tenure_error *err);
/* Send the transaction of one swap, whose reference it takes, and tell what became of it. */
enum tenure_status tn_etcd_commit(struct tn_etcd *h, struct tenure_swap *swap, json_t *request,
                                  int64_t deadline, struct tenure_error *err);

#endif
