/*
 * store/zookeeper/zookeeper.h - zookeeper:, over ZooKeeper's C client.
 *
 * A register KEY is two nodes, written by one transaction (a "multi"):
 *
 *   /PREFIX/KEY#         store/frame.h: the nonces, a mark for tombstones, the data
 *   /PREFIX/KEY#/NONCE   empty; its name is the nonce of the value
 *
 * The version is that of the first node.  ZooKeeper compares nothing else, and a node that was
 * deleted and made again counts from 0, as one does that was restored: deleting the old nonce is
 * what compares the nonce too (C2).
 *
 * The folders of a key, /PREFIX and what stands between the slashes, hold the nonce of the last
 * change below them: a watch on one of them is a watch on the prefix.
 *
 * A read is preceded by an empty transaction on the same session: every server answers reads from
 * its own memory, and a `sync` is answered even by a leader that has been replaced (C1).
 *
 * The client library is the one without threads: its loop turns while one of our calls waits.  A
 * connection is a session; one that broke is never resumed, so nothing is ever sent twice.
 */
#ifndef TN_STORE_ZOOKEEPER_ZOOKEEPER_H
#define TN_STORE_ZOOKEEPER_ZOOKEEPER_H

#include <pthread.h>
#include <zookeeper/zookeeper.h>

#include "store/frame.h"
#include "store/raw.h"
#include "store/remote.h"
#include "store/watcher.h"
#include "tenure/store.h"

#define TN_ZK_PREFIX       128
#define TN_ZK_PATH         (TN_ZK_PREFIX + TENURE_KEY_MAX + TN_NONCE_HEX + 8)
#define TN_ZK_FOLDERS      4 /* of a key that tell of its changes: /PREFIX and three more */
/* A server takes requests of 1 MiB less one byte (jute.maxbuffer). */
#define TN_ZK_DATA_MAX     ((1u << 20) - (16u << 10))
#define TN_ZK_ANSWER_MAX   (16 << 20) /* above it an answer is not believed */
#define TN_ZK_BATCH_MAX    100
#define TN_ZK_READS_MAX    64
#define TN_ZK_CHILDREN_MAX 16    /* of a damaged register that can be replaced */
#define TN_ZK_SESSION_MS   10000 /* wanted; a server without a sign of life for 2/3 of it is dead */

struct tn_zk_conf {
    struct tn_remote remote;
    struct tn_remote_addr hosts[TN_REMOTE_HOSTS];
    unsigned n_hosts;
    char base[TN_ZK_PREFIX + 2]; /* "/PREFIX" */
    bool repair;                 /* a damaged register is read as it is, and may be replaced */
};

struct tn_zk {
    struct tn_watcher watcher; /* first (store/watcher.h) */
    struct tn_zk_conf conf;
    zhandle_t *session;  /* NULL: not connected */
    int fd;              /* of its connection */
    unsigned at;         /* the server that is asked */
    unsigned generation; /* of the session: counts them */
    unsigned subscribed; /* the session that the watches are on */
    int cancel_fd;
};

/* One request under way.  Zeroed, then sent by tn_zk_get() and others. */
struct tn_zk_call {
    bool done;
    int rc;
    struct Stat stat;
    char *data; /* malloc'ed, len bytes; NULL: none */
    size_t len;
    char **names; /* of children, malloc'ed each */
    size_t n_names;
    zoo_op_result_t checked;   /* of a barrier */
    enum tenure_status failed; /* NOMEM: the answer could not be kept; UNAVAILABLE: nor read */
};

/* ---- conf.c */
extern const struct tn_option tn_zk_options[];
/* Into a zeroed one, which is freed on failure too. */
enum tenure_status tn_zk_conf_parse(const char *url, struct tn_zk_conf *conf,
                                    struct tenure_error *err);

/* ---- session.c */

/* Held while something is sent, and a session is ended: the library without threads numbers the
 * requests of all sessions from one variable. */
extern pthread_mutex_t tn_zk_library;
/* Who is asked next, on the next session. */
void tn_zk_next_server(struct tn_zk *h);

