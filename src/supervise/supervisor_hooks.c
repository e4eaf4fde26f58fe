/*
 * Hooks: shell commands with the facts in their environment, bounded in time.
 *
 * A hook belongs to its term.  Those of our own term are run by the guard, one
 * at a time and beside the program, so they end with its tree, whatever becomes
 * of us; --on-stopped follows when nothing else is left, and the release
 * follows that.  If it cannot be run, the release waits for the deadline.  What
 * others do is told by a child of ours, the last word only.
 */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "supervise/supervisor_inner.h"

static const char *const events[] = {"started", "stopped", "new-leader"};

static const char *command_of(const struct tn_supervisor *s, enum tn_helper_kind kind)
{
    switch (kind) {
    case TN_HELPER_STARTED:
        return s->options->on_started;
    case TN_HELPER_STOPPED:
        return s->options->on_stopped;
    case TN_HELPER_NEW_LEADER:
        return s->options->on_new_leader;
    default:
        return NULL;
    }
}

/* ---- What it gets -------------------------------------------------------- */

struct words {
    char event[40], leader[TENURE_ID_MAX + 20], term[48], reason[96];
    const char *extra[5];
};

static struct tn_program_facts facts_for(const struct tn_supervisor *s, struct words *w,
                                         enum tn_helper_kind kind, const char *leader,
                                         uint64_t epoch)
{
    const char *reason = kind == TN_HELPER_STOPPED ? s->why : "";

    snprintf(w->event, sizeof w->event, "TENURE_EVENT=%s", events[kind]);
    snprintf(w->leader, sizeof w->leader, "TENURE_LEADER=%s", leader);
    snprintf(w->term, sizeof w->term, "TENURE_LEADER_EPOCH=%" PRIu64, epoch);
    snprintf(w->reason, sizeof w->reason, "TENURE_REASON=%s", reason);
    memcpy(w->extra, (const char *[]){w->event, w->leader, w->term, w->reason, NULL},
           sizeof w->extra);
    return (struct tn_program_facts){.name = s->options->elector.name,
                                     .id = s->id,
                                     .epoch = kind == TN_HELPER_NEW_LEADER ? 0 : epoch,
                                     .extra = w->extra,
                                     .store = s->options->elector.store,
                                     .state = s->options->state};
}

static void tell_failure(enum tn_helper_kind kind, int status)
{
    if (WIFSIGNALED(status))
        tn_log("hook", "a hook was ended: it took too long, or its term was over (%s)",
               events[kind]);
    else if (WEXITSTATUS(status) != 0)
        tn_log("hook", "a hook failed (%s, code %d)", events[kind], WEXITSTATUS(status));
}

/* ---- Of our own term ----------------------------------------------------- */

/* Have the guard run it.  --on-stopped has no more time than the grace and the term; the guard sees
 * to the deadline of all. */
static bool order(struct tn_supervisor *s, enum tn_helper_kind kind)
{
    static char shell[] = "/bin/sh", flag[] = "-c";
    char *command = (char *)(uintptr_t)command_of(s, kind); /* only read */
    char *const args[] = {shell, flag, command, NULL};
    struct tn_program program = {.args = args,
                                 .env = s->options->program.env,
                                 .mask = s->options->program.mask,
                                 .privs = true};
    int64_t by = tenure_now() + s->options->hook_timeout_ns;
    struct words words;
    struct tn_program_facts facts = facts_for(s, &words, kind, s->id, s->epoch);
    struct tenure_error err;
    int block;

    if (kind == TN_HELPER_STOPPED) {
        int64_t end = atomic_load(&s->deadline_ns) - s->link.page->margin_ns;

        end = end < s->drain_by_ns ? end : s->drain_by_ns;
        by = by < end ? by : end;
    }
    if (by <= tenure_now()) /* it would be killed before it could do anything */
        return false;
    if (tn_program_block(&program, &facts, &block, &err) != TENURE_OK)
        return false;
    s->hook.runs = tn_guard_link_hook(&s->link, block, by);
    s->hook.kind = kind;
    s->hook.killed = false;
    close(block);
    return s->hook.runs;
}

static bool term_runs(const struct tn_supervisor *s)
{
    enum tn_program_state state = s->options->program.args ? TN_PROGRAM_RUNNING : TN_PROGRAM_NONE;

    return s->epoch != 0 && s->state == state && !s->stop_passed_on && !s->leaving;
}

static void run_due(struct tn_supervisor *s)
{
    static const enum tn_helper_kind kinds[] = {TN_HELPER_STARTED, TN_HELPER_NEW_LEADER};

    for (size_t i = 0; i < 2 && !s->hook.runs && term_runs(s); i++) {
        if (!(s->hook.due & (1u << kinds[i])))
            continue;
        s->hook.due &= ~(1u << kinds[i]);
        if (command_of(s, kinds[i]) && !order(s, kinds[i]))
            tn_log("hook", "the hook for '%s' could not be run", events[kinds[i]]);
    }
}

