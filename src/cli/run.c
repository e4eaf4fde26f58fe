/*
 * tenure run: exactly one copy of a program runs.
 *
 * The one verb that reaches into the agent: the supervisor owns the process,
 * and is no part of the library (agent/supervisor.h).
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/releaser.h"
#include "agent/supervisor.h"
#include "cli/cli.h"
#include "guard/protocol.h"

static const char help[] =
    "usage: tenure run --name NAME [--store URL] [options] -- COMMAND [ARGUMENT ...]\n"
    "\n"
    "Contends for leadership of NAME and runs COMMAND only while leading.  Start it on\n"
    "as many machines as you like: one runs COMMAND, the others stand by and take over.\n"
    "Without --store: an SQLite file in your state directory, for this machine alone.\n"
    "\n"
    "  --id ID              this candidate; default: host name, process, random digits\n"
    "  --ttl 15s            how long the others wait after the last renewal\n"
    "  --renew 5s           from one renewal to the next\n"
    "  --grace 8s           how long COMMAND may take to stop when asked to\n"
    "  --stop-signal TERM   what asks it to\n"
    "  --on-loss standby    after leadership was lost: standby, exit (code 124), or\n"
    "                       restart-program (which a --warm program is in any case)\n"
    "  --on-exit exit       after COMMAND has ended: exit (with its code), restart,\n"
    "                       yield (let another one lead)\n"
    "  --crash-limit 5      restart: after so many ends in a row, yield\n"
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
    "  --probe-delay 0      --probe-interval 5s --probe-timeout 2s --probe-threshold 3\n"
    "  --candidate-probe SPEC  may this machine lead?  Asked before and while it stands by\n"
    "\n"
    "  --on-started CMD     shell commands, with the facts in their environment;\n"
    "  --on-stopped CMD     the release waits for this one\n"
    "  --on-new-leader CMD\n"
    "  --hook-timeout 10s   then they are killed\n"
    "\n"
    "  --warm               run COMMAND on stand-bys too\n"
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
    "  --watchdog off       arm the machine's watchdog while leading: off, auto, required\n"
    "  --watchdog-device /dev/watchdog\n"
    "\n"
    "  --state URL          give COMMAND a state that only the leader can change: TENURE_SOCKET\n"
    "                       is a Unix socket (HTTP; see tenure-state(1)); URL may be 'store'\n"
    "  --seal COLLECTION    seal it whole at a take-over, before COMMAND starts; repeatable\n"
    "\n"
    "  --listen ADDR        answer HTTP: 127.0.0.1:8080 or unix:/path; repeatable\n"
    "  --token-file FILE    changes over TCP need the token in it\n"
    "  --listen-reads open  or token: reads need it too\n"
    "  --listen-host NAME   that Host may have; repeatable\n"
    "  --tls-cert FILE --tls-key FILE --tls-client-ca FILE\n"
    "\n"
    "  --log auto           what tenure tells on stderr: text, json, none\n"
    "  --trace FILE         append what the elector and COMMAND did, a JSON line each;\n"
    "                       `tenure sim --check FILE ...` judges such traces\n"
    "\n"
    "COMMAND gets TENURE_NAME, TENURE_ID and TENURE_EPOCH, with --state TENURE_SOCKET,\n"
    "and nothing of the store.\n"
    "\n"
    "Exit: that of COMMAND (128 + n for a signal); 0 when a stand-by was asked to stop;\n"
    "      1 the store said no, 2 usage or settings that cannot work, 124 leadership\n"
    "      was lost with --on-loss exit, 125 tenure's own failure, 126 COMMAND cannot\n"
    "      be executed, 127 there is no such command.\n";

#define S INT64_C(1000000000)

enum {
    OPT_ID = CLI_OPT_OWN,
    OPT_TTL,
    OPT_RENEW,
    OPT_GRACE,
    OPT_STOP_SIGNAL,
    OPT_ON_LOSS,
    OPT_ON_EXIT,
    OPT_CRASH_LIMIT,
    OPT_PRIORITY,
    OPT_ADDRESS,
    OPT_BUILD,
    OPT_USER,
    OPT_CHDIR,
    OPT_PRIVS,
    OPT_CONTAIN,
    OPT_ORPHAN_GRACE,
    OPT_RELEASE_DELAY,
    OPT_WATCHDOG,
    OPT_WATCHDOG_DEVICE,
    OPT_LOG,
    OPT_TRACE,
    OPT_STATE,
    OPT_SOCKET,
    OPT_SEAL,
    OPT_PREFER,
    OPT_PREEMPT,
    OPT_PREEMPT_DELAY,
    OPT_PROBE,
    OPT_PROBE_DELAY,
    OPT_PROBE_INTERVAL,
    OPT_PROBE_TIMEOUT,
    OPT_PROBE_THRESHOLD,
    OPT_CANDIDATE_PROBE,
    OPT_ON_STARTED,
    OPT_ON_STOPPED,
    OPT_ON_NEW_LEADER,
    OPT_HOOK_TIMEOUT,
    OPT_WARM,
    OPT_WARM_FILE,
    OPT_WARM_SIGNAL,
    OPT_LISTEN,
    OPT_LISTEN_READS,
    OPT_LISTEN_HOST,
    OPT_TOKEN_FILE,
    OPT_TLS_CERT,
    OPT_TLS_KEY,
    OPT_TLS_CLIENT_CA,
};

static const struct option options[] = {
    CLI_COMMON_OPTIONS,
    {"id", required_argument, NULL, OPT_ID},
    {"ttl", required_argument, NULL, OPT_TTL},
    {"renew", required_argument, NULL, OPT_RENEW},
    {"grace", required_argument, NULL, OPT_GRACE},
    {"stop-signal", required_argument, NULL, OPT_STOP_SIGNAL},
    {"on-loss", required_argument, NULL, OPT_ON_LOSS},
    {"on-exit", required_argument, NULL, OPT_ON_EXIT},
    {"crash-limit", required_argument, NULL, OPT_CRASH_LIMIT},
    {"priority", required_argument, NULL, OPT_PRIORITY},
    {"address", required_argument, NULL, OPT_ADDRESS},
    {"build", required_argument, NULL, OPT_BUILD},
    {"user", required_argument, NULL, OPT_USER},
    {"chdir", required_argument, NULL, OPT_CHDIR},
    {"allow-new-privs", no_argument, NULL, OPT_PRIVS},
    {"contain", required_argument, NULL, OPT_CONTAIN},
    {"orphan-grace", required_argument, NULL, OPT_ORPHAN_GRACE},
    {"release-delay", required_argument, NULL, OPT_RELEASE_DELAY},
    {"watchdog", required_argument, NULL, OPT_WATCHDOG},
    {"watchdog-device", required_argument, NULL, OPT_WATCHDOG_DEVICE},
    {"log", required_argument, NULL, OPT_LOG},
    {"trace", required_argument, NULL, OPT_TRACE},
    {"listen", required_argument, NULL, OPT_LISTEN},
    {"listen-reads", required_argument, NULL, OPT_LISTEN_READS},
    {"listen-host", required_argument, NULL, OPT_LISTEN_HOST},
    {"token-file", required_argument, NULL, OPT_TOKEN_FILE},
    {"tls-cert", required_argument, NULL, OPT_TLS_CERT},
    {"tls-key", required_argument, NULL, OPT_TLS_KEY},
    {"tls-client-ca", required_argument, NULL, OPT_TLS_CLIENT_CA},
    {"state", required_argument, NULL, OPT_STATE},
    {"socket", no_argument, NULL, OPT_SOCKET},
    {"seal", required_argument, NULL, OPT_SEAL},
    {"prefer", required_argument, NULL, OPT_PREFER},
    {"preempt", no_argument, NULL, OPT_PREEMPT},
    {"preempt-delay", required_argument, NULL, OPT_PREEMPT_DELAY},
    {"probe", required_argument, NULL, OPT_PROBE},
    {"probe-delay", required_argument, NULL, OPT_PROBE_DELAY},
    {"probe-interval", required_argument, NULL, OPT_PROBE_INTERVAL},
    {"probe-timeout", required_argument, NULL, OPT_PROBE_TIMEOUT},
    {"probe-threshold", required_argument, NULL, OPT_PROBE_THRESHOLD},
    {"candidate-probe", required_argument, NULL, OPT_CANDIDATE_PROBE},
    {"on-started", required_argument, NULL, OPT_ON_STARTED},
    {"on-stopped", required_argument, NULL, OPT_ON_STOPPED},
    {"on-new-leader", required_argument, NULL, OPT_ON_NEW_LEADER},
    {"hook-timeout", required_argument, NULL, OPT_HOOK_TIMEOUT},
    {"warm", no_argument, NULL, OPT_WARM},
    {"warm-file", required_argument, NULL, OPT_WARM_FILE},
    {"warm-signal", required_argument, NULL, OPT_WARM_SIGNAL},
    {0},
};

/* ---- Options ------------------------------------------------------------- */

