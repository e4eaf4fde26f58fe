/* The supervisor's side of its guard: start it, tell it the deadline, take its reports, see that it
 * acts. */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/duration.h"
#include "base/url.h"
#include "core/timing.h"
#include "guard/children.h"
#include "os/poll.h"
#include "supervise/guard/watch.h"
#include "supervise/supervisor_inner.h"

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

/* ---- What it reports ----------------------------------------------------- */

/* Processes, memory or descriptors are short, or the file is just being replaced. */
static bool is_passing(int error)
{
    return error == EAGAIN || error == ENOMEM || error == EMFILE || error == ENFILE ||
           error == ENOSPC || error == ETXTBSY;
}

static void failed_to_start(struct tn_supervisor *s, const struct tn_guard_report *r)
{
    static const char *const stages[] = {
        [TN_STAGE_NONE] = "cannot be started",
        [TN_STAGE_WATCHDOG] = "is not started: the watchdog cannot be opened",
        [TN_STAGE_CONTAIN] = "cannot be contained",
        [TN_STAGE_FORK] = "cannot be started: no new process",
        [TN_STAGE_BLOCK] = "cannot be described",
        [TN_STAGE_USER] = "cannot be started: --user",
        [TN_STAGE_CWD] = "cannot be started: --chdir",
        [TN_STAGE_EXEC] = "cannot be executed",
    };
    unsigned stage = r->stage < sizeof stages / sizeof stages[0] ? r->stage : 0;

    int error = r->error ? r->error : EINVAL;
    bool passing = is_passing(error);

    /* Only a missing command is "not found". */
    if (error == ENOENT && stage != TN_STAGE_EXEC)
        error = EINVAL;
    tn_log("failed", "%s %s: %s", s->options->program.args[0], stages[stage], strerror(r->error));
    tn_supervisor_warn(s, TN_WARNING_PROGRAM_MISSING, "%.60s %s: %s", s->options->program.args[0],
                       stages[stage], strerror(r->error));
    tn_supervisor_step(
        s, &(struct tn_machine_event){.kind = TN_ON_FAILED, .error = error, .passing = passing});
}

static void take_report(struct tn_supervisor *s, const struct tn_guard_report *r)
{
    static const enum tn_machine_event_kind events[] = {
        [TN_GUARD_ACCEPTED] = TN_ON_ACCEPTED, [TN_GUARD_SPAWNED] = TN_ON_SPAWNED,
        [TN_GUARD_REFUSED] = TN_ON_REFUSED,   [TN_GUARD_EXITED] = TN_ON_EXITED,
        [TN_GUARD_KILLS] = TN_ON_KILLS,       [TN_GUARD_FIRED] = TN_ON_FIRED,
        [TN_GUARD_DEAD] = TN_ON_DEAD,
    };

    if (r->kind == TN_GUARD_FAILED) {
        failed_to_start(s, r);
    } else if (r->kind == TN_GUARD_HOOKED) {
        tn_supervisor_hook_ended(s, r);
    } else if (r->kind == TN_GUARD_FIRED && !(atomic_load(&s->link.page->word) & TN_WORD_FIRED)) {
        /* On a grant that has been given up since. */
    } else if (r->kind < sizeof events / sizeof events[0] && events[r->kind]) {
        if (r->kind == TN_GUARD_SPAWNED)
            s->link.contain = (enum tn_contain)r->contain;
        tn_supervisor_step(s, &(struct tn_machine_event){
                                  .kind = events[r->kind], .at_ns = r->at_ns, .status = r->status});
    }
}

static void take_reports(struct tn_supervisor *s)
{
    struct tn_guard_report r;

    while (s->link.alive && tn_guard_link_next(&s->link, &r))
        take_report(s, &r);
}

void tn_supervisor_on_report(void *arg, short events)
{
    if (events & POLLIN)
        take_reports(arg);
    if (events & POLLHUP)
        tn_supervisor_guard_died(arg, events);
}

void tn_supervisor_guard_watch(struct tn_supervisor *s)
{
    tn_watch_set(&s->guard_report, s->link.socket, POLLIN);
    tn_watch_set(&s->guard_end, s->link.pidfd, POLLIN);
}

/* ---- Its death ----------------------------------------------------------- */

