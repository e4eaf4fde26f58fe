/* Changes of rows; pause, resume, remove. */
#include "jobs/operator.h"

#include <string.h>

#include "base/key.h"
#include "jobs/registers.h"

#define LOOK_NS INT64_C(1000000000) /* at the owners, at least so often */

/* ---- Rows ---------------------------------------------------------------- */

struct changing {
    const char *const *ids;
    size_t n;
    uint32_t weight; /* 0: stays */
    const char *pin; /* NULL: stays */
    bool want, drop;
    enum tn_wanted wanted; /* if want is set; else RUNNING */
};

static void change_row(struct tn_catalogue *c, uint32_t number, const struct changing *a)
{
    struct tn_row *row = tn_catalogue_row(c, number), before = *row;

    if (a->weight)
        row->weight = a->weight;
    if (a->pin)
        row->pin = a->pin;
    if (a->want)
        row->wanted = a->wanted;
    if (a->drop)
        tn_catalogue_drop(c, number);
    else if (row->weight != before.weight || row->wanted != before.wanted ||
             strcmp(row->pin, before.pin) != 0)
        tn_catalogue_touch(c, number);
}

static enum tenure_status change_rows(void *arg, struct tn_catalogue *c, struct tenure_error *err)
{
    const struct changing *a = arg;

    for (size_t i = 0; i < a->n; i++) {
        uint32_t number;

        if (!tn_catalogue_find(c, a->ids[i], &number)) {
            if (a->drop || a->wanted == TN_WANTED_REMOVED)
                continue; /* it is gone already, as far as the catalogue goes */
            return tenure_fail(err, TENURE_INVALID, "there is no job '%.127s'", a->ids[i]);
        }
        if (!a->drop && tn_catalogue_row(c, number)->wanted == TN_WANTED_REMOVED &&
            a->wanted != TN_WANTED_REMOVED)
            return tenure_fail(err, TENURE_INVALID, "job '%.127s' is being removed", a->ids[i]);
        change_row(c, number, a);
    }
    return TENURE_OK;
}

static enum tenure_status edit_rows(const struct tn_jobs *g, struct changing *a,
                                    struct tenure_error *err)
{
    enum tenure_status status =
        tn_catalogue_edit(g->store, g->name, change_rows, a, NULL, g->deadline, err);

    if (!status)
        tn_bell_ring(g->store, g->name, g->deadline);
    return status;
}

enum tenure_status tn_jobs_change(const struct tn_jobs *g, const char *const *ids, size_t n,
                                  uint32_t weight, const char *pin, struct tenure_error *err)
{
    struct changing a = {.ids = ids, .n = n, .weight = weight, .pin = pin};

    return edit_rows(g, &a, err);
}

/* ---- Pause, resume, remove ----------------------------------------------- */

struct wanting {
    const struct tn_jobs *group;
    enum tn_wanted wanted;
    const struct tn_members *members; /* to confirm; NULL: only what is wanted is written */
    size_t owned;
    const char *key; /* one that is owned */
};

/* What is wanted; and nobody, if the owner is gone for good: a final fact (JOBS: Claims). */
static enum tenure_status want_register(void *arg, const struct tn_job_now *now, struct tn_job *job,
                                        enum tn_register_edit *edit, struct tenure_error *err)
{
    struct wanting *w = arg;

    if (now->absent && w->wanted == TN_WANTED_REMOVED)
        return tenure_fail(err, TENURE_INVALID, "there is no job '%.127s'", now->id);
    if (now->status || now->absent)
        return tn_register_fault(w->group, now, err);
    if (job->wanted != w->wanted) {
        job->wanted = w->wanted;
        *edit = TN_REGISTER_CHANGES;
    }
    if (!w->members || w->wanted == TN_WANTED_RUNNING)
        return TENURE_OK;
    if (tn_job_owned(job)) {
        const struct tn_listed_member *owner = tn_members_find(w->members, job->owner.id);

        if (tn_owner_fate(&job->owner.identity, owner ? &owner->record.member : NULL) !=
            TN_OWNER_GONE) {
            w->owned++;
            w->key = now->id;
            return TENURE_OK;
        }
        memset(&job->owner, 0, sizeof job->owner);
        job->ttl_ms = 0;
        *edit = TN_REGISTER_CHANGES;
    }
    return TENURE_OK;
}

