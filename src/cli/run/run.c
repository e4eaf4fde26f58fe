/*
 * tenure run: exactly one copy of a program runs.
 *
 * The one verb that reaches into the agent: the supervisor owns the process,
 * and is no part of the library (supervise/supervisor.h).
 */
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/run/run.h"
#include "core/timing.h"
#include "driver/timing_text.h"
#include "os/init.h"

static const char help[] =
    "usage: tenure run --name NAME [--store URL] [options] -- COMMAND [ARGUMENT ...]\n"
    "\n"
    "Contends for leadership of NAME and runs COMMAND only while leading.  Start it\n"
    "on several machines: one runs COMMAND, the others stand by and take over.\n"
    "Default store: an SQLite file in your state directory, for this machine only.\n"
    "\n"
    "  --id ID              this candidate; default: the host name\n"
    "  --allow-duplicate-id  contend even if another process has it\n"
    "  --ttl 15s            how long others wait after the last renewal they saw\n"
    "  --renew 5s           renewal interval\n"
    "  --grace 8s           how long COMMAND may take to stop\n"
    "  --stop-signal TERM   the signal that asks COMMAND to stop\n"
    "  --on-loss standby    when leadership is lost: standby, exit (code 124), or\n"
    "                       restart-program (--warm programs always restart)\n"
    "  --on-exit exit       when COMMAND ends: exit (with its code), restart, yield\n"
    "                       (let another candidate lead)\n"
    "  --crash-limit 5      with restart: yield after this many failures in a row\n"
    "  --start-timeout 0    give up opening the store after this; 0: never\n"
    "  --address TEXT       where this candidate can be reached\n"
    "  --build TEXT         version of COMMAND, for --prefer\n"
    "\n"
    "  --priority N         higher goes first when leadership is free; default 0\n"
    "  --prefer none        among equals: none, oldest-build, newest-build\n"
    "  --preempt            ask a leader of lower priority to hand over\n"
    "  --preempt-delay 5s   after watching it for this long\n"
    "\n"
    "  --probe SPEC         health check of COMMAND: exec:COMMAND,\n"
    "                       http://HOST:PORT/PATH, tcp:HOST:PORT, or notify (COMMAND\n"
    "                       sends WATCHDOG=1 itself)\n"
    "  --probe-delay 0      before the first check\n"
    "  --probe-interval 5s  --probe-timeout 2s  --probe-threshold 3\n"
    "  --candidate-probe SPEC  health check of this machine, before it leads and\n"
    "                       while it stands by\n"
    "\n"
    "  --on-started CMD     shell commands, with details in their environment;\n"
    "  --on-stopped CMD     the lease is released after this one\n"
    "  --on-new-leader CMD\n"
    "  --hook-timeout 10s   time limit of a hook\n"
    "  --fence-command CMD  makes sure that a silent leader's machine is off: exit\n"
    "                       code 0 is the proof, and its lease need not run out\n"
    "  --fence-after TIME   silent for so long; --fence-timeout 30s: limit of CMD\n"
    "\n"
    "  --warm               run COMMAND on standbys too\n"
    "  --warm-file PATH     its role, written there: `standby` or `leading EPOCH`\n"
    "  --warm-signal USR1   a signal, sent when it begins to lead\n"
    "\n"
    "  --user USER[:GROUP]  run COMMAND as this user\n"
    "  --chdir DIR          run COMMAND in this directory\n"
    "  --allow-new-privs    let it gain privileges (sudo)\n"
    "\n"
    "  --contain auto       how its processes are contained: auto, pidns, cgroup,\n"
    "                       group, userns; see tenure-run(1)\n"
    "  --orphan-grace 0     from a crash of tenure itself to KILL\n"
    "  --release-delay 0    then, from COMMAND's death to the release\n"
    "  --watchdog off       use the hardware watchdog: off, auto, required\n"
    "  --watchdog-device /dev/watchdog\n"
    "\n"
    "  --state URL          give COMMAND a state that only the leader can change:\n"
    "                       HTTP on the Unix socket TENURE_SOCKET, see\n"
    "                       tenure-state(1); 'store': beside the lease\n"
    "  --seal COLLECTION    seal it before COMMAND starts; repeatable\n"
    "\n"
    "  --listen ADDR        serve HTTP: 127.0.0.1:8080 or unix:/path; repeatable\n"
    "  --token-file FILE    the token that requests over TCP need to change anything\n"
    "  --listen-reads open  or token: reads need the token too\n"
    "  --listen-host NAME   an accepted Host header; repeatable\n"
    "  --tls-cert FILE --tls-key FILE --tls-client-ca FILE\n"
    "\n"
    "  --log auto           log format on stderr: text, json, none\n"
    "  --log-level info     error, warn, info, debug\n"
    "  --log-time auto      whether lines of text begin with the time: always, never\n"
    "  --trace FILE         append what the elector and COMMAND did, one JSON object\n"
    "                       per line, for `tenure sim --check`\n"
    "\n"
    "COMMAND gets TENURE_NAME, TENURE_ID, TENURE_EPOCH and (--state) TENURE_SOCKET.\n"
    "\n"
    "Exit: COMMAND's code (128 + n for a signal); 0 a standby stopped on request; 1\n"
    "      the store refused the request; 2 usage error or impossible settings; 124\n"
    "      leadership was lost with --on-loss exit; 125 tenure itself failed; 126\n"
    "      COMMAND cannot be executed; 127 COMMAND was not found.\n";

