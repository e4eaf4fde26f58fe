/* sim/jobs/world.c - time, the queue, and one history. */
#include "world.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Time ---------------------------------------------------------------- */

int64_t local_of(const struct world *w, const struct node *n)
{
    return n->offset_ns + w->now_ns / 1000000 * (1000000 + n->rate_ppm) +
           w->now_ns % 1000000 * (1000000 + n->rate_ppm) / 1000000;
}

/* The first true instant at which the local clock shows this. */
int64_t true_of(const struct node *n, int64_t local_ns)
{
    int64_t ns = local_ns - n->offset_ns, rate = 1000000 + n->rate_ppm;

    return ns / rate * 1000000 + (ns % rate * 1000000 + rate - 1) / rate;
}

uint64_t wall_ms(const struct world *w)
{
    return w->no_wall ? 1 : 1000000 + (uint64_t)w->now_ns / 1000000;
}

void fresh(struct world *w, uint64_t entropy[2])
{
    entropy[0] = sim_rng_next(&w->rng) | 1;
    entropy[1] = sim_rng_next(&w->rng) | 1;
}

/* ---- The queue ----------------------------------------------------------- */

static bool sooner(const struct item *a, const struct item *b)
{
    return a->at_ns != b->at_ns ? a->at_ns < b->at_ns : a->order < b->order;
}

void at(struct world *w, int64_t ns, enum item_kind kind, unsigned node, uint32_t gen, uint32_t arg)
{
    struct item it = {ns > w->now_ns ? ns : w->now_ns, w->order++, kind, node, gen, arg};
    unsigned i = w->queue_n++;

    if (w->queue_n > w->queue_max) {
        w->queue_max = w->queue_max ? 2 * w->queue_max : 1024;
        w->queue = realloc(w->queue, w->queue_max * sizeof *w->queue);
        if (w->queue == NULL)
            abort();
    }
    for (; i > 0 && sooner(&it, &w->queue[(i - 1) / 2]); i = (i - 1) / 2)
        w->queue[i] = w->queue[(i - 1) / 2];
    w->queue[i] = it;
}

static struct item pop(struct world *w)
{
    struct item first = w->queue[0], last = w->queue[--w->queue_n];
    unsigned i = 0;

    for (;;) {
        unsigned child = 2 * i + 1;

        if (child >= w->queue_n)
            break;
        if (child + 1 < w->queue_n && sooner(&w->queue[child + 1], &w->queue[child]))
            child++;
        if (!sooner(&w->queue[child], &last))
            break;
        w->queue[i] = w->queue[child];
        i = child;
    }
    w->queue[i] = last;
    return first;
}

/* ---- The history --------------------------------------------------------- */

void (*world_line)(int64_t now_ns, const char *line);

void say(struct world *w, const char *format, ...)
{
    char line[200];
    va_list args;

    if (!w->verbose)
        return;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    if (world_line != NULL)
        world_line(w->now_ns, line);
    else
        printf("%9.3f  %s\n", (double)w->now_ns / 1e9, line);
}

void fail(struct world *w, const char *promise, const char *format, ...)
{
    va_list args;

    if (w->failed)
        return;
    w->failed = true;
    snprintf(w->promise, sizeof w->promise, "%s", promise);
    va_start(args, format);
    vsnprintf(w->why, sizeof w->why, format, args);
    va_end(args);
    say(w, "BROKEN %s: %s", w->promise, w->why);
}

static void happen(struct world *w, const struct item *it)
{
    switch (it->kind) {
    case I_ARRIVE:
        msg_arrive(w, it->arg);
        break;
    case I_FAULT:
        chaos_fault(w);
        break;
    case I_OPERATOR:
        chaos_operate(w, it->arg);
        break;
    case I_HEAL:
        w->node[it->node].cut = false;
        break;
    case I_CALM:
        chaos_calm(w);
        break;
    case I_TAIL:
        chaos_tail(w);
        break;
    default:
        node_item(w, it);
        break;
    }
}

void world_run(struct world *w, uint64_t seed, bool verbose)
{
    struct item *queue = w->queue;
    unsigned queue_max = w->queue_max;

    memset(w, 0, offsetof(struct world, msg));
    for (unsigned i = 0; i < MSGS; i++)
        w->msg[i].used = false;
    w->queue = queue;
    w->queue_max = queue_max;
    w->seed = seed;
    w->verbose = verbose;
    w->rng = sim_rng_keyed(seed, SIM_RND_PLAN, 0, 0);
    chaos_plan(w);
    while (!w->failed && !w->done && w->queue_n > 0) {
        struct item it = pop(w);

        w->now_ns = it.at_ns;
        w->events++;
        happen(w, &it);
    }
}
