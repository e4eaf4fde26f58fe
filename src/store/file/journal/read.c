/*
 * Reading journals.  What is behind the last whole frame was being written when
 * its writer died, or is being written now: nobody was told that it took effect.
 * Unless a whole frame of a higher number stands behind it: frames are flushed
 * one after the other, so then it was whole once, and is damaged.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "os/fs.h"
#include "store/file/journal/journal.h"

/* With one who lives, has linked a journal, and gets no further in filling it. */
#define PATIENCE_NS INT64_C(1000000000)
/* Looks at one who does not: earlier builds show their life only after the link. */
#define LOOKS_MAX   3

/* ---- Which is the newest --------------------------------------------------- */

bool tn_journal_path(const struct tn_file *f, const struct tn_journal *j, uint64_t number,
                     char path[PATH_MAX])
{
    char below[TENURE_KEY_MAX + TN_JOURNAL_NAME + 2], name[TN_JOURNAL_NAME + 1];

    tn_journal_name(number, name);
    snprintf(below, sizeof below, "%s/%s", j->group, name);
    return tn_file_path(f, below, path);
}

int tn_journal_newest(const struct tn_file *f, const struct tn_journal *j)
{
    char path[PATH_MAX];
    struct stat st;

    if (!tn_journal_path(f, j, j->number + 1, path)) {
        errno = ENAMETOOLONG;
        return -1;
    }
    if (stat(path, &st) == 0)
        return 0;
    if (errno != ENOENT)
        return -1;
    /* In this order (J4): ours is there, so the next was not there because it never was. */
    tn_journal_path(f, j, j->number, path);
    int ours = tn_fs_is(path, j->dev, j->ino);
    return ours < 0 && errno == ENOENT ? 0 : ours;
}

enum tenure_status tn_journal_list(struct tn_file *f, const struct tn_journal *j, uint64_t *low,
                                   uint64_t *high, size_t *count, struct tenure_error *err)
{
    const struct dirent *entry;
    int fd;
    enum tenure_status status = tn_file_open_dir(f, j->group, &fd, err);

    *low = *high = *count = 0;
    if (status || fd < 0)
        return status;
    DIR *d = fdopendir(fd);
    if (!d) {
        close(fd);
        return tn_file_fail(err, errno, "cannot list", f->root, j->group);
    }
    errno = 0;
    while ((entry = readdir(d))) {
        uint64_t number = tn_journal_number(entry->d_name);

        if (!number)
            continue;
        ++*count;
        if (number > *high)
            *high = number;
        if (!*low || number < *low)
            *low = number;
    }
    if (errno)
        status = tn_file_fail(err, errno, "cannot list", f->root, j->group);
    closedir(d);
    return status;
}

/* ---- Frames ---------------------------------------------------------------- */

/* Exactly n bytes; false with errno, 0 if the file ends before. */
static bool read_at(int fd, void *to, size_t n, uint64_t at)
{
    for (size_t got = 0; got < n;) {
        ssize_t some = pread(fd, (char *)to + got, n - got, (off_t)(at + got));

        if (some < 0 && errno == EINTR)
            continue;
        if (some <= 0) {
            errno = some < 0 ? errno : 0;
            return false;
        }
        got += (size_t)some;
    }
    return true;
}

static enum tenure_status damaged(const struct tn_file *f, const struct tn_journal *j, uint64_t at,
                                  const char *what, struct tenure_error *err)
{
    char path[PATH_MAX] = "";

    tn_journal_path(f, j, j->number, path);
    return tenure_fail(err, TENURE_CORRUPT,
                       "file: %.250s is damaged at byte %llu: %s; it is left as it is: restore it, "
                       "or repair the collection. (To move it away is to go back to the one before "
                       "it, and to its epoch)",
                       path, (unsigned long long)at, what);
}

/* The head of the frame at `at`.  OK with *is false: there is none. */
static enum tenure_status head_at(struct tn_file *f, const struct tn_journal *j, uint64_t at,
                                  unsigned char head[TN_FRAME_HEAD], struct tn_frame *frame,
                                  bool *is, struct tenure_error *err)
{
    *is = read_at(j->fd, head, TN_FRAME_HEAD, at);
    if (!*is && errno)
        return tn_file_fail(err, errno, "cannot read a journal of", f->root, j->group);
    *is = *is && tn_frame_decode(head, j->seed, frame);
    return TENURE_OK;
}

/* The frame at `at`, into the buffer.  OK with *is false: there is none. */
static enum tenure_status frame_at(struct tn_file *f, struct tn_journal *j, uint64_t at,
                                   struct tn_frame *frame, bool *is, bool *sound,
                                   struct tenure_error *err)
{
    unsigned char head[TN_FRAME_HEAD];
    enum tenure_status status = head_at(f, j, at, head, frame, is, err);

