/* The last steps of a new program before it is itself. */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/close_range.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "guard/guard.h"
#include "guard/launcher.h"

/* A block that was found to hold together. */
struct program {
    const struct tn_guard_block *block;
    const char *file;
    const char *cwd;
    char **args;
    char **env;
};

/* The next string, or NULL if the block ends first. */
static char *next_string(char **at, char *end)
{
    char *text = *at;
    char *nul = text < end ? memchr(text, '\0', (size_t)(end - text)) : NULL;

    if (!nul)
        return NULL;
    *at = nul + 1;
    return text;
}

static int read_strings(struct program *p, char *at, char *end, char **pointers)
{
    const struct tn_guard_block *b = p->block;

    p->file = next_string(&at, end);
    p->cwd = next_string(&at, end);
    p->args = pointers;
    p->env = pointers + b->n_args + 1;
    for (uint32_t i = 0; i < b->n_args; i++)
        p->args[i] = next_string(&at, end);
    for (uint32_t i = 0; i < b->n_env; i++)
        p->env[i] = next_string(&at, end);
    if (!p->file || !p->cwd || (b->n_args && !p->args[b->n_args - 1]) ||
        (b->n_env && !p->env[b->n_env - 1]))
        return EINVAL;
    return 0;
}

/* Map the block and turn its strings into what execve(2) wants. */
static int read_block(int fd, struct program *p)
{
    struct stat st;

    if (fstat(fd, &st) != 0)
        return errno;
    if (st.st_size < (off_t)sizeof *p->block || st.st_size > TN_BLOCK_MAX)
        return EINVAL;
    char *data = mmap(NULL, (size_t)st.st_size, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
    if (data == MAP_FAILED)
        return errno;
    p->block = (const struct tn_guard_block *)(void *)data;

    const struct tn_guard_block *b = p->block;
    size_t fixed = sizeof *b + (size_t)b->n_groups * sizeof(uint32_t);
    if (b->size != st.st_size || b->n_args == 0 || b->n_args > b->size || b->n_env > b->size ||
        b->n_groups > b->size / sizeof(uint32_t) || fixed > b->size)
        return EINVAL;
    size_t bytes = ((size_t)b->n_args + b->n_env + 2) * sizeof(char *);
    char **pointers = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pointers == MAP_FAILED)
        return errno;
    return read_strings(p, data + fixed, data + b->size, pointers);
}

/* The guard made itself hard to kill and quick to run; the program is neither. */
static void restore_origin(const struct tn_guard_origin *origin)
{
    struct rlimit files;
    char text[16];

    setpriority(PRIO_PROCESS, 0, origin->nice);
    if (origin->files && getrlimit(RLIMIT_NOFILE, &files) == 0) {
        files.rlim_cur = origin->files;
        setrlimit(RLIMIT_NOFILE, &files);
    }
    if (!origin->oom_known)
        return;
    int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return;
    int n = snprintf(text, sizeof text, "%d", origin->oom_score_adj);
    if (write(fd, text, (size_t)n) < 0) {
        /* Refused: it stays as it is, which harms nobody's lease. */
    }
    close(fd);
}

static int become_user(const struct tn_guard_block *b)
{
    const uint32_t *groups = (const uint32_t *)(const void *)(b + 1);

    if (!(b->flags & TN_BLOCK_USER))
        return 0;
    /* uid_t and gid_t are 32 bits wide on every Linux. */
    if (setgroups(b->n_groups, (const gid_t *)groups) != 0 ||
        setresgid(b->gid, b->gid, b->gid) != 0 || setresuid(b->uid, b->uid, b->uid) != 0)
        return errno;
    return 0;
}

static void unblock(uint64_t mask)
{
    sigset_t set;

    sigemptyset(&set);
    for (int i = 1; i <= 64; i++) {
        if (mask & (UINT64_C(1) << (i - 1)))
            sigaddset(&set, i);
    }
    sigprocmask(SIG_SETMASK, &set, NULL);
}

int tn_child_exec(const struct tn_tree_init_orders *orders, enum tn_guard_stage *stage)
{
    struct program p = {0};
    int error = read_block(orders->block, &p);

    *stage = TN_STAGE_BLOCK;
    if (error)
        return error;
    setpgid(0, 0);
    prctl(PR_SET_DUMPABLE, 1, 0, 0, 0); /* it has no secrets, and files of its own in /proc */
    restore_origin(&orders->origin);
    *stage = TN_STAGE_USER;
    error = become_user(p.block);
    if (error)
        return error;
    *stage = TN_STAGE_CWD;
    if (p.cwd[0] && chdir(p.cwd) != 0)
        return errno;
    /* After the change of user, which clears it.  Without no_new_privs a
     * set-user-id program would clear it once more. */
    if (!(p.block->flags & TN_BLOCK_PRIVS))
        prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    if (getppid() != orders->tree_init)
        _exit(127); /* the tree's init died before the signal was asked for */
    syscall(SYS_close_range, 3u, ~0u, CLOSE_RANGE_CLOEXEC);
    /* Never 3 itself: that is the init's socket. */
    if (orders->pass >= 0 && dup2(orders->pass, TN_LAUNCHER_FD) < 0)
        return errno;
    if (p.block->ignored)
        signal((int)p.block->ignored, SIG_IGN);
    unblock(p.block->mask);
    *stage = TN_STAGE_EXEC;
    environ = p.env; /* its PATH is where the file is looked for */
    execvp(p.file, p.args);
    return errno;
}
