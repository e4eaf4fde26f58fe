/* cli/jobs/jobs.h - what the files of `tenure jobs` share. */
#ifndef TN_CLI_JOBS_H
#define TN_CLI_JOBS_H

#include <jansson.h>

#include "cli/cli.h"
#include "jobs/operator.h"

/* One call of it. */
struct cli_jobs {
    const struct cli_verb *verb;
    struct cli_common common;
    struct tn_jobs group;
    char **args; /* behind the action */
    int n_args;
    const char *weight, *require, *prefer, *spec, *to, *if_leaves, *worker, *limit;
    bool wait, undo, all, yes;
};

/* cli_fail_with() in a line. */
int cli_jobs_fail(const struct cli_jobs *j, const struct tenure_error *err);

/* ---- jobs_import.c ------------------------------------------------------- */

int cli_jobs_add(struct cli_jobs *j);
int cli_jobs_import(struct cli_jobs *j);
/* What is in the file, or on standard input ("-"); malloc'ed; NULL: said. */
char *cli_jobs_slurp(const struct cli_jobs *j, const char *path, size_t *len);

/* ---- jobs_yaml.c --------------------------------------------------------- */

/* YAML or JSON (a document, or one a line) as JSON; NULL with words in err. */
json_t *cli_jobs_parse(const char *text, size_t len, struct tenure_error *err);

/* ---- jobs_show.c --------------------------------------------------------- */

int cli_jobs_list(struct cli_jobs *j);
int cli_jobs_workers(struct cli_jobs *j);
int cli_jobs_plan(struct cli_jobs *j);
int cli_jobs_watch(struct cli_jobs *j);

/* ---- history.c ----------------------------------------------------------- */

int cli_jobs_history(struct cli_jobs *j);

/* ---- jobs_explain.c ------------------------------------------------------ */

int cli_jobs_explain(struct cli_jobs *j);

/* All that is known of a group.  The plan is read first (JOBS: The plan). */
struct cli_jobs_view {
    struct tn_catalogue catalogue;
    struct tn_members members;
    struct tn_plan_register plan;
    struct tenure_token plan_token;
    char plan_damage[160]; /* why it cannot be read; "" */
};
enum tenure_status cli_jobs_load(const struct cli_jobs *j, struct cli_jobs_view *view,
                                 struct tenure_error *err);
void cli_jobs_view_free(struct cli_jobs_view *view);
/* Whom the plan has for a job; NULL: nobody. */
const char *cli_jobs_planned(const struct cli_jobs_view *view, uint32_t number);
/* What a member is, in a word: "alive", "draining", "evicted" ... */
const char *cli_jobs_state(const struct tn_member *member);
/* "running", "paused", "removed". */
const char *cli_jobs_wanted(enum tn_wanted wanted);
/* When the lease of an owner ends, by its own clock; "" if it is not known. */
#define CLI_JOBS_TIME 40
void cli_jobs_expires(const struct tn_members *members, const struct tn_owner *owner,
                      char out[CLI_JOBS_TIME]);

#endif
