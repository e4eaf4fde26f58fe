/* tenure jobs repair: complete what was left half done, replace what is damaged or lost. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/duration.h"
#include "base/key.h"
#include "control/edit.h"
#include "jobs/history.h"
#include "jobs/registers.h"
#include "os/clock.h"

struct repair {
    const struct tn_jobs *group;
    tn_repair_fn told;
    void *arg;
};

/* The longest that a member may have: of one that owns no job nobody knows it. */
#define TTL_MAX_MS 3600000

static void tell(const struct repair *r, const char *id, const char *what)
{
    char key[TENURE_KEY_MAX + 1];

    if (tn_key_item(r->group->name, TN_KEY_JOB, id, key, NULL) == TENURE_OK)
        r->told(r->arg, key, what);
}

/* The bytes that are replaced stay where nobody looks but a person. */
static enum tenure_status keep_damaged(const struct tn_jobs *g, const char *id,
                                       const struct tenure_value *value, struct tenure_error *err)
{
    char key[TENURE_KEY_MAX + 1];
    struct tenure_value there = {0};
    struct tenure_swap swap = {.key = key, .data = value->data, .len = value->len};
    enum tenure_status status = tn_key_item(g->name, "/damaged/", id, key, err);

    if (!status)
        status = tenure_store_read(g->store, key, &there, g->deadline, err);
    swap.expect = there.token;
    if (!status)
        status = tenure_nonce(swap.nonce, err);
    if (!status)
        status = tenure_store_swap(g->store, &swap, g->deadline, err);
    tenure_value_free(&there);
    return status;
}

/* A new register: paused, under an epoch above all that the clock ever gave. */
static enum tenure_status replace_register(const struct tn_jobs *g, const char *id,
                                           struct tenure_error *err)
{
    struct tn_job fresh = {.epoch = tn_epoch_next(0, tn_wall_ms(), 0), .wanted = TN_WANTED_PAUSED};
    unsigned char bytes[TN_JOB_HEADER_MAX];
    char key[TENURE_KEY_MAX + 1];
    struct tenure_value value = {0};
    struct tenure_swap swap = {.key = key, .data = bytes};
    enum tenure_status status = tn_key_item(g->name, TN_KEY_JOB, id, key, err);

    if (!status)
        status = tenure_store_read(g->store, key, &value, g->deadline, err);
    if (!status && value.len)
        status = keep_damaged(g, id, &value, err);
    swap.len = tn_job_put(&fresh, NULL, 0, bytes);
    swap.expect = value.token;
    if (!status)
        status = tenure_nonce(swap.nonce, err);
    if (!status)
        status = tenure_store_swap(g->store, &swap, g->deadline, err);
    tenure_value_free(&value);
    return status;
}

static enum tenure_status want(const struct tn_jobs *g, const char *id, enum tn_wanted wanted,
                               struct tenure_error *err)
{
    size_t owned;

    return tn_jobs_want(g, &id, 1, wanted, false, &owned, err);
}

static enum tenure_status repair_job(const struct repair *r, const struct tn_row *row,
                                     const struct tn_job_now *now, struct tenure_error *err)
{
    const struct tn_jobs *g = r->group;
    enum tenure_status status;

    if (now->status && now->status != TENURE_CORRUPT)
        return tn_register_fault(g, now, err); /* not damage: a newer format */
    if (now->absent || now->status) {
        status = replace_register(g, row->id, err);
        if (!status && row->wanted != TN_WANTED_REMOVED)
            status = want(g, row->id, TN_WANTED_PAUSED, err);
        if (!status)
            tell(r, row->id,
                 now->absent ? "was lost; made again, paused: resume it when nobody runs it"
                             : "was damaged; replaced, paused: resume it when nobody runs it");
        return status;
    }
    if (row->wanted == TN_WANTED_REMOVED) {
        size_t owned;

        status = tn_jobs_want(g, &row->id, 1, TN_WANTED_REMOVED, false, &owned, err);
        if (!status)
            tell(r, row->id,
                 owned ? "is being removed; it still has an owner" : "its removal was completed");
        return status;
    }
    if (row->wanted == TN_WANTED_PAUSED && now->job.wanted == TN_WANTED_RUNNING) {
        status = want(g, row->id, TN_WANTED_PAUSED, err);
        if (!status)
            tell(r, row->id, "its pause was completed; resume it if that was meant");
        return status;
    }
    if (row->wanted == TN_WANTED_RUNNING && now->job.wanted != TN_WANTED_RUNNING)
        tell(r, row->id, "is paused by its register alone: pause or resume it");
    return TENURE_OK;
}

