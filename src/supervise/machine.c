#include "supervise/machine_inner.h"

#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <sys/wait.h>

/* After so long nobody remembers that a standby's program crashed. */
#define FORGET_NS       (600 * TN_S)
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

struct tn_machine_action *tn_machine_act(struct tn_machine *m, enum tn_machine_action_kind kind)
{
    assert(m->out->n < TN_MACHINE_ACTIONS_MAX);
    struct tn_machine_action *a = &m->out->list[m->out->n++];

    *a = (struct tn_machine_action){.kind = kind, .epoch = m->epoch};
    return a;
}

void tn_machine_act_at(struct tn_machine *m, enum tn_machine_action_kind kind, int64_t at_ns)
{
    tn_machine_act(m, kind)->at_ns = at_ns;
}

void tn_machine_act_stop(struct tn_machine *m, int signal, int64_t by_ns)
{
    struct tn_machine_action *a = tn_machine_act(m, TN_DO_STOP);

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

void tn_machine_leave(struct tn_machine *m)
{
    if (m->life != TN_LIFE_ACTIVE)
        return;
    m->life = TN_LIFE_LEAVING;
    m->restart_ns = TN_NEVER;
    tn_machine_act(m, TN_DO_LEAVE);
}

/* The exit code is ours, whatever the program does. */
void tn_machine_fail(struct tn_machine *m, int code)
{
    m->exit_code = code;
    m->failed = true;
    tn_machine_leave(m);
}

/* ---- Without a guard ----------------------------------------------------- */

static void guard_died(struct tn_machine *m)
{
    if (m->state == TN_PROGRAM_REQUESTED || m->state == TN_PROGRAM_STARTING ||
        m->state == TN_PROGRAM_RUNNING)
        m->state = TN_PROGRAM_ENDING;
    m->orphaned = true;
    m->orphaned_ns = m->ev->now_ns;
    tn_machine_act(m, TN_DO_FIRED);
    tn_machine_act(m, TN_DO_KILL_TREE);
}

/* Again soon at first, ten times a second in the end. */
static void tree_left(struct tn_machine *m)
{
    int64_t since = m->ev->now_ns - m->orphaned_ns;
    int64_t pause = since / 4 > TN_MS / 2 ? since / 4 : TN_MS / 2;

    if (since >= STUCK_NS && !m->stuck_told) {
        m->stuck_told = true;
        tn_machine_act(m, TN_DO_TELL_STUCK);
    }
    m->orphans_ns = m->ev->now_ns + tn_min_ns(pause, 100 * TN_MS);
}

static void tree_gone(struct tn_machine *m)
{
    m->orphaned = m->stuck_told = false;
    tn_machine_act(m, TN_DO_START_GUARD);
}

/* The former one's hook died with it. */
static void guard_started(struct tn_machine *m)
{
    bool ran = m->hook.runs;

    if (!m->ev->ok)
        tn_machine_fail(m, m->cfg.code_broken);
    tn_machine_note_fired(m);
    m->hook.runs = false;
    if (m->state == TN_PROGRAM_STOPPED && ran) {
        if (m->hook.kind == TN_HOOK_STOPPED)
            tn_machine_keep_lease(m);
        else
            tn_machine_run_stopped_hook(m);
    }
    tn_machine_tree_dead(m, m->ev->now_ns);
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
            tn_machine_act_stop(m, m->ev->signal, m->drain_by_ns);
        return;
    }
    if (++m->asked > 1) {
        tn_machine_act(m, TN_DO_TELL_HURRY)->ok = tn_machine_alive(m);
        tn_machine_act(m, TN_DO_KILL);
        return;
    }
    tn_machine_act(m, TN_DO_TELL_LEAVING)->signal = m->ev->signal;
    m->asked_ns = m->ev->now_ns;
    m->asked_by = m->ev->signal;
    m->drain_by_ns = m->ev->now_ns + m->cfg.grace_ns;
    if (m->cfg.stop_signal == SIGTERM)
        m->stop_signal = m->ev->signal; /* as the terminal would have */
    /* Before the elector knows, which may be waiting for a slow store. */
    if (tn_machine_alive(m))
        tn_machine_act_stop(m, m->stop_signal, m->drain_by_ns);
    if (m->cfg.once && !m->ran)
        tn_machine_fail(m, 128 + m->ev->signal); /* nobody may take it for done */
    tn_machine_leave(m);
}

static void given_up(struct tn_machine *m)
{
    tn_machine_fail(m, m->ev->code);
    if (tn_machine_alive(m)) /* warm */
        tn_machine_act_stop(m, m->stop_signal, m->ev->now_ns + m->cfg.grace_ns);
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
        tn_machine_act(m, TN_DO_RELOAD);
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
        tn_machine_act(m, TN_DO_WITHDRAW);
    }
}

/* When a program that crashed is steady; of a standby, when nobody remembers. */
static int64_t steady_at(const struct tn_machine *m)
{
    if (m->looping == 0 || m->life != TN_LIFE_ACTIVE)
        return TN_NEVER;
    if (m->state == TN_PROGRAM_RUNNING)
        return m->started_ns + TN_MACHINE_STEADY_NS;
    return m->state == TN_PROGRAM_NONE && m->epoch == 0 ? m->started_ns + FORGET_NS : TN_NEVER;
}

