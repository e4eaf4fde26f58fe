/* jobs/driver_requests.c - the requests of the work to its store. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/key.h"
#include "jobs/driver_inner.h"
#include "jobs/operator.h"

static enum tenure_status no_memory(struct tenure_error *err)
{
    return tenure_fail(err, TENURE_NOMEM, "out of memory");
}

static void *array_of(size_t n, size_t size)
{
    return calloc(n + 1, size);
}

/* ---- The plan ------------------------------------------------------------ */

static enum tenure_status take_plan(tn_jobs_driver *d, const struct tenure_value *value,
                                    struct tn_answer *a, struct tenure_error *err)
{
    struct tenure_error why = {0};
    enum tenure_status status;

    a->event.token = value->token;
    if (tenure_token_absent(&value->token) || value->tombstone)
        return TENURE_OK;
    status = tn_plan_decode(value->data, value->len, &a->plan, &why);
    if (status) { /* it keeps its jobs, claims nothing, and says so */
        tn_jobs_trace(d, (struct tn_jobs_trace){
                             .kind = TN_JOBS_DAMAGED, .job = d->watch_keys[0], .text = why.text});
        return TENURE_OK;
    }
    a->plan_record = (struct tn_plan_record){
        .seq = a->plan.seq,
        .catalogue = a->plan.catalogue,
        .digest = a->plan.digest,
        .cut = a->plan.cut,
        .member_count = a->plan.member_count,
        .job_count = a->plan.job_count,
        .members = (const char(*)[TN_MEMBER_ID_MAX + 1]) a->plan.members,
        .slots = a->plan.slots,
    };
    if (!tn_jobs_grow(d, d->worker.peer_count + a->plan.member_count, a->plan.job_count, 0, 0))
        return no_memory(err);
    a->event.plan = &a->plan_record;
    return TENURE_OK;
}

/* The bell with it: what is rung after this is not missed by the next wait. */
static enum tenure_status read_plan(tn_jobs_driver *d, struct tn_answer *a,
                                    struct tenure_error *err)
{
    struct tenure_read reads[2] = {{.key = d->watch_keys[2]}, {.key = d->watch_keys[0]}};
    enum tenure_status status =
        tenure_store_read_many(d->work_store, reads, 2, d->actions.request_by_ns, err);

    a->event.kind = TN_WORK_PLAN;
    if (!status && reads[1].status)
        status = tenure_fail(err, reads[1].status, "%s cannot be read: `tenure jobs repair`",
                             d->watch_keys[0]);
    if (!status) {
        d->watches[2].seen = reads[0].value.token;
        d->watches[0].seen = reads[1].value.token;
        status = take_plan(d, &reads[1].value, a, err);
    }
    tenure_value_free(&reads[0].value);
    tenure_value_free(&reads[1].value);
    pthread_mutex_lock(&d->lock);
    d->status.rounds++;
    pthread_mutex_unlock(&d->lock);
    return status;
}

static enum tenure_status swap_plan(tn_jobs_driver *d, struct tn_answer *a,
                                    struct tenure_error *err)
{
    const struct tn_plan_record *p = &d->actions.plan;
    struct tn_plan_register plan = {
        .seq = p->seq,
        .catalogue = p->catalogue,
        .digest = p->digest,
        .cut = p->cut,
        .member_count = p->member_count,
        .job_count = p->job_count,
    };
    struct tenure_swap swap = {.key = d->watch_keys[0], .expect = d->actions.expect};
    unsigned char *text;
    enum tenure_status status;

    /* It is only encoded: that they are not const is for those who decode. */
    memcpy(&plan.members, &p->members, sizeof plan.members);
    memcpy(&plan.slots, &p->slots, sizeof plan.slots);
    text = tn_plan_encode(&plan, &swap.len);
    status = text ? TENURE_OK : no_memory(err);
    a->event.kind = TN_WORK_PLAN_SWAPPED;
    swap.data = text;
    memcpy(swap.nonce, d->actions.nonce, sizeof swap.nonce);
    if (!status)
        status = tenure_store_swap(d->work_store, &swap, d->actions.request_by_ns, err);
    a->event.token = swap.token;
    free(text);
    if (!status) {
        pthread_mutex_lock(&d->lock);
        d->status.plans_written++;
        pthread_mutex_unlock(&d->lock);
        tn_jobs_trace(d, (struct tn_jobs_trace){.kind = TN_JOBS_PLANNED, .number = p->seq});
    }
    return status;
}

