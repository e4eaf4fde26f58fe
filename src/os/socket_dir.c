#include "os/socket_dir.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "os/log.h"

/* Why a directory there could be taken away or replaced by somebody else; NULL: nobody can, or may.
 */
static const char *objection(const char *root)
{
    struct stat st;

    if (root[0] != '/')
        return "it is not an absolute path";
    if (strlen(root) > 60)
        return "it is too long for the path of a socket";
    if (lstat(root, &st) != 0 || (S_ISDIR(st.st_mode) && access(root, W_OK | X_OK) != 0))
        return strerror(errno);
    if (!S_ISDIR(st.st_mode))
        return "it is not a directory";
    if (st.st_uid != geteuid() && st.st_uid != 0)
        return "it belongs to another user";
    if ((st.st_mode & (S_IWGRP | S_IWOTH)) && !(st.st_mode & S_ISVTX))
        return "others may write there";
    return NULL;
}

enum tenure_status tn_socket_dir_make(char dir[TN_SOCKET_DIR_MAX], struct tenure_error *err)
{
    const char *roots[] = {getenv("XDG_RUNTIME_DIR"), "/run", "/tmp"};

    for (size_t i = 0; i < sizeof roots / sizeof roots[0]; i++) {
        if (!roots[i] || !roots[i][0])
            continue;
        const char *why = objection(roots[i]);
        if (why) {
            if (i == 0)
                tn_log("socket", "XDG_RUNTIME_DIR %.80s is not used: %s", roots[i], why);
            continue;
        }
        snprintf(dir, TN_SOCKET_DIR_MAX, "%s/tenure-XXXXXX", roots[i]);
        if (mkdtemp(dir))
            return TENURE_OK;
    }
    dir[0] = '\0';
    return tenure_fail(err, TENURE_CONFIG,
                       "no place for the socket: set XDG_RUNTIME_DIR to a directory of yours");
}

enum tenure_status tn_socket_dir_give(const char *dir, const char *socket, uid_t user,
                                      struct tenure_error *err)
{
    if (!user || (lchown(socket, user, (gid_t)-1) == 0 && lchown(dir, user, (gid_t)-1) == 0))
        return TENURE_OK;
    return tenure_fail(err, TENURE_CONFIG, "cannot give %s to the program's user: %s", dir,
                       strerror(errno));
}
