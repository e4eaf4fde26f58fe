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

/* Runs the suite in a process of its own, because a hang ends the process.
 * What it printed goes into out; returns its exit status, or -1. */
static int run(const char *bug, const char *check, char *out, size_t size)
{
    struct tenure_conformance_options o = {.version = TENURE_CONFORMANCE_OPTIONS,
                                           .setup = setup,
                                           .filter = check,
                                           .seconds = check ? 2 : 1,
                                           .call_ms = check ? 2000 : 0,
                                           .limit_s = check ? 60 : 0};
    char url[200], path[100];
    int status = -1;

    snprintf(path, sizeof path, "%s/%s", dir, bug);
    snprintf(url, sizeof url, "toy:%s?bug=%s", path, bug);
    if (strcmp(bug, "hangs") == 0 || strcmp(bug, "lock_outlives") == 0)
        o.limit_s = 2;
    o.out = tmpfile();
    if (!o.out)
        return -1;
    pid_t pid = fork();
    if (pid == 0)
        _exit(tenure_conformance_run(url, &o));
    if (pid > 0)
        waitpid(pid, &status, 0);
    rewind(o.out);
    out[fread(out, 1, size - 1, o.out)] = '\0';
    fclose(o.out);
    unlink(path);
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

static void sound(const char *how)
{
    char out[16384], what[80];
    int status = run(how, NULL, out, sizeof out);

    snprintf(what, sizeof what, "a sound store passes: %s", how);
    judge(status == 0, what, out);
}

static void noticed(const char *bug, const char *check)
{
    char out[16384], line[100], what[160];
    int status = run(bug, check, out, sizeof out);
    const char *found;

    snprintf(line, sizeof line, "FAILED   %s: ", check);
    found = strstr(out, line);
    snprintf(what, sizeof what, "%s: %.*s", bug, found ? (int)strcspn(found + 9, "\n") : 0,
             found ? found + 9 : "");
    judge(status == 1 && found, what, out);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *bug, *check;
    } bugs[] = {
#define X(name, check) {#name, check},
        TOY_BUGS(X)
#undef X
    };

    if (!mkdtemp(dir))
        return 2;
    if (argc < 2) {
        sound("always_known");
        sound("often_unknown");
    }
    for (size_t i = 0; i < sizeof bugs / sizeof bugs[0]; i++) {
        if (argc < 2 || strcmp(argv[1], bugs[i].bug) == 0)
            noticed(bugs[i].bug, bugs[i].check);
    }
    rmdir(dir);
    printf("%u passed, %u failed\n", passed, failed);
    return failed != 0;
}
