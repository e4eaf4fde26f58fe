#include "supervise/machine.h"

#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <sys/wait.h>

#include "base/duration.h"
#include "core/timing.h"

/* A program that lives this long has not crashed in a loop. */
#define STEADY_NS       (60 * TN_S)
#define FORGET_NS       (600 * TN_S)
#define PAUSE_MAX_NS    (30 * TN_S)
/* Before a warm program is started again: the grant must be over everywhere. */
#define WARM_NS         (50 * TN_MS)
/* The guard has so long to answer the request to start the program. */
#define ANSWER_NS       (10 * TN_S)
/* How long what was killed may take to die before somebody should know. */
#define STUCK_NS        (2 * TN_S)
/* An elector that waits for what nobody needs has so long to notice that. */
#define NEEDLESS_NS     (200 * TN_MS)
/* Asked again: so long for what comes to an end by itself; the rest is left to the guard. */
#define HURRY_NS        (300 * TN_MS)
/* A store that is slow is not waited for. */
#define WITHDRAW_NS     TN_S
/* timeout(1) signals a process and then its group, a script's trap sends TERM after the terminal's
 * INT: signals within this time are one request. */
#define SAME_REQUEST_NS TN_S

static int64_t min64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static struct tn_machine_action *act(struct tn_machine *m, enum tn_machine_action_kind kind)
{
    assert(m->out->n < TN_MACHINE_ACTIONS_MAX);
    struct tn_machine_action *a = &m->out->list[m->out->n++];

    *a = (struct tn_machine_action){.kind = kind, .epoch = m->epoch};
    return a;
}

static void act_at(struct tn_machine *m, enum tn_machine_action_kind kind, int64_t at_ns)
{
    act(m, kind)->at_ns = at_ns;
}

static void act_stop(struct tn_machine *m, int signal, int64_t by_ns)
{
    struct tn_machine_action *a = act(m, TN_DO_STOP);

    a->signal = signal;
    a->at_ns = by_ns;
}

bool tn_machine_alive(const struct tn_machine *m)
{
    return m->state != TN_PROGRAM_NONE && m->state != TN_PROGRAM_SERVING;
}

bool tn_machine_term_runs(const struct tn_machine *m)
{
    return m->epoch != 0 && (m->state == TN_PROGRAM_RUNNING || m->state == TN_PROGRAM_SERVING) &&
           !m->stopping && m->life == TN_LIFE_ACTIVE;
}

static void leave(struct tn_machine *m)
{
    if (m->life != TN_LIFE_ACTIVE)
        return;
    m->life = TN_LIFE_LEAVING;
    m->restart_ns = TN_NEVER;
    act(m, TN_DO_LEAVE);
}

/* The exit code is ours, whatever the program does. */
static void fail(struct tn_machine *m, int code)
{
    m->exit_code = code;
    m->failed = true;
    leave(m);
}

/* ---- Start --------------------------------------------------------------- */

static void spawn(struct tn_machine *m)
{
    assert(!m->cfg.once || !m->ran);
    m->state = TN_PROGRAM_REQUESTED;
    m->ran = true;
    m->started_ns = m->ev->now_ns;
    act(m, TN_DO_SPAWN);
}

static void start_program(struct tn_machine *m)
{
    if (m->state != TN_PROGRAM_NONE || m->life != TN_LIFE_ACTIVE || (m->epoch == 0 && !m->cfg.warm))
        return;
    m->restart_ns = m->orphaned ? m->ev->now_ns + WARM_NS : TN_NEVER;
    if (m->orphaned)
        return; /* there is no guard yet */
    if (m->fired && m->fired_epoch == m->epoch && m->epoch != 0)
        return; /* that grant is over; STOP is on its way */
    m->exec_error = 0;
    m->has_status = m->fired = m->restart_wanted = m->unhealthy = false;
    if (m->epoch != 0)
        act(m, TN_DO_TICKET); /* spawned when it is left */
    else
        spawn(m);
}

static void run_due_hooks(struct tn_machine *m);

static void begin_work(struct tn_machine *m, int64_t at_ns)
{
    act_at(m, TN_DO_BEGAN, at_ns);
    m->hook.due |= 1u << TN_HOOK_STARTED;
    run_due_hooks(m);
}

