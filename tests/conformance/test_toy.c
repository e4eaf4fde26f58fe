/*
 * The suite on a store of somebody else: a sound one passes, and each planted
 * bug is noticed by the check that is meant for it.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "conformance.h"
#include "toy.h"

static unsigned passed, failed;
static char dir[] = "/tmp/tenure-toy-XXXXXX";

static enum tenure_status setup(void *arg, struct tenure_error *err)
{
    (void)arg;
    return tenure_store_register(&toy_store, err);
}

/* One run of the suite, in a process of its own because a hang ends the process. */
struct run {
    const char *bug;   /* or how it is sound */
    const char *check; /* that must fail; NULL: none may */
    pid_t pid;
    FILE *out;
    char path[100];
};

static void start(struct run *r)
{
    struct tenure_conformance_options o = {.version = TENURE_CONFORMANCE_OPTIONS,
                                           .setup = setup,
                                           .filter = r->check,
                                           .seconds = r->check ? 2 : 1,
                                           .call_ms = r->check ? 2000 : 0,
                                           .limit_s = r->check ? 60 : 0};
    char url[200];

    snprintf(r->path, sizeof r->path, "%s/%s", dir, r->bug);
    snprintf(url, sizeof url, "toy:%s?bug=%s", r->path, r->bug);
    if (strcmp(r->bug, "hangs") == 0 || strcmp(r->bug, "lock_outlives") == 0)
        o.limit_s = 2;
    r->out = o.out = tmpfile();
    if (!o.out)
        return;
    fflush(stdout);
    r->pid = fork();
    if (r->pid == 0)
        _exit(tenure_conformance_run(url, &o));
}

/* What it printed goes into out; returns its exit status, or -1. */
static int finish(struct run *r, char *out, size_t size)
{
    int status = -1;

    out[0] = '\0';
    if (r->pid > 0)
        waitpid(r->pid, &status, 0);
    if (r->out) {
        rewind(r->out);
        out[fread(out, 1, size - 1, r->out)] = '\0';
        fclose(r->out);
    }
    unlink(r->path);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void judge(bool well, const char *what, const char *out)
{
    printf("%s %s\n", well ? "ok      " : "FAILED  ", what);
    if (!well)
        printf("%s", out);
    fflush(stdout);
    *(well ? &passed : &failed) += 1;
}

static void judge_run(struct run *r)
{
    char out[16384], line[100], what[200];
    int status = finish(r, out, sizeof out);

    if (!r->check) {
        snprintf(what, sizeof what, "a sound store passes: %s", r->bug);
        judge(status == 0, what, out);
        return;
    }
    snprintf(line, sizeof line, "FAILED   %s: ", r->check);
    const char *found = strstr(out, line);
    snprintf(what, sizeof what, "%s: %.*s", r->bug, found ? (int)strcspn(found + 9, "\n") : 0,
             found ? found + 9 : "");
    judge(status == 1 && found, what, out);
}

#define AT_ONCE 4 /* most of them wait for a deadline */

int main(int argc, char **argv)
{
    static struct run runs[] = {{.bug = "always_known"},
                                {.bug = "often_unknown"},
#define X(name, noticed_by) {.bug = #name, .check = noticed_by},
                                TOY_BUGS(X)
#undef X
    };
    const size_t n = sizeof runs / sizeof runs[0];

    if (!mkdtemp(dir))
        return 2;
    for (size_t i = 0; i < n + AT_ONCE; i++) {
        bool chosen = i < n && (argc < 2 || strcmp(argv[1], runs[i].bug) == 0);

        if (i >= AT_ONCE && runs[i - AT_ONCE].path[0])
            judge_run(&runs[i - AT_ONCE]);
        if (chosen)
            start(&runs[i]);
    }
    rmdir(dir);
    printf("%u passed, %u failed\n", passed, failed);
    return failed != 0 || passed == 0;
}
