/*
 * The tombstones of removed elections are deleted, after the floor of epochs (lease/floor.h) keeps
 * what they kept.  Nothing here depends on who runs it, when, how often, or how many at a time: the
 * floor only rises, and a tombstone is deleted only if it is still exactly what was listed.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/key.h"
#include "base/sized.h"
#include "core/lease.h"
#include "lease/floor.h"
#include "lease/lease.h"
#include "os/clock.h"
#include "tenure/removal.h"

#define RAISES_MAX 8 /* tries to raise the floor, against others who do the same */

/* One tombstone; of a lease its last record. */
struct tombstone {
    char key[TENURE_KEY_MAX + 1];
    size_t name_len;
    struct tenure_token token;
    struct tn_lease lease; /* epoch 0: it is not a lease */
};

struct compaction {
    tenure_store *store;
    uint64_t older_than_ms;
    struct tombstone *all;
    size_t n, room;
    bool no_memory;
    bool skip;                      /* over the documents of a state */
    char after[TENURE_KEY_MAX + 1]; /* everything up to this was seen, or is skipped */
    uint64_t floor;
    struct tenure_compaction found;
    int64_t deadline;
};

/* ---- What there is ------------------------------------------------------- */

static bool add(struct compaction *c, const char *key, size_t name_len,
                const struct tenure_value *value, const struct tn_lease *lease)
{
    if (c->n == c->room) {
        size_t room = c->room ? 2 * c->room : 64;
        struct tombstone *grown = realloc(c->all, room * sizeof *grown);

        if (!grown) {
            c->no_memory = true;
            return false;
        }
        c->all = grown;
        c->room = room;
    }
    struct tombstone *t = &c->all[c->n++];
    *t = (struct tombstone){.name_len = name_len, .token = value->token, .lease = *lease};
    snprintf(t->key, sizeof t->key, "%s", key);
    return true;
}

/* A tombstone that says no epoch (an operator's reset) keeps what nobody else does: it stays. */
static bool visit_lease(struct compaction *c, const char *key, size_t name_len,
                        const struct tenure_value *value)
{
    struct tn_lease_seen seen = {0};
    bool go_on = true;

    if (tn_lease_see(value, &seen, NULL) == TENURE_OK && seen.present && !seen.refused)
        go_on = add(c, key, name_len, value, &seen.lease);
    tn_lease_seen_free(&seen);
    return go_on;
}

static bool visit_key(void *arg, const char *key, const struct tenure_value *value)
{
    static const struct tn_lease none;
    struct compaction *c = arg;
    size_t len;

    if ((len = tn_key_below(key, TN_KEY_STATE))) {
        len += strlen(TN_KEY_STATE) - 1;
        memcpy(c->after, key, len);
        tn_key_pass_below(c->after, len);
        c->skip = true;
        return false;
    }
    if (!value->tombstone)
        return true;
    if (tn_key_is(key, TN_KEY_LEASE, &len))
        return visit_lease(c, key, len, value);
    if ((len = tn_key_below(key, TN_KEY_CANDIDATES)) || tn_key_is(key, TN_KEY_CONTROL, &len) ||
        tn_key_is(key, TN_KEY_HISTORY, &len) || tn_key_is(key, TN_KEY_FENCING, &len))
        return add(c, key, len, value, &none);
    return true;
}

static enum tenure_status list_tombstones(struct compaction *c, struct tenure_error *err)
{
    enum tenure_status status;

    do {
        c->skip = false;
        status = tenure_store_list(c->store, "", c->after[0] ? c->after : NULL, visit_key, c, NULL,
                                   c->deadline, err);
    } while (!status && c->skip);
    return !status && c->no_memory ? tenure_fail(err, TENURE_NOMEM, "out of memory") : status;
}

/* By the wall clocks of who removed it and of this machine: what depends on it is only when. */
static bool is_due(const struct compaction *c, const struct tombstone *t)
{
    uint64_t now_ms = tn_wall_ms();

    return t->lease.epoch && t->lease.renewed_ms <= now_ms &&
           now_ms - t->lease.renewed_ms >= c->older_than_ms;
}

/* ---- The floor ----------------------------------------------------------- */

static uint64_t highest_due(const struct compaction *c)
{
    uint64_t epoch = 0;

    for (size_t i = 0; i < c->n; i++) {
        if (is_due(c, &c->all[i]) && tn_lease_leaves_room(&c->all[i].lease) &&
            c->all[i].lease.epoch > epoch)
            epoch = c->all[i].lease.epoch;
    }
    return epoch;
}

/* Until a read shows it: a write whose answer was OK could be believed, one that was lost not. */
static enum tenure_status raise_floor(struct compaction *c, struct tenure_error *err)
{
    uint64_t epoch = highest_due(c);
    struct tenure_token token;
    enum tenure_status status;

    for (int i = 0;; i++) {
        status = tn_floor_read(c->store, &c->floor, &token, c->deadline, err);
        if (status || c->floor >= epoch)
            return status;
        if (i == RAISES_MAX)
            return tenure_fail(err, TENURE_CONFLICT,
                               "the floor of epochs changes all the time; run it again");
        status = tn_floor_write(c->store, &token, epoch, c->deadline, err);
        if (status && status != TENURE_CONFLICT && status != TENURE_UNKNOWN)
            return status;
    }
}

/* ---- Deleting ------------------------------------------------------------ */

/* *unknown: it may still be there. */
static enum tenure_status delete_one(struct compaction *c, const struct tombstone *t, bool *unknown,
                                     struct tenure_error *err)
{
    enum tenure_status status = tenure_store_purge(c->store, t->key, &t->token, c->deadline, err);

