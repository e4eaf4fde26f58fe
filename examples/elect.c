/*
 * elect - the smallest program that takes part in an election.
 *
 *     cc elect.c $(pkg-config --cflags --libs tenure) -o elect
 *     ./elect sqlite:/tmp/elect.db &  ./elect sqlite:/tmp/elect.db
 *
 * Start it twice, then end one with Ctrl-C: the other leads at once.
 */
#include <signal.h>
#include <stdio.h>
#include <tenure/tenure.h>
#include <unistd.h>

static volatile sig_atomic_t asked_to_stop;

static void on_signal(int signo)
{
    (void)signo;
    asked_to_stop = 1;
}

/* Callbacks run on a thread of their own and may take their time. */
static void started(void *arg, const struct tenure_term *term)
{
    (void)arg;
    printf("%s leads %s, epoch %llu\n", term->id, term->name, (unsigned long long)term->epoch);
    fflush(stdout);
}

/* Return when the work has ended: the lease is released after that. */
static void stopped(void *arg, const struct tenure_term *term, const char *why)
{
    (void)arg;
    printf("%s stops: %s\n", term->id, why);
    fflush(stdout);
}

int main(int argc, char **argv)
{
    struct tenure_elector_options options = TENURE_ELECTOR_OPTIONS;
    struct tenure_error error;
    tenure_elector *elector;
    unsigned long work = 0;

    signal(SIGINT, on_signal);
    signal(SIGTERM, on_signal);

    options.store = argc > 1 ? argv[1] : "noop:"; /* which always leads */
    options.name = "elect";
    options.id = argc > 2 ? argv[2] : NULL;
    options.started = started;
    options.stopped = stopped;
    if (tenure_elector_start(&options, &elector, &error) != TENURE_OK) {
        fprintf(stderr, "elect: %s\n", error.text);
        return 1;
    }

    while (!asked_to_stop) {
        /* Ask right before each piece of work that only a leader may do. */
        if (tenure_elector_leads(elector, NULL))
            work++;
        usleep(10 * 1000);
    }

    tenure_elector_stop(elector); /* calls stopped(), then releases */
    printf("did %lu pieces of work\n", work);
    return 0;
}
