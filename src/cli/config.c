/* tenure config: is this configuration sound, and what follows from it? */
#include "cli/config.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/cli.h"
#include "config/show.h"

static const char help[] =
    "usage: tenure config check [FILE] [--json]\n"
    "\n"
    "Reads FILE (default: TENURE_CONFIG, ./tenure.yaml, /etc/tenure/tenure.yaml) as\n"
    "`tenure agent` would and prints the effective settings, with secrets hidden and\n"
    "the arithmetic behind each timing.  Reports every error with its line and a fix.\n"
    "\n"
    "  --json               print one JSON object\n"
    "\n"
    "Exit: 0 FILE is valid, 1 FILE cannot be read, 2 usage error or invalid FILE.\n";

/* ---- Finding and reading the file, for `agent` too ----------------------- */

const char *cli_config_path(const char *given)
{
    const char *named = getenv("TENURE_CONFIG");

    if (given)
        return given;
    if (named && *named)
        return named;
    return access("tenure.yaml", F_OK) == 0 ? "tenure.yaml" : "/etc/tenure/tenure.yaml";
}

char *cli_config_load(const char *path, size_t *len, struct tenure_error *err)
{
    char *text = malloc(TN_CONFIG_BYTES_MAX + 2);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    size_t n = 0;
    ssize_t got = -1;

    while (fd >= 0 && text && n <= TN_CONFIG_BYTES_MAX &&
           (got = read(fd, text + n, TN_CONFIG_BYTES_MAX + 1 - n)) > 0)
        n += (size_t)got;
    int saved = errno;
    if (fd >= 0)
        close(fd);
    if (!text || got < 0) {
        free(text);
        tenure_fail(err, TENURE_UNAVAILABLE, "%s: %s%s", path, strerror(text ? saved : ENOMEM),
                    text && saved == ENOENT ? "; name another, or write it: tenure.yaml(5)" : "");
        return NULL;
    }
    text[n] = '\0';
    *len = n; /* one byte more than allowed: refused by who reads it */
    return text;
}

void cli_config_tell(const struct tn_config *c, void (*tell)(const char *line))
{
    char more[80];

    for (unsigned i = 0; i < c->n_complaints && i < TN_CONFIG_COMPLAINTS; i++)
        tell(c->complaints[i]);
    if (c->n_complaints > TN_CONFIG_COMPLAINTS) {
        snprintf(more, sizeof more, "and %u more", c->n_complaints - TN_CONFIG_COMPLAINTS);
        tell(more);
    }
}

/* ---- The verb ------------------------------------------------------------ */

static void on_stderr(const char *text)
{
    fprintf(stderr, "%s\n", text);
}

/* Also whether the stores are in this build, with their libraries: an agent's own process never
 * loads these, so that it does not ask. */
static enum tenure_status known(void *arg, const char *url, struct tenure_error *err)
{
    (void)arg;
    return tenure_store_known(url, err);
}

static int check(const struct cli_verb *verb, const char *path, bool json)
{
    struct tn_config_world world = tn_config_real_world;
    struct tn_config c = {0};
    struct tenure_error err = {0};
    size_t len = 0;
    char *text = cli_config_load(path, &len, &err);

    if (!text)
        return cli_fail(verb, CLI_FAILED, "%s", err.text);
    world.store = known;
    enum tenure_status status = tn_config_read(&c, path, text, len, &world);
    explicit_bzero(text, len);
    free(text);
    if (status == TENURE_NOMEM)
        return cli_fail(verb, CLI_FAILED, "out of memory");
    if (json) {
        json_t *j = tn_config_json(&c);

        json_dumpf(j, stdout, JSON_INDENT(2));
        putchar('\n');
        json_decref(j);
    } else if (status) {
        cli_config_tell(&c, on_stderr);
    } else {
        tn_config_show(&c, stdout);
    }
    tn_config_free(&c);
    return status ? CLI_USAGE : CLI_OK;
}

static int run(const struct cli_verb *verb, int argc, char **argv)
{
    static const struct option options[] = {CLI_COMMON_OPTIONS, {0}};
    struct cli_common c;
    int opt;

    cli_common_init(&c);
    while ((opt = cli_getopt(verb, argc, argv, CLI_ANY_ORDER, options)) != -1) {
        if (opt == CLI_OPT_STORE || opt == CLI_OPT_NAME || opt == CLI_OPT_TIMEOUT)
            return cli_misuse(verb, "give a FILE and --json, nothing else");
        cli_common_take(&c, verb, opt);
    }
    const char *word = optind < argc ? argv[optind] : "";
    if (strcmp(word, "check") != 0)
        return cli_no_subcommand(verb, word, "check");
    if (argc - optind > 2)
        return cli_misuse(verb, "give one FILE at a time");
    return check(verb, cli_config_path(argv[optind + 1]), c.json);
}

const struct cli_verb cli_config = {"config", "check a configuration file and show its effect",
                                    help, run};
