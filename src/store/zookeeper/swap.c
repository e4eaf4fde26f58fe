/* Swaps: transactions on a register's two nodes and its folders. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/zookeeper/zookeeper.h"

#define OPS_MAX (TN_ZK_FOLDERS + 2 + TN_ZK_CHILDREN_MAX)

/* One swap as a transaction; everything stays where it is until it is answered. */
struct request {
    struct tenure_swap *swap;
    zoo_op_t ops[OPS_MAX];
    zoo_op_result_t results[OPS_MAX];
    int n, folders;
    char paths[OPS_MAX][TN_ZK_PATH];
    char created[2][TN_ZK_PATH]; /* which the library wants to tell */
    char nonce[TN_NONCE_HEX + 1];
    struct Stat stat;
    char *data;
    size_t len;
};

/* ---- Composing ----------------------------------------------------------- */

/* The next operation's path, to be filled. */
static char *path_of(struct request *r)
{
    return r->paths[r->n];
}

static void add_delete(struct request *r)
{
    zoo_delete_op_init(&r->ops[r->n], r->paths[r->n], -1);
    r->n++;
}

static void add_create(struct tn_zk *h, struct request *r, const char *data, size_t len)
{
    char *created = r->created[r->n > r->folders ? 1 : 0];

    zoo_create_op_init(&r->ops[r->n], r->paths[r->n], data, (int)len, tn_zk_acl(h), 0, created,
                       TN_ZK_PATH);
    r->n++;
}

static void add_set(struct request *r, const char *data, size_t len, int version)
{
    zoo_set_op_init(&r->ops[r->n], r->paths[r->n], data, (int)len, version, &r->stat);
    r->n++;
}

/* /PREFIX and each folder below it: what waits for them is woken. */
static void add_folders(struct tn_zk *h, struct request *r)
{
    const char *key = r->swap->key, *slash = key;
    size_t end = 0;

    while (r->n < TN_ZK_FOLDERS) {
        snprintf(path_of(r), TN_ZK_PATH, "%s%s%.*s", h->conf.base, end ? "/" : "", (int)end, key);
        add_set(r, r->nonce, TN_NONCE_HEX, -1);
        slash = strchr(key + end + (end > 0), '/');
        if (!slash)
            break;
        end = (size_t)(slash - key);
    }
    r->folders = r->n;
}

static enum tenure_status begin_request(struct tn_zk *h, struct tenure_swap *swap,
                                        struct request *r, struct tenure_error *err)
{
    r->swap = swap;
    r->data = tn_frame_write(swap, &r->len);
    if (!r->data)
        return tenure_fail(err, TENURE_NOMEM, "zookeeper: out of memory");
    tn_hex_encode(swap->nonce, TENURE_NONCE_SIZE, r->nonce);
    add_folders(h, r);
    tn_zk_path(h, swap->key, path_of(r));
    return TENURE_OK;
}

static void end_request(struct tn_zk *h, struct request *r)
{
    tn_zk_nonce_path(h, r->swap->key, r->swap->nonce, path_of(r));
    add_create(h, r, "", 0);
}

static bool parse_version(const char *text, int *version)
{
    char *end;
    long number = strtol(text, &end, 10);

    *version = (int)number;
    return end > text && !*end && number == *version && number != -1;
}

/* CONFLICT: no register can be what the swap expects. */
static enum tenure_status compose(struct tn_zk *h, struct tenure_swap *swap, struct request *r,
                                  struct tenure_error *err)
{
    enum tenure_status status = begin_request(h, swap, r, err);
    int version;

    if (status)
        return status;
    if (tenure_token_absent(&swap->expect)) {
        add_create(h, r, r->data, r->len);
    } else {
        if (!parse_version(swap->expect.version, &version))
            return tenure_fail(err, TENURE_CONFLICT, "%s has changed", swap->key);
        add_set(r, r->data, r->len, version);
        tn_zk_nonce_path(h, swap->key, swap->expect.nonce, path_of(r));
        add_delete(r);
    }
    end_request(h, r);
    return TENURE_OK;
}

/* ---- Outcomes ------------------------------------------------------------ */

/* A new register whose folder is missing; nothing else can be missing then. */
static bool is_homeless(const struct request *r, int rc)
{
    return rc == ZNONODE && tenure_token_absent(&r->swap->expect);
}

/* The version is the expected one, but there is no child of that nonce: is the register another
 * one, or was it written by somebody else, so that nobody could ever replace it? */
