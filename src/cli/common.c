#include <errno.h>
#include <pwd.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/duration.h"
#include "base/url.h"
#include "cli/cli.h"
#include "tenure/elector.h"

/* ---- Words on stderr ----------------------------------------------------- */

static void TENURE_PRINTF(2, 0) say(const struct cli_verb *verb, const char *format, va_list args)
{
    char text[1024];

    vsnprintf(text, sizeof text, format, args);
    fprintf(stderr, "tenure %s: %s\n", verb->name, text);
}

int cli_fail(const struct cli_verb *verb, int code, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    say(verb, format, args);
    va_end(args);
    return code;
}

int cli_misuse(const struct cli_verb *verb, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    say(verb, format, args);
    va_end(args);
    return cli_hint(verb);
}

int cli_hint(const struct cli_verb *verb)
{
    fprintf(stderr, "Try 'tenure %s --help'.\n", verb->name);
    return CLI_USAGE;
}

void cli_no_core(void)
{
    prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
}

bool cli_named(const struct cli_verb *verb, const char *name)
{
    if (strlen(name) <= TENURE_NAME_MAX && tenure_key_valid(name))
        return true;
    cli_fail(verb, 0,
             "'%.60s' cannot be the name of an election: letters, digits, '.', '_', '-' and '/' "
             "inside, at most %d bytes",
             name, TENURE_NAME_MAX);
    return false;
}

/* ---- Options ------------------------------------------------------------- */

void cli_common_init(struct cli_common *c)
{
    const char *store = getenv("TENURE_STORE");
    const char *name = getenv("TENURE_NAME");

    memset(c, 0, sizeof *c);
    c->store = store && *store ? store : NULL;
    c->name = name && *name ? name : NULL;
    c->timeout_ns = INT64_C(5000000000);
}

/* An argument is there for every user of the machine to read. */
static void warn_of_secrets(const struct cli_verb *verb, const char *url)
{
    char shown[2048];

    tenure_url_redact(url, shown, sizeof shown);
    if (strstr(shown, ":***@"))
        cli_fail(verb, 0,
                 "warning: a password on the command line can be read by everybody here; put the "
                 "URL into TENURE_STORE");
}

bool cli_common_take(struct cli_common *c, const struct cli_verb *verb, int opt)
{
    switch (opt) {
    case CLI_OPT_STORE:
        c->store = optarg;
        warn_of_secrets(verb, optarg);
        return true;
    case CLI_OPT_NAME:
        c->name = optarg;
        return true;
    case CLI_OPT_JSON:
        c->json = true;
        return true;
    case CLI_OPT_TIMEOUT:
        c->timeout_ns = cli_duration(verb, "--timeout", optarg);
        if (c->timeout_ns == 0)
            exit(cli_misuse(verb, "--timeout '%.40s': give more than nothing", optarg));
        return true;
    case CLI_OPT_HELP:
        fputs(verb->help, stdout);
        exit(CLI_OK);
    default:
        return false;
    }
}

int64_t cli_duration(const struct cli_verb *verb, const char *option, const char *text)
{
    int64_t ns;

    if (!tn_duration_parse(text, &ns))
        exit(
            cli_misuse(verb, "%s '%.40s' is not a duration: write 15s, 500ms or 2m", option, text));
    return ns;
}

/* ---- Stores -------------------------------------------------------------- */

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

const char *cli_default_store(const struct cli_verb *verb)
{
    static char url[1100];
    char dir[1024];
    const char *state = getenv("XDG_STATE_HOME");
    const char *home = getenv("HOME");

    if (!home || *home != '/') {
        const struct passwd *user = getpwuid(getuid());
        home = user ? user->pw_dir : "/";
    }
    if (state && *state == '/')
        snprintf(dir, sizeof dir, "%s/tenure", state);
    else
        snprintf(dir, sizeof dir, "%s/.local/state/tenure", home);
    if (!make_dirs(dir)) {
        cli_fail(verb, 0, "cannot make %s for the default store: %s; name one with --store", dir,
                 strerror(errno));
        return NULL;
    }
    snprintf(url, sizeof url, "sqlite:%s/tenure.db", dir);
    return url;
}

tenure_store *cli_open(const struct cli_verb *verb, const struct cli_common *c)
{
    const char *url = c->store ? c->store : cli_default_store(verb);
    tenure_store *store = NULL;
    struct tenure_error err;

    if (url && tenure_store_open(url, tenure_now() + c->timeout_ns, &store, &err) != TENURE_OK)
        cli_fail(verb, 0, "%s", err.text);
    return store;
}

bool cli_mend(const struct cli_verb *verb, const struct cli_common *c, tenure_store **store,
              int64_t deadline)
{
    const char *known = c->store ? c->store : cli_default_store(verb);
    tenure_store *mender = NULL;
    char *url = known ? tn_url_mending(known) : NULL;

    if (url && tenure_store_open(url, deadline, &mender, NULL) == TENURE_OK) {
        tenure_store_close(*store);
        *store = mender;
    }
    tn_url_wipe(url);
    return mender != NULL;
}

/* ---- The beginning of a verb --------------------------------------------- */

#define OWN_MAX 4

/* false: getopt_long() has said why. */
static bool take_options(const struct cli_verb *verb, int argc, char **argv,
                         const struct cli_own *own, struct cli_common *c)
{
    struct option options[5 + OWN_MAX + 1] = {CLI_COMMON_OPTIONS};
    int opt;

    for (int i = 0; own && own[i].name && i < OWN_MAX; i++)
        options[5 + i] = (struct option){
            own[i].name, own[i].value ? required_argument : no_argument, NULL, CLI_OPT_OWN + i};
    while ((opt = getopt_long(argc, argv, "", options, NULL)) != -1) {
        if (opt < CLI_OPT_OWN) {
            if (!cli_common_take(c, verb, opt))
                return false;
        } else if (own[opt - CLI_OPT_OWN].value) {
            *own[opt - CLI_OPT_OWN].value = optarg;
        } else {
            *own[opt - CLI_OPT_OWN].flag = true;
        }
    }
    return true;
}

bool cli_begin(const struct cli_verb *verb, int argc, char **argv, const struct cli_own *own,
               struct cli_common *c, tenure_store **store, int *code)
{
    *code = CLI_USAGE;
    if (!take_options(verb, argc, argv, own, c)) {
        cli_hint(verb);
        return false;
    }
    if (c->all)
        c->name = NULL;
    else if (optind < argc && !c->name)
        c->name = argv[optind++];
    if (optind < argc) {
        cli_misuse(verb, "unexpected '%.40s'", argv[optind]);
        return false;
    }
    if (!c->name && !c->any) {
        cli_misuse(verb, "which election? give --name NAME");
        return false;
    }
    if (c->name && !cli_named(verb, c->name))
        return false;
    *store = cli_open(verb, c);
    *code = CLI_FAILED;
    return *store != NULL;
}

/* ---- Colour -------------------------------------------------------------- */

static const char *paint(const char *code)
{
    static int colour = -1;

    if (colour < 0) {
        const char *no = getenv("NO_COLOR");
        const char *term = getenv("TERM");
        colour = isatty(STDOUT_FILENO) && !(no && *no) && !(term && strcmp(term, "dumb") == 0);
    }
    return colour ? code : "";
}

const char *cli_bold(void)
{
    return paint("\033[1m");
}

const char *cli_dim(void)
{
    return paint("\033[2m");
}

const char *cli_green(void)
{
    return paint("\033[32m");
}

const char *cli_red(void)
{
    return paint("\033[31m");
}

const char *cli_plain(void)
{
    return paint("\033[0m");
}
