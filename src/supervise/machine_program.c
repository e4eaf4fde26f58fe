/* The machine's program: started, stopped, dead, and what follows from that. */
#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <sys/wait.h>

#include "supervise/machine_inner.h"

/* The longest pause before a program that crashed is started again. */
#define PAUSE_MAX_NS (30 * TN_S)
/* Before a warm program is started again: the grant must be over everywhere. */
#define WARM_NS      (50 * TN_MS)

/* ---- Start --------------------------------------------------------------- */

static void spawn(struct tn_machine *m)
{
    assert(!m->cfg.once || !m->ran);
    m->state = TN_PROGRAM_REQUESTED;
    m->ran = true;
    m->started_ns = m->ev->now_ns;
    tn_machine_act(m, TN_DO_SPAWN);
}

void tn_machine_start_program(struct tn_machine *m)
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
        tn_machine_act(m, TN_DO_TICKET); /* spawned when it is left */
    else
        spawn(m);
}

static void begin_work(struct tn_machine *m, int64_t at_ns)
{
    tn_machine_act_at(m, TN_DO_BEGAN, at_ns);
    m->hook.due |= 1u << TN_HOOK_STARTED;
    tn_machine_run_due_hooks(m);
}

/* It reads the role file after it has prepared for the signal, so it cannot miss both. */
static void promote(struct tn_machine *m, int64_t at_ns)
{
    if (m->cfg.warm && m->cfg.warm_signal)
        tn_machine_act(m, TN_DO_SIGNAL_WARM)->signal = m->cfg.warm_signal;
    begin_work(m, at_ns);
}

void tn_lead_from_none(struct tn_machine *m)
{
    m->epoch = m->ev->epoch;
    if (m->cfg.has_program) {
        tn_machine_start_program(m);
        return;
    }
    m->fired = false;
    m->state = TN_PROGRAM_SERVING;
    tn_machine_act(m, TN_DO_TICKET);
}

/* Release, and go: that is what was wanted. */
void tn_lead_idle(struct tn_machine *m)
{
    m->epoch = m->ev->epoch;
    if (m->life != TN_LIFE_ACTIVE)
        return; /* STOP is on its way */
    m->exit_code = 0;
    tn_machine_leave(m);
    tn_machine_act(m, TN_DO_RELEASE);
    m->epoch = 0;
}

/* Warm: it runs already, or will soon. */
void tn_lead_running(struct tn_machine *m)
{
    m->epoch = m->ev->epoch;
    if (m->cfg.warm)
        tn_machine_act(m, TN_DO_TICKET);
}

/* Warm: what runs is ended, and started again in this term. */
void tn_lead_ending(struct tn_machine *m)
{
    m->epoch = m->ev->epoch;
}

void tn_take_accepted(struct tn_machine *m)
{
    m->state = TN_PROGRAM_STARTING;
}

void tn_take_spawned(struct tn_machine *m)
{
    m->state = TN_PROGRAM_RUNNING;
    tn_machine_act(m, TN_DO_RUNS);
    if (m->epoch != 0)
        promote(m, m->ev->at_ns);
}

void tn_take_failed(struct tn_machine *m)
{
    m->exec_error = m->ev->error;
    m->passing = m->ev->passing;
}

/* Without one that term is over already; a leader without a program helps nobody. */
void tn_ticket_for_spawn(struct tn_machine *m)
{
    if (m->ev->ok)
        spawn(m);
    else
        tn_machine_act(m, TN_DO_RELEASE);
}

void tn_ticket_for_clients(struct tn_machine *m)
{
    if (m->ev->ok) {
        begin_work(m, m->ev->now_ns);
        return;
    }
    m->state = TN_PROGRAM_NONE;
    tn_machine_act(m, TN_DO_RELEASE);
}

/* It leads when it is itself. */
void tn_ticket_while_starting(struct tn_machine *m)
{
    if (m->ev->ok)
        tn_machine_act(m, TN_DO_ROLE);
}

void tn_ticket_while_running(struct tn_machine *m)
{
    if (!m->ev->ok)
        return;
    tn_machine_act(m, TN_DO_ROLE);
    promote(m, m->ev->now_ns);
}

