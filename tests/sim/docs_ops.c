/*
 * The state's store behind tenure/store.h.  A call sends one request a
 * register and pauses until all are answered, its time is up, or its process
 * is gone.  A batch is not atomic, and a list is no snapshot: each register is
 * written or read at a time of its own, as the contract allows.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "check_docs.h"
#include "docs.h"
#include "world.h"

/* ---- One call ------------------------------------------------------------ */

struct request {
    struct sim_reg *reg;
    const struct tenure_swap *swap; /* NULL: read */
};

/* false: nothing was sent, because its time was up before. */
static bool call(struct sim_client *c, const struct request *requests, unsigned n, int64_t deadline)
{
    struct sim_world *w = c->w;
    struct sim_node *node = &w->nodes[c->node];
    int64_t due = 0, now = sim_client_now(c);

    assert(n <= SIM_DOC_PARTS);
    if (c->gone || now >= deadline)
        return false;
    /* A store may give up before its caller does: then nothing is known (C3). */
    int64_t until = now + node->timing->request_ns;
    c->until_ns = until < deadline ? until : deadline;
    c->call++;
    c->left = n;
    for (unsigned i = 0; i < n; i++) {
        c->answers[i].there = false;
        if (requests[i].swap)
            sim_check_doc_sent(w, c, requests[i].reg, requests[i].swap);
        int64_t at = sim_docs_send(w, c, i, requests[i].reg, requests[i].swap);
        due = at > due ? at : due;
    }
    int64_t by = sim_clock_true(&node->clock, c->until_ns);
    if (n && due >= by)
        sim_at(w, by, SIM_Q_CLIENT, c->node, ++c->timer, c->index);
    if (n)
        sim_client_wait(c);
    c->left = 0;
    return true;
}

static const char *short_key(const struct sim_reg *reg)
{
    return strrchr(reg->key, '/') + 1;
}

/* ---- The table ----------------------------------------------------------- */

static enum tenure_status docs_open(const char *url, int64_t deadline, void **impl,
                                    struct tenure_error *err)
{
    (void)url;
    (void)deadline;
    (void)err;
    *impl = sim_client_self();
    return TENURE_OK;
}

static void docs_close(void *impl)
{
    (void)impl;
}

static void docs_info(void *impl, struct tenure_store_info *info)
{
    const struct sim_client *c = impl;

    *info = (struct tenure_store_info){.scheme = "sim",
                                       .promise = "what the contract asks for, and no more",
                                       .notifies = true,
                                       .shared = true,
                                       .data_max = SIM_REG_BYTES,
                                       .batch_max = c->w->docs.batches ? 2 : 1};
}

static enum tenure_status found(const struct sim_doc_answer *a, struct tenure_value *value,
                                struct tenure_error *err)
{
    enum tenure_status status = tenure_value_set(value, a->value.data, a->value.len, err);

    if (status)
        return status;
    value->token = a->value.token;
    value->tombstone = a->value.tombstone;
    memcpy(value->prev, a->value.prev, TENURE_NONCE_SIZE);
    return TENURE_OK;
}

static enum tenure_status docs_read(void *impl, const char *key, struct tenure_value *value,
                                    int64_t deadline, struct tenure_error *err)
{
    struct sim_client *c = impl;
    struct request request = {.reg = sim_docs_reg(c->w, key)};
    const struct sim_doc_answer *a = &c->answers[0];

    if (!call(c, &request, 1, deadline) || !a->there)
        return tenure_fail(err, TENURE_TIMEOUT, "no answer in time");
    sim_say(c->w, c->node, "state: reads %s: %s v%s", short_key(request.reg),
            tenure_status_word(a->status), a->value.token.version);
    if (a->status)
        return tenure_fail(err, a->status, "the store does not answer");
    return found(a, value, err);
}

static void answered(struct sim_client *c, const struct request *r, const struct sim_doc_answer *a,
                     struct tenure_swap *swap, struct tenure_error *err)
{
    swap->status = a->there ? a->status : TENURE_UNKNOWN;
    if (swap->status == TENURE_OK)
        swap->token = a->value.token;
    else
        tenure_fail(err, swap->status, "%s: %s", swap->key, tenure_status_word(swap->status));
    sim_say(c->w, c->node, "state: swap of %s at v%s: %s", short_key(r->reg), swap->expect.version,
            tenure_status_word(swap->status));
}

