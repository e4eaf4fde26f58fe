/* Changes: a conditional PUT each. */
#include <stdlib.h>
#include <string.h>

#include "store/frame.h"
#include "store/object/object.h"

/* One change on its way. */
struct change {
    struct tenure_swap *swap;
    char *bytes;
    char tag[TN_OBJECT_TAG_MAX + 1];
};

static enum tenure_status has_changed(const struct tn_object *h, struct tenure_swap *swap,
                                      struct tenure_error *err)
{
    return swap->status = tenure_fail(err, TENURE_CONFLICT, "%s: %s has changed", h->vendor->scheme,
                                      swap->key);
}

static void won(struct tn_object *h, struct tenure_swap *swap, const char *tag)
{
    swap->status = TENURE_OK;
    memset(&swap->token, 0, sizeof swap->token);
    tn_object_version(tag, swap->nonce, swap->token.version);
    memcpy(swap->token.nonce, swap->nonce, TENURE_NONCE_SIZE);
    tn_watcher_learn(&h->watcher, swap->key, &swap->token);
}

static enum tenure_status is_unknown(struct tenure_swap *swap, struct tenure_error *err)
{
    tenure_fail_context(err, "whether the change took effect is not known");
    err->code = TENURE_UNKNOWN;
    return swap->status = TENURE_UNKNOWN;
}

/*
 * The condition did not hold.  Something between us and the server may have sent the request twice
 * (some proxies repeat a PUT), so that it was our own value that was in the way: the nonce tells.
 */
static enum tenure_status read_back(struct tn_object *h, struct tenure_swap *swap, int64_t deadline,
                                    struct tenure_error *err)
{
    struct tn_object_exchange x = {.verb = TN_OBJECT_GET};
    struct tenure_value value = {0};
    enum tenure_status status;

    tn_object_name(h, swap->key, &x);
    tn_object_send(h, &x, 1, deadline);
    status = x.status;
    if (status) {
        *err = x.err;
        status = is_unknown(swap, err);
    } else if (x.outcome != TN_OBJECT_DONE || tn_object_decode(&x, &value, err) ||
               (memcmp(value.token.nonce, swap->nonce, TENURE_NONCE_SIZE) != 0 &&
                memcmp(value.prev, swap->nonce, TENURE_NONCE_SIZE) != 0)) {
        status = has_changed(h, swap, err);
    } else if (memcmp(value.token.nonce, swap->nonce, TENURE_NONCE_SIZE) == 0) {
        won(h, swap, x.found);
        status = TENURE_OK;
    } else {
        tenure_fail(err, TENURE_UNKNOWN, "%s: %s was changed and has been replaced since",
                    h->vendor->scheme, swap->key);
        status = is_unknown(swap, err);
    }
    tenure_value_free(&value);
    tn_object_release(&x, 1);
    return status;
}

/* False: no memory. */
static bool draft_change(const struct tn_object *h, struct change *c, struct tn_object_exchange *x)
{
    x->verb = TN_OBJECT_PUT;
    x->tag = c->tag;
    tn_object_name(h, c->swap->key, x);
    x->body = c->bytes = tn_frame_write(c->swap, &x->len);
    return c->bytes;
}

static enum tenure_status resolve(struct tn_object *h, struct change *c,
                                  struct tn_object_exchange *x, int64_t deadline,
                                  struct tenure_error *err)
{
    if (x->status) {
        *err = x->err;
        return x->lost ? is_unknown(c->swap, err) : (c->swap->status = x->status);
    }
    if (x->outcome == TN_OBJECT_DONE) {
        won(h, c->swap, x->found);
        return TENURE_OK;
    }
    return read_back(h, c->swap, deadline, err);
}

enum tenure_status tn_object_replace(struct tn_object *h, struct tenure_swap *swap, const char *tag,
                                     int64_t deadline, struct tenure_error *err)
{
    struct tn_object_exchange x = {0};
    struct change c = {.swap = swap};
    enum tenure_status status;

    memcpy(c.tag, tag, strlen(tag) + 1);
    if (draft_change(h, &c, &x)) {
        tn_object_send(h, &x, 1, deadline);
        status = resolve(h, &c, &x, deadline, err);
    } else {
        status = swap->status =
            tenure_fail(err, TENURE_NOMEM, "%s: out of memory", h->vendor->scheme);
    }
    tn_object_release(&x, 1);
    free(c.bytes);
    return status;
}

enum tenure_status tn_object_swap(void *impl, struct tenure_swap *swap, int64_t deadline,
                                  struct tenure_error *err)
{
    struct tn_object *h = impl;
    char tag[TN_OBJECT_TAG_MAX + 1];

    if (h->conf.repair && tn_damaged(&swap->expect))
        return tn_raw_swap(&tn_object_raw, h, swap, deadline, err);
    if (!tn_object_expected(&swap->expect, tag))
        return has_changed(h, swap, err);
    return tn_object_replace(h, swap, tag, deadline, err);
}

/* Each is a request of its own; they are under way at once. */
enum tenure_status tn_object_swap_many(void *impl, struct tenure_swap *swaps, size_t n,
                                       int64_t deadline, struct tenure_error *err)
{
    struct tn_object *h = impl;
    struct change changes[TN_OBJECT_CALLS] = {0};
    struct tn_object_exchange xs[TN_OBJECT_CALLS] = {0};
    enum tenure_status status = TENURE_OK;
    size_t used = 0;

    for (size_t i = 0; i < n; i++) {
        changes[used].swap = &swaps[i];
        if (!tn_object_expected(&swaps[i].expect, changes[used].tag))
            swaps[i].status = TENURE_CONFLICT;
        else if (draft_change(h, &changes[used], &xs[used]))
            used++;
        else
            status = swaps[i].status =
                tenure_fail(err, TENURE_NOMEM, "%s: out of memory", h->vendor->scheme);
    }
    if (used)
        tn_object_send(h, xs, used, deadline);
    for (size_t i = 0; i < used; i++) {
        struct tenure_error why;
        enum tenure_status one = resolve(h, &changes[i], &xs[i], deadline, &why);

        if (!status && xs[i].status) {
            status = one;
            *err = why;
        }
        free(changes[i].bytes);
    }
    tn_object_release(xs, used);
    return status;
}
