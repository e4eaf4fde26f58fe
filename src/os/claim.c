#include "os/claim.h"

#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/sum.h"

bool tn_claim(const char *const words[], int *fd)
{
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    uint64_t sum = TN_SUM_START;

    for (; *words; words++)
        sum = tn_sum(sum, *words, strlen(*words) + 1); /* its end counts */
    /* In the abstract namespace: no file, nothing to clean up. */
    int n = snprintf(addr.sun_path + 1, sizeof addr.sun_path - 1, "tenure-claim-%016" PRIx64, sum);
    int s = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);

    *fd = -1;
    if (s >= 0 && bind(s, (struct sockaddr *)&addr,
                       (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n)) == 0) {
        *fd = s;
        return true;
    }
    bool taken = s >= 0 && errno == EADDRINUSE;
    if (s >= 0)
        close(s);
    return !taken;
}
