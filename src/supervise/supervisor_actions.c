/* The machine's other end: what it says is done here, and what comes of that is stepped. */
#include <assert.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/timing.h"
#include "driver/driver.h"
#include "os/clock.h"
#include "supervise/guard/releaser.h"
#include "supervise/program/environment.h"
#include "supervise/supervisor_inner.h"

#define NO_EVENT TN_MACHINE_EVENT_KINDS
#define ENV_MAX  4 /* variables of a command that runs once */

/* ---- The program --------------------------------------------------------- */

/* What the releaser must know if we crash, before anything can run.  false: that term is over. */
static bool leave_ticket(struct tn_supervisor *s)
{
    struct tn_release_ticket ticket = {
        .store = s->options->elector.store, .name = s->options->elector.name, .id = s->id};
    struct tn_snapshot now;

    tn_driver_snapshot(s->elector, &now);
    if (now.grant.epoch == 0 || now.grant.epoch != s->machine.epoch)
        return false;
    memcpy(ticket.incarnation, now.incarnation, sizeof ticket.incarnation);
    memcpy(ticket.grant, now.grant.id, sizeof ticket.grant);
    return tn_release_ticket_give(&s->link, &ticket);
}

static void write_role(const struct tn_supervisor *s)
{
    struct tenure_error err;

    if (tn_role_file_write(&s->role_file, s->machine.epoch, &err) != TENURE_OK)
        tn_log("failed", "%s", err.text);
}

static enum tenure_status describe(struct tn_supervisor *s, int *block, struct tenure_error *err)
{
    struct tn_program_env_spec spec = {.name = s->options->elector.name,
                                       .id = s->id,
                                       .epoch = s->machine.epoch,
                                       .store = s->options->elector.store,
                                       .state = s->options->state};
    char notify[sizeof s->notified.path + 16], watchdog[48], role[4200];
    const char *extra[6 + ENV_MAX] = {0};
    const char *const *more = s->options->once ? s->options->once->env : NULL;
    size_t n = 0;

    if (s->socket)
        extra[n++] = tn_state_socket_variable(s->socket);
    if (s->notified.fd >= 0) {
        snprintf(notify, sizeof notify, "NOTIFY_SOCKET=%s", s->notified.path);
        snprintf(watchdog, sizeof watchdog, "WATCHDOG_USEC=%" PRId64,
                 s->options->probe.timeout_ns / 1000);
        extra[n++] = notify;
        extra[n++] = watchdog;
    }
    if (s->options->warm_file) {
        snprintf(role, sizeof role, "TENURE_ROLE_FILE=%s", s->options->warm_file);
        extra[n++] = role;
    }
    for (size_t i = 0; more && more[i] && i < ENV_MAX; i++)
        extra[n++] = more[i];
    spec.extra = extra;
    return tn_program_block(&s->options->program, &spec, block, err);
}

static enum tn_machine_event_kind spawn(struct tn_supervisor *s)
{
    enum tn_machine_event_kind then = NO_EVENT;
    struct tenure_error err;
    int block;

    if (describe(s, &block, &err) != TENURE_OK) {
        tn_log("failed", "%s", err.text);
        return TN_ON_SPAWN_INVALID;
    }
    write_role(s);
    tn_state_socket_next_program(s->socket);
    if (!tn_guard_link_spawn(&s->link, block, -1)) {
        tn_log("guard", "the guard takes no requests; ending it");
        then = TN_ON_SPAWN_FAILED;
    }
    close(block);
    return then;
}

static void began(struct tn_supervisor *s, uint64_t epoch, int64_t at_ns)
{
    tn_trace_file_program(s->trace, s->id, "running", epoch, at_ns);
    s->self.started_epoch = epoch;
    s->self.started_ns = at_ns;
    s->self.started_ms = tn_wall_ms();
    tn_log("running", "leading, epoch %" PRIu64 "; %s; %s", epoch, tn_election_cause(s->election),
           s->options->program.args ? tn_contain_text(s->link.contain) : "no program of its own");
    tn_notify(&s->notify, "STATUS=leading, epoch %" PRIu64, epoch);
    tn_election_contain(s->election, tn_contain_text(s->link.contain));
    tn_election_began(s->election, epoch);
    tn_election_running(s->election, true);
    tn_supervisor_sync(s, TN_PEER_ANNOUNCE | TN_PEER_MEMBERSHIP);
}

static void tell_end(const struct tn_machine *m)
{
    if (m->exec_error)
        return; /* told when it failed */
    if (!m->has_status)
        tn_log("ended", "the program was killed");
    else if (WIFEXITED(m->status))
        tn_log("ended", "the program ended with code %d", WEXITSTATUS(m->status));
    else
        tn_log("ended", "the program was ended by signal %d (%s)", WTERMSIG(m->status),
               strsignal(WTERMSIG(m->status)));
}

