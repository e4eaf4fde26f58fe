/* Swaps in a journal: compare, write, flush, look, and only then answer (J3). */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "store/file/journal/journal.h"

#define EXTEND_MAX (UINT64_C(1) << 20) /* zeroes that are written ahead at once */
#define EXTEND_MIN UINT64_C(65536)

enum stage { OPEN, WRITTEN, DONE };

/* One swap on its way. */
struct op {
    struct tenure_swap *swap;
    const char *name;
    size_t name_len;
    enum stage stage;
    uint64_t count;      /* of the register that it replaces */
    uint64_t at;         /* where its data was written */
    const char *explain; /* NULL, or why it has the status that it has */
};

struct batch {
    struct tn_file *f;
    struct tn_journal *j;
    struct op *ops;
    size_t n, open;
    size_t from, to; /* the ops of the frame under way */
    struct tenure_error err, *first;
    bool told;
};

static void finish(struct batch *b, struct op *op, enum tenure_status status,
                   const struct tenure_error *why)
{
    op->swap->status = status;
    op->stage = DONE;
    b->open--;
    if (status && !b->told) {
        *b->first = *why;
        b->first->code = status;
        b->told = true;
    }
}

static void finish_all(struct batch *b, enum stage stage, enum tenure_status status)
{
    for (size_t i = 0; i < b->n; i++) {
        if (b->ops[i].stage != stage)
            continue;
        b->j->unflushed |= stage == WRITTEN;
        finish(b, &b->ops[i], status, &b->err);
    }
}

static void conflict(struct batch *b, struct op *op)
{
    struct tenure_error err;

    finish(b, op, tenure_fail(&err, TENURE_CONFLICT, "file: %s has changed", op->swap->key), &err);
}

static void took_effect(struct batch *b, struct op *op)
{
    struct tn_journal_reg reg = {.count = op->count + 1};

    memcpy(reg.nonce, op->swap->nonce, TENURE_NONCE_SIZE);
    tn_journal_token(&reg, &op->swap->token);
    finish(b, op, TENURE_OK, NULL);
}

/* ---- Compare --------------------------------------------------------------- */

static void compare(struct batch *b)
{
    for (size_t i = 0; i < b->n; i++) {
        struct op *op = &b->ops[i];
        const struct tn_journal_reg *reg;
        struct tenure_token token;

        if (op->stage != OPEN)
            continue;
        reg = tn_journal_find(b->j, op->name, op->name_len);
        tn_journal_token(reg, &token);
        op->count = reg ? reg->count : 0;
        if (reg && reg->damaged && !b->f->repair) {
            struct tenure_value value = {0};
            struct tenure_error err;

            finish(b, op, tn_journal_deliver(b->f, b->j, reg, &value, &err), &err);
        } else if (!tenure_token_equal(&token, &op->swap->expect)) {
            conflict(b, op);
        }
    }
}

/*
 * Somebody else had become the writer after ours were written, and before we
 * looked.  Now we are it, our journal is whole and on the disk, and there was none
 * above it: what it has of ours took effect, and what it does not have never will.
 * Another's would not do: it may not be on the disk yet.
 */
static void settle(struct batch *b)
{
    for (size_t i = 0; i < b->n; i++) {
        struct op *op = &b->ops[i];
        const struct tn_journal_reg *reg;

        if (op->stage != WRITTEN)
            continue;
        reg = tn_journal_find(b->j, op->name, op->name_len);
        uint64_t count = reg ? reg->count : 0;
        if (reg && (memcmp(reg->nonce, op->swap->nonce, TENURE_NONCE_SIZE) == 0 ||
                    memcmp(reg->prev, op->swap->nonce, TENURE_NONCE_SIZE) == 0))
            took_effect(b, op);
        else if (count <= op->count + 2) /* it or the one behind it would show ours */
            op->stage = OPEN;
        else
            finish(b, op,
                   tenure_fail(&b->err, TENURE_UNKNOWN, "file: %s was superseded", op->swap->key),
                   &b->err);
    }
}

/* ---- Write ----------------------------------------------------------------- */

