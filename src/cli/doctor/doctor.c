/*
 * tenure doctor: does this store keep its promises, here and now?
 *
 * It reaches as far in as `run` does: to the arithmetic of time (core/timing.h)
 * and to the guard, since it answers for both.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/hex.h"
#include "cli/doctor/doctor.h"
#include "driver/timing_text.h"

static const char help[] =
    "usage: tenure doctor [--store URL] [--ttl 15s] [--quick] [--strict] [--json]\n"
    "\n"
    "Tests whether a store can carry leadership, using throw-away registers: are\n"
    "conditions enforced, are swaps atomic under contention, are reads fresh, do\n"
    "notifications arrive?  Also compares the store's latency with the ttl, and\n"
    "checks this machine's clock and what the guard can use here.  Prints one line\n"
    "per test with a verdict: ok, weak or broken.  No election is touched.\n"
    "\n"
    "  --store URL      the store to test; default: this user's default store\n"
    "  --ttl 15s        the ttl that you intend to use\n"
    "  --quick          fewer tests, in a few seconds\n"
    "  --strict         exit with 5 if anything is weak\n"
    "  --timeout 5s     time limit of a single request\n"
    "  --json           print one JSON object at the end\n"
    "\n"
    "About twenty tombstones remain below tenure-doctor/ in the store.\n"
    "\n"
    "Exit: 0 nothing is broken, 1 the store cannot be reached or some tests could not\n"
    "      be run, 2 usage error, impossible ttl or invalid store URL, 4 a promise is\n"
    "      broken, 5 a promise is weak (with --strict).\n";

enum { OPT_TTL = CLI_OPT_OWN, OPT_QUICK, OPT_STRICT };

struct check {
    const char *name;
    void (*run)(struct doctor *d);
};

/* Waiting before racing: some bugs show only while a connection has written nothing. */
static const struct check store_checks[] = {
    {"rights", doctor_check_rights},
    {"durability", doctor_check_durability},
    {"conditions", doctor_check_conditions},
    {"tombstones", doctor_check_tombstones},
    {"batch", doctor_check_batch},
    {"list", doctor_check_list},
    {"wait", doctor_check_wait},
    {"notify", doctor_check_notify},
    {"reads", doctor_check_reads},
    {"one winner", doctor_check_contest},
    {"lost writes", doctor_check_count},
    {"deadlines", doctor_check_deadlines},
    {"latency", doctor_check_latency},
    {"session", doctor_check_session},
    {"price", doctor_check_price},
};
static const struct check machine_checks[] = {
    {"clock", doctor_check_clock},
    {"guard", doctor_check_guard},
    {"timers", doctor_check_timers},
};

/* Interrupted: nothing further is begun, and what was written is tidied up.  The
 * second time it ends at once. */
static volatile sig_atomic_t interrupted;

static void on_signal(int signo)
{
    interrupted = signo;
}

static void catch_signals(void)
{
    const struct sigaction action = {.sa_handler = on_signal,
                                     .sa_flags = (int)(SA_RESETHAND | SA_RESTART)};

    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}

static void run_check(struct doctor *d, const struct check *c)
{
    doctor_begin(d, c->name);
    d->err.text[0] = '\0';
    c->run(d);
    doctor_end(d);
}

/* ---- Reaching it --------------------------------------------------------- */

static bool reach(struct doctor *d)
{
    char took[24];

    doctor_begin(d, "reach");
    int64_t begin = tenure_now();
    enum tenure_status status = tenure_store_open(d->url, doctor_by(d), &d->store, &d->err);
    doctor_time(tenure_now() - begin, took);
    if (!status) {
        d->info = *tenure_store_info(d->store);
        if (!d->info.shared)
            doctor_say(d, DOCTOR_WEAK, "opened in %s; it is private to this process", took);
        status = doctor_crew_open(&d->crew, doctor_by(d), &d->err);
    }
    d->misnamed = status == TENURE_CONFIG || status == TENURE_INVALID;
    if (status)
        doctor_say(d, DOCTOR_UNTESTED, "%s", d->err.text);
    else
        doctor_say(d, DOCTOR_OK, "opened in %s; then %d more connections, in processes and threads",
                   took, CREW_SIZE);
    doctor_end(d);
    return !status;
}

