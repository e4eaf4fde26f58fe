/* Jobs are added: specifications, registers, then the catalogue. */
#include <stdlib.h>
#include <string.h>

#include "base/key.h"
#include "jobs/registers.h"

/* ---- What fits ------------------------------------------------------ */

static int by_id(const void *a, const void *b)
{
    return strcmp((*(const struct tn_new_job *const *)a)->id,
                  (*(const struct tn_new_job *const *)b)->id);
}

static enum tenure_status refuse_twice(const struct tn_new_job *jobs, size_t n,
                                       struct tenure_error *err)
{
    const struct tn_new_job **sorted = malloc((n + 1) * sizeof *sorted);
    enum tenure_status status = TENURE_OK;

    if (!sorted)
        return tenure_fail(err, TENURE_NOMEM, "out of memory");
    for (size_t i = 0; i < n; i++)
        sorted[i] = &jobs[i];
    qsort(sorted, n, sizeof *sorted, by_id);
    for (size_t i = 1; i < n && !status; i++) {
        if (strcmp(sorted[i - 1]->id, sorted[i]->id) == 0)
            status = tenure_fail(err, TENURE_INVALID, "job '%s' occurs twice (entries %u and %u)",
                                 sorted[i]->id, sorted[i - 1]->entry, sorted[i]->entry);
    }
    free(sorted);
    return status;
}

/* How many jobs a plan has room for, with so many members. */
static size_t plan_room(size_t data_max, uint32_t members)
{
    size_t fixed = tn_plan_size(0, members);

    return data_max <= fixed ? 0 : (data_max - fixed) / (members <= 254 ? 1 : 2);
}

static enum tenure_status check_sizes(const struct tn_jobs *g, const struct tn_new_job *jobs,
                                      size_t n, size_t total, uint32_t members,
                                      struct tenure_error *err)
{
    const struct tenure_store_info *info = tenure_store_info(g->store);
    size_t room = plan_room(info->data_max, members);

    for (size_t i = 0; i < n; i++) {
        if (jobs[i].spec_len > info->data_max)
            return tenure_fail(err, TENURE_INVALID,
                               "job '%s': a specification of %zu bytes; %s: holds %u", jobs[i].id,
                               jobs[i].spec_len, info->scheme, info->data_max);
    }
    if (total > room || total > TN_PLAN_JOBS_MAX)
        return tenure_fail(err, TENURE_INVALID,
                           "%zu jobs: a plan for %u workers in %s: has room for %zu; use several "
                           "groups",
                           total, members, info->scheme,
                           room < TN_PLAN_JOBS_MAX ? room : (size_t)TN_PLAN_JOBS_MAX);
    return TENURE_OK;
}

/* ---- Specifications and registers ----------------------------------- */

/* Over what is there, unless it is that already. */
static enum tenure_status replace_spec(const struct tn_jobs *g, const struct tn_new_job *job,
                                       struct tenure_error *err)
{
    struct tenure_value value = {0};
    char key[TENURE_KEY_MAX + 1];
    struct tenure_swap swap = {.key = key, .data = job->spec, .len = job->spec_len};
    enum tenure_status status = tn_key_item(g->name, TN_KEY_SPEC, job->id, key, err);

    do {
        if (!status || status == TENURE_CONFLICT || status == TENURE_UNKNOWN)
            status = tenure_store_read(g->store, key, &value, g->deadline, err);
        if (status || (!value.tombstone && value.len == job->spec_len &&
                       memcmp(value.data, job->spec, value.len) == 0))
            break;
        swap.expect = value.token;
        status = tenure_nonce(swap.nonce, err);
        if (!status)
            status = tenure_store_swap(g->store, &swap, g->deadline, err);
    } while ((status == TENURE_CONFLICT || status == TENURE_UNKNOWN) && tenure_now() < g->deadline);
    tenure_value_free(&value);
    return status;
}

/* All of them are new for the most part: created together, and looked at one by one otherwise. */
static enum tenure_status write_specs(const struct tn_jobs *g, const struct tn_new_job *const *jobs,
                                      size_t n, struct tenure_error *err)
{
    struct tenure_swap *swaps = calloc(n + 1, sizeof *swaps);
    char(*keys)[TENURE_KEY_MAX + 1] = calloc(n + 1, sizeof *keys);
    enum tenure_status status =
        swaps && keys ? TENURE_OK : tenure_fail(err, TENURE_NOMEM, "out of memory");
    size_t count = 0;

    for (size_t i = 0; i < n && !status; i++) {
        if (!jobs[i]->spec_len)
            continue;
        status = tn_key_item(g->name, TN_KEY_SPEC, jobs[i]->id, keys[i], err);
        swaps[count] =
            (struct tenure_swap){.key = keys[i], .data = jobs[i]->spec, .len = jobs[i]->spec_len};
        if (!status)
            status = tenure_nonce(swaps[count++].nonce, err);
    }
    if (!status && count)
        status = tenure_store_swap_many(g->store, swaps, count, g->deadline, err);
    for (size_t i = 0; i < count && !status; i++) {
        size_t at = (size_t)(swaps[i].key - keys[0]) / sizeof *keys;

        if (swaps[i].status == TENURE_CONFLICT || swaps[i].status == TENURE_UNKNOWN)
            status = replace_spec(g, jobs[at], err);
        else if (swaps[i].status)
            status = tenure_fail(err, swaps[i].status, "%s was not written: %s", swaps[i].key,
                                 tenure_status_word(swaps[i].status));
    }
    free(swaps);
    free(keys);
    return status;
}