/* Put open swaps from b->from on into a frame in the buffer; b->to is behind the last. */
static bool compose(struct batch *b, struct tn_frame *frame)
{
    struct tn_journal *j = b->j;
    size_t used = TN_FRAME_HEAD, need = TN_FRAME_HEAD;

    for (b->to = b->from; b->to < b->n; b->to++) {
        const struct op *op = &b->ops[b->to];

        if (op->stage != OPEN)
            continue;
        need += tn_entry_size(op->name_len, op->swap->len);
        if (frame->entries++ && need > TN_FRAME_MAX) {
            frame->entries--;
            break;
        }
    }
    if (!tn_journal_room(j, need + TN_JOURNAL_BLOCK))
        return false;
    for (size_t i = b->from; i < b->to; i++) {
        struct op *op = &b->ops[i];
        struct tn_journal_entry e = {.name = op->name,
                                     .name_len = op->name_len,
                                     .count = op->count + 1,
                                     .tombstone = op->swap->tombstone,
                                     .data = op->swap->data,
                                     .len = op->swap->len};

        if (op->stage != OPEN)
            continue;
        memcpy(e.nonce, op->swap->nonce, TENURE_NONCE_SIZE);
        memcpy(e.prev, op->swap->expect.nonce, TENURE_NONCE_SIZE);
        op->at = j->tail + used + TN_ENTRY_HEAD + op->name_len;
        used += tn_entry_encode(&e, j->buffer + used);
    }
    frame->number = j->frames;
    frame->len = used - TN_FRAME_HEAD;
    tn_frame_seal(frame, j->seed, j->buffer);
    memset(j->buffer + used, 0, tn_frame_size(frame->len) - used);
    return true;
}

/* Zeroes behind the frame, if it reaches the end of what was written ahead. */
static size_t extend(struct tn_journal *j, size_t size)
{
    uint64_t ahead = j->tail / 4;

    if (j->tail + size <= j->end)
        return size;
    ahead = ahead < EXTEND_MIN ? EXTEND_MIN : ahead > EXTEND_MAX ? EXTEND_MAX : ahead;
    if (!tn_journal_room(j, size + ahead))
        return size;
    memset(j->buffer + size, 0, ahead);
    return size + ahead;
}

/* The swaps of the frame under way may have taken effect. */
static void mark(struct batch *b)
{
    for (size_t i = b->from; i < b->to; i++) {
        if (b->ops[i].stage == OPEN)
            b->ops[i].stage = WRITTEN;
    }
}

/*
 * Write one frame, and flush it: only the last of a journal may ever be torn.  On
 * failure those stay open of which nothing was written.  Not those of which some
 * was: zeroes were written ahead, and what is missing may be zeroes.
 */
static enum tenure_status write_frame(struct batch *b)
{
    struct tn_journal *j = b->j;
    struct tn_frame frame = {0};
    size_t done = 0;

    if (!compose(b, &frame))
        return tenure_fail(&b->err, TENURE_NOMEM, "out of memory for a journal");
    size_t size = tn_frame_size(frame.len), all = extend(j, size);
    while (done < all) {
        ssize_t n = pwrite(j->fd, j->buffer + done, all - done, (off_t)(j->tail + done));

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0 && done >= size)
            break; /* the zeroes can wait */
        if (n <= 0)
            return tn_file_fail(&b->err, n ? errno : EIO, "cannot write a journal of", b->f->root,
                                j->group);
        if (done == 0)
            mark(b);
        done += (size_t)n;
    }
    if (fdatasync(j->fd) != 0)
        return tn_file_fail(&b->err, errno, "cannot flush a journal of", b->f->root, j->group);
    if (j->tail + done > j->end)
        j->end = j->tail + done;
    j->tail += size;
    j->frames++;
    return TENURE_OK;
}

/* What was written is known by now: it goes into the table. */
static void update_table(struct batch *b)
{
    for (size_t i = 0; i < b->n; i++) {
        struct op *op = &b->ops[i];
        struct tn_journal_entry e = {.name = op->name,
                                     .name_len = op->name_len,
                                     .count = op->count + 1,
                                     .tombstone = op->swap->tombstone,
                                     .len = op->swap->len,
                                     .data_sum = tn_data_sum(op->swap->data, op->swap->len)};

        if (op->stage != WRITTEN)
            continue;
        memcpy(e.nonce, op->swap->nonce, TENURE_NONCE_SIZE);
        memcpy(e.prev, op->swap->expect.nonce, TENURE_NONCE_SIZE);
        /* Not enough memory for the table: it is read again from the file. */
        if (b->j->number && !tn_journal_take(b->j, &e, op->at))
            tn_journal_forget(b->j);
        took_effect(b, op);
    }
}

