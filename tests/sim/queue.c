#include "queue.h"

#include <assert.h>

static bool before(const struct sim_item *a, const struct sim_item *b)
{
    return a->at_ns != b->at_ns ? a->at_ns < b->at_ns : a->seq < b->seq;
}

void sim_queue_clear(struct sim_queue *q)
{
    q->n = 0;
    q->seq = 0;
}

void sim_queue_push(struct sim_queue *q, struct sim_item item)
{
    unsigned i = q->n++;

    assert(q->n <= SIM_QUEUE_MAX);
    item.seq = q->seq++;
    while (i > 0 && before(&item, &q->items[(i - 1) / 2])) {
        q->items[i] = q->items[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    q->items[i] = item;
}

bool sim_queue_pop(struct sim_queue *q, struct sim_item *item)
{
    unsigned i = 0, child;

    if (q->n == 0)
        return false;
    *item = q->items[0];
    const struct sim_item *last = &q->items[--q->n];
    while ((child = 2 * i + 1) < q->n) {
        if (child + 1 < q->n && before(&q->items[child + 1], &q->items[child]))
            child++;
        if (!before(&q->items[child], last))
            break;
        q->items[i] = q->items[child];
        i = child;
    }
    q->items[i] = *last;
    return true;
}

int64_t sim_queue_last(const struct sim_queue *q, uint8_t what)
{
    int64_t last = -1;

    for (unsigned i = 0; i < q->n; i++) {
        if (q->items[i].what == what && q->items[i].at_ns > last)
            last = q->items[i].at_ns;
    }
    return last;
}