/* At most one at a time: tn_machine_next() brings the next one at once. */
static void timer(struct tn_machine *m)
{
    if (m->ev->now_ns >= m->orphans_ns) {
        m->orphans_ns = TN_NEVER;
        tn_machine_act(m, TN_DO_KILL_TREE);
        return;
    }
    if (m->ev->now_ns >= m->quiet_ns) {
        m->quiet_ns = TN_NEVER;
        tn_machine_act_at(m, TN_DO_SERVED, m->ev->now_ns);
        tn_machine_end_hooks(m);
    } else if (m->ev->now_ns >= m->hook.kept_ns) {
        m->hook.kept_ns = TN_NEVER;
        tn_machine_finish_death(m);
    } else if (m->ev->now_ns >= m->restart_ns) {
        m->restart_ns = TN_NEVER;
        tn_machine_start_program(m);
        return; /* what it asked for is answered first */
    } else if (m->ev->now_ns >= steady_at(m)) {
        m->looping = m->crashes = 0;
        tn_machine_act(m, TN_DO_TELL_STEADY);
    }
    see_to_the_end(m);
}

int64_t tn_machine_next(const struct tn_machine *m, int64_t now_ns)
{
    const int64_t ends[] = {m->hurry_ns, m->quit_ns, m->give_up_ns, m->withdraw_by_ns,
                            m->state == TN_PROGRAM_REQUESTED ? m->started_ns + ANSWER_NS
                                                             : TN_NEVER};
    int64_t next =
        tn_min_ns(tn_min_ns(m->orphans_ns, m->quiet_ns), tn_min_ns(m->hook.kept_ns, m->restart_ns));

    next = tn_min_ns(next, steady_at(m));

    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++)
        next = ends[i] > now_ns ? tn_min_ns(next, ends[i]) : next;
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
    [TN_ON_LEAD]     = { tn_lead_from_none, tn_lead_ending,  tn_lead_running,  tn_lead_running,  tn_lead_running,  tn_lead_ending,   tn_lead_ending },
    [TN_ON_LEAD_IDLE] = { tn_lead_idle,     NULL,         NULL,          NULL,          NULL,          NULL,          NULL },
    [TN_ON_STOP]     = { tn_stop_none,      tn_stop_clients, tn_stop_running,  tn_stop_running,  tn_stop_running,  tn_stop_running,  tn_note_stop },
    [TN_ON_TICKET]   = { tn_ticket_for_spawn, tn_ticket_for_clients, tn_ticket_while_starting, tn_ticket_while_starting, tn_ticket_while_running, NULL, NULL },
    [TN_ON_ACCEPTED] = { tn_take_accepted,  NULL,         tn_take_accepted, tn_take_accepted, tn_take_accepted, tn_take_accepted, tn_take_accepted },
    [TN_ON_SPAWNED]  = { tn_take_spawned,   NULL,         tn_take_spawned,  tn_take_spawned,  tn_take_spawned,  tn_take_spawned,  tn_take_spawned },
    [TN_ON_REFUSED]  = { tn_take_refused,   NULL,         tn_take_refused,  tn_take_refused,  tn_take_refused,  tn_take_refused,  tn_take_refused },
    [TN_ON_KILLS]    = { tn_hook_killed,    tn_hook_killed,  tn_program_killed, tn_program_killed, tn_program_killed, tn_program_killed, tn_hook_killed },
    [TN_ON_FIRED]    = { tn_fired_idle,     tn_fired_idle,   tn_fired_running, tn_fired_running, tn_fired_running, tn_fired_running, tn_fired_idle },
    /* In REQUESTED it answers an earlier stop.  Taken for this program's death, the lease would be free while it runs (I8). */
    [TN_ON_DEAD]     = { NULL,           NULL,         NULL,          tn_take_dead,     tn_take_dead,     tn_take_dead,     NULL },
    [TN_ON_UNHEALTHY] = { NULL,          NULL,         NULL,          NULL,          tn_take_unhealthy, NULL,         NULL },
    [TN_ON_SPAWN_INVALID] = { NULL,      NULL,         tn_spawn_invalid, NULL,          NULL,          NULL,          NULL },
    [TN_ON_SPAWN_FAILED] = { NULL,       NULL,         tn_spawn_failed,  NULL,          NULL,          NULL,          NULL },

    [TN_ON_TIMER]          = IN_ALL(timer),
    [TN_ON_LEADER]         = IN_ALL(tn_take_leader),
    [TN_ON_FAILED]         = IN_ALL(tn_take_failed),
    [TN_ON_EXITED]         = IN_ALL(tn_take_exited),
    [TN_ON_HOOK_ENDED]     = IN_ALL(tn_hook_ended),
    [TN_ON_HOOK_FAILED]    = IN_ALL(tn_hook_failed),
    [TN_ON_GUARD_DIED]     = IN_ALL(guard_died),
    [TN_ON_TREE_LEFT]      = IN_ALL(tree_left),
    [TN_ON_TREE_GONE]      = IN_ALL(tree_gone),
    [TN_ON_GUARD_STARTED]  = IN_ALL(guard_started),
    [TN_ON_STEP_DOWN_DONE] = IN_ALL(tn_step_down_done),
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
