/* How long requests take here, against the time that a ttl leaves for them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/duration.h"
#include "cli/doctor/doctor.h"

void doctor_sample(struct doctor_samples *s, int64_t ns)
{
    if (s->n < DOCTOR_SAMPLES_MAX)
        s->ns[s->n++] = ns;
}

static int by_length(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return x < y ? -1 : x > y;
}

struct doctor_spread doctor_spread_of(struct doctor_samples *s)
{
    if (s->n == 0)
        return (struct doctor_spread){0};
    qsort(s->ns, s->n, sizeof s->ns[0], by_length);
    return (struct doctor_spread){.min_ns = s->ns[0],
                                  .p50_ns = s->ns[s->n / 2],
                                  .p99_ns = s->ns[(s->n - 1) * 99 / 100],
                                  .max_ns = s->ns[s->n - 1]};
}

static json_t *spread_json(struct doctor_samples *s)
{
    struct doctor_spread p = doctor_spread_of(s);

    return json_pack("{s:i, s:f, s:f, s:f, s:f}", "n", (int)s->n, "min_us", (double)p.min_ns / 1e3,
                     "p50_us", (double)p.p50_ns / 1e3, "p99_us", (double)p.p99_ns / 1e3, "max_us",
                     (double)p.max_ns / 1e3);
}

static void note_facts(struct doctor *d)
{
    const struct tn_timing *t = &d->timing;

    json_object_set_new(d->facts, "latency",
                        json_pack("{s:o, s:o, s:o}", "swap", spread_json(&d->swaps), "read",
                                  spread_json(&d->reads), "notify", spread_json(&d->notes)));
    json_object_set_new(
        d->facts, "timing",
        json_pack("{s:f, s:f, s:f, s:f, s:f}", "hold_ms", (double)t->hold_ns / 1e6, "kill_ms",
                  (double)t->kill_ns / 1e6, "renew_ms", (double)t->renew_ns / 1e6, "request_ms",
                  (double)t->request_ns / 1e6, "grace_ms", (double)t->grace_ns / 1e6));
}

/* The shortest ttl, in whole seconds, that allows a request so long. */
static int64_t shortest_ttl(const struct doctor *d, int64_t needed_ns)
{
    for (int64_t s = 1; s < 3600; s++) {
        const struct tn_timing_wish wish = {.ttl_ns = s * TN_S, .notifies = d->info.notifies};
        struct tn_timing t;

        if (s * 1000 >= d->info.ttl_min_ms && tn_timing_plan(&wish, &t) == TN_TIMING_OK &&
            t.request_ns >= needed_ns)
            return s;
    }
    return 3600;
}

static void judge(struct doctor *d)
{
    struct doctor_spread swap = doctor_spread_of(&d->swaps), read = doctor_spread_of(&d->reads);
    char p50[24], p99[24], max[24], reads[24], limit[24], renew[24], hold[24], left[24];
    char ttl[TN_DURATION_TEXT];
    const struct tn_timing *t = &d->timing;
    int64_t request = t->request_ns;

    doctor_time(swap.p50_ns, p50);
    doctor_time(swap.p99_ns, p99);
    doctor_time(swap.max_ns, max);
    doctor_time(read.p50_ns, reads);
    doctor_time(request, limit);
    doctor_time(t->renew_ns, renew);
    doctor_time(t->hold_ns, hold);
    doctor_time(t->hold_ns - t->renew_ns - 2 * request, left);
    tn_duration_format(d->timing.ttl_ns, ttl);
    if (d->info.ttl_min_ms && d->timing.ttl_ns < d->info.ttl_min_ms * TN_MS)
        doctor_say(d, DOCTOR_BROKEN, "ttl %s is too short for this store: give at least %u ms", ttl,
                   d->info.ttl_min_ms);
    else if (swap.p50_ns > request)
        doctor_say(d, DOCTOR_BROKEN,
                   "half of the swaps took longer than the %s that ttl %s allows a request: a "
                   "leader would lose its lease; use --ttl %llds or more",
                   limit, ttl, (long long)shortest_ttl(d, 4 * swap.max_ns));
    else if (swap.max_ns > request / 2)
        doctor_say(d, DOCTOR_WEAK,
                   "swap %s (median), %s (p99), %s (max); a request may take %s at ttl %s: one "
                   "slow answer is half of it; use --ttl %llds or more",
                   p50, p99, max, limit, ttl, (long long)shortest_ttl(d, 4 * swap.max_ns));
    else
        doctor_say(d, DOCTOR_OK,
                   "swap %s (median), %s (p99), %s (max), read %s. At ttl %s a leader renews "
                   "every %s, a request may take %s, and of D = %s there are %s left when two have "
                   "failed. As measured, --ttl %llds would do",
                   p50, p99, max, reads, ttl, renew, limit, hold, left,
                   (long long)shortest_ttl(d, 4 * swap.max_ns));
}