    *sound = false;
    if (status || !*is)
        return status;
    if (!tn_journal_room(j, tn_frame_size(frame->len)))
        return tenure_fail(err, TENURE_NOMEM, "out of memory for a journal");
    if (!read_at(j->fd, j->buffer, TN_FRAME_HEAD + frame->len, at)) {
        if (errno)
            return tn_file_fail(err, errno, "cannot read a journal of", f->root, j->group);
        return TENURE_OK;
    }
    *sound = memcmp(head, j->buffer, sizeof head) == 0 && tn_frame_verify(j->buffer, frame);
    return TENURE_OK;
}

/* Apply the entries of the frame in the buffer. */
static enum tenure_status apply(struct tn_file *f, struct tn_journal *j, uint64_t at,
                                const struct tn_frame *frame, struct tenure_error *err)
{
    size_t used = 0;

    for (uint32_t i = 0; i < frame->entries; i++) {
        struct tn_journal_entry e;
        const unsigned char *bytes = j->buffer + TN_FRAME_HEAD + used;
        size_t size = tn_entry_decode(bytes, frame->len - used, &e);

        if (!size)
            return damaged(f, j, at + TN_FRAME_HEAD + used, "the head of an entry", err);
        used += size;
        if (!tn_journal_take(j, &e, at + (uint64_t)((const unsigned char *)e.data - j->buffer)))
            return tenure_fail(err, TENURE_NOMEM, "out of memory for a journal");
    }
    j->whole |= (frame->flags & TN_FRAME_WHOLE) != 0;
    j->stalled_ns = 0;
    j->frames++;
    j->tail = at + tn_frame_size(frame->len);
    return TENURE_OK;
}

/* Is there a whole frame of a higher number somewhere behind `at`? */
static enum tenure_status anything_behind(struct tn_file *f, struct tn_journal *j, uint64_t at,
                                          bool *found, struct tenure_error *err)
{
    struct tn_frame frame;
    bool is, sound;
    enum tenure_status status = TENURE_OK;

    *found = false;
    for (at += TN_JOURNAL_BLOCK; at < j->end && !status && !*found; at += TN_JOURNAL_BLOCK) {
        status = frame_at(f, j, at, &frame, &is, &sound, err);
        *found = is && sound && frame.number > j->frames;
    }
    return status;
}

/*
 * There is no sound frame at the tail.  Behind what was only begun there is
 * nothing.  If there is, look once more, because the writer may just have gone
 * on; and then take what is left of it, register by register.
 */
static enum tenure_status repair(struct tn_file *f, struct tn_journal *j, bool *more,
                                 struct tenure_error *err)
{
    struct tn_frame frame;
    bool is, sound, behind = false;
    uint64_t at = j->tail;
    enum tenure_status status = anything_behind(f, j, at, &behind, err);

    *more = false;
    if (status || !behind)
        return status;
    status = frame_at(f, j, at, &frame, &is, &sound, err);
    if (status)
        return status;
    if (!is || frame.number != j->frames)
        return damaged(f, j, at, "a frame that was whole is not there any more", err);
    *more = true;
    return apply(f, j, at, &frame, err);
}

enum tenure_status tn_journal_follow(struct tn_file *f, struct tn_journal *j, bool thorough,
                                     int64_t deadline, struct tenure_error *err)
{
    enum tenure_status status = TENURE_OK;
    struct stat st;
    bool more = true;

    if (fstat(j->fd, &st) != 0)
        return tn_file_fail(err, errno, "cannot read a journal of", f->root, j->group);
    j->end = (uint64_t)st.st_size;
    thorough |= j->loading;
    for (unsigned n = 0; !status && more; n++) {
        struct tn_frame frame;
        bool is, sound;

        if (n && tenure_now() >= deadline)
            return tenure_fail(err, TENURE_TIMEOUT,
                               "file: %s was not read in time; the next try goes on", j->group);
        status = frame_at(f, j, j->tail, &frame, &is, &sound, err);
        if (!status && sound && frame.number == j->frames)
            status = apply(f, j, j->tail, &frame, err);
        else if (!status && (thorough || is))
            status = repair(f, j, &more, err);
        else
            more = false;
    }
    j->loading = j->loading && status;
    return status;
}