/* Write, flush, look.  Afterwards each is done, or must be looked for in a later journal. */
static void commit(struct batch *b)
{
    struct tn_journal *j = b->j;
    enum tenure_status status = TENURE_OK;

    for (b->from = 0; b->from < b->n && !status; b->from = b->to)
        status = write_frame(b);
    if (status) { /* J5; what was written may yet be read by others */
        finish_all(b, OPEN, status);
        finish_all(b, WRITTEN, TENURE_UNKNOWN);
        tn_journal_forget(j);
        return;
    }
    int newest = tn_journal_newest(b->f, j);
    if (newest > 0) {
        update_table(b);
        return;
    }
    if (newest < 0) {
        tn_file_fail(&b->err, errno, "cannot look for journals of", b->f->root, j->group);
        finish_all(b, WRITTEN, TENURE_UNKNOWN);
    }
    tn_journal_forget(j);
}

/* ---- Together --------------------------------------------------------------- */

static bool any_written(const struct batch *b)
{
    for (size_t i = 0; i < b->n; i++) {
        if (b->ops[i].stage == WRITTEN)
            return true;
    }
    return false;
}

/*
 * Begin a new file for one that is long, in half of the time that is left.  *later: it
 * did not fit.  Then we are the writer as before, this swap goes into the old one, and
 * the next goes on with the new one.
 */
static enum tenure_status renew(struct batch *b, int64_t deadline, bool *later)
{
    int64_t now = tenure_now();
    enum tenure_status status = tn_journal_own(b->f, b->j, now + (deadline - now) / 2, &b->err);

    *later = status == TENURE_TIMEOUT && b->j->owner;
    return *later ? TENURE_OK : status;
}

static void swap_all(struct batch *b, int64_t deadline)
{
    for (unsigned tries = 0; b->open; tries++) {
        enum tenure_status status = tn_journal_sync(b->f, b->j, deadline, &b->err);

        if (!status && !b->j->owner && any_written(b))
            status = tn_journal_own(b->f, b->j, deadline, &b->err);
        bool known = b->j->owner || !any_written(b); /* what became of those */
        if (!status && known) {
            settle(b);
            compare(b);
        }
        if (!b->open)
            return;
        if (!status && !b->j->owner && tenure_now() < deadline) {
            if (tries)
                tn_journal_pause(tries);
            if (known)
                status = tn_journal_own(b->f, b->j, deadline, &b->err);
            if (!status)
                continue; /* what we became the writer of may not be what we compared with */
        }
        if (!status && b->j->owner && tn_journal_long(b->j)) {
            bool later;

            status = renew(b, deadline, &later);
            if (!status && !later)
                continue; /* the same */
        }
        if (!status && tenure_now() >= deadline)
            status = tenure_fail(&b->err, TENURE_TIMEOUT, "file: no time left to write in %s",
                                 b->j->group);
        if (status) {
            finish_all(b, OPEN, status);
            finish_all(b, WRITTEN, TENURE_UNKNOWN);
            return;
        }
        commit(b);
    }
}

void tn_journal_swap(struct tn_file *f, const char *group, struct tenure_swap *swaps, size_t n,
                     int64_t deadline, struct tenure_error *err)
{
    struct batch b = {.f = f, .n = n, .open = n, .first = err};
    char same[TENURE_KEY_MAX + 1];
    struct op one;

    b.j = tn_journal_get(f, group);
    b.ops = n == 1 ? &one : malloc(n * sizeof *b.ops);
    if (!b.j || !b.ops) {
        for (size_t i = 0; i < n; i++)
            swaps[i].status = tenure_fail(err, TENURE_NOMEM, "out of memory for a batch");
        if (b.ops != &one)
            free(b.ops);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        memset(&b.ops[i], 0, sizeof b.ops[i]);
        b.ops[i].swap = &swaps[i];
        tn_journal_group(f, swaps[i].key, same, &b.ops[i].name);
        b.ops[i].name_len = strlen(b.ops[i].name);
    }
    swap_all(&b, deadline);
    if (b.ops != &one)
        free(b.ops);
}
