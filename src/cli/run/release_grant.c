/* tenure release-grant: frees the lease of a tenure that died, at the guard's word. */
#include <string.h>

#include "cli/cli.h"
#include "guard/protocol.h"
#include "supervise/guard/releaser.h"

static int release_grant(const struct cli_verb *verb, int argc, char **argv)
{
    struct tenure_error err = {0};
    bool wait = argc > 1 && strcmp(argv[1], "--when-told") == 0;

    cli_no_core(); /* nor does /proc show the environment, once it is ours */
    tn_release_environment(TN_GUARD_FD_TICKET);
    enum tenure_status status =
        wait ? tn_release_when_told(TN_GUARD_FD_SOCKET, TN_GUARD_FD_TICKET, &err)
             : tn_release_from(TN_GUARD_FD_TICKET, &err);

    if (status && status != TENURE_CONFLICT) /* somebody else has it: nothing to do */
        return cli_fail(verb, CLI_FAILED, "%s", err.text);
    return CLI_OK;
}

const struct cli_verb cli_release_grant = {
    "release-grant", NULL,
    "This verb is for the guard: it frees the lease of a tenure that died.\n", release_grant};
