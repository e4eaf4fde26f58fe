/*
 * The marker of a file: store, ROOT/.tenure: how all write here, and which store this is.
 *
 *   tenure-file 2 retain=150s
 *   identity=0123456789abcdef0123456789abcdef
 *
 * It is asked for at every call, by the descriptor of the directory that the call
 * goes on to use.  What is at the path of a store may be another one from one
 * moment to the next: a share is unmounted, and under it is a directory, empty or
 * with a store that was made there by mistake.  Neither says anything about ours.
 *
 * A store that was made before there were identities is known by the time at which
 * its marker was written.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/duration.h"
#include "base/hex.h"
#include "os/fs.h"
#include "store/file/file.h"

#define LINE_SLOTS "tenure-file 1 retain="
#define LINE_PLACE "tenure-file 2 retain=" /* the state is written in place */
#define IDENTITY   "identity="
#define TEXT_MAX   160

/* ---- As text --------------------------------------------------------------- */

/* The second line, "" in a marker of before.  false: it makes no sense. */
static bool parse_identity(const char *line, const struct stat *st, char *identity)
{
    uint8_t bytes[TENURE_NONCE_SIZE];
    size_t head = sizeof IDENTITY - 1;

    if (!line[0]) {
        snprintf(identity, TN_FILE_IDENTITY, "made-%lld.%09ld", (long long)st->st_mtim.tv_sec,
                 st->st_mtim.tv_nsec);
        return true;
    }
    if (strncmp(line, IDENTITY, head) != 0 || strlen(line) != head + TN_NONCE_HEX + 1 ||
        line[head + TN_NONCE_HEX] != '\n')
        return false;
    snprintf(identity, TN_FILE_IDENTITY, "%.*s", TN_NONCE_HEX, line + head);
    return tn_hex_decode(identity, bytes, sizeof bytes);
}

static bool parse(char *text, const struct stat *st, struct tn_file_marker *marker)
{
    size_t head = sizeof LINE_SLOTS - 1, end = strcspn(text, "\n");

    if (text[end] != '\n' ||
        (strncmp(text, LINE_SLOTS, head) != 0 && strncmp(text, LINE_PLACE, head) != 0))
        return false;
    marker->place = strncmp(text, LINE_PLACE, head) == 0;
    text[end] = '\0';
    return tn_duration_parse(text + head, &marker->retain_ns) &&
           marker->retain_ns >= TN_FILE_RETAIN_MIN && marker->retain_ns <= TN_FILE_RETAIN_MAX &&
           parse_identity(text + end + 1, st, marker->identity);
}

/* ---- On the disk ----------------------------------------------------------- */

enum tenure_status tn_file_marker_read(struct tn_file *f, int dir, struct tn_file_marker *marker,
                                       struct tenure_error *err)
{
    char text[TEXT_MAX + 1] = "";
    int fd = openat(dir, TN_FILE_MARKER, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);

    memset(marker, 0, sizeof *marker);
    if (fd < 0 && errno == ENOENT)
        return TENURE_OK;
    ssize_t n = fd < 0 || fstat(fd, &marker->st) != 0 ? -1 : read(fd, text, TEXT_MAX);
    int saved = errno;
    if (fd >= 0)
        close(fd);
    if (n < 0 && saved != ELOOP && saved != EISDIR)
        return tn_file_fail(err, saved, "cannot read", f->root, TN_FILE_MARKER);
    if (n < 0 || n == TEXT_MAX || strlen(text) != (size_t)n || !parse(text, &marker->st, marker))
        return tenure_fail(err, TENURE_CORRUPT,
                           "file: %.200s/" TN_FILE_MARKER " cannot be understood; restore it from "
                           "a copy, or write a file with the line '" LINE_PLACE "150s', or "
                           "'" LINE_SLOTS "150s' if it was made with commits=slots or on a network",
                           f->root);
    return TENURE_OK;
}

/*
 * Whole and flushed before it has its name: it is there or it is not.  The name is flushed with the
 * directory, before the first slot of a register can be seen (tn_file_sync_above): a marker that a
 * crash takes away had nothing to speak of beside it.  Linked like a slot, so that this also tells
 * whether slots can be.
 */
