/* What the system's errors mean for a register, in a status and a sentence. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "store/file/file.h"

static const struct {
    int error;
    enum tenure_status status;
    const char *advice;
} table[] = {
    {ENOSPC, TENURE_UNAVAILABLE, "make room on the disk"},
    {EDQUOT, TENURE_UNAVAILABLE, "make room, or raise the quota"},
    {EFBIG, TENURE_UNAVAILABLE, "raise the limit on file sizes"},
    {EROFS, TENURE_DENIED, "remount it for writing, or name another directory"},
    {EACCES, TENURE_DENIED, "give this user the rights to it, see ?mode="},
    {EPERM, TENURE_DENIED,
     "give this user the rights to it, see ?mode=; or is this a file system without hard links?"},
    {ENOTDIR, TENURE_CONFIG, "something else stands where a directory belongs"},
    {ELOOP, TENURE_CONFIG, "too many symbolic links"},
    {ENAMETOOLONG, TENURE_CONFIG, "name a directory with a shorter path"},
    {EXDEV, TENURE_CONFIG, "the whole store must be on one file system"},
    {EOPNOTSUPP, TENURE_CONFIG, "this file system has no hard links; name another"},
    {ENOSYS, TENURE_CONFIG, "this file system has no hard links; name another"},
    {EMLINK, TENURE_CONFIG, "this file system has no hard links; name another"},
    {ENOMEM, TENURE_NOMEM, "memory is short"},
    {EMFILE, TENURE_UNAVAILABLE, "raise the limit on open files"},
    {ENFILE, TENURE_UNAVAILABLE, "raise the system's limit on open files"},
    {EIO, TENURE_UNAVAILABLE, "look at the disk, or at the server behind it"},
    {ESTALE, TENURE_UNAVAILABLE, "the server knows it no longer; was it remounted?"},
};

enum tenure_status tn_file_fail(struct tenure_error *err, int error, const char *what,
                                const char *root, const char *below)
{
    enum tenure_status status = TENURE_UNAVAILABLE;
    const char *advice = "it may pass";

    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        if (table[i].error == error) {
            status = table[i].status;
            advice = table[i].advice;
        }
    }
    return tenure_fail(err, status, "file: %s %.300s%s%s: %s; %s", what, root, below[0] ? "/" : "",
                       below, strerror(error), advice);
}