    c->found.registers += status == TENURE_OK;
    c->found.elections += status == TENURE_OK && t->lease.epoch;
    *unknown |= status == TENURE_UNKNOWN;
    /* Somebody uses the name again; or a later call finds out. */
    return status == TENURE_CONFLICT || status == TENURE_UNKNOWN ? TENURE_OK : status;
}

/* By election; its lease is the last of it. */
static int compare_tombstones(const void *left, const void *right)
{
    const struct tombstone *a = left, *b = right;
    size_t len = a->name_len < b->name_len ? a->name_len : b->name_len;
    int order = memcmp(a->key, b->key, len);

    if (order == 0)
        order = (a->name_len > b->name_len) - (a->name_len < b->name_len);
    return order ? order : (a->lease.epoch != 0) - (b->lease.epoch != 0);
}

static bool same_election(const struct tombstone *a, const struct tombstone *b)
{
    return a->name_len == b->name_len && memcmp(a->key, b->key, a->name_len) == 0;
}

/* Last goes the lease: while it is there, a later call finds what this one did not get to. */
static enum tenure_status delete_election(struct compaction *c, const struct tombstone *parts,
                                          const struct tombstone *lease, struct tenure_error *err)
{
    enum tenure_status status = TENURE_OK;
    bool unknown = false;

    for (; parts < lease && !status; parts++)
        status = delete_one(c, parts, &unknown, err);
    if (!status && unknown)
        c->found.waiting++;
    return status || unknown ? status : delete_one(c, lease, &unknown, err);
}

static enum tenure_status delete_due(struct compaction *c, struct tenure_error *err)
{
    enum tenure_status status = TENURE_OK;
    size_t first = 0;

    if (c->n)
        qsort(c->all, c->n, sizeof *c->all, compare_tombstones);
    for (size_t i = 0; i < c->n && !status; i++) {
        const struct tombstone *t = &c->all[i];

        if (!same_election(&c->all[first], t))
            first = i;
        if (!t->lease.epoch)
            continue;
        if (is_due(c, t) && tn_lease_tombstone_kept(&t->lease, c->floor))
            status = delete_election(c, &c->all[first], t, err);
        else
            c->found.waiting++;
    }
    return status;
}

enum tenure_status tenure_compact(const char *store, int64_t older_than_ms,
                                  struct tenure_compaction *result, int64_t deadline,
                                  struct tenure_error *err)
{
    struct compaction c = {.deadline = deadline};
    struct tenure_error scratch;
    enum tenure_status status;

    if (!err)
        err = &scratch;
    status = tn_sized_check(result->size, "TENURE_COMPACTION", err);
    if (!status && older_than_ms < 0)
        status = tenure_fail(err, TENURE_INVALID, "the age of what is deleted is negative");
    if (!status)
        status = tenure_store_open(store, deadline, &c.store, err);
    if (status)
        return status;
    c.older_than_ms = (uint64_t)older_than_ms;
    if (!tenure_store_purges(c.store))
        status = tenure_fail(err, TENURE_UNSUPPORTED,
                             "%s: this store cannot delete a register on a condition, so it keeps "
                             "its tombstones",
                             tenure_store_info(c.store)->scheme);
    if (!status)
        status = list_tombstones(&c, err);
    if (!status)
        status = raise_floor(&c, err);
    if (!status)
        status = delete_due(&c, err);
    tn_sized_copy(result, &c.found, sizeof c.found);
    tenure_store_close(c.store);
    free(c.all);
    return status;
}

/* ---- A floor that is damaged --------------------------------------------- */

enum tenure_status tenure_compaction_check(tenure_store *store, uint64_t *epoch, int64_t deadline,
                                           struct tenure_error *err)
{
    struct tenure_token token;

    return tn_floor_read(store, epoch, &token, deadline, err);
}

static bool visit_epoch(void *arg, const char *key, const struct tenure_value *value)
{
    uint64_t *highest = arg;
    struct tn_lease_seen seen = {0};
    size_t len;

    if (tn_key_is(key, TN_KEY_LEASE, &len) && tn_lease_see(value, &seen, NULL) == TENURE_OK &&
        seen.present && tn_lease_leaves_room(&seen.lease) && seen.lease.epoch > *highest)
        *highest = seen.lease.epoch;
    tn_lease_seen_free(&seen);
    return true;
}

enum tenure_status tenure_compaction_repair(tenure_store *store, uint64_t at_least, uint64_t *epoch,
                                            int64_t deadline, struct tenure_error *err)
{
    struct tenure_token token;
    struct tenure_error why;
    uint64_t highest = tn_wall_ms(), written = 0;
    enum tenure_status status = tn_floor_read(store, &written, &token, deadline, &why);

    if (status == TENURE_OK)
        return tenure_fail(err, TENURE_INVALID, "the floor of epochs is not damaged");
    if (status != TENURE_CORRUPT || tenure_token_absent(&token))
        return tenure_fail(err, status, "%s", why.text);
    status = tenure_store_list(store, "", NULL, visit_epoch, &highest, NULL, deadline, err);
    if (at_least > highest)
        highest = at_least;
    if (!status && tn_epoch_next(highest, 0, 0) == 0)
        status = tenure_fail(err, TENURE_INVALID, "no epoch is left above %llu",
                             (unsigned long long)highest);
    if (!status)
        status = tn_floor_write(store, &token, highest, deadline, err);
    if (!status)
        *epoch = highest;
    return status;
}
