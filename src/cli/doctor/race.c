/* The promises that only several connections can break: atomic swaps, fresh reads. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/doctor/doctor.h"

static void no_answer(struct doctor *d)
{
    doctor_say(d, DOCTOR_BROKEN, "a call did not return, long after its deadline");
}

/* A definite "no" of the world's, as far as we can tell. */
static void trouble(struct doctor *d, const char *what, const struct crew_answer *a)
{
    snprintf(d->err.text, sizeof d->err.text, "%s", a->text);
    doctor_say_error(d, what, (enum tenure_status)a->status);
}

/* ---- Reads after writes -------------------------------------------------- */

/* Does `shown` show the write that was answered before it? */
static bool fresh(struct doctor *d, unsigned n, const struct tenure_token *shown,
                  const struct tenure_token *written, const char *who)
{
    if (!tenure_token_equal(shown, written))
        doctor_say(d, DOCTOR_BROKEN,
                   "read %u, from %s connection, does not show the write that was answered before "
                   "it: version %s instead of %s",
                   n + 1, who, shown->version[0] ? shown->version : "none", written->version);
    return doctor_well(d);
}

static bool read_by(struct doctor *d, unsigned n, const char *key,
                    const struct tenure_token *written)
{
    struct crew_order order = {.kind = CREW_READ, .by_ns = doctor_by(d)};
    struct crew_answer a;

    snprintf(order.key, sizeof order.key, "%s", key);
    if (!doctor_crew_ask(&d->crew, n % d->crew.n, &order, &a)) {
        no_answer(d);
        return false;
    }
    if (a.status) {
        trouble(d, "a read", &a);
        return false;
    }
    return fresh(d, n, &a.token, written, "another");
}

void doctor_check_reads(struct doctor *d)
{
    const char *key = doctor_key(d, "read");
    unsigned rounds = d->quick ? 60 : 200, n = 0;
    struct tenure_token token = {0};
    int64_t until = tenure_now() + (d->quick ? 1500 : 4000) * TN_MS;

    for (; n < rounds && (n < 20 || tenure_now() < until); n++) {
        enum tenure_status status = doctor_put(d, key, &token, n % 2 ? "odd" : "even", false);

        if (!status && !read_by(d, n, key, &token))
            return;
        /* One or two of our own: no rhythm of a store's mistakes should be ours. */
        for (unsigned i = 0; i <= n / 7 % 2 && !status; i++) {
            status = doctor_read(d, key);
            if (!status && !fresh(d, n, &d->value.token, &token, "the same"))
                return;
        }
        if (status) {
            doctor_say_error(d, "a plain swap", status);
            return;
        }
    }
    doctor_say(d, DOCTOR_OK,
               "%u writes, each seen by the next read here, in %d processes and in %d threads", n,
               CREW_PROCESSES, CREW_THREADS);
}

/* ---- One winner ---------------------------------------------------------- */

struct contest {
    unsigned won, unknown, refused, other;
    const struct crew_answer *winner;
};

/* Everybody swaps on one token at one instant.  false: told why. */
static bool compete(struct doctor *d, const char *key, const struct tenure_token *base,
                    struct crew_answer answers[CREW_SIZE], struct contest *c)
{
    struct crew_order order = {.kind = CREW_SWAP, .seen = *base};

    snprintf(order.key, sizeof order.key, "%s", key);
    order.at_ns = tenure_now() + 2 * TN_MS;
    order.by_ns = order.at_ns + d->common.timeout_ns;
    memset(c, 0, sizeof *c);
    for (unsigned i = 0; i < d->crew.n; i++)
        doctor_crew_order(&d->crew, i, &order);
    for (unsigned i = 0; i < d->crew.n; i++) {
        if (!doctor_crew_answer(&d->crew, i, order.by_ns, &answers[i])) {
            no_answer(d);
            return false;
        }
        switch (answers[i].status) {
        case TENURE_OK:
            c->won++;
            c->winner = &answers[i];
            break;
        case TENURE_CONFLICT:
            c->refused++;
            break;
        case TENURE_UNKNOWN:
            c->unknown++;
            break;
        default:
            c->other++;
        }
    }
    return true;
}

