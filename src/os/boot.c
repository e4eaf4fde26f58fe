#include "boot.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "base/sum.h"

bool tn_boot_clock(char out[TN_BOOT_CLOCK + 1])
{
    char id[64], space[64];
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);

    if (fd < 0)
        return false;
    ssize_t n = read(fd, id, sizeof id);
    close(fd);
    if (n <= 0)
        return false;
    uint64_t sum = tn_sum(TN_SUM_START, id, (size_t)n);
    /* Kernels without time namespaces have no such file, and one clock. */
    n = readlink("/proc/self/ns/time", space, sizeof space);
    if (n > 0)
        sum = tn_sum(sum, space, (size_t)n);
    snprintf(out, TN_BOOT_CLOCK + 1, "%016" PRIx64, sum);
    return true;
}
