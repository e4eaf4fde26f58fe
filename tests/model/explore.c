/*
 * explore - every history of two or three candidates, over the shipped elector.
 *
 *     explore [--nodes 2|3] [--faults 1] [--states 100000000]
 *
 * Clocks run at the edges of the drift bound (all combinations), each candidate
 * may crash once while it holds a grant, and up to --faults other faults happen
 * anywhere: requests and answers lost, slow, or landing long after, cut off
 * from the store, paused.  States are merged when they can only behave alike
 * (canon.c); without faults left the world is periodic, so the search ends by
 * itself: then it was exhaustive within these bounds, and says so.
 *
 * Exit: 0 exhaustive and nothing violated, 1 violated, 2 usage, 3 stopped at --states.
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

static struct canon *place_of(struct canon *table, uint64_t cap, const struct canon *c)
{
    uint64_t at = c->hash[0] & (cap - 1);

    while ((table[at].hash[0] || table[at].hash[1]) &&
           (table[at].hash[0] != c->hash[0] || table[at].hash[1] != c->hash[1]))
        at = (at + 1) & (cap - 1);
    return &table[at];
}

static void grow(struct search *s)
{
    uint64_t cap = s->cap ? 2 * s->cap : 1 << 16;
    struct canon *table = calloc(cap, sizeof *table);

    if (!table)
        abort();
    for (uint64_t i = 0; i < s->cap; i++) {
        if (s->seen[i].hash[0] || s->seen[i].hash[1])
            *place_of(table, cap, &s->seen[i]) = s->seen[i];
    }
    free(s->seen);
    s->seen = table;
    s->cap = cap;
}

/* Of a state only 128 bits are kept: two that share them by chance would be taken for
 * one, which among 10^9 states has odds of one in 10^20. */
static bool is_new(struct search *s, const struct canon *c)
{
    if (4 * s->states >= 3 * s->cap)
        grow(s);
    struct canon *place = place_of(s->seen, s->cap, c);
    if (place->hash[0] || place->hash[1])
        return false;
    *place = *c;
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

/* The exit code. */
static int run(int nodes, int faults, bool notifies, uint64_t limit, uint64_t *total)
{
    struct search s = {.limit = limit};
    bool well = true, complete = true;

    /* Candidates are alike but for their clocks: how many are fast is all that counts. */
    for (int fast = 0; well && fast <= nodes; fast++) {
        struct world w;

        world_init(&w, nodes, (1u << fast) - 1, faults, notifies);
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
    return !well ? 1 : complete ? 0 : 3;
}

int main(int argc, char **argv)
{
    int nodes = 0, faults = 1;
    uint64_t limit = 100000000, total = 0;
    int code = 0;

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
    for (int n = nodes ? nodes : 2; code != 1 && n <= (nodes ? nodes : NODES_MAX); n++) {
        for (int polling = 0; code != 1 && polling < 2; polling++) {
            int now = run(n, faults, !polling, limit, &total);

            code = now ? now : code;
        }
    }
    printf("explore: %" PRIu64 " states in all\n", total);
    return code;
}