enum tenure_status tn_file_marker_write(struct tn_file *f, bool place, int64_t retain_ns,
                                        struct tenure_error *err)
{
    char text[TEXT_MAX], span[TN_DURATION_TEXT], hex[TN_NONCE_HEX + 1];
    char from[PATH_MAX], to[PATH_MAX];
    struct tn_file_temp temp = {.fd = -1};
    uint8_t nonce[TENURE_NONCE_SIZE];
    enum tenure_status status = tenure_nonce(nonce, err);

    if (status)
        return status;
    tn_duration_format(retain_ns, span);
    tn_hex_encode(nonce, sizeof nonce, hex);
    int n = snprintf(text, sizeof text, "%s%s\n" IDENTITY "%s\n", place ? LINE_PLACE : LINE_SLOTS,
                     span, hex);
    status = tn_file_make_dirs(f, TN_FILE_TMP, err);
    if (!status)
        status = tn_file_temp_write(f, nonce, text, (size_t)n, NULL, 0, &temp, err);
    if (!status)
        status = tn_file_temp_sync(f, &temp, err);
    if (!status && tn_file_path(f, temp.name, from) && tn_file_path(f, TN_FILE_MARKER, to) &&
        link(from, to) != 0 && errno != EEXIST)
        status =
            tn_file_fail(err, errno == EPERM ? EOPNOTSUPP : errno, "cannot link in", f->root, "");
    tn_file_temp_remove(f, &temp);
    return status;
}

/* ---- Is it the one? -------------------------------------------------------- */

enum tenure_status tn_file_gone(const struct tn_file *f, struct tenure_error *err)
{
    return tenure_fail(err, TENURE_UNAVAILABLE,
                       "file: the store %.300s is gone (no " TN_FILE_MARKER
                       " in it); mount or restore it, or restart to start an empty store",
                       f->root);
}

enum tenure_status tn_file_other(const struct tn_file *f, struct tenure_error *err)
{
    return tenure_fail(err, TENURE_UNAVAILABLE,
                       "file: %.300s holds another store than before, by the identity in "
                       "its " TN_FILE_MARKER
                       "; mount or restore the one that was there, or restart "
                       "to use this one",
                       f->root);
}

static bool same_file(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino &&
           a->st_ctim.tv_sec == b->st_ctim.tv_sec && a->st_ctim.tv_nsec == b->st_ctim.tv_nsec;
}

static enum tenure_status check(struct tn_file *f, int dir, struct tenure_error *err)
{
    struct tn_file_marker now;
    struct stat st;

    int there = fstatat(dir, TN_FILE_MARKER, &st, AT_SYMLINK_NOFOLLOW);
    if (there != 0 && errno == ENOENT && f->network && tn_fs_refresh(dir))
        there = fstatat(dir, TN_FILE_MARKER, &st, AT_SYMLINK_NOFOLLOW);
    if (there != 0)
        return errno == ENOENT
                   ? tn_file_gone(f, err)
                   : tn_file_fail(err, errno, "cannot look at", f->root, TN_FILE_MARKER);
    if (same_file(&st, &f->marker.st))
        return TENURE_OK;
    enum tenure_status status = tn_file_marker_read(f, dir, &now, err);
    if (status)
        return status;
    if (!now.retain_ns)
        return tn_file_gone(f, err);
    if (strcmp(now.identity, f->marker.identity) != 0)
        return tn_file_other(f, err);
    f->marker.st = now.st;
    return TENURE_OK;
}

enum tenure_status tn_file_open_root(struct tn_file *f, int *fd, struct tenure_error *err)
{
    int dir = open(f->root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    *fd = -1;
    if (dir < 0)
        return errno == ENOENT ? tn_file_gone(f, err)
                               : tn_file_fail(err, errno, "cannot open", f->root, "");
    enum tenure_status status = check(f, dir, err);
    if (status)
        close(dir);
    else
        *fd = dir;
    return status;
}

enum tenure_status tn_file_present(struct tn_file *f, struct tenure_error *err)
{
    int fd;
    enum tenure_status status = tn_file_open_root(f, &fd, err);

    if (fd >= 0)
        close(fd);
    return status;
}
