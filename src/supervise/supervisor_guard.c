/* What the supervisor has to do with its guard: start it, tell it the deadline, see that it acts.
 */
#include <poll.h>
#include <string.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/url.h"
#include "core/timing.h"
#include "os/poll.h"
#include "supervise/guard_watch.h"
#include "supervise/supervisor_inner.h"

static int64_t max64(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static int64_t min64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* ---- What the driver and the peer sync tell the guard --------------------------- */

static void watch(struct tn_supervisor *s, int64_t deadline_ns, int64_t told_ns)
{
    int64_t late = tn_guard_late_at(deadline_ns, told_ns, s->link.page->margin_ns);
    struct itimerspec when = {.it_value = {.tv_sec = (time_t)(late / TN_S), /* zero disarms */
                                           .tv_nsec = (long)(late % TN_S)}};

    atomic_store(&s->deadline_ns, deadline_ns);
    atomic_store(&s->late_ns, late);
    timerfd_settime(s->late.fd, TFD_TIMER_ABSTIME, &when, NULL);
}

static bool publish(void *arg, int64_t deadline_ns)
{
    struct tn_supervisor *s = arg;
    int64_t now = tenure_now();
    bool ok = tn_guard_link_publish(&s->link, deadline_ns);
    uint64_t word = atomic_load(&s->link.page->word);

    /* It has fired.  If not on this deadline, the program has what is left of its grace, KILL
     * comes when it was due before, and the guard is not late until then. */
    if (ok || word == ((uint64_t)deadline_ns | TN_WORD_FIRED))
        watch(s, deadline_ns, now);
    return ok;
}

/* Half of what a request may last again, and at least half a second: then a
 * standby hangs in it, and who hangs in an SQLite transaction blocks everybody. */
static int64_t hangs_at(int64_t until_ns)
{
    int64_t span = until_ns - tenure_now();

    return until_ns == 0 ? 0 : until_ns + (span > TN_S ? span / 2 : TN_S / 2);
}

static void on_request(void *arg, int64_t until_ns)
{
    struct tn_supervisor *s = arg;

    tn_guard_link_busy(&s->link, TN_BUSY_DRIVER, hangs_at(until_ns));
}

static void on_peer_request(void *arg, int64_t until_ns)
{
    struct tn_supervisor *s = arg;

    tn_guard_link_busy(&s->link, TN_BUSY_PEERS, hangs_at(until_ns));
}

void tn_supervisor_guard_hooks(struct tn_supervisor *s, struct tn_driver_hooks *hooks)
{
    hooks->publish = publish;
    if (tn_url_traits(s->options->elector.store) & TN_URL_LOCKED) {
        hooks->request = on_request;
        s->peers.request = on_peer_request;
    }
}

/* ---- The guard's guard --------------------------------------------------- */

/* And so long when it is late already: little of the half margin that is left before the deadline.
 */
#define LOOK_NS (2 * TN_MS)

static bool guard_is_late(const struct tn_supervisor *s, int64_t now)
{
    int64_t late = atomic_load(&s->late_ns);

    if (s->orphaned || s->state == TN_PROGRAM_NONE || s->state == TN_PROGRAM_ENDING ||
        (s->state == TN_PROGRAM_HOOK && (!s->hook.runs || s->hook.killed)))
        return false;
    return (late > 0 && now >= late) ||
           (s->state == TN_PROGRAM_ASKED && now - s->started_ns >= TN_GUARD_ANSWER_NS);
}

/* No KILL at the deadline, or no answer at all. */
static void check_guard(struct tn_supervisor *s, int64_t now)
{
    struct pollfd word = {.fd = s->link.socket, .events = POLLIN};

    if (!guard_is_late(s, now))
        return;
    /* The word may just have come.  And a machine that stood still wakes both of us up: that we are
     * the quicker one proves nothing yet. */
    do
        tn_supervisor_reports(s);
    while (guard_is_late(s, now) && tn_poll(&word, 1, now + LOOK_NS) > 0 &&
           !(word.revents & POLLHUP));
    if (guard_is_late(s, now)) {
        tn_log("guard", "the guard does not do its duty; ending it and the program");
        tn_guard_link_shoot(&s->link);
        tn_supervisor_kill_tree(s); /* at once: its death is still to be told */
    }
}

/* From when the program runs until its term is over; also between two programs of one term. */
static bool wants_releaser(const struct tn_supervisor *s)
{
    return s->epoch != 0 && (s->prepared.pid > 0 || s->state == TN_PROGRAM_RUNNING) &&
           s->options->program.args && tn_prepared_pays(s->options->elector.store);
}

void tn_supervisor_guard_time(struct tn_supervisor *s, int64_t now)
{
    check_guard(s, now);
    tn_prepared_want(&s->prepared, wants_releaser(s), now);
}

void tn_supervisor_watch_guard(struct tn_supervisor *s)
{
    tn_watch_set(&s->guard_report, s->link.socket, POLLIN);
    tn_watch_set(&s->guard_end, s->link.pidfd, POLLIN);
}

/* How long before the deadline the guard asks the program to stop, if nobody else has.  Somewhat
 * less than a whole grace: a drain lowers the deadline to a grace from now, and the order to stop,
 * which comes from another thread, must be there before the guard takes it for a loss. */
static int64_t notice_ns(const struct tn_supervisor *s, const struct tn_timing *timing)
{
    int64_t grace = tn_supervisor_grace(s);
    int64_t order = grace - min64(grace / 8, TN_S / 2);

    return min64(timing->grace_ns, order);
}

/* ---- Start ---------------------------------------------------------------- */

enum tenure_status tn_supervisor_guard_open(struct tn_supervisor *s, struct tenure_error *err)
{
    const struct tn_run_options *o = s->options;
    struct tn_timing_wish wish = {.ttl_ns = o->elector.ttl_ms * TN_MS,
                                  .renew_ns = o->elector.renew_ms * TN_MS,
                                  .grace_ns = o->elector.grace_ms * TN_MS,
                                  .kill_ns = o->elector.kill_ms * TN_MS,
                                  .rho_ppm = o->elector.rho_ppm};
    struct tn_timing timing;

    /* Times that cannot work are refused by the driver, with the arithmetic. */
    tn_timing_plan(&wish, &timing);
    if (o->trace) {
        enum tenure_status opened =
            tn_trace_file_open(o->trace, o->elector.name, &timing, &s->trace, err);
        if (opened)
            return opened;
    }
    struct tn_guard_wish guard = {.contain = o->contain,
                                  .grace_ns = notice_ns(s, &timing),
                                  .kill_ns = timing.kill_ns,
                                  .orphan_grace_ns = o->orphan_grace_ns,
                                  .release_delay_ns = max64(o->release_delay_ns, o->answer_ns),
                                  .stop_signal = o->stop_signal,
                                  .watchdog = o->watchdog,
                                  .watchdog_s = (uint32_t)((timing.kill_ns + TN_S - 1) / TN_S)};
    enum tenure_status status = tn_guard_link_open(&s->link, &guard, err);

    if (!status)
        status = tn_guard_link_start(&s->link, err);
    tn_supervisor_watch_guard(s);
    /* A wish that cannot be met is refused before anybody contends. */
    if (!status && (o->contain != TN_CONTAIN_AUTO || o->watchdog))
        status = tn_guard_link_greet(&s->link, err);
    return status;
}