void tn_spawn_invalid(struct tn_machine *m)
{
    m->state = TN_PROGRAM_NONE;
    m->ran = false;
    tn_machine_fail(m, m->cfg.code_usage);
    tn_machine_act(m, TN_DO_RELEASE);
}

void tn_spawn_failed(struct tn_machine *m)
{
    m->state = TN_PROGRAM_NONE;
    m->ran = false;
    tn_machine_act(m, TN_DO_KILL_GUARD); /* its death ends this term, and a new one is started */
}

/* ---- Stop ---------------------------------------------------------------- */

static void answer_stop(struct tn_machine *m)
{
    if (!m->stopping)
        return; /* it has not come yet; then it is answered at once */
    if (m->epoch != 0)
        tn_machine_act(m, TN_DO_END_TERM)->end = TN_TERM_STOPPED;
    m->stopping = false;
    m->epoch = 0;
    tn_machine_act(m, TN_DO_ANSWER_STOP);
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
        m->quiet_ns = tn_min_ns(m->quiet_ns, m->ev->deadline_ns);
    tn_machine_act_at(m, TN_DO_HOLD, m->quiet_ns);
}

void tn_note_stop(struct tn_machine *m)
{
    /* What runs once cannot go on in another term, and what has not begun can. */
    bool exits = m->cfg.once ? m->ran : m->cfg.on_loss == TN_LOSS_EXIT;
    bool over = m->ev->lost || (m->cfg.once && m->ran && m->life == TN_LIFE_ACTIVE);

    m->stopping = true;
    m->restart_ns = TN_NEVER;
    if (!over)
        return;
    tn_machine_act(m, TN_DO_TELL_LOST)->ok = exits || m->life != TN_LIFE_ACTIVE;
    if (exits && m->life == TN_LIFE_ACTIVE)
        tn_machine_fail(m, m->cfg.code_lost);
}

void tn_stop_none(struct tn_machine *m)
{
    tn_note_stop(m);
    if (m->cfg.has_program)
        tn_machine_finish_death(m);
    else
        stop_serving(m);
}

void tn_stop_clients(struct tn_machine *m)
{
    tn_note_stop(m);
    stop_serving(m);
}

void tn_stop_running(struct tn_machine *m)
{
    tn_note_stop(m);
    tn_machine_act_stop(m, m->stop_signal, TN_NEVER); /* the published deadline bounds it */
}

static void restart_program(struct tn_machine *m)
{
    if (m->state != TN_PROGRAM_RUNNING || m->life != TN_LIFE_ACTIVE || m->restart_wanted)
        return;
    tn_machine_act(m, TN_DO_TELL_RESTART);
    m->restart_wanted = true;
    tn_machine_act_stop(m, m->cfg.stop_signal, m->ev->now_ns + m->cfg.grace_ns);
}

/* Another candidate's turn, if there is one. */
void tn_take_unhealthy(struct tn_machine *m)
{
    if (m->unhealthy || m->restart_wanted || m->life != TN_LIFE_ACTIVE)
        return;
    m->unhealthy = true;
    tn_machine_act(m, TN_DO_TELL_UNHEALTHY);
    if (m->epoch != 0 && m->ev->ok)
        tn_machine_act(m, TN_DO_STEP_DOWN);
    else
        restart_program(m);
}

void tn_step_down_done(struct tn_machine *m)
{
    if (!m->unhealthy)
        return;
    if (m->ev->ok)
        tn_machine_act(m, TN_DO_TELL_HANDOVER);
    else
        restart_program(m);
}

/* ---- End ----------------------------------------------------------------- */

/* Pauses double: 100 ms, 200 ms, ... 30 s. */
static int64_t pause_after(unsigned crashes)
{
    int64_t pause = 100 * TN_MS;

    while (crashes-- > 1 && pause < PAUSE_MAX_NS)
        pause *= 2;
    return tn_min_ns(pause, PAUSE_MAX_NS);
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
        tn_machine_act(m, TN_DO_END_TERM)->end = end;
}

/* It ended by itself, while it was to run.  To leave or to yield comes before the release: a lease
 * that is released first is claimed again at once. */