static void note_end(struct tn_supervisor *s, uint64_t epoch, int64_t at_ns)
{
    if (epoch == 0)
        return;
    s->self.ended_epoch = epoch;
    s->self.ended_ns = at_ns;
    s->self.ended_ms = tn_wall_ms();
}

static void ended(struct tn_supervisor *s, uint64_t epoch, int64_t at_ns, bool by_itself)
{
    tell_end(&s->machine);
    /* Before the lease is released: what it asked for is not of the next term. */
    tn_state_socket_next_program(s->socket);
    tn_election_running(s->election, false);
    tn_supervisor_health_program(s, false);
    note_end(s, epoch, at_ns);
    if (epoch != 0)
        tn_trace_file_program(s->trace, s->id, "dead", epoch, at_ns);
    tn_supervisor_once_ended(s, tn_machine_program_code(&s->machine), by_itself);
}

static const char *end_text(const struct tn_supervisor *s, enum tn_term_end end)
{
    switch (end) {
    case TN_TERM_SHUTDOWN:
        return tn_stop_text(TN_STOP_SHUTDOWN);
    case TN_TERM_PROGRAM:
        return tn_stop_text(TN_STOP_PROGRAM);
    case TN_TERM_CRASHES:
        return s->self.trouble;
    default:
        return s->why;
    }
}

static void end_term(struct tn_supervisor *s, const struct tn_machine_action *a)
{
    bool lost = a->end == TN_TERM_CRASHES || (a->end == TN_TERM_STOPPED && s->stop_lost);

    tn_election_ended(s->election, a->epoch, end_text(s, a->end), lost);
}

static void yield(struct tn_supervisor *s, unsigned crashes, int64_t pause_ns)
{
    snprintf(s->self.trouble, sizeof s->self.trouble,
             "gave leadership up: the program ended %u times in a row", crashes);
    tn_log("yielding", "giving leadership up: the program ended %u times in a row", crashes);
    tenure_elector_yield(s->elector, pause_ns / TN_MS);
}

static void keep_lease(struct tn_supervisor *s, int64_t until_ns)
{
    tn_guard_link_keep(&s->link, until_ns);
    tn_guard_link_ticket(&s->link, "", 0);
    tn_supervisor_hook_not_run(TN_HOOK_STOPPED, until_ns > tenure_now()
                                                    ? "the lease is kept until its deadline"
                                                    : "the term had no time left");
}

static void tell_unhealthy(struct tn_supervisor *s)
{
    snprintf(s->self.trouble, sizeof s->self.trouble, "health probe failed (%d of %d)",
             s->probe.failures, s->probe.to.o.threshold);
    tn_log("unhealthy", "%s", s->self.trouble);
}

static void leave(struct tn_supervisor *s)
{
    tn_election_stopping(s->election);
    tn_notify(&s->notify, "STOPPING=1\nSTATUS=stopping");
    tn_driver_shutdown(s->elector);
}

/* ---- What is to be done -------------------------------------------------- */

/* Of the program and its guard.  Returns what came of it, or NO_EVENT. */
static enum tn_machine_event_kind perform_on_program(struct tn_supervisor *s,
                                                     const struct tn_machine_action *a, bool *ok)
{
    switch (a->kind) {
    case TN_DO_TICKET:
        *ok = leave_ticket(s);
        return TN_ON_TICKET;
    case TN_DO_SPAWN:
        return spawn(s);
    case TN_DO_HOOK:
        return tn_supervisor_hook_run(s, a->hook, a->at_ns) ? NO_EVENT : TN_ON_HOOK_FAILED;
    case TN_DO_KILL_TREE:
        return tn_supervisor_kill_tree(s) ? TN_ON_TREE_GONE : TN_ON_TREE_LEFT;
    case TN_DO_START_GUARD:
        *ok = tn_supervisor_guard_restart(s);
        return TN_ON_GUARD_STARTED;
    case TN_DO_ROLE:
        write_role(s);
        break;
    case TN_DO_SIGNAL_WARM:
        tn_guard_link_signal(&s->link, a->signal);
        break;
    case TN_DO_RUNS:
        tn_supervisor_warn(s, TN_WARNING_PROGRAM_MISSING, "%s", "");
        tn_supervisor_health_program(s, true);
        if (a->epoch == 0)
            tn_log("warm", "the program runs as a standby");
        break;
    case TN_DO_STOP:
        tn_guard_link_stop(&s->link, a->signal, a->at_ns);
        break;
    case TN_DO_KILL:
        tn_guard_link_stop(&s->link, SIGKILL, 1);
        break;
    case TN_DO_ENDED:
        ended(s, a->epoch, a->at_ns, a->ok);
        break;
    case TN_DO_SERVED:
        note_end(s, a->epoch, a->at_ns);
        break;
    case TN_DO_HOLD:
        tn_guard_link_keep(&s->link, a->at_ns);
        break;
    case TN_DO_KEEP_LEASE:
        keep_lease(s, a->at_ns);
        break;
    case TN_DO_KILL_GUARD:
        tn_guard_link_kill(&s->link);
        break;
    default:
        break;
    }
    return NO_EVENT;
}

