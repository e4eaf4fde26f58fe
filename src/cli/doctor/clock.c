/* How this machine counts time: the clock, and how late it wakes somebody up. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "cli/doctor/doctor.h"

static int64_t read_clock(clockid_t id)
{
    struct timespec ts = {0};

    clock_gettime(id, &ts);
    return (int64_t)ts.tv_sec * TN_S + ts.tv_nsec;
}

void doctor_clocks_read(struct doctor_clocks *out)
{
    /* Several times: the try in which they were read closest together counts. */
    int64_t best = INT64_MAX;

    for (unsigned i = 0; i < 5; i++) {
        struct doctor_clocks c = {.boot_ns = read_clock(CLOCK_BOOTTIME),
                                  .monotonic_ns = read_clock(CLOCK_MONOTONIC),
                                  .raw_ns = read_clock(CLOCK_MONOTONIC_RAW),
                                  .wall_ns = read_clock(CLOCK_REALTIME)};
        int64_t took = read_clock(CLOCK_BOOTTIME) - c.boot_ns;

        if (took < best) {
            best = took;
            *out = c;
        }
    }
}

static int64_t since(int64_t a, int64_t b)
{
    return b - a;
}

void doctor_check_clock(struct doctor *d)
{
    const struct doctor_clocks *a = &d->start;
    struct doctor_clocks b;

    doctor_clocks_read(&b);
    while (since(a->boot_ns, b.boot_ns) < 200 * TN_MS) { /* too short to tell a rate */
        usleep(50000);
        doctor_clocks_read(&b);
    }
    int64_t boot = since(a->boot_ns, b.boot_ns), raw = since(a->raw_ns, b.raw_ns);
    int64_t asleep = boot - since(a->monotonic_ns, b.monotonic_ns);
    int64_t before = a->boot_ns - a->monotonic_ns;
    int64_t step = since(a->wall_ns, b.wall_ns) - boot;
    double rate_ppm = ((double)(boot - asleep) / (double)raw - 1) * 1e6;
    double rho_ppm = d->timing.rho_ppm;
    double off_ppm = rate_ppm < 0 ? -rate_ppm : rate_ppm;
    char slept[24], stepped[60] = "";

    doctor_time(before, slept);
    if (llabs(step) > 10 * TN_MS)
        snprintf(stepped, sizeof stepped,
                 "; the wall clock was set by %+.3f s meanwhile (harmless)", (double)step / 1e9);
    json_object_set_new(d->facts, "clock",
                        json_pack("{s:f, s:f, s:f, s:f}", "rate_ppm", rate_ppm, "suspended_ms",
                                  (double)asleep / 1e6, "suspended_before_s", (double)before / 1e9,
                                  "wall_step_ms", (double)step / 1e6));
    if (off_ppm > rho_ppm)
        doctor_say(d, DOCTOR_BROKEN,
                   "CLOCK_BOOTTIME runs %+.0f ppm beside the hardware's; more than the %.0f that "
                   "are allowed for",
                   rate_ppm, rho_ppm);
    else if (asleep > 50 * TN_MS)
        doctor_say(d, DOCTOR_WEAK,
                   "this machine was suspended for %.1f s just now: over a suspend only the epoch "
                   "protects what is written",
                   (double)asleep / 1e9);
    else
        doctor_say(d, off_ppm > rho_ppm / 4 ? DOCTOR_WEAK : DOCTOR_OK,
                   "CLOCK_BOOTTIME runs %+.1f ppm beside the hardware's, %.0f are allowed for; "
                   "suspended for %s since it started%s",
                   rate_ppm, rho_ppm, before > TN_MS ? slept : "no time", stepped);
}

/* ---- Timers -------------------------------------------------------------- */

void doctor_check_timers(struct doctor *d)
{
    int fd = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC);
    struct doctor_samples late = {0};
    char p50[24], max[24], margin[24];
    uint64_t expired;

    if (fd < 0) {
        doctor_say(d, DOCTOR_BROKEN, "this kernel has no timers on CLOCK_BOOTTIME");
        return;
    }
    for (unsigned i = 0; i < (d->quick ? 40u : 150u); i++) {
        int64_t at = tenure_now() + 3 * TN_MS;
        struct itimerspec when = {
            .it_value = {.tv_sec = (time_t)(at / TN_S), .tv_nsec = (long)(at % TN_S)}};

        if (timerfd_settime(fd, TFD_TIMER_ABSTIME, &when, NULL) != 0 ||
            read(fd, &expired, sizeof expired) != (ssize_t)sizeof expired)
            break;
        doctor_sample(&late, tenure_now() - at);
    }
    close(fd);
    struct doctor_spread s = doctor_spread_of(&late);
    doctor_time(s.p50_ns, p50);
    doctor_time(s.max_ns, max);
    doctor_time(d->margin_ns, margin);
    json_object_set_new(d->facts, "timers",
                        json_pack("{s:i, s:f, s:f}", "n", (int)late.n, "late_p50_us",
                                  (double)s.p50_ns / 1e3, "late_max_us", (double)s.max_ns / 1e3));
    if (late.n == 0 || s.p50_ns > d->timing.kill_ns)
        doctor_say(d, DOCTOR_BROKEN, "timers are late by %s (median): no deadline can be kept",
                   p50);
    else
        doctor_say(d, s.max_ns > d->margin_ns ? DOCTOR_WEAK : DOCTOR_OK,
                   "late by %s (median), %s at most; KILL goes out %s before D%s", p50, max, margin,
                   s.max_ns > d->margin_ns ? ", which this busy machine may miss" : "");
}