static enum tenure_status docs_swap_many(void *impl, struct tenure_swap *swaps, size_t n,
                                         int64_t deadline, struct tenure_error *err)
{
    struct sim_client *c = impl;
    struct request requests[SIM_DOC_PARTS] = {0};
    enum tenure_status status = TENURE_OK;

    assert(n <= SIM_DOC_PARTS);
    for (size_t i = 0; i < n; i++)
        requests[i] = (struct request){.reg = sim_docs_reg(c->w, swaps[i].key), .swap = &swaps[i]};
    if (!call(c, requests, (unsigned)n, deadline)) {
        for (size_t i = 0; i < n; i++)
            swaps[i].status = TENURE_TIMEOUT;
        return tenure_fail(err, TENURE_TIMEOUT, "the deadline has passed");
    }
    for (size_t i = 0; i < n; i++) {
        answered(c, &requests[i], &c->answers[i], &swaps[i], err);
        if (!c->answers[i].there)
            status = TENURE_UNKNOWN;
    }
    return status;
}

static enum tenure_status docs_swap(void *impl, struct tenure_swap *swap, int64_t deadline,
                                    struct tenure_error *err)
{
    docs_swap_many(impl, swap, 1, deadline, err);
    return swap->status;
}

static enum tenure_status docs_wait(void *impl, const struct tenure_watch *watches, size_t n,
                                    int wake_fd, int64_t deadline, struct tenure_error *err)
{
    struct sim_client *c = impl;

    (void)watches;
    (void)n;
    (void)wake_fd;
    sim_client_sleep(c, deadline - sim_client_now(c));
    return tenure_fail(err, TENURE_TIMEOUT, "nothing has changed");
}

static int by_key(const void *a, const void *b)
{
    const struct request *left = a, *right = b;

    return strcmp(left->reg->key, right->reg->key);
}

static enum tenure_status docs_list(void *impl, const char *prefix, const char *after,
                                    tenure_visit_fn visit, void *arg,
                                    char mark[TENURE_VERSION_MAX + 1], int64_t deadline,
                                    struct tenure_error *err)
{
    struct sim_client *c = impl;
    struct sim_docs *d = &c->w->docs;
    struct request requests[SIM_DOC_PARTS] = {0};
    struct tenure_value value = {0};
    enum tenure_status status = TENURE_OK;
    unsigned n = 0;
    bool more = true;

    for (unsigned i = 0; i < d->n_regs; i++) {
        if (strncmp(d->regs[i].key, prefix, strlen(prefix)) == 0 &&
            (!after || strcmp(d->regs[i].key, after) > 0))
            requests[n++] = (struct request){.reg = &d->regs[i]};
    }
    qsort(requests, n, sizeof requests[0], by_key);
    if (!call(c, requests, n, deadline))
        return tenure_fail(err, TENURE_TIMEOUT, "no answer in time");
    if (mark)
        memcpy(mark, "mark", sizeof "mark");
    for (unsigned i = 0; i < n && !status; i++) {
        const struct sim_doc_answer *a = &c->answers[i];

        status = a->there ? a->status : TENURE_TIMEOUT;
    }
    sim_say(c->w, c->node, "state: lists %u: %s", n, tenure_status_word(status));
    if (status)
        return tenure_fail(err, status, "the store does not answer");
    for (unsigned i = 0; i < n && more && !status; i++) {
        if (tenure_token_absent(&c->answers[i].value.token))
            continue;
        status = found(&c->answers[i], &value, err);
        more = !status && visit(arg, requests[i].reg->key, &value);
    }
    tenure_value_free(&value);
    return status;
}

#define OPS(name, many)                                                                            \
    {                                                                                              \
        .abi = TENURE_STORE_ABI, .scheme = name, .open = docs_open, .close = docs_close,           \
        .info = docs_info, .read = docs_read, .swap = docs_swap, .swap_many = many,                \
        .wait = docs_wait, .list = docs_list                                                       \
    }
static const struct tenure_store_ops one_by_one = OPS("sim", NULL);
static const struct tenure_store_ops together = OPS("sim-batch", docs_swap_many);

const char *sim_docs_url(const struct sim_world *w)
{
    static bool known;

    if (!known) {
        known = true;
        enum tenure_status status = tenure_store_register(&one_by_one, NULL);
        status = status ? status : tenure_store_register(&together, NULL);
        assert(!status);
    }
    return w->docs.batches ? "sim-batch:" : "sim:";
}
