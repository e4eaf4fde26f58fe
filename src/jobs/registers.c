#include "jobs/registers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/key.h"
#include "store/patience.h"

/* Some registers while they are changed. */
struct batch {
    const struct tn_jobs *group;
    const char **ids;
    char (*keys)[TENURE_KEY_MAX + 1];
    struct tenure_read *reads;
    struct tn_job_now *now;
    struct tenure_swap *swaps;
    unsigned char **bytes;
    size_t n;
};

static void free_batch(struct batch *b, size_t room)
{
    for (size_t i = 0; i < room; i++) {
        if (b->reads)
            tenure_value_free(&b->reads[i].value);
        if (b->bytes)
            free(b->bytes[i]);
    }
    free(b->ids);
    free(b->keys);
    free(b->reads);
    free(b->now);
    free(b->swaps);
    free(b->bytes);
}

static enum tenure_status make_batch(struct batch *b, const struct tn_jobs *g, size_t room,
                                     struct tenure_error *err)
{
    *b = (struct batch){.group = g};
    b->ids = calloc(room + 1, sizeof *b->ids);
    b->keys = calloc(room + 1, sizeof *b->keys);
    b->reads = calloc(room + 1, sizeof *b->reads);
    b->now = calloc(room + 1, sizeof *b->now);
    b->swaps = calloc(room + 1, sizeof *b->swaps);
    b->bytes = calloc(room + 1, sizeof *b->bytes);
    if (b->ids && b->keys && b->reads && b->now && b->swaps && b->bytes)
        return TENURE_OK;
    free_batch(b, room);
    return tenure_fail(err, TENURE_NOMEM, "out of memory");
}

/* ---- Read ---------------------------------------------------------------- */

static void take_register(const struct tn_jobs *g, const struct tenure_read *read,
                          struct tn_job_now *now)
{
    struct tenure_value value = {0};
    struct tenure_error err = {0};
    const unsigned char *checkpoint;

    now->status = read->status;
    now->token = read->value.token;
    now->tombstone = read->value.tombstone;
    now->absent = !read->status && tenure_token_absent(&now->token);
    if (read->status) /* a single read tells why */
        now->status = tenure_store_read(g->store, read->key, &value, g->deadline, &err);
    else if (!now->absent)
        now->status = tn_job_decode(read->value.data, read->value.len, &now->job, &checkpoint,
                                    &now->checkpoint_len, &err);
    snprintf(now->damage, sizeof now->damage, "%s", now->status ? err.text : "");
    tenure_value_free(&value);
}

static enum tenure_status read_batch(struct batch *b, struct tenure_error *err)
{
    enum tenure_status status = TENURE_OK;

    for (size_t i = 0; i < b->n && !status; i++) {
        status = tn_key_item(b->group->name, TN_KEY_JOB, b->ids[i], b->keys[i], err);
        b->reads[i].key = b->keys[i];
    }
    if (!status)
        status = tenure_store_read_many(b->group->store, b->reads, b->n, b->group->deadline, err);
    for (size_t i = 0; i < b->n && !status; i++) {
        b->now[i] = (struct tn_job_now){.id = b->ids[i]};
        take_register(b->group, &b->reads[i], &b->now[i]);
    }
    return status;
}

enum tenure_status tn_jobs_read(const struct tn_jobs *g, const char *const *ids, size_t n,
                                struct tn_job_now *now, struct tenure_error *err)
{
    size_t room = n < TN_REGISTERS_AT_ONCE ? n : TN_REGISTERS_AT_ONCE;
    struct batch b;
    enum tenure_status status = make_batch(&b, g, room, err);

    if (status)
        return status;
    for (size_t done = 0; done < n && !status; done += b.n) {
        b.n = n - done < room ? n - done : room;
        memcpy(b.ids, ids + done, b.n * sizeof *ids);
        status = read_batch(&b, err);
        if (!status)
            memcpy(now + done, b.now, b.n * sizeof *now);
    }
    free_batch(&b, room);
    return status;
}

