/* A cgroup v2 of our own, where we may make one: killed as a whole, atomically. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "guard/guard.h"

/* Read a small file of /proc.  Returns its length; text is terminated. */
static ssize_t slurp(const char *path, char *text, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    size_t held = 0;
    ssize_t n;

    if (fd < 0)
        return -1;
    while (held + 1 < size && (n = read(fd, text + held, size - 1 - held)) > 0)
        held += (size_t)n;
    close(fd);
    text[held] = '\0';
    return (ssize_t)held;
}

struct place {
    char *out;
    size_t size;
    bool found;
};

/* The line of mountinfo whose type is cgroup2. */
static bool is_cgroup2(void *arg, const char *line)
{
    struct place *p = arg;
    char point[256];

    p->found = strstr(line, " - cgroup2 ") && sscanf(line, "%*s %*s %*s %*s %255s", point) == 1;
    if (p->found)
        snprintf(p->out, p->size, "%s", point);
    return !p->found;
}

static bool find_mount(char *out, size_t size)
{
    struct place p = {.out = out, .size = size};

    return tn_mounts_walk(is_cgroup2, &p) && p.found;
}

/* Our own place in it: the line "0::/path". */
static bool find_own(char *out, size_t size)
{
    char text[4096];

    if (slurp("/proc/self/cgroup", text, sizeof text) <= 0)
        return false;
    char *line = strncmp(text, "0::", 3) == 0 ? text : strstr(text, "\n0::");
    if (!line)
        return false;
    line = strchr(line, '/');
    if (!line)
        return false;
    line[strcspn(line, "\n")] = '\0';
    snprintf(out, size, "%s", strcmp(line, "/") == 0 ? "" : line);
    return true;
}

/* So many names may be taken: by a guard of the same number in another PID namespace, or one that
 * was killed. */
#define NAMES_MAX 1000

/* A directory that was not there before: whoever is in another one must not be killed with the
 * program. 0 or errno. */
static int make_new(struct tn_tree *tree, const char *mount, const char *own)
{
    static unsigned made;

    for (int i = 0; i < NAMES_MAX; i++) {
        snprintf(tree->cgroup_path, sizeof tree->cgroup_path, "%s%s/tenure-%d-%u", mount, own,
                 (int)getpid(), ++made);
        if (mkdir(tree->cgroup_path, 0755) == 0)
            return 0;
        if (errno != EEXIST)
            break;
    }
    tree->cgroup_path[0] = '\0';
    return errno;
}

/* Nobody has put another one in its place since, and nobody else can move processes into it. */
static bool is_ours(int cgroup)
{
    struct stat st;

    if (fstat(cgroup, &st) == 0 && st.st_uid == geteuid() && !(st.st_mode & (S_IWGRP | S_IWOTH)))
        return true;
    errno = EPERM;
    return false;
}

int tn_cgroup_make(struct tn_tree *tree)
{
    char mount[256], own[160];

    if (!find_mount(mount, sizeof mount) || !find_own(own, sizeof own))
        return ENOENT;
    int error = make_new(tree, mount, own);
    if (error)
        return error;
    tree->cgroup = open(tree->cgroup_path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (tree->cgroup < 0 || !is_ours(tree->cgroup) ||
        faccessat(tree->cgroup, "cgroup.kill", W_OK, AT_EACCESS) != 0 ||
        faccessat(tree->cgroup, "cgroup.procs", W_OK, AT_EACCESS) != 0) {
        error = errno;
        tn_cgroup_remove(tree);
    }
    return error;
}

void tn_cgroup_kill(const struct tn_tree *tree)
{
    if (tree->cgroup < 0)
        return;
    int fd = openat(tree->cgroup, "cgroup.kill", O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return;
    if (write(fd, "1", 1) < 0) {
        /* Tried again until the cgroup is empty. */
    }
    close(fd);
}

bool tn_cgroup_empty(const struct tn_tree *tree)
{
    char text[128];

    if (tree->cgroup < 0)
        return true;
    int fd = openat(tree->cgroup, "cgroup.events", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return errno == ENOENT;
    ssize_t n = read(fd, text, sizeof text - 1);
    close(fd);
    text[n > 0 ? n : 0] = '\0';
    return strstr(text, "populated 0") != NULL;
}

void tn_cgroup_remove(struct tn_tree *tree)
{
    if (tree->cgroup >= 0)
        close(tree->cgroup);
    if (tree->cgroup_path[0])
        rmdir(tree->cgroup_path);
    tree->cgroup = -1;
    tree->cgroup_path[0] = '\0';
}
