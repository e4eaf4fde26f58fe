/*
 * replica-sim - live histories of a replicated state, until a promise is broken.
 *
 *     replica-sim [--from SEED] [--seeds N]     exit 1 at the first broken promise
 *     replica-sim --seed SEED                   one history, line by line
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "world.h"

int main(int argc, char **argv)
{
    static struct world w;
    unsigned long long from = 1, seeds = 2000, one = 0, steps = 0, acks = 0, terms = 0, rewinds = 0,
                       snapshots = 0, applied = 0, staged = 0, released = 0;

    for (int i = 1; i + 1 < argc; i += 2) {
        unsigned long long number = strtoull(argv[i + 1], NULL, 10);

        if (strcmp(argv[i], "--from") == 0)
            from = number;
        else if (strcmp(argv[i], "--seeds") == 0)
            seeds = number;
        else if (strcmp(argv[i], "--seed") == 0)
            one = number;
    }
    if (one) {
        rep_run(&w, one, true);
        return w.failed;
    }
    for (unsigned long long seed = from; seed < from + seeds; seed++) {
        rep_run(&w, seed, false);
        steps += w.steps;
        acks += w.acks;
        terms += w.terms_begun;
        rewinds += w.rewinds;
        snapshots += w.snapshots;
        applied += w.applied;
        staged += w.staged;
        released += w.released;
        if (!w.failed)
            continue;
        printf("VIOLATION %s: %s\n  seed %llu, history %llu\n", w.promise, w.why, seed,
               seed - from + 1);
        return 1;
    }
    printf(
        "%llu histories, %llu steps: %llu terms (%llu not begun), %llu acknowledgements, "
        "%llu groups applied (%llu rewinds, %llu snapshots), %llu staged: every promise was kept\n",
        seeds, steps, terms, released, acks, applied, rewinds, snapshots, staged);
    return 0;
}
