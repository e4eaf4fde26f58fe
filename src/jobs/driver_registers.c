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
        !tn_jobs_set_former_owner(d, out->job, former))
        out->status = TENURE_NOMEM;
}

/* Keys of a batch, one behind the other, each in front of the number of its place. */
struct keys {
    char *bytes; /* room for the longest of all; what is not used is not touched */
    size_t used;
};

static struct keys borrow_keys(tn_jobs_driver *d, unsigned n)
{
    return (struct keys){.bytes = tn_jobs_borrow(d, n, sizeof(uint32_t) + TENURE_KEY_MAX + 1)};
}

/* The key of a job's register; NULL: it has none. */
static const char *add_key(const tn_jobs_driver *d, struct keys *k, const char *id, uint32_t place)
{
    char *key = k->bytes + k->used + sizeof place;

    if (!id || tn_key_item(d->group, TN_KEY_JOB, id, key, NULL) != TENURE_OK)
        return NULL;
    memcpy(key - sizeof place, &place, sizeof place);
    k->used += sizeof place + strlen(key) + 1;
    return key;
}

static uint32_t place_of(const char *key)
{
    uint32_t place;

    memcpy(&place, key - sizeof place, sizeof place);
    return place;
}

/* Their values are kept from batch to batch, and with them their memory. */
static struct tenure_read *reads_of(tn_jobs_driver *d, unsigned n)
{
    if (!d->reads)
        d->reads = tn_jobs_array(TN_WORK_BATCH_MAX, sizeof *d->reads);
    if (!d->reads)
        abort(); /* the worker would wait for ever */
    d->reads_used = n > d->reads_used ? n : d->reads_used;
    return d->reads;
}

void tn_jobs_free_reads(tn_jobs_driver *d)
{
    for (unsigned i = 0; i < d->reads_used; i++)
        tenure_value_free(&d->reads[i].value);
    tn_jobs_array_free(d->reads);
    d->reads = NULL;
    d->reads_used = 0;
}

/* Each gets a status of its own: what was not answered is read again. */
enum tenure_status tn_jobs_read_registers(tn_jobs_driver *d, struct tn_answer *a,
                                          struct tenure_error *err)
{
    unsigned n = d->actions.n, asked = 0;
    struct tenure_read *reads = reads_of(d, n);
    struct keys keys = borrow_keys(d, n);
    enum tenure_status status = TENURE_OK;
    size_t longest = 0;

    a->event.kind = TN_WORK_READ;
    a->event.n = n;
    a->event.reads = a->reads = tn_jobs_borrow(d, n, sizeof *a->reads);
    for (unsigned i = 0; i < n; i++) {
        const char *id = tn_jobs_id_of(d, d->actions.jobs[i], NULL);
        const char *key = add_key(d, &keys, id, i);

        a->reads[i] = (struct tn_read){.job = d->actions.jobs[i], .status = TENURE_UNAVAILABLE};
        if (key)
            reads[asked++].key = key;
    }
    if (asked)
        status = tenure_store_read_many(d->work_store, reads, asked, d->actions.request_by_ns, err);
    for (unsigned k = 0; k < asked; k++) {
        struct tn_read *read = &a->reads[place_of(reads[k].key)];
        size_t len = reads[k].status ? 0 : strlen(reads[k].value.token.version);

        longest = len > longest ? len : longest;
        if (status && reads[k].status)
            read->status = reads[k].status; /* not answered: no damage */
        else
            take_register(d, tn_jobs_id_of(d, read->job, NULL), &reads[k], read);
    }
    tn_jobs_widen_versions(d, longest);
    for (unsigned i = 0; i < n; i++) /* removed: its register is gone, nothing is to be released */
        if (tn_jobs_is_free(d, a->reads[i].job))
            a->reads[i].status = TENURE_OK;
    tn_jobs_return(d, keys.bytes);
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

/* Since the core drafted it, the membership may have ended: then nothing of it may be written any
 * more. */
static bool is_still_due(const tn_jobs_driver *d, const struct tn_job_swap *s)
{
    uint32_t at = d->worker.cfg.known[s->job].held;
    const struct tn_held *h = at ? &d->worker.cfg.held[at - 1] : NULL;

    return h && h->request == TN_REQUEST_SWAPPING &&
           memcmp(h->nonce, s->nonce, sizeof h->nonce) == 0;
}

/* A batch of swaps as it is sent. */
struct sending {
    struct tenure_swap *swaps;
    struct keys keys;
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
    b->swaps = tn_jobs_borrow(d, d->actions.n, sizeof *b->swaps);
    b->keys = borrow_keys(d, d->actions.n);
    b->bytes = tn_jobs_borrow(d, size, 1);
    for (unsigned i = 0; i < d->actions.n; i++) {
        const struct tn_job_swap *s = &d->actions.swaps[i];
        const char *key =
            is_still_due(d, s) ? add_key(d, &b->keys, tn_jobs_id_of(d, s->job, NULL), i) : NULL;
        const void *bytes = bytes_of(d, s, &len);

        if (!key)
            continue; /* CONFLICT by default: it is read again */
        struct tenure_swap *swap = &b->swaps[b->n++];
        *swap = (struct tenure_swap){.key = key, .expect = s->expect, .data = b->bytes + used};
        memcpy(swap->nonce, s->nonce, sizeof swap->nonce);
        if (s->purpose == TN_SWAP_COMMIT && d->sides[s->job] && d->sides[s->job]->commits)
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
    if (s->purpose != TN_SWAP_RELEASE)
        return;
    tn_jobs_record_released(d, s->job, s->record.epoch);
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
    size_t longest = 0;

    a->event.kind = TN_WORK_SWAPPED;
    a->event.n = n;
    a->event.statuses = a->statuses = tn_jobs_borrow(d, n, sizeof *a->statuses);
    a->event.tokens = a->tokens = tn_jobs_borrow(d, n, sizeof *a->tokens);
    for (unsigned i = 0; i < n; i++)
        a->statuses[i] = TENURE_CONFLICT;
    compose(d, &b);
    if (b.n)
        status = tenure_store_swap_many(d->work_store, b.swaps, b.n, d->actions.request_by_ns, err);
    for (unsigned k = 0; k < b.n; k++) { /* they may have been sorted */
        uint32_t i = place_of(b.swaps[k].key);

        a->statuses[i] = b.swaps[k].status;
        a->tokens[i] = b.swaps[k].token;
        take_swapped(d, &d->actions.swaps[i], a->statuses[i]);
        size_t len = a->statuses[i] ? 0 : strlen(a->tokens[i].version);
        longest = len > longest ? len : longest;
        if (!status && a->statuses[i] && a->statuses[i] != TENURE_CONFLICT)
            status = tenure_fail(err, a->statuses[i], "%s was not written", b.swaps[k].key);
    }
    tn_jobs_widen_versions(d, longest);
    tn_jobs_return(d, b.swaps);
    tn_jobs_return(d, b.keys.bytes);
    tn_jobs_return(d, b.bytes);
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
