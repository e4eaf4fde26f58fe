/*
 * The compare-and-swap: link(2) to the number behind the current slot.
 *
 *   1. prepare  slot n is the one expected, and the highest (observed at seen_ns);
 *               write what will be slot n+1 to a temporary file
 *   2. flush it: a slot that can be seen is whole, also after a power failure;
 *      for a first slot, the directories that lead to it
 *   3. link it as slot n+1, which fails if there is one
 *   4. settle   look whether it is really where it belongs, then flush the
 *               directory: an answered swap is found again after a power failure
 *
 * Why a link that succeeds is a swap that took effect (C2): slot n+1 is free
 * either because it never was, or because it was removed.  Slots are removed
 * from the lowest up (S2 in slots.c), so after the link we look at slot n:
 * if it is still the very slot expected, by nonce and sum, slot n+1 had never
 * been removed, and ours is the only one that ever followed slot n.  If not,
 * nothing is claimed: the link may have been good and everything cleaned up
 * since, or never have been.  That is UNKNOWN, never CONFLICT.
 *
 * Beside that proof, which needs no clock, three cheaper fences stand in case a
 * cache or a person breaks its premise: a link that came back later than a
 * quarter of the retention after slot n was seen as the highest claims nothing;
 * a slot n+2 must have been built on ours; and where there is no predecessor to
 * look at, or caches may lie, the whole directory is listed for a higher slot.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "os/fs.h"
#include "store/file/journal/journal.h"

enum stage {
    DONE,    /* swap->status is the answer */
    WRITTEN, /* the temporary file is written */
    FLUSHED, /* and on the disk */
    LINKED,  /* slot n+1 is ours, as far as link() tells */
};

/* One swap on its way. */
struct op {
    struct tenure_swap *swap;
    enum stage stage;
    int dir;             /* the register's directory; -1: not open */
    struct tn_slot base; /* the slot expected; number 0 if none */
    struct tn_slot slot; /* the new one */
    struct tn_file_temp temp;
    int64_t seen_ns; /* before base was seen as the highest */
    struct tenure_error err;
};

static void finish(struct op *op, enum tenure_status status)
{
    op->swap->status = status;
    op->stage = DONE;
}

static enum tenure_status conflict(const struct op *op, struct tenure_error *err)
{
    return tenure_fail(err, TENURE_CONFLICT, "file: %s has changed", op->swap->key);
}

static enum tenure_status unknown(const struct tn_file *f, const struct op *op, const char *why,
                                  struct tenure_error *err)
{
    return tenure_fail(err, TENURE_UNKNOWN,
                       "file: slot %llu of %.200s/%s may or may not count: %s; read it again",
                       (unsigned long long)op->slot.number, f->root, op->swap->key, why);
}

/* ---- 1. Prepare ---------------------------------------------------------- */

/* Is the register as expected?  OK with op->base filled, CONFLICT, or why it cannot be told. */
static enum tenure_status compare(struct tn_file *f, struct op *op, int64_t deadline)
{
    struct tenure_swap *swap = op->swap;
    struct tn_file_hint *hint = tn_file_hint(f, swap->key);
    struct tenure_token token = {0};
    uint64_t number, sum;

    op->seen_ns = tenure_now();
    /* The expected slot is as good an anchor as a remembered one: it is known by its nonce. */
    if (hint->number == 0 && tn_slot_version(swap->expect.version, &number, &sum)) {
        hint->number = number;
        hint->listed_ns = 0;
        memcpy(hint->nonce, swap->expect.nonce, TENURE_NONCE_SIZE);
    }
    /* What is damaged is not replaced by who knew it before: a seal counts on that (I4).  Only a
     * lease is, by its holder: it heals so, and the successor's claim reads it first. */
    enum tenure_status status = tn_file_locate(f, hint, op->dir, tn_journal_state(swap->key),
                                               &op->base, deadline, &op->err);
    if (status)
        return status;
    if (op->base.number)
        tn_slot_token(&op->base, &token);
    if (!tenure_token_equal(&token, &swap->expect))
        return conflict(op, &op->err);
    if (op->base.number == TN_SLOT_LIMIT)
        return tenure_fail(&op->err, TENURE_CORRUPT, "file: %s has used up its slots", swap->key);
    return TENURE_OK;
}