/* Make sure that there is a live session.  UNAVAILABLE, TIMEOUT: nothing was sent. */
enum tenure_status tn_zk_connect(struct tn_zk *h, int64_t deadline, struct tenure_error *err);
/* End it at once; what is under way ends with it. */
void tn_zk_drop(struct tn_zk *h);
/* The same, of one that is sound: the server is told, but not waited for. */
void tn_zk_close(struct tn_zk *h);
/* Turn the loop once: until something happens, or `until` (0: do not wait).  Unless OK or TIMEOUT,
 * the session has ended; CANCELLED leaves it as it is. */
enum tenure_status tn_zk_turn(struct tn_zk *h, int64_t until, struct tenure_error *err);
/* The server for messages: "zookeeper: host:port". */
void tn_zk_name(const struct tn_zk *h, char *out, size_t size);

/* ---- call.c */

/* Until all n calls are done.  If that fails the session has ended, and all of them are; the next
 * session is with the next server. */
enum tenure_status tn_zk_finish(struct tn_zk *h, struct tn_zk_call *calls, size_t n,
                                int64_t deadline, struct tenure_error *err);

/* Send.  What cannot be sent is done at once, with an rc. */
void tn_zk_barrier(struct tn_zk *h, struct tn_zk_call *call);
void tn_zk_get(struct tn_zk *h, const char *path, struct tn_zk_call *call);
void tn_zk_children(struct tn_zk *h, const char *path, struct tn_zk_call *call);
void tn_zk_create(struct tn_zk *h, const char *path, struct tn_zk_call *call);
/* Tell of the next change of the path, if it is there or not. */
void tn_zk_watch(struct tn_zk *h, const char *path, watcher_fn tell, struct tn_zk_call *call);
void tn_zk_multi(struct tn_zk *h, const zoo_op_t *ops, int n, zoo_op_result_t *results,
                 struct tn_zk_call *call);
void tn_zk_call_free(struct tn_zk_call *call);

/* What an answer says that is neither ZOK nor ZNONODE, of a read.  Ends the session if need be. */
enum tenure_status tn_zk_explain(struct tn_zk *h, int rc, const char *path,
                                 struct tenure_error *err);
/* Barrier, then what the caller sends by `send`, over a new session if the old one breaks. */
typedef void (*tn_zk_send_fn)(struct tn_zk *h, struct tn_zk_call *calls, size_t n, const void *arg);
enum tenure_status tn_zk_ask(struct tn_zk *h, struct tn_zk_call *calls, size_t n,
                             tn_zk_send_fn send, const void *arg, int64_t deadline,
                             struct tenure_error *err);
/* For what this session may create. */
const struct ACL_vector *tn_zk_acl(const struct tn_zk *h);

/* ---- node.c */

void tn_zk_path(const struct tn_zk *h, const char *key, char path[TN_ZK_PATH]);
void tn_zk_nonce_path(const struct tn_zk *h, const char *key,
                      const uint8_t nonce[TENURE_NONCE_SIZE], char path[TN_ZK_PATH]);
/* The folder that tells of all changes under a prefix. */
void tn_zk_folder(const struct tn_zk *h, const char *prefix, char path[TN_ZK_PATH]);
/* What a node of a register holds.  CORRUPT leaves value untouched. */
enum tenure_status tn_zk_decode(const struct tn_zk *h, const char *key,
                                const struct tn_zk_call *node, struct tenure_value *value,
                                struct tenure_error *err);
/* What tells one state of a folder from another. */
void tn_zk_mark(const struct tn_zk_call *folder, char mark[TENURE_VERSION_MAX + 1]);

/* ---- list.c, swap.c, repair.c, wait.c, zookeeper.c */
enum tenure_status tn_zk_list(void *impl, const char *prefix, const char *after,
                              tenure_visit_fn visit, void *arg, char mark[TENURE_VERSION_MAX + 1],
                              int64_t deadline, struct tenure_error *err);
enum tenure_status tn_zk_swap(void *impl, struct tenure_swap *swap, int64_t deadline,
                              struct tenure_error *err);
enum tenure_status tn_zk_swap_many(void *impl, struct tenure_swap *swaps, size_t n,
                                   int64_t deadline, struct tenure_error *err);
/* Replace what stands at a key: the node at that version, with just these children. */
enum tenure_status tn_zk_replace(struct tn_zk *h, struct tenure_swap *swap, int version,
                                 char *const *names, size_t n, int64_t deadline,
                                 struct tenure_error *err);
extern const struct tn_raw_ops tn_zk_raw;
void tn_zk_watcher_init(struct tn_zk *h);

#endif