/* It reads the role file after it has prepared for the signal, so it cannot miss both. */
static void promote(struct tn_machine *m, int64_t at_ns)
{
    if (m->cfg.warm && m->cfg.warm_signal)
        act(m, TN_DO_SIGNAL_WARM)->signal = m->cfg.warm_signal;
    begin_work(m, at_ns);
}

static void lead_from_none(struct tn_machine *m)
{
    m->epoch = m->ev->epoch;
    if (m->cfg.has_program) {
        start_program(m);
        return;
    }
    m->fired = false;
    m->state = TN_PROGRAM_SERVING;
    act(m, TN_DO_TICKET);
}

/* Release, and go: that is what was wanted. */
static void lead_idle(struct tn_machine *m)
{
    m->epoch = m->ev->epoch;
    if (m->life != TN_LIFE_ACTIVE)
        return; /* STOP is on its way */
    m->exit_code = 0;
    leave(m);
    act(m, TN_DO_RELEASE);
    m->epoch = 0;
}

/* Warm: it runs already, or will soon. */
static void lead_running(struct tn_machine *m)
{
    m->epoch = m->ev->epoch;
    if (m->cfg.warm)
        act(m, TN_DO_TICKET);
}

/* Warm: what runs is ended, and started again in this term. */
static void lead_ending(struct tn_machine *m)
{
    m->epoch = m->ev->epoch;
}

static void take_accepted(struct tn_machine *m)
{
    m->state = TN_PROGRAM_STARTING;
}

static void take_spawned(struct tn_machine *m)
{
    m->state = TN_PROGRAM_RUNNING;
    act(m, TN_DO_RUNS);
    if (m->epoch != 0)
        promote(m, m->ev->at_ns);
}

static void take_failed(struct tn_machine *m)
{
    m->exec_error = m->ev->error;
    m->passing = m->ev->passing;
}

/* Without one that term is over already; a leader without a program helps nobody. */
static void ticket_for_spawn(struct tn_machine *m)
{
    if (m->ev->ok)
        spawn(m);
    else
        act(m, TN_DO_RELEASE);
}

static void ticket_for_clients(struct tn_machine *m)
{
    if (m->ev->ok) {
        begin_work(m, m->ev->now_ns);
        return;
    }
    m->state = TN_PROGRAM_NONE;
    act(m, TN_DO_RELEASE);
}

/* It leads when it is itself. */
static void ticket_while_starting(struct tn_machine *m)
{
    if (m->ev->ok)
        act(m, TN_DO_ROLE);
}

static void ticket_while_running(struct tn_machine *m)
{
    if (!m->ev->ok)
        return;
    act(m, TN_DO_ROLE);
    promote(m, m->ev->now_ns);
}

static void spawn_invalid(struct tn_machine *m)
{
    m->state = TN_PROGRAM_NONE;
    m->ran = false;
    fail(m, m->cfg.code_usage);
    act(m, TN_DO_RELEASE);
}

static void spawn_failed(struct tn_machine *m)
{
    m->state = TN_PROGRAM_NONE;
    m->ran = false;
    act(m, TN_DO_KILL_GUARD); /* its death ends this term, and a new one is started */
}

/* ---- Stop ---------------------------------------------------------------- */

static void answer_stop(struct tn_machine *m)
{
    if (!m->stopping)
        return; /* it has not come yet; then it is answered at once */
    if (m->epoch != 0)
        act(m, TN_DO_END_TERM)->end = TN_TERM_STOPPED;
    m->stopping = false;
    m->epoch = 0;
    act(m, TN_DO_ANSWER_STOP);
}

/*
 * Nobody can kill a client, so its time is bounded by what it is told: an answer "leading" holds
 * for answer_ns at most, and the client stops when that has passed.  From the moment leadership is
 * dropped in memory (I7) nobody is told so any more; answer_ns later, or at D, whichever comes
 * first, the last answer has run out and the lease may be released (I8).  Meanwhile the drain goes
 * on renewing.  After a crash of ours the guard waits as long before its releaser does the same.
 */
