/* tenure pause, tenure resume: automation off, and on again. */
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "tenure/control.h"
#include "tenure/lease.h"

static const char pause_help[] =
    "usage: tenure pause --name NAME [--store URL] [--reason TEXT] [--timeout 5s]\n"
    "\n"
    "Suspends fail-over until `tenure resume`: the leader keeps leading for as long\n"
    "as it renews its lease, and no candidate takes over if it stops.  `tenure\n"
    "status` shows the pause.  Works before the first `tenure run`; the store is then\n"
    "created.\n"
    "\n"
    "  --reason TEXT    shown by `tenure status`\n"
    "\n"
    "Exit: 0 done, 1 the store refused the request, 2 usage error or invalid store\n"
    "      URL.\n";

static const char resume_help[] =
    "usage: tenure resume --name NAME [--store URL] [--force] [--timeout 5s]\n"
    "\n"
    "Ends a pause: leadership can change hands again.\n"
    "\n"
    "  --force          also if the control register is damaged; it is then replaced\n"
    "                   by an empty one\n"
    "\n"
    "Exit: 0 done, 1 the store refused the request, 2 usage error or no such store.\n";

/*
 * Replace what cannot be read.  If it is the store itself that cannot read it, some
 * can be opened to see what is damaged as it is (repair=yes): *store is such a one then.
 */
static enum tenure_status replace(tenure_store **store, const struct cli_common *c,
                                  const struct cli_verb *verb, int64_t by, struct tenure_error *err)
{
    enum tenure_status status = tenure_control_reset(*store, c->name, by, err);

    if (status == TENURE_CORRUPT && cli_repair(verb, c, store, by)) {
        status = tenure_control_reset(*store, c->name, by, err);
        if (!status)
            cli_fail(verb, 0, "the control register of %s was damaged and has been replaced",
                     c->name);
    }
    return status;
}

/* A pause may come before the first leader; a name that is mistyped pauses nothing. */
static void doubt(const struct cli_verb *verb, tenure_store *store, const char *name, int64_t by)
{
    struct tenure_lease_view view = TENURE_LEASE_VIEW;

    if (tenure_lease_look(store, name, &view, by, NULL) == TENURE_OK &&
        view.state == TENURE_LEASE_ABSENT)
        cli_fail(verb, 0, "%s has never had a leader: is the name right?", name);
}

static int change(const struct cli_verb *verb, int argc, char **argv, bool pause)
{
    const struct passwd *user = getpwuid(getuid());
    const char *reason = NULL;
    bool force = false;
    const struct cli_own pause_own[] = {{"reason", &reason, NULL}, {0}};
    const struct cli_own resume_own[] = {{"force", NULL, &force}, {0}};
    tenure_store *store = NULL;
    struct tenure_error err;
    struct cli_common c;
    int code;

    cli_common_init(&c);
    c.absent = pause ? CLI_MAKE : CLI_REFUSE;
    if (!cli_begin(verb, argc, argv, pause ? pause_own : resume_own, &c, &store, &code))
        return code;
    code = CLI_OK;
    int64_t by = tenure_now() + c.timeout_ns;
    enum tenure_status status = force ? replace(&store, &c, verb, by, &err) : TENURE_OK;
    if (!status)
        status =
            pause ? tenure_control_pause(store, c.name, user ? user->pw_name : "", reason, by, &err)
                  : tenure_control_resume(store, c.name, by, &err);
    if (status)
        code = cli_fail_with(verb, &err);
    else
        printf(pause ? "%s is paused: no candidate takes over until `tenure resume`\n"
                     : "%s: resumed\n",
               c.name);
    if (!status && pause)
        doubt(verb, store, c.name, by);
    tenure_store_close(store);
    return code;
}

static int run_pause(const struct cli_verb *verb, int argc, char **argv)
{
    return change(verb, argc, argv, true);
}

static int run_resume(const struct cli_verb *verb, int argc, char **argv)
{
    return change(verb, argc, argv, false);
}

const struct cli_verb cli_pause = {"pause", "suspend fail-over", pause_help, run_pause};
const struct cli_verb cli_resume = {"resume", "end a pause", resume_help, run_resume};
