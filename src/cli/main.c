/* tenure - one verb a file; this one finds it. */
#include <malloc.h>
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"

static const struct cli_verb *const verbs[] = {
    &cli_run,      &cli_agent,     &cli_status, &cli_watch,  &cli_history,       &cli_candidates,
    &cli_handover, &cli_step_down, &cli_pause,  &cli_resume, &cli_reset,         &cli_state,
    &cli_config,   &cli_doctor,    &cli_sim,    &cli_store,  &cli_release_grant, /* the guard's */
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
    fputs("\n  tenure VERB --help    says more; tenure --version says which this is\n", to);
}

static const struct cli_verb *find(const char *name)
{
    for (size_t i = 0; i < N_VERBS; i++) {
        if (strcmp(verbs[i]->name, name) == 0)
            return verbs[i];
    }
    return NULL;
}

int main(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : "";
    const struct cli_verb *verb;

    mallopt(M_ARENA_MAX, 1); /* few threads, seldom busy: one heap is the smallest */
    if (strcmp(name, "help") == 0 && argc > 2 && (verb = find(argv[2]))) {
        fputs(verb->help, stdout);
        return CLI_OK;
    }
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0 || strcmp(name, "help") == 0) {
        usage(stdout);
        return CLI_OK;
    }
    if (strcmp(name, "--version") == 0 || strcmp(name, "version") == 0) {
        printf("tenure %s\n", tenure_version());
        return CLI_OK;
    }
    verb = find(name);
    if (verb)
        return verb->run(verb, argc - 1, argv + 1);
    if (*name)
        fprintf(stderr, "tenure: there is no verb '%s'\n\n", name);
    usage(stderr);
    return CLI_USAGE;
}
