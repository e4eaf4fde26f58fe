/*
 * A journal that cannot be read: its first line, the head of a frame or that of
 * a register is damaged, so that nobody can tell what stood there.  Everybody is
 * told CORRUPT, and it is left alone.  An operator who repairs (repair=yes) goes on
 * from what is left:
 *
 *   - Each register that still has a sound head, in any journal of the group, as
 *     it was when it had been swapped most often.
 *   - None of them is believed: a later swap may have been lost.  They stay
 *     damaged to everybody, over every take-over, until each is repaired.  So
 *     neither what they hold nor their tokens come back: a leader of before finds
 *     nothing that it may replace (I3).
 *   - Nothing goes on without the root of the group, whose repair takes the
 *     highest fence that is known.
 *   - The journals that were there get a second name before anything is linked,
 *     and are never removed under that.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "store/file/journal/journal.h"

#define FILE_MAX (UINT64_C(1) << 30) /* of one journal, in memory */
#define STEP     8                   /* entries begin at multiples of that */

/* ---- What is left ----------------------------------------------------------- */

static bool named_well(const struct tn_journal *j, const struct tn_journal_entry *e)
{
    char key[2 * TENURE_KEY_MAX + 2];

    if (!e->name_len)
        return true;
    int n = snprintf(key, sizeof key, "%s/%.*s", j->group, (int)e->name_len, e->name);
    return (size_t)n == strlen(j->group) + 1 + e->name_len && n <= TENURE_KEY_MAX &&
           !memchr(e->name, '/', e->name_len) && tenure_key_valid(key);
}

/* Take it over, if it is newer than what is known; its data goes behind j->end of j->fd. */
static bool adopt_entry(struct tn_journal *j, const struct tn_journal_entry *e)
{
    const struct tn_journal_reg *reg = tn_journal_find(j, e->name, e->name_len);

    if (reg && (reg->count > e->count || (reg->count == e->count && (!reg->damaged || e->damaged))))
        return true;
    for (size_t done = 0; done < e->len;) {
        ssize_t n =
            pwrite(j->fd, (const char *)e->data + done, e->len - done, (off_t)(j->end + done));

        if (n < 0 && errno != EINTR)
            return false;
        done += n > 0 ? (size_t)n : 0;
    }
    errno = ENOMEM;
    if (!tn_journal_take(j, e, j->end))
        return false;
    j->end += e->len;
    return true;
}

/* Every register with a sound head, wherever it stands. */
static bool scan(struct tn_journal *j, const unsigned char *bytes, size_t size)
{
    for (size_t at = 0; at + TN_ENTRY_HEAD <= size;) {
        struct tn_journal_entry e;
        size_t n = tn_entry_decode(bytes + at, size - at, &e);

        if (n && named_well(j, &e) && !adopt_entry(j, &e))
            return false;
        at += n ? n : STEP;
    }
    return true;
}

static enum tenure_status scan_file(struct tn_file *f, struct tn_journal *j, uint64_t number,
                                    struct tenure_error *err)
{
    char path[PATH_MAX];
    struct stat st;
    unsigned char *bytes = NULL;
    enum tenure_status status = TENURE_OK;
    int fd = tn_journal_path(f, j, number, path)
                 ? open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK)
                 : -1;

    if (fd < 0 || fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) || st.st_size == 0)
        goto done; /* removed, or something else: it tells nothing */
    bytes = (uint64_t)st.st_size <= FILE_MAX ? malloc((size_t)st.st_size) : NULL;
    if (!bytes) {
        status = tenure_fail(err, TENURE_NOMEM, "out of memory for a journal");
        goto done;
    }
    ssize_t got = tn_file_read_all(fd, bytes, (size_t)st.st_size);
    if (got < 0 || !scan(j, bytes, (size_t)got))
        status = tn_file_fail(err, errno, "cannot read a journal of", f->root, j->group);
done:
    if (fd >= 0)
        close(fd);
    free(bytes);
    return status;
}

/* Nothing of it is believed. */
static void doubt(struct tn_journal *j)
{
    for (size_t i = 0; i < j->n_buckets; i++) {
        for (struct tn_journal_reg *reg = j->buckets[i]; reg; reg = reg->next) {
            if (reg->damaged)
                continue;
            reg->damaged = reg->doubted = true;
            reg->data_sum = ~reg->data_sum;
        }
    }
}

enum tenure_status tn_journal_salvage(struct tn_file *f, struct tn_journal *j, uint64_t number,
                                      struct tenure_error *err)
{
    const struct tenure_error told = *err;
    char path[PATH_MAX];
    struct stat st;
    uint64_t low, high;
    size_t count;
    enum tenure_status status;

    tn_journal_forget(j);
    if (!tn_journal_path(f, j, number, path) || stat(path, &st) != 0)
        return tn_file_fail(err, errno, "cannot read a journal of", f->root, j->group);
    j->fd = memfd_create("tenure-salvage", MFD_CLOEXEC);
    if (j->fd < 0)
        return tn_file_fail(err, errno, "cannot salvage", f->root, j->group);
    status = tn_journal_list(f, j, &low, &high, &count, err);
    for (uint64_t n = high; !status && n && n >= low; n--)
        status = scan_file(f, j, n, err);
    if (!status && !tn_journal_find(j, "", 0)) {
        *err = told;
        status = told.code;
    }
    if (status) {
        tn_journal_forget(j);
        return status;
    }
    doubt(j);
    j->number = number;
    j->dev = st.st_dev;
    j->ino = st.st_ino;
    j->tail = j->end;
    j->whole = j->salvaged = true;
    j->salvaged_at = st.st_mtim;
    return TENURE_OK;
}

bool tn_journal_untouched(const struct tn_file *f, const struct tn_journal *j)
{
    char path[PATH_MAX];
    struct stat st;

    return tn_journal_path(f, j, j->number, path) && stat(path, &st) == 0 &&
           st.st_mtim.tv_sec == j->salvaged_at.tv_sec &&
           st.st_mtim.tv_nsec == j->salvaged_at.tv_nsec && tn_journal_newest(f, j) == 1;
}

/* ---- Keeping ----------------------------------------------------------------- */

enum tenure_status tn_journal_set_aside(struct tn_file *f, const struct tn_journal *j, uint64_t low,
                                        uint64_t top, struct tenure_error *err)
{
    char path[PATH_MAX], aside[PATH_MAX], below[TENURE_KEY_MAX + 64];
    struct stat st;

    for (uint64_t n = top; n && n >= low; n--) {
        if (!tn_journal_path(f, j, n, path) || lstat(path, &st) != 0)
            continue; /* removed meanwhile: it was not the newest */
        snprintf(below, sizeof below, "%s/" TN_JOURNAL_ASIDE "%016llu-%llu", j->group,
                 (unsigned long long)n, (unsigned long long)st.st_ino);
        if (!tn_file_path(f, below, aside) || (link(path, aside) != 0 && errno != EEXIST))
            return tn_file_fail(err, errno, "cannot keep the damaged journal aside, in", f->root,
                                j->group);
    }
    return TENURE_OK;
}
