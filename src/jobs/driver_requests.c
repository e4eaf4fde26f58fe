/* jobs/driver_requests.c - the requests of the work to its store. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/key.h"
#include "jobs/driver_inner.h"
#include "jobs/operator.h"

#define ARRAY_MAPPED_MIN 65536u

static enum tenure_status no_memory(struct tenure_error *err)
{
    return tenure_fail(err, TENURE_NOMEM, "out of memory");
}

/* In front of an array: how long its mapping is; 0: it is on the heap. */
struct array_head {
    _Alignas(16) size_t mapped;
};

void *tn_jobs_array(size_t n, size_t size)
{
    size_t bytes = sizeof(struct array_head) + (n + 1) * size;
    struct array_head *head;

    if (bytes < ARRAY_MAPPED_MIN) {
        head = calloc(1, bytes);
        return head ? head + 1 : NULL;
    }
    head = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (head == MAP_FAILED)
        return NULL;
    head->mapped = bytes;
    return head + 1;
}

static struct array_head *head_of(void *array)
{
    return array ? (struct array_head *)array - 1 : NULL;
}

/* But for its first page, which says how long it is. */
void tn_jobs_array_clear(void *array)
{
    struct array_head *head = head_of(array);
    size_t page = (size_t)sysconf(_SC_PAGESIZE);

    if (head && head->mapped > page)
        madvise((unsigned char *)head + page, head->mapped - page, MADV_DONTNEED);
}

void tn_jobs_array_free(void *array)
{
    struct array_head *head = head_of(array);

    if (head && head->mapped)
        munmap(head, head->mapped);
    else
        free(head);
}

void *tn_jobs_borrow(tn_jobs_driver *d, size_t n, size_t size)
{
    void *array;

    for (size_t i = sizeof d->spares / sizeof d->spares[0]; i-- > 0;) { /* the smallest first */
        const struct array_head *head = head_of(d->spares[i]);

        if (!head || head->mapped < sizeof *head + (n + 1) * size)
            continue;
        array = d->spares[i];
        d->spares[i] = NULL;
        return array;
    }
    array = tn_jobs_array(n, size);
    if (!array)
        abort();
    return array;
}

/* The largest are kept, in their order. */
void tn_jobs_return(tn_jobs_driver *d, void *array)
{
    bool kept = array && head_of(array)->mapped;

    for (size_t i = 0; kept && array && i < sizeof d->spares / sizeof d->spares[0]; i++) {
        const struct array_head *head = head_of(d->spares[i]);

        if (head && head->mapped >= head_of(array)->mapped)
            continue;
        void *smaller = d->spares[i];
        d->spares[i] = array;
        array = smaller;
    }
    tn_jobs_array_free(array);
}

void tn_jobs_free_spares(tn_jobs_driver *d)
{
    for (size_t i = 0; i < sizeof d->spares / sizeof d->spares[0]; i++) {
        tn_jobs_array_free(d->spares[i]);
        d->spares[i] = NULL;
    }
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
    if (d->worker.planned && tenure_token_equal(&value->token, &d->worker.plan_token))
        return TENURE_OK; /* the worker knows it */
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
    tn_jobs_array_clear(d->worker.cfg.scratch);
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
    a->listed = tn_jobs_array(m->count, sizeof *a->listed);
    if (!a->listed)
        return no_memory(err);
    for (uint32_t i = 0; i < m->count; i++) {
        const struct tn_listed_member *one = &m->list[i];

        a->listed[i] = (struct tn_listed){one->record.id, one->token,
                                          one->damage[0] ? NULL : &one->record.member};
        unfit += one->damage[0] ? 0 : one->record.member.unfit_count;
        if (one->damage[0])
            tn_jobs_trace(d, (struct tn_jobs_trace){
                                 .kind = TN_JOBS_DAMAGED, .job = one->key, .text = one->damage});
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
        tn_jobs_record_buried(d, out->member_id, &out->member);
        tn_jobs_trace(d, (struct tn_jobs_trace){.kind = TN_JOBS_BURIED, .job = out->member_id});
    }
    return status;
}

