#include "board.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAGIC   "tenure-sim soak 1"
#define YEAR_MS 31557600000.0

void sim_board_found(struct sim_board *b, const struct sim_found *found)
{
    unsigned i = atomic_fetch_add(&b->n_found, 1);

    if (i < SIM_FOUND_MAX)
        b->found[i] = *found;
}

static double years(const struct sim_board *b)
{
    return (double)(atomic_load(&b->tally[0].sim_ms) + atomic_load(&b->tally[1].sim_ms)) / YEAR_MS;
}

static uint64_t faults(const struct sim_board *b)
{
    return atomic_load(&b->tally[0].faults) + atomic_load(&b->tally[1].faults);
}

void sim_board_progress(const struct sim_board *b, double seconds)
{
    uint64_t seeds = atomic_load(&b->tally[0].histories) + atomic_load(&b->tally[1].histories);

    fprintf(stderr,
            "\r%" PRIu64 " seeds, %.1f simulated years, %.1f M faults, %u violations, %.0f s\x1b[K",
            seeds, years(b), (double)faults(b) / 1e6, atomic_load(&b->n_found), seconds);
    fflush(stderr);
}

/* ---- The report ---------------------------------------------------------- */

static void report_found(const struct sim_board *b, const struct sim_campaign *c)
{
    unsigned n = atomic_load(&b->n_found), kept = n < SIM_FOUND_MAX ? n : SIM_FOUND_MAX;
    struct sim_history h = {.model = c->model};
    char args[200];

    for (unsigned i = 0; i < kept; i++) {
        const struct sim_found *f = &b->found[i];

        h.seed = f->seed;
        h.lasting = f->lasting;
        sim_history_args(&h, args, sizeof args);
        printf("VIOLATION %s: %s\n  model %s, history %" PRIu64 " of this campaign\n"
               "  replay:  tenure-sim %s --trace\n  shorten: tenure-sim %s --minimise\n",
               f->invariant, f->why, f->model, f->lasting ? f->seed + 1 : f->seed - c->from + 1,
               args, args);
    }
    if (n > kept)
        printf("... and %u more\n", n - kept);
}

static void report_speed(const struct sim_tally *t, bool lasting, unsigned jobs, double wall)
{
    uint64_t n = atomic_load(&t->histories);
    double cpu = (double)atomic_load(&t->cpu_ns) / 1e9;

    if (n == 0 || cpu <= 0)
        return;
    /* By CPU time: what this machine does with all its cores on it. */
    double span = cpu / jobs;
    if (lasting)
        printf("speed: %.0f cluster-years in 10 minutes (3 candidates, ttl 15s; %u processes, "
               "%.1f s of CPU)\n",
               (double)atomic_load(&t->sim_ms) / YEAR_MS / span * 600, jobs, cpu);
    else
        printf("speed: %.0f short hostile histories in 5 minutes (%u processes, %.1f s of CPU)\n",
               (double)n / span * 300, jobs, cpu);
    (void)wall;
}

void sim_board_report(const struct sim_board *b, const struct sim_campaign *c, double seconds)
{
    report_found(b, c);
    printf("%" PRIu64 " short histories, %" PRIu64 " long ones, %.1f simulated years, %" PRIu64
           " steps, %" PRIu64 " starts, %" PRIu64 " faults in %.0f s\n",
           atomic_load(&b->tally[0].histories), atomic_load(&b->tally[1].histories), years(b),
           atomic_load(&b->tally[0].steps) + atomic_load(&b->tally[1].steps),
           atomic_load(&b->tally[0].starts) + atomic_load(&b->tally[1].starts), faults(b), seconds);
    printf("%" PRIu64 " of them with the product's state code, %" PRIu64 " commits\n",
           atomic_load(&b->tally[0].stated) + atomic_load(&b->tally[1].stated),
           atomic_load(&b->tally[0].commits) + atomic_load(&b->tally[1].commits));
    report_speed(&b->tally[0], false, c->jobs, seconds);
    report_speed(&b->tally[1], true, c->jobs, seconds);
    printf("slowest take-over in the calm: %.1f %% of its bound\n",
           atomic_load(&b->worst_permille) / 10.0);
    printf("%u violations\n", atomic_load(&b->n_found));
}

/* ---- A soak's state ------------------------------------------------------ */

