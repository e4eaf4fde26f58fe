/*
 * Becoming the writer of a group (J2): link the next number first, then read.
 *
 * From the link on, no writer before us is answered any more: each looks for a
 * higher number before it answers (J3).  Whatever one of them was answered, it
 * had written before that look, so it is there when we read.  What we have read
 * before the link is in our file by then (file_journal_draft.c); it stays true,
 * because journals only grow, and we go on reading where we were.
 *
 * One who saw the newest journal, slept, and linked the next number after both
 * had been removed, finds the one that it saw gone: then its link was worth
 * nothing, and it begins again (J4).  The vain link stays for a while, so its
 * number may be there again; who takes that for the newest that it saw would go
 * on from there, beside the true writer.  So what is held is looked up once more
 * before the link: it is the highest number, or it is not the newest.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "store/file/journal/journal.h"

#define LONG_BYTES (UINT64_C(4) << 20) /* a journal is not begun again below this */
#define CLEAN_MAX  64                  /* removed at once */
/* For what is left after the link: a flush, and a look at those that were not filled.  To give up
 * there would cost everybody a journal. */
#define GRACE_NS   INT64_C(200000000)

bool tn_journal_long(const struct tn_journal *j)
{
    return j->tail > LONG_BYTES && j->tail > 4 * j->live;
}

/* ---- Before the link -------------------------------------------------------- */

/* The newest journal from `top` down that has all that was there before it; none: j is empty.
 * What an earlier call has read of it is kept, so that each gets further. */
static enum tenure_status load_newest(struct tn_file *f, struct tn_journal *j, uint64_t low,
                                      uint64_t top, int64_t deadline, struct tenure_error *err)
{
    enum tenure_status status = TENURE_OK;
    bool found = true;

    for (uint64_t number = top; number && number >= low && !status; number--) {
        status = tn_journal_filled(f, j, number, &found, err);
        if (status || !found)
            continue;
        if (j->number == number && !j->salvaged)
            status = tn_journal_follow(f, j, true, deadline, err);
        else
            status = tn_journal_load(f, j, number, &found, deadline, err);
        j->given_up = number < top ? top : 0;
        if (!status && found && j->whole)
            return TENURE_OK;
    }
    if (!status)
        tn_journal_forget(j);
    return status;
}

/*
 * Hold the newest open, so that nobody else gets its inode.  *is: it is the newest,
 * and not the vain link of a sleeper under an old number, above which there would
 * be others (J4).
 */
static enum tenure_status hold_newest(struct tn_file *f, struct tn_journal *j, bool *is,
                                      struct tenure_error *err)
{
    struct tn_journal_draft *d = j->draft;
    uint64_t low, high;
    size_t count;
    char path[PATH_MAX];

    *is = false;
    if (d->top) {
        if (tn_journal_path(f, j, d->top, path))
            d->top_fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
        if (d->top_fd < 0 || fstat(d->top_fd, &d->seen) != 0)
            return errno == ENOENT ? TENURE_OK
                                   : tn_file_fail(err, errno, "cannot open", f->root, j->group);
        if (j->number == d->top && (j->dev != d->seen.st_dev || j->ino != d->seen.st_ino))
            return TENURE_OK; /* not the one that was read */
    }
    enum tenure_status status = tn_journal_list(f, j, &low, &high, &count, err);
    *is = !status && high == d->top;
    return status;
}

/* Begin a draft of the newest, unless one is under way.  *is: there is one now. */
static enum tenure_status begin(struct tn_file *f, struct tn_journal *j, int64_t deadline, bool *is,
                                struct tenure_error *err)
{
    uint64_t low, top;
    size_t count;
    enum tenure_status status = tn_journal_list(f, j, &low, &top, &count, err);

    *is = !status && j->draft && j->draft->top == top;
    if (status || *is)
        return status;
    tn_journal_draft_drop(j);
    if (top == TN_SLOT_LIMIT)
        return tenure_fail(err, TENURE_CORRUPT, "file: %s has used up its journals", j->group);
    /* Damage is found before anything is linked: whoever tries in vain leaves nothing behind. */
    if (j->number != top || !j->whole || j->loading || j->salvaged)
        status = load_newest(f, j, low, top, deadline, err);
    if (!status && !top)
        status = tn_file_make_dirs(f, j->group, err);
    if (!status)
        status = tn_journal_draft_begin(f, j, low, top, err);
    if (!status)
        status = hold_newest(f, j, is, err);
    if (!status && *is && j->salvaged)
        status = tn_journal_set_aside(f, j, low, top, err);
    return status;
}