/* One of words, by its place; exits with a message that lists them. */
static int choose(const struct cli_verb *verb, const char *option, const char *const *words)
{
    char list[128] = "";

    for (int i = 0; words[i]; i++) {
        if (strcmp(words[i], optarg) == 0)
            return i;
        size_t used = strlen(list);
        snprintf(list + used, sizeof list - used, "%s%s", i ? ", " : "", words[i]);
    }
    exit(cli_misuse(verb, "%s '%.40s': give one of %s", option, optarg, list));
}

static long number(const struct cli_verb *verb, const char *option, long least, long most)
{
    char *end;
    long n = strtol(optarg, &end, 10);

    if (!*optarg || *end || n < least || n > most)
        exit(cli_misuse(verb, "%s '%.40s': give a number from %ld to %ld", option, optarg, least,
                        most));
    return n;
}

/* The electors count in milliseconds; what is asked for is never rounded away. */
static int64_t milliseconds(const struct cli_verb *verb, const char *option)
{
    int64_t ns = cli_duration(verb, option, optarg);

    if (ns == 0 || ns % 1000000 != 0)
        exit(cli_misuse(verb, "%s '%.40s': give whole milliseconds, at least one", option, optarg));
    return ns / 1000000;
}

static int signal_number(const struct cli_verb *verb, const char *option)
{
    const char *name = strncmp(optarg, "SIG", 3) == 0 ? optarg + 3 : optarg;

    for (int i = 1; i < 32; i++) {
        const char *abbrev = sigabbrev_np(i);

        if (abbrev && strcmp(abbrev, name) == 0 && i != SIGKILL && i != SIGSTOP)
            return i;
    }
    exit(cli_misuse(verb, "%s '%.40s': give a name such as TERM, INT or USR1", option, optarg));
}