bool sim_board_load(struct sim_board *b, const char *path, char *err, size_t size)
{
    char magic[64] = "", build[80] = "";
    uint64_t v[17];
    FILE *f = fopen(path, "r");
    bool ok = false;

    if (!f && errno == ENOENT)
        return true;
    if (!f) {
        snprintf(err, size, "cannot read %s: %s", path, strerror(errno));
        return false;
    }
    if (!fgets(magic, sizeof magic, f) || strncmp(magic, MAGIC "\n", sizeof MAGIC) != 0 ||
        fscanf(f, "build %79s\n", build) != 1) {
        snprintf(err, size, "%s is not the state of a soak", path);
        goto done;
    }
    if (strcmp(build, sim_build()) != 0) {
        snprintf(err, size,
                 "%s is the state of a soak of build %s, this is %s: remove it to begin anew", path,
                 build, sim_build());
        goto done;
    }
    for (unsigned i = 0; i < 17; i++) {
        if (fscanf(f, "%*s %" SCNu64 "\n", &v[i]) != 1) {
            snprintf(err, size, "%s is damaged: remove it to begin anew", path);
            goto done;
        }
    }
    for (unsigned i = 0; i < 2; i++) {
        atomic_store(&b->next[i], v[i]);
        atomic_store(&b->tally[i].histories, v[2 + i]);
        atomic_store(&b->tally[i].steps, v[4 + i]);
        atomic_store(&b->tally[i].faults, v[6 + i]);
        atomic_store(&b->tally[i].sim_ms, v[8 + i]);
        atomic_store(&b->tally[i].cpu_ns, v[10 + i]);
        atomic_store(&b->tally[i].stated, v[12 + i]);
        atomic_store(&b->tally[i].commits, v[14 + i]);
    }
    atomic_store(&b->n_found, (unsigned)v[16]);
    for (unsigned i = 0; i < v[16] && i < SIM_FOUND_MAX; i++) {
        struct sim_found *found = &b->found[i];
        int lasting;

        if (fscanf(f, "found %d %" SCNu64 " %7s %15s %399[^\n]\n", &lasting, &found->seed,
                   found->invariant, found->model, found->why) == 5)
            found->lasting = lasting;
    }
    ok = true;
done:
    fclose(f);
    return ok;
}

void sim_board_save(const struct sim_board *b, const char *path)
{
    char temp[4096];

    snprintf(temp, sizeof temp, "%s.new", path);
    FILE *f = fopen(temp, "w");
    if (!f)
        return;
    fprintf(f, "%s\nbuild %s\n", MAGIC, sim_build());
    for (unsigned i = 0; i < 2; i++)
        fprintf(f, "next %" PRIu64 "\n", atomic_load(&b->next[i]));
    for (unsigned i = 0; i < 2; i++)
        fprintf(f, "histories %" PRIu64 "\n", atomic_load(&b->tally[i].histories));
    for (unsigned i = 0; i < 2; i++)
        fprintf(f, "steps %" PRIu64 "\n", atomic_load(&b->tally[i].steps));
    for (unsigned i = 0; i < 2; i++)
        fprintf(f, "faults %" PRIu64 "\n", atomic_load(&b->tally[i].faults));
    for (unsigned i = 0; i < 2; i++)
        fprintf(f, "sim_ms %" PRIu64 "\n", atomic_load(&b->tally[i].sim_ms));
    for (unsigned i = 0; i < 2; i++)
        fprintf(f, "cpu_ns %" PRIu64 "\n", atomic_load(&b->tally[i].cpu_ns));
    for (unsigned i = 0; i < 2; i++)
        fprintf(f, "stated %" PRIu64 "\n", atomic_load(&b->tally[i].stated));
    for (unsigned i = 0; i < 2; i++)
        fprintf(f, "commits %" PRIu64 "\n", atomic_load(&b->tally[i].commits));
    unsigned n = atomic_load(&b->n_found);
    fprintf(f, "violations %u\n", n);
    for (unsigned i = 0; i < n && i < SIM_FOUND_MAX; i++)
        fprintf(f, "found %d %" PRIu64 " %s %s %s\n", b->found[i].lasting, b->found[i].seed,
                b->found[i].invariant, b->found[i].model, b->found[i].why);
    if (fclose(f) == 0 && rename(temp, path) != 0)
        unlink(temp);
}
