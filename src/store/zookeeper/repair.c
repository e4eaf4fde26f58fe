/*
 * Registers that are not what this store writes: foreign bytes, or children that do not fit.  An
 * operator who repairs (repair=yes) reads one as it is: a line that quotes the children, and the
 * bytes.  It is replaced by a transaction on the version and the children that were read (C2).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/zookeeper/zookeeper.h"

static void send_node(struct tn_zk *h, struct tn_zk_call *calls, size_t n, const void *arg)
{
    char path[TN_ZK_PATH];

    tn_zk_path(h, arg, path);
    tn_zk_get(h, path, &calls[0]);
    if (n > 1)
        tn_zk_children(h, path, &calls[1]);
}

/* A barrier, the node and, for an operator who repairs, its children. */
struct node {
    struct tn_zk_call calls[3];
};

static void free_raw(void *raw)
{
    struct node *node = raw;

    for (size_t i = 0; i < 3; i++)
        tn_zk_call_free(&node->calls[i]);
    free(node);
}

static enum tenure_status read_raw(void *impl, const char *key, int64_t deadline, void **raw,
                                   struct tenure_error *err)
{
    struct tn_zk *h = impl;
    struct node *node = calloc(1, sizeof *node);
    enum tenure_status status =
        node ? tn_zk_ask(h, node->calls, h->conf.repair ? 3 : 2, send_node, key, deadline, err)
             : tenure_fail(err, TENURE_NOMEM, "zookeeper: out of memory");

    if (!status && node->calls[1].rc == ZOK)
        *raw = node;
    else if (node)
        free_raw(node);
    return status;
}

static enum tenure_status decode(void *impl, const char *key, const void *raw,
                                 struct tenure_value *value, struct tenure_error *err)
{
    const struct tn_zk *h = impl;
    const struct tn_zk_call *node = &((const struct node *)raw)->calls[1], *children = node + 1;
    char nonce[TN_NONCE_HEX + 1];
    enum tenure_status status = tn_zk_decode(h, key, node, value, err);

    if (status || !h->conf.repair)
        return status;
    tn_hex_encode(value->token.nonce, TENURE_NONCE_SIZE, nonce);
    return children->n_names == 1 && strcmp(children->names[0], nonce) == 0
               ? TENURE_OK
               : tenure_fail(err, TENURE_CORRUPT,
                             "zookeeper: %s/%s#: its child is not named like its nonce",
                             h->conf.base, key);
}

static enum tenure_status take_damaged(void *impl, const char *key, const void *raw,
                                       struct tenure_value *value, struct tenure_error *err)
{
    const struct tn_zk_call *node = &((const struct node *)raw)->calls[1], *children = node + 1;
    char *bytes = NULL;
    size_t size = 0;
    FILE *to;

    (void)impl;
    if (children->n_names > TN_ZK_CHILDREN_MAX)
        return tenure_fail(err, TENURE_CORRUPT, "zookeeper: %s# has %zu children", key,
                           children->n_names);
    to = open_memstream(&bytes, &size);
    if (!to)
        return tenure_fail(err, TENURE_NOMEM, "zookeeper: out of memory");
    fprintf(to, "zookeeper-node 1 version=%d children=", (int)node->stat.version);
    for (size_t i = 0; i < children->n_names; i++)
        fprintf(to, "%s%s", i ? "," : "", children->names[i]);
    fputc('\n', to);
    fwrite(node->data ? node->data : "", 1, node->len, to);
    return tn_damaged_stream(value, to, &bytes, &size, err);
}

static enum tenure_status replace(void *impl, struct tenure_swap *swap, const void *raw,
                                  int64_t deadline, struct tenure_error *err)
{
    const struct tn_zk_call *node = &((const struct node *)raw)->calls[1], *children = node + 1;

    return tn_zk_replace(impl, swap, node->stat.version, children->names, children->n_names,
                         deadline, err);
}

const struct tn_raw_ops tn_zk_raw = {read_raw, free_raw, decode, take_damaged, replace};
