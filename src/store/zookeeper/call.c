/* Requests on a session, and their answers. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/patience.h"
#include "store/zookeeper/zookeeper.h"

const struct ACL_vector *tn_zk_acl(const struct tn_zk *h)
{
    return h->conf.remote.user ? &ZOO_CREATOR_ALL_ACL : &ZOO_OPEN_ACL_UNSAFE;
}

/* ---- Answers ------------------------------------------------------------- */

/* The library only passes it on. */
static struct tn_zk_call *call_of(const void *arg)
{
    return (struct tn_zk_call *)(uintptr_t)arg;
}

static void finish(struct tn_zk_call *call, int rc, const struct Stat *stat)
{
    call->rc = rc;
    if (rc == ZOK && stat)
        call->stat = *stat;
    call->done = true;
}

static void took_nothing(int rc, const void *arg)
{
    finish(call_of(arg), rc, NULL);
}

static void took_stat(int rc, const struct Stat *stat, const void *arg)
{
    finish(call_of(arg), rc, stat);
}

static void took_name(int rc, const char *name, const void *arg)
{
    (void)name;
    finish(call_of(arg), rc, NULL);
}

static void took_data(int rc, const char *data, int len, const struct Stat *stat, const void *arg)
{
    struct tn_zk_call *call = call_of(arg);

    /* A node without data has a length of -1.  What the library could not decode is passed on. */
    if (rc == ZOK && (len < -1 || len > TN_ZK_ANSWER_MAX || (len > 0 && !data))) {
        call->failed = TENURE_UNAVAILABLE;
    } else if (rc == ZOK) {
        call->len = len > 0 ? (size_t)len : 0;
        call->data = malloc(call->len + 1);
        if (!call->data)
            call->failed = TENURE_NOMEM;
        else if (call->len)
            memcpy(call->data, data, call->len);
    }
    finish(call, rc, stat);
}

static void took_names(int rc, const struct String_vector *names, const void *arg)
{
    struct tn_zk_call *call = call_of(arg);

    /* Each name takes five bytes of the answer, or more. */
    if (rc == ZOK && names && names->count > 0 &&
        (names->count > TN_ZK_ANSWER_MAX / 5 || !names->data)) {
        call->failed = TENURE_UNAVAILABLE;
    } else if (rc == ZOK && names && names->count > 0) {
        call->names = calloc((size_t)names->count, sizeof *call->names);
        for (int i = 0; call->names && i < names->count; i++) {
            if (!names->data[i])
                call->failed = TENURE_UNAVAILABLE;
            else
                call->names[i] = strdup(names->data[i]);
            if (!call->names[i])
                break;
            call->n_names++;
        }
        if (call->n_names != (size_t)names->count && !call->failed)
            call->failed = TENURE_NOMEM;
    }
    finish(call, rc, NULL);
}

/* ---- Requests ------------------------------------------------------------ */

/* Somebody else may be at the library in another thread. */
#define SEND(call, expression)                                                                     \
    do {                                                                                           \
        int sent;                                                                                  \
                                                                                                   \
        pthread_mutex_lock(&tn_zk_library);                                                        \
        sent = (expression);                                                                       \
        pthread_mutex_unlock(&tn_zk_library);                                                      \
        if (sent != ZOK)                                                                           \
            finish(call, sent, NULL);                                                              \
    } while (0)

void tn_zk_multi(struct tn_zk *h, const zoo_op_t *ops, int n, zoo_op_result_t *results,
                 struct tn_zk_call *call)
{
    SEND(call, zoo_amulti(h->session, n, ops, results, took_nothing, call));
}

void tn_zk_get(struct tn_zk *h, const char *path, struct tn_zk_call *call)
{
    SEND(call, zoo_aget(h->session, path, 0, took_data, call));
}

void tn_zk_children(struct tn_zk *h, const char *path, struct tn_zk_call *call)
{
    SEND(call, zoo_aget_children(h->session, path, 0, took_names, call));
}

void tn_zk_create(struct tn_zk *h, const char *path, struct tn_zk_call *call)
{
    SEND(call, zoo_acreate(h->session, path, "", 0, tn_zk_acl(h), 0, took_name, call));
}

void tn_zk_watch(struct tn_zk *h, const char *path, watcher_fn tell, struct tn_zk_call *call)
{
    SEND(call, zoo_awexists(h->session, path, tell, h, took_stat, call));
}

