/* The machine's hooks: one at a time, --on-stopped before the lease is released. */
#include <stddef.h>

#include "supervise/machine_inner.h"

/* What --on-stopped was to undo is not undone: nobody else leads before our time is over, not even
 * if we crash meanwhile. */
void tn_machine_keep_lease(struct tn_machine *m)
{
    m->hook.kept_ns = m->ev->deadline_ns;
    tn_machine_act_at(m, TN_DO_KEEP_LEASE, m->ev->deadline_ns);
}

static void run_hook(struct tn_machine *m, enum tn_hook_kind kind, int64_t by_ns)
{
    struct tn_machine_action *a = tn_machine_act(m, TN_DO_HOOK);

    a->hook = kind;
    a->at_ns = by_ns;
    m->hook.runs = true;
    m->hook.kind = kind;
    m->hook.killed = false;
}

void tn_machine_run_due_hooks(struct tn_machine *m)
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
void tn_machine_run_stopped_hook(struct tn_machine *m)
{
    int64_t by = tn_min_ns(m->ev->now_ns + m->cfg.hook_timeout_ns,
                           tn_min_ns(m->ev->deadline_ns - m->cfg.margin_ns, m->drain_by_ns));

    if (m->quiet_ns != TN_NEVER)
        return; /* a hook has ended, and clients still act: timer() comes back to it (I8) */
    if (m->epoch == 0 || m->exec_error || !(m->cfg.hooks & (1u << TN_HOOK_STOPPED)))
        tn_machine_finish_death(m);
    else if (by > m->ev->now_ns)
        run_hook(m, TN_HOOK_STOPPED, by);
    else
        tn_machine_keep_lease(m); /* it would be killed before it could do anything */
}

/* Nothing else is left: end the hook that runs, then --on-stopped, then the term. */
void tn_machine_end_hooks(struct tn_machine *m)
{
    m->hook.due = 0;
    if (m->hook.runs)
        tn_machine_act(m, TN_DO_KILL); /* its end is reported */
    else
        tn_machine_run_stopped_hook(m);
}

void tn_hook_ended(struct tn_machine *m)
{
    if (!m->hook.runs)
        return;
    m->hook.runs = false;
    if (m->state != TN_PROGRAM_STOPPED)
        tn_machine_run_due_hooks(m);
    else if (m->hook.kind != TN_HOOK_STOPPED)
        tn_machine_run_stopped_hook(m);
    else if (m->ev->could_run)
        tn_machine_finish_death(m);
    else
        tn_machine_keep_lease(m);
}

void tn_hook_killed(struct tn_machine *m)
{
    m->hook.killed = true;
}

void tn_hook_failed(struct tn_machine *m)
{
    m->hook.runs = false;
    if (m->hook.kind == TN_HOOK_STOPPED) {
        tn_machine_keep_lease(m);
        return;
    }
    tn_machine_act(m, TN_DO_NO_HOOK)->hook = m->hook.kind;
    tn_machine_run_due_hooks(m);
}

void tn_take_leader(struct tn_machine *m)
{
    m->hook.due &= ~(1u << TN_HOOK_NEW_LEADER);
    if (!m->ev->ours)
        return;
    m->hook.due |= 1u << TN_HOOK_NEW_LEADER;
    tn_machine_run_due_hooks(m);
}