static enum tenure_status tell_damage(struct tn_zk *h, const struct tenure_swap *swap,
                                      int64_t deadline, struct tenure_error *err)
{
    struct tenure_value value = {0};
    struct tenure_error ignored;
    bool same =
        tn_raw_read(&tn_zk_raw, h, swap->key, false, &value, deadline, &ignored) == TENURE_OK &&
        tenure_token_equal(&value.token, &swap->expect);

    tenure_value_free(&value);
    return same ? tenure_fail(err, TENURE_CORRUPT,
                              "zookeeper: %s/%s#: its child is not named like its nonce; nothing "
                              "was touched",
                              h->conf.base, swap->key)
                : tenure_fail(err, TENURE_CONFLICT, "%s has changed", swap->key);
}

/* What the server said instead of OK.  UNKNOWN: nothing that tells. */
static enum tenure_status explain(struct tn_zk *h, const struct request *r, int rc,
                                  int64_t deadline, struct tenure_error *err)
{
    char path[TN_ZK_PATH];

    tn_zk_path(h, r->swap->key, path);
    switch (rc) {
    case ZNONODE:
        if (is_homeless(r, rc))
            return tenure_fail(err, TENURE_UNAVAILABLE, "zookeeper: the folder of %s is missing",
                               path);
        if (r->results[r->folders].err == ZOK) /* it is there, at that version */
            return tell_damage(h, r->swap, deadline, err);
        return tenure_fail(err, TENURE_CONFLICT, "%s has changed", r->swap->key);
    case ZBADVERSION:
    case ZNODEEXISTS:
    case ZNOTEMPTY:
        return tenure_fail(err, TENURE_CONFLICT, "%s has changed", r->swap->key);
    case ZNOAUTH:
    case ZINVALIDACL:
    case ZTHROTTLEDOP:
    case ZNOTREADONLY:
        return tn_zk_explain(h, rc, path, err);
    default:
        tn_zk_drop(h);
        return tenure_fail(err, TENURE_UNKNOWN,
                           "zookeeper: %s: %s; whether the change took effect is not known", path,
                           zerror(rc));
    }
}

static void take_answer(struct tn_zk *h, struct request *r, const struct tn_zk_call *call,
                        int64_t deadline, struct tenure_error *err)
{
    struct tenure_swap *swap = r->swap;

    if (call->failed) {
        swap->status = call->failed;
        return;
    }
    if (call->rc != ZOK) {
        swap->status = explain(h, r, call->rc, deadline, err);
        return;
    }
    memset(&swap->token, 0, sizeof swap->token);
    /* A node that was just made has version 0. */
    snprintf(swap->token.version, sizeof swap->token.version, "%d",
             tenure_token_absent(&swap->expect) ? 0 : (int)r->stat.version);
    memcpy(swap->token.nonce, swap->nonce, sizeof swap->nonce);
    swap->status = TENURE_OK;
    tn_watcher_learn(&h->watcher, swap->key, &swap->token);
}

/* ---- Folders ------------------------------------------------------------- */

/* Every folder of a register's path. */
static enum tenure_status make_folders(struct tn_zk *h, const char *key, int64_t deadline,
                                       struct tenure_error *err)
{
    struct tn_zk_call calls[TN_ZK_PATH / 2];
    char path[TN_ZK_PATH], all[TN_ZK_PATH];
    enum tenure_status status;
    size_t n = 0, bad = 0;

