/*
 * sim/queue.h - what happens next: a binary heap on true time.
 *
 * Equal times keep the order in which they were put in, so a history depends
 * on nothing but its plan.  Items are never taken out early; a `gen` that the
 * owner has moved on from makes an item void when it comes up.
 */
#ifndef SIM_QUEUE_H
#define SIM_QUEUE_H

#include <stdbool.h>
#include <stdint.h>

#define SIM_QUEUE_MAX 4096

struct sim_item {
    int64_t at_ns;
    uint32_t seq;
    uint32_t gen;
    uint32_t arg;
    uint8_t what;
    uint8_t node;
};

struct sim_queue {
    struct sim_item items[SIM_QUEUE_MAX];
    unsigned n;
    uint32_t seq;
};

void sim_queue_clear(struct sim_queue *q);
/* at_ns, what, node, gen and arg are the caller's; seq is given here. */
void sim_queue_push(struct sim_queue *q, struct sim_item item);
/* The next item, or false if there is none. */
bool sim_queue_pop(struct sim_queue *q, struct sim_item *item);
/* The time of the last item of this kind; -1 if there is none. */
int64_t sim_queue_last(const struct sim_queue *q, uint8_t what);

#endif
