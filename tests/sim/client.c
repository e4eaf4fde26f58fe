/* Those who run the product's state code, and what it asks of the system. */
#include <assert.h>
#include <string.h>
#include <unistd.h>

#include "docs.h"
#include "world.h"

#define GONE_NS (INT64_MAX / 2) /* every deadline has passed */

static struct sim_client *running;

struct sim_client *sim_client_self(void)
{
    return running;
}

/* ---- Entering and leaving ------------------------------------------------ */

static void enter(struct sim_client *c)
{
    assert(!running);
    running = c;
    sim_fiber_enter(&c->fiber);
    running = NULL;
}

static void leave(struct sim_client *c)
{
    running = NULL;
    sim_fiber_pause(&c->fiber);
    running = c;
}

void sim_client_start(struct sim_world *w, struct sim_client *c, void (*main)(void *arg))
{
    assert(!running && !c->fiber.alive);
    c->w = w;
    c->index = (uint8_t)(c - w->docs.clients);
    c->uid = ++w->docs.uids;
    c->gone = c->stalled = c->time_up = c->fenced = c->loaded = c->begun = false;
    c->drawn = c->serial = c->left = 0;
    c->says = 0;
    c->n_tries = 0;
    c->state = NULL;
    c->restores = w->docs.restores;
    c->timer++;
    memset(c->known, 0, sizeof c->known);
    memset(c->own, 0, sizeof c->own);
    for (unsigned i = 0; i < w->docs.n_regs; i++)
        c->foreign[i] = w->docs.regs[i].writes;
    running = c;
    sim_fiber_start(&c->fiber, main, c);
    running = NULL;
}

void sim_client_kill(struct sim_client *c)
{
    if (!c->fiber.alive)
        return;
    c->gone = true;
    while (c->fiber.alive)
        enter(c);
}

/* ---- Waiting ------------------------------------------------------------- */

int64_t sim_client_now(const struct sim_client *c)
{
    return c->gone ? GONE_NS : sim_local(c->w, &c->w->nodes[c->node]);
}

int64_t sim_client_by(const struct sim_client *c, int64_t span_ns)
{
    return c->gone ? 0 : sim_client_now(c) + span_ns;
}

uint64_t sim_client_draw(struct sim_client *c)
{
    return sim_key(c->w->plan.seed, SIM_RND_STATE, 0x10u | c->node,
                   (uint64_t)c->uid << 20 | ++c->drawn);
}

static void set_timer(struct sim_client *c, int64_t at_ns)
{
    struct sim_world *w = c->w;

    sim_at(w, at_ns > w->now_ns ? at_ns : w->now_ns, SIM_Q_CLIENT, c->node, ++c->timer, c->index);
}

void sim_client_unanswered(struct sim_client *c)
{
    if (c->fiber.alive && c->left && !c->stalled)
        set_timer(c, sim_clock_true(&c->w->nodes[c->node].clock, c->until_ns));
}

void sim_client_wait(struct sim_client *c)
{
    if (c->gone)
        return;
    leave(c);
}

void sim_client_sleep(struct sim_client *c, int64_t span_ns)
{
    if (c->gone)
        return;
    c->left = 0;
    c->call++;
    c->until_ns = sim_client_now(c) + span_ns;
    set_timer(c, sim_clock_true(&c->w->nodes[c->node].clock, c->until_ns));
    leave(c);
}

/* Tenure while it seals, the program later: a process of its own only under a guard. */
static bool asleep(const struct sim_client *c)
{
    const struct sim_world *w = c->w;
    const struct sim_node *n = &w->nodes[c->node];

    if (n->run != SIM_PAUSED)
        return false;
    return c->index >= SIM_NODES_MAX || c->sealing || !w->plan.guarded || n->suspended || n->frozen;
}

/* Its process is not scheduled for a while, just here. */
static int64_t draw_stall(struct sim_client *c)
{
    struct sim_world *w = c->w;
    struct sim_node *n = &w->nodes[c->node];
    struct sim_rng rng = sim_rng_keyed(w->plan.seed, SIM_RND_STATE, 0x20u | c->node, n->saver.no);

    if (w->quiet || (uint16_t)sim_rng_next(&rng) >= w->plan.odds.stall ||
        !sim_fault(w, SIM_RND_STATE, 0x20u | c->node, n->saver.no))
        return 0;
    n->saver.no++;
    int64_t most = sim_rng_chance(&rng, 50) ? n->timing->request_ns : 2 * n->timing->ttl_ns;
    return sim_rng_span(&rng, 1, most);
}

void sim_client_ready(struct sim_client *c)
{
    struct sim_world *w = c->w;

    if (c->stalled)
        return;
    int64_t stall = draw_stall(c);
    if (stall > 0) {
        sim_say(w, c->node, "state: is not scheduled for %.3f s", (double)stall / 1e9);
        c->stalled = true;
        set_timer(c, w->now_ns + stall);
    } else if (asleep(c)) {
        c->stalled = true;
        set_timer(c, w->nodes[c->node].resume_ns);
    } else {
        c->timer++;
        enter(c);
    }
}

void sim_client_timer(struct sim_world *w, uint32_t index, uint32_t gen)
{
    struct sim_client *c = &w->docs.clients[index];

    if (!c->fiber.alive || gen != c->timer)
        return;
    if (asleep(c)) {
        set_timer(c, w->nodes[c->node].resume_ns);
        return;
    }
    if (!c->stalled && sim_client_now(c) < c->until_ns) { /* its clock went slower since */
        set_timer(c, sim_clock_true(&w->nodes[c->node].clock, c->until_ns));
        return;
    }
    c->stalled = false;
    c->timer++;
    enter(c);
}

/* ---- What the product asks of the system --------------------------------- */

/* The linker leads its calls here (--wrap); whoever is on no fiber gets the real ones. */
int64_t __real_tenure_now(void);
int64_t __wrap_tenure_now(void);
enum tenure_status __real_tenure_nonce(uint8_t nonce[TENURE_NONCE_SIZE], struct tenure_error *err);
enum tenure_status __wrap_tenure_nonce(uint8_t nonce[TENURE_NONCE_SIZE], struct tenure_error *err);
int __real_usleep(useconds_t us);
int __wrap_usleep(useconds_t us);

int64_t __wrap_tenure_now(void)
{
    return running ? sim_client_now(running) : __real_tenure_now();
}

enum tenure_status __wrap_tenure_nonce(uint8_t nonce[TENURE_NONCE_SIZE], struct tenure_error *err)
{
    if (!running)
        return __real_tenure_nonce(nonce, err);
    struct sim_world *w = running->w;
    uint64_t drawn[2] = {sim_key(w->plan.seed, SIM_RND_STATE, 0xe0, ++w->docs.drawn),
                         sim_mix(w->plan.seed + w->docs.drawn) | 1};
    memcpy(nonce, drawn, TENURE_NONCE_SIZE);
    return TENURE_OK;
}

int __wrap_usleep(useconds_t us)
{
    if (!running)
        return __real_usleep(us);
    sim_client_sleep(running, (int64_t)us * 1000);
    return 0;
}
