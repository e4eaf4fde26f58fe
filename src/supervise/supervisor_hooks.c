/*
 * Hooks: shell commands with what happened in their environment, bounded in time.
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

static const char *command_of(const struct tn_supervisor *s, enum tn_hook_kind kind)
{
    switch (kind) {
    case TN_HOOK_STARTED:
        return s->options->on_started;
    case TN_HOOK_STOPPED:
        return s->options->on_stopped;
    case TN_HOOK_NEW_LEADER:
        return s->options->on_new_leader;
    default:
        return NULL;
    }
}

/* ---- What it gets -------------------------------------------------------- */

struct words {
    char event[40], leader[TENURE_ID_MAX + 20], term[48], reason[120];
    const char *extra[5];
};

static struct tn_program_env_spec env_spec_for(const struct tn_supervisor *s, struct words *w,
                                               enum tn_hook_kind kind, const char *leader,
                                               uint64_t epoch)
{
    const char *reason = kind == TN_HOOK_STOPPED ? s->why : "";

    snprintf(w->event, sizeof w->event, "TENURE_EVENT=%s", events[kind]);
    snprintf(w->leader, sizeof w->leader, "TENURE_LEADER=%s", leader);
    snprintf(w->term, sizeof w->term, "TENURE_LEADER_EPOCH=%" PRIu64, epoch);
    snprintf(w->reason, sizeof w->reason, "TENURE_REASON=%s", reason);
    memcpy(w->extra, (const char *[]){w->event, w->leader, w->term, w->reason, NULL},
           sizeof w->extra);
    return (struct tn_program_env_spec){.name = s->options->elector.name,
                                        .id = s->id,
                                        .epoch = kind == TN_HOOK_NEW_LEADER ? 0 : epoch,
                                        .extra = w->extra,
                                        .store = s->options->elector.store,
                                        .state = s->options->state};
}

static void tell_failure(enum tn_hook_kind kind, int status)
{
    if (WIFSIGNALED(status))
        tn_log("hook", "a hook was ended: it took too long, or its term was over (%s)",
               events[kind]);
    else if (WEXITSTATUS(status) != 0)
        tn_log("hook", "a hook failed (%s, code %d)", events[kind], WEXITSTATUS(status));
}

/* ---- Of our own term ----------------------------------------------------- */

/* The guard sees to the deadline of all. */
bool tn_supervisor_hook_run(struct tn_supervisor *s, enum tn_hook_kind kind, int64_t by_ns)
{
    static char shell[] = "/bin/sh", flag[] = "-c";
    char *command = (char *)(uintptr_t)command_of(s, kind); /* only read */
    char *const args[] = {shell, flag, command, NULL};
    struct tn_program program = {.args = args,
                                 .env = s->options->program.env,
                                 .mask = s->options->program.mask,
                                 .privs = true};
    struct words words;
    struct tn_program_env_spec spec = env_spec_for(s, &words, kind, s->id, s->machine.epoch);
    struct tenure_error err;
    int block;

    if (tn_program_block(&program, &spec, &block, &err) != TENURE_OK)
        return false;
    bool ok = tn_guard_link_hook(&s->link, block, by_ns);
    close(block);
    return ok;
}

void tn_supervisor_hook_not_run(enum tn_hook_kind kind, const char *why)
{
    tn_log("hook", "the hook for '%s' could not be run%s%s", events[kind], why ? "; " : "",
           why ? why : "");
}

/* The shell's own codes for a command that it cannot execute, or does not find. */
static bool could_run(const struct tn_guard_report *r)
{
    return !r->error && !(WIFEXITED(r->status) &&
                          (WEXITSTATUS(r->status) == 126 || WEXITSTATUS(r->status) == 127));
}

void tn_supervisor_hook_ended(struct tn_supervisor *s, const struct tn_guard_report *r)
{
    const struct tn_machine *m = &s->machine;

    if (m->hook.runs && !r->error)
        tell_failure(m->hook.kind, r->status);
    else if (m->hook.runs && tn_machine_term_runs(m))
        tn_log("hook", "the hook for '%s' could not be run: %s", events[m->hook.kind],
               strerror(r->error));
    tn_supervisor_step(
        s, &(struct tn_machine_event){.kind = TN_ON_HOOK_ENDED, .could_run = could_run(r)});
}

/* ---- Of others ----------------------------------------------------------- */

void tn_supervisor_hook_leader(struct tn_supervisor *s, const char *leader, uint64_t epoch)
{
    const enum tn_hook_kind kind = TN_HOOK_NEW_LEADER;
    bool ours = strcmp(leader, s->id) == 0;
    struct words words;

    tn_helpers_drop(&s->helpers, TN_HELPER_NEW_LEADER); /* the term that it is about is over */
    tn_supervisor_step(s, &(struct tn_machine_event){.kind = TN_ON_LEADER, .ours = ours});
    if (!leader[0] || !command_of(s, kind) || ours)
        return;
    struct tn_program_env_spec spec = env_spec_for(s, &words, kind, leader, epoch);
    char **env = tn_program_env(s->options->program.env, &spec);
    if (!env || !tn_helpers_run(&s->helpers, TN_HELPER_NEW_LEADER, command_of(s, kind), env,
                                s->options->hook_timeout_ns))
        tn_supervisor_hook_not_run(kind, NULL);
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
        tell_failure(TN_HOOK_NEW_LEADER, status);
    else if (kind == TN_HELPER_FENCE)
        tn_supervisor_proof_ended(s, status);
}
