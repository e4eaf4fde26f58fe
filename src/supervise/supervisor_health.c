/* Health: probes of the program and of this machine, and what follows from them. */
#include <stdio.h>

#include "core/timing.h"
#include "supervise/supervisor_inner.h"

/* May this machine lead?  Not before a probe has answered well. */
static void judge(struct tn_supervisor *s)
{
    const struct tn_probe *c = &s->candidate_probe, *p = &s->probe;
    bool well = true;

    if (c->to.kind != TN_PROBE_NONE)
        well = c->trusted && !c->failed;
    if (s->options->warm && p->to.kind != TN_PROBE_NONE)
        well = well && p->on && p->trusted && !p->failed;
    tn_supervisor_healthy(s, well);
}

void tn_supervisor_health_result(struct tn_supervisor *s, enum tn_helper_kind kind, bool well)
{
    struct tn_probe *p = kind == TN_HELPER_PROBE ? &s->probe : &s->candidate_probe;

    tn_probe_result(p, well, tenure_now());
}

void tn_supervisor_health_notified(void *arg, short events)
{
    struct tn_supervisor *s = arg;

    (void)events;
    if (tn_notified_take(&s->notified, s->link.pid))
        tn_supervisor_health_result(s, TN_HELPER_PROBE, true);
}

/* ---- The loop's side ----------------------------------------------------- */

static void start_probe(struct tn_supervisor *s, struct tn_probe *p, enum tn_helper_kind kind,
                        int64_t now)
{
    struct tn_program_env_spec spec = {.name = s->options->elector.name,
                                       .id = s->id,
                                       .epoch = s->machine.epoch,
                                       .store = s->options->elector.store,
                                       .state = s->options->state};

    if (!tn_probe_time(p, now))
        return;
    char **env = tn_program_env(s->options->program.env, &spec);
    if (!env || !tn_helpers_run(&s->helpers, kind, p->to.command, env, p->to.o.timeout_ns))
        tn_probe_result(p, false, now);
    tn_program_env_free(env);
}

static void ask_program(void *arg, int64_t now)
{
    struct tn_supervisor *s = arg;

    start_probe(s, &s->probe, TN_HELPER_PROBE, now);
}

static void ask_candidate(void *arg, int64_t now)
{
    struct tn_supervisor *s = arg;

    start_probe(s, &s->candidate_probe, TN_HELPER_CANDIDATE_PROBE, now);
}

void tn_supervisor_health_init(struct tn_supervisor *s)
{
    const struct tn_probe_target none = {0};

    tn_probe_open(&s->probe, &none, &s->loop, ask_program, s);
    tn_probe_open(&s->candidate_probe, &none, &s->loop, ask_candidate, s);
}

enum tenure_status tn_supervisor_health_open(struct tn_supervisor *s, struct tenure_error *err)
{
    struct tn_probe_target *program = &s->probe.to, *candidate = &s->candidate_probe.to;
    enum tenure_status status = tn_probe_parse(program, &s->options->probe, err);

    if (!status)
        status = tn_probe_parse(candidate, &s->options->candidate_probe, err);
    if (!status && candidate->kind == TN_PROBE_NOTIFY)
        status = tenure_fail(err, TENURE_CONFIG,
                             "--candidate-probe: notify needs a program; give another probe");
    if (!status && program->kind == TN_PROBE_NOTIFY)
        status = tn_notified_open(&s->notified, &s->options->program, err);
    if (!status) {
        tn_loop_watch(&s->loop, &s->notification, s->notified.fd, tn_supervisor_health_notified, s);
        tn_probe_switch(&s->candidate_probe, true, tenure_now());
        /* Not healthy before the first answer; nothing has been started yet. */
        s->inbox.unhealthy = candidate->kind != TN_PROBE_NONE ||
                             (s->options->warm && program->kind != TN_PROBE_NONE);
    }
    return status;
}

void tn_supervisor_health_close(struct tn_supervisor *s)
{
    tn_probe_switch(&s->probe, false, 0);
    tn_probe_switch(&s->candidate_probe, false, 0);
    tn_notified_close(&s->notified);
}

void tn_supervisor_health_program(struct tn_supervisor *s, bool runs)
{
    tn_helpers_drop(&s->helpers, TN_HELPER_PROBE); /* it was about the program before */
    tn_probe_switch(&s->probe, runs, tenure_now());
}

/* Results come from several sides; they are counted where all of them pass. */
static void report_results(struct tn_supervisor *s, struct tn_probe *p, enum tn_probe_of which)
{
    const char *whose = which == TN_PROBE_OF_PROGRAM ? "program" : "candidate";

    for (; p->told_good < p->good; p->told_good++) {
        tn_election_probed(s->election, which, true);
        tn_log("probed", "%s probe: healthy", whose);
    }
    for (; p->told_bad < p->bad; p->told_bad++) {
        tn_election_probed(s->election, which, false);
        tn_log("probed", "%s probe: failed", whose);
    }
}

void tn_supervisor_health_judge(struct tn_supervisor *s)
{
    report_results(s, &s->probe, TN_PROBE_OF_PROGRAM);
    report_results(s, &s->candidate_probe, TN_PROBE_OF_CANDIDATE);
    judge(s);
    if (s->probe.failed)
        tn_supervisor_step(s, &(struct tn_machine_event){.kind = TN_ON_UNHEALTHY,
                                                         .ok = s->controlled && !s->paused});
}
