/*
 * `tenure remove --compact`, as a stranger to the candidates: it has found a tombstone, raises the
 * floor of epochs, and deletes the tombstone if it is still the same; with anything in between.
 * What may be done when is the product's own rule, tn_lease_tombstone_kept().
 */
#include "node.h"
#include "ops.h"
#include "store.h"

static int64_t draw_delay(struct sim_world *w, struct sim_rng *rng)
{
    switch (sim_rng_below(rng, 4)) {
    case 0:
        return sim_rng_span(rng, 0, 2 * w->plan.latency_ns);
    case 1:
        return sim_rng_span(rng, 0, w->plan.other.ttl_ns);
    default:
        return 0;
    }
}

static struct sim_rng rng_of(struct sim_world *w, uint32_t index)
{
    const struct sim_compaction *c = &w->store.compactions[index];

    return sim_rng_keyed(w->plan.seed, SIM_RND_OP, 0x100 + index, c->steps);
}

/* A process may end between any two steps. */
static void next_step(struct sim_world *w, uint32_t index)
{
    struct sim_rng rng = rng_of(w, index);
    int64_t delay_ns = draw_delay(w, &rng);

    if (!sim_rng_chance(&rng, 10))
        sim_at(w, w->now_ns + delay_ns, SIM_Q_COMPACT, 0, 0, index);
}

void sim_compaction_begin(struct sim_world *w, uint64_t pick)
{
    struct sim_store *s = &w->store;

    for (unsigned i = 0; i < 1 + (pick >> 8) % 2 && s->n_compactions < SIM_COMPACTIONS_MAX; i++) {
        s->compactions[s->n_compactions] =
            (struct sim_compaction){.token = s->now.token, .tombstone = s->now.lease};
        next_step(w, s->n_compactions++);
    }
}

/* Nobody contends for what is removed; who does so later is another process, which knows nothing.
 */
static void renew_candidates(struct sim_world *w, struct sim_rng *rng)
{
    for (unsigned i = 0; i < w->plan.nodes; i++) {
        struct sim_node *n = &w->nodes[i];

        if (!sim_rng_chance(rng, w->plan.swift ? 20 : 60))
            continue;
        sim_say(w, n->index, "is killed");
        sim_node_kill(w, n);
        sim_at(w, w->now_ns + draw_delay(w, rng), SIM_Q_BOOT, i, 0, 0);
    }
}

void sim_compaction_step(struct sim_world *w, uint32_t index)
{
    struct sim_store *s = &w->store;
    struct sim_compaction *c = &s->compactions[index];

    if (w->now_ns >= w->plan.hostile_ns || !tn_lease_leaves_room(&c->tombstone))
        return;
    c->steps++;
    if (!tn_lease_tombstone_kept(&c->tombstone, s->floor)) {
        if (c->tombstone.epoch > s->floor)
            s->floor = c->tombstone.epoch;
        sim_say(w, -1, "the floor of epochs is %llu", (unsigned long long)s->floor);
        next_step(w, index);
    } else if (tenure_token_equal(&c->token, &s->now.token)) {
        struct sim_rng rng = rng_of(w, index);

        sim_store_purge(w, sim_rng_next(&rng));
        renew_candidates(w, &rng);
    }
}
