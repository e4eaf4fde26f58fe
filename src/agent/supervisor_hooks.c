/* Hooks: shell commands with the facts in their environment, bounded in time. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "agent/supervisor_inner.h"

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

/* The release waits for --on-stopped, so it must be over when the lease is, or the grace. */
static int64_t limit_of(const struct tn_supervisor *s, enum tn_helper_kind kind)
{
    int64_t limit = s->options->hook_timeout_ns;
    int64_t deadline = atomic_load(&s->deadline_ns);
    int64_t end = deadline < s->drain_by_ns ? deadline : s->drain_by_ns;
    int64_t left = end - tenure_now();

    if (kind == TN_HELPER_STOPPED && deadline > 0 && left < limit)
        limit = left > 0 ? left : 0;
    return limit;
}

bool tn_supervisor_hook(struct tn_supervisor *s, enum tn_helper_kind kind, const char *leader,
                        uint64_t epoch, const char *reason)
{
    static const char *const events[] = {"started", "stopped", "new-leader"};
    const char *command = command_of(s, kind);
    char event[40], who[TENURE_ID_MAX + 20], term[48], why[96];
    const char *extra[] = {event, who, term, why, NULL};
    struct tn_program_facts facts = {.name = s->options->elector.name,
                                     .id = s->id,
                                     .epoch = kind == TN_HELPER_NEW_LEADER ? 0 : epoch,
                                     .extra = extra,
                                     .store = s->options->elector.store,
                                     .state = s->options->state};

    if (!command)
        return false;
    snprintf(event, sizeof event, "TENURE_EVENT=%s", events[kind]);
    snprintf(who, sizeof who, "TENURE_LEADER=%s", leader);
    snprintf(term, sizeof term, "TENURE_LEADER_EPOCH=%" PRIu64, epoch);
    snprintf(why, sizeof why, "TENURE_REASON=%s", reason);
    int64_t limit = limit_of(s, kind);
    char **env = tn_program_env(s->options->program.env, &facts);
    bool ok = env && tn_helpers_run(&s->helpers, kind, command, env, limit);
    tn_program_env_free(env);
    if (ok && kind == TN_HELPER_STOPPED)
        tn_guard_link_hook(&s->link, tenure_now() + limit);
    if (!ok)
        tn_log("hook", "the hook for '%s' could not be run", events[kind]);
    return ok;
}

void tn_supervisor_reaped(struct tn_supervisor *s, pid_t pid, int status)
{
    bool well = WIFEXITED(status) && WEXITSTATUS(status) == 0;
    enum tn_helper_kind kind;

    if (tn_prepared_reaped(&s->prepared, pid, tenure_now()) ||
        !tn_helpers_reaped(&s->helpers, pid, &kind))
        return; /* an orphan: they come to us as PID 1, or as their sub-reaper */
    if (kind == TN_HELPER_PROBE || kind == TN_HELPER_CANDIDATE_PROBE) {
        tn_supervisor_health_result(s, kind, well);
        return;
    }
    if (!well)
        tn_log("hook", "a hook %s", WIFEXITED(status) ? "failed" : "was ended: it took too long");
    if (kind == TN_HELPER_STOPPED)
        tn_guard_link_hook(&s->link, 0);
    if (kind == TN_HELPER_STOPPED && s->state == TN_PROGRAM_HOOK)
        tn_supervisor_finish_death(s);
}