enum tenure_status tn_register_fault(const struct tn_jobs *g, const struct tn_job_now *now,
                                     struct tenure_error *err)
{
    if (now->absent)
        return tenure_fail(err, TENURE_CORRUPT,
                           "%s" TN_KEY_JOB "%s is lost: `tenure jobs repair` makes a new one",
                           g->name, now->id);
    return tenure_fail(err, now->status,
                       now->status == TENURE_CORRUPT ? "%s" TN_KEY_JOB
                                                       "%s: %s; `tenure jobs repair` replaces it"
                                                     : "%s" TN_KEY_JOB "%s: %s",
                       g->name, now->id, now->damage);
}

/* ---- Change -------------------------------------------------------------- */

static enum tenure_status compose(struct batch *b, size_t i, const struct tn_job *job, bool ends,
                                  struct tenure_swap *swap, struct tenure_error *err)
{
    const struct tenure_value *value = &b->reads[i].value;
    size_t kept = ends || b->now[i].absent ? 0 : b->now[i].checkpoint_len;

    free(b->bytes[i]);
    b->bytes[i] = malloc(TN_JOB_HEADER_MAX + kept);
    if (!b->bytes[i])
        return tenure_fail(err, TENURE_NOMEM, "out of memory");
    *swap = (struct tenure_swap){
        .key = b->keys[i], .expect = b->now[i].token, .data = b->bytes[i], .tombstone = ends};
    swap->len = tn_job_put(job, kept ? value->data + value->len - kept : NULL, kept, b->bytes[i]);
    return tenure_nonce(swap->nonce, err);
}

/* One round; those that are not done yet are the first *left of b->ids then. */
static enum tenure_status edit_round(struct batch *b, tn_register_fn decide, void *arg,
                                     size_t *left, struct tenure_error *err)
{
    enum tenure_status status = read_batch(b, err);
    size_t swaps = 0, again = 0;

    for (size_t i = 0; i < b->n && !status; i++) {
        enum tn_register_edit edit = TN_REGISTER_STAYS;
        struct tn_job job = b->now[i].job;

        status = decide(arg, &b->now[i], &job, &edit, err);
        if (!status && edit != TN_REGISTER_STAYS)
            status = compose(b, i, &job, edit == TN_REGISTER_ENDS, &b->swaps[swaps++], err);
    }
    if (!status && swaps)
        status = tenure_store_swap_many(b->group->store, b->swaps, swaps, b->group->deadline, err);
    for (size_t i = 0; i < swaps && !status; i++) {
        const struct tenure_swap *swap = &b->swaps[i];

        if (swap->status == TENURE_OK)
            continue;
        if (swap->status != TENURE_CONFLICT && swap->status != TENURE_UNKNOWN)
            return tenure_fail(err, swap->status, "%s was not written: %s", swap->key,
                               tenure_status_word(swap->status));
        /* The keys stay where they are: which id it was tells the place of its key. */
        size_t at = (size_t)(swap->key - b->keys[0]) / sizeof *b->keys;
        b->ids[again++] = b->now[at].id;
    }
    *left = again;
    return status;
}

enum tenure_status tn_registers_edit(const struct tn_jobs *g, const char *const *ids, size_t n,
                                     tn_register_fn decide, void *arg, struct tenure_error *err)
{
    size_t room = n < TN_REGISTERS_AT_ONCE ? n : TN_REGISTERS_AT_ONCE;
    struct batch b;
    enum tenure_status status = make_batch(&b, g, room, err);

    if (status)
        return status;
    for (size_t done = 0; done < n && !status; done += room) {
        size_t left = n - done < room ? n - done : room;

        memcpy(b.ids, ids + done, left * sizeof *ids);
        while (left && !status) {
            b.n = left;
            status = edit_round(&b, decide, arg, &left, err);
            if (!status && left && !tn_store_pause(g->deadline))
                status = tenure_fail(err, TENURE_TIMEOUT, "'%s' and %zu more keep changing",
                                     b.ids[0], left - 1);
        }
    }
    free_batch(&b, room);
    return status;
}