/* ---- The catalogue ------------------------------------------------------- */

/* Read and keep the pages whose revision is another.  One that is damaged stays as it was. */
static enum tenure_status read_pages(tn_jobs_driver *d, const uint64_t *revisions, uint32_t count,
                                     struct tn_answer *a, struct tenure_error *err)
{
    struct tenure_read *reads = tn_jobs_array(count, sizeof *reads);
    char(*keys)[TENURE_KEY_MAX + 1] = tn_jobs_array(count, sizeof *keys);
    uint32_t *numbers = tn_jobs_array(count, sizeof *numbers), n = 0;
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
        a->entries = tn_jobs_array((size_t)n * TN_PAGE_ROWS, sizeof *a->entries);
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
    tn_jobs_array_free(reads);
    tn_jobs_array_free(keys);
    tn_jobs_array_free(numbers);
    return status;
}

/* Room for all that the plan gives us, that we hold, and that others may ask for. */
static uint32_t count_to_hold(const tn_jobs_driver *d)
{
    const struct tn_worker *w = &d->worker;
    uint32_t n = w->held_count + w->peer_count * TN_MEMBER_ASKS_MAX;

    for (uint32_t j = 0; j < d->jobs_max; j++) {
        n += w->cfg.known[j].slot == w->own && !w->cfg.known[j].held;
    }
    return n;
}

/* What was read and did not reach the core is read again. */
static void forget_pages(tn_jobs_driver *d)
{
    for (uint32_t i = 0; i < d->page_count; i++)
        d->pages[i].revision = 0;
}

/* Whoever has seen one knows that it is lost: no job is stopped for that. */
static enum tenure_status decode_root(const tn_jobs_driver *d, const struct tenure_value *value,
                                      struct tn_catalogue *root, uint64_t **revisions,
                                      uint32_t *count, struct tenure_error *err)
{
    if (!tenure_token_absent(&value->token) && !value->tombstone)
        return tn_catalogue_root_decode(value->data, value->len, root, revisions, count, err);
    if (d->worker.catalogue > 0)
        return tenure_fail(err, TENURE_CORRUPT, "%s is lost", d->watch_keys[1]);
    return TENURE_OK;
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
    if (!status)
        status = decode_root(d, &a->value, &root, &revisions, &count, err);
    if (status)
        return status;
    status = read_pages(d, revisions, count, a, err);
    free(revisions);
    if (status) {
        forget_pages(d);
        return status;
    }
    d->watches[1].seen = a->value.token;
    a->event.revision = root.revision;
    a->event.active = root.active;
    a->event.entries = a->entries;
    a->event.job_count = count ? (count - 1) * TN_PAGE_ROWS : 0;
    if (count && count <= d->page_count)
        a->event.job_count += d->pages[count - 1].count;
    if (tn_jobs_grow(d, 0, a->event.job_count, 0, d->requirement_count + d->unfit_total + 1) &&
        tn_jobs_grow(d, 0, 0, count_to_hold(d), 0))
        return TENURE_OK;
    forget_pages(d);
    return no_memory(err);
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
        [TN_WORK_READ_JOBS] = {tn_jobs_read_registers, "reading jobs"},
        [TN_WORK_SWAP_JOBS] = {tn_jobs_swap_registers, "writing jobs"},
    };
    struct tenure_error err = {0};
    enum tenure_status status = requests[d->actions.request].run(d, a, &err);

    a->event.status = status;
    if (status == TENURE_CONFLICT)
        status = TENURE_OK; /* another worker was faster: nothing is wrong */
    tn_jobs_answered(d, &d->work_failing, requests[d->actions.request].doing, status, &err);
}

void tn_answer_free(tn_jobs_driver *d, struct tn_answer *a)
{
    if (a->members)
        tn_members_free(a->members);
    free(a->members);
    tn_plan_free(&a->plan);
    tenure_value_free(&a->value);
    tn_jobs_array_free(a->listed);
    tn_jobs_array_free(a->entries);
    tn_jobs_return(d, a->reads);
    tn_jobs_return(d, a->statuses);
    tn_jobs_return(d, a->tokens);
}