static enum tenure_status complete(void *arg, struct tn_catalogue *c, struct tenure_error *err)
{
    (void)err;
    *(bool *)arg |= c->unfinished;
    return TENURE_OK;
}

/* ---- Members ------------------------------------------------------------- */

/* A member whose record cannot be read, by what its jobs say. */
struct lost_member {
    const struct repair *repair;
    const char *id;
    struct tn_identity owner; /* the highest number */
    uint32_t ttl_ms;          /* the longest */
    bool replaced;
};

static enum tenure_status put_placeholder(void *arg, const struct tenure_value *value,
                                          struct tn_edit *edit, struct tenure_error *err)
{
    struct lost_member *m = arg;
    struct tn_member_record record = {0};
    uint8_t incarnation[TENURE_NONCE_SIZE];
    char kept[TN_MEMBER_ID_MAX + 16];
    enum tenure_status status = tenure_token_absent(&value->token)
                                    ? TENURE_OK
                                    : tn_member_decode(value->data, value->len, &record, err);

    m->replaced = false;
    if (status != TENURE_CORRUPT)
        return status; /* it is whole again, or of a newer format */
    if (tn_jobs_is_foreign(value->data, value->len, ""))
        return TENURE_OK;
    snprintf(kept, sizeof kept, "member-%s", m->id);
    status = keep_damaged(m->repair->group, kept, value, err);
    if (!status)
        status = tenure_nonce(incarnation, err);
    if (status)
        return status;
    memset(&record, 0, sizeof record);
    snprintf(record.id, sizeof record.id, "%s", m->id);
    record.member = tn_member_placeholder(NULL, &m->owner, incarnation, m->ttl_ms);
    edit->text = tn_member_encode(&record);
    m->replaced = true;
    return edit->text ? TENURE_OK : tenure_fail(err, TENURE_NOMEM, "out of memory");
}

/* Its holder cannot renew over the placeholder, and W later the placeholder is buried, as one over
 * a record that was lost. */
static enum tenure_status repair_member(const struct repair *r, const struct tn_listed_member *one,
                                        const struct tn_job_now *now, uint32_t n,
                                        struct tenure_error *err)
{
    struct lost_member m = {
        .repair = r, .id = one->record.id, .owner.number = (uint64_t)tn_wall_ms()};
    char what[160], ttl[TN_DURATION_TEXT];

    for (uint32_t i = 0; i < n; i++) {
        const struct tn_job *job = &now[i].job;

        if (now[i].absent || now[i].status || strcmp(job->owner.id, m.id) != 0)
            continue;
        if (job->owner.identity.number > m.owner.number)
            m.owner = job->owner.identity;
        if (job->ttl_ms > m.ttl_ms)
            m.ttl_ms = job->ttl_ms;
    }
    if (m.ttl_ms == 0)
        m.ttl_ms = TTL_MAX_MS;
    enum tenure_status status =
        tn_edit_register(r->group->store, one->key, put_placeholder, &m, r->group->deadline, err);
    if (status || !m.replaced)
        return status;
    tn_duration_format((int64_t)m.ttl_ms * 1000000, ttl);
    snprintf(what, sizeof what,
             "was damaged; a placeholder stands there: in %s its jobs are free, and it can join",
             ttl);
    r->told(r->arg, one->key, what);
    tn_bell_ring(r->group->store, r->group->name, r->group->deadline);
    return TENURE_OK;
}

