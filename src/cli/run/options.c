/* The options of `tenure run`: one table says what each is and which setting it fills. */
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/run/run.h"

enum kind {
    TEXT,    /* const char * */
    FLAG,    /* bool; takes no value */
    NUMBER,  /* int, from min to max */
    CHOICE,  /* an enum: the place in words */
    SIGNAL,  /* int */
    MS,      /* int64_t, whole milliseconds */
    MS_NS,   /* the same, kept in nanoseconds */
    NS,      /* int64_t, any duration */
    APPEND,  /* const char *[max + 1]: repeatable */
    SHORTCUT /* `--socket`: what `--state store` is; takes no value */
};

struct row {
    const char *name;
    enum kind kind;
    size_t at; /* in struct cli_run */
    const char *const *words;
    long min, max;
};

static const char *const losses[] = {"standby", "exit", "restart-program", NULL};
static const char *const exits[] = {"exit", "restart", "yield", NULL};
static const char *const containments[] = {"auto", "group", "cgroup", "pidns", "userns", NULL};
static const char *const watchdogs[] = {"off", "auto", "required", NULL};
static const char *const formats[] = {"auto", "text", "json", "none", NULL};
static const char *const levels[] = {"error", "warn", "info", "debug", NULL};
static const char *const stamps[] = {"auto", "always", "never", NULL};
static const char *const prefers[] = {"none", "oldest-build", "newest-build", NULL};
static const char *const reads[] = {"open", "token", NULL};

#define AT(member) offsetof(struct cli_run, member)

/* clang-format off */
static const struct row rows[] = {
    {"id", TEXT, AT(o.elector.id)},
    {"ttl", MS, AT(o.elector.ttl_ms)},
    {"renew", MS, AT(o.elector.renew_ms)},
    {"grace", MS, AT(o.elector.grace_ms)},
    {"stop-signal", SIGNAL, AT(o.stop_signal)},
    {"on-loss", CHOICE, AT(o.on_loss), losses},
    {"on-exit", CHOICE, AT(o.on_exit), exits},
    {"crash-limit", NUMBER, AT(o.crash_limit), NULL, 1, 1000000},
    {"start-timeout", NS, AT(o.start_timeout_ns)},
    {"priority", NUMBER, AT(o.elector.priority), NULL, -1000000, 1000000},
    {"address", TEXT, AT(o.elector.address)},
    {"build", TEXT, AT(o.elector.build)},
    {"user", TEXT, AT(o.program.user)},
    {"chdir", TEXT, AT(o.program.cwd)},
    {"allow-duplicate-id", FLAG, AT(o.allow_duplicate_id)},
    {"allow-new-privs", FLAG, AT(o.program.privs)},
    {"contain", CHOICE, AT(o.contain), containments},
    {"orphan-grace", NS, AT(o.orphan_grace_ns)},
    {"release-delay", NS, AT(o.release_delay_ns)},
    {"watchdog", CHOICE, AT(watchdog), watchdogs},
    {"watchdog-device", TEXT, AT(o.watchdog)},
    {"log", CHOICE, AT(o.log), formats},
    {"log-level", CHOICE, AT(o.log_level), levels},
    {"log-time", CHOICE, AT(o.log_stamp), stamps},
    {"trace", TEXT, AT(o.trace)},
    {"listen", APPEND, AT(o.api.listen), NULL, 0, TN_API_LISTENERS},
    {"listen-reads", CHOICE, AT(reads), reads},
    {"listen-host", APPEND, AT(hosts), NULL, 0, CLI_RUN_HOSTS},
    {"token-file", TEXT, AT(o.api.token_file)},
    {"tls-cert", TEXT, AT(o.api.tls_cert)},
    {"tls-key", TEXT, AT(o.api.tls_key)},
    {"tls-client-ca", TEXT, AT(o.api.tls_client_ca)},
    {"state", TEXT, AT(o.state)},
    {"socket", SHORTCUT, AT(o.state)},
    {"seal", APPEND, AT(seals), NULL, 0, CLI_RUN_SEALS},
    {"prefer", CHOICE, AT(o.prefer), prefers},
    {"preempt", FLAG, AT(o.preempt)},
    {"preempt-delay", NS, AT(o.preempt_delay_ns)},
    {"probe", TEXT, AT(o.probe.spec)},
    {"probe-delay", NS, AT(o.probe.delay_ns)},
    {"probe-interval", MS_NS, AT(o.probe.interval_ns)},
    {"probe-timeout", MS_NS, AT(o.probe.timeout_ns)},
    {"probe-threshold", NUMBER, AT(o.probe.threshold), NULL, 1, 1000},
    {"candidate-probe", TEXT, AT(o.candidate_probe.spec)},
    {"on-started", TEXT, AT(o.on_started)},
    {"on-stopped", TEXT, AT(o.on_stopped)},
    {"on-new-leader", TEXT, AT(o.on_new_leader)},
    {"hook-timeout", MS_NS, AT(o.hook_timeout_ns)},
    {"fence-command", TEXT, AT(o.fence_command)},
    {"fence-after", NS, AT(o.fence_after_ns)},
    {"fence-timeout", MS_NS, AT(o.fence_timeout_ns)},
    {"warm", FLAG, AT(o.warm)},
    {"warm-file", TEXT, AT(o.warm_file)},
    {"warm-signal", SIGNAL, AT(o.warm_signal)},
};
/* clang-format on */

