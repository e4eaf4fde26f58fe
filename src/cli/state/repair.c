/* tenure state repair: what is damaged is kept aside, and replaced. */
#include <stdlib.h>
#include <string.h>

#include "base/hex.h"
#include "cli/state/state.h"

/*
 * The last grant of the election, which the repaired document's fence is not
 * below, whatever of the state is lost.  NULL: nobody was ever granted anything,
 * or it cannot be told and the repair is forced.
 */
static bool last_grant(struct cli_state_call *c, struct tenure_grant *grant,
                       const struct tenure_grant **least)
{
    struct tenure_lease_view view = TENURE_LEASE_VIEW;

    *least = NULL;
    if (!cli_state_lease(c, &view))
        return c->force;
    if (!cli_state_unheld(c, &view))
        return false;
    /* There was a grant, and the record cannot tell which: without it the fence may sink below
     * what was granted (I3). */
    if (view.state != TENURE_LEASE_HELD && view.state != TENURE_LEASE_FREE &&
        view.state != TENURE_LEASE_ABSENT && !c->force) {
        cli_fail(c->verb, 0,
                 "the lease record of %s cannot be used (%s), so that the last epoch is not known; "
                 "`tenure reset` it first, or --force repairs without it",
                 c->common.name, view.trouble);
        return false;
    }
    grant->epoch = view.epoch;
    if ((view.state == TENURE_LEASE_HELD || view.state == TENURE_LEASE_FREE) && view.epoch &&
        tn_hex_decode(view.grant, grant->id, sizeof grant->id))
        *least = grant;
    return true;
}

static int print_kept(const struct cli_state_call *c, const char *collection, const char *id,
                      const char *kept)
{
    if (!c->common.json) {
        printf("repaired; what was there is kept in ");
        cli_state_print(kept);
        putchar('\n');
        return CLI_OK;
    }
    bool text = strcmp(cli_state_id_name(kept), "id") == 0;
    json_t *o = json_pack("{s:s, s:o, s:o}", "collection", collection, cli_state_id_name(id),
                          cli_state_id(id), text ? "kept" : "kept_base64", cli_state_id(kept));
    bool told = o && json_dumpf(o, stdout, JSON_COMPACT) == 0 && putchar('\n') != EOF;
    json_decref(o);
    return told ? CLI_OK : CLI_FAILED;
}

int cli_state_repair(struct cli_state_call *c)
{
    char collection[128] = "", kept[TENURE_KEEP_MAX + 1], *text = NULL;
    const struct tenure_grant *least;
    struct tenure_grant grant = {0};
    struct tenure_error err;
    const char *id = "";
    size_t len = 0;

    if (!c->where ||
        (strchr(c->where, '/') ? !cli_state_split(c->where, collection, sizeof collection, &id)
                               : strlen(c->where) >= sizeof collection))
        return cli_misuse(c->verb, "missing argument COLLECTION/ID");
    if (!*id)
        memcpy(collection, c->where, strlen(c->where) + 1);
    if (*id ? !c->file == !c->remove : c->file || c->remove)
        return cli_misuse(c->verb, *id ? "give a FILE ('-': standard input) to put there, or "
                                         "--delete"
                                       : "the root of a collection takes no FILE and no --delete");
    if (!last_grant(c, &grant, &least) || (c->file && !(text = cli_state_slurp(c, c->file, &len))))
        return c->code;
    if (cli_may_ask() && !cli_confirm(c->verb, c->yes, "Replace %s, if it is damaged?", c->where)) {
        free(text);
        return cli_fail(c->verb, CLI_FAILED, "%s was not changed", c->where);
    }
    enum tenure_status status =
        tenure_state_repair(c->state, collection, id, text, len, least, kept, c->deadline, &err);
    free(text);
    if (status) /* INVALID too: what is well is not repaired */
        return cli_fail(c->verb, CLI_FAILED, "%s", err.text);
    return print_kept(c, collection, id, kept);
}