void tn_zk_call_free(struct tn_zk_call *call)
{
    for (size_t i = 0; i < call->n_names; i++)
        free(call->names[i]);
    free(call->names);
    free(call->data);
    memset(call, 0, sizeof *call);
}

static const struct tn_zk_call *unfinished(const struct tn_zk_call *calls, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (!calls[i].done)
            return &calls[i];
    }
    return NULL;
}

enum tenure_status tn_zk_finish(struct tn_zk *h, struct tn_zk_call *calls, size_t n,
                                int64_t deadline, struct tenure_error *err)
{
    enum tenure_status status = TENURE_OK;
    const struct tn_zk_call *left;

    /* They are answered in their order. */
    while (!status && (left = unfinished(calls, n))) {
        n -= (size_t)(left - calls);
        calls += left - calls;
        status = h->session ? tn_zk_turn(h, deadline, err)
                            : tenure_fail(err, TENURE_UNAVAILABLE, "zookeeper: not connected");
    }
    if (status) {
        tn_zk_drop(h);
        if (status != TENURE_CANCELLED)
            tn_zk_next_server(h); /* this one hangs, perhaps */
    }
    return status;
}

enum tenure_status tn_zk_explain(struct tn_zk *h, int rc, const char *path,
                                 struct tenure_error *err)
{
    char name[TN_REMOTE_ADDR_TEXT + 16];

    tn_zk_name(h, name, sizeof name);
    if (rc == ZNOAUTH || rc == ZINVALIDACL || rc == ZAUTHFAILED) {
        tn_zk_drop(h); /* the next session logs in with what the password is by then */
        return tenure_fail(
            err, TENURE_DENIED, "%s: %s: not allowed: %s; see docs/reference/stores/zookeeper.md",
            name, path,
            h->conf.remote.user
                ? "is the password right, and does the ACL of the node name the user?"
                : "the ACL of the node asks for a user and a password");
    }
    return tenure_fail(err, TENURE_UNAVAILABLE, "%s: %s: %s", name, path, zerror(rc));
}

/* Proposed to the servers as any change, and so answered after all that were answered before. */
void tn_zk_barrier(struct tn_zk *h, struct tn_zk_call *call)
{
    zoo_op_t check;

    zoo_check_op_init(&check, h->conf.base, -1);
    tn_zk_multi(h, &check, 1, &call->checked, call);
}

/* An answer that was not kept.  Whoever sends one that cannot be read is left. */
static enum tenure_status tell_failed(struct tn_zk *h, enum tenure_status failed,
                                      struct tenure_error *err)
{
    char name[TN_REMOTE_ADDR_TEXT + 16];

    if (failed == TENURE_NOMEM)
        return tenure_fail(err, failed, "zookeeper: out of memory");
    tn_zk_name(h, name, sizeof name);
    tn_zk_drop(h);
    tn_zk_next_server(h);
    return tenure_fail(err, failed, "%s: the server sent an answer that cannot be read", name);
}

static enum tenure_status ask_once(struct tn_zk *h, struct tn_zk_call *calls, size_t n,
                                   tn_zk_send_fn send, const void *arg, int64_t deadline,
                                   struct tenure_error *err)
{
    enum tenure_status status = tn_zk_connect(h, deadline, err);

    if (status)
        return status;
    tn_zk_barrier(h, &calls[0]);
    send(h, calls + 1, n - 1, arg);
    status = tn_zk_finish(h, calls, n, deadline, err);
    for (size_t i = 0; i < n && !status; i++) {
        if (calls[i].failed)
            status = tell_failed(h, calls[i].failed, err);
        else if (calls[i].rc != ZOK && calls[i].rc != ZNONODE)
            status = tn_zk_explain(h, calls[i].rc, h->conf.base, err);
    }
    return status;
}

enum tenure_status tn_zk_ask(struct tn_zk *h, struct tn_zk_call *calls, size_t n,
                             tn_zk_send_fn send, const void *arg, int64_t deadline,
                             struct tenure_error *err)
{
    enum tenure_status status = TENURE_OK;

    for (unsigned left = h->conf.n_hosts + 1; left; left--) {
        int64_t until = tn_attempt_until(deadline, left, left > 1 ? left - 1 : 1);

        status = ask_once(h, calls, n, send, arg, until, err);
        if (!tn_attempt_again(status, left, deadline))
            break;
        for (size_t i = 0; i < n; i++)
            tn_zk_call_free(&calls[i]);
    }
    return status;
}