/* --listen-host may come often; the list lives as long as the process. */
static void take_host(const struct cli_verb *verb, struct tn_api_options *o)
{
    static const char *list[17];
    static size_t n;

    if (n + 1 == sizeof list / sizeof list[0])
        exit(cli_misuse(verb, "--listen-host: at most 16 names"));
    list[n++] = optarg;
    o->hosts = list;
}

static void take_listen(const struct cli_verb *verb, struct tn_api_options *o)
{
    size_t n = 0;

    while (o->listen[n])
        n++;
    if (n == TN_API_LISTENERS)
        exit(cli_misuse(verb, "--listen: at most %d times", TN_API_LISTENERS));
    o->listen[n] = optarg;
}

/* HTTP. */
static void take_http(const struct cli_verb *verb, struct tn_api_options *o, int opt)
{
    static const char *const reads[] = {"open", "token", NULL};

    switch (opt) {
    case OPT_LISTEN:
        take_listen(verb, o);
        break;
    case OPT_LISTEN_READS:
        o->reads_token = choose(verb, "--listen-reads", reads) == 1;
        break;
    case OPT_LISTEN_HOST:
        take_host(verb, o);
        break;
    case OPT_TOKEN_FILE:
        o->token_file = optarg;
        break;
    case OPT_TLS_CERT:
        o->tls_cert = optarg;
        break;
    case OPT_TLS_KEY:
        o->tls_key = optarg;
        break;
    case OPT_TLS_CLIENT_CA:
        o->tls_client_ca = optarg;
        break;
    default:
        exit(CLI_USAGE);
    }
}

