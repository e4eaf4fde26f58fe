/* jobs/driver_table.c - the memory of a worker: it grows with what the store shows. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "jobs/driver_inner.h"

#define GROWTH_MIN   16u
#define VERSION_STEP TN_JOBS_VERSION_MIN

static uint32_t larger(uint32_t have, uint32_t need, uint32_t max)
{
    uint32_t room = have + have / 4 > need ? have + have / 4 : need;

    if (need <= have)
        return have;
    room = room < GROWTH_MIN ? GROWTH_MIN : room;
    return room < max ? room : max;
}

/* As realloc(), the new part zeroed. */
static bool grow_array(void **array, uint32_t from, uint32_t to, size_t size)
{
    unsigned char *grown;

    if (to == from)
        return true;
    grown = realloc(*array, (size_t)to * size);
    if (!grown)
        return false;
    memset(grown + (size_t)from * size, 0, (size_t)(to - from) * size);
    *array = grown;
    return true;
}

/* What is not used yet is not touched either: it costs no memory. */
static bool grow_held(struct tn_worker_config *c, uint32_t to)
{
    void *held, *versions;

    if (to == c->held_max)
        return true;
    held = realloc(c->held, (size_t)to * sizeof *c->held);
    if (!held)
        return false;
    c->held = held;
    versions = realloc(c->versions, (size_t)to * c->version_size);
    if (!versions)
        return false;
    c->versions = versions;
    c->held_max = to;
    return true;
}

static bool grow_jobs(tn_jobs_driver *d, uint32_t to)
{
    struct tn_worker_config *c = &d->worker.cfg;

    if (!grow_array((void **)&d->sides, d->jobs_max, to, sizeof *d->sides) ||
        !grow_array((void **)&c->known, d->jobs_max, to, sizeof *c->known))
        return false;
    for (uint32_t i = d->jobs_max; i < to; i++)
        c->known[i].slot = TN_SLOT_NONE;
    d->jobs_max = to;
    return true;
}

/* One more than they say: the core may point behind the last. */
static bool grow_members(tn_jobs_driver *d, uint32_t to)
{
    struct tn_worker_config *c = &d->worker.cfg;
    uint32_t from = d->members_max ? d->members_max + 1 : 0;

    if (to == d->members_max)
        return true;
    if (!grow_array((void **)&c->peers, from, to + 1, sizeof *c->peers) ||
        !grow_array((void **)&c->records, from, to + 1, sizeof *c->records) ||
        !grow_array((void **)&c->counts, from, to + 1, sizeof *c->counts))
        return false;
    d->members_max = to;
    return true;
}

static bool grow(tn_jobs_driver *d, uint32_t members, uint32_t jobs, uint32_t held,
                 uint32_t classes)
{
    struct tn_worker_config *c = &d->worker.cfg, want;
    void *scratch;

    if (!grow_members(d, larger(d->members_max, members, TN_PLAN_MEMBERS_MAX - 1)) ||
        !grow_jobs(d, larger(d->jobs_max, jobs, TN_PLAN_JOBS_MAX)) ||
        !grow_held(c, larger(c->held_max, held, UINT32_MAX)))
        return false;
    d->class_max = larger(d->class_max, classes, UINT16_MAX);
    want = *c;
    want.members_max = d->members_max;
    want.jobs_max = d->jobs_max;
    want.class_max = d->class_max;
    if (c->scratch && want.members_max == c->members_max && want.jobs_max == c->jobs_max &&
        want.class_max == c->class_max)
        return true;
    scratch = tn_jobs_array(tn_worker_scratch_size(&want), 1);
    if (!scratch)
        return false;
    tn_jobs_array_free(c->scratch);
    *c = want;
    c->scratch = scratch;
    return true;
}

bool tn_jobs_grow(tn_jobs_driver *d, uint32_t members, uint32_t jobs, uint32_t held,
                  uint32_t classes)
{
    pthread_mutex_lock(&d->table_lock);
    bool done = grow(d, members, jobs, held, classes);
    pthread_mutex_unlock(&d->table_lock);
    return done;
}

void tn_jobs_widen_versions(tn_jobs_driver *d, size_t len)
{
    struct tn_worker_config *c = &d->worker.cfg;
    uint32_t size = (uint32_t)(len + VERSION_STEP) / VERSION_STEP * VERSION_STEP;
    char *wider;

    if (len < c->version_size)
        return;
    assert(len <= TENURE_VERSION_MAX);
    wider = calloc(c->held_max, size);
    if (!wider)
        abort(); /* the worker would wait for ever */
    for (uint32_t i = 0; i < d->worker.held_count; i++)
        memcpy(wider + (size_t)i * size, c->versions + (size_t)i * c->version_size,
               c->version_size);
    pthread_mutex_lock(&d->table_lock);
    free(c->versions);
    c->versions = wider;
    c->version_size = size;
    pthread_mutex_unlock(&d->table_lock);
}

