/*
 * explore - every history of two or three candidates, over the shipped elector.
 *
 *     explore [--nodes 2|3] [--faults 1] [--states 2000000]
 *
 * Clocks run at the edges of the drift bound (all combinations), each candidate
 * may crash once while it holds a grant, and up to --faults other faults happen
 * anywhere: requests and answers lost, slow, or landing long after, cut off
 * from the store, paused.  States are merged when they can only behave alike
 * (canon.c); without faults left the world is periodic, so the search ends by
 * itself: then it was exhaustive within these bounds, and says so.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/canon.h"

struct search {
    struct canon *seen;
    uint64_t cap, states, limit, steps;
    struct world *stack;
    size_t depth, stack_cap;
    /* The choices of one step: what was taken, of how many. */
    int path[64], width[64];
    int at, len;
    bool stopped;
};

/* ---- Choices of one step ------------------------------------------------- */

static int choose(void *arg, int n)
{
    struct search *s = arg;

    if (s->at == s->len) {
        s->path[s->len] = 0;
        s->width[s->len] = n;
        s->len++;
    }
    return s->path[s->at++];
}

/* The next combination of choices, like an odometer.  false: all were tried. */
static bool advance(struct search *s)
{
    while (s->len > 0) {
        if (++s->path[s->len - 1] < s->width[s->len - 1])
            return true;
        s->len--;
    }
    return false;
}

/* ---- Seen states --------------------------------------------------------- */

static bool is_new(struct search *s, const struct canon *c)
{
    uint64_t at = c->hash[0] & (s->cap - 1);

    while (s->seen[at].hash[0] || s->seen[at].hash[1]) {
        if (s->seen[at].hash[0] == c->hash[0] && s->seen[at].hash[1] == c->hash[1])
            return false;
        at = (at + 1) & (s->cap - 1);
    }
    s->seen[at] = *c;
    s->states++;
    return true;
}

static void push(struct search *s, const struct world *w)
{
    if (s->depth == s->stack_cap) {
        s->stack_cap = s->stack_cap ? 2 * s->stack_cap : 256;
        s->stack = realloc(s->stack, s->stack_cap * sizeof *s->stack);
        if (!s->stack)
            abort();
    }
    s->stack[s->depth++] = *w;
}

/* ---- The search ---------------------------------------------------------- */

static bool explore(struct search *s, const struct world *first)
{
    struct canon c;
    struct world from, to;

    canon_of(first, &c);
    if (is_new(s, &c))
        push(s, first);
    while (s->depth > 0 && s->states < s->limit) {
        from = s->stack[--s->depth];
        s->len = 0;
        do {
            to = from;
            s->at = 0;
            bool goes_on = world_step(&to, choose, s);
            s->steps++;
            if (to.broken) {
                printf("VIOLATED: %s at %.3f s\n", to.broken, (double)to.now / 1e9);
                for (int i = 0; i < to.n; i++)
                    printf("  %c: %s, rate %d/10, program %d, deadline %.3f (local %.3f)\n",
                           'a' + i, tn_phase_word(to.node[i].e.phase), to.node[i].rate,
                           to.node[i].program.alive, (double)to.node[i].deadline_ns / 1e9,
                           (double)to.now * to.node[i].rate / 1e10);
                return false;
            }
            canon_of(&to, &c);
            if (goes_on && is_new(s, &c))
                push(s, &to);
        } while (advance(s));
    }
    s->stopped = s->depth > 0;
    return true;
}

static bool run(int nodes, int faults, bool notifies, uint64_t limit, uint64_t *total)
{
    struct search s = {.limit = limit, .cap = 1};
    bool well = true, complete = true;

    while (s.cap < 2 * limit + 1024)
        s.cap *= 2;
    s.seen = calloc(s.cap, sizeof *s.seen);
    if (!s.seen)
        return false;
    for (unsigned rates = 0; well && rates < 1u << nodes; rates++) {
        struct world w;

        world_init(&w, nodes, rates, faults, notifies);
        s.depth = 0;
        well = explore(&s, &w);
        complete = complete && !s.stopped;
    }
    printf("explore: %d candidates, %d faults, %s: %" PRIu64 " states, %" PRIu64 " steps, %s\n",
           nodes, faults, notifies ? "notified" : "polling", s.states, s.steps,
           !well      ? "VIOLATED"
           : complete ? "exhaustive, nothing violated"
                      : "stopped at the limit, nothing violated");
    *total += s.states;
    free(s.seen);
    free(s.stack);
    return well;
}

int main(int argc, char **argv)
{
    int nodes = 0, faults = 1;
    uint64_t limit = 2000000, total = 0;
    bool well = true;

    for (int i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--nodes") == 0)
            nodes = atoi(argv[i + 1]);
        else if (strcmp(argv[i], "--faults") == 0)
            faults = atoi(argv[i + 1]);
        else if (strcmp(argv[i], "--states") == 0)
            limit = strtoull(argv[i + 1], NULL, 10);
        else
            nodes = -1;
    }
    if (nodes < 0 || nodes > NODES_MAX || faults < 0 || faults > 6 || argc % 2 == 0) {
        fprintf(stderr, "usage: explore [--nodes 2|3] [--faults N] [--states N]\n");
        return 2;
    }
    for (int n = nodes ? nodes : 2; well && n <= (nodes ? nodes : NODES_MAX); n++) {
        well = run(n, faults, true, limit, &total);
        well = well && run(n, faults, false, limit, &total);
    }
    printf("explore: %" PRIu64 " states in all\n", total);
    return well ? 0 : 1;
}
