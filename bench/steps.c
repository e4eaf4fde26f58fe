/*
 * steps [MILLIONS] - how many steps a second the elector takes on one core.
 *
 * A leader renews, and a follower is notified, reads the new record and waits
 * again: four steps a round, over a register in memory, with the events and
 * the actions of real life.  Their clock is counted up, not read; the figure is
 * by CPU time, so that other work on the machine does not count.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/elector.h"

#define REPEATS 5

struct party {
    struct tn_elector elector;
    struct tn_actions actions;
};

static struct party leader, follower;
static struct tenure_token token; /* the register's */
static int64_t now_ns = TN_S;
static uint64_t nonces;

static void die(const char *what)
{
    fprintf(stderr, "steps: %s\n", what);
    exit(1);
}

static void step(struct party *p, struct tn_event *ev)
{
    ev->now_ns = now_ns += 1000;
    ev->wall_ms = 1700000000000;
    ev->entropy[0] = ++nonces;
    ev->entropy[1] = 1;
    tn_elector_step(&p->elector, ev, &p->actions);
}

static void tell(struct party *p, enum tn_event_kind kind)
{
    struct tn_event ev = {.kind = kind};

    memcpy(ev.grant, p->elector.grant, sizeof ev.grant);
    step(p, &ev);
}

/* What the register holds is what the leader wrote last. */
static void answer_read(struct party *p)
{
    struct tn_event ev = {.kind = TN_EV_READ, .token = token};

    ev.record = token.version[0] ? &leader.actions.record : NULL;
    step(p, &ev);
}

static void answer_swap(struct party *p)
{
    struct tn_event ev = {.kind = TN_EV_SWAPPED};

    token.version[0] = 'v';
    memcpy(token.nonce, p->actions.nonce, sizeof token.nonce);
    ev.token = token;
    step(p, &ev);
}

static void begin(struct party *p, const char *id)
{
    struct tn_elector_config config = {.incarnation = {1}};
    const struct tn_timing_wish wish = {.notifies = true};

    snprintf(config.id, sizeof config.id, "%s", id);
    if (tn_timing_plan(&wish, &config.timing) != TN_TIMING_OK)
        die("the timing is refused");
    tn_elector_init(&p->elector, &config);
    tell(p, TN_EV_START);
    answer_read(p);
}

static void round_of_four(void)
{
    now_ns = leader.actions.wait_until_ns;
    tell(&leader, TN_EV_TIMER);
    answer_swap(&leader);
    tell(&follower, TN_EV_CHANGED);
    answer_read(&follower);
}

static double measure(long rounds)
{
    struct timespec from, to;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &from);
    for (long i = 0; i < rounds; i++)
        round_of_four();
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &to);
    return 4.0 * (double)rounds /
           ((double)(to.tv_sec - from.tv_sec) + (double)(to.tv_nsec - from.tv_nsec) / 1e9);
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
    long millions = argc > 1 ? atol(argv[1]) : 4;
    double figures[REPEATS];

    begin(&leader, "leader");
    answer_swap(&leader);
    tell(&leader, TN_EV_SEALED);
    begin(&follower, "follower");
    for (int i = 0; i < REPEATS; i++)
        figures[i] = measure(millions * 250000);
    if (!tn_elector_leads(&leader.elector, now_ns) || follower.elector.lease.holder[0] != 'l')
        die("the story went wrong");
    qsort(figures, REPEATS, sizeof figures[0], compare);
    printf("steps a second, one core: %.1f million\n", figures[REPEATS / 2] / 1e6);
    return 0;
}
