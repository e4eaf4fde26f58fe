/* What the guard reports, and what is done when it can report no more. */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/timing.h"
#include "driver/driver.h"
#include "guard/children.h"
#include "supervise/supervisor_inner.h"

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

    s->exec_error = r->error ? r->error : EINVAL;
    s->passing = is_passing(s->exec_error);
    /* Only a missing command is "not found". */
    if (s->exec_error == ENOENT && stage != TN_STAGE_EXEC)
        s->exec_error = EINVAL;
    tn_log("failed", "%s %s: %s", s->options->program.args[0], stages[stage], strerror(r->error));
}

static void take_firing(struct tn_supervisor *s)
{
    bool runs = s->state != TN_PROGRAM_NONE && s->state != TN_PROGRAM_HOOK;

    /* --on-stopped may use up what is left; there is nothing that the guard could end then. */
    if (runs) {
        tn_log("fired", "the guard ends the program: the deadline has come");
        tn_election_killed(s->election);
    }
    s->fired = true;
    s->fired_epoch = s->epoch;
    tn_driver_fired(s->elector);
}

static void take_report(struct tn_supervisor *s, const struct tn_guard_report *r)
{
    switch (r->kind) {
    case TN_GUARD_ACCEPTED:
        s->state = TN_PROGRAM_STARTING;
        break;
    case TN_GUARD_SPAWNED:
        s->state = TN_PROGRAM_RUNNING;
        s->link.contain = (enum tn_contain)r->contain;
        tn_supervisor_health_program(s, true);
        if (s->epoch != 0)
            tn_supervisor_promote(s, r->at_ns);
        else
            tn_log("warm", "the program runs as a standby");
        break;
    case TN_GUARD_FAILED:
        failed_to_start(s, r);
        break;
    case TN_GUARD_REFUSED:
        tn_supervisor_refused(s);
        break;
    case TN_GUARD_EXITED:
        s->status = r->status;
        s->has_status = true;
        break;
    case TN_GUARD_KILLS:
        /* Of a hook, if there is no program. */
        if (s->state == TN_PROGRAM_HOOK || s->state == TN_PROGRAM_NONE)
            s->hook.killed = true;
        else
            s->state = TN_PROGRAM_ENDING;
        break;
    case TN_GUARD_HOOKED:
        tn_supervisor_hooked(s, r);
        break;
    case TN_GUARD_FIRED:
        if (!(atomic_load(&s->link.page->word) & TN_WORD_FIRED))
            break; /* on a grant that has been given up since */
        take_firing(s);
        break;
    case TN_GUARD_DEAD:
        /* Before the order to start is answered it is the answer to an earlier
         * stop.  Taken for this program's, the lease would be free while it runs (I8). */
        if (s->state != TN_PROGRAM_ASKED)
            tn_supervisor_tree_dead(s, r->at_ns);
        break;
    default:
        break;
    }
}

void tn_supervisor_reports(struct tn_supervisor *s)
{
    struct tn_guard_report r;

    while (s->link.alive && tn_guard_link_next(&s->link, &r))
        take_report(s, &r);
}

/* ---- Without a guard ----------------------------------------------------- */

/* How long what was killed may take to die before somebody should know. */
#define STUCK_NS (2 * TN_S)

bool tn_supervisor_kill_tree(struct tn_supervisor *s)
{
    pid_t spare[TN_HELPERS_MAX], pid;
    /* The keeper last: it finishes if we are stopped meanwhile. */
    unsigned found = tn_children_kill(spare, tn_helpers_pids(&s->helpers, spare),
                                      atomic_load(&s->link.page->keeper));
    int status;

    while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
        tn_supervisor_reaped(s, pid, status);
    /* Who cannot look (no descriptor is free, say) does not know that nothing is left; only that
     * there is no child at all is known in any case. */
    return found == 0 || (pid < 0 && errno == ECHILD);
}

static void start_guard(struct tn_supervisor *s)
{
    struct tenure_error err;

    bool ok = !tn_guard_link_start(&s->link, &err) && !tn_guard_link_greet(&s->link, &err);
    tn_supervisor_watch_guard(s);
    if (ok)
        return;
    tn_log("failed", "%s", err.text);
    s->exit_code = s->codes->broken;
    s->failed = true;
    tn_supervisor_leave(s);
}

/* Soon at first, ten times a second in the end. */
static int64_t orphans_pause(int64_t since_ns)
{
    int64_t pause = since_ns / 4 > TN_MS / 2 ? since_ns / 4 : TN_MS / 2;

    return pause < 100 * TN_MS ? pause : 100 * TN_MS;
}

/*
 * The kernel has killed the program already (parent-death signal, or its
 * namespace), and what it left behind has become our own children: kill until
 * there are none.  Only then may the lease be released (I8).  Who hangs in the
 * kernel does not die at once, so nobody waits for that here.
 */
void tn_supervisor_orphans_time(void *arg, int64_t now)
{
    struct tn_supervisor *s = arg;

    if (!s->orphaned)
        return;
    if (!tn_supervisor_kill_tree(s)) {
        if (now - s->orphaned_ns >= STUCK_NS && !s->orphans_told) {
            s->orphans_told = true;
            tn_log("guard",
                   "the guard died, and what it guarded is killed but does not die (stuck in "
                   "a disk or a network file system?); the lease is kept until it has");
        }
        s->orphans.at_ns = now + orphans_pause(now - s->orphaned_ns);
        return;
    }
    s->orphaned = s->orphans_told = false;
    tn_log("guard", "the guard died; the program was ended");
    start_guard(s);
    s->fired = true;
    s->fired_epoch = s->epoch;
    tn_supervisor_hooks_lost(s);
    tn_supervisor_tree_dead(s, tenure_now());
}

void tn_supervisor_on_report(void *arg, short events)
{
    if (events & POLLIN)
        tn_supervisor_reports(arg);
    if (events & POLLHUP)
        tn_supervisor_guard_died(arg, events);
}

void tn_supervisor_guard_died(void *arg, short events)
{
    struct tn_supervisor *s = arg;

    (void)events;
    tn_supervisor_reports(s); /* its last words */
    tn_guard_link_mourn(&s->link);
    tn_supervisor_watch_guard(s);
    tn_driver_fired(s->elector);
    if (s->state == TN_PROGRAM_ASKED || s->state == TN_PROGRAM_STARTING ||
        s->state == TN_PROGRAM_RUNNING)
        s->state = TN_PROGRAM_ENDING;
    s->orphaned = true;
    s->orphaned_ns = tenure_now();
    tn_supervisor_orphans_time(s, s->orphaned_ns);
}
