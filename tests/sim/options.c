#include "options.h"

#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "replay.h"

static const char help[] =
    "usage: tenure-sim [--model M] --seed N [--trace] [--minimise] [--save FILE]\n"
    "       tenure-sim --replay FILE\n"
    "       tenure-sim [--model M] [--from N] [--seeds N] [--lasting N] [--seconds S]\n"
    "       tenure-sim --soak FILE\n"
    "       tenure-sim --check FILE ... [--allow S] [--trace]\n"
    "       tenure-sim --models\n"
    "\n"
    "Lives simulated histories of elections: the shipped elector in a hostile world.\n"
    "\n"
    "  --seed N       one history; the same seed and build, the same history\n"
    "  --trace        tell it\n"
    "  --minimise     take away what does not matter to the broken promise, and tell\n"
    "                 it\n"
    "  --only LIST    of its faults only these (as --minimise prints them)\n"
    "  --without LIST candidates that never start: n2,n4\n"
    "  --long         with --seed: a long calm history instead of a short hostile one\n"
    "  --save FILE    write it down, with its hash; --replay checks that it is the\n"
    "                 same\n"
    "\n"
    "  --from N       a campaign's first seed (default 1)\n"
    "  --seeds N      how many short hostile histories (default 100000)\n"
    "  --lasting N    how many long ones: 30 days, 3 candidates, ttl 15s (default 8)\n"
    "  --seconds S    stop after so long\n"
    "  --jobs N       processes (default: as many as there are cores)\n"
    "  --first        stop at the first violation\n"
    "  --progress     one line that is refreshed, as in a soak\n"
    "  --soak FILE    until stopped; go on from FILE the next time\n"
    "  --ignore LIST  do not judge these promises: I6,I12\n"
    "  --model M      one model; --models lists them\n"
    "\n"
    "  --check        judge traces of real processes (tenure run --trace) by the same\n"
    "                 rules; give all files of one election\n"
    "  --allow S      seconds that a busy machine may add to the time to a leader\n"
    "                 (default 30)\n"
    "\n"
    "Exit: 0 no promise was broken, 1 one was, 2 usage.\n";

enum {
    OPT_SEED = 256,
    OPT_TRACE,
    OPT_MINIMISE,
    OPT_ONLY,
    OPT_WITHOUT,
    OPT_LONG,
    OPT_SAVE,
    OPT_REPLAY,
    OPT_FROM,
    OPT_SEEDS,
    OPT_LASTING,
    OPT_SECONDS,
    OPT_JOBS,
    OPT_FIRST,
    OPT_PROGRESS,
    OPT_SOAK,
    OPT_IGNORE,
    OPT_MODEL,
    OPT_MODELS,
    OPT_CHECK,
    OPT_ALLOW,
    OPT_HELP,
};

struct wish {
    struct sim_history history;
    struct sim_campaign campaign;
    bool one, trace, minimise, models, check, help;
    uint64_t allow_s;
    const char *save, *replay;
    char ignore[100];
};

__attribute__((format(printf, 1, 2))) static int misuse(const char *format, ...)
{
    va_list args;

    fputs("tenure-sim: ", stderr);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputs("; see tenure-sim --help\n", stderr);
    return 2;
}

static bool number(const char *text, uint64_t *out)
{
    char *end;

    errno = 0;
    *out = strtoull(text, &end, 10);
    return isdigit((unsigned char)text[0]) && !*end && errno == 0;
}

static bool count(const char *text, unsigned most, unsigned *out)
{
    uint64_t n;

    if (!number(text, &n) || n < 1 || n > most)
        return false;
    *out = (unsigned)n;
    return true;
}

static bool without(const char *text, uint16_t *bits)
{
    for (const char *p = text; *p;) {
        if (p[0] != 'n' || p[1] < '0' || p[1] > '8' || (p[2] && p[2] != ','))
            return false;
        *bits |= (uint16_t)(1u << (p[1] - '0'));
        p += p[2] ? 3 : 2;
    }
    return true;
}