/* All that is known, on the disk, before anybody can see it. */
static enum tenure_status prepare(struct tn_file *f, struct tn_journal *j, int64_t deadline,
                                  struct tenure_error *err)
{
    enum tenure_status status = TENURE_OK;

    /* What is left of a damaged group is looked for again after the link. */
    if (!j->salvaged)
        status = tn_journal_draft_copy(f, j, deadline, err);
    /* What came meanwhile, so that little is left for later. */
    if (!status && j->number && !j->owner && !j->salvaged)
        status = tn_journal_follow(f, j, false, deadline, err);
    if (!status && !j->salvaged)
        status = tn_journal_draft_copy(f, j, deadline, err);
    if (!status)
        status = tn_journal_draft_sync(f, j, err);
    if (!status && j->draft->top == 0)
        status = tn_file_sync_above(f, j->group, err);
    if (!status && tenure_now() >= deadline)
        status = tenure_fail(err, TENURE_TIMEOUT, "file: no time left to write in %s", j->group);
    return status;
}

/* ---- The link --------------------------------------------------------------- */

/* A sign of life for who finds it not filled yet; nothing rests on it.  Each descriptor locks bytes
 * of its own, so that there is no moment without. */
static void show_life(int fd, off_t byte)
{
    fcntl(fd, F_OFD_SETLK, &(struct flock){.l_type = F_WRLCK, .l_start = byte, .l_len = 1});
}

/* *fd is the journal.  *taken: somebody else was first, or we slept. */
static enum tenure_status link_draft(struct tn_file *f, struct tn_journal *j, int *fd, bool *taken,
                                     struct tenure_error *err)
{
    struct tn_journal_draft *d = j->draft;
    char from[PATH_MAX], to[PATH_MAX];

    *taken = false;
    if (!tn_file_path(f, d->temp.name, from) || !tn_journal_path(f, j, d->head.number, to))
        return tn_file_fail(err, ENAMETOOLONG, "cannot link in", f->root, j->group);
    show_life(d->temp.fd, 0);
    if (link(from, to) != 0) {
        /* A draft that nobody went on with for minutes was cleaned up. */
        *taken = errno == EEXIST || (errno == ENOENT && access(from, F_OK) != 0);
        return *taken ? TENURE_OK : tn_file_fail(err, errno, "cannot link in", f->root, j->group);
    }
    /* By its new name: who watches the directory is told of what is written through that. */
    *fd = open(to, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    *taken = *fd < 0 && errno == ENOENT; /* we slept, and it was removed */
    if (*fd >= 0)
        show_life(*fd, 1);
    return *fd < 0 && !*taken ? tn_file_fail(err, errno, "cannot open", to, "") : TENURE_OK;
}

/* ---- After it --------------------------------------------------------------- */

/* Is the one that we saw as the newest still there (J4)? */
static enum tenure_status still_there(struct tn_file *f, struct tn_journal *j, bool *is,
                                      struct tenure_error *err)
{
    const struct tn_journal_draft *d = j->draft;
    char path[PATH_MAX];
    struct stat st;
    uint64_t low, high;
    size_t count;
    enum tenure_status status;

    if (d->top) {
        *is = tn_journal_path(f, j, d->top, path) && stat(path, &st) == 0 &&
              st.st_ino == d->seen.st_ino && st.st_dev == d->seen.st_dev;
        return TENURE_OK;
    }
    status = tn_journal_list(f, j, &low, &high, &count, err);
    *is = !status && count == 1 && high == 1;
    return status;
}

/* What was being written when we copied the one below it may be whole by now: then that counts.
 * *is: it is not, and what we copied is still the newest. */
static enum tenure_status still_newest(struct tn_file *f, const struct tn_journal *j, bool *is,
                                       struct tenure_error *err)
{
    enum tenure_status status = TENURE_OK;
    bool filled = false;

    for (uint64_t n = j->draft->top; n > j->number && n >= j->draft->low && !filled && !status; n--)
        status = tn_journal_filled(f, j, n, &filled, err);
    *is = !filled;
    return status;
}

/* Flush the names, so that the journal is found after a power failure. */
static enum tenure_status sync_names(struct tn_file *f, struct tn_journal *j,
                                     struct tenure_error *err)
{
    int dir;
    enum tenure_status status = tn_file_open_dir(f, j->group, &dir, err);