/* Open journal `number` and read its first line. */
static enum tenure_status open_journal(struct tn_file *f, struct tn_journal *j, uint64_t number,
                                       bool *found, struct tenure_error *err)
{
    unsigned char block[TN_JOURNAL_BLOCK];
    struct tn_journal_head head;
    char path[PATH_MAX];
    struct stat st;
    const char *wrong;

    tn_journal_forget(j);
    *found = false;
    if (!tn_journal_path(f, j, number, path))
        return tn_file_fail(err, ENAMETOOLONG, "cannot open", f->root, j->group);
    j->fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (j->fd < 0 && errno == ENOENT)
        return TENURE_OK;
    if (j->fd < 0 || fstat(j->fd, &st) != 0)
        return tn_file_fail(err, errno, "cannot read", path, "");
    *found = true;
    j->number = number;
    j->dev = st.st_dev;
    j->ino = st.st_ino;
    j->end = (uint64_t)st.st_size;
    if (!S_ISREG(st.st_mode) || !read_at(j->fd, block, sizeof block, 0))
        return damaged(f, j, 0, "it is shorter than its first line", err);
    wrong = tn_journal_head_decode(block, number, &head);
    if (wrong)
        return damaged(f, j, 0, wrong, err);
    memcpy(j->seed, head.nonce, TENURE_NONCE_SIZE);
    j->tail = TN_JOURNAL_BLOCK;
    j->loading = true;
    return TENURE_OK;
}

enum tenure_status tn_journal_load(struct tn_file *f, struct tn_journal *j, uint64_t number,
                                   bool *found, int64_t deadline, struct tenure_error *err)
{
    enum tenure_status status = open_journal(f, j, number, found, err);

    if (!status && *found)
        status = tn_journal_follow(f, j, true, deadline, err);
    return status == TENURE_CORRUPT && f->repair ? tn_journal_salvage(f, j, number, err) : status;
}

/* From head to head up to the frame that makes it whole, or to where there is none. */
static enum tenure_status find_whole(struct tn_file *f, struct tn_journal *j, bool *filled,
                                     struct tenure_error *err)
{
    unsigned char head[TN_FRAME_HEAD];
    struct tn_frame frame;
    bool is, sound = false;
    enum tenure_status status = head_at(f, j, j->tail, head, &frame, &is, err);

    while (!status && is && frame.number == j->frames && !(frame.flags & TN_FRAME_WHOLE)) {
        j->frames++;
        j->tail += tn_frame_size(frame.len);
        status = head_at(f, j, j->tail, head, &frame, &is, err);
    }
    if (!status && is)
        status = frame_at(f, j, j->tail, &frame, &is, &sound, err);
    *filled = sound && frame.number == j->frames;
    if (!status && !*filled) /* what stands behind damage tells that it was filled */
        status = anything_behind(f, j, j->tail, filled, err);
    return status;
}

enum tenure_status tn_journal_filled(struct tn_file *f, const struct tn_journal *j, uint64_t number,
                                     bool *filled, struct tenure_error *err)
{
    struct tn_journal probe = {.fd = -1};

    memcpy(probe.group, j->group, sizeof probe.group);
    enum tenure_status status = open_journal(f, &probe, number, filled, err);
    if (!status && *filled)
        status = find_whole(f, &probe, filled, err);
    tn_journal_clear(&probe);
    return status == TENURE_CORRUPT ? TENURE_OK : status;
}

/* ---- Up to date ------------------------------------------------------------ */

/* Is the one who linked it still there, as far as can be told? */
static bool writer_lives(const struct tn_journal *j)
{
    struct flock lock = {.l_type = F_RDLCK};

    return fcntl(j->fd, F_OFD_GETLK, &lock) != 0 || lock.l_type != F_UNLCK;
}

/*
 * The newest is linked and not filled.  Is its writer dead, or stopped?  One that
 * lives and gets on is waited for: to take its place would cost all of its work,
 * and it would take ours.  The time is counted over the calls of a handle.
 */
static bool given_up(struct tn_journal *j, unsigned *looks)
{
    if (!writer_lives(j))
        return ++*looks >= LOOKS_MAX;
    *looks = 0;
    if (!j->stalled_ns)
        j->stalled_ns = tenure_now();
    return tenure_now() - j->stalled_ns >= PATIENCE_NS;
}

/* Are we about to take over from below a journal that was given up, which is still the newest? */
static bool taking_over(struct tn_file *f, const struct tn_journal *j)
{
    struct tenure_error ignored;
    uint64_t low, high;
    size_t count;

    return j->given_up && !tn_journal_list(f, j, &low, &high, &count, &ignored) &&
           high == j->given_up;
}