/* A store that only this process sees has nothing to say to the crew. */
static bool applies(const struct doctor *d, const struct check *c)
{
    if (c->run == doctor_check_durability)
        return d->info.weakness != NULL;
    if (c->run == doctor_check_price)
        return d->info.swap_price != 0;
    return d->info.shared || c->run == doctor_check_rights || c->run == doctor_check_conditions ||
           c->run == doctor_check_tombstones || c->run == doctor_check_batch ||
           c->run == doctor_check_list || c->run == doctor_check_latency;
}

static void examine(struct doctor *d)
{
    if (reach(d)) {
        for (unsigned i = 0; i < sizeof store_checks / sizeof store_checks[0]; i++) {
            if (!applies(d, &store_checks[i]))
                continue;
            run_check(d, &store_checks[i]);
            /* Without rights, and with calls that hang, nothing further can be learnt. */
            if (d->crew.hung || interrupted || (i == 0 && !doctor_well(d)))
                break;
        }
        if (!d->crew.hung)
            doctor_tidy(d);
    }
    for (unsigned i = 0; !interrupted && i < sizeof machine_checks / sizeof machine_checks[0]; i++)
        run_check(d, &machine_checks[i]);
}

/* ---- The verb ------------------------------------------------------------ */

static int take_options(struct doctor *d, int argc, char **argv, int64_t *ttl_ns)
{
    static const struct option options[] = {CLI_COMMON_OPTIONS,
                                            {"ttl", required_argument, NULL, OPT_TTL},
                                            {"quick", no_argument, NULL, OPT_QUICK},
                                            {"strict", no_argument, NULL, OPT_STRICT},
                                            {0}};
    int opt;

    cli_common_init(&d->common);
    while ((opt = cli_getopt(d->verb, argc, argv, CLI_ANY_ORDER, options)) != -1) {
        if (opt == OPT_TTL)
            *ttl_ns = cli_duration(d->verb, "--ttl", optarg);
        else if (opt == OPT_QUICK)
            d->quick = true;
        else if (opt == OPT_STRICT)
            d->strict = true;
        else
            cli_common_take(&d->common, d->verb, opt);
    }
    if (optind < argc)
        return cli_misuse(d->verb, "'%.40s': give options only", argv[optind]);
    return CLI_OK;
}

static bool draw_prefix(struct doctor *d)
{
    uint8_t nonce[TENURE_NONCE_SIZE];
    char hex[TN_NONCE_HEX + 1];

    if (tenure_nonce(nonce, &d->err) != TENURE_OK)
        return false;
    tn_hex_encode(nonce, 4, hex);
    snprintf(d->prefix, sizeof d->prefix, "tenure-doctor/%.8s/", hex);
    return true;
}

static int run(const struct cli_verb *verb, int argc, char **argv)
{
    static struct doctor doctor;
    struct doctor *d = &doctor;
    struct tn_timing_wish wish = {.notifies = true};

    d->verb = verb;
    int code = take_options(d, argc, argv, &wish.ttl_ns);
    if (code)
        return code;
    enum tn_timing_fault fault = tn_timing_plan(&wish, &d->timing);
    if (fault) {
        tn_timing_explain(fault, &d->timing, &d->err);
        return cli_misuse(verb, "%s", d->err.text);
    }
    d->url = cli_store_find(verb, &d->common);
    if (!d->url)
        return CLI_USAGE;
    tenure_url_redact(d->url, d->shown, sizeof d->shown);
    doctor_clocks_read(&d->start);
    if (!draw_prefix(d) || doctor_crew_fork(&d->crew, d->url, &d->err) != TENURE_OK) {
        doctor_crew_end(&d->crew);
        return cli_fail(verb, CLI_FAILED, "%s", d->err.text);
    }
    d->facts = json_object();
    if (!d->common.json)
        printf("%s%s%s\n", cli_bold(), d->shown, cli_plain());
    catch_signals();
    examine(d);
    code = interrupted ? 128 + interrupted : doctor_conclude(d);
    doctor_crew_end(&d->crew);
    fflush(stdout);
    if (d->crew.hung)
        _exit(code); /* a thread of ours hangs in the store's code */
    tenure_store_close(d->store);
    tenure_value_free(&d->value);
    json_decref(d->facts);
    return code;
}

const struct cli_verb cli_doctor = {"doctor", "test whether a store keeps its promises", help, run};
