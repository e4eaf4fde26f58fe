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
#include "cli/run.h"
#include "os/init.h"

static const char help[] =
    "usage: tenure run --name NAME [--store URL] [options] -- COMMAND [ARGUMENT ...]\n"
    "\n"
    "Contends for leadership of NAME and runs COMMAND only while leading.  Start it\n"
    "on many machines: one runs COMMAND, the others stand by and take over.\n"
    "Without --store: an SQLite file in your state directory, for this machine alone.\n"
    "\n"
    "  --id ID              this candidate; default: host, process, random digits\n"
    "  --ttl 15s            how long the others wait after the last renewal\n"
    "  --renew 5s           from one renewal to the next\n"
    "  --grace 8s           how long COMMAND may take to stop when asked to\n"
    "  --stop-signal TERM   what asks it to\n"
    "  --on-loss standby    after leadership was lost: standby, exit (code 124), or\n"
    "                       restart-program (which a --warm program is in any case)\n"
    "  --on-exit exit       after COMMAND has ended: exit (with its code), restart,\n"
    "                       yield (let another one lead)\n"
    "  --crash-limit 5      restart: after so many ends in a row, yield\n"
    "  --start-timeout 0    give up opening the store after so long; 0: never\n"
    "  --address TEXT       where this candidate can be reached, for people\n"
    "  --build TEXT         version of COMMAND, for people and --prefer\n"
    "\n"
    "  --priority N         who goes first when leadership is free; default 0\n"
    "  --prefer none        among equals: none, oldest-build, newest-build\n"
    "  --preempt            ask a lower leader to hand over to this one\n"
    "  --preempt-delay 5s   after having watched it for so long\n"
    "\n"
    "  --probe SPEC         is COMMAND well?  exec:COMMAND, http://HOST:PORT/PATH,\n"
    "                       tcp:HOST:PORT, or notify (it says WATCHDOG=1 itself)\n"
    "  --probe-delay 0      from COMMAND's start to the first time\n"
    "  --probe-interval 5s  --probe-timeout 2s  --probe-threshold 3\n"
    "  --candidate-probe SPEC  may this machine lead?  Asked before and while it\n"
    "                       stands by\n"
    "\n"
    "  --on-started CMD     shell commands, with the facts in their environment;\n"
    "  --on-stopped CMD     the release waits for this one\n"
    "  --on-new-leader CMD\n"
    "  --hook-timeout 10s   then they are killed\n"
    "\n"
    "  --warm               run COMMAND on standbys too\n"
    "  --warm-file PATH     and tell it there: `standby`, or `leading EPOCH`\n"
    "  --warm-signal USR1   and by a signal, when it begins to lead\n"
    "\n"
    "  --user USER[:GROUP]  run COMMAND as somebody else\n"
    "  --chdir DIR          run it there\n"
    "  --allow-new-privs    let it gain privileges (sudo, set-user-id programs)\n"
    "\n"
    "  --contain auto       how to hold its processes together: auto, pidns, cgroup,\n"
    "                       group, userns; see tenure-run(1)\n"
    "  --orphan-grace 0     from a crash of tenure itself to KILL\n"
    "  --release-delay 0    then, from COMMAND's death to the release\n"
    "  --watchdog off       arm the machine's watchdog while leading: off, auto,\n"
    "                       required\n"
    "  --watchdog-device /dev/watchdog\n"
    "\n"
    "  --state URL          give COMMAND a state that only the leader can change:\n"
    "                       TENURE_SOCKET is a Unix socket (HTTP; see\n"
    "                       tenure-state(1)); URL may be 'store'\n"
    "  --seal COLLECTION    seal it whole at a take-over, before COMMAND starts;\n"
    "                       repeatable\n"
    "\n"
    "  --listen ADDR        answer HTTP: 127.0.0.1:8080 or unix:/path; repeatable\n"
    "  --token-file FILE    changes over TCP need the token in it\n"
    "  --listen-reads open  or token: reads need it too\n"
    "  --listen-host NAME   that Host may have; repeatable\n"
    "  --tls-cert FILE --tls-key FILE --tls-client-ca FILE\n"
    "\n"
    "  --log auto           what tenure tells on stderr: text, json, none\n"
    "  --log-level info     how much of it: error, warn, info, debug\n"
    "  --trace FILE         append what the elector and COMMAND did, a line of JSON\n"
    "                       each, for `tenure sim --check`\n"
    "\n"
    "COMMAND gets TENURE_NAME, TENURE_ID and TENURE_EPOCH, with --state also\n"
    "TENURE_SOCKET, and nothing of the store.\n"
    "\n"
    "Exit: that of COMMAND (128 + n for a signal); 0 when a standby was asked to\n"
    "      stop; 1 the store refused, 2 usage or settings that cannot work,\n"
    "      124 leadership was lost with --on-loss exit, 125 tenure's own failure,\n"
    "      126 COMMAND cannot be executed, 127 there is no such command.\n";

