/*
 * Preloaded: whoever calls the system about files takes a nap now and then,
 * before the call or behind it, for up to 60 ms.  So processes sleep where a
 * busy machine lets them sleep, a thousand times as often.
 *
 * NAPS="ONE_IN LEAST_MS MOST_MS" for others: seldom ones that last, say, longer
 * than a store keeps what it needs no more.
 */
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static unsigned one_in = 33, least_ms, most_ms = 60;

__attribute__((constructor)) static void configure(void)
{
    const char *said = getenv("NAPS");
    unsigned n, least, most;

    if (!said)
        return;
    if (sscanf(said, "%u %u %u", &n, &least, &most) != 3 || n == 0 || most < least)
        abort(); /* a mistake in a test must not look like a quiet one */
    one_in = n;
    least_ms = least;
    most_ms = most;
}

static void nap(void)
{
    static _Thread_local uint64_t seed;
    struct timespec ts = {0};

    if (!seed) {
        clock_gettime(CLOCK_MONOTONIC, &ts);
        seed = ((uint64_t)ts.tv_nsec << 32) ^ (uint64_t)gettid() ^ (uint64_t)(uintptr_t)&seed;
    }
    seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407;
    if ((seed >> 33) % one_in != 0)
        return;
    uint64_t ms = least_ms + (seed >> 44) % (most_ms - least_ms + 1);
    ts = (struct timespec){.tv_sec = (time_t)(ms / 1000), .tv_nsec = (long)(ms % 1000) * 1000000};
    nanosleep(&ts, NULL);
}

/* The call itself, between two naps. */
#define BETWEEN_NAPS(type, name, params, args)                                                     \
    type name params                                                                               \
    {                                                                                              \
        type(*real) params;                                                                        \
        *(void **)&real = dlsym(RTLD_NEXT, #name); /* as POSIX has it */                           \
        nap();                                                                                     \
        type result = real args;                                                                   \
        nap();                                                                                     \
        return result;                                                                             \
    }

BETWEEN_NAPS(int, link, (const char *from, const char *to), (from, to))
BETWEEN_NAPS(int, unlink, (const char *path), (path))
BETWEEN_NAPS(int, linkat, (int from, const char *old, int to, const char *new, int flags),
             (from, old, to, new, flags))
BETWEEN_NAPS(int, unlinkat, (int dir, const char *path, int flags), (dir, path, flags))
BETWEEN_NAPS(int, fstatat64, (int dir, const char *path, struct stat64 *st, int flags),
             (dir, path, st, flags))
BETWEEN_NAPS(int, fdatasync, (int fd), (fd))
BETWEEN_NAPS(int, stat64, (const char *path, struct stat64 *st), (path, st))
BETWEEN_NAPS(int, statx, (int dir, const char *path, int flags, unsigned mask, struct statx *st),
             (dir, path, flags, mask, st))
BETWEEN_NAPS(ssize_t, pwrite64, (int fd, const void *data, size_t len, off64_t at),
             (fd, data, len, at))
BETWEEN_NAPS(DIR *, fdopendir, (int fd), (fd))
BETWEEN_NAPS(int, closedir, (DIR * dir), (dir))

/* The mode, if there is one. */
#define MODE(mode, flags)                                                                          \
    va_list rest;                                                                                  \
    va_start(rest, flags);                                                                         \
    mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(rest, mode_t) : 0;                        \
    va_end(rest)

int openat64(int dir, const char *path, int flags, ...)
{
    int (*real)(int, const char *, int, ...);

    MODE(mode, flags);
    *(void **)&real = dlsym(RTLD_NEXT, "openat64");
    nap();
    int fd = real(dir, path, flags, mode);
    nap();
    return fd;
}

int open64(const char *path, int flags, ...)
{
    MODE(mode, flags);
    return openat64(AT_FDCWD, path, flags, mode);
}
