/* The promises of wait(): it never misses a change, and sleeps while there is none. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/doctor/doctor.h"

#define QUIET (200 * TN_MS)

static void report_wake(struct doctor *d, const char *what, const struct crew_answer *a)
{
    if (a->status == TENURE_TIMEOUT) {
        doctor_say(d, DOCTOR_BROKEN, "%s did not wake the waiter: a standby would keep sleeping",
                   what);
        return;
    }
    snprintf(d->err.text, sizeof d->err.text, "%s", a->text);
    doctor_say_error(d, what, (enum tenure_status)a->status);
}

static bool noticed(struct doctor *d, unsigned who, const struct crew_order *order,
                    const char *what)
{
    struct crew_answer a;

    if (!doctor_crew_ask(&d->crew, who, order, &a))
        doctor_say(d, DOCTOR_BROKEN, "wait did not return, long after its deadline");
    else if (a.status)
        report_wake(d, what, &a);
    return doctor_well(d);
}

static bool first_only(void *arg, const char *key, const struct tenure_value *value)
{
    (void)arg, (void)key, (void)value;
    return false;
}

/* A prefix: an old mark returns at once. */
static bool prefix_already(struct doctor *d, const char *key, struct tenure_token *token)
{
    struct crew_order order = {.kind = CREW_WAIT, .prefix = true};
    enum tenure_status status = tenure_store_list(d->store, d->prefix, NULL, first_only, NULL,
                                                  order.seen.version, doctor_by(d), &d->err);

    snprintf(order.key, sizeof order.key, "%s", d->prefix);
    if (!status)
        status = doctor_put(d, key, token, "under a prefix", false);
    order.by_ns = doctor_by(d);
    if (status)
        doctor_say_error(d, "a change under a prefix", status);
    return !status && noticed(d, 0, &order, "an earlier change under a prefix");
}

/* Woken by a descriptor of the caller's. */
static bool cancelled(struct doctor *d, const char *key, const struct tenure_token *token)
{
    struct tenure_watch watch = {.key = key, .seen = *token};
    enum tenure_status status = TENURE_OK;
    int pipes[2];

    if (pipe(pipes) != 0)
        return true; /* our own trouble, not the store's */
    if (write(pipes[1], "x", 1) == 1) {
        /* It may say first that something changed (C6). */
        for (unsigned i = 0; i < 10 && status == TENURE_OK; i++)
            status = tenure_store_wait(d->store, &watch, 1, pipes[0], doctor_by(d), &d->err);
        if (status != TENURE_CANCELLED && status != TENURE_OK)
            doctor_say(d, DOCTOR_BROKEN, "wait cannot be interrupted: it answered '%s'",
                       tenure_status_word(status));
    }
    close(pipes[0]);
    close(pipes[1]);
    return doctor_well(d);
}

void doctor_check_wait(struct doctor *d)
{
    const char *key = doctor_key(d, "wait");
    struct tenure_token old = {0}, token;
    struct crew_order order = {.kind = CREW_WAIT};
    struct crew_answer a;
    enum tenure_status status = doctor_put(d, key, &old, "one", false);

    token = old;
    if (!status)
        status = doctor_put(d, key, &token, "two", false);
    if (status) {
        doctor_say_error(d, "a plain swap", status);
        return;
    }
    snprintf(order.key, sizeof order.key, "%s", key);
    order.seen = old;
    for (unsigned who = 0; who < d->crew.n; who += CREW_PROCESSES) {
        order.by_ns = doctor_by(d);
        if (!noticed(d, who, &order, "an earlier change"))
            return;
    }
    if (!prefix_already(d, key, &token) || !cancelled(d, key, &token))
        return;
    order.seen = token;
    order.by_ns = tenure_now() + QUIET;
    if (!doctor_crew_ask(&d->crew, 0, &order, &a))
        doctor_say(d, DOCTOR_BROKEN, "wait did not return, long after its deadline");
    else if (a.ok > 8)
        doctor_say(d, DOCTOR_WEAK,
                   "woke up %" PRIu64 " times in 200 ms without a change: it wastes CPU", a.ok);
    else if (a.status != TENURE_TIMEOUT)
        doctor_say(d, DOCTOR_BROKEN, "wait answered '%s' though nothing changed: %.150s",
                   tenure_status_word((enum tenure_status)a.status), a.text);
    else
        doctor_say(d, DOCTOR_OK,
                   "returns at once for what changed before, also under a prefix; sleeps when "
                   "nothing does; can be interrupted");
}

/* ---- Notifications ------------------------------------------------------- */

void doctor_check_notify(struct doctor *d)
{
    const char *key = doctor_key(d, "notify");
    unsigned rounds = d->quick ? 16 : 60, n = 0;
    struct tenure_token token = {0};
    struct crew_order order = {.kind = CREW_WAIT};
    struct crew_answer a;
    char p50[24], max[24];
    int64_t until = tenure_now() + (d->quick ? 2000 : 5000) * TN_MS;
    enum tenure_status status = doctor_put(d, key, &token, "start", false);

    snprintf(order.key, sizeof order.key, "%s", key);
    for (; !status && n < rounds && (n < 6 || tenure_now() < until); n++) {
        order.seen = token;
        order.by_ns = doctor_by(d);
        doctor_crew_order(&d->crew, n % d->crew.n, &order);
        usleep(500 + n * 1700 % 9000); /* asleep by then, or about to: both must work */
        int64_t sent = tenure_now();
        status = doctor_put(d, key, &token, n % 2 ? "odd" : "even", false);
        if (!doctor_crew_answer(&d->crew, n % d->crew.n, order.by_ns, &a)) {
            doctor_say(d, DOCTOR_BROKEN, "wait did not return, long after its deadline");
            return;
        }
        if (status)
            break;
        if (a.status) {
            report_wake(d, "a change, made while somebody waited,", &a);
            return;
        }
        doctor_sample(&d->notes, a.end_ns > sent ? a.end_ns - sent : 0);
    }
    if (status) {
        doctor_say_error(d, "a change", status);
        return;
    }
    struct doctor_spread s = doctor_spread_of(&d->notes);
    doctor_time(s.p50_ns, p50);
    doctor_time(s.max_ns, max);
    if (!d->info.notifies || s.p50_ns > TN_S)
        doctor_say(d, DOCTOR_WEAK,
                   "%u changes were noticed, by polling: after %s (median), %s at most; a clean "
                   "take-over takes that much longer",
                   n, p50, max);
    else
        doctor_say(d, DOCTOR_OK,
                   "%u changes woke waiters in other processes and threads: %s after the "
                   "write was sent (median), %s at most",
                   n, p50, max);
}