/* From nothing to the first answer, as after a connection was lost. */
static enum tenure_status time_session(struct doctor *d, const char *key, int64_t *took_ns)
{
    int64_t begin = tenure_now();
    tenure_store *fresh = NULL;
    enum tenure_status status = tenure_store_open(d->url, doctor_by(d), &fresh, &d->err);

    if (!status) {
        status = tenure_store_read(fresh, key, &d->value, doctor_by(d), &d->err);
        *took_ns = tenure_now() - begin;
        tenure_store_close(fresh);
    }
    return status;
}

void doctor_check_session(struct doctor *d)
{
    const char *key = doctor_key(d, "session");
    struct doctor_samples sessions = {0};
    char p50[24], max[24], limit[24], ttl[TN_DURATION_TEXT];
    int64_t took = 0;

    for (unsigned i = 0; i < (d->quick ? 3 : 9); i++) {
        enum tenure_status status = time_session(d, key, &took);

        if (status) {
            doctor_say_error(d, "a fresh session", status);
            return;
        }
        doctor_sample(&sessions, took);
    }
    json_object_set_new(json_object_get(d->facts, "latency"), "session", spread_json(&sessions));
    struct doctor_spread seen = doctor_spread_of(&sessions);
    doctor_time(seen.p50_ns, p50);
    doctor_time(seen.max_ns, max);
    doctor_time(d->timing.request_ns, limit);
    tn_duration_format(d->timing.ttl_ns, ttl);
    long long least = (long long)shortest_ttl(d, seen.p50_ns);
    if (seen.p50_ns > d->timing.request_ns)
        doctor_say(d, DOCTOR_WEAK,
                   "from nothing to the first answer %s (median), %s (max); a request may take %s "
                   "at ttl %s: a lost connection may cost a leader its lease; use --ttl %llds or "
                   "more",
                   p50, max, limit, ttl, least);
    else
        doctor_say(d, DOCTOR_OK,
                   "from nothing to the first answer %s (median), %s (max): a lost connection is "
                   "replaced within a request, %s at ttl %s. The shortest ttl for that is %llds",
                   p50, max, limit, ttl, least);
}

void doctor_check_latency(struct doctor *d)
{
    const char *key = doctor_key(d, "time");
    unsigned n = d->quick ? 60 : 300;
    struct tenure_token token = {0};
    enum tenure_status status = doctor_put(d, key, &token, "start", false);
    int64_t until = tenure_now() + (d->quick ? 1500 : 5000) * TN_MS;

    for (unsigned i = 0; !status && i < n && (i < 5 || tenure_now() < until); i++) {
        int64_t begin = tenure_now();

        status = doctor_put(d, key, &token, "a renewal is about as long as this text is, or is it?",
                            false);
        int64_t middle = tenure_now();
        if (!status)
            status = doctor_read(d, key);
        doctor_sample(&d->swaps, middle - begin);
        doctor_sample(&d->reads, tenure_now() - middle);
    }
    if (status) {
        doctor_say_error(d, "a plain swap", status);
        return;
    }
    note_facts(d);
    judge(d);
}