#define S INT64_C(1000000000)

/* off: none.  auto: if it can be opened.  required: the guard refuses without it. */
static const char *choose_watchdog(const struct cli_run *r)
{
    const char *device = r->o.watchdog ? r->o.watchdog : "/dev/watchdog";

    if (r->watchdog == CLI_WATCHDOG_OFF ||
        (r->watchdog == CLI_WATCHDOG_AUTO && access(device, W_OK) != 0))
        return NULL;
    return device;
}

/* What follows from several options, or is kept where the supervisor does not look. */
static void settle(struct cli_run *r)
{
    struct tn_run_options *o = &r->o;
    const char *spec = o->candidate_probe.spec;

    o->watchdog = choose_watchdog(r);
    o->api.reads_token = r->reads == CLI_READS_TOKEN;
    o->api.hosts = r->hosts[0] ? r->hosts : NULL;
    o->seal = r->seals[0] ? r->seals : NULL;
    o->warm = o->warm || o->warm_file || o->warm_signal;
    o->candidate_probe = o->probe; /* the same times */
    o->candidate_probe.delay_ns = 0;
    o->candidate_probe.spec = spec;
    o->program.warm = o->warm;
    o->program.ignored = o->warm_signal;
}

/* Times that cannot work at all are told by who starts the elector. */
static enum tenure_status check_fence(const struct tn_run_options *o, struct tenure_error *err)
{
    const struct tenure_elector_options *e = &o->elector;
    struct tn_timing_wish wish = {.ttl_ns = e->ttl_ms * TN_MS,
                                  .renew_ns = e->renew_ms * TN_MS,
                                  .kill_ns = e->kill_ms * TN_MS,
                                  .rho_ppm = e->rho_ppm};
    struct tn_timing t;

    if (tn_timing_plan(&wish, &t) != TN_TIMING_OK)
        return TENURE_OK;
    return tn_timing_explain_fence(&t, o->fence_after_ns, err);
}

/* ---- The verb ------------------------------------------------------------ */

static int run(const struct cli_verb *verb, int argc, char **argv)
{
    static const struct tn_run_codes codes = {.failed = CLI_FAILED,
                                              .gave_up = CLI_FAILED,
                                              .usage = CLI_USAGE,
                                              .lost = CLI_LOST,
                                              .broken = CLI_BROKEN,
                                              .cannot_run = CLI_CANNOT_RUN,
                                              .not_found = CLI_NOT_FOUND};
    static struct cli_run r = {
        .o = {.elector = TENURE_ELECTOR_OPTIONS,
              .stop_signal = SIGTERM,
              .log_level = TN_LEVEL_INFO,
              .crash_limit = 5,
              .hook_timeout_ns = 10 * S,
              .fence_timeout_ns = 30 * S,
              .preempt_delay_ns = 5 * S,
              .probe = {.interval_ns = 5 * S, .timeout_ns = 2 * S, .threshold = 3}}};
    struct tn_run_options *o = &r.o;
    struct tenure_error err;
    struct cli_common c;
    int opt;

    cli_common_init(&c);
    while ((opt = cli_getopt(verb, argc, argv, CLI_OPTIONS_FIRST, cli_run_options())) != -1) {
        if (!cli_common_take(&c, verb, opt))
            cli_run_set(verb, &r, opt);
    }
    settle(&r);
    if (!c.name)
        return cli_misuse(verb, "missing --name NAME, the same on every machine");
    if (!cli_named(verb, c.name))
        return CLI_USAGE;
    if (optind >= argc)
        return cli_misuse(verb, "missing command: give it after --");
    if (o->warm && !o->warm_file && !o->warm_signal)
        return cli_misuse(
            verb, "--warm needs --warm-file or --warm-signal, to tell COMMAND when it leads");
    if (o->on_loss == TN_LOSS_RESTART && !o->warm)
        return cli_misuse(verb, "--on-loss restart-program is for --warm programs");
    if (!o->fence_command != !o->fence_after_ns)
        return cli_misuse(verb, "--fence-command and --fence-after belong together");
    if (o->fence_command && check_fence(o, &err))
        return cli_misuse(verb, "--fence-after: %s", err.text);
    o->program.args = argv + optind;
    cli_no_core();
    o->program.env = environ;
    sigprocmask(SIG_SETMASK, NULL, &o->program.mask);
    /* Who wants it started again waits for one that is not there yet. */
    enum tenure_status status =
        o->on_exit == TN_EXIT_EXIT ? tn_program_check(&o->program, &err) : TENURE_OK;
    if (status)
        return cli_fail(verb, status == TENURE_DENIED ? CLI_CANNOT_RUN : CLI_NOT_FOUND, "%s",
                        err.text);
    o->elector.name = c.name;
    o->elector.store = cli_store_find(verb, &c);
    tn_log_limit(o->log_level);
    tn_log_stamp(o->log_stamp);
    if (o->seal && !o->state)
        return cli_misuse(verb, "--seal needs --state");
    if (o->state && strcmp(o->state, CLI_LEASE_STORE) == 0)
        o->state = o->elector.store;
    if (!o->elector.store)
        return CLI_USAGE;
    tn_init_split(false);
    return tn_run(o, &codes);
}

const struct cli_verb cli_run = {"run", "run a command on exactly one of many machines", help, run};
