#include "supervise/program/program.h"

#include <errno.h>
#include <grp.h>
#include <inttypes.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/url.h"
#include "guard/protocol.h"

#define GROUPS_MAX 256

/* ---- The command --------------------------------------------------------- */

static bool runnable(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0 && S_ISREG(st.st_mode) && access(path, X_OK) == 0;
}

/* As the program itself will see it, from its own directory. */
static void place(const struct tn_program *p, char *out, size_t size, const char *folder, int n,
                  const char *command)
{
    bool away = p->cwd && (n ? folder[0] : command[0]) != '/';

    snprintf(out, size, "%s%s%.*s%s%s", away ? p->cwd : "", away ? "/" : "", n, folder,
             n ? "/" : "", command);
}

/* Where it is looked for: in its own PATH, which may be another one than ours. */
static const char *path_of(char *const *env)
{
    for (; env && *env; env++) {
        if (strncmp(*env, "PATH=", 5) == 0)
            return *env + 5;
    }
    return "/bin:/usr/bin";
}

enum tenure_status tn_program_check(const struct tn_program *p, struct tenure_error *err)
{
    const char *command = p->args[0];
    const char *path = path_of(p->env);
    char file[4096];
    bool seen = false;

    if (p->cwd && access(p->cwd, X_OK) != 0)
        return TENURE_OK; /* told when it is to be run there */
    if (strchr(command, '/')) {
        place(p, file, sizeof file, "", 0, command);
        if (runnable(file))
            return TENURE_OK;
        if (access(file, F_OK) == 0)
            return tenure_fail(err, TENURE_DENIED, "%s cannot be executed: %s", command,
                               errno == EACCES ? strerror(errno) : "it is not an executable file");
        return tenure_fail(err, TENURE_INVALID, "%s: %s", command, strerror(errno));
    }
    for (const char *at = path; at;) {
        int n = (int)strcspn(at, ":");

        place(p, file, sizeof file, at, n, command);
        if (runnable(file))
            return TENURE_OK;
        seen |= access(file, F_OK) == 0;
        at = at[n] ? at + n + 1 : NULL;
    }
    if (seen)
        return tenure_fail(err, TENURE_DENIED, "%s was found in PATH, but cannot be executed",
                           command);
    return tenure_fail(err, TENURE_INVALID, "%s was not found in PATH", command);
}

/* ---- The environment ----------------------------------------------------- */

static bool for_us_alone(const char *variable)
{
    static const char *const names[] = {"NOTIFY_SOCKET=", "WATCHDOG_USEC=", "WATCHDOG_PID=",
                                        "LISTEN_FDS=",    "LISTEN_PID=",    "LISTEN_FDNAMES="};

    if (strncmp(variable, "TENURE_", 7) == 0)
        return true;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strncmp(variable, names[i], strlen(names[i])) == 0)
            return true;
    }
    return false;
}

/* Does the URL say that this variable holds a password: "...?password_env=NAME"?  As the store
 * itself reads it, escapes and all. */
static bool holds_secret(const struct tn_url *url, const char *variable)
{
    size_t len = strcspn(variable, "=");

    for (unsigned i = 0; i < url->n_params; i++) {
        const char *name = url->params[i].name, *value = url->params[i].value;
        size_t n = strlen(name);

        if (n >= 4 && strcmp(name + n - 4, "_env") == 0 && strlen(value) == len &&
            strncmp(value, variable, len) == 0)
            return true;
    }
    return false;
}

static bool add(char **list, size_t *n, const char *name, const char *value)
{
    return asprintf(&list[*n], "%s%s%s", name, value ? "=" : "", value ? value : "") >= 0 && ++*n;
}

static bool replaced(const char *variable, const char *const *extra)
{
    size_t len = strcspn(variable, "=") + 1;

    for (; extra && *extra; extra++) {
        if (strncmp(variable, *extra, len) == 0)
            return true;
    }
    return false;
}