static enum tenure_status open_register(struct tn_file *f, struct op *op)
{
    enum tenure_status status = tn_file_open_dir(f, op->swap->key, &op->dir, &op->err);

    if (status || op->dir >= 0)
        return status;
    if (!tenure_token_absent(&op->swap->expect))
        return conflict(op, &op->err);
    status = tn_file_make_dirs(f, op->swap->key, &op->err);
    if (!status)
        status = tn_file_open_dir(f, op->swap->key, &op->dir, &op->err);
    if (!status && op->dir < 0)
        status = tenure_fail(&op->err, TENURE_UNAVAILABLE, "file: %.200s/%s was removed just now",
                             f->root, op->swap->key);
    return status;
}

static void prepare(struct tn_file *f, struct op *op, struct tenure_swap *swap, int64_t deadline)
{
    char line[TN_SLOT_HEADER + 1];
    enum tenure_status status;

    memset(op, 0, sizeof *op);
    op->swap = swap;
    op->dir = op->temp.fd = -1;
    status = open_register(f, op);
    if (!status)
        status = compare(f, op, deadline);
    if (!status && tenure_now() >= deadline)
        status = tenure_fail(&op->err, TENURE_TIMEOUT, "file: no time left to write %s", swap->key);
    if (status) {
        finish(op, status);
        return;
    }
    op->slot.number = op->base.number + 1;
    op->slot.base = op->base.sum;
    op->slot.len = (uint32_t)swap->len;
    op->slot.tombstone = swap->tombstone;
    memcpy(op->slot.nonce, swap->nonce, TENURE_NONCE_SIZE);
    memcpy(op->slot.prev, op->base.nonce, TENURE_NONCE_SIZE);
    tn_slot_encode(&op->slot, swap->data, line);
    status = tn_file_temp_write(f, swap->nonce, line, TN_SLOT_HEADER, swap->data, swap->len,
                                &op->temp, &op->err);
    if (status)
        finish(op, status);
    else
        op->stage = WRITTEN;
}

/* ---- 2. Flush ------------------------------------------------------------ */

static void flush(struct tn_file *f, struct op *op, int64_t deadline)
{
    enum tenure_status status = tn_file_temp_sync(f, &op->temp, &op->err);

    /* Whoever made the directories may not have flushed them yet, and whoever builds on our
     * slot will not. */
    if (!status && op->base.number == 0)
        status = tn_file_sync_above(f, op->swap->key, &op->err);
    /* Until the link is asked for, nothing has happened. */
    if (!status && tenure_now() >= deadline)
        status = tenure_fail(&op->err, TENURE_TIMEOUT,
                             "file: %.200s is slow: no time left to link a slot of %s", f->root,
                             op->swap->key);
    if (status)
        finish(op, status);
    else
        op->stage = FLUSHED;
}

/* ---- 3. Link ------------------------------------------------------------- */

static bool late(const struct tn_file *f, const struct op *op)
{
    return tenure_now() - op->seen_ns >= f->marker.retain_ns / 4;
}

/*
 * link() failed, or said so: a server may have done it and lost the answer.
 * Our nonce in slot n+1 proves that it was done.  That it was not done is
 * proved by another slot there, and by the one name that our file has; but not
 * after so long that ours may have been there and cleaned up.
 */
static enum tenure_status after_failed_link(struct tn_file *f, struct op *op, int error,
                                            const char *temp)
{
    struct statx st;
    struct tn_slot there;
    struct tenure_error ignored;
    bool found = false;

    tn_fs_refresh(op->dir);
    enum tenure_status status = tn_file_read_slot(f, op->swap->key, op->dir, op->slot.number, false,
                                                  &there, &found, &ignored);
    if (!status && found && memcmp(there.nonce, op->slot.nonce, TENURE_NONCE_SIZE) == 0)
        return TENURE_OK;
    if (statx(AT_FDCWD, temp, AT_STATX_FORCE_SYNC, STATX_NLINK, &st) != 0 || st.stx_nlink != 1 ||
        (error == EEXIST && !found) || late(f, op))
        return unknown(f, op, strerror(error), &op->err);
    switch (error) {
    case EEXIST:
        return conflict(op, &op->err);
    case ENOSPC:
    case EDQUOT:
    case EROFS:
    case EACCES:
    case EPERM:
    case EXDEV:
    case EMLINK:
    case EOPNOTSUPP:
    case ENOSYS:
    case ENOTDIR:
    case ENAMETOOLONG:
        return tn_file_fail(&op->err, error, "cannot link a slot in", f->root, op->swap->key);
    default:
        return unknown(f, op, strerror(error), &op->err);
    }
}

