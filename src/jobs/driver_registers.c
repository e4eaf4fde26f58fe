/* jobs/driver_registers.c - the registers of jobs, read and swapped in batches. */
#include <stdlib.h>
#include <string.h>

#include "base/key.h"
#include "jobs/driver_inner.h"

static void report_damage(tn_jobs_driver *d, const char *id, const char *text)
{
    tn_jobs_trace(d, (struct tn_jobs_trace){.kind = TN_JOBS_DAMAGED, .job = id, .text = text});
}

static void take_register(tn_jobs_driver *d, const char *id, const struct tenure_read *read,
                          struct tn_read *out)
{
    const char *former;
    struct tenure_error why = {0};
    const unsigned char *checkpoint = NULL;
    size_t len = 0;

    out->status = read->status;
    out->token = read->value.token;
    memcpy(out->prev, read->value.prev, sizeof out->prev);
    if (out->status || tenure_token_absent(&out->token)) {
        report_damage(d, id, out->status ? "it cannot be read" : "it is lost");
        return;
    }
    out->status =
        tn_job_decode(read->value.data, read->value.len, &out->record, &checkpoint, &len, &why);
    if (out->status) {
        report_damage(d, id, why.text);
        return;
    }
    former = strcmp(out->record.owner.id, d->id) != 0 ? out->record.owner.id : "";
    if (!tn_jobs_set_checkpoint(d, out->job, checkpoint, len) ||
        !tn_jobs_set_former_owner(d, d->sides[out->job], former))
        out->status = TENURE_NOMEM;
}

/* Each gets a status of its own: what was not answered is read again. */
enum tenure_status tn_jobs_read_registers(tn_jobs_driver *d, struct tn_answer *a,
                                          struct tenure_error *err)
{
    unsigned n = d->actions.n;
    struct tenure_read *reads = tn_jobs_array(n, sizeof *reads);
    char(*keys)[TENURE_KEY_MAX + 1] = tn_jobs_array(n, sizeof *keys);
    const char **ids = tn_jobs_array(n, sizeof *ids);
    enum tenure_status status = TENURE_OK;
    unsigned asked = 0;

    a->event.kind = TN_WORK_READ;
    a->event.reads = a->reads = tn_jobs_array(n, sizeof *a->reads);
    if (!reads || !keys || !ids || !a->reads)
        abort(); /* the worker would wait for ever */
    for (unsigned i = 0; i < n; i++) {
        const char *id = tn_jobs_id_of(d, d->actions.jobs[i], NULL);

        a->reads[i] = (struct tn_read){.job = d->actions.jobs[i], .status = TENURE_UNAVAILABLE};
        if (!id || tn_key_item(d->group, TN_KEY_JOB, id, keys[asked], err))
            continue;
        reads[asked].key = keys[asked];
        ids[asked++] = id;
        a->reads[i].status = TENURE_OK;
    }
    if (asked)
        status = tenure_store_read_many(d->work_store, reads, asked, d->actions.request_by_ns, err);
    asked = 0;
    for (unsigned i = 0; i < n; i++) {
        if (a->reads[i].status)
            continue;
        if (status && reads[asked].status)
            a->reads[i].status = reads[asked].status; /* not answered: no damage */
        else
            take_register(d, ids[asked], &reads[asked], &a->reads[i]);
        asked++;
    }
    a->event.n = n;
    for (unsigned i = 0; i < n; i++) /* removed: its register is gone, nothing is to be released */
        if (tn_jobs_is_free(d, a->reads[i].job))
            a->reads[i].status = TENURE_OK;
    for (unsigned i = 0; i < n; i++)
        tenure_value_free(&reads[i].value);
    tn_jobs_array_free(reads);
    tn_jobs_array_free(keys);
    tn_jobs_array_free(ids);
    return status;
}

/* The bytes that the register gets: a commit's, or the checkpoint as it was read. */
static const void *bytes_of(const tn_jobs_driver *d, const struct tn_job_swap *s, size_t *len)
{
    struct tn_side *side = d->sides[s->job];

    *len = 0;
    if (!side)
        return NULL;
    if (s->purpose == TN_SWAP_COMMIT && side->commits) {
        *len = side->commits->len;
        return side->commits->data;
    }
    *len = side->checkpoint_len;
    return side->checkpoint;
}

/* Since the core drafted it, the membership may have ended: then its bytes are gone, and nothing of
 * it may be written any more. */
static bool is_still_due(const tn_jobs_driver *d, const struct tn_job_swap *s)
{
    uint32_t at = d->worker.cfg.known[s->job].held;
    const struct tn_held *h = at ? &d->worker.cfg.held[at - 1] : NULL;

    return h && d->sides[s->job] && h->request == TN_REQUEST_SWAPPING &&
           memcmp(h->nonce, s->nonce, sizeof h->nonce) == 0;
}

