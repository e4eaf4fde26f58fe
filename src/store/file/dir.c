/* The directories of a file: store, and the files that are being written in it. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/hex.h"
#include "os/fs.h"
#include "store/file/file.h"

#define DIR_FLAGS (O_RDONLY | O_DIRECTORY | O_CLOEXEC)

bool tn_file_path(const struct tn_file *f, const char *below, char path[PATH_MAX])
{
    int n = snprintf(path, PATH_MAX, "%s%s%s", f->root, below[0] ? "/" : "", below);

    return n > 0 && n < PATH_MAX;
}

/* Ask the server about each directory on the way down, so that a directory
 * which another host has made is not missed because this one remembers its
 * absence. */
static void refresh_way(struct tn_file *f, const char *below)
{
    char path[PATH_MAX];
    size_t n = strlen(f->root);

    if (!tn_file_path(f, below, path))
        return;
    for (;;) {
        char cut = path[n];

        path[n] = '\0';
        int fd = open(path, DIR_FLAGS);
        path[n] = cut;
        if (fd < 0)
            return;
        tn_fs_refresh(fd);
        close(fd);
        if (cut == '\0')
            return;
        n += 1 + strcspn(path + n + 1, "/");
    }
}

enum tenure_status tn_file_open_dir(struct tn_file *f, const char *below, int *fd,
                                    struct tenure_error *err)
{
    char path[PATH_MAX];
    int root;

    *fd = -1;
    if (!tn_file_path(f, below, path))
        return tn_file_fail(err, ENAMETOOLONG, "cannot open", f->root, below);
    /* By its path every time, never by a kept descriptor: a directory that was
     * moved away or mounted over is not the one that others use. */
    enum tenure_status status = tn_file_open_root(f, &root, err);
    if (status)
        return status;
    const char *name = below[0] ? below : ".";
    int dir = openat(root, name, DIR_FLAGS);
    if (dir < 0 && errno == ENOENT && f->network) {
        refresh_way(f, below);
        dir = openat(root, name, DIR_FLAGS);
    }
    int saved = errno;
    close(root);
    if (dir < 0)
        return saved == ENOENT ? TENURE_OK
                               : tn_file_fail(err, saved, "cannot open", f->root, below);
    if (f->network && !tn_fs_refresh(dir)) {
        saved = errno;
        close(dir);
        return tn_file_fail(err, saved, "cannot look at", f->root, below);
    }
    *fd = dir;
    return TENURE_OK;
}

enum tenure_status tn_file_make_dirs(struct tn_file *f, const char *key, struct tenure_error *err)
{
    char path[PATH_MAX];
    size_t n = strlen(f->root);

    if (!tn_file_path(f, key, path))
        return tn_file_fail(err, ENAMETOOLONG, "cannot make", f->root, key);
    while (path[n]) {
        n += 1 + strcspn(path + n + 1, "/");
        char cut = path[n];

        path[n] = '\0';
        if (mkdir(path, f->dir_mode) == 0) {
            if (f->exact_mode && chmod(path, f->dir_mode) != 0)
                return tn_file_fail(err, errno, "cannot set the mode of", path, "");
        } else if (errno != EEXIST) {
            return tn_file_fail(err, errno, "cannot make", path, "");
        }
        path[n] = cut;
    }
    return TENURE_OK;
}

bool tn_file_sync_dir(int fd)
{
    return fsync(fd) == 0 || errno == EINVAL || errno == ENOSYS || errno == EOPNOTSUPP;
}

enum tenure_status tn_file_sync_above(struct tn_file *f, const char *key, struct tenure_error *err)
{
    size_t root = strlen(f->root);
    char path[PATH_MAX];

    if (!tn_file_path(f, key, path))
        return tn_file_fail(err, ENAMETOOLONG, "cannot flush", f->root, key);
    for (bool above = false; !above;) {
        char *slash = strrchr(path, '/');

        above = (size_t)(slash - path) < root; /* the root's own name is there */
        slash[slash == path] = '\0';
        int fd = open(path, DIR_FLAGS);
        if (fd < 0 && errno == EACCES && above && !f->made)
            break; /* an administrator's place; he made the directory long ago */
        bool done = fd >= 0 && tn_file_sync_dir(fd);
        int saved = errno;
        if (fd >= 0)
            close(fd);
        if (!done)
            return tn_file_fail(err, saved, "cannot flush", path, "");
    }
    return TENURE_OK;
}

