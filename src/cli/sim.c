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
    "Simulates elections: the shipped elector in a hostile world.  The same seed and\n"
    "build give the same history.  `tenure sim --help` lists all options;\n"
    "docs/explanation/simulator.md explains them.\n";

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
    return cli_fail(verb, CLI_FAILED, "tenure-sim not found beside tenure or in %s: %s",
                    TN_LIBEXEC_DIR, strerror(errno));
}

const struct cli_verb cli_sim = {"sim", "simulate elections", help, run};
