/*
 * jobs-sim - live histories of a group of workers, until a promise is broken.
 *
 *     jobs-sim [--from SEED] [--seeds N]     exit 1 at the first broken promise, with its history
 *     jobs-sim --seed SEED                   one history, line by line
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "world.h"

int main(int argc, char **argv)
{
    static struct world w;
    unsigned long long from = 1, seeds = 200, one = 0, events = 0, starts = 0, commits = 0;

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
        world_run(&w, one, true);
        return w.failed;
    }
    for (unsigned long long seed = from; seed < from + seeds; seed++) {
        world_run(&w, seed, false);
        events += w.events;
        starts += w.starts;
        commits += w.commits;
        if (!w.failed)
            continue;
        printf("VIOLATION %s: %s\n  seed %llu, history %llu\n", w.promise, w.why, seed,
               seed - from + 1);
        return 1;
    }
    printf("%llu histories, %llu events, %llu starts, %llu commits: every promise was kept\n",
           seeds, events, starts, commits);
    return 0;
}