    memset(calls, 0, sizeof calls);
    tn_zk_path(h, key, all);
    for (const char *slash = strchr(all + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        snprintf(path, sizeof path, "%.*s", (int)(slash - all), all);
        tn_zk_create(h, path, &calls[n++]);
    }
    status = tn_zk_finish(h, calls, n, deadline, err);
    /* Of what stands above it may not be ours to make: only the last one counts. */
    if (status || calls[n - 1].rc == ZOK || calls[n - 1].rc == ZNODEEXISTS)
        return status;
    while (calls[bad].rc == ZOK || calls[bad].rc == ZNODEEXISTS)
        bad++;
    return tn_zk_explain(h, calls[bad].rc, all, err);
}

/* The folders of two keys are the same. */
static bool are_neighbours(const char *one, const char *two)
{
    const char *end = strrchr(one, '/');
    size_t n = end ? (size_t)(end - one) + 1 : 0;

    return strncmp(one, two, n) == 0 && !strchr(two + n, '/');
}

/* New registers without a folder: it is made, and they are sent once more. */
static void send_again(struct tn_zk *h, struct request *requests, struct tn_zk_call *calls,
                       size_t n, int64_t deadline, struct tenure_error *err)
{
    const char *made = NULL;
    enum tenure_status status = TENURE_OK;

    for (size_t i = 0; i < n; i++) {
        const char *key = requests[i].swap->key;

        if (!is_homeless(&requests[i], calls[i].rc))
            continue;
        if (!status && (!made || !are_neighbours(made, key)))
            status = make_folders(h, key, deadline, err);
        made = key;
        calls[i].failed = status;
        if (!status) {
            memset(&calls[i], 0, sizeof calls[i]);
            tn_zk_multi(h, requests[i].ops, requests[i].n, requests[i].results, &calls[i]);
        }
    }
}

/* ---- Sending ------------------------------------------------------------- */

/* All at once; each gets a status of its own.  Not OK: why some got no answer. */
static enum tenure_status commit(struct tn_zk *h, struct request *requests, size_t n,
                                 int64_t deadline, struct tenure_error *err)
{
    struct tn_zk_call *calls = calloc(n, sizeof *calls);
    enum tenure_status status = calls ? tn_zk_connect(h, deadline, err)
                                      : tenure_fail(err, TENURE_NOMEM, "zookeeper: out of memory");

    if (status) {
        for (size_t i = 0; i < n; i++)
            requests[i].swap->status = status; /* nothing was sent */
        free(calls);
        return status;
    }
    for (size_t i = 0; i < n; i++)
        tn_zk_multi(h, requests[i].ops, requests[i].n, requests[i].results, &calls[i]);
    status = tn_zk_finish(h, calls, n, deadline, err);
    if (!status) {
        send_again(h, requests, calls, n, deadline, err);
        status = tn_zk_finish(h, calls, n, deadline, err);
    }
    for (size_t i = 0; i < n; i++) {
        struct tenure_error own;

        take_answer(h, &requests[i], &calls[i], deadline, status ? &own : err);
    }
    if (status) {
        tenure_fail_context(err, "whether the change took effect is not known");
        err->code = TENURE_UNKNOWN;
    }
    free(calls);
    return status;
}

enum tenure_status tn_zk_swap(void *impl, struct tenure_swap *swap, int64_t deadline,
                              struct tenure_error *err)
{
    struct tn_zk *h = impl;
    struct request r = {0};

    if (h->conf.repair && tn_damaged(&swap->expect))
        return tn_raw_swap(&tn_zk_raw, h, swap, deadline, err);
    swap->status = compose(h, swap, &r, err);
    if (!swap->status)
        commit(h, &r, 1, deadline, err);
    free(r.data);
    return swap->status;
}

enum tenure_status tn_zk_swap_many(void *impl, struct tenure_swap *swaps, size_t n,
                                   int64_t deadline, struct tenure_error *err)
{
    struct tn_zk *h = impl;
    struct request *requests = calloc(n, sizeof *requests);
    enum tenure_status status = TENURE_OK;
    size_t sent = 0;

    if (!requests)
        return tenure_fail(err, TENURE_NOMEM, "zookeeper: out of memory");
    for (size_t i = 0; i < n; i++) {
        swaps[i].status = compose(h, &swaps[i], &requests[sent], err);
        if (!swaps[i].status)
            sent++;
        else { /* answered: it can only be a conflict, or out of memory */
            free(requests[sent].data);
            memset(&requests[sent], 0, sizeof requests[sent]);
        }
    }
    if (sent)
        status = commit(h, requests, sent, deadline, err);
    for (size_t i = 0; i < sent; i++)
        free(requests[i].data);
    free(requests);
    return status;
}

enum tenure_status tn_zk_replace(struct tn_zk *h, struct tenure_swap *swap, int version,
                                 char *const *names, size_t n, int64_t deadline,
                                 struct tenure_error *err)
{
    struct request r = {0};

    swap->status = begin_request(h, swap, &r, err);
    if (!swap->status) {
        add_set(&r, r.data, r.len, version);
        for (size_t i = 0; i < n; i++) {
            snprintf(path_of(&r), TN_ZK_PATH, "%s/%s#/%s", h->conf.base, swap->key, names[i]);
            add_delete(&r);
        }
        end_request(h, &r);
        commit(h, &r, 1, deadline, err);
    }
    free(r.data);
    return swap->status;
}
