/*
 * store/nats/nats.h - nats: and natss:, over NATS's C client and JetStream's API.
 *
 * A bucket is the stream KV_BUCKET, as NATS's own key-value buckets are.  A register KEY is the
 * last message of one subject:
 *
 *   $KV.BUCKET.k.KEY     store/frame.h: the nonces, a mark for tombstones, the data
 *
 * where '/' is written '.', and '.' is written '=': a prefix is a wildcard.  The version is the
 * sequence of the message.  A swap is a message with the expected sequence of its subject, which
 * the stream's leader compares.  NATS compares nothing else, and sequences repeat after a restore:
 * the nonce is compared here, with the message of that sequence, before each change (C2).  What was
 * seen earlier proves nothing: the bucket may be another one by now.
 *
 * A replicated stream's leader answers reads from its own memory, also when it has been replaced
 * and does not know it yet.  A read is preceded by a message to $KV.BUCKET.read, which a majority
 * has to agree on (C1).
 *
 * The library's loop is ours: it has threads, but none of them reads, writes or calls back.  It
 * connects in a thread of ours that can be left behind.  It never reconnects, so nothing is ever
 * sent twice.
 */
#ifndef TN_STORE_NATS_NATS_H
#define TN_STORE_NATS_NATS_H

#include <jansson.h>
#include <nats/nats.h>

#include "store/frame.h"
#include "store/raw.h"
#include "store/remote.h"
#include "store/watcher.h"
#include "tenure/store.h"

#define TN_NATS_BUCKET_MAX 64
#define TN_NATS_SUBJECT    (TN_NATS_BUCKET_MAX + TENURE_KEY_MAX + 32)
#define TN_NATS_HEAD_MAX   512 /* bytes of a message beside the data: nonces, headers */
#define TN_NATS_BATCH_MAX  100
#define TN_NATS_READS_MAX  32
#define TN_NATS_SYNC_TEXT                                                                          \
    "JetStream answers before its flush: a power failure may forget what it acknowledged, unless " \
    "the servers have sync_interval: always (then say sync=always)"

struct tn_nats_conf {
    struct tn_remote remote;
    struct tn_secret token;
    const char *creds_file;       /* a user's JWT and seed */
    const char *nkey, *nkey_file; /* the public key, and the file of its seed */
    struct tn_remote_addr hosts[TN_REMOTE_HOSTS];
    unsigned n_hosts;
    const char *bucket;
    unsigned replicas; /* of a bucket that is made */
    bool synced;       /* the servers flush before they answer, says the operator */
    bool repair;       /* a damaged register is read as it is, and may be replaced */
};

struct tn_nats_link; /* dial.c: a connection */

/* A request under way.  Zeroed, then sent by tn_nats_send(). */
struct tn_nats_call {
    unsigned long long id;
    char subject[TN_NATS_SUBJECT];
    bool done;
    bool deaf;                 /* DENIED: it was sent, but its answer may not be received */
    natsMsg *answer;           /* NULL if failed */
    enum tenure_status failed; /* DENIED; UNAVAILABLE: it was not sent */
};

struct tn_nats {
    struct tn_watcher watcher; /* first (store/watcher.h) */
    struct tn_nats_conf conf;
    struct tn_nats_link *link; /* NULL: not connected */
    natsSubscription *inbox;
    char inbox_name[64]; /* "_INBOX.x": answers come to _INBOX.x.NUMBER */
    struct tn_nats_call *calls;
    size_t n_calls; /* under way */
    unsigned long long next_id;
    unsigned replicas; /* of the bucket */
    bool in_memory;    /* the bucket is */
    uint32_t data_max;
    unsigned at;         /* the server that is asked */
    unsigned unanswered; /* requests so far that nobody answered */
    bool unready;        /* the server is there, but JetStream or the bucket's leader is not */
    int cancel_fd;
};

/* ---- conf.c */
extern const struct tn_option tn_nats_options[];
/* Into a zeroed one, which is freed on failure too. */
enum tenure_status tn_nats_conf_parse(const char *url, struct tn_nats_conf *conf,
                                      struct tenure_error *err);

/* ---- dial.c */

/* Connect to the server h->at.  DENIED, CONFIG: trying others does not help. */
enum tenure_status tn_nats_dial(struct tn_nats *h, int64_t by, struct tenure_error *err);
void tn_nats_link_free(struct tn_nats_link *link);
natsConnection *tn_nats_link_connection(const struct tn_nats_link *link);
const char *tn_nats_link_address(const struct tn_nats_link *link);
int tn_nats_link_fd(const struct tn_nats_link *link);
bool tn_nats_link_wants_write(const struct tn_nats_link *link);
/* Let the library read what is there; write what it wants to, if it does. */
void tn_nats_link_read(struct tn_nats_link *link);
void tn_nats_link_write(struct tn_nats_link *link);
/* Until fd is ready: TIMEOUT, CANCELLED. */
enum tenure_status tn_nats_await(const struct tn_nats *h, int fd, short events, int64_t by,
                                 struct tenure_error *err);
/* The server for messages: "nats: host:port". */
void tn_nats_name(const struct tn_nats *h, char *out, size_t size);
/* Fail with its name and why. */
enum tenure_status tn_nats_fail(const struct tn_nats *h, enum tenure_status status,
                                struct tenure_error *err, const char *why);

/* ---- greeting.c */

/* The version of the server that is connected. */
enum tenure_status tn_nats_ask_version(struct tn_nats *h, int64_t by, unsigned version[3],
                                       struct tenure_error *err);
/* Of a greeting.  False if this is no NATS server. */
bool tn_nats_version_parse(const char *text, size_t n, unsigned version[3]);