char **tn_program_env(char *const *env, const struct tn_program_env_spec *f)
{
    struct tn_url store = {0}, state = {0};
    size_t count = 8, n = 0;
    char epoch[24];
    bool ok = (!f->store || tn_url_parse(f->store, &store, NULL) == TENURE_OK) &&
              (!f->state || tn_url_parse(f->state, &state, NULL) == TENURE_OK);

    for (size_t i = 0; env[i]; i++)
        count++;
    for (size_t i = 0; f->extra && f->extra[i]; i++)
        count++;
    char **list = calloc(count, sizeof *list);
    ok = ok && list;
    for (size_t i = 0; ok && env[i]; i++) {
        if (!for_us_alone(env[i]) && !holds_secret(&store, env[i]) &&
            !holds_secret(&state, env[i]) && !replaced(env[i], f->extra))
            ok = add(list, &n, env[i], NULL);
    }
    tn_url_free(&store);
    tn_url_free(&state);
    snprintf(epoch, sizeof epoch, "%" PRIu64, f->epoch);
    ok = ok && (!f->name || add(list, &n, "TENURE_NAME", f->name)) &&
         add(list, &n, "TENURE_ID", f->id) &&
         (f->epoch == 0 || add(list, &n, "TENURE_EPOCH", epoch));
    for (size_t i = 0; ok && f->extra && f->extra[i]; i++)
        ok = add(list, &n, f->extra[i], NULL);
    if (!ok) {
        if (list)
            list[n] = NULL;
        tn_program_env_free(list);
        return NULL;
    }
    return list;
}

void tn_program_env_free(char **env)
{
    for (size_t i = 0; env && env[i]; i++)
        free(env[i]);
    free(env);
}

/* ---- The user ------------------------------------------------------------ */

struct identity {
    uint32_t uid, gid;
    uint32_t groups[GROUPS_MAX];
    int n_groups;
    char home[256], name[64];
};

static bool number(const char *text, uint32_t *out)
{
    char *end;
    unsigned long n = strtoul(text, &end, 10);

    if (*text < '0' || *text > '9' || *end || n > UINT32_MAX - 1)
        return false;
    *out = (uint32_t)n;
    return true;
}

static enum tenure_status find_user(const char *wish, struct identity *id, struct tenure_error *err)
{
    char name[64];
    const char *colon = strchr(wish, ':');
    gid_t groups[GROUPS_MAX];

    snprintf(name, sizeof name, "%.*s", colon ? (int)(colon - wish) : (int)strlen(wish), wish);
    const struct passwd *user = getpwnam(name);
    if (!user && number(name, &id->uid))
        user = getpwuid(id->uid);
    else if (!user)
        return tenure_fail(err, TENURE_CONFIG, "--user: there is no user '%s'", name);
    if (user) {
        id->uid = user->pw_uid;
        id->gid = user->pw_gid;
        snprintf(id->name, sizeof id->name, "%s", user->pw_name);
        snprintf(id->home, sizeof id->home, "%s", user->pw_dir);
    } else {
        id->gid = id->uid;
    }
    if (colon) {
        const struct group *group = getgrnam(colon + 1);

        if (group)
            id->gid = group->gr_gid;
        else if (!number(colon + 1, &id->gid))
            return tenure_fail(err, TENURE_CONFIG, "--user: there is no group '%s'", colon + 1);
    }
    id->n_groups = GROUPS_MAX;
    if (!id->name[0] || getgrouplist(id->name, id->gid, groups, &id->n_groups) < 0)
        id->n_groups = 0;
    for (int i = 0; i < id->n_groups; i++)
        id->groups[i] = groups[i];
    return TENURE_OK;
}

enum tenure_status tn_program_user(const struct tn_program *p, uid_t *user,
                                   struct tenure_error *err)
{
    struct identity id = {0};
    enum tenure_status status = p->user ? find_user(p->user, &id, err) : TENURE_OK;