/* ---- Members ------------------------------------------------------------- */

static int by_id(const void *a, const void *b)
{
    return strcmp(((const struct tn_listed *)a)->id, ((const struct tn_listed *)b)->id);
}

static enum tenure_status list_members(tn_jobs_driver *d, struct tn_answer *a,
                                       struct tenure_error *err)
{
    struct tn_jobs group = {
        .store = d->work_store, .name = d->group, .deadline = d->actions.request_by_ns};
    struct tn_members *m = a->members = calloc(1, sizeof *m);
    enum tenure_status status = m ? tn_members_load(&group, m, err) : no_memory(err);
    uint32_t unfit = 0;

    a->event.kind = TN_WORK_MEMBERS;
    if (status)
        return status;
    a->listed = array_of(m->count, sizeof *a->listed);
    if (!a->listed)
        return no_memory(err);
    for (uint32_t i = 0; i < m->count; i++) {
        const struct tn_listed_member *one = &m->list[i];

        a->listed[i] = (struct tn_listed){one->record.id, one->token,
                                          one->damage[0] ? NULL : &one->record.member};
        unfit += one->damage[0] ? 0 : one->record.member.unfit_count;
    }
    qsort(a->listed, m->count, sizeof *a->listed, by_id);
    a->event.listed = a->listed;
    a->event.n = m->count;
    d->unfit_total = unfit;
    pthread_mutex_lock(&d->lock);
    d->status.lists++;
    pthread_mutex_unlock(&d->lock);
    return tn_jobs_grow(d, d->worker.peer_count + m->count, 0, 0, d->requirement_count + unfit + 1)
               ? TENURE_OK
               : no_memory(err);
}

/* A burial or a placeholder.  What people see of the member stays as it was. */
static enum tenure_status swap_member(tn_jobs_driver *d, struct tn_answer *a,
                                      struct tenure_error *err)
{
    const struct tn_work_actions *out = &d->actions;
    struct tn_member_record record = {0};
    char key[TENURE_KEY_MAX + 1];
    struct tenure_swap swap = {.key = key, .expect = out->expect};
    enum tenure_status status = tn_key_item(d->group, TN_KEY_MEMBER, out->member_id, key, err);

    a->event.kind = TN_WORK_MEMBER_SWAPPED;
    if (!status)
        status = tenure_store_read(d->work_store, key, &a->value, out->request_by_ns, err);
    if (status)
        return status;
    if (tenure_token_absent(&a->value.token) ||
        tn_member_decode(a->value.data, a->value.len, &record, NULL) != TENURE_OK)
        memset(&record, 0, sizeof record);
    snprintf(record.id, sizeof record.id, "%s", out->member_id);
    record.member = out->member;
    char *text = tn_member_encode(&record);
    if (!text)
        return no_memory(err);
    swap.data = text;
    swap.len = strlen(text);
    memcpy(swap.nonce, out->nonce, sizeof swap.nonce);
    status = tenure_store_swap(d->work_store, &swap, out->request_by_ns, err);
    free(text);
    if (!status && out->member.state == TN_MEMBER_DEAD) {
        pthread_mutex_lock(&d->lock);
        d->status.burials++;
        pthread_mutex_unlock(&d->lock);
        tn_jobs_trace(d, (struct tn_jobs_trace){.kind = TN_JOBS_BURIED, .job = out->member_id});
    }
    return status;
}

/* ---- The catalogue ------------------------------------------------------- */

/* Read and keep the pages whose revision is another.  One that is damaged stays as it was. */
static enum tenure_status read_pages(tn_jobs_driver *d, const uint64_t *revisions, uint32_t count,
                                     struct tn_answer *a, struct tenure_error *err)
{
    struct tenure_read *reads = array_of(count, sizeof *reads);
    char(*keys)[TENURE_KEY_MAX + 1] = array_of(count, sizeof *keys);
    uint32_t *numbers = array_of(count, sizeof *numbers), n = 0;
    enum tenure_status status = reads && keys && numbers ? TENURE_OK : no_memory(err);

