/* tenure handover, tenure step-down: leadership changes hands on purpose. */
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "tenure/control.h"
#include "tenure/lease.h"

static const char handover_help[] =
    "usage: tenure handover --name NAME [--store URL] [--to ID] [--timeout 60s]\n"
    "                       [--json]\n"
    "\n"
    "Asks the leader to drain its program and hand over to a healthy standby: ID, or\n"
    "the one with the highest priority.  Waits until the successor leads, and prints\n"
    "how long no program was running.\n"
    "\n"
    "Exit: 0 done; 1 no standby can take over (nothing was changed), time-out, or a\n"
    "      candidate other than ID won; 2 usage error or no such store; 3 no leader.\n";

static const char step_down_help[] =
    "usage: tenure step-down --name NAME [--store URL] [--for 30s] [--timeout 5s]\n"
    "                        [--force]\n"
    "\n"
    "Asks the leader to drain its program, release its lease, and stay out of the\n"
    "election for a while.  Any standby takes over; without one, nobody leads.\n"
    "\n"
    "  --force    also during a pause, when no standby takes over\n"
    "\n"
    "Exit: 0 request recorded, 1 the store refused the request or it is paused, 2\n"
    "      usage error or no such store, 3 no leader.\n";

static int show(const struct cli_common *c, const struct tenure_handover *r, const char *to)
{
    if (c->json) {
        json_t *object = json_pack("{s:s, s:s, s:s, s:I, s:f, s:b, s:b}", "name", c->name, "from",
                                   r->from, "to", r->to, "epoch", (json_int_t)r->epoch, "gap_ms",
                                   r->gap_ns < 0 ? -1.0 : (double)r->gap_ns / 1e6, "exact",
                                   (int)r->same_clock, "as_asked", (int)r->as_asked);

        json_dumpf(object, stdout, JSON_COMPACT | JSON_REAL_PRECISION(6));
        json_decref(object);
        putchar('\n');
    } else {
        printf("%s%s%s: %s handed over to %s%s%s, epoch %" PRIu64 "\n", cli_bold(), c->name,
               cli_plain(), r->from, cli_green(), r->to, cli_plain(), r->epoch);
        if (r->gap_ns >= 0)
            printf("  no program ran for %.1f ms%s\n", (double)r->gap_ns / 1e6,
                   r->same_clock ? "" : " (measured with two machines' clocks)");
    }
    return to && strcmp(to, r->to) != 0 ? CLI_FAILED : CLI_OK;
}

static int run_handover(const struct cli_verb *verb, int argc, char **argv)
{
    struct tenure_handover result = TENURE_HANDOVER;
    const char *to = NULL;
    const struct cli_own own[] = {{"to", &to, NULL}, {0}};
    tenure_store *store = NULL;
    struct tenure_error err;
    struct cli_common c;
    int code;

    cli_common_init(&c);
    c.timeout_ns = INT64_C(60000000000);
    c.absent = CLI_REFUSE;
    if (!cli_begin(verb, argc, argv, own, &c, &store, &code))
        return code;
    enum tenure_status status =
        tenure_handover(store, c.name, to, &result, tenure_now() + c.timeout_ns, &err);
    if (status == TENURE_NOT_LEADER)
        code = cli_fail(verb, CLI_NOT_HELD, "%s", err.text);
    else if (status == TENURE_INVALID) /* who is asked for leads already: refused, not mistyped */
        code = cli_fail(verb, CLI_FAILED, "%s", err.text);
    else if (status)
        code = cli_fail_with(verb, &err);
    else
        code = show(&c, &result, to);
    tenure_store_close(store);
    return code;
}

static int step_down(const struct cli_verb *verb, tenure_store *store, const struct cli_common *c,
                     int64_t for_ns, bool force)
{
    struct tenure_lease_view lease = TENURE_LEASE_VIEW;
    struct tenure_control control = TENURE_CONTROL;
    int64_t by = tenure_now() + c->timeout_ns;
    struct tenure_error err;

    if (tenure_lease_look(store, c->name, &lease, by, &err))
        return cli_fail_with(verb, &err);
    if (lease.state == TENURE_LEASE_REFUSED)
        return cli_fail(verb, CLI_FAILED, "%s: who leads is not known: %s", c->name, lease.trouble);
    if (lease.state != TENURE_LEASE_HELD)
        return cli_fail(verb, CLI_NOT_HELD, "%s: nobody leads", c->name);
    if (!force && tenure_control_look(store, c->name, &control, by, &err))
        return cli_fail_with(verb, &err);
    if (control.paused)
        return cli_fail(verb, CLI_FAILED,
                        "%s is paused: nobody would take over from %s; run `tenure resume` first, "
                        "or give --force",
                        c->name, lease.holder);
    if (tenure_control_yield(store, c->name, lease.epoch, NULL, for_ns / 1000000, by, &err))
        return cli_fail_with(verb, &err);
    printf("%s was asked to step down\n", lease.holder);
    return CLI_OK;
}

static int run_step_down(const struct cli_verb *verb, int argc, char **argv)
{
    const char *span = "30s";
    bool force = false;
    const struct cli_own own[] = {{"for", &span, NULL}, {"force", NULL, &force}, {0}};
    tenure_store *store = NULL;
    struct cli_common c;
    int code;

    cli_common_init(&c);
    c.absent = CLI_REFUSE;
    if (!cli_begin(verb, argc, argv, own, &c, &store, &code))
        return code;
    code = step_down(verb, store, &c, cli_duration(verb, "--for", span), force);
    tenure_store_close(store);
    return code;
}

const struct cli_verb cli_handover = {"handover", "hand leadership over to a standby",
                                      handover_help, run_handover};
const struct cli_verb cli_step_down = {"step-down", "make the leader step down for a while",
                                       step_down_help, run_step_down};