static void stop_serving(struct tn_machine *m)
{
    m->state = TN_PROGRAM_STOPPED; /* nothing runs, and the release waits */
    m->quiet_ns = m->ev->now_ns + m->cfg.answer_ns;
    if (m->ev->deadline_ns > 0)
        m->quiet_ns = min64(m->quiet_ns, m->ev->deadline_ns);
    act_at(m, TN_DO_HOLD, m->quiet_ns);
}

static void finish_death(struct tn_machine *m);

static void note_stop(struct tn_machine *m)
{
    /* What runs once cannot go on in another term, and what has not begun can. */
    bool exits = m->cfg.once ? m->ran : m->cfg.on_loss == TN_LOSS_EXIT;
    bool over = m->ev->lost || (m->cfg.once && m->ran && m->life == TN_LIFE_ACTIVE);

    m->stopping = true;
    m->restart_ns = TN_NEVER;
    if (!over)
        return;
    act(m, TN_DO_TELL_LOST)->ok = exits || m->life != TN_LIFE_ACTIVE;
    if (exits && m->life == TN_LIFE_ACTIVE)
        fail(m, m->cfg.code_lost);
}

static void stop_none(struct tn_machine *m)
{
    note_stop(m);
    if (m->cfg.has_program)
        finish_death(m);
    else
        stop_serving(m);
}

static void stop_clients(struct tn_machine *m)
{
    note_stop(m);
    stop_serving(m);
}

static void stop_running(struct tn_machine *m)
{
    note_stop(m);
    act_stop(m, m->stop_signal, TN_NEVER); /* the published deadline bounds it */
}

static void restart_program(struct tn_machine *m)
{
    if (m->state != TN_PROGRAM_RUNNING || m->life != TN_LIFE_ACTIVE || m->restart_wanted)
        return;
    act(m, TN_DO_TELL_RESTART);
    m->restart_wanted = true;
    act_stop(m, m->cfg.stop_signal, m->ev->now_ns + m->cfg.grace_ns);
}

/* Another candidate's turn, if there is one. */
static void take_unhealthy(struct tn_machine *m)
{
    if (m->unhealthy || m->restart_wanted || m->life != TN_LIFE_ACTIVE)
        return;
    m->unhealthy = true;
    act(m, TN_DO_TELL_UNHEALTHY);
    if (m->epoch != 0 && m->ev->ok)
        act(m, TN_DO_STEP_DOWN);
    else
        restart_program(m);
}

static void step_down_done(struct tn_machine *m)
{
    if (!m->unhealthy)
        return;
    if (m->ev->ok)
        act(m, TN_DO_TELL_HANDOVER);
    else
        restart_program(m);
}

/* ---- Hooks --------------------------------------------------------------- */

/* What --on-stopped was to undo is not undone: nobody else leads before our time is over, not even
 * if we crash meanwhile. */
static void keep_lease(struct tn_machine *m)
{
    m->hook.kept_ns = m->ev->deadline_ns;
    act_at(m, TN_DO_KEEP_LEASE, m->ev->deadline_ns);
}

static void run_hook(struct tn_machine *m, enum tn_hook_kind kind, int64_t by_ns)
{
    struct tn_machine_action *a = act(m, TN_DO_HOOK);

    a->hook = kind;
    a->at_ns = by_ns;
    m->hook.runs = true;
    m->hook.kind = kind;
    m->hook.killed = false;
}

static void run_due_hooks(struct tn_machine *m)
{
    static const enum tn_hook_kind kinds[] = {TN_HOOK_STARTED, TN_HOOK_NEW_LEADER};
    for (size_t i = 0; i < 2 && !m->hook.runs && tn_machine_term_runs(m); i++) {
        unsigned bit = 1u << kinds[i];

        if (m->hook.due & m->cfg.hooks & bit)
            run_hook(m, kinds[i], m->ev->now_ns + m->cfg.hook_timeout_ns);
        m->hook.due &= ~bit;
    }
}

