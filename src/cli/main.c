/* tenure - one verb a file; this one finds it. */
#include <malloc.h>
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/version.h"
#include "config/keys.h"

static const struct cli_verb *const verbs[] = {
    &cli_run,       &cli_lock,  &cli_cron,    &cli_once,       &cli_agent,
    &cli_status,    &cli_watch, &cli_history, &cli_candidates, &cli_handover,
    &cli_step_down, &cli_pause, &cli_resume,  &cli_reset,      &cli_remove,
    &cli_state,     &cli_work,  &cli_jobs,    &cli_config,     &cli_doctor,
    &cli_sim,       &cli_store, &cli_replica, &cli_pod_label,  &cli_release_grant, /* the guard's */
};
#define N_VERBS (sizeof verbs / sizeof verbs[0])

static void usage(FILE *to)
{
    fputs("tenure makes a program highly available: run copies of it, one is active.\n\n"
          "usage: tenure VERB [options]\n\n",
          to);
    for (size_t i = 0; i < N_VERBS; i++) {
        if (verbs[i]->summary) /* those without are not for people */
            fprintf(to, "  %-11s %s\n", verbs[i]->name, verbs[i]->summary);
    }
    fputs("\n  tenure VERB --help describes a verb; tenure --version prints the version\n", to);
}

static const struct cli_verb *find(const char *name)
{
    for (size_t i = 0; i < N_VERBS; i++) {
        if (strcmp(verbs[i]->name, name) == 0)
            return verbs[i];
    }
    return NULL;
}

static int unknown(const char *name)
{
    char names[400] = "", hint[64];
    size_t n = 0;

    for (size_t i = 0; i < N_VERBS && n < sizeof names; i++) {
        if (verbs[i]->summary)
            n +=
                (size_t)snprintf(names + n, sizeof names - n, "%s%s", n ? " " : "", verbs[i]->name);
    }
    tn_did_you_mean(name, names, hint, sizeof hint);
    fprintf(stderr, "tenure: unknown verb '%.40s'%s; see 'tenure help'\n", name, hint);
    return CLI_USAGE;
}

int main(int argc, char **argv)
{
    static char long_help[] = "--help";
    static char title[48]; /* as getopt_long() calls us */
    const char *name = argc > 1 ? argv[1] : "";
    const struct cli_verb *verb;

    mallopt(M_ARENA_MAX, 1); /* few threads, seldom busy: one heap is the smallest */
    if (strcmp(name, "help") == 0 && argc > 2 && strcmp(argv[2], "version") != 0) {
        verb = find(argv[2]);
        if (!verb)
            return unknown(argv[2]);
        argv[1] = argv[2];
        argv[2] = long_help;
        return verb->run(verb, 2, argv + 1);
    }
    if (strcmp(name, "help") == 0 && argc > 2)
        return cli_version(1, (char *[]){long_help});
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0 || strcmp(name, "help") == 0) {
        usage(stdout);
        return CLI_OK;
    }
    if (strcmp(name, "--version") == 0 || strcmp(name, "version") == 0) {
        return cli_version(argc - 2, argv + 2);
    }
    verb = find(name);
    if (verb && argc == 3 && strcmp(argv[2], "-h") == 0)
        argv[2] = long_help;
    if (verb) {
        snprintf(title, sizeof title, "tenure %s", name);
        argv[1] = title;
        return verb->run(verb, argc - 1, argv + 1);
    }
    if (*name)
        return unknown(name);
    usage(stderr);
    return CLI_USAGE;
}