void tn_supervisor_hook(struct tn_supervisor *s, enum tn_helper_kind kind)
{
    s->hook.due |= 1u << kind;
    run_due(s);
}

/* What --on-stopped was to undo is not undone: nobody else leads before our time is over, not even
 * if we crash meanwhile. */
static void keep_lease(struct tn_supervisor *s)
{
    s->hook.kept.at_ns = atomic_load(&s->deadline_ns);
    tn_guard_link_keep(&s->link, s->hook.kept.at_ns);
    tn_guard_link_facts(&s->link, "", 0);
    tn_log("hook", "the hook for 'stopped' could not be run; %s",
           s->hook.kept.at_ns > tenure_now() ? "the lease is kept until its deadline"
                                             : "the term had no time left");
}

static void run_stopped(struct tn_supervisor *s)
{
    if (s->epoch == 0 || s->exec_error || !s->options->on_stopped)
        tn_supervisor_finish_death(s);
    else if (!order(s, TN_HELPER_STOPPED))
        keep_lease(s);
}

void tn_supervisor_hooks_end(struct tn_supervisor *s)
{
    s->hook.due = 0;
    if (s->hook.runs)
        tn_guard_link_stop(&s->link, SIGKILL, 1); /* its end is reported */
    else
        run_stopped(s);
}

/* The shell's own codes for a command that it cannot execute, or does not find. */
static bool could_run(const struct tn_guard_report *r)
{
    return !r->error && !(WIFEXITED(r->status) &&
                          (WEXITSTATUS(r->status) == 126 || WEXITSTATUS(r->status) == 127));
}

void tn_supervisor_hooked(struct tn_supervisor *s, const struct tn_guard_report *r)
{
    enum tn_helper_kind kind = s->hook.kind;

    if (!s->hook.runs)
        return;
    s->hook.runs = false;
    if (!r->error)
        tell_failure(kind, r->status);
    if (s->state != TN_PROGRAM_HOOK) {
        if (r->error && term_runs(s))
            tn_log("hook", "the hook for '%s' could not be run: %s", events[kind],
                   strerror(r->error));
        run_due(s);
    } else if (kind != TN_HELPER_STOPPED) {
        run_stopped(s);
    } else if (could_run(r)) {
        tn_supervisor_finish_death(s);
    } else {
        keep_lease(s);
    }
}

void tn_supervisor_hooks_lost(struct tn_supervisor *s)
{
    bool ran = s->hook.runs;

    s->hook.runs = false;
    if (s->state != TN_PROGRAM_HOOK || !ran)
        return;
    if (s->hook.kind == TN_HELPER_STOPPED)
        keep_lease(s);
    else
        run_stopped(s);
}

void tn_supervisor_hooks_time(void *arg, int64_t now)
{
    (void)now;
    tn_supervisor_finish_death(arg);
}

/* ---- Of others ----------------------------------------------------------- */

void tn_supervisor_hook_leader(struct tn_supervisor *s, const char *leader, uint64_t epoch)
{
    const enum tn_helper_kind kind = TN_HELPER_NEW_LEADER;
    bool ours = strcmp(leader, s->id) == 0;
    struct words words;

    tn_helpers_drop(&s->helpers, kind); /* the term that it is about is over */
    s->hook.due &= ~(1u << kind);
    if (!leader[0] || !command_of(s, kind))
        return;
    if (ours) {
        tn_supervisor_hook(s, kind);
        return;
    }
    struct tn_program_facts facts = facts_for(s, &words, kind, leader, epoch);
    char **env = tn_program_env(s->options->program.env, &facts);
    if (!env ||
        !tn_helpers_run(&s->helpers, kind, command_of(s, kind), env, s->options->hook_timeout_ns))
        tn_log("hook", "the hook for '%s' could not be run", events[kind]);
    tn_program_env_free(env);
}

void tn_supervisor_reaped(struct tn_supervisor *s, pid_t pid, int status)
{
    enum tn_helper_kind kind;

    if (tn_prepared_reaped(&s->prepared, pid, tenure_now()) ||
        !tn_helpers_reaped(&s->helpers, pid, &kind))
        return; /* an orphan: they come to us as PID 1, or as their sub-reaper */
    if (kind == TN_HELPER_PROBE || kind == TN_HELPER_CANDIDATE_PROBE)
        tn_supervisor_health_result(s, kind, WIFEXITED(status) && WEXITSTATUS(status) == 0);
    else if (kind == TN_HELPER_NEW_LEADER)
        tell_failure(kind, status);
}
