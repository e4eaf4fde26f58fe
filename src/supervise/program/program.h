/* supervise/program/program.h - the program that is run: what it is, and its clean environment. */
#ifndef TN_SUPERVISE_PROGRAM_H
#define TN_SUPERVISE_PROGRAM_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "tenure/status.h"

struct tn_program {
    char *const *args; /* args[0] is the command, looked up in PATH; ends with NULL */
    char *const *env;  /* tenure's own environment; what is not for the program is left out */
    const char *cwd;   /* NULL: tenure's */
    const char *user;  /* "name", "uid", "name:group"; NULL: tenure's */
    bool privs;        /* may gain privileges */
    bool warm;         /* may run without a grant */
    int ignored;       /* a signal that it starts with ignored, until it knows better; 0: none */
    sigset_t mask;     /* the signals that were blocked when tenure started */
};

/* What changes from term to term. */
struct tn_program_env_spec {
    const char *name; /* NULL: left out (a job has no election) */
    const char *id;
    uint64_t epoch;           /* 0: left out (a warm standby) */
    const char *const *extra; /* "NAME=value", ends with NULL; may be NULL */
    /* URLs, or NULL: variables that they name as the place of a password are left out. */
    const char *store, *state;
};

/*
 * Can it be executed, as far as can be told now?  OK; INVALID if there is no
 * such command, DENIED if it cannot be executed.  The exit codes of run differ.
 */
enum tenure_status tn_program_check(const struct tn_program *p, struct tenure_error *err);

/* The user that it runs as, if that is not ours; else 0.  CONFIG if there is none such. */
enum tenure_status tn_program_user(const struct tn_program *p, uid_t *user,
                                   struct tenure_error *err);

/*
 * A memfd that describes it to the guard (struct tn_guard_block), which the
 * caller closes.  CONFIG for a user that does not exist.
 */
enum tenure_status tn_program_block(const struct tn_program *p, const struct tn_program_env_spec *f,
                                    int *fd, struct tenure_error *err);

/*
 * The environment for one of our children: env without what belongs to tenure
 * alone (TENURE_*, which may hold credentials, what the stores' URLs name as the
 * place of a password, and the notification sockets of our own supervisor), with
 * the facts.  free() the list; then its strings:
 * tn_program_env_free() does both.
 */
char **tn_program_env(char *const *env, const struct tn_program_env_spec *f);
void tn_program_env_free(char **env);

#endif