/* It has no more time than the grace and the term. */
static void run_stopped_hook(struct tn_machine *m)
{
    int64_t by = min64(m->ev->now_ns + m->cfg.hook_timeout_ns,
                       min64(m->ev->deadline_ns - m->cfg.margin_ns, m->drain_by_ns));

    if (m->quiet_ns != TN_NEVER)
        return; /* a hook has ended, and clients still act: timer() comes back to it (I8) */
    if (m->epoch == 0 || m->exec_error || !(m->cfg.hooks & (1u << TN_HOOK_STOPPED)))
        finish_death(m);
    else if (by > m->ev->now_ns)
        run_hook(m, TN_HOOK_STOPPED, by);
    else
        keep_lease(m); /* it would be killed before it could do anything */
}

/* Nothing else is left: end the hook that runs, then --on-stopped, then the term. */
static void end_hooks(struct tn_machine *m)
{
    m->hook.due = 0;
    if (m->hook.runs)
        act(m, TN_DO_KILL); /* its end is reported */
    else
        run_stopped_hook(m);
}

static void hook_ended(struct tn_machine *m)
{
    if (!m->hook.runs)
        return;
    m->hook.runs = false;
    if (m->state != TN_PROGRAM_STOPPED)
        run_due_hooks(m);
    else if (m->hook.kind != TN_HOOK_STOPPED)
        run_stopped_hook(m);
    else if (m->ev->could_run)
        finish_death(m);
    else
        keep_lease(m);
}

static void hook_failed(struct tn_machine *m)
{
    m->hook.runs = false;
    if (m->hook.kind == TN_HOOK_STOPPED) {
        keep_lease(m);
        return;
    }
    act(m, TN_DO_NO_HOOK)->hook = m->hook.kind;
    run_due_hooks(m);
}

static void take_leader(struct tn_machine *m)
{
    m->hook.due &= ~(1u << TN_HOOK_NEW_LEADER);
    if (!m->ev->ours)
        return;
    m->hook.due |= 1u << TN_HOOK_NEW_LEADER;
    run_due_hooks(m);
}

/* ---- End ----------------------------------------------------------------- */

/* Pauses double: 100 ms, 200 ms, ... 30 s. */
static int64_t pause_after(unsigned crashes)
{
    int64_t pause = 100 * TN_MS;

    while (crashes-- > 1 && pause < PAUSE_MAX_NS)
        pause *= 2;
    return min64(pause, PAUSE_MAX_NS);
}

int tn_machine_program_code(const struct tn_machine *m)
{
    if (m->exec_error)
        return m->exec_error == ENOENT ? m->cfg.code_not_found : m->cfg.code_cannot_run;
    if (!m->has_status)
        return 128 + SIGKILL; /* with everything around it */
    return WIFEXITED(m->status) ? WEXITSTATUS(m->status) : 128 + WTERMSIG(m->status);
}

static void end_term(struct tn_machine *m, enum tn_term_end end)
{
    if (m->epoch != 0)
        act(m, TN_DO_END_TERM)->end = end;
}

/* It ended by itself, while it was to run.  To leave or to yield comes before the release: a lease
 * that is released first is claimed again at once. */
static void ended_by_itself(struct tn_machine *m)
{
    enum tn_on_exit then = m->cfg.on_exit;
    /* Who wants it started again wants that too if it is missing: it may be back soon. */
    bool hopeless = m->exec_error && !m->passing && then == TN_EXIT_EXIT;
    bool soon = m->ev->now_ns - m->started_ns < STEADY_NS;

    m->crashes = soon ? m->crashes + 1 : 1;
    m->looping = soon ? m->looping + 1 : 1;
    act(m, TN_DO_EXITED)->count = m->looping;
    if (m->restart_wanted || (m->epoch == 0 && then != TN_EXIT_EXIT && !hopeless)) {
        m->restart_ns = m->ev->now_ns + pause_after(m->crashes);
    } else if (then == TN_EXIT_EXIT || hopeless) {
        m->exit_code = tn_machine_program_code(m);
        leave(m);
        if (m->epoch != 0)
            act(m, TN_DO_RELEASE);
        end_term(m, TN_TERM_PROGRAM);
        m->epoch = 0;
    } else if (then == TN_EXIT_RESTART && m->crashes < m->cfg.crash_limit) {
        m->restart_ns = m->ev->now_ns + pause_after(m->crashes);
    } else {
        struct tn_machine_action *a = act(m, TN_DO_YIELD);

        a->at_ns = pause_after(m->crashes);
        a->count = m->crashes;
        act(m, TN_DO_RELEASE);
        end_term(m, TN_TERM_CRASHES);
        m->epoch = 0;
        if (then == TN_EXIT_RESTART)
            m->crashes = 0;
    }
}

