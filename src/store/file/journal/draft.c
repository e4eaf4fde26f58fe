/*
 * A journal to be: the snapshot of a group, written to a temporary file before the link.
 *
 * All that is known goes into it beforehand, however long that takes, so that after
 * the link (J2) only that is left to be written which has come meanwhile: who reads
 * then waits for one flush, and not for the whole group.  Nothing in it counts before
 * the last part of the snapshot, which is written after the link (file_journal_own.c).
 *
 * A draft stays with the journal that it was made of, from call to call: one whose
 * deadline passes goes on where it was.  What is written there meanwhile is copied
 * once more, behind; the later entry counts.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "store/file/journal/journal.h"

#define FIRST_BYTES UINT64_C(65536)           /* of zeroes ahead of the commits, at least */
#define PART_BYTES  ((size_t)TENURE_DATA_MAX) /* of a snapshot in one frame, about */

static bool write_at(int fd, const unsigned char *bytes, size_t n, uint64_t at)
{
    for (size_t done = 0; done < n;) {
        ssize_t some = pwrite(fd, bytes + done, n - done, (off_t)(at + done));

        if (some < 0 && errno != EINTR)
            return false;
        done += some > 0 ? (size_t)some : 0;
    }
    return true;
}

/* ---- Parts ------------------------------------------------------------------ */

/* Write the frame under way, and flush it: only the last of a journal may ever be torn. */
static bool end_part(struct tn_journal_draft *d, bool last)
{
    size_t size = tn_frame_size(d->used - TN_FRAME_HEAD);

    d->frame.flags = TN_FRAME_SNAPSHOT | (last ? TN_FRAME_WHOLE : 0);
    d->frame.len = d->used - TN_FRAME_HEAD;
    tn_frame_seal(&d->frame, d->head.nonce, d->bytes);
    memset(d->bytes + d->used, 0, size - d->used);
    if (!write_at(d->fd, d->bytes, size, d->at) || fdatasync(d->fd) != 0)
        return false;
    d->at += size;
    d->synced = false;
    d->frame.number++;
    d->frame.entries = 0;
    d->used = TN_FRAME_HEAD;
    return true;
}

static bool make_room(struct tn_journal_draft *d, size_t size)
{
    if (d->used + size + TN_JOURNAL_BLOCK <= d->cap)
        return true;
    size_t cap = 2 * (d->used + size + TN_JOURNAL_BLOCK);
    unsigned char *grown = realloc(d->bytes, cap);

    if (!grown) {
        errno = ENOMEM;
        return false;
    }
    d->bytes = grown;
    d->cap = cap;
    return true;
}

/* Copy one register; a damaged one as it is, so that it stays what it was. */
static bool copy_reg(struct tn_journal_draft *d, const struct tn_journal *j,
                     struct tn_journal_reg *reg)
{
    struct tn_journal_entry e = {.name = reg->name,
                                 .name_len = reg->name_len,
                                 .count = reg->count,
                                 .tombstone = reg->tombstone,
                                 .damaged = reg->damaged,
                                 .data_sum = reg->data_sum,
                                 .len = reg->len};

    memcpy(e.nonce, reg->nonce, TENURE_NONCE_SIZE);
    memcpy(e.prev, reg->prev, TENURE_NONCE_SIZE);
    /* Its data goes straight to where it belongs; encode() must not copy it onto itself. */
    unsigned char *data = d->bytes + d->used + TN_ENTRY_HEAD + reg->name_len;
    for (size_t got = 0; got < reg->len;) {
        ssize_t n = pread(j->fd, data + got, reg->len - got, (off_t)(reg->at + got));

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            errno = n < 0 ? errno : EIO;
            return false;
        }
        got += (size_t)n;
    }
    if (!reg->damaged && tn_data_sum(data, reg->len) != reg->data_sum)
        e.damaged = reg->damaged = true; /* since it was read first */
    e.data = data;
    reg->moved_to = d->at + d->used + TN_ENTRY_HEAD + reg->name_len;
    d->used += tn_entry_encode(&e, d->bytes + d->used);
    d->frame.entries++;
    return true;
}

/* Copy what is not in it yet, until the deadline; at least one part. */
static enum tenure_status copy_rest(struct tn_file *f, struct tn_journal *j, int64_t deadline,
                                    struct tenure_error *err)
{
    struct tn_journal_draft *d = j->draft;