static void ended_by_itself(struct tn_machine *m)
{
    enum tn_on_exit then = m->cfg.on_exit;
    /* Who wants it started again wants that too if it is missing: it may be back soon. */
    bool hopeless = m->exec_error && !m->passing && then == TN_EXIT_EXIT;
    bool soon = m->ev->now_ns - m->started_ns < TN_MACHINE_STEADY_NS;

    m->crashes = soon ? m->crashes + 1 : 1;
    m->looping = soon ? m->looping + 1 : 1;
    tn_machine_act(m, TN_DO_EXITED)->count = m->looping;
    if (m->restart_wanted || (m->epoch == 0 && then != TN_EXIT_EXIT && !hopeless)) {
        m->restart_ns = m->ev->now_ns + pause_after(m->crashes);
    } else if (then == TN_EXIT_EXIT || hopeless) {
        m->exit_code = tn_machine_program_code(m);
        tn_machine_leave(m);
        if (m->epoch != 0)
            tn_machine_act(m, TN_DO_RELEASE);
        end_term(m, TN_TERM_PROGRAM);
        m->epoch = 0;
    } else if (then == TN_EXIT_RESTART && m->crashes < m->cfg.crash_limit) {
        m->restart_ns = m->ev->now_ns + pause_after(m->crashes);
    } else {
        struct tn_machine_action *a = tn_machine_act(m, TN_DO_YIELD);

        a->at_ns = pause_after(m->crashes);
        a->count = m->crashes;
        tn_machine_act(m, TN_DO_RELEASE);
        end_term(m, TN_TERM_CRASHES);
        m->epoch = 0;
        if (then == TN_EXIT_RESTART)
            m->crashes = 0;
    }
}

/* Nothing of the program is left, and nothing else has to be done first. */
void tn_machine_finish_death(struct tn_machine *m)
{
    m->state = TN_PROGRAM_NONE;
    if (m->stopping) {
        answer_stop(m);
    } else if (m->life != TN_LIFE_ACTIVE) {
        end_term(m, TN_TERM_SHUTDOWN);
        tn_machine_act(m, TN_DO_RELEASE);
    } else if (!m->fired) { /* else STOP is on its way */
        ended_by_itself(m);
    }
    if (m->cfg.warm && m->life == TN_LIFE_ACTIVE && m->epoch == 0 && m->restart_ns == TN_NEVER)
        m->restart_ns = m->ev->now_ns + WARM_NS;
    tn_machine_act(m, TN_DO_SYNC);
}

void tn_machine_tree_dead(struct tn_machine *m, int64_t at_ns)
{
    if (!tn_machine_alive(m) || m->state == TN_PROGRAM_STOPPED)
        return;
    struct tn_machine_action *ended = tn_machine_act(m, TN_DO_ENDED);
    ended->at_ns = at_ns;
    ended->ok = m->life == TN_LIFE_ACTIVE && !m->stopping && !m->fired;
    if (m->life != TN_LIFE_ACTIVE && !m->failed)
        m->exit_code = tn_machine_program_code(m);
    /* The release waits for --on-stopped, which has no more time than the lease. */
    m->state = TN_PROGRAM_STOPPED;
    tn_machine_end_hooks(m);
}

void tn_take_dead(struct tn_machine *m)
{
    tn_machine_tree_dead(m, m->ev->at_ns);
}

void tn_take_refused(struct tn_machine *m)
{
    m->state = TN_PROGRAM_NONE;
    m->ran = false;
    if (m->cfg.once && m->asked > 0 && !m->failed)
        tn_machine_fail(m, 128 + m->asked_by); /* nobody may take it for done */
    if (m->epoch != 0)
        tn_machine_act(m, TN_DO_RELEASE);
    else
        m->restart_ns = m->ev->now_ns + WARM_NS;
    answer_stop(m);
}

void tn_take_exited(struct tn_machine *m)
{
    m->status = m->ev->status;
    m->has_status = true;
}

void tn_program_killed(struct tn_machine *m)
{
    m->state = TN_PROGRAM_ENDING;
}

void tn_machine_note_fired(struct tn_machine *m)
{
    m->fired = true;
    m->fired_epoch = m->epoch;
}

/* --on-stopped may use up what is left; there is nothing that the guard could end then. */
void tn_fired_idle(struct tn_machine *m)
{
    tn_machine_note_fired(m);
    tn_machine_act(m, TN_DO_FIRED);
}

void tn_fired_running(struct tn_machine *m)
{
    tn_machine_act(m, TN_DO_TELL_FIRED);
    tn_fired_idle(m);
}