/* Nothing of the program is left, and nothing else has to be done first. */
static void finish_death(struct tn_machine *m)
{
    m->state = TN_PROGRAM_NONE;
    if (m->stopping) {
        answer_stop(m);
    } else if (m->life != TN_LIFE_ACTIVE) {
        end_term(m, TN_TERM_SHUTDOWN);
        act(m, TN_DO_RELEASE);
    } else if (!m->fired) { /* else STOP is on its way */
        ended_by_itself(m);
    }
    if (m->cfg.warm && m->life == TN_LIFE_ACTIVE && m->epoch == 0 && m->restart_ns == TN_NEVER)
        m->restart_ns = m->ev->now_ns + WARM_NS;
    act(m, TN_DO_SYNC);
}

static void tree_dead(struct tn_machine *m, int64_t at_ns)
{
    if (!tn_machine_alive(m) || m->state == TN_PROGRAM_STOPPED)
        return;
    struct tn_machine_action *ended = act(m, TN_DO_ENDED);
    ended->at_ns = at_ns;
    ended->ok = m->life == TN_LIFE_ACTIVE && !m->stopping && !m->fired;
    if (m->life != TN_LIFE_ACTIVE && !m->failed)
        m->exit_code = tn_machine_program_code(m);
    /* The release waits for --on-stopped, which has no more time than the lease. */
    m->state = TN_PROGRAM_STOPPED;
    end_hooks(m);
}

static void take_dead(struct tn_machine *m)
{
    tree_dead(m, m->ev->at_ns);
}

static void take_refused(struct tn_machine *m)
{
    m->state = TN_PROGRAM_NONE;
    m->ran = false;
    if (m->cfg.once && m->asked > 0 && !m->failed)
        fail(m, 128 + m->asked_by); /* nobody may take it for done */
    if (m->epoch != 0)
        act(m, TN_DO_RELEASE);
    else
        m->restart_ns = m->ev->now_ns + WARM_NS;
    answer_stop(m);
}

static void take_exited(struct tn_machine *m)
{
    m->status = m->ev->status;
    m->has_status = true;
}

static void program_killed(struct tn_machine *m)
{
    m->state = TN_PROGRAM_ENDING;
}

static void hook_killed(struct tn_machine *m)
{
    m->hook.killed = true;
}

static void note_fired(struct tn_machine *m)
{
    m->fired = true;
    m->fired_epoch = m->epoch;
}

/* --on-stopped may use up what is left; there is nothing that the guard could end then. */
static void fired_idle(struct tn_machine *m)
{
    note_fired(m);
    act(m, TN_DO_FIRED);
}

static void fired_running(struct tn_machine *m)
{
    act(m, TN_DO_TELL_FIRED);
    fired_idle(m);
}

/* ---- Without a guard ----------------------------------------------------- */

static void guard_died(struct tn_machine *m)
{
    if (m->state == TN_PROGRAM_REQUESTED || m->state == TN_PROGRAM_STARTING ||
        m->state == TN_PROGRAM_RUNNING)
        m->state = TN_PROGRAM_ENDING;
    m->orphaned = true;
    m->orphaned_ns = m->ev->now_ns;
    act(m, TN_DO_FIRED);
    act(m, TN_DO_KILL_TREE);
}

/* Again soon at first, ten times a second in the end. */
static void tree_left(struct tn_machine *m)
{
    int64_t since = m->ev->now_ns - m->orphaned_ns;
    int64_t pause = since / 4 > TN_MS / 2 ? since / 4 : TN_MS / 2;

    if (since >= STUCK_NS && !m->stuck_told) {
        m->stuck_told = true;
        act(m, TN_DO_TELL_STUCK);
    }
    m->orphans_ns = m->ev->now_ns + min64(pause, 100 * TN_MS);
}

