/*
 * The system calls of the file: store, with faults on order.  Included by the
 * one file of a test program: what is defined here is what the store calls.
 */
#ifndef TN_FILE_FAULTS_H
#define TN_FILE_FAULTS_H

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* What happens to the next calls, of any thread; all zero: nothing. */
static struct {
    _Atomic int64_t clock_ns; /* added to every clock */

    _Atomic int link_error;    /* link() answers this ... */
    _Atomic bool link_done;    /* ... and has been done all the same */
    void (*link_before)(void); /* what others do just before a link */
    void (*link_after)(void);  /* and just after it */

    _Atomic int sync_skip;   /* so many flushes succeed */
    _Atomic int sync_error;  /* then one answers this */
    _Atomic int64_t sync_ns; /* a flush takes so long */

    const char *_Atomic unlink_keep; /* this name cannot be removed */

    _Atomic int hide;        /* so many listings show nothing */
    _Atomic int ghosts;      /* so many show a slot 99 that is not there, and nothing else */
    _Atomic int64_t list_ns; /* a listing takes so long */

    _Atomic int inotify_error; /* there is no inotify */
    _Atomic int watch_error;   /* or there are no watches left */
    void (*watch_after)(void); /* what others do after as many watches were asked for ... */
    _Atomic int watch_skip;    /* ... as this, and one more */
    _Atomic int links, syncs, unlinks, listings, polls;
} faults;

int linkat(int from, const char *old, int to, const char *name, int flags)
{
    void (*before)(void) = faults.link_before, (*after)(void) = faults.link_after;

    faults.links++;
    faults.link_before = faults.link_after = NULL; /* others link too */
    int error = faults.link_error;
    faults.link_error = 0;
    if (before)
        before();
    long answer = 0;
    if (!error || faults.link_done)
        answer = syscall(SYS_linkat, from, old, to, name, flags);
    int saved = errno;
    if (after)
        after();
    errno = error ? error : saved;
    return error ? -1 : (int)answer;
}

int fsync(int fd)
{
    faults.syncs++;
    faults.clock_ns += faults.sync_ns;
    if (faults.sync_error && faults.sync_skip-- == 0) {
        errno = faults.sync_error;
        faults.sync_error = faults.sync_skip = 0;
        return -1;
    }
    return (int)syscall(SYS_fsync, fd);
}

int unlinkat(int dir, const char *name, int flags)
{
    faults.unlinks++;
    if (faults.unlink_keep && strcmp(name, faults.unlink_keep) == 0) {
        errno = EACCES;
        return -1;
    }
    return (int)syscall(SYS_unlinkat, dir, name, flags);
}

ssize_t getdents64(int fd, void *buffer, size_t size)
{
    faults.listings++;
    faults.clock_ns += faults.list_ns;
    if (faults.hide > 0) {
        faults.hide--;
        return 0;
    }
    if (faults.ghosts > 0) {
        struct dirent64 *entry = buffer;
        static bool told;

        told = !told;
        if (!told) {
            faults.ghosts--;
            return 0;
        }
        memset(entry, 0, sizeof *entry);
        entry->d_reclen = 64;
        strcpy(entry->d_name, "@0000000000000099");
        return 64;
    }
    return syscall(SYS_getdents64, fd, buffer, size);
}

int clock_gettime(clockid_t clock, struct timespec *ts)
{
    long answer = syscall(SYS_clock_gettime, clock, ts);
    int64_t ns = ts->tv_nsec + faults.clock_ns % 1000000000;

    ts->tv_sec += faults.clock_ns / 1000000000 + ns / 1000000000;
    ts->tv_nsec = ns % 1000000000;
    return (int)answer;
}

int inotify_init1(int flags)
{
    if (faults.inotify_error) {
        errno = faults.inotify_error;
        return -1;
    }
    return (int)syscall(SYS_inotify_init1, flags);
}

int inotify_add_watch(int fd, const char *path, uint32_t mask)
{
    if (faults.watch_error) {
        errno = faults.watch_error;
        return -1;
    }
    long wd = syscall(SYS_inotify_add_watch, fd, path, mask);
    if (faults.watch_after && faults.watch_skip-- == 0) {
        int saved = errno;
        void (*after)(void) = faults.watch_after;

        faults.watch_after = NULL;
        after();
        errno = saved;
    }
    return (int)wd;
}

#endif