/* ---- Temporary files ----------------------------------------------------- */

static bool write_all(int fd, const void *head, size_t head_len, const void *data, size_t len)
{
    struct iovec parts[2] = {{.iov_base = (void *)(uintptr_t)head, .iov_len = head_len},
                             {.iov_base = (void *)(uintptr_t)data, .iov_len = len}};

    while (parts[0].iov_len + parts[1].iov_len > 0) {
        ssize_t n = writev(fd, parts, 2);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return false;
        for (int i = 0; i < 2; i++) {
            size_t step = (size_t)n < parts[i].iov_len ? (size_t)n : parts[i].iov_len;

            if (step) /* nothing may be added to NULL, not even 0 */
                parts[i].iov_base = (char *)parts[i].iov_base + step;
            parts[i].iov_len -= step;
            n -= (ssize_t)step;
        }
    }
    return true;
}

static int create(struct tn_file *f, const uint8_t nonce[TENURE_NONCE_SIZE],
                  struct tn_file_temp *temp)
{
    char hex[TN_NONCE_HEX + 1], path[PATH_MAX];
    int fd = -1;

    tn_hex_encode(nonce, TENURE_NONCE_SIZE, hex);
    for (int tries = 0; tries < 4 && fd < 0; tries++) {
        snprintf(temp->name, sizeof temp->name, TN_FILE_TMP "/%s-%ld-%" PRIu64, hex, (long)getpid(),
                 ++f->serial);
        if (!tn_file_path(f, temp->name, path)) {
            errno = ENAMETOOLONG;
            return -1;
        }
        fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, f->file_mode);
        if (fd < 0 && errno != EEXIST)
            return -1;
    }
    return fd;
}

enum tenure_status tn_file_temp_write(struct tn_file *f, const uint8_t nonce[TENURE_NONCE_SIZE],
                                      const void *head, size_t head_len, const void *data,
                                      size_t len, struct tn_file_temp *temp,
                                      struct tenure_error *err)
{
    enum tenure_status status = TENURE_OK;

    temp->fd = create(f, nonce, temp);
    if (temp->fd < 0 && errno == ENOENT) {
        status = tn_file_present(f, err);
        if (!status)
            status = tn_file_make_dirs(f, TN_FILE_TMP, err);
        if (status)
            return status;
        temp->fd = create(f, nonce, temp);
    }
    if (temp->fd < 0)
        return tn_file_fail(err, errno, "cannot write in", f->root, TN_FILE_TMP);
    if ((f->exact_mode && fchmod(temp->fd, f->file_mode) != 0) ||
        !write_all(temp->fd, head, head_len, data, len)) {
        status = tn_file_fail(err, errno, "cannot write in", f->root, TN_FILE_TMP);
        tn_file_temp_remove(f, temp);
    }
    return status;
}

enum tenure_status tn_file_temp_sync(struct tn_file *f, struct tn_file_temp *temp,
                                     struct tenure_error *err)
{
    bool done = fsync(temp->fd) == 0;
    int saved = errno;

    /* Some file systems tell a failed write only here. */
    if (close(temp->fd) != 0 && done) {
        done = false;
        saved = errno;
    }
    temp->fd = -1;
    if (done)
        return TENURE_OK;
    enum tenure_status status = tn_file_fail(err, saved, "cannot write in", f->root, TN_FILE_TMP);
    tn_file_temp_remove(f, temp);
    return status;
}

void tn_file_temp_remove(struct tn_file *f, struct tn_file_temp *temp)
{
    char path[PATH_MAX];

    if (temp->fd >= 0)
        close(temp->fd);
    temp->fd = -1;
    if (temp->name[0] && tn_file_path(f, temp->name, path))
        unlink(path);
    temp->name[0] = '\0';
}