    for (uint32_t i = 0; i < count && !status; i++) {
        if (i < d->page_count && d->pages[i].revision == revisions[i])
            continue;
        tn_key_page(d->group, i, keys[n]);
        reads[n].key = keys[n];
        numbers[n++] = i;
    }
    if (!status && n)
        status = tenure_store_read_many(d->work_store, reads, n, d->actions.request_by_ns, err);
    if (!status)
        a->entries = array_of((size_t)n * TN_PAGE_ROWS, sizeof *a->entries);
    if (!status && !a->entries)
        status = no_memory(err);
    for (uint32_t i = 0; i < n && !status; i++) {
        struct tn_page page = {0};
        struct tenure_error why = {0};
        enum tenure_status read = reads[i].status;

        if (!read && tenure_token_absent(&reads[i].value.token))
            read = tenure_fail(&why, TENURE_CORRUPT, "it is lost: `tenure jobs repair`");
        if (!read)
            read = tn_page_decode(reads[i].value.data, reads[i].value.len, numbers[i], &page, &why);
        if (read)
            tn_jobs_trace(d, (struct tn_jobs_trace){
                                 .kind = TN_JOBS_DAMAGED, .job = keys[i], .text = why.text});
        else if (!tn_jobs_keep_page(d, numbers[i], &page, a->entries, &a->event.n))
            status = no_memory(err);
        tn_page_free(&page);
    }
    for (uint32_t i = 0; reads && i < count; i++)
        tenure_value_free(&reads[i].value);
    free(reads);
    free(keys);
    free(numbers);
    return status;
}

/* Room for all that the plan gives us, that we hold, and that others may ask for. */
static uint32_t count_to_hold(const tn_jobs_driver *d)
{
    const struct tn_worker *w = &d->worker;
    uint32_t n = w->held_count + w->peer_count * TN_MEMBER_ASKS_MAX;

    for (uint32_t j = 0; j < d->jobs_max; j++) {
        uint16_t slot = w->cfg.known[j].slot;

        n += slot != TN_SLOT_NONE && !w->cfg.known[j].held &&
             strcmp(w->cfg.peers[slot].id, d->id) == 0;
    }
    return n;
}

static enum tenure_status read_catalogue(tn_jobs_driver *d, struct tn_answer *a,
                                         struct tenure_error *err)
{
    struct tn_catalogue root = {0};
    uint64_t *revisions = NULL;
    uint32_t count = 0;
    enum tenure_status status = tenure_store_read(d->work_store, d->watch_keys[1], &a->value,
                                                  d->actions.request_by_ns, err);

    a->event.kind = TN_WORK_CATALOGUE;
    if (!status && !tenure_token_absent(&a->value.token) && !a->value.tombstone)
        status =
            tn_catalogue_root_decode(a->value.data, a->value.len, &root, &revisions, &count, err);
    if (!status)
        status = read_pages(d, revisions, count, a, err);
    free(revisions);
    if (status)
        return status;
    d->watches[1].seen = a->value.token;
    a->event.revision = root.revision;
    a->event.active = root.active;
    a->event.entries = a->entries;
    a->event.job_count = count ? (count - 1) * TN_PAGE_ROWS : 0;
    if (count && count <= d->page_count)
        a->event.job_count += d->pages[count - 1].count;
    return tn_jobs_grow(d, 0, a->event.job_count, 0, d->requirement_count + d->unfit_total + 1) &&
                   tn_jobs_grow(d, 0, 0, count_to_hold(d), 0)
               ? TENURE_OK
               : no_memory(err);
}

/* ---- The registers of jobs ----------------------------------------------- */

static void report_damage(tn_jobs_driver *d, const char *id, const char *text)
{
    tn_jobs_trace(d, (struct tn_jobs_trace){.kind = TN_JOBS_DAMAGED, .job = id, .text = text});
}

static void take_register(tn_jobs_driver *d, const char *id, const struct tenure_read *read,
                          struct tn_read *out)
{
    struct tn_side *side;
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
    side = tn_jobs_side(d, out->job);
    if (!side || !tn_side_set(side, checkpoint, len)) {
        out->status = TENURE_NOMEM;
        return;
    }
    free(side->taken_from);
    side->taken_from = NULL;
    if (tn_job_owned(&out->record) && strcmp(out->record.owner.id, d->id) != 0)
        side->taken_from = strdup(out->record.owner.id);
}

/* Each gets a status of its own: what was not answered is read again. */
static enum tenure_status read_jobs(tn_jobs_driver *d, struct tn_answer *a,
                                    struct tenure_error *err)
{
    unsigned n = d->actions.n;
    struct tenure_read *reads = array_of(n, sizeof *reads);
    char(*keys)[TENURE_KEY_MAX + 1] = array_of(n, sizeof *keys);
    const char **ids = array_of(n, sizeof *ids);
    enum tenure_status status = TENURE_OK;
    unsigned asked = 0;

