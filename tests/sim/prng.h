/*
 * sim/prng.h - all the randomness of the simulator, from one seed.
 *
 * Two ways to draw.  A stream, for making plans.  And a key: the fate of
 * request 17 of candidate 2 depends on the seed and on these two numbers
 * alone, so taking another fault away leaves it as it was, and the minimiser
 * has something stable to cut from.
 */
#ifndef SIM_PRNG_H
#define SIM_PRNG_H

#include <stdbool.h>
#include <stdint.h>

struct sim_rng {
    uint64_t state;
};

static inline uint64_t sim_mix(uint64_t x)
{
    x ^= x >> 30;
    x *= UINT64_C(0xbf58476d1ce4e5b9);
    x ^= x >> 27;
    x *= UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

static inline uint64_t sim_rng_next(struct sim_rng *rng)
{
    return sim_mix(rng->state += UINT64_C(0x9e3779b97f4a7c15));
}

/* What a key is drawn for; part of the key. */
enum sim_stream {
    SIM_RND_PLAN = 1,
    SIM_RND_ENTROPY,
    SIM_RND_REQUEST,
    SIM_RND_NOTICE,
    SIM_RND_STALL,
    SIM_RND_PROGRAM,
    SIM_RND_STATE,
    SIM_RND_RELEASER,
    SIM_RND_OP,
    SIM_RND_CLOCK,
    SIM_RND_SLOT,
    SIM_RND_PROVER,
};

static inline uint64_t sim_key(uint64_t seed, enum sim_stream stream, unsigned node,
                               uint64_t number)
{
    uint64_t key = seed + ((uint64_t)stream << 56 | (uint64_t)node << 48);

    return sim_mix(sim_mix(key) + number * UINT64_C(0x9e3779b97f4a7c15));
}

static inline struct sim_rng sim_rng_keyed(uint64_t seed, enum sim_stream stream, unsigned node,
                                           uint64_t number)
{
    return (struct sim_rng){sim_key(seed, stream, node, number)};
}

/* 0 .. n-1; n is small, so the modulo's bias does not matter here. */
static inline uint64_t sim_rng_below(struct sim_rng *rng, uint64_t n)
{
    return n ? sim_rng_next(rng) % n : 0;
}

/* low .. high, both included. */
static inline int64_t sim_rng_span(struct sim_rng *rng, int64_t low, int64_t high)
{
    return low + (int64_t)sim_rng_below(rng, (uint64_t)(high - low) + 1);
}

/* True with the chance of percent in a hundred. */
static inline bool sim_rng_chance(struct sim_rng *rng, unsigned percent)
{
    return sim_rng_below(rng, 100) < percent;
}

#endif