static void tree_gone(struct tn_machine *m)
{
    m->orphaned = m->stuck_told = false;
    act(m, TN_DO_START_GUARD);
}

/* The former one's hook died with it. */
static void guard_started(struct tn_machine *m)
{
    bool ran = m->hook.runs;

    if (!m->ev->ok)
        fail(m, m->cfg.code_broken);
    note_fired(m);
    m->hook.runs = false;
    if (m->state == TN_PROGRAM_STOPPED && ran) {
        if (m->hook.kind == TN_HOOK_STOPPED)
            keep_lease(m);
        else
            run_stopped_hook(m);
    }
    tree_dead(m, m->ev->now_ns);
}

bool tn_machine_guard_is_late(const struct tn_machine *m, int64_t late_ns, int64_t now_ns)
{
    if (m->orphaned || !tn_machine_alive(m) || m->state == TN_PROGRAM_ENDING ||
        (m->state == TN_PROGRAM_STOPPED && (!m->hook.runs || m->hook.killed)))
        return false;
    return (late_ns > 0 && now_ns >= late_ns) ||
           (m->state == TN_PROGRAM_REQUESTED && now_ns - m->started_ns >= ANSWER_NS);
}

/* ---- The way out --------------------------------------------------------- */

/* Nobody sends QUIT after another signal by accident. */
bool tn_machine_is_repeated(int first, int64_t first_ns, int signal, int64_t now_ns)
{
    return now_ns - first_ns < SAME_REQUEST_NS && (signal != SIGQUIT || first == SIGQUIT);
}

/* The first time: drain.  Clearly later, once more: at once. */
static void asked_to_go(struct tn_machine *m)
{
    if (m->asked > 0 &&
        tn_machine_is_repeated(m->asked_by, m->asked_ns, m->ev->signal, m->ev->now_ns)) {
        /* It may ignore the first one; a background job of a shell ignores INT. */
        if (m->ev->signal != m->asked_by && m->cfg.stop_signal == SIGTERM && tn_machine_alive(m))
            act_stop(m, m->ev->signal, m->drain_by_ns);
        return;
    }
    if (++m->asked > 1) {
        act(m, TN_DO_TELL_HURRY)->ok = tn_machine_alive(m);
        act(m, TN_DO_KILL);
        return;
    }
    act(m, TN_DO_TELL_LEAVING)->signal = m->ev->signal;
    m->asked_ns = m->ev->now_ns;
    m->asked_by = m->ev->signal;
    m->drain_by_ns = m->ev->now_ns + m->cfg.grace_ns;
    if (m->cfg.stop_signal == SIGTERM)
        m->stop_signal = m->ev->signal; /* as the terminal would have */
    /* Before the elector knows, which may be waiting for a slow store. */
    if (tn_machine_alive(m))
        act_stop(m, m->stop_signal, m->drain_by_ns);
    if (m->cfg.once && !m->ran)
        fail(m, 128 + m->ev->signal); /* nobody may take it for done */
    leave(m);
}

static void given_up(struct tn_machine *m)
{
    fail(m, m->ev->code);
    if (tn_machine_alive(m)) /* warm */
        act_stop(m, m->stop_signal, m->ev->now_ns + m->cfg.grace_ns);
}

/* The grace of a standby's program is not the elector's to wait for, which has nothing to drain.  A
 * guard that does not end it in time is not waited for. */
static void halted(struct tn_machine *m)
{
    if (m->life != TN_LIFE_HALTED)
        m->quit_ns = m->ev->now_ns + m->cfg.grace_ns + TN_S;
    m->life = TN_LIFE_HALTED;
}

static void reload(struct tn_machine *m)
{
    if (m->life == TN_LIFE_ACTIVE)
        act(m, TN_DO_RELOAD);
}