bool tn_supervisor_kill_tree(struct tn_supervisor *s)
{
    pid_t spare[TN_HELPERS_MAX], pid;
    /* The tree's init last: it finishes if we are stopped meanwhile. */
    unsigned found = tn_children_kill(spare, tn_helpers_pids(&s->helpers, spare),
                                      atomic_load(&s->link.page->tree_init));
    int status;

    while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
        tn_supervisor_reaped(s, pid, status);
    /* Who cannot look (no descriptor is free, say) does not know that nothing is left; only that
     * there is no child at all is known in any case. */
    return found == 0 || (pid < 0 && errno == ECHILD);
}

bool tn_supervisor_guard_restart(struct tn_supervisor *s)
{
    struct tenure_error err;

    tn_log("guard", "the guard died; the program was ended");
    bool ok = !tn_guard_link_start(&s->link, &err) && !tn_guard_link_wait_ready(&s->link, &err);
    tn_supervisor_guard_watch(s);
    if (!ok)
        tn_log("failed", "%s", err.text);
    return ok;
}

/*
 * The kernel has killed the program already (parent-death signal, or its
 * namespace), and what it left behind has become our own children: they are
 * killed until there are none.  Only then may the lease be released (I8).  What
 * hangs in the kernel does not die at once, so nobody waits for that here.
 */
void tn_supervisor_guard_died(void *arg, short events)
{
    struct tn_supervisor *s = arg;

    (void)events;
    take_reports(s); /* its last words */
    tn_guard_link_mark_dead(&s->link);
    tn_supervisor_guard_watch(s);
    tn_supervisor_happened(s, TN_ON_GUARD_DIED);
}

/* ---- The guard's guard --------------------------------------------------- */

/* The guard is late already, and has so long to be heard: little of the half margin that is left
 * before the deadline. */
#define LOOK_NS (2 * TN_MS)

static bool guard_is_late(const struct tn_supervisor *s, int64_t now)
{
    return tn_machine_guard_is_late(&s->machine, atomic_load(&s->late_ns), now);
}

/* No KILL at the deadline, or no answer at all. */
static void check_guard(struct tn_supervisor *s, int64_t now)
{
    struct pollfd report = {.fd = s->link.socket, .events = POLLIN};

    if (!guard_is_late(s, now))
        return;
    /* The report may just have come.  And a machine that stood still wakes both of us up: that we
     * are the quicker one proves nothing yet. */
    do
        take_reports(s);
    while (guard_is_late(s, now) && tn_poll(&report, 1, now + LOOK_NS) > 0 &&
           !(report.revents & POLLHUP));
    if (guard_is_late(s, now)) {
        tn_log("guard", "the guard did not act by the deadline; killing it and the program");
        tn_guard_link_kill(&s->link);
        tn_supervisor_kill_tree(s); /* at once: its death is still to be told */
    }
}

/* From when the program runs until its term is over; also between two programs of one term. */
static bool wants_releaser(const struct tn_supervisor *s)
{
    return s->machine.epoch != 0 &&
           (s->prepared.pid > 0 || s->machine.state == TN_PROGRAM_RUNNING) &&
           s->options->program.args && tn_prepared_pays(s->options->elector.store);
}

void tn_supervisor_guard_check(struct tn_supervisor *s, int64_t now)
{
    check_guard(s, now);
    tn_prepared_want(&s->prepared, wants_releaser(s), now);
}

/* ---- Start ---------------------------------------------------------------- */

/* How long before the deadline the guard asks the program to stop, if nobody else has.  Somewhat
 * less than a whole grace: a drain lowers the deadline to a grace from now, and the order to stop,
 * which comes from another thread, must be there before the guard takes it for a loss. */
static int64_t notice_ns(const struct tn_supervisor *s, const struct tn_timing *timing)
{
    int64_t grace = tn_supervisor_grace(s);
    int64_t order = grace - tn_min_ns(grace / 8, TN_S / 2);

    return tn_min_ns(timing->grace_ns, order);
}

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
                                  .release_delay_ns = tn_max_ns(o->release_delay_ns, o->answer_ns),
                                  .stop_signal = o->stop_signal,
                                  .watchdog = o->watchdog,
                                  .watchdog_s = (uint32_t)((timing.kill_ns + TN_S - 1) / TN_S)};
    enum tenure_status status = tn_guard_link_open(&s->link, &guard, err);

    if (!status)
        status = tn_guard_link_start(&s->link, err);
    tn_supervisor_guard_watch(s);
    /* A wish that cannot be met is refused before anybody contends. */
    if (!status && (o->contain != TN_CONTAIN_AUTO || o->watchdog))
        status = tn_guard_link_wait_ready(&s->link, err);
    return status;
}