    if (status || dir < 0)
        return status ? status : tn_file_fail(err, ENOENT, "cannot flush", f->root, j->group);
    if (!tn_file_sync_dir(dir))
        status = tn_file_fail(err, errno, "cannot flush", f->root, j->group);
    close(dir);
    return status;
}

/* j now is the new file: same registers, other places. */
static void move_in(struct tn_journal *j, int fd, const struct stat *st)
{
    struct tn_journal_draft *d = j->draft;

    for (size_t i = 0; i < j->n_buckets; i++) {
        for (struct tn_journal_reg *reg = j->buckets[i]; reg; reg = reg->next)
            reg->at = reg->moved_to;
    }
    if (j->fd >= 0)
        close(j->fd);
    j->fd = fd;
    j->number = d->head.number;
    j->given_up = 0;
    j->dev = st->st_dev;
    j->ino = st->st_ino;
    memcpy(j->seed, d->head.nonce, TENURE_NONCE_SIZE);
    j->frames = d->frame.number;
    j->tail = d->at;
    j->end = (uint64_t)st->st_size > d->at ? (uint64_t)st->st_size : d->at;
    j->owner = j->whole = true;
    j->salvaged = false;
}

/* What is left of a damaged group, once more: somebody may have written there until our link. */
static enum tenure_status load_again(struct tn_file *f, struct tn_journal *j, int64_t deadline,
                                     struct tenure_error *err)
{
    struct tn_journal_draft *d = j->draft;

    j->draft = NULL; /* of which nothing was copied yet */
    enum tenure_status status = load_newest(f, j, d->low, d->top, deadline, err);
    j->draft = d;
    return status;
}

/* Read what is final now, and write what is not in the draft yet. */
static enum tenure_status fill(struct tn_file *f, struct tn_journal *j, int fd, int64_t deadline,
                               struct tenure_error *err)
{
    struct stat st;
    enum tenure_status status = TENURE_OK;

    if (j->salvaged)
        status = load_again(f, j, deadline, err);
    else if (j->number)
        status = tn_journal_follow(f, j, true, deadline, err);
    if (!status)
        status = tn_journal_draft_end(f, j, fd, deadline, err);
    if (!status && fstat(fd, &st) != 0)
        status = tn_file_fail(err, errno, "cannot write a journal of", f->root, j->group);
    if (!status)
        status = sync_names(f, j, err);
    if (!status)
        move_in(j, fd, &st);
    return status;
}

/* Lowest first, and one failure ends it (J4). */
static void clean(struct tn_file *f, struct tn_journal *j, uint64_t low)
{
    uint64_t most = low + CLEAN_MAX;
    char path[PATH_MAX];

    for (uint64_t n = low; n && n < most && n + TN_JOURNAL_KEEP <= j->number; n++) {
        if (!tn_journal_path(f, j, n, path) || (unlink(path) != 0 && errno != ENOENT))
            return;
    }
}

/* The draft is on the disk: link it and fill it. */
static enum tenure_status take_over(struct tn_file *f, struct tn_journal *j, int64_t deadline,
                                    struct tenure_error *err)
{
    int fd = -1;
    bool taken, is = false;
    enum tenure_status status = link_draft(f, j, &fd, &taken, err);

    j->owner = false;
    if (deadline < tenure_now() + GRACE_NS)
        deadline = tenure_now() + GRACE_NS;
    if (!status && !taken)
        status = still_there(f, j, &is, err);
    if (!status && is && !j->salvaged)
        status = still_newest(f, j, &is, err);
    /* If that fails it stays as it is: because of J4, and because it may be whole by now, and
     * somebody have gone on from it. */
    if (!status && is)
        status = fill(f, j, fd, deadline, err);
    if (!j->owner) {
        if (fd >= 0)
            close(fd);
        return status;
    }
    int newest = tn_journal_newest(f, j);
    if (newest < 0)
        status = tn_file_fail(err, errno, "cannot look for journals of", f->root, j->group);
    j->owner = newest > 0;
    if (newest > 0)
        clean(f, j, j->draft->low);
    return status;
}

void tn_journal_pause(unsigned tries)
{
    uint64_t most = UINT64_C(200) << (tries < 7 ? tries : 7);

    /* Whoever meets here should not meet again: the clock's last digits differ. */
    usleep((useconds_t)((uint64_t)tenure_now() / 7 % most));
}

enum tenure_status tn_journal_own(struct tn_file *f, struct tn_journal *j, int64_t deadline,
                                  struct tenure_error *err)
{
    bool is;
    enum tenure_status status = begin(f, j, deadline, &is, err);

    if (!status && is)
        status = prepare(f, j, deadline, err);
    if (status == TENURE_TIMEOUT)
        return status; /* the draft stays: the next call goes on with it */
    if (!status && is)
        status = take_over(f, j, deadline, err);
    else
        j->owner = false;
    tn_journal_draft_drop(j);
    if (status || !j->owner)
        tn_journal_forget(j);
    else
        j->unflushed = false;
    return status;
}
