/* Where the store is, whether it is there yet, and opening it. */
#include <errno.h>
#include <limits.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/url.h"
#include "cli/cli.h"

#define DIR_MAX 1024

/* ---- The user's own ------------------------------------------------------ */

static const char *home_of_user(void)
{
    const char *home = getenv("HOME");
    const struct passwd *user = home && *home == '/' ? NULL : getpwuid(getuid());

    return user ? user->pw_dir : home && *home == '/' ? home : "";
}

/* The directory of the default store.  A home that is not there is nobody's to make: a service
 * without one would find it later, owned by who only looked. */
static bool state_dir(const struct cli_verb *verb, char dir[DIR_MAX])
{
    const char *state = getenv("XDG_STATE_HOME"), *home = home_of_user();
    struct stat st;
    size_t n = strlen(home);
    int len;

    if (state && *state == '/')
        len = snprintf(dir, DIR_MAX, "%s/tenure", state);
    else
        len = snprintf(dir, DIR_MAX, "%s/.local/state/tenure", home);
    bool below_home = strncmp(dir, home, n) == 0 && (dir[n] == '/' || n == 0);
    if (len < DIR_MAX && (!below_home || (n && stat(home, &st) == 0 && S_ISDIR(st.st_mode))))
        return true;
    cli_fail(verb, 0, "the default store has no place: the home directory%s%.200s %s; give --store",
             n ? " " : "", home, n ? "is not there" : "is not known");
    return false;
}

static bool make_dirs(char *path)
{
    for (char *p = path + 1; *p; p++) {
        if (*p != '/')
            continue;
        *p = '\0';
        bool made = mkdir(path, 0700) == 0 || errno == EEXIST;
        *p = '/';
        if (!made)
            return false;
    }
    return mkdir(path, 0700) == 0 || errno == EEXIST;
}

/* ---- The URL ------------------------------------------------------------- */

static const char *default_url(const char *dir)
{
    static char url[DIR_MAX + 32];

    snprintf(url, sizeof url, "sqlite:%s/tenure.db", dir);
    return url;
}

const char *cli_store_url(const struct cli_verb *verb, const struct cli_common *c)
{
    char dir[DIR_MAX];

    return c->store ? c->store : state_dir(verb, dir) ? default_url(dir) : NULL;
}

void cli_store_again(const struct cli_common *c, char out[CLI_AGAIN_MAX])
{
    char shown[CLI_AGAIN_MAX];

    out[0] = '\0';
    if (!c->store_given)
        return;
    tenure_url_redact(c->store, shown, sizeof shown);
    if (strcmp(shown, c->store) != 0 || strlen(shown) + 16 > CLI_AGAIN_MAX || strchr(shown, '\''))
        snprintf(out, CLI_AGAIN_MAX, " --store ... (the same)");
    else
        snprintf(out, CLI_AGAIN_MAX,
                 strpbrk(shown, " &?;*$()\"\\<>|`#~") ? " --store '%s'" : " --store %s", shown);
}

/* ---- Is it there? -------------------------------------------------------- */

static bool empty_or_gone(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0 ? S_ISREG(st.st_mode) && st.st_size == 0 : errno == ENOENT;
}

/*
 * Would opening it make it?  Of all stores two do so: a file of SQLite, unless its log is there
 * and tells of one that was; a directory without the mark of file:.  Whatever else is wrong with
 * the URL or the place, the store says better.  made: `tenure run` would make it, as it may not
 * with create=no.
 */
static bool missing(const char *url, char place[PATH_MAX], bool *made)
{
    struct tn_url u = {0};
    char beside[PATH_MAX + 16];
    bool gone = false;
    struct stat st;

    if (tn_url_parse(url, &u, NULL) != TENURE_OK)
        return false;
    size_t n = (size_t)snprintf(place, PATH_MAX, "%s", u.path);
    if (strcmp(u.scheme, "sqlite") == 0 && n && place[n - 1] != '/' && !u.hosts[0]) {
        snprintf(beside, sizeof beside, "%s-wal", place);
        gone = empty_or_gone(place) && empty_or_gone(beside);
    } else if (strcmp(u.scheme, "file") == 0 && n) {
        snprintf(beside, sizeof beside, "%s/.tenure", place);
        gone = lstat(beside, &st) != 0 && errno == ENOENT;
    }
    const char *create = tn_url_param(&u, "create");
    *made = !create || strcmp(create, "no") != 0;
    tn_url_free(&u);
    return gone;
}

static const char *make_default(const struct cli_verb *verb)
{
    char dir[DIR_MAX];

    if (!state_dir(verb, dir))
        return NULL;
    if (make_dirs(dir))
        return default_url(dir);
    cli_fail(verb, 0, "cannot make %s for the default store: %s; give --store", dir,
             strerror(errno));
    return NULL;
}

const char *cli_store_find(const struct cli_verb *verb, const struct cli_common *c)
{
    char place[PATH_MAX];
    bool made = true;

    if (c->absent == CLI_MAKE)
        return c->store ? c->store : make_default(verb);
    const char *url = cli_store_url(verb, c);
    if (!url || !missing(url, place, &made))
        return url;
    if (c->absent == CLI_WAIT) {
        cli_fail(verb, 0, "there is no store at %s yet; waiting for it", place);
        while (missing(url, place, &made))
            sleep(1);
        return url;
    }
    if (!made)
        return url; /* not mounted, perhaps: the store says so */
    cli_fail(verb, 0, "there is no store at %s%s; `tenure run` makes it, --store names another",
             place, c->store ? "" : " yet");
    return c->absent == CLI_EMPTY && !c->store ? "memory:" : NULL;
}

/* ---- Opening ------------------------------------------------------------- */

tenure_store *cli_open(const struct cli_verb *verb, const struct cli_common *c, int *code)
{
    const char *url = cli_store_find(verb, c);
    tenure_store *store = NULL;
    struct tenure_error err;

    *code = CLI_USAGE;
    if (url && tenure_store_open(url, tenure_now() + c->timeout_ns, &store, &err) != TENURE_OK)
        *code = cli_fail_with(verb, &err);
    return store;
}

bool cli_repair(const struct cli_verb *verb, const struct cli_common *c, tenure_store **store,
                int64_t deadline)
{
    const char *known = cli_store_url(verb, c);
    tenure_store *repairer = NULL;
    char *url = known ? tn_url_repairing(known) : NULL;

    if (url && tenure_store_open(url, deadline, &repairer, NULL) == TENURE_OK) {
        tenure_store_close(*store);
        *store = repairer;
    }
    tn_url_wipe(url);
    return repairer != NULL;
}