static enum tenure_status repair_members(const struct repair *r, const struct tn_job_now *now,
                                         uint32_t n, struct tenure_error *err)
{
    struct tn_members members;
    enum tenure_status status = tn_members_load(r->group, &members, err);

    for (uint32_t i = 0; !status && i < members.count; i++) {
        if (members.list[i].damage[0])
            status = repair_member(r, &members.list[i], now, n, err);
    }
    tn_members_free(&members);
    return status;
}

/* ---- Histories ----------------------------------------------------------- */

struct lost_history {
    const struct repair *repair;
    const char *worker;
    bool replaced;
};

static enum tenure_status empty_history(void *arg, const struct tenure_value *value,
                                        struct tn_edit *edit, struct tenure_error *err)
{
    struct lost_history *l = arg;
    struct tn_jobs_history there = {0};
    char kept[TN_MEMBER_ID_MAX + 16];
    enum tenure_status status = tenure_token_absent(&value->token)
                                    ? TENURE_OK
                                    : tn_jobs_history_read(value->data, value->len, &there, err);

    tn_jobs_history_free(&there);
    l->replaced = false;
    if (status != TENURE_CORRUPT ||
        tn_jobs_is_foreign(value->data, value->len, TN_HISTORY_KIND " "))
        return TENURE_OK; /* it is whole again, of a newer format, or another's */
    snprintf(kept, sizeof kept, "history-%s", l->worker);
    status = keep_damaged(l->repair->group, kept, value, err);
    if (status)
        return status;
    edit->text = tn_jobs_history_text(&there, TN_HISTORY_BYTES_MAX);
    l->replaced = true;
    return edit->text ? TENURE_OK : tenure_fail(err, TENURE_NOMEM, "out of memory");
}

static enum tenure_status repair_histories(const struct repair *r, struct tenure_error *err)
{
    struct tn_histories all;
    enum tenure_status status = tn_histories_load(r->group, &all, err);

    for (uint32_t i = 0; !status && i < all.count; i++) {
        struct lost_history lost = {.repair = r, .worker = all.list[i].worker};

        if (!all.list[i].damage[0])
            continue;
        status = tn_edit_register(r->group->store, all.list[i].key, empty_history, &lost,
                                  r->group->deadline, err);
        if (!status && lost.replaced)
            r->told(r->arg, all.list[i].key,
                    "was damaged; the history of this worker is empty now");
    }
    tn_histories_free(&all);
    return status;
}

/* ---- All of it ----------------------------------------------------------- */

static enum tenure_status repair_jobs(const struct repair *r, const struct tn_catalogue *c,
                                      struct tenure_error *err)
{
    uint32_t size = tn_catalogue_size(c), n = 0;
    const char **ids = calloc((size_t)size + 1, sizeof *ids);
    const struct tn_row **rows = calloc((size_t)size + 1, sizeof *rows);
    struct tn_job_now *now = calloc((size_t)size + 1, sizeof *now);
    enum tenure_status status =
        ids && rows && now ? TENURE_OK : tenure_fail(err, TENURE_NOMEM, "out of memory");

    for (uint32_t i = 0; i < size && !status; i++) {
        rows[n] = tn_catalogue_row(c, i);
        if (rows[n]->id)
            ids[n] = rows[n]->id, n++;
    }
    if (!status)
        status = tn_jobs_read(r->group, ids, n, now, err);
    for (uint32_t i = 0; i < n && !status; i++)
        status = repair_job(r, rows[i], &now[i], err);
    if (!status)
        status = repair_members(r, now, n, err);
    if (!status)
        status = repair_histories(r, err);
    free(ids);
    free(rows);
    free(now);
    return status;
}

enum tenure_status tn_jobs_repair(const struct tn_jobs *g, tn_repair_fn told, void *arg,
                                  struct tenure_error *err)
{
    const struct repair r = {g, told, arg};
    struct tn_catalogue c;
    bool half = false;
    enum tenure_status status =
        tn_catalogue_edit(g->store, g->name, complete, &half, &c, g->deadline, err);

    if (status)
        return status;
    if (half)
        told(arg, "catalogue", "an edit was left half done; completed");
    status = repair_jobs(&r, &c, err);
    tn_catalogue_free(&c);
    return status;
}