/* What is still to be done in the store, and for how long that is waited for. */
static void see_to_the_end(struct tn_machine *m)
{
    bool alive = tn_machine_alive(m);

    if (m->life == TN_LIFE_ACTIVE)
        return;
    if (m->asked > 1 && m->hurry_ns == TN_NEVER && (!alive || m->hook.kept_ns != TN_NEVER))
        m->hurry_ns = m->ev->now_ns + HURRY_NS;
    if (alive)
        return;
    if (m->give_up_ns == TN_NEVER && !m->ev->owes)
        m->give_up_ns = m->ev->now_ns + NEEDLESS_NS;
    if (m->withdraw_by_ns == TN_NEVER && (m->life == TN_LIFE_HALTED || m->give_up_ns != TN_NEVER)) {
        m->withdraw_by_ns = m->ev->now_ns + WITHDRAW_NS;
        act(m, TN_DO_WITHDRAW);
    }
}

/* When a program that crashed is steady; of a standby, when nobody remembers. */
static int64_t steady_at(const struct tn_machine *m)
{
    if (m->looping == 0 || m->life != TN_LIFE_ACTIVE)
        return TN_NEVER;
    if (m->state == TN_PROGRAM_RUNNING)
        return m->started_ns + STEADY_NS;
    return m->state == TN_PROGRAM_NONE && m->epoch == 0 ? m->started_ns + FORGET_NS : TN_NEVER;
}

/* At most one at a time: tn_machine_next() brings the next one at once. */
static void timer(struct tn_machine *m)
{
    if (m->ev->now_ns >= m->orphans_ns) {
        m->orphans_ns = TN_NEVER;
        act(m, TN_DO_KILL_TREE);
        return;
    }
    if (m->ev->now_ns >= m->quiet_ns) {
        m->quiet_ns = TN_NEVER;
        act_at(m, TN_DO_SERVED, m->ev->now_ns);
        end_hooks(m);
    } else if (m->ev->now_ns >= m->hook.kept_ns) {
        m->hook.kept_ns = TN_NEVER;
        finish_death(m);
    } else if (m->ev->now_ns >= m->restart_ns) {
        m->restart_ns = TN_NEVER;
        start_program(m);
        return; /* what it asked for is answered first */
    } else if (m->ev->now_ns >= steady_at(m)) {
        m->looping = m->crashes = 0;
        act(m, TN_DO_TELL_STEADY);
    }
    see_to_the_end(m);
}

int64_t tn_machine_next(const struct tn_machine *m, int64_t now_ns)
{
    const int64_t ends[] = {m->hurry_ns, m->quit_ns, m->give_up_ns, m->withdraw_by_ns,
                            m->state == TN_PROGRAM_REQUESTED ? m->started_ns + ANSWER_NS
                                                             : TN_NEVER};
    int64_t next = min64(min64(m->orphans_ns, m->quiet_ns), min64(m->hook.kept_ns, m->restart_ns));

    next = min64(next, steady_at(m));

    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++)
        next = ends[i] > now_ns ? min64(next, ends[i]) : next;
    return next;
}

bool tn_machine_is_over(const struct tn_machine *m, int64_t now_ns, bool synced)
{
    bool halt = m->life == TN_LIFE_HALTED;

    if (now_ns >= m->hurry_ns)
        return true;
    if (tn_machine_alive(m))
        return halt && now_ns >= m->quit_ns;
    if (!halt && now_ns < m->give_up_ns)
        return false;
    return now_ns >= m->withdraw_by_ns || (m->withdraw_by_ns != TN_NEVER && synced);
}

/* ---- The table ----------------------------------------------------------- */

typedef void (*handler)(struct tn_machine *m);

#define IN_ALL(h)                                                                                  \
    {                                                                                              \
        h, h, h, h, h, h, h                                                                        \
    }

