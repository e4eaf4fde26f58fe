#include "clock.h"

#include <assert.h>

#define PPM 1000000

__extension__ typedef unsigned __int128 wide;

static void set_rate(struct sim_clock *c, int32_t ppm)
{
    /* Rounded towards 1, so that a clock at the bound of rho stays within it. */
    uint64_t num = (uint64_t)(PPM + ppm) << 32;

    c->rate = (num + (ppm < 0 ? PPM - 1 : 0)) / PPM;
    c->inverse = (uint64_t)(((wide)1 << 88) / c->rate);
}

void sim_clock_init(struct sim_clock *c, int64_t true_ns, int64_t local_ns, int32_t ppm)
{
    c->true_ns = true_ns;
    c->local_ns = local_ns;
    set_rate(c, ppm);
}

void sim_clock_set_rate(struct sim_clock *c, int64_t true_ns, int32_t ppm)
{
    c->local_ns = sim_clock_local(c, true_ns);
    c->true_ns = true_ns;
    set_rate(c, ppm);
}

void sim_clock_stood(struct sim_clock *c, int64_t true_ns, int64_t local_ns)
{
    c->true_ns = true_ns;
    c->local_ns = local_ns;
}

int64_t sim_clock_local(const struct sim_clock *c, int64_t true_ns)
{
    assert(true_ns >= c->true_ns);
    return c->local_ns + (int64_t)(((wide)(uint64_t)(true_ns - c->true_ns) * c->rate) >> 32);
}

int64_t sim_clock_true(const struct sim_clock *c, int64_t local_ns)
{
    int64_t ahead = local_ns - c->local_ns;

    if (ahead <= 0)
        return c->true_ns;
    if (ahead > SIM_NEVER / 2)
        return SIM_NEVER;
    int64_t t = c->true_ns + (int64_t)(((wide)(uint64_t)ahead * c->inverse) >> 56);
    while (sim_clock_local(c, t) >= local_ns && t > c->true_ns)
        t--;
    while (sim_clock_local(c, t) < local_ns)
        t++;
    return t;
}