/* Find the newest and read it.  *again: it went away meanwhile. */
static enum tenure_status start(struct tn_file *f, struct tn_journal *j, bool *again,
                                int64_t deadline, struct tenure_error *err)
{
    uint64_t low, high;
    size_t count;
    bool found = false;
    enum tenure_status status = tn_journal_list(f, j, &low, &high, &count, err);

    *again = false;
    if (status || !high)
        return status;
    status = tn_journal_load(f, j, high, &found, deadline, err);
    *again = !status && !found;
    return status;
}

enum tenure_status tn_journal_sync(struct tn_file *f, struct tn_journal *j, int64_t deadline,
                                   struct tenure_error *err)
{
    unsigned looks = 0;
    int empty = 0;

    if (j->salvaged && tn_journal_untouched(f, j))
        return TENURE_OK;
    if (j->salvaged) /* nobody can read on behind what is left */
        tn_journal_forget(j);
    for (unsigned tries = 0;; tries++) {
        enum tenure_status status = TENURE_OK;
        bool again = false;

        if (tries && tenure_now() >= deadline)
            return tenure_fail(err, TENURE_TIMEOUT, "file: %s was not read in time", j->group);
        if (!j->number)
            status = start(f, j, &again, deadline, err);
        else if (!j->owner)
            status = tn_journal_follow(f, j, false, deadline, err);
        if (status == TENURE_TIMEOUT)
            return status;
        if (status) {
            tn_journal_forget(j);
            return status;
        }
        if (again)
            continue;
        if (!j->number) { /* absence is believed when it was seen twice */
            if (++empty == 2)
                return TENURE_OK;
            continue;
        }
        int newest = tn_journal_newest(f, j);
        if (newest < 0)
            return tn_file_fail(err, errno, "cannot look for journals of", f->root, j->group);
        bool given = newest ? !j->whole && given_up(j, &looks) : taking_over(f, j);
        if (given || (newest && j->whole && j->unflushed)) {
            status = tn_journal_own(f, j, deadline, err);
            if (status)
                return status;
            looks = 0;
        } else if (!newest) {
            tn_journal_forget(j);
        } else if (j->whole) {
            return TENURE_OK;
        } else {
            usleep(500);
        }
    }
}

static enum tenure_status damaged_reg(const struct tn_file *f, const struct tn_journal *j,
                                      const struct tn_journal_reg *reg, struct tenure_error *err)
{
    char path[PATH_MAX] = "";

    tn_journal_path(f, j, j->number, path);
    if (reg->doubted)
        return tenure_fail(err, TENURE_CORRUPT,
                           "file: '%s', in %.250s at byte %llu, may have been newer: a journal was "
                           "damaged, and is kept beside it as " TN_JOURNAL_ASIDE "*; look at what "
                           "is there, and repair it",
                           reg->name, path, (unsigned long long)reg->at);
    return tenure_fail(err, TENURE_CORRUPT,
                       "file: '%s' is damaged, in %.300s at byte %llu; what is there is kept, and "
                       "the rest of the collection is sound",
                       reg->name, path, (unsigned long long)reg->at);
}

enum tenure_status tn_journal_deliver(struct tn_file *f, struct tn_journal *j,
                                      const struct tn_journal_reg *reg, struct tenure_value *value,
                                      struct tenure_error *err)
{
    static const struct tn_journal_reg absent;

    if (!reg)
        reg = &absent;
    if (reg->damaged && !f->repair)
        return damaged_reg(f, j, reg, err);
    if (reg->len &&
        (!tn_journal_room(j, reg->len) || !read_at(j->fd, j->buffer, reg->len, reg->at)))
        return tn_file_fail(err, errno ? errno : EIO, "cannot read a journal of", f->root,
                            j->group);
    if (reg != &absent && !f->repair && tn_data_sum(j->buffer, reg->len) != reg->data_sum)
        return damaged_reg(f, j, reg, err); /* since it was read first */
    enum tenure_status status = tenure_value_set(value, j->buffer, reg->len, err);
    if (status)
        return status;
    tn_journal_token(reg == &absent ? NULL : reg, &value->token);
    memcpy(value->prev, reg->prev, TENURE_NONCE_SIZE);
    value->tombstone = reg->tombstone;
    return TENURE_OK;
}

enum tenure_status tn_journal_look(struct tn_file *f, const char *group, const char *name,
                                   struct tn_journal **journal, struct tn_journal_reg **reg,
                                   int64_t deadline, struct tenure_error *err)
{
    struct tn_journal *j = tn_journal_get(f, group);

    if (!j)
        return tenure_fail(err, TENURE_NOMEM, "out of memory");
    enum tenure_status status = tn_journal_sync(f, j, deadline, err);
    if (status)
        return status;
    *journal = j;
    *reg = tn_journal_find(j, name, strlen(name));
    return TENURE_OK;
}
