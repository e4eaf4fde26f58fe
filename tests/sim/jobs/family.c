/* sim/jobs/family.c - the group of workers as a model of the simulator: one history a seed. */
#include "tests/sim/check.h"
#include "tests/sim/store.h"
#include "world.h"

static struct sim_world *teller;

static void tell(int64_t now_ns, const char *line)
{
    teller->now_ns = now_ns;
    sim_say(teller, -1, "%s", line);
}

static void jobs_run(struct sim_world *w)
{
    static struct world group;

    teller = w;
    world_line = tell;
    world_run(&group, w->plan.seed, w->trace.to != NULL);
    w->now_ns = group.now_ns;
    w->counts.events += group.events;
    w->counts.starts += group.starts;
    w->done = true;
    sim_hash(w, group.events, (uint64_t)group.now_ns);
    if (group.failed)
        sim_fail(w, group.promise, "%s", group.why);
}

const struct sim_family sim_family_jobs = {
    .name = "jobs",
    .promise = "J1 to J6: a group of workers that share jobs (in a world of its own)",
    .linear = true,
    .keeps = true,
    .weight = 6,
    .run = jobs_run,
};
