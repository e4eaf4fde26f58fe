/* The options of `tenure run`: their table, and what each does to the supervisor's settings. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/run.h"

enum {
    OPT_ID = CLI_OPT_OWN,
    OPT_TTL,
    OPT_RENEW,
    OPT_GRACE,
    OPT_STOP_SIGNAL,
    OPT_ON_LOSS,
    OPT_ON_EXIT,
    OPT_CRASH_LIMIT,
    OPT_START_TIMEOUT,
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
    OPT_LOG_LEVEL,
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

const struct option cli_run_options[] = {
    CLI_COMMON_OPTIONS,
    {"id", required_argument, NULL, OPT_ID},
    {"ttl", required_argument, NULL, OPT_TTL},
    {"renew", required_argument, NULL, OPT_RENEW},
    {"grace", required_argument, NULL, OPT_GRACE},
    {"stop-signal", required_argument, NULL, OPT_STOP_SIGNAL},
    {"on-loss", required_argument, NULL, OPT_ON_LOSS},
    {"on-exit", required_argument, NULL, OPT_ON_EXIT},
    {"crash-limit", required_argument, NULL, OPT_CRASH_LIMIT},
    {"start-timeout", required_argument, NULL, OPT_START_TIMEOUT},
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
    {"log-level", required_argument, NULL, OPT_LOG_LEVEL},
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

/* ---- Values -------------------------------------------------------------- */

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

/* ---- Options by subject -------------------------------------------------- */

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

void cli_run_take(const struct cli_verb *verb, struct tn_run_options *o, int opt, int *watchdog)
{
    static const char *const losses[] = {"standby", "exit", "restart-program", NULL};
    static const char *const exits[] = {"exit", "restart", "yield", NULL};
    static const char *const contains[] = {"auto", "group", "cgroup", "pidns", "userns", NULL};
    static const char *const watchdogs[] = {"off", "auto", "required", NULL};
    static const char *const logs[] = {"auto", "text", "json", "none", NULL};
    static const char *const levels[] = {"error", "warn", "info", "debug", NULL};

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
    case OPT_START_TIMEOUT:
        o->start_timeout_ns = cli_duration(verb, "--start-timeout", optarg);
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
    case OPT_LOG_LEVEL:
        o->log_level = (enum tn_log_level)choose(verb, "--log-level", levels);
        break;
    case OPT_TRACE:
        o->trace = optarg;
        break;
    case OPT_STATE:
        o->state = optarg;
        break;
    case OPT_SOCKET:
        o->state = o->state ? o->state : CLI_LEASE_STORE;
        break;
    case OPT_SEAL:
        take_seal(verb, o);
        break;
    default:
        take_more(verb, o, opt);
    }
}
