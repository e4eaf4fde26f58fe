#include "guard/children.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* What getdents64(2) fills in. */
struct entry {
    uint64_t ino;
    int64_t off;
    unsigned short len;
    unsigned char type;
    char name[];
};

static bool spared(pid_t pid, const pid_t *spare, unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        if (spare[i] == pid)
            return true;
    }
    return false;
}

static pid_t parse_pid(const char *text, const char *end)
{
    pid_t pid = 0;

    for (; text < end && *text >= '0' && *text <= '9'; text++)
        pid = pid * 10 + (*text - '0');
    return text == end ? pid : 0;
}

/* A tree that is larger than this is reached in several rounds. */
#define QUEUE_MAX 4096

struct queue {
    bool blind; /* something could not be looked at */
    unsigned n;
    pid_t pids[QUEUE_MAX];
};

/* Take the numbers in one file, each followed by a blank. */
static void read_numbers(int fd, struct queue *q)
{
    char text[1024];
    size_t held = 0;
    ssize_t n;

    while ((n = read(fd, text + held, sizeof text - held)) > 0) {
        char *at = text, *end = text + held + n, *blank;

        while ((blank = memchr(at, ' ', (size_t)(end - at)))) {
            pid_t pid = parse_pid(at, blank);

            if (pid > 1 && q->n < QUEUE_MAX)
                q->pids[q->n++] = pid;
            at = blank + 1;
        }
        held = (size_t)(end - at);
        memmove(text, at, held);
    }
}

static int open_dir(const char *path)
{
    return open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

/* It ended while we looked. */
static bool is_gone(int error)
{
    return error == ENOENT || error == ESRCH;
}

/* The children of every thread of pid.  false: this kernel does not list them. */
static bool read_children(pid_t pid, struct queue *q)
{
    _Alignas(8) char buffer[1024];
    char path[48];
    bool any = false;
    long n;

    snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
    int dir = open_dir(path);
    if (dir < 0) {
        q->blind |= !is_gone(errno);
        return false;
    }
    while ((n = syscall(SYS_getdents64, dir, buffer, sizeof buffer)) > 0) {
        for (long at = 0; at < n;) {
            struct entry *e = (struct entry *)(void *)(buffer + at);

            at += e->len;
            if (e->name[0] == '.')
                continue;
            snprintf(path, sizeof path, "%.10s/children", e->name);
            int fd = openat(dir, path, O_RDONLY | O_CLOEXEC);
            if (fd < 0) {
                q->blind |= !is_gone(errno);
                continue;
            }
            any = true;
            read_numbers(fd, q);
            close(fd);
        }
    }
    close(dir);
    return any;
}

/* 0: it has none, or is gone.  -1: it cannot be told. */
static pid_t parent_of(const char *name)
{
    char path[32], text[512], *paren;
    pid_t parent = 0;

    snprintf(path, sizeof path, "/proc/%.10s/stat", name);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return is_gone(errno) ? 0 : -1;
    ssize_t n = read(fd, text, sizeof text - 1);
    int error = n < 0 ? errno : ESRCH;
    close(fd);
    if (n <= 0)
        return is_gone(error) ? 0 : -1;
    text[n] = '\0';
    /* "pid (name) state ppid": the name may hold anything, so look from the end. */
    paren = strrchr(text, ')');
    if (paren && strlen(paren) > 4) {
        char *number = paren + 4;
        parent = parse_pid(number, number + strspn(number, "0123456789"));
    }
    return parent;
}

/* The children alone, where the kernel lists none: a look through all of /proc. */
static unsigned kill_scanned(const pid_t *spare, unsigned n_spare)
{
    _Alignas(8) char buffer[4096];
    pid_t self = getpid();
    unsigned found = 0;
    long n;
    int fd = open_dir("/proc");

    if (fd < 0)
        return 1;
    while ((n = syscall(SYS_getdents64, fd, buffer, sizeof buffer)) > 0) {
        for (long at = 0; at < n;) {
            struct entry *e = (struct entry *)(void *)(buffer + at);
            pid_t pid = parse_pid(e->name, e->name + strlen(e->name));
            pid_t parent = pid > 1 && !spared(pid, spare, n_spare) ? parent_of(e->name) : 0;

            if (parent == self)
                kill(pid, SIGKILL);
            if (parent == self || parent < 0)
                found++;
            at += e->len;
        }
    }
    close(fd);
    return n < 0 ? found + 1 : found;
}

unsigned tn_children_kill(const pid_t *spare, unsigned n_spare, pid_t last)
{
    static struct queue q;
    unsigned found = 0;
    bool last_is_ours = false;

    q.n = 0;
    q.blind = false;
    if (!read_children(getpid(), &q))
        return kill_scanned(spare, n_spare);
    /* A parent is killed before its children are looked for, so that it cannot
     * have more of them.  Nobody waits for anybody to be scheduled and die:
     * under load that would take a while for each generation. */
    for (unsigned i = 0; i < q.n; i++) {
        if (spared(q.pids[i], spare, n_spare))
            continue;
        if (q.pids[i] == last)
            last_is_ours = true;
        else
            kill(q.pids[i], SIGKILL);
        read_children(q.pids[i], &q);
        found++;
    }
    if (last_is_ours)
        kill(last, SIGKILL);
    return found == 0 && q.blind ? 1 : found;
}

bool tn_children_descends(pid_t pid, pid_t from)
{
    char name[16];

    while (pid > 1) {
        snprintf(name, sizeof name, "%d", (int)pid);
        pid = parent_of(name);
        if (pid == from)
            return true;
    }
    return false;
}
