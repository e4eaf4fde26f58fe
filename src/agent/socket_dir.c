#include "agent/socket_dir.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum tenure_status tn_socket_dir_make(char dir[TN_SOCKET_DIR_MAX], struct tenure_error *err)
{
    const char *roots[] = {getenv("XDG_RUNTIME_DIR"), "/run", "/tmp"};

    for (size_t i = 0; i < sizeof roots / sizeof roots[0]; i++) {
        if (!roots[i] || roots[i][0] != '/' || strlen(roots[i]) > 60 ||
            access(roots[i], W_OK | X_OK) != 0)
            continue;
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