static void link_slot(struct tn_file *f, struct op *op)
{
    char name[TN_SLOT_NAME + 1], temp[PATH_MAX];
    enum tenure_status status = TENURE_OK;

    tn_slot_name(op->slot.number, name);
    if (!tn_file_path(f, op->temp.name, temp))
        status = tn_file_fail(&op->err, ENAMETOOLONG, "cannot link in", f->root, op->temp.name);
    else if (linkat(AT_FDCWD, temp, op->dir, name, 0) != 0)
        status = after_failed_link(f, op, errno, temp);
    if (status)
        finish(op, status);
    else
        op->stage = LINKED;
}

/* ---- 4. Settle ----------------------------------------------------------- */

/* Is the predecessor still the slot that was expected? */
static bool follows(struct tn_file *f, struct op *op)
{
    struct tenure_error ignored;
    struct tn_slot base;
    bool found = false;

    if (op->base.number == 0)
        return true;
    return !tn_file_read_slot(f, op->swap->key, op->dir, op->base.number, false, &base, &found,
                              &ignored) &&
           found && base.sum == op->base.sum &&
           memcmp(base.nonce, op->base.nonce, TENURE_NONCE_SIZE) == 0;
}

/* Is there no higher slot, or the next one built on ours? */
static bool on_top(struct tn_file *f, struct op *op)
{
    struct tn_file_listing listing = {.max = op->slot.number};
    struct tenure_error ignored;
    struct tn_slot next;
    bool found = false;

    if ((f->network || op->base.number == 0) && !tn_file_list_slots(op->dir, &listing))
        return false;
    if (tn_file_read_slot(f, op->swap->key, op->dir, op->slot.number + 1, false, &next, &found,
                          &ignored))
        return false;
    if (found)
        return next.base == op->slot.sum &&
               memcmp(next.prev, op->slot.nonce, TENURE_NONCE_SIZE) == 0;
    return listing.max == op->slot.number;
}

/* Is the directory that holds our slot still the one that others find? */
static bool in_place(struct tn_file *f, struct op *op)
{
    struct stat ours, theirs;
    char path[PATH_MAX];

    return tn_file_path(f, op->swap->key, path) && fstat(op->dir, &ours) == 0 &&
           stat(path, &theirs) == 0 && ours.st_ino == theirs.st_ino && ours.st_dev == theirs.st_dev;
}

static enum tenure_status settle(struct tn_file *f, struct op *op)
{
    if (f->network && !tn_fs_refresh(op->dir))
        return unknown(f, op, strerror(errno), &op->err);
    if (late(f, op))
        return unknown(f, op, "the link took too long", &op->err);
    if (!in_place(f, op))
        return unknown(f, op, "its directory was moved or removed", &op->err);
    if (!follows(f, op))
        return unknown(f, op, "the slot before it is not the one expected", &op->err);
    if (!on_top(f, op))
        return unknown(f, op, "there are higher slots, it may have been superseded", &op->err);
    if (!tn_file_sync_dir(op->dir))
        return unknown(f, op, strerror(errno), &op->err);
    return TENURE_OK;
}

static void settle_op(struct tn_file *f, struct op *op)
{
    struct tn_file_hint *hint = tn_file_hint(f, op->swap->key);
    enum tenure_status status = settle(f, op);

    tn_file_temp_remove(f, &op->temp);
    if (!status) {
        tn_slot_token(&op->slot, &op->swap->token);
        tn_file_hint_set(hint, &op->slot);
        if (op->base.number == 0)
            hint->low = op->slot.number;
        tn_file_clean(f, hint, op->dir, op->slot.number);
    }
    finish(op, status);
}

/* ---- Together ------------------------------------------------------------ */

/* Whatever way an op ended. */
static void release(struct tn_file *f, struct op *op)
{
    tn_file_temp_remove(f, &op->temp);
    if (op->dir >= 0)
        close(op->dir);
}

