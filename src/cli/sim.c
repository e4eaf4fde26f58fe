/* tenure sim: replay or search simulated histories; the simulator is a program of its own. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "tn_version.h"

static const char help[] =
    "usage: tenure sim --seed N [--trace] [--minimise]\n"
    "       tenure sim --help\n"
    "\n"
    "Lives simulated histories of elections: the shipped elector in a hostile world.\n"
    "The same seed and build give the same history.  All other options are those of\n"
    "the simulator, which `tenure sim --help` asks for them; docs/explanation/simulator.md says\n"
    "more.\n";

static int run(const struct cli_verb *verb, int argc, char **argv)
{
    static char name[] = "tenure-sim";
    char own[PATH_MAX], path[PATH_MAX + 16];
    ssize_t n = readlink("/proc/self/exe", own, sizeof own - 1);

    (void)argc;
    own[n > 0 ? n : 0] = '\0';
    char *slash = strrchr(own, '/');
    if (slash)
        *slash = '\0';
    argv[0] = name;
    snprintf(path, sizeof path, "%s/tenure-sim", own);
    execv(path, argv);
    snprintf(path, sizeof path, "%s/tenure-sim", TN_LIBEXEC_DIR);
    execv(path, argv);
    return cli_fail(verb, CLI_FAILED, "tenure-sim was not found beside tenure or in %s: %s",
                    TN_LIBEXEC_DIR, strerror(errno));
}

const struct cli_verb cli_sim = {"sim", "live simulated histories of elections", help, run};
