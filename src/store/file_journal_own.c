/*
 * Becoming the writer of a group (J2): link the next number first, then read.
 *
 * From the link on, no writer before us is answered any more: each looks for a
 * higher number before it answers (J3).  Whatever one of them was answered, it
 * had written before that look, so it is there when we read.
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
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "store/file_journal.h"

#define FIRST_BYTES UINT64_C(65536)           /* of a new journal, before anything is in it */
#define LONG_BYTES  (UINT64_C(4) << 20)       /* a journal is not begun anew below this */
#define PART_BYTES  ((size_t)TENURE_DATA_MAX) /* of a snapshot in one frame, about */
#define CLEAN_MOST  64                        /* removed at once */

bool tn_journal_long(const struct tn_journal *j)
{
    return j->tail > LONG_BYTES && j->tail > 4 * j->live;
}

/* ---- A file to be ----------------------------------------------------------- */

/* Write a temporary journal: its first line, and zeroes that commits will overwrite, so that a
 * flush has no new blocks to write down. */
static enum tenure_status make_temp(struct tn_file *f, const struct tn_journal *j,
                                    struct tn_journal_head *head, uint64_t size,
                                    struct tn_file_temp *temp, struct tenure_error *err)
{
    unsigned char block[TN_JOURNAL_BLOCK];
    enum tenure_status status = tenure_nonce(head->nonce, err);
    unsigned char *zeroes;

    if (status)
        return status;
    zeroes = calloc(1, size);
    if (!zeroes)
        return tenure_fail(err, TENURE_NOMEM, "out of memory for a journal");
    tn_journal_head_encode(head, block);
    status = tn_file_temp_write(f, head->nonce, block, sizeof block, zeroes, size - sizeof block,
                                temp, err);
    free(zeroes);
    if (!status)
        status = tn_file_temp_sync(f, temp, err);
    if (!status && head->number == 1)
        status = tn_file_sync_above(f, j->group, err);
    return status;
}

/* Link it.  *taken: somebody else was first. */
static enum tenure_status link_temp(struct tn_file *f, struct tn_journal *j, uint64_t number,
                                    struct tn_file_temp *temp, int *fd, bool *taken,
                                    struct tenure_error *err)
{
    char from[PATH_MAX], to[PATH_MAX];