    for (size_t i = 0; i < j->n_buckets; i++) {
        for (struct tn_journal_reg *reg = j->buckets[i]; reg; reg = reg->next) {
            size_t size = tn_entry_size(reg->name_len, reg->len);

            if (reg->moved_to)
                continue;
            if (d->used > TN_FRAME_HEAD && d->used + size > PART_BYTES) {
                if (!end_part(d, false))
                    goto failed;
                if (tenure_now() >= deadline)
                    return tenure_fail(err, TENURE_TIMEOUT,
                                       "file: %s was not copied in time; the next try goes on",
                                       j->group);
            }
            if (!make_room(d, size) || !copy_reg(d, j, reg))
                goto failed;
        }
    }
    return TENURE_OK;
failed:
    return tn_file_fail(err, errno, "cannot write a journal of", f->root, j->group);
}

/* ---- The whole -------------------------------------------------------------- */

void tn_journal_draft_drop(struct tn_journal *j)
{
    struct tn_journal_draft *d = j->draft;

    if (!d)
        return;
    for (size_t i = 0; i < j->n_buckets; i++) {
        for (struct tn_journal_reg *reg = j->buckets[i]; reg; reg = reg->next)
            reg->moved_to = 0;
    }
    tn_file_temp_remove(d->f, &d->temp);
    if (d->top_fd >= 0)
        close(d->top_fd);
    free(d->bytes);
    free(d);
    j->draft = NULL;
}

enum tenure_status tn_journal_draft_begin(struct tn_file *f, struct tn_journal *j, uint64_t low,
                                          uint64_t top, struct tenure_error *err)
{
    struct tn_journal_draft *d = calloc(1, sizeof *d);
    unsigned char block[TN_JOURNAL_BLOCK];

    if (!d)
        return tenure_fail(err, TENURE_NOMEM, "out of memory for a journal");
    *d = (struct tn_journal_draft){.f = f, .low = low, .top = top, .top_fd = -1, .fd = -1};
    d->temp.fd = -1;
    j->draft = d;
    d->head.number = top + 1;
    enum tenure_status status = tenure_nonce(d->head.nonce, err);
    if (status)
        return status;
    d->at = TN_JOURNAL_BLOCK;
    d->used = TN_FRAME_HEAD;
    if (!make_room(d, 4096))
        return tenure_fail(err, TENURE_NOMEM, "out of memory for a journal");
    tn_journal_head_encode(&d->head, block);
    status = tn_file_temp_write(f, d->head.nonce, block, sizeof block, NULL, 0, &d->temp, err);
    d->fd = d->temp.fd;
    return status;
}

enum tenure_status tn_journal_draft_copy(struct tn_file *f, struct tn_journal *j, int64_t deadline,
                                         struct tenure_error *err)
{
    struct tn_journal_draft *d = j->draft;
    enum tenure_status status = copy_rest(f, j, deadline, err);

    if (!status && d->frame.entries && !end_part(d, false))
        status = tn_file_fail(err, errno, "cannot write a journal of", f->root, j->group);
    return status;
}

enum tenure_status tn_journal_draft_sync(struct tn_file *f, struct tn_journal *j,
                                         struct tenure_error *err)
{
    struct tn_journal_draft *d = j->draft;

    if (d->synced)
        return TENURE_OK;
    size_t ahead = (size_t)(j->live / 16 / TN_JOURNAL_BLOCK * TN_JOURNAL_BLOCK + FIRST_BYTES);
    unsigned char *zeroes = calloc(1, ahead);

    if (!zeroes)
        return tenure_fail(err, TENURE_NOMEM, "out of memory for a journal");
    bool done = write_at(d->fd, zeroes, ahead, d->at);
    free(zeroes);
    if (!done)
        return tn_file_fail(err, errno, "cannot write a journal of", f->root, j->group);
    if (fsync(d->fd) != 0)
        return tn_file_fail(err, errno, "cannot flush a journal of", f->root, j->group);
    d->synced = true;
    return TENURE_OK;
}

enum tenure_status tn_journal_draft_end(struct tn_file *f, struct tn_journal *j, int fd,
                                        int64_t deadline, struct tenure_error *err)
{
    struct tn_journal_draft *d = j->draft;

    d->fd = fd;
    enum tenure_status status = copy_rest(f, j, deadline, err);
    if (!status && !end_part(d, true))
        status = tn_file_fail(err, errno, "cannot write a journal of", f->root, j->group);
    return status;
}
