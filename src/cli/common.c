#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/duration.h"
#include "base/name.h"
#include "cli/cli.h"
#include "config/keys.h"
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
    return CLI_USAGE;
}

int cli_no_subcommand(const struct cli_verb *verb, const char *word, const char *list)
{
    char hint[64];

    if (!*word)
        return cli_misuse(verb, "missing subcommand, one of: %s", list);
    tn_did_you_mean(word, list, hint, sizeof hint);
    return cli_misuse(verb, "unknown subcommand '%.40s'%s, not one of: %s", word, hint, list);
}

int cli_fail_with(const struct cli_verb *verb, const struct tenure_error *err)
{
    bool ours = err->code == TENURE_CONFIG || err->code == TENURE_INVALID;

    return cli_fail(verb, ours ? CLI_USAGE : CLI_FAILED, "%s", err->text);
}

void cli_no_core(void)
{
    prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
}

bool cli_named(const struct cli_verb *verb, const char *name)
{
    const char *fault = tn_name_fault(name);

    if (fault)
        cli_fail(verb, 0, "'%.60s' cannot be the name of an election: %s", name, fault);
    return !fault;
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
                 "warning: a password on the command line is visible to every user; put the "
                 "URL into TENURE_STORE");
}

bool cli_common_take(struct cli_common *c, const struct cli_verb *verb, int opt)
{
    switch (opt) {
    case CLI_OPT_STORE:
        c->store = optarg;
        c->store_given = true;
        warn_of_secrets(verb, optarg);
        return true;
    case CLI_OPT_NAME:
        c->name = optarg;
        c->name_given = true;
        return true;
    case CLI_OPT_JSON:
        c->json = true;
        return true;
    case CLI_OPT_TIMEOUT:
        c->timeout_ns = cli_duration(verb, "--timeout", optarg);
        if (c->timeout_ns == 0)
            exit(cli_misuse(verb, "--timeout '%.40s': must be greater than 0", optarg));
        return true;
    case CLI_OPT_HELP:
        fputs(verb->help, stdout);
        exit(CLI_OK);
    default:
        return false;
    }
}

/* ---- What getopt_long() finds wrong -------------------------------------- */

/* An option that is not there, or that stands for several. */
static void unknown_option(const struct cli_verb *verb, const char *word,
                           const struct option *options)
{
    char name[48], names[1024] = "", hint[96];
    size_t n = 0, similar = 0;

    snprintf(name, sizeof name, "%.*s", (int)strcspn(word, "="), word);
    for (; options->name && n < sizeof names; options++) {
        n += (size_t)snprintf(names + n, sizeof names - n, "%s--%s", n ? " " : "", options->name);
        similar += strlen(name) > 2 && strncmp(options->name, name + 2, strlen(name + 2)) == 0;
    }
    if (similar > 1)
        snprintf(hint, sizeof hint, " (%zu options begin like this)", similar);
    else
        tn_did_you_mean(name, names, hint, sizeof hint);
    cli_misuse(verb, "unrecognized option '%s'%s; 'tenure %s --help' lists them", name, hint,
               verb->name);
}

int cli_getopt(const struct cli_verb *verb, int argc, char **argv, const char *order,
               const struct option *options)
{
    opterr = 0; /* a line of our own says what to do as well */
    int opt = getopt_long(argc, argv, order, options, NULL);

    if (opt != '?' && opt != ':')
        return opt;
    const char *word = argv[optind - 1];
    if (opt == ':')
        cli_misuse(verb, "%.40s needs a value: %.40s=...", word, word);
    else if (optopt >= CLI_OPT_STORE)
        cli_misuse(verb, "%.*s takes no value", (int)strcspn(word, "="), word);
    else
        unknown_option(verb, word, options);
    exit(CLI_USAGE);
}

int64_t cli_duration(const struct cli_verb *verb, const char *option, const char *text)
{
    int64_t ns;

    if (!tn_duration_parse(text, &ns))
        exit(
            cli_misuse(verb, "%s '%.40s' is not a duration: write 15s, 500ms or 2m", option, text));
    return ns;
}

/* ---- The beginning of a verb --------------------------------------------- */

#define OWN_MAX 6

static void take_options(const struct cli_verb *verb, int argc, char **argv,
                         const struct cli_own *own, struct cli_common *c)
{
    struct option options[5 + OWN_MAX + 1] = {CLI_COMMON_OPTIONS};
    int opt;

    for (int i = 0; own && own[i].name && i < OWN_MAX; i++)
        options[5 + i] = (struct option){
            own[i].name, own[i].value ? required_argument : no_argument, NULL, CLI_OPT_OWN + i};
    while ((opt = cli_getopt(verb, argc, argv, CLI_ANY_ORDER, options)) != -1) {
        if (opt < CLI_OPT_OWN)
            cli_common_take(c, verb, opt);
        else if (own[opt - CLI_OPT_OWN].value)
            *own[opt - CLI_OPT_OWN].value = optarg;
        else
            *own[opt - CLI_OPT_OWN].flag = true;
    }
}

/* An argument is nearer than the environment, and wins over it. */
static bool take_name(const struct cli_verb *verb, int argc, char **argv, struct cli_common *c)
{
    if (c->all)
        c->name = NULL;
    else if (optind < argc && !c->name_given)
        c->name = argv[optind++];
    if (optind < argc)
        cli_misuse(verb, "unexpected '%.40s': give %s", argv[optind],
                   c->all ? "a name or --all" : "one election, once");
    else if (!c->name && !c->any)
        cli_misuse(verb, "missing --name NAME");
    else
        return !c->name || cli_named(verb, c->name);
    return false;
}

bool cli_take(const struct cli_verb *verb, int argc, char **argv, const struct cli_own *own,
              struct cli_common *c)
{
    take_options(verb, argc, argv, own, c);
    return take_name(verb, argc, argv, c);
}

bool cli_begin(const struct cli_verb *verb, int argc, char **argv, const struct cli_own *own,
               struct cli_common *c, tenure_store **store, int *code)
{
    *code = CLI_USAGE;
    if (!cli_take(verb, argc, argv, own, c))
        return false;
    *store = cli_open(verb, c, code);
    return *store != NULL;
}

/* ---- What cannot be undone ----------------------------------------------- */

bool cli_may_ask(void)
{
    return isatty(STDIN_FILENO) && isatty(STDERR_FILENO);
}

bool cli_confirm(const struct cli_verb *verb, bool yes, const char *format, ...)
{
    char text[512], answer[16] = "";
    va_list args;

    if (yes)
        return true;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    fprintf(stderr, "tenure %s: %s This cannot be undone. [y/N] ", verb->name, text);
    return fgets(answer, sizeof answer, stdin) &&
           (strcmp(answer, "y\n") == 0 || strcmp(answer, "yes\n") == 0);
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
