#include "config/change.h"

#include <stdio.h>
#include <string.h>

static bool same(const char *a, const char *b)
{
    return strcmp(a ? a : "", b ? b : "") == 0;
}

static bool same_list(const char *const *a, const char *const *b)
{
    for (size_t i = 0;; i++) {
        const char *x = a ? a[i] : NULL, *y = b ? b[i] : NULL;

        if (!x || !y)
            return x == y;
        if (strcmp(x, y) != 0)
            return false;
    }
}

static bool same_probe(const struct tn_probe_options *a, const struct tn_probe_options *b)
{
    return same(a->spec, b->spec) && a->delay_ns == b->delay_ns &&
           a->interval_ns == b->interval_ns && a->timeout_ns == b->timeout_ns &&
           a->threshold == b->threshold;
}

static void append_key(char out[TN_CHANGE_TEXT], const char *key)
{
    size_t n = strlen(out);

    snprintf(out + n, TN_CHANGE_TEXT - n, "%s%s", n ? ", " : "", key);
}

#define TAKE(key, member, differs)                                                                 \
    do {                                                                                           \
        if (differs) {                                                                             \
            append_key(change->done, key);                                                         \
            e->member = b->member;                                                                 \
        }                                                                                          \
    } while (0)

static void take_what_can(const struct tn_run_options *a, const struct tn_run_options *b,
                          struct tn_run_options *e, struct tn_change *change)
{
    TAKE("ttl", elector.ttl_ms, a->elector.ttl_ms != b->elector.ttl_ms);
    TAKE("renew_interval", elector.renew_ms, a->elector.renew_ms != b->elector.renew_ms);
    TAKE("on_started", on_started, !same(a->on_started, b->on_started));
    TAKE("on_stopped", on_stopped, !same(a->on_stopped, b->on_stopped));
    TAKE("on_new_leader", on_new_leader, !same(a->on_new_leader, b->on_new_leader));
    TAKE("hook_timeout", hook_timeout_ns, a->hook_timeout_ns != b->hook_timeout_ns);
    TAKE("on_loss", on_loss, a->on_loss != b->on_loss);
    TAKE("on_exit", on_exit, a->on_exit != b->on_exit);
    TAKE("crash_limit", crash_limit, a->crash_limit != b->crash_limit);
    TAKE("preempt", preempt, a->preempt != b->preempt);
    TAKE("preempt_delay", preempt_delay_ns, a->preempt_delay_ns != b->preempt_delay_ns);
    TAKE("log.format", log, a->log != b->log);
    TAKE("log.level", log_level, a->log_level != b->log_level);
    TAKE("log.time", log_stamp, a->log_stamp != b->log_stamp);
    /* The program has the socket of a notify probe from its start, or has none. */
    bool notify = same(a->probe.spec, "notify") != same(b->probe.spec, "notify");
    TAKE("probe", probe, !notify && !same_probe(&a->probe, &b->probe));
    if (notify)
        append_key(change->restart, "probe");
    TAKE("candidate_probe", candidate_probe, !same_probe(&a->candidate_probe, &b->candidate_probe));
}

void tn_config_change_http(const struct tn_api_options *now, const struct tn_api_options *next,
                           char restart[TN_CHANGE_TEXT])
{
    const struct {
        const char *key;
        bool differs;
    } fixed[] = {
        {"http.listen", !same_list(now->listen, next->listen)},
        {"http.token", !same(now->token_file, next->token_file)},
        {"http.reads", now->reads_token != next->reads_token},
        {"http.hosts", !same_list(now->hosts, next->hosts)},
        {"http.tls_cert", !same(now->tls_cert, next->tls_cert)},
        {"http.tls_key", !same(now->tls_key, next->tls_key)},
        {"http.tls_client_ca", !same(now->tls_client_ca, next->tls_client_ca)},
    };

    for (size_t i = 0; i < sizeof fixed / sizeof fixed[0]; i++) {
        if (fixed[i].differs)
            append_key(restart, fixed[i].key);
    }
}

void tn_config_change(const struct tn_config_election *now, const struct tn_config_election *next,
                      struct tn_run_options *effective, struct tn_change *change)
{
    const struct tn_run_options *a = effective, *b = &next->run;
    const struct tenure_elector_options *x = &now->run.elector, *y = &b->elector;
    const struct tn_run_options *first = &now->run;
    const struct {
        const char *key;
        bool differs;
    } fixed[] = {
        {"store", !same(x->store, y->store)},
        {"holder_id", !same(x->id, y->id)},
        {"address", !same(x->address, y->address)},
        {"build", !same(x->build, y->build)},
        {"priority", x->priority != y->priority},
        {"kill_time", x->kill_ms != y->kill_ms},
        {"clock_drift", x->rho_ppm != y->rho_ppm},
        {"grace", b->program.args && x->grace_ms != y->grace_ms},
        /* By default it follows the ttl, which may change: what was told before stays true. */
        {"answer_for", first->answer_ns != b->answer_ns && x->ttl_ms == y->ttl_ms},
        {"prefer", first->prefer != b->prefer},
        {"state", !same(first->state, b->state)},
        {"seal", !same_list(first->seal, b->seal)},
        {"command", !same_list((const char *const *)first->program.args,
                               (const char *const *)b->program.args)},
        {"env", !same_list(now->env, next->env)},
        {"user", !same(first->program.user, b->program.user)},
        {"chdir", !same(first->program.cwd, b->program.cwd)},
        {"allow_duplicate_id", first->allow_duplicate_id != b->allow_duplicate_id},
        {"allow_new_privs", first->program.privs != b->program.privs},
        {"contain", first->contain != b->contain},
        {"stop_signal", first->stop_signal != b->stop_signal},
        {"start_timeout", first->start_timeout_ns != b->start_timeout_ns},
        {"orphan_grace", first->orphan_grace_ns != b->orphan_grace_ns},
        {"release_delay", first->release_delay_ns != b->release_delay_ns},
        {"watchdog", !same(first->watchdog, b->watchdog)},
        {"fence_command", !same(first->fence_command, b->fence_command)},
        {"fence_after", first->fence_after_ns != b->fence_after_ns},
        {"fence_timeout", first->fence_timeout_ns != b->fence_timeout_ns},
        {"warm", first->warm != b->warm || first->warm_signal != b->warm_signal ||
                     !same(first->warm_file, b->warm_file)},
    };
    struct tn_run_options e = *effective;

    *change = (struct tn_change){0};
    tn_config_change_http(&first->api, &b->api, change->restart);
    for (size_t i = 0; i < sizeof fixed / sizeof fixed[0]; i++) {
        if (fixed[i].differs)
            append_key(change->restart, fixed[i].key);
    }
    take_what_can(a, b, &e, change);
    *effective = e;
}