    *fd = -1;
    *taken = false;
    if (!tn_file_path(f, temp->name, from) || !tn_journal_path(f, j, number, to))
        return tn_file_fail(err, ENAMETOOLONG, "cannot link in", f->root, j->group);
    if (link(from, to) != 0) {
        *taken = errno == EEXIST;
        return *taken ? TENURE_OK : tn_file_fail(err, errno, "cannot link in", f->root, j->group);
    }
    /* By its new name: who watches the directory is told of what is written through that. */
    *fd = open(to, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    *taken = *fd < 0 && errno == ENOENT; /* we slept, and it was removed */
    /* A sign of life for who finds it not filled yet; nothing rests on it. */
    if (*fd >= 0)
        fcntl(*fd, F_OFD_SETLK, &(struct flock){.l_type = F_WRLCK});
    return *fd < 0 && !*taken ? tn_file_fail(err, errno, "cannot open", to, "") : TENURE_OK;
}

/* ---- What was there before -------------------------------------------------- */

/* The newest journal from `top` down that has all that was there before it; none: j is empty. */
static enum tenure_status load_newest(struct tn_file *f, struct tn_journal *j, uint64_t low,
                                      uint64_t top, struct tenure_error *err)
{
    enum tenure_status status = TENURE_OK;
    bool found;

    for (uint64_t number = top; number && number >= low && !status; number--) {
        status = tn_journal_load(f, j, number, &found, err);
        if (!status && found && j->whole)
            return TENURE_OK;
    }
    tn_journal_forget(j);
    return status;
}

/* The same once more after our link: what was being written then may be whole by now. */
static enum tenure_status load_again(struct tn_file *f, struct tn_journal *j, uint64_t low,
                                     uint64_t top, struct tenure_error *err)
{
    if (j->number != top || j->salvaged)
        return load_newest(f, j, low, top, err);
    return j->number ? tn_journal_follow(f, j, true, err) : TENURE_OK;
}

/* ---- The snapshot ----------------------------------------------------------- */

struct snapshot {
    struct tn_journal *j;
    int fd; /* of the new journal */
    const uint8_t *seed;
    unsigned char *bytes;
    size_t cap, used;
    uint64_t at; /* where the frame goes */
    struct tn_frame frame;
};

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

/* Write the frame under way, and flush it: only the last of a journal may ever be torn. */
static bool end_part(struct snapshot *s, bool last)
{
    size_t size = tn_frame_size(s->used - TN_FRAME_HEAD);

    s->frame.flags = TN_FRAME_SNAPSHOT | (last ? TN_FRAME_WHOLE : 0);
    s->frame.len = s->used - TN_FRAME_HEAD;
    tn_frame_seal(&s->frame, s->seed, s->bytes);
    memset(s->bytes + s->used, 0, size - s->used);
    if (!write_at(s->fd, s->bytes, size, s->at) || fdatasync(s->fd) != 0)
        return false;
    s->at += size;
    s->frame.number++;
    s->frame.entries = 0;
    s->used = TN_FRAME_HEAD;
    return true;
}

/* Copy one register; a damaged one as it is, so that it stays what it was. */
static bool copy_reg(struct snapshot *s, struct tn_journal_reg *reg)
{
    struct tn_journal_entry e = {.name = reg->name,
                                 .name_len = reg->name_len,
                                 .count = reg->count,
                                 .tombstone = reg->tombstone,
                                 .damaged = reg->damaged,
                                 .data_sum = reg->data_sum,
                                 .len = reg->len};
    size_t size = tn_entry_size(reg->name_len, reg->len);

    if (s->used > TN_FRAME_HEAD && s->used + size > PART_BYTES && !end_part(s, false))
        return false;
    if (s->used + size + TN_JOURNAL_BLOCK > s->cap) {
        size_t cap = 2 * (s->used + size + TN_JOURNAL_BLOCK);
        unsigned char *grown = realloc(s->bytes, cap);

        if (!grown) {
            errno = ENOMEM;
            return false;
        }
        s->bytes = grown;
        s->cap = cap;
    }
    memcpy(e.nonce, reg->nonce, TENURE_NONCE_SIZE);
    memcpy(e.prev, reg->prev, TENURE_NONCE_SIZE);
    /* Its data goes straight to where it belongs; encode() must not copy it onto itself. */
    unsigned char *data = s->bytes + s->used + TN_ENTRY_HEAD + reg->name_len;
    for (size_t got = 0; got < reg->len;) {
        ssize_t n = pread(s->j->fd, data + got, reg->len - got, (off_t)(reg->at + got));

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
    reg->moved_to = s->at + s->used + TN_ENTRY_HEAD + reg->name_len;
    s->used += tn_entry_encode(&e, s->bytes + s->used);
    s->frame.entries++;
    return true;
}

/* Write all that j knows into the file fd.  false with errno. */
static bool write_snapshot(struct snapshot *s)
{
    struct tn_journal *j = s->j;

    s->at = TN_JOURNAL_BLOCK;
    s->used = TN_FRAME_HEAD;
    s->cap = 65536;
    s->bytes = malloc(s->cap);
    if (!s->bytes) {
        errno = ENOMEM;
        return false;
    }
    for (size_t i = 0; i < j->n_buckets; i++) {
        for (struct tn_journal_reg *reg = j->buckets[i]; reg; reg = reg->next) {
            if (!copy_reg(s, reg))
                return false;
        }
    }
    return end_part(s, true);
}

/* ---- Together --------------------------------------------------------------- */

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

/* Lowest first, and one failure ends it (J4). */
static void clean(struct tn_file *f, struct tn_journal *j, uint64_t low)
{
    uint64_t most = low + CLEAN_MOST;
    char path[PATH_MAX];

    for (uint64_t n = low; n && n < most && n + TN_JOURNAL_KEEP <= j->number; n++) {
        if (!tn_journal_path(f, j, n, path) || (unlink(path) != 0 && errno != ENOENT))
            return;
    }
}

/* j now is the new file: same registers, other places. */
static void move_in(struct tn_journal *j, const struct tn_journal_head *head, int fd,
                    const struct stat *st, const struct snapshot *s)
{
    for (size_t i = 0; i < j->n_buckets; i++) {
        for (struct tn_journal_reg *reg = j->buckets[i]; reg; reg = reg->next)
            reg->at = reg->moved_to;
    }
    if (j->fd >= 0)
        close(j->fd);
    j->fd = fd;
    j->number = head->number;
    j->dev = st->st_dev;
    j->ino = st->st_ino;
    memcpy(j->seed, head->nonce, TENURE_NONCE_SIZE);
    j->frames = s->frame.number;
    j->tail = s->at;
    j->end = (uint64_t)st->st_size > s->at ? (uint64_t)st->st_size : s->at;
    j->owner = j->whole = true;
    j->salvaged = false;
}

/* After the link: is the one that we saw as the newest still there (J4)? */
static enum tenure_status still_there(struct tn_file *f, struct tn_journal *j, uint64_t top,
                                      const struct stat *seen, bool *is, struct tenure_error *err)
{
    char path[PATH_MAX];
    struct stat st;
    uint64_t low, high;
    size_t count;
    enum tenure_status status;

    if (top) {
        *is = tn_journal_path(f, j, top, path) && stat(path, &st) == 0 &&
              st.st_ino == seen->st_ino && st.st_dev == seen->st_dev;
        return TENURE_OK;
    }
    status = tn_journal_list(f, j, &low, &high, &count, err);
    *is = !status && count == 1 && high == 1;
    return status;
}

/* Our link stands: read what is final now, and write it all. */
static enum tenure_status fill(struct tn_file *f, struct tn_journal *j,
                               const struct tn_journal_head *head, int fd, uint64_t low,
                               struct tenure_error *err)
{
    struct snapshot s = {.j = j, .fd = fd, .seed = head->nonce};
    struct stat st;
    enum tenure_status status = load_again(f, j, low, head->number - 1, err);

    if (!status && (!write_snapshot(&s) || fstat(fd, &st) != 0))
        status = tn_file_fail(err, errno, "cannot write a journal of", f->root, j->group);
    free(s.bytes);
    if (!status)
        status = sync_names(f, j, err);
    if (!status)
        move_in(j, head, fd, &st, &s);
    return status;
}

/*
 * Hold the newest open, so that nobody else gets its inode.  *is: it is the newest,
 * and not the vain link of a sleeper under an old number, above which there would
 * be others (J4).
 */
static enum tenure_status hold_newest(struct tn_file *f, struct tn_journal *j, uint64_t top,
                                      int *top_fd, struct stat *seen, bool *is,
                                      struct tenure_error *err)
{
    uint64_t low, high;
    size_t count;
    char path[PATH_MAX];

    *is = false;
    if (top) {
        if (tn_journal_path(f, j, top, path))
            *top_fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
        if (*top_fd < 0 || fstat(*top_fd, seen) != 0)
            return errno == ENOENT ? TENURE_OK
                                   : tn_file_fail(err, errno, "cannot open", f->root, j->group);
    }
    enum tenure_status status = tn_journal_list(f, j, &low, &high, &count, err);
    *is = !status && high == top;
    return status;
}

/* One try.  OK with j->owner false: somebody else was faster, look again. */
static enum tenure_status try_own(struct tn_file *f, struct tn_journal *j, int64_t deadline,
                                  struct tenure_error *err)
{
    struct tn_journal_head head;
    struct tn_file_temp temp = {.fd = -1};
    uint64_t low, top;
    struct stat seen = {0};
    size_t count;
    int fd = -1, top_fd = -1;
    bool taken = false, is = false;
    enum tenure_status status = tn_journal_list(f, j, &low, &top, &count, err);

    j->owner = false;
    if (!status && top == TN_SLOT_LIMIT)
        status = tenure_fail(err, TENURE_CORRUPT, "file: %s has used up its journals", j->group);
    /* Damage is found before anything is linked: whoever tries in vain leaves nothing behind. */
    if (!status)
        status = load_newest(f, j, low, top, err);
    if (!status && !top)
        status = tn_file_make_dirs(f, j->group, err);
    if (status)
        return status;
    status = hold_newest(f, j, top, &top_fd, &seen, &is, err);
    if (status || !is)
        goto done;
    if (j->salvaged && (status = tn_journal_set_aside(f, j, low, top, err)))
        goto done;
    head.number = top + 1;
    status =
        make_temp(f, j, &head, tn_frame_size(j->live + j->live / 16) + FIRST_BYTES, &temp, err);
    if (!status && tenure_now() >= deadline)
        status = tenure_fail(err, TENURE_TIMEOUT, "file: no time left to write in %s", j->group);
    if (!status)
        status = link_temp(f, j, head.number, &temp, &fd, &taken, err);
    if (status || taken)
        goto done;
    status = still_there(f, j, top, &seen, &is, err);
    if (status || !is)
        goto done;
    /* If that fails it stays as it is: because of J4, and because it may be whole by now, and
     * somebody have gone on from it. */
    status = fill(f, j, &head, fd, low, err);
    if (!status)
        fd = -1;
done:
    tn_file_temp_remove(f, &temp);
    if (fd >= 0)
        close(fd);
    if (top_fd >= 0)
        close(top_fd);
    if (!status && j->owner) {
        int newest = tn_journal_newest(f, j);

        if (newest < 0)
            status = tn_file_fail(err, errno, "cannot look for journals of", f->root, j->group);
        j->owner = newest > 0;
        if (newest > 0)
            clean(f, j, low);
    }
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
    for (unsigned tries = 0;; tries++) {
        enum tenure_status status = try_own(f, j, deadline, err);

        if (status || !j->owner)
            tn_journal_forget(j);
        if (status || j->owner)
            return status;
        if (tenure_now() >= deadline)
            return tenure_fail(err, TENURE_TIMEOUT, "file: %s was not taken over in time",
                               j->group);
        tn_journal_pause(tries);
    }
}
