/* New settings while it runs: what can change does, the owner has said what cannot. */
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

/* What a change that is under way would bring is out of date in any case. */
static void change_probe(struct tn_supervisor *s, const struct tn_probe *now,
                         const struct tn_probe_options *o, struct tn_probe_change **change)
{
    struct tenure_error err = {0};

    tn_probe_change_drop(*change);
    *change = NULL;
    if (!same_probe(&now->o, o) &&
        tn_probe_change_begin(o, s->mailbox.event_fd, change, &err) != TENURE_OK)
        tn_log("reload", "the probe stays as it was: %s", err.text);
}

/* The former one stays if the new one cannot be understood. */
static void take_change(struct tn_supervisor *s, struct tn_probe *p, enum tn_helper_kind kind,
                        struct tn_probe_change **change, bool on)
{
    struct tenure_error err = {0};
    enum tenure_status status;
    struct tn_probe fresh;

    if (!tn_probe_change_done(*change, &fresh, &status, &err))
        return;
    tn_probe_change_drop(*change);
    *change = NULL;
    if (!status && fresh.kind == TN_PROBE_NOTIFY && (kind != TN_HELPER_PROBE || s->notified.fd < 0))
        status = tenure_fail(&err, TENURE_CONFIG, "notify needs a start of tenure");
    if (status) {
        tn_log("reload", "the probe stays as it was: %s", err.text);
        return;
    }
    tn_helpers_drop(&s->helpers, kind);
    tn_probe_switch(p, false, tenure_now());
    *p = fresh;
    tn_probe_switch(p, on, tenure_now());
}

void tn_supervisor_reload_time(struct tn_supervisor *s)
{
    take_change(s, &s->probe, TN_HELPER_PROBE, &s->probe_change, s->state == TN_PROGRAM_RUNNING);
    take_change(s, &s->candidate_probe, TN_HELPER_CANDIDATE_PROBE, &s->candidate_change, true);
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

void tn_supervisor_reload(struct tn_supervisor *s)
{
    const struct tn_run_options *next = s->options->reload(s->options->reload_arg);

    if (!next || s->leaving)
        return;
    tn_log_setup(next->log, next->elector.name, s->id);
    tn_log_limit(next->log_level);
    change_times(s, next);
    change_probe(s, &s->probe, &next->probe, &s->probe_change);
    change_probe(s, &s->candidate_probe, &next->candidate_probe, &s->candidate_change);
    s->options = next;
}
