/* Plug-ins that tell who we are: a program prints an ExecCredential. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "os/clock.h"
#include "os/poll.h"
#include "os/secret.h"
#include "store/kube/access.h"
#include "tenure/store.h"

#define ARGS_MAX   64
#define OUTPUT_MAX (256u << 10)
#define FOREVER    INT64_MAX

extern char **environ;

static const char *text(const json_t *object, const char *name)
{
    const char *value = json_string_value(json_object_get(object, name));

    return value && *value ? value : NULL;
}

/* ---- What it is given ---------------------------------------------------- */

static void free_list(char **list)
{
    for (size_t i = 0; list && list[i]; i++)
        free(list[i]);
    free(list);
}

static char **arguments(const json_t *exec)
{
    const json_t *args = json_object_get(exec, "args");
    size_t n = json_array_size(args);
    char **list = n < ARGS_MAX ? calloc(n + 2, sizeof *list) : NULL;

    if (!list)
        return NULL;
    list[0] = strdup(text(exec, "command"));
    for (size_t i = 0; i < n; i++) {
        const char *one = json_string_value(json_array_get(args, i));

        list[i + 1] = strdup(one ? one : "");
    }
    return list;
}

/* Our own environment, what the kubeconfig adds, and what the plug-in is asked for. */
static char **environment(const json_t *exec)
{
    const json_t *extra = json_object_get(exec, "env");
    size_t n = 0, own = 0, more = json_array_size(extra);
    const char *version = text(exec, "apiVersion");
    char **list;

    while (environ[own])
        own++;
    list = more < ARGS_MAX ? calloc(own + more + 2, sizeof *list) : NULL;
    if (!list)
        return NULL;
    /* The first of a name counts. */
    for (size_t i = 0; i < more; i++) {
        const json_t *one = json_array_get(extra, i);
        const char *name = text(one, "name"), *value = text(one, "value");

        if (name && asprintf(&list[n], "%s=%s", name, value ? value : "") >= 0)
            n++;
    }
    if (asprintf(&list[n],
                 "KUBERNETES_EXEC_INFO={\"kind\":\"ExecCredential\",\"apiVersion\":\"%s\","
                 "\"spec\":{\"interactive\":false}}",
                 version ? version : "client.authentication.k8s.io/v1") >= 0)
        n++;
    for (size_t i = 0; i < own; i++) {
        if (strncmp(environ[i], "KUBERNETES_EXEC_INFO=", 21) != 0 && (list[n] = strdup(environ[i])))
            n++;
    }
    return list;
}

/* ---- Running it ---------------------------------------------------------- */

static int spawn(const json_t *exec, int out, pid_t *pid)
{
    char **argv = arguments(exec), **envp = environment(exec);
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attributes;
    sigset_t none;
    int error = ENOMEM;

    sigemptyset(&none);
    posix_spawn_file_actions_init(&files);
    posix_spawnattr_init(&attributes);
    /* A group of its own: what it starts can be ended with it. */
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETPGROUP);
    posix_spawnattr_setsigmask(&attributes, &none);
    if (argv && argv[0] && envp &&
        !posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0) &&
        !posix_spawn_file_actions_adddup2(&files, out, 1))
        error = posix_spawnp(pid, argv[0], &files, &attributes, argv, envp);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&files);
    free_list(argv);
    free_list(envp);
    return error;
}

/* All that it prints.  False: too much, or too slow. */
static bool read_output(int fd, char *out, int64_t deadline)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    size_t n = 0;

    while (n < OUTPUT_MAX && tn_poll(&p, 1, deadline) > 0) {
        ssize_t got = read(fd, out + n, OUTPUT_MAX - n);

        if (got <= 0) {
            out[n] = '\0';
            return got == 0;
        }
        n += (size_t)got;
    }
    return false;
}

