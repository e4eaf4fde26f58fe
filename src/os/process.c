#include "os/process.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

/* The seconds of the wall clock at which the machine booted, as the kernel reckons now. */
static bool read_boot_time(double *boot_s)
{
    FILE *f = fopen("/proc/stat", "re");
    char line[256];
    bool found = false;

    while (f && !found && fgets(line, sizeof line, f))
        found = sscanf(line, "btime %lf", boot_s) == 1;
    if (f)
        fclose(f);
    return found;
}

static uint64_t count_fds(void)
{
    DIR *dir = opendir("/proc/self/fd");
    uint64_t n = 0;

    while (dir && readdir(dir))
        n++;
    if (dir)
        closedir(dir);
    return n > 3 ? n - 3 : 0; /* ".", ".." and the listing's own */
}

bool tn_process_read(struct tn_process *p)
{
    char text[1024];
    double boot_s = 0, ticks = (double)sysconf(_SC_CLK_TCK);
    uint64_t user, system, start, size;
    int64_t pages;
    struct rlimit limit;
    FILE *f = fopen("/proc/self/stat", "re");
    size_t n = f ? fread(text, 1, sizeof text - 1, f) : 0;

    if (f)
        fclose(f);
    text[n] = '\0';
    /* The name of the program, in parentheses, may hold anything; fields 14, 15 and 22 to 24. */
    const char *rest = strrchr(text, ')');
    if (!rest ||
        sscanf(rest + 1,
               " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %" SCNu64 " %" SCNu64
               " %*d %*d %*d %*d %*d %*d %" SCNu64 " %" SCNu64 " %" SCNd64,
               &user, &system, &start, &size, &pages) != 5 ||
        !read_boot_time(&boot_s))
        return false;
    *p = (struct tn_process){.cpu_s = (double)(user + system) / ticks,
                             .start_s = boot_s + (double)start / ticks,
                             .virtual_bytes = size,
                             .resident_bytes = (uint64_t)pages * (uint64_t)sysconf(_SC_PAGESIZE),
                             .open_fds = count_fds(),
                             .max_fds = UINT64_MAX};
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
        p->max_fds = limit.rlim_cur;
    return true;
}