/* clang-format off */
static const handler table[TN_MACHINE_EVENT_KINDS][TN_PROGRAM_STATES] = {
    /*                   NONE            SERVING       REQUESTED      STARTING       RUNNING        ENDING         STOPPED */
    [TN_ON_LEAD]     = { lead_from_none, lead_ending,  lead_running,  lead_running,  lead_running,  lead_ending,   lead_ending },
    [TN_ON_LEAD_IDLE] = { lead_idle,     NULL,         NULL,          NULL,          NULL,          NULL,          NULL },
    [TN_ON_STOP]     = { stop_none,      stop_clients, stop_running,  stop_running,  stop_running,  stop_running,  note_stop },
    [TN_ON_TICKET]   = { ticket_for_spawn, ticket_for_clients, ticket_while_starting, ticket_while_starting, ticket_while_running, NULL, NULL },
    [TN_ON_ACCEPTED] = { take_accepted,  NULL,         take_accepted, take_accepted, take_accepted, take_accepted, take_accepted },
    [TN_ON_SPAWNED]  = { take_spawned,   NULL,         take_spawned,  take_spawned,  take_spawned,  take_spawned,  take_spawned },
    [TN_ON_REFUSED]  = { take_refused,   NULL,         take_refused,  take_refused,  take_refused,  take_refused,  take_refused },
    [TN_ON_KILLS]    = { hook_killed,    hook_killed,  program_killed, program_killed, program_killed, program_killed, hook_killed },
    [TN_ON_FIRED]    = { fired_idle,     fired_idle,   fired_running, fired_running, fired_running, fired_running, fired_idle },
    /* In REQUESTED it answers an earlier stop.  Taken for this program's death, the lease would be free while it runs (I8). */
    [TN_ON_DEAD]     = { NULL,           NULL,         NULL,          take_dead,     take_dead,     take_dead,     NULL },
    [TN_ON_UNHEALTHY] = { NULL,          NULL,         NULL,          NULL,          take_unhealthy, NULL,         NULL },
    [TN_ON_SPAWN_INVALID] = { NULL,      NULL,         spawn_invalid, NULL,          NULL,          NULL,          NULL },
    [TN_ON_SPAWN_FAILED] = { NULL,       NULL,         spawn_failed,  NULL,          NULL,          NULL,          NULL },

    [TN_ON_TIMER]          = IN_ALL(timer),
    [TN_ON_LEADER]         = IN_ALL(take_leader),
    [TN_ON_FAILED]         = IN_ALL(take_failed),
    [TN_ON_EXITED]         = IN_ALL(take_exited),
    [TN_ON_HOOK_ENDED]     = IN_ALL(hook_ended),
    [TN_ON_HOOK_FAILED]    = IN_ALL(hook_failed),
    [TN_ON_GUARD_DIED]     = IN_ALL(guard_died),
    [TN_ON_TREE_LEFT]      = IN_ALL(tree_left),
    [TN_ON_TREE_GONE]      = IN_ALL(tree_gone),
    [TN_ON_GUARD_STARTED]  = IN_ALL(guard_started),
    [TN_ON_STEP_DOWN_DONE] = IN_ALL(step_down_done),
    [TN_ON_ASKED_TO_GO]    = IN_ALL(asked_to_go),
    [TN_ON_GIVEN_UP]       = IN_ALL(given_up),
    [TN_ON_RELOAD]         = IN_ALL(reload),
    [TN_ON_HALTED]         = IN_ALL(halted),
};
/* clang-format on */

void tn_machine_init(struct tn_machine *m, const struct tn_machine_config *cfg)
{
    *m = (struct tn_machine){.cfg = *cfg,
                             .stop_signal = cfg->stop_signal,
                             .restart_ns = cfg->warm ? 0 : TN_NEVER,
                             .quiet_ns = TN_NEVER,
                             .drain_by_ns = TN_NEVER,
                             .hook.kept_ns = TN_NEVER,
                             .orphans_ns = TN_NEVER,
                             .quit_ns = TN_NEVER,
                             .give_up_ns = TN_NEVER,
                             .withdraw_by_ns = TN_NEVER,
                             .hurry_ns = TN_NEVER};
}

void tn_machine_step(struct tn_machine *m, const struct tn_machine_event *ev,
                     struct tn_machine_actions *out)
{
    assert(ev->kind < TN_MACHINE_EVENT_KINDS && m->state < TN_PROGRAM_STATES);
    handler h = table[ev->kind][m->state];

    m->ev = ev;
    m->out = out;
    out->n = 0;
    if (h)
        h(m);
    /* What has a program does not serve; a stop is answered when nothing of the program is left
     * (I8). */
    assert(m->state != TN_PROGRAM_SERVING || !m->cfg.has_program);
    assert(!m->stopping || m->state != TN_PROGRAM_NONE);
}