/* ---- call.c */

/* Make sure that there is a live connection, and the bucket.  Nothing was sent if there is not. */
enum tenure_status tn_nats_connect(struct tn_nats *h, int64_t deadline, struct tenure_error *err);
/* End it at once; what is under way ends with it. */
void tn_nats_drop(struct tn_nats *h);
/* Turn the loop once: until something arrives, or `until` (0: do not wait).  Unless OK or TIMEOUT,
 * the connection has ended; CANCELLED leaves it as it is. */
enum tenure_status tn_nats_turn(struct tn_nats *h, int64_t until, struct tenure_error *err);

/* n calls are under way from now on, until tn_nats_finish() returns. */
void tn_nats_begin(struct tn_nats *h, struct tn_nats_call *calls, size_t n);
/* expect: the sequence that the subject must have; NULL: any.  What cannot be sent is done at once.
 */
void tn_nats_send(struct tn_nats *h, struct tn_nats_call *call, const char *subject,
                  const char *expect, const void *data, size_t len);
/* The same, of a request to JetStream's API: "$JS.API.WHAT.KV_BUCKET". */
void tn_nats_send_api(struct tn_nats *h, struct tn_nats_call *call, const char *what,
                      const char *body);
/* Until all are done.  On failure the connection has ended (unless CANCELLED), and the next one is
 * with the next server. */
enum tenure_status tn_nats_finish(struct tn_nats *h, int64_t deadline, struct tenure_error *err);
void tn_nats_call_free(struct tn_nats_call *call);

/* JetStream's error codes that are told apart. */
enum {
    TN_NATS_NO_MESSAGE = 10037,
    TN_NATS_NO_STREAM = 10059,
    TN_NATS_WRONG_SEQUENCE = 10071,
    TN_NATS_SEQUENCE_IN_USE = 10164, /* another change of the subject is under way */
};
/* What was answered: *root is a new reference, and *code JetStream's error code, or 0. UNAVAILABLE:
 * nobody was there to answer, or it cannot be understood. */
enum tenure_status tn_nats_answer(struct tn_nats *h, const struct tn_nats_call *call, json_t **root,
                                  int *code, struct tenure_error *err);
/* What an error code means that the caller does not know. */
enum tenure_status tn_nats_explain(struct tn_nats *h, const json_t *root, int code,
                                   struct tenure_error *err);

/* Read: a barrier, then what the caller sends by `send`, over another connection if one breaks. */
typedef void (*tn_nats_send_fn)(struct tn_nats *h, struct tn_nats_call *calls, size_t n,
                                const void *arg);
enum tenure_status tn_nats_ask(struct tn_nats *h, struct tn_nats_call *calls, size_t n,
                               tn_nats_send_fn send, const void *arg, int64_t deadline,
                               struct tenure_error *err);

/* ---- bucket.c */

/* The bucket is there, or is made, and can be used. */
enum tenure_status tn_nats_open_bucket(struct tn_nats *h, int64_t by, struct tenure_error *err);

/* ---- message.c */

void tn_nats_subject(const struct tn_nats *h, const char *key, char out[TN_NATS_SUBJECT]);
/* A wildcard for all that stands under the prefix, and perhaps for more. */
void tn_nats_wildcard(const struct tn_nats *h, const char *prefix, char out[TN_NATS_SUBJECT]);
/* Whose subject it is.  False if it is not one of ours. */
bool tn_nats_key(const struct tn_nats *h, const char *subject, char key[TENURE_KEY_MAX + 1]);
void tn_nats_send_last(struct tn_nats *h, struct tn_nats_call *call, const char *subject);

/* A message of the stream as it was read. */
struct tn_nats_message {
    unsigned long long seq; /* 0: there is none */
    bool deleted;           /* a mark of somebody who deleted the register */
    char subject[TN_NATS_SUBJECT];
    char *data; /* malloc'ed */
    size_t len;
};
/* From the answer to a read. */
enum tenure_status tn_nats_message(struct tn_nats *h, const struct tn_nats_call *call,
                                   struct tn_nats_message *message, struct tenure_error *err);
void tn_nats_message_free(struct tn_nats_message *message);
/* What the last message of a register is; an absent one too.  CORRUPT leaves value untouched. */
enum tenure_status tn_nats_decode(const char *key, const struct tn_nats_message *message,
                                  struct tenure_value *value, struct tenure_error *err);
/* What tells one state of a prefix from another, from its last message. */
void tn_nats_mark(const struct tn_nats_message *last, char mark[TENURE_VERSION_MAX + 1]);
/* The sequence of a version.  False if no message can have it. */
bool tn_nats_seq(const char *version, unsigned long long *seq);

/* ---- list.c, swap.c, repair.c, wait.c */
enum tenure_status tn_nats_list(void *impl, const char *prefix, const char *after,
                                tenure_visit_fn visit, void *arg, char mark[TENURE_VERSION_MAX + 1],
                                int64_t deadline, struct tenure_error *err);
enum tenure_status tn_nats_swap(void *impl, struct tenure_swap *swap, int64_t deadline,
                                struct tenure_error *err);
enum tenure_status tn_nats_swap_many(void *impl, struct tenure_swap *swaps, size_t n,
                                     int64_t deadline, struct tenure_error *err);
/* Carry out a swap on the message of that sequence, whatever it is. */
enum tenure_status tn_nats_replace(struct tn_nats *h, struct tenure_swap *swap,
                                   unsigned long long seq, int64_t deadline,
                                   struct tenure_error *err);
extern const struct tn_raw_ops tn_nats_raw;
void tn_nats_watcher_init(struct tn_nats *h);

#endif