/* ---- Ids ----------------------------------------------------------------- */

const char *tn_jobs_id_of(const tn_jobs_driver *d, uint32_t number, bool *has_spec)
{
    const struct tn_id_page *p = &d->pages[number / TN_PAGE_ROWS];
    uint32_t row = number % TN_PAGE_ROWS;

    if (number / TN_PAGE_ROWS >= d->page_count || row >= p->count ||
        !p->ids[p->at[row] & ~TN_ID_SPEC])
        return NULL;
    if (has_spec)
        *has_spec = (p->at[row] & TN_ID_SPEC) != 0;
    return p->ids + (p->at[row] & ~TN_ID_SPEC);
}

bool tn_jobs_is_free(const tn_jobs_driver *d, uint32_t number)
{
    uint32_t page = number / TN_PAGE_ROWS;

    return page < d->page_count && number % TN_PAGE_ROWS < d->pages[page].count &&
           !tn_jobs_id_of(d, number, NULL);
}

static bool keep_ids(struct tn_id_page *to, const struct tn_page *page)
{
    size_t size = 1;
    struct tn_id_page p = {.revision = page->revision, .count = page->count};

    for (uint32_t i = 0; i < page->count; i++)
        size += page->rows[i].id ? strlen(page->rows[i].id) + 1 : 0;
    p.ids = malloc(size);
    p.at = malloc(((size_t)page->count + 1) * sizeof *p.at);
    if (!p.ids || !p.at) {
        free(p.ids);
        free(p.at);
        return false;
    }
    p.ids[0] = '\0'; /* a number that is free */
    size = 1;
    for (uint32_t i = 0; i < page->count; i++) {
        const struct tn_row *row = &page->rows[i];
        size_t n = row->id ? strlen(row->id) + 1 : 0;

        p.at[i] = n ? (uint32_t)size | (row->spec ? TN_ID_SPEC : 0) : 0;
        memcpy(p.ids + size, n ? row->id : "", n);
        size += n;
    }
    free(to->ids);
    free(to->at);
    *to = p;
    return true;
}

/* ---- Requirements -------------------------------------------------------- */

static bool is_requirement(const struct tn_requirements *q, const struct tn_row *row)
{
    return strcmp(q->must, row->must) == 0 && strcmp(q->prefer, row->prefer) == 0 &&
           strcmp(q->pin, row->pin) == 0;
}

/* Most rows ask for what the one before asked for. */
static bool find_requirement(tn_jobs_driver *d, const struct tn_row *row, uint16_t *last)
{
    struct tn_requirements *q = d->requirements;

    if (*last < d->requirement_count && is_requirement(&q[*last], row))
        return true;
    for (uint32_t i = 0; i < d->requirement_count; i++) {
        if (is_requirement(&q[i], row)) {
            *last = (uint16_t)i;
            return true;
        }
    }
    if (d->requirement_count == UINT16_MAX - 1)
        return false;
    uint32_t room = larger(d->requirement_room, d->requirement_count + 1, UINT16_MAX);
    if (!grow_array((void **)&d->requirements, d->requirement_room, room, sizeof *q))
        return false;
    d->requirement_room = room;
    d->worker.cfg.requirements = d->requirements;
    q = &d->requirements[d->requirement_count];
    memcpy(q->must, row->must, strlen(row->must) + 1);
    memcpy(q->prefer, row->prefer, strlen(row->prefer) + 1);
    memcpy(q->pin, row->pin, strlen(row->pin) + 1);
    *last = (uint16_t)d->requirement_count++;
    return true;
}

static bool keep_entries(tn_jobs_driver *d, uint32_t number, const struct tn_page *page,
                         struct tn_entry *entries, unsigned *n)
{
    static const struct tn_row nothing = {
        .pin = "", .must = "", .prefer = "", .wanted = TN_WANTED_REMOVED};
    uint16_t requirements = 0;

    for (uint32_t i = 0; i < page->count; i++) {
        const struct tn_row *row = page->rows[i].id ? &page->rows[i] : &nothing;

        if (!find_requirement(d, row, &requirements))
            return false;
        entries[*n + i] = (struct tn_entry){.number = number * TN_PAGE_ROWS + i,
                                            .weight = row->weight,
                                            .requirements = requirements,
                                            .wanted = row->wanted};
    }
    return true;
}

static bool keep_page(tn_jobs_driver *d, uint32_t number, const struct tn_page *page,
                      struct tn_entry *entries, unsigned *n)
{
    if (number >= d->page_count) {
        if (!grow_array((void **)&d->pages, d->page_count, number + 1, sizeof *d->pages))
            return false;
        d->page_count = number + 1;
    }
    if (!keep_entries(d, number, page, entries, n) || !keep_ids(&d->pages[number], page))
        return false;
    *n += page->count;
    return true;
}