/* What has no more to say may stay all the same.  False: it was ended, with all that it started. */
static bool reap(pid_t pid, bool quiet, int64_t deadline, int *state)
{
    const struct timespec moment = {.tv_nsec = 1000000};
    pid_t got;

    *state = 0;
    /* Somebody else may have reaped it: what it printed counts then. */
    while (quiet && ((got = waitpid(pid, state, WNOHANG)) == 0 || (got < 0 && errno == EINTR))) {
        quiet = tenure_now() < deadline;
        nanosleep(&moment, NULL);
    }
    if (quiet)
        return true;
    kill(-pid, SIGKILL);
    while (waitpid(pid, state, 0) < 0 && errno == EINTR)
        continue;
    return false;
}

static enum tenure_status run(const json_t *exec, char *out, int64_t deadline,
                              struct tenure_error *err)
{
    const char *command = text(exec, "command");
    int pipes[2], state, error;
    pid_t pid;
    bool all;

    if (pipe2(pipes, O_CLOEXEC))
        return tenure_fail(err, TENURE_UNAVAILABLE, "kube: no pipe: %s", strerror(errno));
    error = spawn(exec, pipes[1], &pid);
    close(pipes[1]);
    if (error) {
        const char *hint = text(exec, "installHint");

        close(pipes[0]);
        return tenure_fail(err, TENURE_CONFIG, "kube: plug-in %.100s: %s%s%.100s", command,
                           strerror(error), hint ? "; " : "", hint ? hint : "");
    }
    all = read_output(pipes[0], out, deadline);
    close(pipes[0]);
    if (!reap(pid, all, deadline, &state))
        return tenure_fail(err, TENURE_UNAVAILABLE,
                           "kube: plug-in %.100s did not end in time, or prints too much", command);
    if (!WIFEXITED(state) || WEXITSTATUS(state))
        return tenure_fail(err, TENURE_DENIED, "kube: plug-in %.100s failed (%s %d)", command,
                           WIFEXITED(state) ? "exit" : "signal",
                           WIFEXITED(state) ? WEXITSTATUS(state) : WTERMSIG(state));
    return TENURE_OK;
}

/* ---- What it says -------------------------------------------------------- */

/* When to ask again, on our own clock; the wall clock decides nothing but that. */
static int64_t expiry(const char *when)
{
    struct tm tm = {0};
    time_t at;

    if (!when || !strptime(when, "%Y-%m-%dT%H:%M:%S", &tm) || (at = timegm(&tm)) < 0)
        return FOREVER;
    int64_t left = (int64_t)at * 1000 - (int64_t)tn_wall_ms() - 10000;
    if (left < 0)
        left = 0;
    return left > INT64_C(1000000000000) ? FOREVER : tenure_now() + left * 1000000;
}

static void replace(char **member, const char *with)
{
    tn_secret_free(*member);
    *member = with ? strdup(with) : NULL;
}

enum tenure_status tn_kube_exec_take(struct tn_kube_access *a, const char *out,
                                     struct tenure_error *err)
{
    json_t *root = json_loads(out, 0, NULL);
    const json_t *status = json_object_get(root, "status");
    const char *kind = text(root, "kind"), *token = text(status, "token");
    const char *cert = text(status, "clientCertificateData"), *key = text(status, "clientKeyData");
    enum tenure_status result = TENURE_OK;

    if (!kind || strcmp(kind, "ExecCredential") != 0 || (!token && !cert) || !cert != !key) {
        result = tenure_fail(err, TENURE_DENIED,
                             "kube: plug-in %.100s printed no ExecCredential with a token, or a "
                             "certificate and its key",
                             text(a->exec, "command"));
    } else {
        replace(&a->exec_token, token);
        replace(&a->exec_cert, cert);
        replace(&a->exec_key, key);
        a->exec_until = expiry(text(status, "expirationTimestamp"));
        a->exec_done = true;
    }
    json_decref(root);
    return result;
}

enum tenure_status tn_kube_exec(struct tn_kube_access *a, int64_t deadline,
                                struct tenure_error *err)
{
    char *out = calloc(1, OUTPUT_MAX + 1);
    enum tenure_status status =
        out ? run(a->exec, out, deadline, err) : tenure_fail(err, TENURE_NOMEM, "out of memory");

    if (!status)
        status = tn_kube_exec_take(a, out, err);
    if (out)
        explicit_bzero(out, OUTPUT_MAX);
    free(out);
    return status;
}