/* Probes, hooks, warmth and rank. */
static void take_more(const struct cli_verb *verb, struct tn_run_options *o, int opt)
{
    static const char *const prefers[] = {"none", "oldest-build", "newest-build", NULL};

    switch (opt) {
    case OPT_PREFER:
        o->prefer = (enum tn_prefer)choose(verb, "--prefer", prefers);
        break;
    case OPT_PREEMPT:
        o->preempt = true;
        break;
    case OPT_PREEMPT_DELAY:
        o->preempt_delay_ns = cli_duration(verb, "--preempt-delay", optarg);
        break;
    case OPT_PROBE:
        o->probe.spec = optarg;
        break;
    case OPT_PROBE_DELAY:
        o->probe.delay_ns = cli_duration(verb, "--probe-delay", optarg);
        break;
    case OPT_PROBE_INTERVAL:
        o->probe.interval_ns = milliseconds(verb, "--probe-interval") * 1000000;
        break;
    case OPT_PROBE_TIMEOUT:
        o->probe.timeout_ns = milliseconds(verb, "--probe-timeout") * 1000000;
        break;
    case OPT_PROBE_THRESHOLD:
        o->probe.threshold = (int)number(verb, "--probe-threshold", 1, 1000);
        break;
    case OPT_CANDIDATE_PROBE:
        o->candidate_probe.spec = optarg;
        break;
    case OPT_ON_STARTED:
        o->on_started = optarg;
        break;
    case OPT_ON_STOPPED:
        o->on_stopped = optarg;
        break;
    case OPT_ON_NEW_LEADER:
        o->on_new_leader = optarg;
        break;
    case OPT_HOOK_TIMEOUT:
        o->hook_timeout_ns = milliseconds(verb, "--hook-timeout") * 1000000;
        break;
    case OPT_WARM_FILE:
        o->warm_file = optarg;
        o->warm = true;
        break;
    case OPT_WARM_SIGNAL:
        o->warm_signal = signal_number(verb, "--warm-signal");
        o->warm = true;
        break;
    case OPT_WARM:
        o->warm = true;
        break;
    default:
        take_http(verb, &o->api, opt);
    }
}

#define LEASE_STORE "store"

/* --seal may come often; the list lives as long as the process. */
static void take_seal(const struct cli_verb *verb, struct tn_run_options *o)
{
    static const char *list[65];
    static size_t n;

    if (n + 1 == sizeof list / sizeof list[0])
        exit(cli_misuse(verb, "--seal: at most 64 collections"));
    list[n++] = optarg;
    o->seal = list;
}