#define S INT64_C(1000000000)

/* off: none.  auto: if it can be opened.  required: the guard refuses without it. */
static void settle_watchdog(struct tn_run_options *o, int watchdog)
{
    const char *device = o->watchdog ? o->watchdog : "/dev/watchdog";

    o->watchdog = NULL;
    if (watchdog == 2 || (watchdog == 1 && access(device, W_OK) == 0))
        o->watchdog = device;
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
    struct tn_run_options o = {
        .elector = TENURE_ELECTOR_OPTIONS,
        .stop_signal = SIGTERM,
        .log_level = TN_LEVEL_INFO,
        .crash_limit = 5,
        .hook_timeout_ns = 10 * S,
        .preempt_delay_ns = 5 * S,
        .probe = {.interval_ns = 5 * S, .timeout_ns = 2 * S, .threshold = 3}};
    struct tenure_error err;
    struct cli_common c;
    int opt, watchdog = 0;

    cli_common_init(&c);
    while ((opt = cli_getopt(verb, argc, argv, CLI_OPTIONS_FIRST, cli_run_options)) != -1) {
        if (!cli_common_take(&c, verb, opt))
            cli_run_take(verb, &o, opt, &watchdog);
    }
    if (!c.name)
        return cli_misuse(verb, "give --name NAME: what the copies have in common");
    if (!cli_named(verb, c.name))
        return CLI_USAGE;
    if (optind >= argc)
        return cli_misuse(verb, "give a command to run, behind --");
    if (o.warm && !o.warm_file && !o.warm_signal)
        return cli_misuse(verb, "--warm: how is COMMAND told?  Give --warm-file or --warm-signal");
    if (o.on_loss == TN_LOSS_RESTART && !o.warm)
        return cli_misuse(verb, "--on-loss restart-program is for --warm programs");
    settle_watchdog(&o, watchdog);
    const char *spec = o.candidate_probe.spec;
    o.candidate_probe = o.probe; /* the same times */
    o.candidate_probe.delay_ns = 0;
    o.candidate_probe.spec = spec;
    o.program.warm = o.warm;
    o.program.ignored = o.warm_signal;
    o.program.args = argv + optind;
    cli_no_core();
    o.program.env = environ;
    sigprocmask(SIG_SETMASK, NULL, &o.program.mask);
    enum tenure_status status = tn_program_check(&o.program, &err);
    if (status)
        return cli_fail(verb, status == TENURE_DENIED ? CLI_CANNOT_RUN : CLI_NOT_FOUND, "%s",
                        err.text);
    o.elector.name = c.name;
    o.elector.store = cli_store_find(verb, &c);
    tn_log_limit(o.log_level);
    if (o.seal && !o.state)
        return cli_misuse(verb, "--seal is of use with --state only");
    if (o.state && strcmp(o.state, CLI_LEASE_STORE) == 0)
        o.state = o.elector.store;
    if (!o.elector.store)
        return CLI_USAGE;
    tn_init_split();
    return tn_run(&o, &codes);
}

const struct cli_verb cli_run = {"run", "run a command on exactly one of many machines", help, run};