/* Of the term and its election. */
static void perform_on_term(struct tn_supervisor *s, const struct tn_machine_action *a)
{
    switch (a->kind) {
    case TN_DO_BEGAN:
        began(s, a->epoch, a->at_ns);
        break;
    case TN_DO_END_TERM:
        end_term(s, a);
        break;
    case TN_DO_ANSWER_STOP:
        tn_supervisor_answer_stop(s);
        break;
    case TN_DO_RELEASE:
        tn_supervisor_once_released(s);
        tn_driver_ended(s->elector, a->epoch);
        break;
    case TN_DO_EXITED:
        tn_supervisor_exited(s, a->count);
        break;
    case TN_DO_YIELD:
        yield(s, a->count, a->at_ns);
        break;
    case TN_DO_FIRED:
        tn_driver_fired(s->elector);
        break;
    case TN_DO_SYNC:
        tn_supervisor_sync(s, TN_PEER_ANNOUNCE | TN_PEER_MEMBERSHIP);
        break;
    case TN_DO_STEP_DOWN:
        tn_supervisor_sync_now(s, TN_PEER_STEP_DOWN);
        break;
    case TN_DO_LEAVE:
        leave(s);
        break;
    case TN_DO_WITHDRAW:
        tn_supervisor_withdraw(s, tenure_now());
        break;
    case TN_DO_RELOAD:
        tn_supervisor_reload(s);
        break;
    default:
        break;
    }
}

static void report_action(struct tn_supervisor *s, const struct tn_machine_action *a)
{
    switch (a->kind) {
    case TN_DO_NO_HOOK:
        tn_supervisor_hook_not_run(a->hook, NULL);
        break;
    case TN_DO_TELL_FIRED:
        tn_log("fired", "the guard ends the program: the deadline has come");
        tn_election_killed(s->election);
        break;
    case TN_DO_TELL_STUCK:
        tn_log("guard", "the guard died, and what it guarded is killed but does not die (stuck in "
                        "a disk or a network file system?); the lease is kept until it has");
        break;
    case TN_DO_TELL_UNHEALTHY:
        tell_unhealthy(s);
        break;
    case TN_DO_TELL_HANDOVER:
        tn_log("yielding", "another candidate is healthy: handing over");
        break;
    case TN_DO_TELL_RESTART:
        tn_log("restarting", "restarting the program: no healthy candidate stands by");
        break;
    case TN_DO_TELL_STEADY:
        tn_supervisor_warn(s, TN_WARNING_CRASH_LOOP, "%s", "");
        break;
    case TN_DO_TELL_LOST:
        tn_log("lost", "leadership is over: %s; %sthen it %s", s->why,
               s->options->program.args ? "the program is ended, " : "",
               a->ok ? "exits" : "contends again");
        break;
    case TN_DO_TELL_LEAVING:
        tn_log("leaving", "asked to stop (%s)", strsignal(a->signal));
        break;
    case TN_DO_TELL_HURRY:
        tn_log("hastening", "asked again: %s",
               a->ok ? "killing the program" : "not waiting for the store");
        break;
    default:
        break;
    }
}

/* ---- Steps --------------------------------------------------------------- */

/* Returns what came of it: NO_EVENT, or the next event, which is stepped before anything else. */
static struct tn_machine_event step_once(struct tn_supervisor *s, struct tn_machine_event ev)
{
    struct tn_machine_event then = {.kind = NO_EVENT};
    struct tn_machine_actions todo;

    ev.now_ns = tenure_now();
    ev.deadline_ns = atomic_load(&s->deadline_ns);
    tn_machine_step(&s->machine, &ev, &todo);
    for (unsigned i = 0; i < todo.n; i++) {
        assert(then.kind == NO_EVENT); /* what is answered comes last */
        then.kind = perform_on_program(s, &todo.list[i], &then.ok);
        perform_on_term(s, &todo.list[i]);
        report_action(s, &todo.list[i]);
    }
    return then;
}

void tn_supervisor_step(struct tn_supervisor *s, const struct tn_machine_event *ev)
{
    struct tn_machine_event next = *ev;

    if (s->stepping) {
        assert(s->n_queued < TN_QUEUED_MAX);
        s->queued[s->n_queued++] = *ev;
        return;
    }
    s->stepping = true;
    for (;;) {
        next = step_once(s, next);
        if (next.kind != NO_EVENT)
            continue;
        if (s->n_queued == 0)
            break;
        next = s->queued[0];
        memmove(s->queued, s->queued + 1, --s->n_queued * sizeof s->queued[0]);
    }
    s->stepping = false;
}

void tn_supervisor_happened(struct tn_supervisor *s, enum tn_machine_event_kind kind)
{
    tn_supervisor_step(s, &(struct tn_machine_event){.kind = kind});
}
