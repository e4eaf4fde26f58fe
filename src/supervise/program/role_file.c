#include "supervise/program/role_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/hex.h"
#include "tenure/store.h"

enum tenure_status tn_role_file_open(struct tn_role_file *f, const char *path,
                                     struct tenure_error *err)
{
    char folder[PATH_MAX] = ".";

    *f = TN_ROLE_FILE_NONE;
    if (!path)
        return TENURE_OK;
    const char *slash = strrchr(path, '/');
    f->name = slash ? slash + 1 : path;
    if (!f->name[0] || strlen(f->name) > NAME_MAX - 20 || strlen(path) >= sizeof folder)
        return tenure_fail(err, TENURE_CONFIG, "the role file '%.200s' is not a file's name", path);
    if (slash)
        snprintf(folder, sizeof folder, "%.*s", slash == path ? 1 : (int)(slash - path), path);
    f->dir = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (f->dir < 0)
        return tenure_fail(err, TENURE_CONFIG, "the role file's directory %.200s: %s", folder,
                           strerror(errno));
    return TENURE_OK;
}

/* Under a name that nobody can have taken, nor a link be waiting under. */
static int make_fresh(const struct tn_role_file *f, char name[NAME_MAX + 1])
{
    uint8_t nonce[TENURE_NONCE_SIZE];
    char digits[17];

    if (tenure_nonce(nonce, NULL) != TENURE_OK)
        return -1;
    tn_hex_encode(nonce, 8, digits);
    snprintf(name, NAME_MAX + 1, ".%s.%s", f->name, digits);
    return openat(f->dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
}

enum tenure_status tn_role_file_write(const struct tn_role_file *f, uint64_t epoch,
                                      struct tenure_error *err)
{
    char text[64], name[NAME_MAX + 1];
    enum tenure_status status = TENURE_OK;

    if (f->dir < 0)
        return TENURE_OK;
    int n = epoch ? snprintf(text, sizeof text, "leading %" PRIu64 "\n", epoch)
                  : snprintf(text, sizeof text, "standby\n");
    int fd = make_fresh(f, name);
    if (fd < 0 || write(fd, text, (size_t)n) != n || renameat(f->dir, name, f->dir, f->name) != 0) {
        status = tenure_fail(err, TENURE_UNAVAILABLE, "cannot write the role file %s: %s", f->name,
                             strerror(errno));
        if (fd >= 0)
            unlinkat(f->dir, name, 0);
    }
    if (fd >= 0)
        close(fd);
    return status;
}

void tn_role_file_close(struct tn_role_file *f)
{
    if (f->dir >= 0)
        close(f->dir);
    *f = TN_ROLE_FILE_NONE;
}
