/* tenure release-grant: what the guard executes when tenure has died. */
#include "agent/releaser.h"
#include "cli/cli.h"
#include "guard/protocol.h"

static int release_grant(const struct cli_verb *verb, int argc, char **argv)
{
    struct tenure_error err = {0};
    enum tenure_status status = tn_release_from(TN_GUARD_FD_FACTS, &err);

    (void)argc, (void)argv;
    if (status && status != TENURE_CONFLICT) /* somebody else has it: nothing to do */
        return cli_fail(verb, CLI_FAILED, "%s", err.text);
    return CLI_OK;
}

const struct cli_verb cli_release_grant = {
    "release-grant", NULL,
    "This verb is for the guard: it frees the lease of a tenure that died.\n", release_grant};
