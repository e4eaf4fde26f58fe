/*
 * supervise/program/environment.h - the environment of the processes beside tenure.
 *
 * Ours may hold secrets (TENURE_STORE, the variables of password_env=), and /proc
 * shows a process's first environment to others of the same user, the program
 * among them.  So guard, init and releaser begin with none; the releaser, who
 * needs ours to reach the store, finds it behind the ticket.
 */
#ifndef TN_SUPERVISE_ENVIRONMENT_H
#define TN_SUPERVISE_ENVIRONMENT_H

#include <stdbool.h>
#include <stdio.h>
#include <sys/types.h>

#define TN_ENVIRONMENT_BARE 16

/* What the loader of libraries has to know (LD_*) before anything else can be read. */
void tn_environment_bare(char *out[TN_ENVIRONMENT_BARE]);
/* Our own, each variable with its NUL. */
void tn_environment_write(FILE *to);
/* Take over what stands in fd from there on.  false: it could not be read. */
bool tn_environment_read(int fd, off_t from);

#endif