enum { ROWS = sizeof rows / sizeof rows[0] };

/* Enums are kept as int, so that one row kind can fill them all. */
_Static_assert(sizeof(enum tn_on_loss) == sizeof(int), "enums are ints");
_Static_assert(sizeof(int32_t) == sizeof(int), "priority is an int");

const struct option *cli_run_options(void)
{
    static const struct option common[] = {CLI_COMMON_OPTIONS};
    static struct option all[sizeof common / sizeof common[0] + ROWS + 1];
    size_t n = sizeof common / sizeof common[0];

    memcpy(all, common, sizeof common);
    for (int i = 0; i < ROWS; i++) {
        bool bare = rows[i].kind == FLAG || rows[i].kind == SHORTCUT;

        all[n++] = (struct option){.name = rows[i].name,
                                   .has_arg = bare ? no_argument : required_argument,
                                   .val = CLI_OPT_OWN + i};
    }
    return all;
}

const struct option *cli_run_pick(const char *const *names, const struct option *own)
{
    static struct option all[sizeof rows / sizeof rows[0] + 40];
    size_t n = 0;

    for (const struct option *o = cli_run_options(); o->name; o++) {
        bool picked = o->val < CLI_OPT_OWN; /* a common one */

        for (size_t i = 0; names[i] && !picked; i++)
            picked = strcmp(o->name, names[i]) == 0;
        if (picked)
            all[n++] = *o;
    }
    for (; own->name && n < sizeof all / sizeof all[0] - 1; own++)
        all[n++] = *own;
    all[n] = (struct option){0};
    return all;
}

/* ---- Values -------------------------------------------------------------- */

static _Noreturn void refuse(const struct cli_verb *verb, const struct row *r, const char *wanted)
{
    exit(cli_misuse(verb, "--%s '%.40s': give %s", r->name, optarg, wanted));
}

static int choose(const struct cli_verb *verb, const struct row *r)
{
    char list[128] = "one of ";

    for (int i = 0; r->words[i]; i++) {
        if (strcmp(r->words[i], optarg) == 0)
            return i;
        size_t used = strlen(list);
        snprintf(list + used, sizeof list - used, "%s%s", i ? ", " : "", r->words[i]);
    }
    refuse(verb, r, list);
}

static int number(const struct cli_verb *verb, const struct row *r)
{
    char *end, wanted[64];
    long n = strtol(optarg, &end, 10);

    if (*optarg && !*end && n >= r->min && n <= r->max)
        return (int)n;
    snprintf(wanted, sizeof wanted, "a number from %ld to %ld", r->min, r->max);
    refuse(verb, r, wanted);
}

static int64_t duration(const struct cli_verb *verb, const struct row *r)
{
    char option[64];

    snprintf(option, sizeof option, "--%s", r->name);
    return cli_duration(verb, option, optarg);
}

/* The elector counts in milliseconds; what is asked for is never rounded away. */
static int64_t milliseconds(const struct cli_verb *verb, const struct row *r)
{
    int64_t ns = duration(verb, r);

    if (ns == 0 || ns % 1000000 != 0)
        refuse(verb, r, "whole milliseconds, at least one");
    return ns / 1000000;
}

static int signal_number(const struct cli_verb *verb, const struct row *r)
{
    const char *name = strncmp(optarg, "SIG", 3) == 0 ? optarg + 3 : optarg;

    for (int i = 1; i < 32; i++) {
        const char *abbrev = sigabbrev_np(i);

        if (abbrev && strcmp(abbrev, name) == 0 && i != SIGKILL && i != SIGSTOP)
            return i;
    }
    refuse(verb, r, "a name such as TERM, INT or USR1");
}

static void append(const struct cli_verb *verb, const struct row *r, const char **list)
{
    long n = 0;

    while (list[n])
        n++;
    if (n == r->max)
        exit(cli_misuse(verb, "--%s: at most %ld times", r->name, r->max));
    list[n] = optarg;
}

void cli_run_set(const struct cli_verb *verb, struct cli_run *run, int opt)
{
    if (opt < CLI_OPT_OWN)
        exit(CLI_USAGE); /* getopt_long() has said why */

    const struct row *r = &rows[opt - CLI_OPT_OWN];
    void *at = (char *)run + r->at;
    switch (r->kind) {
    case TEXT:
        *(const char **)at = optarg;
        break;
    case FLAG:
        *(bool *)at = true;
        break;
    case NUMBER:
        *(int *)at = number(verb, r);
        break;
    case CHOICE:
        *(int *)at = choose(verb, r);
        break;
    case SIGNAL:
        *(int *)at = signal_number(verb, r);
        break;
    case MS:
        *(int64_t *)at = milliseconds(verb, r);
        break;
    case MS_NS:
        *(int64_t *)at = milliseconds(verb, r) * 1000000;
        break;
    case NS:
        *(int64_t *)at = duration(verb, r);
        break;
    case APPEND:
        append(verb, r, at);
        break;
    case SHORTCUT:
        if (!run->o.state)
            run->o.state = CLI_LEASE_STORE;
        break;
    }
}