    a->event.kind = TN_WORK_READ;
    a->event.reads = a->reads = array_of(n, sizeof *a->reads);
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
    for (unsigned i = 0; i < n; i++)
        tenure_value_free(&reads[i].value);
    free(reads);
    free(keys);
    free(ids);
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
        side->commits->sent = true;
        *len = side->commits->len;
        return side->commits->data;
    }
    *len = side->checkpoint_len;
    return side->checkpoint;
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
    b->swaps = array_of(d->actions.n, sizeof *b->swaps);
    b->keys = array_of(d->actions.n, sizeof *b->keys);
    b->bytes = malloc(size + 1);
    if (!b->swaps || !b->keys || !b->bytes)
        abort();
    for (unsigned i = 0; i < d->actions.n; i++) {
        const struct tn_job_swap *s = &d->actions.swaps[i];
        const char *id = tn_jobs_id_of(d, s->job, NULL);
        const void *bytes = bytes_of(d, s, &len);

        if (!id || tn_key_item(d->group, TN_KEY_JOB, id, b->keys[i], NULL) != TENURE_OK)
            continue; /* CONFLICT by default: it is read again */
        struct tenure_swap *swap = &b->swaps[b->n++];
        *swap =
            (struct tenure_swap){.key = b->keys[i], .expect = s->expect, .data = b->bytes + used};
        memcpy(swap->nonce, s->nonce, sizeof swap->nonce);
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

static enum tenure_status swap_jobs(tn_jobs_driver *d, struct tn_answer *a,
                                    struct tenure_error *err)
{
    unsigned n = d->actions.n;
    struct sending b = {0};
    enum tenure_status status = TENURE_OK;

    a->event.kind = TN_WORK_SWAPPED;
    a->event.n = n;
    a->event.statuses = a->statuses = array_of(n, sizeof *a->statuses);
    a->event.tokens = a->tokens = array_of(n, sizeof *a->tokens);
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
    free(b.swaps);
    free(b.keys);
    free(b.bytes);
    return status;
}

enum tenure_status tn_jobs_read_spec(tn_jobs_driver *d, const char *id, struct tenure_value *value,
                                     struct tenure_error *err)
{
    char key[TENURE_KEY_MAX + 1];
    enum tenure_status status = tn_key_item(d->group, TN_KEY_SPEC, id, key, err);

    if (!status)
        status =
            tenure_store_read(d->work_store, key, value, tenure_now() + d->timing.request_ns, err);
    if (!status && value->tombstone)
        value->len = 0;
    tn_jobs_answered(d, &d->work_failing, "reading a specification", status, err);
    return status;
}

/* ---- All of them --------------------------------------------------------- */

void tn_jobs_request(tn_jobs_driver *d, struct tn_answer *a)
{
    static const struct {
        enum tenure_status (*run)(tn_jobs_driver *, struct tn_answer *, struct tenure_error *);
        const char *doing;
    } requests[] = {
        [TN_WORK_READ_PLAN] = {read_plan, "reading the plan"},
        [TN_WORK_LIST_MEMBERS] = {list_members, "listing the members"},
        [TN_WORK_READ_CATALOGUE] = {read_catalogue, "reading the catalogue"},
        [TN_WORK_SWAP_MEMBER] = {swap_member, "writing a member record"},
        [TN_WORK_SWAP_PLAN] = {swap_plan, "writing the plan"},
        [TN_WORK_READ_JOBS] = {read_jobs, "reading jobs"},
        [TN_WORK_SWAP_JOBS] = {swap_jobs, "writing jobs"},
    };
    struct tenure_error err = {0};
    enum tenure_status status = requests[d->actions.request].run(d, a, &err);

    a->event.status = status;
    if (status == TENURE_CONFLICT)
        status = TENURE_OK; /* another worker was faster: nothing is wrong */
    tn_jobs_answered(d, &d->work_failing, requests[d->actions.request].doing, status, &err);
}

void tn_answer_free(struct tn_answer *a)
{
    if (a->members)
        tn_members_free(a->members);
    free(a->members);
    tn_plan_free(&a->plan);
    tenure_value_free(&a->value);
    free(a->listed);
    free(a->entries);
    free(a->reads);
    free(a->statuses);
    free(a->tokens);
}