enum tenure_status tn_file_swap(void *impl, struct tenure_swap *swap, int64_t deadline,
                                struct tenure_error *err)
{
    struct tn_file *f = impl;
    char group[TENURE_KEY_MAX + 1];
    const char *name;
    struct op op;

    if (tn_journal_group(f, swap->key, group, &name)) {
        tn_journal_swap(f, group, swap, 1, deadline, err);
        return swap->status;
    }
    prepare(f, &op, swap, deadline);
    if (op.stage == WRITTEN)
        flush(f, &op, deadline);
    if (op.stage == FLUSHED)
        link_slot(f, &op);
    if (op.stage == LINKED)
        settle_op(f, &op);
    release(f, &op);
    if (swap->status)
        *err = op.err;
    return swap->status;
}

/*
 * Many swaps in step, so that they share their flushes: a file system that
 * keeps a journal writes it once for all that came before.  Each is still a
 * swap of its own, with an answer of its own.
 */
static void swap_some(struct tn_file *f, struct op *ops, struct tenure_swap *swaps, size_t n,
                      int64_t deadline)
{
    for (size_t i = 0; i < n; i++)
        prepare(f, &ops[i], &swaps[i], deadline);
    /* Set all of them on their way to the disk before waiting for the first. */
    for (size_t i = 0; i < n; i++) {
        if (ops[i].stage == WRITTEN)
            sync_file_range(ops[i].temp.fd, 0, 0, SYNC_FILE_RANGE_WRITE);
    }
    for (size_t i = 0; i < n; i++) {
        if (ops[i].stage == WRITTEN)
            flush(f, &ops[i], deadline);
    }
    for (size_t i = 0; i < n; i++) {
        if (ops[i].stage == FLUSHED)
            link_slot(f, &ops[i]);
    }
    for (size_t i = 0; i < n; i++) {
        if (ops[i].stage == LINKED)
            settle_op(f, &ops[i]);
        release(f, &ops[i]);
    }
}

/* Swaps of registers that are directories of slots. */
static enum tenure_status swap_slots(void *impl, struct tenure_swap *swaps, size_t n,
                                     int64_t deadline, struct tenure_error *err)
{
    size_t batch = n < TN_FILE_BATCH ? n : TN_FILE_BATCH;
    struct op *ops = calloc(batch, sizeof *ops);
    bool told = false;

    if (!ops) {
        for (size_t i = 0; i < n; i++)
            swaps[i].status = TENURE_NOMEM;
        return tenure_fail(err, TENURE_NOMEM, "out of memory for a batch");
    }
    for (size_t at = 0; at < n; at += batch) {
        size_t some = n - at < batch ? n - at : batch;

        swap_some(impl, ops, swaps + at, some, deadline);
        for (size_t i = 0; i < some && !told; i++) {
            told = swaps[at + i].status != TENURE_OK;
            if (told)
                *err = ops[i].err; /* the first is explained */
        }
    }
    free(ops);
    return TENURE_OK;
}

/* How many from the first on are of its group, or of none like it. */
static size_t run_of(const struct tn_file *f, const struct tenure_swap *swaps, size_t n,
                     char group[TENURE_KEY_MAX + 1])
{
    char other[TENURE_KEY_MAX + 1];
    const char *name;
    bool grouped = tn_journal_group(f, swaps[0].key, group, &name);
    size_t i = 1;

    if (!grouped)
        group[0] = '\0';
    while (i < n && tn_journal_group(f, swaps[i].key, other, &name) == grouped &&
           (!grouped || strcmp(group, other) == 0))
        i++;
    return i;
}

enum tenure_status tn_file_swap_many(void *impl, struct tenure_swap *swaps, size_t n,
                                     int64_t deadline, struct tenure_error *err)
{
    enum tenure_status status = TENURE_OK;
    char group[TENURE_KEY_MAX + 1];

    for (size_t at = 0, some; at < n; at += some) {
        some = run_of(impl, swaps + at, n - at, group);
        if (group[0])
            tn_journal_swap(impl, group, swaps + at, some, deadline, err);
        else if (swap_slots(impl, swaps + at, some, deadline, err))
            status = err->code;
    }
    return status;
}
