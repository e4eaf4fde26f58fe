/* cli/state/state.h - what the words of `tenure state` share. */
#ifndef TN_CLI_STATE_H
#define TN_CLI_STATE_H

#include <jansson.h>
#include <stdio.h>

#include "cli/cli.h"
#include "tenure/lease.h"
#include "tenure/state.h"

struct cli_state_call {
    const struct cli_verb *verb;
    struct cli_common common;
    tenure_state *state;
    bool force;
    bool remove;       /* repair --delete */
    bool yes;          /* delete: do not ask */
    const char *lease; /* URL of the lease's store; NULL: the same */
    const char *where; /* COLLECTION or COLLECTION/ID */
    const char *file;
    int64_t deadline;
    int code; /* of what failed before the word itself could do anything */
};

/* "COLLECTION/ID" in two; false if it is not. */
bool cli_state_split(const char *where, char *collection, size_t size, const char **id);
/* Ids are anybody's bytes; a terminal should not obey them. */
void cli_state_print(const char *id);
/* Behind every word of damage. */
#define CLI_STATE_REPAIR                                                                           \
    "'tenure state show' lists what is damaged, 'tenure state repair' keeps it and replaces it"
/* Say what the state said, and what to do about damage.  CLI_FAILED. */
int cli_state_fail(const struct cli_state_call *c, enum tenure_status status,
                   const struct tenure_error *err);
/* The lease of the election; false with a message. */
bool cli_state_lease(struct cli_state_call *c, struct tenure_lease_view *view);
/* Does nobody lead, or is it forced?  false with a message. */
bool cli_state_unheld(struct cli_state_call *c, const struct tenure_lease_view *view);

/* A whole stream in memory; NULL with a message.  free() it. */
char *cli_state_slurp(const struct cli_state_call *c, const char *path, size_t *len);

/* Run each(arg, collection) over the names of all collections, or c->where alone.
 * Returns an exit code; the message is said. */
int cli_state_each(struct cli_state_call *c, const char *only,
                   enum tenure_status (*each)(void *arg, const char *collection,
                                              struct tenure_error *err),
                   void *arg);

/* An id in JSON: as it is under "id", or if it is no UTF-8, in base64 under "id_base64". */
const char *cli_state_id_name(const char *id);
json_t *cli_state_id(const char *id);

/* Write every document as a line of JSON; read them back. */
int cli_state_export(struct cli_state_call *c);
int cli_state_import(struct cli_state_call *c);

/* Keep what is damaged, and replace it. */
int cli_state_repair(struct cli_state_call *c);

#endif
