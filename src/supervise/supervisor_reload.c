/* New settings while it runs: what can change does, the owner has said what cannot. */
#include <stdlib.h>
#include <string.h>

#include "core/timing.h"
#include "driver/driver.h"
#include "supervise/supervisor_inner.h"

static bool same_probe(const struct tn_probe_options *a, const struct tn_probe_options *b)
{
    const char *x = a->spec ? a->spec : "", *y = b->spec ? b->spec : "";

    return strcmp(x, y) == 0 && a->delay_ns == b->delay_ns && a->interval_ns == b->interval_ns &&
           a->timeout_ns == b->timeout_ns && a->threshold == b->threshold;
}

/* Its name is resolved on a worker: that may take as long as it likes, and the loop has other
 * duties. */
struct probe_change {
    struct tn_task task;
    struct tn_supervisor *supervisor; /* of the loop */
    struct tn_probe *probe;
    enum tn_helper_kind kind;
    unsigned number; /* what a change before it brings is out of date */
    struct tn_probe_options options;
    struct tn_probe_target target;
    enum tenure_status status;
    struct tenure_error err;
};

static void parse(struct tn_task *task)
{
    struct probe_change *c = (struct probe_change *)task;

    c->status = tn_probe_parse(&c->target, &c->options, &c->err);
}

static void free_change(struct tn_task *task)
{
    free(task);
}

/* The former one stays if the new one cannot be understood. */
static void apply_change(struct tn_task *task)
{
    struct probe_change *c = (struct probe_change *)task;
    struct tn_supervisor *s = c->supervisor;
    struct tn_probe *p = c->probe;

    if (c->number != p->changes)
        return;
    if (!c->status && c->target.kind == TN_PROBE_NOTIFY &&
        (c->kind != TN_HELPER_PROBE || s->notified.fd < 0))
        c->status = tenure_fail(&c->err, TENURE_CONFIG, "notify needs a start of tenure");
    if (c->status) {
        tn_log("reload", "the probe stays as it was: %s", c->err.text);
        return;
    }
    tn_helpers_drop(&s->helpers, c->kind);
    tn_probe_switch(p, false, tenure_now());
    p->to = c->target;
    tn_probe_switch(p,
                    c->kind == TN_HELPER_CANDIDATE_PROBE || s->machine.state == TN_PROGRAM_RUNNING,
                    tenure_now());
}

static void change_probe(struct tn_supervisor *s, struct tn_probe *p, enum tn_helper_kind kind,
                         const struct tn_probe_options *o)
{
    struct tenure_error err = {0};
    enum tenure_status status = TENURE_NOMEM;

    p->changes++;
    if (same_probe(&p->to.o, o))
        return;
    struct probe_change *c = calloc(1, sizeof *c);
    if (c) {
        *c = (struct probe_change){
            .task = {.run = parse, .done = apply_change, .free = free_change},
            .supervisor = s,
            .probe = p,
            .kind = kind,
            .number = p->changes,
            .options = *o,
        };
        status = tn_worker_post(s->name_worker, &c->task, &err);
    }
    if (status)
        tn_log("reload", "the probe stays as it was: %s", c ? err.text : "out of memory");
}

static void change_times(struct tn_supervisor *s, const struct tn_run_options *next)
{
    const struct tenure_elector_options *a = &s->options->elector, *b = &next->elector;
    struct tenure_error err = {0};

    if (a->ttl_ms == b->ttl_ms && a->renew_ms == b->renew_ms)
        return;
    if (tn_driver_retime(s->elector, b, &s->link.page->grace_ns, &err) != TENURE_OK)
        tn_log("reload", "the times stay as they were: %s", err.text);
}

void tn_supervisor_set_policy(struct tn_supervisor *s)
{
    const struct tn_run_options *o = s->options;
    struct tn_machine_config *cfg = &s->machine.cfg;

    cfg->hooks = (o->on_started ? 1u << TN_HOOK_STARTED : 0) |
                 (o->on_stopped ? 1u << TN_HOOK_STOPPED : 0) |
                 (o->on_new_leader ? 1u << TN_HOOK_NEW_LEADER : 0);
    cfg->hook_timeout_ns = o->hook_timeout_ns;
    cfg->on_loss = o->on_loss;
    cfg->on_exit = o->on_exit;
    cfg->crash_limit = (unsigned)o->crash_limit;
}

void tn_supervisor_reload(struct tn_supervisor *s)
{
    const struct tn_run_options *next = s->options->reload(s->options->reload_arg);

    if (!next)
        return;
    tn_log_setup(next->log, next->elector.name, s->id);
    tn_log_limit(next->log_level);
    tn_log_stamp(next->log_stamp);
    change_times(s, next);
    change_probe(s, &s->probe, TN_HELPER_PROBE, &next->probe);
    change_probe(s, &s->candidate_probe, TN_HELPER_CANDIDATE_PROBE, &next->candidate_probe);
    s->options = next;
    tn_supervisor_set_policy(s);
}
