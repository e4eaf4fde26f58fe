/* What is mounted where, and a /proc of its own for the program's PID namespace. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <unistd.h>

#include "guard/guard.h"

/* A line that is longer is cut: its options come last. */
#define LINE_MAX_BYTES 4096

bool tn_mounts_walk(bool (*visit)(void *arg, const char *line), void *arg)
{
    static char text[2 * LINE_MAX_BYTES];
    int fd = open("/proc/self/mountinfo", O_RDONLY | O_CLOEXEC);
    size_t held = 0;
    bool cut = false, more = true;
    ssize_t n;

    if (fd < 0)
        return false;
    while (more && (n = read(fd, text + held, LINE_MAX_BYTES)) > 0) {
        char *line = text, *end = text + held + n, *next;

        for (; more && (next = memchr(line, '\n', (size_t)(end - line))); line = next + 1) {
            *next = '\0';
            more = cut || visit(arg, line);
            cut = false;
        }
        held = (size_t)(end - line);
        memmove(text, line, held);
        if (more && held >= LINE_MAX_BYTES) {
            text[LINE_MAX_BYTES - 1] = '\0';
            more = cut || visit(arg, text);
            cut = true;
            held = 0;
        }
    }
    close(fd);
    return true;
}

/* ---- /proc ---------------------------------------------------------------- */

struct proc {
    bool whole;  /* a writable procfs is mounted at /proc */
    bool hidden; /* and something over a part of it */
};

static bool look_at_proc(void *arg, const char *line)
{
    struct proc *p = arg;
    char root[256], point[256], options[64];

    if (sscanf(line, "%*s %*s %*s %255s %255s %63s", root, point, options) != 3)
        return true;
    if (strcmp(point, "/proc") == 0)
        p->whole =
            strcmp(root, "/") == 0 && strncmp(options, "rw", 2) == 0 && strstr(line, " - proc ");
    else if (strncmp(point, "/proc/", 6) == 0 && strcmp(point, "/proc/sys/fs/binfmt_misc") != 0)
        p->hidden = true;
    return true;
}

bool tn_proc_is_whole(void)
{
    struct proc p = {0};

    return tn_mounts_walk(look_at_proc, &p) && p.whole && !p.hidden;
}

int tn_proc_mount(void)
{
    /* The mount below ours alone stops to propagate.  All others stay as they are: what the program
     * mounts is seen by the machine, and what the machine unmounts is not kept in use here. */
    if (mount(NULL, "/proc", NULL, MS_SLAVE, NULL) != 0 ||
        mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) != 0)
        return errno;
    return 0;
}