/* What is there now must be what the winner wrote, or one whose answer was lost. */
static bool settled(struct doctor *d, const struct contest *c,
                    const struct crew_answer answers[CREW_SIZE], const struct tenure_token *base)
{
    const struct tenure_token *there = &d->value.token;

    if (c->won > 1) {
        doctor_say(d, DOCTOR_BROKEN, "%u of %u swaps on one version were accepted: two could lead",
                   c->won, d->crew.n);
        return false;
    }
    if (c->won == 1 && !tenure_token_equal(there, &c->winner->token))
        doctor_say(d, DOCTOR_BROKEN, "a swap was accepted, but the register holds another value");
    if (c->won || tenure_token_equal(there, base)) {
        if (!c->won && !c->unknown && !c->other)
            doctor_say(d, DOCTOR_BROKEN, "all of %u swaps on the current version were refused",
                       c->refused);
        return doctor_well(d);
    }
    for (unsigned i = 0; i < d->crew.n; i++) {
        if (answers[i].status == TENURE_UNKNOWN &&
            memcmp(answers[i].nonce, there->nonce, sizeof there->nonce) == 0)
            return true;
    }
    doctor_say(d, DOCTOR_BROKEN, "the register holds the value of a refused swap");
    return false;
}

void doctor_check_contest(struct doctor *d)
{
    const char *key = doctor_key(d, "race");
    unsigned rounds = d->quick ? 30 : 100, decided = 0, unknown = 0, n = 0;
    struct crew_answer answers[CREW_SIZE];
    struct tenure_token base = {0};
    struct contest c;
    int64_t until = tenure_now() + (d->quick ? 2000 : 6000) * TN_MS;
    enum tenure_status status = doctor_put(d, key, &base, "start", false);

    for (; !status && n < rounds && (n < 10 || tenure_now() < until); n++) {
        if (!compete(d, key, &base, answers, &c))
            return;
        status = doctor_read(d, key);
        if (status)
            break;
        if (!settled(d, &c, answers, &base))
            return;
        decided += c.won;
        unknown += c.unknown;
        base = d->value.token;
    }
    if (status) {
        doctor_say_error(d, "a race", status);
        return;
    }
    char more[40] = "";
    if (unknown)
        snprintf(more, sizeof more, "; %u answers were unknown", unknown);
    doctor_say(d, decided ? DOCTOR_OK : DOCTOR_UNTESTED,
               "%u rounds of %d processes and %d threads on one version: one winner in %u, never "
               "two%s",
               n, CREW_PROCESSES, CREW_THREADS, decided, more);
}

/* ---- No lost update ------------------------------------------------------ */

void doctor_check_count(struct doctor *d)
{
    const char *key = doctor_key(d, "count");
    struct crew_order order = {.kind = CREW_COUNT};
    struct tenure_token token = {0};
    struct crew_answer a;
    uint64_t ok = 0, unknown = 0;
    enum tenure_status status = doctor_put(d, key, &token, "0", false);

    snprintf(order.key, sizeof order.key, "%s", key);
    order.at_ns = tenure_now() + (d->quick ? 500 : 1500) * TN_MS;
    order.by_ns = order.at_ns + d->common.timeout_ns;
    for (unsigned i = 0; !status && i < d->crew.n; i++)
        doctor_crew_order(&d->crew, i, &order);
    for (unsigned i = 0; !status && i < d->crew.n; i++) {
        if (!doctor_crew_answer(&d->crew, i, order.by_ns, &a)) {
            no_answer(d);
            return;
        }
        ok += a.ok;
        unknown += a.unknown;
        if (a.status)
            trouble(d, "counting", &a);
    }
    if (!status)
        status = doctor_read(d, key);
    if (status) {
        doctor_say_error(d, "counting", status);
        return;
    }
    uint64_t sum = d->value.data ? strtoull((const char *)d->value.data, NULL, 10) : 0;
    if (sum < ok || sum > ok + unknown)
        doctor_say(d, DOCTOR_BROKEN,
                   "%" PRIu64 " additions were accepted, but the register says %" PRIu64
                   ": updates were lost",
                   ok, sum);
    else
        doctor_say(d, ok ? DOCTOR_OK : DOCTOR_UNTESTED,
                   "%" PRIu64 " concurrent additions, none lost", ok);
}
