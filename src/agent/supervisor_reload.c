/* New settings while it runs: what can change does, the owner has said what cannot. */
#include <string.h>

#include "agent/driver.h"
#include "agent/supervisor_inner.h"
#include "core/timing.h"

static bool same_probe(const struct tn_probe_options *a, const struct tn_probe_options *b)
{
    const char *x = a->spec ? a->spec : "", *y = b->spec ? b->spec : "";

    return strcmp(x, y) == 0 && a->delay_ns == b->delay_ns && a->interval_ns == b->interval_ns &&
           a->timeout_ns == b->timeout_ns && a->threshold == b->threshold;
}

/* The former one stays if the new one cannot be understood. */
static void change_probe(struct tn_probe *p, const struct tn_probe_options *o, bool on)
{
    struct tn_probe fresh;
    struct tenure_error err = {0};

    if (same_probe(&p->o, o))
        return;
    if (tn_probe_open(&fresh, o, &err) != TENURE_OK) {
        tn_log("reload", "the probe stays as it was: %s", err.text);
        return;
    }
    tn_probe_switch(p, false, tenure_now());
    *p = fresh;
    tn_probe_switch(p, on, tenure_now());
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
    change_probe(&s->probe, &next->probe, s->state == TN_PROGRAM_RUNNING);
    change_probe(&s->candidate_probe, &next->candidate_probe, true);
    s->options = next;
}