/* The register of a job that is to be: made, or taken up again with the epoch that it has kept. */
static enum tenure_status make_register(void *arg, const struct tn_job_now *now, struct tn_job *job,
                                        enum tn_register_edit *edit, struct tenure_error *err)
{
    const struct tn_jobs *g = arg;

    if (now->status)
        return tn_register_fault(g, now, err);
    if (!now->absent && job->wanted != TN_WANTED_REMOVED)
        return TENURE_OK;
    if (tn_job_owned(job))
        return tenure_fail(err, TENURE_CONFLICT,
                           "job '%s' is being removed, and %s still has it; complete that first: "
                           "`tenure jobs remove`",
                           now->id, job->owner.id);
    job->wanted = TN_WANTED_RUNNING;
    *edit = TN_REGISTER_CHANGES;
    return TENURE_OK;
}

/* ---- The catalogue -------------------------------------------------- */

struct adding {
    const struct tn_jobs *group;
    const struct tn_new_job *jobs;
    size_t n, added;
};

static enum tenure_status add_rows(void *arg, struct tn_catalogue *c, struct tenure_error *err)
{
    struct adding *a = arg;
    enum tenure_status status = TENURE_OK;
    uint32_t cursor = 0, number;

    for (size_t i = 0; i < a->n && !status; i++) {
        const struct tn_new_job *job = &a->jobs[i];

        if (tn_catalogue_find(c, job->id, &number))
            continue;
        status = tn_catalogue_add(c, job->id, &cursor, err);
        if (status)
            break;
        struct tn_row *row = tn_catalogue_row(c, cursor);
        *row = (struct tn_row){.id = job->id,
                               .pin = job->pin,
                               .must = job->must,
                               .prefer = job->prefer,
                               .weight = job->weight,
                               .wanted = TN_WANTED_RUNNING,
                               .spec = job->spec_len > 0};
        a->added++;
    }
    return status;
}

/* Those of them that the catalogue does not name. */
static enum tenure_status choose_new(const struct tn_jobs *g, const struct adding *a,
                                     const struct tn_new_job **fresh, size_t *count,
                                     struct tenure_error *err)
{
    struct tn_catalogue c;
    struct tn_members members = {0};
    enum tenure_status status = tn_catalogue_load(g->store, g->name, &c, g->deadline, err);
    size_t total = 0;
    uint32_t number;

    if (!status)
        status = tn_members_load(g, &members, err);
    for (size_t i = 0; i < a->n && !status; i++) {
        if (!tn_catalogue_find(&c, a->jobs[i].id, &number))
            fresh[(*count)++] = &a->jobs[i];
        else if (tn_catalogue_row(&c, number)->wanted == TN_WANTED_REMOVED)
            status = tenure_fail(err, TENURE_CONFLICT,
                                 "job '%s' is being removed; complete that first: `tenure jobs "
                                 "remove`",
                                 a->jobs[i].id);
    }
    if (!status) {
        total = tn_catalogue_size(&c) + *count;
        status = check_sizes(g, a->jobs, a->n, total, members.count, err);
    }
    tn_members_free(&members);
    tn_catalogue_free(&c);
    return status;
}

static enum tenure_status make_registers(const struct tn_jobs *g, const struct tn_new_job **fresh,
                                         size_t n, struct tenure_error *err)
{
    const char **ids = calloc(n + 1, sizeof *ids);
    struct tn_jobs own = *g;
    enum tenure_status status = ids ? TENURE_OK : tenure_fail(err, TENURE_NOMEM, "out of memory");

    for (size_t done = 0; done < n && !status; done += TN_REGISTERS_AT_ONCE)
        status =
            write_specs(g, fresh + done,
                        n - done < TN_REGISTERS_AT_ONCE ? n - done : TN_REGISTERS_AT_ONCE, err);
    for (size_t i = 0; i < n && !status; i++)
        ids[i] = fresh[i]->id;
    if (!status)
        status = tn_registers_edit(g, ids, n, make_register, &own, err);
    free(ids);
    return status;
}

enum tenure_status tn_jobs_add(const struct tn_jobs *g, const struct tn_new_job *jobs, size_t n,
                               size_t *added, struct tenure_error *err)
{
    struct adding a = {.group = g, .jobs = jobs, .n = n};
    const struct tn_new_job **fresh = calloc(n + 1, sizeof *fresh);
    size_t count = 0;
    enum tenure_status status =
        fresh ? refuse_twice(jobs, n, err) : tenure_fail(err, TENURE_NOMEM, "out of memory");

    if (!status)
        status = choose_new(g, &a, fresh, &count, err);
    if (!status)
        status = make_registers(g, fresh, count, err);
    if (!status)
        status = tn_catalogue_edit(g->store, g->name, add_rows, &a, NULL, g->deadline, err);
    if (!status)
        tn_bell_ring(g->store, g->name, g->deadline);
    free(fresh);
    *added = count;
    return status;
}