/* A batch of swaps as it is sent. */
struct sending {
    struct tenure_swap *swaps;
    char (*keys)[TENURE_KEY_MAX + 1];
    unsigned char *bytes;
    unsigned n;
};

static void compose(tn_jobs_driver *d, struct sending *b)
{
    size_t size = 0, used = 0, len;

    for (unsigned i = 0; i < d->actions.n; i++) {
        bytes_of(d, &d->actions.swaps[i], &len);
        size += TN_JOB_HEADER_MAX + len;
    }
    b->swaps = tn_jobs_array(d->actions.n, sizeof *b->swaps);
    b->keys = tn_jobs_array(d->actions.n, sizeof *b->keys);
    b->bytes = tn_jobs_array(size, 1);
    if (!b->swaps || !b->keys || !b->bytes)
        abort();
    for (unsigned i = 0; i < d->actions.n; i++) {
        const struct tn_job_swap *s = &d->actions.swaps[i];
        const char *id = tn_jobs_id_of(d, s->job, NULL);
        const void *bytes = bytes_of(d, s, &len);

        if (!id || !is_still_due(d, s) ||
            tn_key_item(d->group, TN_KEY_JOB, id, b->keys[i], NULL) != TENURE_OK)
            continue; /* CONFLICT by default: it is read again */
        struct tenure_swap *swap = &b->swaps[b->n++];
        *swap =
            (struct tenure_swap){.key = b->keys[i], .expect = s->expect, .data = b->bytes + used};
        memcpy(swap->nonce, s->nonce, sizeof swap->nonce);
        if (s->purpose == TN_SWAP_COMMIT && d->sides[s->job]->commits)
            d->sides[s->job]->commits->sent = true;
        swap->len = tn_job_put(&s->record, bytes, len, b->bytes + used);
        used += swap->len;
    }
}

static void take_swapped(tn_jobs_driver *d, const struct tn_job_swap *s, enum tenure_status status)
{
    if (status)
        return;
    if (s->purpose == TN_SWAP_COMMIT)
        tn_jobs_keep_commit(d, s->job);
    if (s->purpose == TN_SWAP_RELEASE)
        tn_jobs_trace(d, (struct tn_jobs_trace){.kind = TN_JOBS_RELEASED,
                                                .job = tn_jobs_id_of(d, s->job, NULL),
                                                .number = s->job,
                                                .epoch = s->record.epoch});
}

enum tenure_status tn_jobs_swap_registers(tn_jobs_driver *d, struct tn_answer *a,
                                          struct tenure_error *err)
{
    unsigned n = d->actions.n;
    struct sending b = {0};
    enum tenure_status status = TENURE_OK;

    a->event.kind = TN_WORK_SWAPPED;
    a->event.n = n;
    a->event.statuses = a->statuses = tn_jobs_array(n, sizeof *a->statuses);
    a->event.tokens = a->tokens = tn_jobs_array(n, sizeof *a->tokens);
    if (!a->statuses || !a->tokens)
        abort();
    for (unsigned i = 0; i < n; i++)
        a->statuses[i] = TENURE_CONFLICT;
    compose(d, &b);
    if (b.n)
        status = tenure_store_swap_many(d->work_store, b.swaps, b.n, d->actions.request_by_ns, err);
    /* They were sorted: which of the keys it is tells the place. */
    for (unsigned k = 0; k < b.n; k++) {
        size_t i = (size_t)(b.swaps[k].key - b.keys[0]) / sizeof *b.keys;

        a->statuses[i] = b.swaps[k].status;
        a->tokens[i] = b.swaps[k].token;
        take_swapped(d, &d->actions.swaps[i], a->statuses[i]);
        if (!status && a->statuses[i] && a->statuses[i] != TENURE_CONFLICT)
            status = tenure_fail(err, a->statuses[i], "%s was not written", b.swaps[k].key);
    }
    tn_jobs_array_free(b.swaps);
    tn_jobs_array_free(b.keys);
    tn_jobs_array_free(b.bytes);
    return status;
}

/* Each has a status of its own; a CORRUPT one holds up no other. */
enum tenure_status tn_jobs_read_specs(tn_jobs_driver *d, struct tenure_read *reads, size_t n)
{
    struct tenure_error err = {0};
    enum tenure_status status;

    if (n == 0)
        return TENURE_OK;
    status =
        tenure_store_read_many(d->work_store, reads, n, tenure_now() + d->timing.request_ns, &err);
    tn_jobs_answered(d, &d->work_failing, "reading specifications", status, &err);
    for (size_t i = 0; i < n; i++)
        if (reads[i].value.tombstone)
            reads[i].value.len = 0;
    return status;
}