    if (!status)
        *user = id.uid;
    return status;
}

/* ---- The block ----------------------------------------------------------- */

static void put_string(FILE *to, const char *text)
{
    fwrite(text, 1, strlen(text) + 1, to);
}

static uint64_t mask_bits(const sigset_t *mask)
{
    uint64_t bits = 0;

    for (int i = 1; i <= 64; i++) {
        if (sigismember(mask, i) == 1)
            bits |= UINT64_C(1) << (i - 1);
    }
    return bits;
}

/* Everything as one run of bytes; NULL if memory is short. */
static char *assemble(const struct tn_program *p, const struct identity *id, char *const *env,
                      size_t *size)
{
    struct tn_guard_block block = {.mask = mask_bits(&p->mask)};
    char *data = NULL;
    FILE *to = open_memstream(&data, size);

    if (!to)
        return NULL;
    block.flags = (p->user ? TN_BLOCK_USER : 0u) | (p->privs ? TN_BLOCK_PRIVS : 0u) |
                  (p->warm ? TN_BLOCK_WARM : 0u);
    block.ignored = (uint32_t)p->ignored;
    block.uid = id->uid;
    block.gid = id->gid;
    block.n_groups = (uint32_t)id->n_groups;
    while (p->args[block.n_args])
        block.n_args++;
    while (env[block.n_env])
        block.n_env++;
    fwrite(&block, sizeof block, 1, to);
    fwrite(id->groups, sizeof id->groups[0], block.n_groups, to);
    put_string(to, p->args[0]);
    put_string(to, p->cwd ? p->cwd : "");
    for (uint32_t i = 0; i < block.n_args; i++)
        put_string(to, p->args[i]);
    for (uint32_t i = 0; i < block.n_env; i++)
        put_string(to, env[i]);
    if (fclose(to) != 0 || *size > TN_BLOCK_MAX) {
        free(data);
        return NULL;
    }
    block.size = (uint32_t)*size;
    memcpy(data, &block, sizeof block);
    return data;
}

static bool write_all(int fd, const char *data, size_t size)
{
    while (size > 0) {
        ssize_t n = write(fd, data, size);

        if (n < 0)
            return false;
        data += n;
        size -= (size_t)n;
    }
    return true;
}

enum tenure_status tn_program_block(const struct tn_program *p, const struct tn_program_env_spec *f,
                                    int *fd, struct tenure_error *err)
{
    struct tn_program_env_spec spec = *f;
    struct identity id = {0};
    char home[280], user[80], logname[80];
    const char *extra[16] = {0};
    enum tenure_status status = TENURE_OK;
    char **env = NULL, *data = NULL;
    size_t size = 0, n = 0;
    int made = -1;

    while (f->extra && f->extra[n] && n < 12) {
        extra[n] = f->extra[n];
        n++;
    }
    spec.extra = extra;
    if (p->user) {
        status = find_user(p->user, &id, err);
        if (status)
            goto done;
        snprintf(home, sizeof home, "HOME=%s", id.home[0] ? id.home : "/");
        snprintf(user, sizeof user, "USER=%s", id.name);
        snprintf(logname, sizeof logname, "LOGNAME=%s", id.name);
        extra[n++] = home;
        extra[n++] = user;
        extra[n++] = logname;
    }
    env = tn_program_env(p->env, &spec);
    data = env ? assemble(p, &id, env, &size) : NULL;
    made = memfd_create("tenure-program", MFD_CLOEXEC);
    if (!data || made < 0 || !write_all(made, data, size)) {
        status = tenure_fail(err, TENURE_NOMEM, "cannot describe the program to the guard: %s",
                             strerror(errno));
        goto done;
    }
    *fd = made;
    made = -1;
done:
    if (made >= 0)
        close(made);
    free(data);
    tn_program_env_free(env);
    return status;
}