/* Wait for a change of one that is owned, or a moment. */
static void wait_for(const struct tn_jobs *g, const char *id)
{
    int64_t until = tenure_now() + LOOK_NS;
    struct tn_job_now now;
    char key[TENURE_KEY_MAX + 1];
    struct tenure_watch watch = {.key = key};

    if (tn_key_item(g->name, TN_KEY_JOB, id, key, NULL) == TENURE_OK &&
        tn_jobs_read(g, &id, 1, &now, NULL) == TENURE_OK && tn_job_owned(&now.job)) {
        watch.seen = now.token;
        tenure_store_wait(g->store, &watch, 1, -1, until < g->wait_until ? until : g->wait_until,
                          NULL);
    }
}

/* Until nobody owns any of them. */
static enum tenure_status confirm(const struct tn_jobs *g, const char *const *ids, size_t n,
                                  enum tn_wanted wanted, bool wait, size_t *owned,
                                  struct tenure_error *err)
{
    enum tenure_status status;

    do {
        struct tn_members members;
        struct wanting w = {.group = g, .wanted = wanted, .members = &members};

        status = tn_members_load(g, &members, err);
        if (!status)
            status = tn_registers_edit(g, ids, n, want_register, &w, err);
        tn_members_free(&members);
        *owned = w.owned;
        if (status || !wait || !*owned)
            break;
        wait_for(g, w.key);
    } while (tenure_now() < g->wait_until);
    return status;
}

/* What outlives a job is its epoch.  Its owner has been seen to be gone, and none can come. */
static enum tenure_status end_register(void *arg, const struct tn_job_now *now, struct tn_job *job,
                                       enum tn_register_edit *edit, struct tenure_error *err)
{
    const struct tn_jobs *g = arg;

    if (now->status || now->absent)
        return tn_register_fault(g, now, err);
    if (job->wanted != TN_WANTED_REMOVED || tn_job_owned(job))
        return tenure_fail(err, TENURE_CONFLICT, "job '%s' was taken up again meanwhile", now->id);
    *edit = now->tombstone ? TN_REGISTER_STAYS : TN_REGISTER_ENDS;
    return TENURE_OK;
}

static enum tenure_status end_specs(const struct tn_jobs *g, const char *const *ids, size_t n,
                                    struct tenure_error *err)
{
    struct tenure_value value = {0};
    uint8_t nonce[TENURE_NONCE_SIZE];
    char key[TENURE_KEY_MAX + 1];
    enum tenure_status status = TENURE_OK;

    for (size_t i = 0; i < n && !status; i++) {
        status = tn_key_item(g->name, TN_KEY_SPEC, ids[i], key, err);
        if (!status)
            status = tenure_store_read(g->store, key, &value, g->deadline, err);
        if (status || tenure_token_absent(&value.token) || value.tombstone)
            continue;
        status = tenure_nonce(nonce, err);
        if (!status)
            status = tenure_store_erase(g->store, key, &value.token, nonce, NULL, g->deadline, err);
    }
    tenure_value_free(&value);
    return status;
}

/* Nobody has them any more: tombstones, and their numbers are free. */
static enum tenure_status complete_removal(const struct tn_jobs *g, const char *const *ids,
                                           size_t n, struct tenure_error *err)
{
    struct changing drop = {.ids = ids, .n = n, .drop = true};
    struct tn_jobs own = *g;
    enum tenure_status status = tn_registers_edit(g, ids, n, end_register, &own, err);

    if (!status)
        status = end_specs(g, ids, n, err);
    return status ? status : edit_rows(g, &drop, err);
}

enum tenure_status tn_jobs_want(const struct tn_jobs *g, const char *const *ids, size_t n,
                                enum tn_wanted wanted, bool wait, size_t *owned,
                                struct tenure_error *err)
{
    struct changing rows = {.ids = ids, .n = n, .want = true, .wanted = wanted};
    struct wanting w = {.group = g, .wanted = wanted};
    enum tenure_status status = TENURE_OK;

    *owned = 0;
    /* The owner drains when the catalogue says so; a resumed job is planned when it may run. */
    if (wanted != TN_WANTED_RUNNING)
        status = edit_rows(g, &rows, err);
    if (!status)
        status = tn_registers_edit(g, ids, n, want_register, &w, err);
    if (wanted == TN_WANTED_RUNNING)
        return status ? status : edit_rows(g, &rows, err);
    if (!status)
        status = confirm(g, ids, n, wanted, wait, owned, err);
    if (!status && wanted == TN_WANTED_REMOVED && *owned == 0)
        status = complete_removal(g, ids, n, err);
    return status;
}
