/* cli/state.h - what the words of `tenure state` share. */
#ifndef TN_CLI_STATE_H
#define TN_CLI_STATE_H

#include <stdio.h>

#include "cli/cli.h"
#include "tenure/state.h"

struct cli_state_call {
    const struct cli_verb *verb;
    struct cli_common common;
    tenure_state *state;
    bool force;
    bool remove;       /* repair --delete */
    const char *lease; /* URL of the lease's store; NULL: the same */
    const char *where; /* COLLECTION or COLLECTION/ID */
    const char *file;
    int64_t deadline;
};

/* A whole stream in memory; NULL with a message.  free() it. */
char *cli_state_slurp(const struct cli_state_call *c, const char *path, size_t *len);

/* Run each(arg, collection) over the names of all collections, or c->where alone.
 * Returns an exit code; the message is said. */
int cli_state_each(struct cli_state_call *c, const char *only,
                   enum tenure_status (*each)(void *arg, const char *collection,
                                              struct tenure_error *err),
                   void *arg);

/* Write every document as a line of JSON; read them back. */
int cli_state_export(struct cli_state_call *c);
int cli_state_import(struct cli_state_call *c);

#endif