bool tn_jobs_keep_page(tn_jobs_driver *d, uint32_t number, const struct tn_page *page,
                       struct tn_entry *entries, unsigned *n)
{
    pthread_mutex_lock(&d->table_lock);
    bool done = keep_page(d, number, page, entries, n);
    pthread_mutex_unlock(&d->table_lock);
    return done;
}

void tn_jobs_push(uint32_t **array, size_t *count, size_t *room, uint32_t number)
{
    if (*count == *room) {
        size_t more = *room ? 2 * *room : 64;
        uint32_t *grown = realloc(*array, more * sizeof *grown);

        if (!grown)
            abort();
        *array = grown;
        *room = more;
    }
    (*array)[(*count)++] = number;
}

void tn_jobs_push_stopped(struct tn_inbox *inbox, uint32_t job, uint64_t epoch)
{
    if (inbox->stopped_count == inbox->stopped_room) {
        size_t more = inbox->stopped_room ? 2 * inbox->stopped_room : 64;
        struct tn_stopped *grown = realloc(inbox->stopped, more * sizeof *grown);

        if (!grown)
            abort();
        inbox->stopped = grown;
        inbox->stopped_room = more;
    }
    inbox->stopped[inbox->stopped_count++] = (struct tn_stopped){job, epoch};
}

/* ---- Beside the jobs that are held --------------------------------------- */

struct tn_side *tn_jobs_side(tn_jobs_driver *d, uint32_t number)
{
    if (!d->sides[number])
        d->sides[number] = calloc(1, sizeof **d->sides);
    return d->sides[number];
}

bool tn_jobs_set_checkpoint(tn_jobs_driver *d, uint32_t number, const void *checkpoint, size_t len)
{
    if (len == 0 && !d->sides[number])
        return true; /* most have none: they cost nothing */
    struct tn_side *side = tn_jobs_side(d, number);

    if (side && side->checkpoint_len != len)
        side = realloc(side, sizeof *side + len);
    if (!side)
        return false;
    d->sides[number] = side;
    side->checkpoint_len = (uint32_t)len;
    if (len)
        memcpy(side->checkpoint, checkpoint, len);
    return true;
}

/* Workers are few, so each id is kept once; those that were seen last are asked for most. */
bool tn_jobs_set_former_owner(tn_jobs_driver *d, uint32_t number, const char *id)
{
    struct tn_side *side = d->sides[number];
    uint32_t at = d->former_owner_count;
    char **grown;

    if (!*id) {
        if (side)
            side->taken_from = 0;
        return true;
    }
    side = tn_jobs_side(d, number);
    if (!side)
        return false;
    side->taken_from = 0;
    while (at > 0 && strcmp(d->former_owners[at - 1], id) != 0)
        at--;
    if (at == 0) {
        grown = realloc(d->former_owners, (d->former_owner_count + 1) * sizeof *grown);
        if (grown)
            d->former_owners = grown;
        if (!grown || !(grown[d->former_owner_count] = strdup(id)))
            return false;
        at = ++d->former_owner_count;
    }
    side->taken_from = at;
    return true;
}

void tn_jobs_trim_side(tn_jobs_driver *d, uint32_t number)
{
    const struct tn_side *side = d->sides[number];

    if (side && !side->commits && !side->taken_from && side->checkpoint_len == 0)
        tn_jobs_drop_side(d, number);
}

void tn_jobs_drop_side(tn_jobs_driver *d, uint32_t number)
{
    struct tn_side *side = d->sides[number];

    if (!side)
        return;
    while (side->commits) {
        struct tn_commit *next = side->commits->next;

        free(side->commits);
        side->commits = next;
    }
    free(side);
    d->sides[number] = NULL;
}

void tn_jobs_table_free(tn_jobs_driver *d)
{
    struct tn_worker_config *c = &d->worker.cfg;

    for (uint32_t i = 0; i < d->jobs_max; i++)
        tn_jobs_drop_side(d, i);
    for (uint32_t i = 0; i < d->page_count; i++) {
        free(d->pages[i].ids);
        free(d->pages[i].at);
    }
    for (uint32_t i = 0; i < d->former_owner_count; i++)
        free(d->former_owners[i]);
    free(d->former_owners);
    free(d->sides);
    free(d->pages);
    free(d->requirements);
    free(d->due);
    free(d->again);
    free(c->peers);
    free(c->records);
    free(c->counts);
    free(c->known);
    free(c->held);
    free(c->versions);
    tn_jobs_array_free(c->scratch);
    tn_jobs_array_free(c->batch);
    tn_jobs_free_spares(d);
    tn_jobs_free_reads(d);
}