static void take(const struct cli_verb *verb, struct tn_run_options *o, int opt, int *watchdog)
{
    static const char *const losses[] = {"standby", "exit", "restart-program", NULL};
    static const char *const exits[] = {"exit", "restart", "yield", NULL};
    static const char *const contains[] = {"auto", "group", "cgroup", "pidns", "userns", NULL};
    static const char *const watchdogs[] = {"off", "auto", "required", NULL};
    static const char *const logs[] = {"auto", "text", "json", "none", NULL};

    switch (opt) {
    case OPT_ID:
        o->elector.id = optarg;
        break;
    case OPT_TTL:
        o->elector.ttl_ms = milliseconds(verb, "--ttl");
        break;
    case OPT_RENEW:
        o->elector.renew_ms = milliseconds(verb, "--renew");
        break;
    case OPT_GRACE:
        o->elector.grace_ms = milliseconds(verb, "--grace");
        break;
    case OPT_STOP_SIGNAL:
        o->stop_signal = signal_number(verb, "--stop-signal");
        break;
    case OPT_ON_LOSS:
        o->on_loss = (enum tn_on_loss)choose(verb, "--on-loss", losses);
        break;
    case OPT_ON_EXIT:
        o->on_exit = (enum tn_on_exit)choose(verb, "--on-exit", exits);
        break;
    case OPT_CRASH_LIMIT:
        o->crash_limit = (int)number(verb, "--crash-limit", 1, 1000000);
        break;
    case OPT_PRIORITY:
        o->elector.priority = (int32_t)number(verb, "--priority", -1000000, 1000000);
        break;
    case OPT_ADDRESS:
        o->elector.address = optarg;
        break;
    case OPT_BUILD:
        o->elector.build = optarg;
        break;
    case OPT_USER:
        o->program.user = optarg;
        break;
    case OPT_CHDIR:
        o->program.cwd = optarg;
        break;
    case OPT_PRIVS:
        o->program.privs = true;
        break;
    case OPT_CONTAIN:
        o->contain = (enum tn_contain)choose(verb, "--contain", contains);
        break;
    case OPT_ORPHAN_GRACE:
        o->orphan_grace_ns = cli_duration(verb, "--orphan-grace", optarg);
        break;
    case OPT_RELEASE_DELAY:
        o->release_delay_ns = cli_duration(verb, "--release-delay", optarg);
        break;
    case OPT_WATCHDOG:
        *watchdog = choose(verb, "--watchdog", watchdogs);
        break;
    case OPT_WATCHDOG_DEVICE:
        o->watchdog = optarg;
        break;
    case OPT_LOG:
        o->log = (enum tn_log_format)choose(verb, "--log", logs);
        break;
    case OPT_TRACE:
        o->trace = optarg;
        break;
    case OPT_STATE:
        o->state = optarg;
        break;
    case OPT_SOCKET:
        o->state = o->state ? o->state : LEASE_STORE;
        break;
    case OPT_SEAL:
        take_seal(verb, o);
        break;
    default:
        take_more(verb, o, opt);
    }
}

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
                                              .usage = CLI_USAGE,
                                              .lost = CLI_LOST,
                                              .broken = CLI_BROKEN,
                                              .cannot_run = CLI_CANNOT_RUN,
                                              .not_found = CLI_NOT_FOUND};
    struct tn_run_options o = {
        .elector = TENURE_ELECTOR_OPTIONS,
        .stop_signal = SIGTERM,
        .crash_limit = 5,
        .hook_timeout_ns = 10 * S,
        .preempt_delay_ns = 5 * S,
        .probe = {.interval_ns = 5 * S, .timeout_ns = 2 * S, .threshold = 3}};
    struct tenure_error err;
    struct cli_common c;
    int opt, watchdog = 0;

    cli_common_init(&c);
    while ((opt = getopt_long(argc, argv, "+", options, NULL)) != -1) {
        if (opt == '?')
            return cli_misuse(verb, "that option is not known, or lacks its value");
        if (!cli_common_take(&c, verb, opt))
            take(verb, &o, opt, &watchdog);
    }
    if (!c.name)
        return cli_misuse(verb, "give --name NAME: what the copies have in common");
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
    o.program.env = environ;
    sigprocmask(SIG_SETMASK, NULL, &o.program.mask);
    enum tenure_status status = tn_program_check(&o.program, &err);
    if (status)
        return cli_fail(verb, status == TENURE_DENIED ? CLI_CANNOT_RUN : CLI_NOT_FOUND, "%s",
                        err.text);
    o.elector.name = c.name;
    o.elector.store = c.store ? c.store : cli_default_store(verb);
    if (o.seal && !o.state)
        return cli_misuse(verb, "--seal is of use with --state only");
    if (o.state && strcmp(o.state, LEASE_STORE) == 0)
        o.state = o.elector.store;
    return o.elector.store ? tn_run(&o, &codes) : CLI_FAILED;
}

const struct cli_verb cli_run = {"run", "run a command on exactly one of many machines", help, run};

/* ---- What the guard executes --------------------------------------------- */

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