static int list_models(void)
{
    for (unsigned i = 0; sim_families[i]; i++)
        printf("%-10s %2u %%  promises %s\n", sim_families[i]->name, sim_families[i]->weight,
               sim_families[i]->promise);
    return 0;
}

static int unknown_model(const char *name)
{
    fprintf(stderr, "tenure-sim: no model is called '%s'; there are", name);
    for (unsigned i = 0; sim_families[i]; i++)
        fprintf(stderr, "%s %s", i ? "," : "", sim_families[i]->name);
    fputc('\n', stderr);
    return 2;
}

static bool bad_number(int opt, const char *text, struct wish *wish)
{
    struct sim_campaign *c = &wish->campaign;
    uint64_t n;

    switch (opt) {
    case OPT_SEED:
        wish->one = true;
        return !number(text, &wish->history.seed);
    case OPT_FROM:
        return !number(text, &c->from);
    case OPT_SEEDS:
        return !number(text, &c->hostile);
    case OPT_LASTING:
        return !number(text, &c->lasting);
    case OPT_ALLOW:
        return !number(text, &wish->allow_s) || wish->allow_s > 86400;
    case OPT_SECONDS:
        if (!number(text, &n))
            return true;
        c->seconds = (double)n;
        return false;
    default:
        return false;
    }
}

/* One option.  0: fine; else the exit code. */
static int take(int opt, char *text, struct wish *wish)
{
    struct sim_campaign *c = &wish->campaign;
    const char *wrong;

    if (bad_number(opt, text, wish))
        return misuse("'%s' is not a number from 0 to 18446744073709551615", text);
    switch (opt) {
    case OPT_TRACE:
        wish->trace = true;
        break;
    case OPT_MINIMISE:
        wish->minimise = true;
        break;
    case OPT_ONLY:
        if ((wrong = sim_history_only(&wish->history, text)))
            return misuse("'%s' is not the name of a fault", wrong);
        break;
    case OPT_WITHOUT:
        if (!without(text, &wish->history.without))
            return misuse("'%s' is not a list of candidates such as n1,n2", text);
        break;
    case OPT_LONG:
        wish->history.lasting = true;
        break;
    case OPT_SAVE:
        wish->save = text;
        break;
    case OPT_REPLAY:
        wish->replay = text;
        break;
    case OPT_JOBS:
        if (!count(text, 64, &c->jobs))
            return misuse("--jobs '%s' is not 1 to 64", text);
        break;
    case OPT_FIRST:
        c->first = true;
        break;
    case OPT_PROGRESS:
        c->progress = true;
        break;
    case OPT_SOAK:
        c->soak = text;
        break;
    case OPT_IGNORE:
        snprintf(wish->ignore, sizeof wish->ignore, ",%s,", text);
        c->ignore = wish->history.ignore = wish->ignore;
        break;
    case OPT_MODEL:
        if (!(c->model = sim_family_find(text)))
            return unknown_model(text);
        wish->history.model = c->model;
        break;
    case OPT_MODELS:
        wish->models = true;
        break;
    case OPT_CHECK:
        wish->check = true;
        break;
    case OPT_HELP:
        wish->help = true;
        break;
    case '?':
        return misuse("that is not how it is used");
    default:
        break;
    }
    return 0;
}

/* ---- Doing --------------------------------------------------------------- */

static int tell(const struct sim_world *w)
{
    printf("hash %016" PRIx64 ", model %s, %.3f s simulated, %" PRIu64 " steps, %" PRIu64
           " faults\n",
           w->trace.hash, w->plan.family->name, (double)w->now_ns / 1e9, w->counts.steps,
           w->counts.faults);
    if (w->failed)
        printf("VIOLATION %s: %s\n", w->invariant, w->why);
    return w->failed ? 1 : 0;
}

