/* Listing registers, and the mark by which a later change is told. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/sum.h"
#include "store/file/journal/journal.h"
#include "store/file/mark.h"
#include "store/file/walk.h"

struct listing {
    struct tn_file *f;
    const char *after; /* "" for all */
    tenure_visit_fn visit;
    void *arg;
    bool more;            /* visit() has not had enough */
    struct tn_mark *mark; /* NULL: none is asked for */
    struct tenure_value value;
    int64_t deadline;
};

/* The register's slot, without a hint of the handle's: thousands of keys would
 * push out the few that matter. */
static enum tenure_status read_slot(struct listing *l, const char *key, bool data,
                                    struct tn_slot *slot, struct tenure_error *err)
{
    struct tn_file_hint hint = {0};
    int dir;
    enum tenure_status status = tn_file_open_dir(l->f, key, &dir, err);

    slot->number = 0;
    if (status || dir < 0)
        return status;
    snprintf(hint.key, sizeof hint.key, "%s", key);
    status = tn_file_locate(l->f, &hint, dir, data, slot, l->deadline, err);
    if (status == TENURE_CORRUPT && !l->f->repair) {
        struct tenure_error again;

        memset(&hint, 0, sizeof hint);
        snprintf(hint.key, sizeof hint.key, "%s", key);
        l->f->repair = true; /* for its token */
        status = tn_file_locate(l->f, &hint, dir, data, slot, l->deadline, &again);
        l->f->repair = false;
        if (status == TENURE_CORRUPT) { /* too large even to be looked at */
            *slot = (struct tn_slot){.number = 1, .damaged = true};
            slot->sum = tn_sum(TN_SUM_START, err->text, strlen(err->text));
            tn_sum_nonce(slot->sum, slot->nonce);
            status = TENURE_OK;
        } else if (status) {
            *err = again;
        }
    }
    close(dir);
    return status;
}

/* A damaged register does not end the listing: what a visitor sees of it is not a record of
 * anything, and read() tells why. */
static enum tenure_status deliver_damage(struct listing *l, struct tenure_error *err)
{
    memset(l->value.prev, 0, TENURE_NONCE_SIZE);
    l->value.tombstone = false;
    return tenure_value_set(&l->value, err->text, strlen(err->text), err);
}

static enum tenure_status deliver_slot(struct listing *l, const struct tn_slot *slot,
                                       struct tenure_error *err)
{
    if (!slot->damaged || l->f->repair)
        return tn_file_deliver(l->f, slot, &l->value, err);
    tn_slot_token(slot, &l->value.token);
    return deliver_damage(l, err);
}

static enum tenure_status deliver_grouped(struct listing *l, struct tn_journal *j,
                                          const struct tn_journal_reg *reg,
                                          struct tenure_error *err)
{
    enum tenure_status status = tn_journal_deliver(l->f, j, reg, &l->value, err);

    if (status != TENURE_CORRUPT)
        return status;
    tn_journal_token(reg, &l->value.token);
    return deliver_damage(l, err);
}

/* A group that cannot be read at all is seen by the register that it is named after. */
static enum tenure_status visit_broken(struct listing *l, const char *key, bool wanted,
                                       struct tenure_error *err)
{
    struct tenure_token token = {.version = "damaged"};
    enum tenure_status status = TENURE_OK;

    tn_sum_nonce(tn_sum(TN_SUM_START, err->text, strlen(err->text)), token.nonce);
    if (l->mark)
        tn_mark_add(l->mark, key, token.nonce);
    if (!wanted)
        return TENURE_OK;
    l->value.token = token;
    status = deliver_damage(l, err);
    if (!status)
        l->more = l->visit(l->arg, key, &l->value);
    return status;
}

static enum tenure_status visit_grouped(struct listing *l, const char *group, const char *name,
                                        const char *key, bool wanted, struct tenure_error *err)
{
    struct tn_journal *j;
    struct tn_journal_reg *reg;
    enum tenure_status status = tn_journal_look(l->f, group, name, &j, &reg, l->deadline, err);

    if (status == TENURE_CORRUPT && !*name)
        return visit_broken(l, key, wanted, err);
    if (status || !reg)
        return status;
    if (l->mark)
        tn_mark_add(l->mark, key, reg->nonce);
    if (!wanted)
        return TENURE_OK;
    status = deliver_grouped(l, j, reg, err);
    if (!status)
        l->more = l->visit(l->arg, key, &l->value);
    return status;
}

static enum tenure_status visit_key(void *arg, const char *key, struct tenure_error *err)
{
    struct listing *l = arg;
    struct tn_slot slot;
    char group[TENURE_KEY_MAX + 1];
    const char *name;
    bool wanted = l->more && strcmp(key, l->after) > 0;

    if (!wanted && !l->mark)
        return TENURE_OK;
    if (tenure_now() >= l->deadline)
        return tenure_fail(err, TENURE_TIMEOUT, "file: the deadline passed at %s of a listing",
                           key);
    if (tn_journal_group(l->f, key, group, &name))
        return visit_grouped(l, group, name, key, wanted, err);
    enum tenure_status status = read_slot(l, key, wanted, &slot, err);
    if (status || slot.number == 0)
        return status;
    if (l->mark)
        tn_mark_add(l->mark, key, slot.nonce);
    if (!wanted)
        return TENURE_OK;
    status = deliver_slot(l, &slot, err);
    if (!status)
        l->more = l->visit(l->arg, key, &l->value);
    return status;
}

static bool skip_prefix(void *arg, const char *prefix)
{
    struct listing *l = arg;

    if (l->mark)
        return false;
    /* All keys below it are smaller than `after`, unless that is one of them. */
    return !l->more ||
           (strcmp(prefix, l->after) < 0 && strncmp(prefix, l->after, strlen(prefix)) != 0);
}

enum tenure_status tn_file_list(void *impl, const char *prefix, const char *after,
                                tenure_visit_fn visit, void *arg, char mark[TENURE_VERSION_MAX + 1],
                                int64_t deadline, struct tenure_error *err)
{
    struct tn_mark sum;
    struct listing l = {.f = impl,
                        .after = after ? after : "",
                        .visit = visit,
                        .arg = arg,
                        .more = visit != NULL,
                        .mark = mark ? &sum : NULL,
                        .deadline = deadline};
    struct tn_file_visitor visitor = {
        .visit = visit_key, .skip = skip_prefix, .arg = &l, .deadline = deadline};

    tn_mark_begin(&sum);
    enum tenure_status status = tn_file_walk(impl, prefix, &visitor, err);
    if (!status && mark)
        tn_mark_end(&sum, mark);
    tenure_value_free(&l.value);
    return status;
}