static int live_one(struct wish *wish)
{
    static struct sim_world w;
    static char args[SIM_FIRED_MAX * 16];
    struct sim_history *h = &wish->history;
    char err[400];

    if (wish->minimise && !sim_history_minimise(&w, h)) {
        printf("no promise is broken: there is nothing to shorten\n");
        return 0;
    }
    if (wish->save && !sim_history_save(&w, h, wish->save, err, sizeof err)) {
        fprintf(stderr, "tenure-sim: %s\n", err);
        return 2;
    }
    sim_history_live(&w, h, wish->trace || wish->minimise ? stdout : NULL, false);
    if (wish->minimise) {
        sim_history_args(h, args, sizeof args);
        printf("again: tenure-sim %s --trace\n", args);
    }
    return tell(&w);
}

static int replay(struct wish *wish)
{
    static struct sim_world w;
    uint64_t hash;
    char err[400];

    if (!sim_history_load(&wish->history, &hash, wish->replay, err, sizeof err)) {
        fprintf(stderr, "tenure-sim: %s\n", err);
        return 2;
    }
    sim_history_live(&w, &wish->history, wish->trace ? stdout : NULL, false);
    int code = tell(&w);
    if (w.trace.hash != hash) {
        fprintf(stderr, "tenure-sim: %s says %016" PRIx64 ": it is not the same history\n",
                wish->replay, hash);
        return 1;
    }
    return code;
}

static unsigned cores(void)
{
    long n = sysconf(_SC_NPROCESSORS_ONLN);

    return n < 1 ? 1 : n > 64 ? 64 : (unsigned)n;
}

int sim_main(int argc, char **argv)
{
    static const struct option options[] = {
        {"seed", required_argument, NULL, OPT_SEED},
        {"trace", no_argument, NULL, OPT_TRACE},
        {"minimise", no_argument, NULL, OPT_MINIMISE},
        {"minimize", no_argument, NULL, OPT_MINIMISE},
        {"only", required_argument, NULL, OPT_ONLY},
        {"without", required_argument, NULL, OPT_WITHOUT},
        {"long", no_argument, NULL, OPT_LONG},
        {"save", required_argument, NULL, OPT_SAVE},
        {"replay", required_argument, NULL, OPT_REPLAY},
        {"from", required_argument, NULL, OPT_FROM},
        {"seeds", required_argument, NULL, OPT_SEEDS},
        {"lasting", required_argument, NULL, OPT_LASTING},
        {"seconds", required_argument, NULL, OPT_SECONDS},
        {"jobs", required_argument, NULL, OPT_JOBS},
        {"first", no_argument, NULL, OPT_FIRST},
        {"progress", no_argument, NULL, OPT_PROGRESS},
        {"soak", required_argument, NULL, OPT_SOAK},
        {"ignore", required_argument, NULL, OPT_IGNORE},
        {"model", required_argument, NULL, OPT_MODEL},
        {"models", no_argument, NULL, OPT_MODELS},
        {"check", no_argument, NULL, OPT_CHECK},
        {"allow", required_argument, NULL, OPT_ALLOW},
        {"help", no_argument, NULL, OPT_HELP},
        {0},
    };
    static struct wish wish = {.campaign = {.from = 1, .hostile = 100000, .lasting = 8},
                               .allow_s = 30};
    int opt, code;

    wish.campaign.jobs = cores();
    while ((opt = getopt_long(argc, argv, "", options, NULL)) != -1) {
        if ((code = take(opt, optarg, &wish)))
            return code;
    }
    if (wish.help) {
        fputs(help, stdout);
        return 0;
    }
    if (wish.check && optind == argc)
        return misuse("--check: give the traces to judge");
    if (wish.check)
        return sim_replay(argv + optind, argc - optind, (int64_t)wish.allow_s * TN_S,
                          wish.trace ? stdout : NULL);
    if (optind < argc)
        return misuse("'%s' is not understood", argv[optind]);
    if (wish.models)
        return list_models();
    if (wish.replay)
        return replay(&wish);
    if (wish.one)
        return live_one(&wish);
    if (wish.trace || wish.minimise || wish.save || wish.history.only)
        return misuse("--trace, --minimise, --only and --save need --seed");
    if (wish.campaign.soak) {
        wish.campaign.progress = true;
        wish.campaign.hostile = wish.campaign.lasting = UINT64_MAX;
    }
    return sim_campaign_run(&wish.campaign);
}
