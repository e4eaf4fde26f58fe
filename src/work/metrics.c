/* What is counted of a worker, for Prometheus (docs/reference/http.md). */
#include <inttypes.h>
#include <stdio.h>

#include "jobs/view.h"
#include "status/metrics.h"
#include "work/listen.h"

struct sheet {
    FILE *out;
    bool open;
    char labels[4 * (TENURE_KEY_MAX + TN_MEMBER_ID_MAX)];    /* group="...",worker="..." */
    char inherited[4 * (TENURE_KEY_MAX + TN_MEMBER_ID_MAX)]; /* the same, as older names have it */
};

static void print(const struct sheet *p, const char *name, const char *type, const char *help,
                  double value)
{
    tn_metrics_family(p->out, p->open, name, type, help);
    fprintf(p->out, "%s{%s} %.15g\n", name, p->labels, value);
}

static void gauge(const struct sheet *p, const char *name, const char *help, double value)
{
    print(p, name, "gauge", help, value);
}

static void counter(const struct sheet *p, const char *name, const char *help, uint64_t value)
{
    print(p, name, "counter", help, (double)value);
}

/* Names that people have in their dashboards already. */
static void print_inherited(const struct sheet *p, const char *name, const char *help,
                            uint64_t value)
{
    tn_metrics_family(p->out, p->open, name, "counter", help);
    fprintf(p->out, "%s{%s} %" PRIu64 "\n", name, p->inherited, value);
}

static void print_causes(const struct sheet *p, const struct tn_jobs_status *s)
{
    tn_metrics_family(p->out, p->open, "tenure_job_moves_total", "counter",
                      "Jobs that a plan has given to this worker, by cause.");
    for (int i = 0; i < TN_MOVE_CAUSES; i++) {
        if (i != TN_MOVE_PAUSED && i != TN_MOVE_UNPLACED) /* those go to nobody */
            fprintf(p->out, "tenure_job_moves_total{%s,cause=\"%s\"} %" PRIu64 "\n", p->labels,
                    tn_move_cause_word((enum tn_move_cause)i), s->moves[i]);
    }
    tn_metrics_family(p->out, p->open, "tenure_job_stops_total", "counter",
                      "Jobs that were stopped here, by cause.");
    for (int i = 0; i < TN_JOBS_CAUSES; i++)
        fprintf(p->out, "tenure_job_stops_total{%s,cause=\"%s\"} %" PRIu64 "\n", p->labels,
                tn_jobs_cause_word((enum tn_jobs_cause)i), s->stops[i]);
}

static double seconds_until(int64_t at_ns, int64_t now_ns)
{
    return at_ns > now_ns ? (double)(at_ns - now_ns) / 1e9 : 0;
}

static void print_worker(const struct sheet *p, const struct tn_jobs_status *s, uint64_t fair,
                         int64_t now)
{
    gauge(p, "tenure_job_member", "1: this worker is a member of its group.",
          s->phase == TN_BEAT_IN && s->deadline_ns > now);
    gauge(p, "tenure_job_members", "Workers of the group that are alive.", s->members);
    gauge(p, "tenure_job_lease_left_seconds",
          "Until the work on all jobs must have ended, if nothing is renewed.",
          seconds_until(s->deadline_ns, now));
    gauge(p, "tenure_job_planned", "Jobs that the plan gives to this worker.", s->planned);
    gauge(p, "tenure_job_running", "Jobs that run here.", s->running);
    gauge(p, "tenure_job_load", "Weight of the jobs that run here.", (double)s->load);
    gauge(p, "tenure_job_load_fair", "Weight that is fair for this worker, by shares and limits.",
          (double)fair);
    gauge(p, "tenure_job_in_doubt", "Jobs with a write whose outcome is not known yet.",
          s->in_doubt);
    gauge(p, "tenure_job_awaiting_release",
          "Jobs planned for this worker that a living one has not released yet.", s->asked);
}

static void print_group(const struct sheet *p, const struct tn_jobs_status *s, int64_t now)
{
    gauge(p, "tenure_job_runnable", "Jobs of the group that are wanted running.", s->jobs);
    gauge(p, "tenure_job_unplaced", "Jobs of the group that no worker can take.", s->unplaced);
    gauge(p, "tenure_job_unowned",
          "Runnable jobs that nobody runs: unplaced, planned for a worker that has ended, or for "
          "this one and not started.",
          s->unowned);
    gauge(p, "tenure_job_unowned_seconds",
          "For how long there has been a runnable job that nobody runs; 0: there is none.",
          s->oldest_ns ? (double)(now - s->oldest_ns) / 1e9 : 0);
}

void tn_work_metrics(tn_jobs_driver *driver, const char *group, const char *id, FILE *out,
                     bool openmetrics)
{
    struct sheet p = {.out = out, .open = openmetrics};
    char g[2 * TENURE_KEY_MAX + 4], w[2 * TN_MEMBER_ID_MAX + 4];
    int64_t now = tenure_now();
    struct tn_jobs_status s;

    tn_jobs_driver_status(driver, &s);
    tn_metrics_escape(group, g, sizeof g);
    tn_metrics_escape(id, w, sizeof w);
    snprintf(p.labels, sizeof p.labels, "group=\"%s\",worker=\"%s\"", g, w);
    snprintf(p.inherited, sizeof p.inherited, "group=\"%s\",worker_id=\"%s\"", g, w);
    print_worker(&p, &s, tn_jobs_fair(driver), now);
    print_group(&p, &s, now);
    print_causes(&p, &s);
    counter(&p, "tenure_job_starts_total", "Jobs that were started here.", s.starts);
    counter(&p, "tenure_job_commits_total", "Checkpoints that were stored.", s.commits);
    counter(&p, "tenure_job_plan_changes_total", "Plans that this worker has seen.",
            s.plan_changes);
    counter(&p, "tenure_job_plans_written_total", "Plans that this worker has written.",
            s.plans_written);
    counter(&p, "tenure_job_burials_total", "Silent workers that this one has declared dead.",
            s.burials);
    counter(&p, "tenure_job_store_failures_total", "Store requests that failed.", s.troubles);
    print_inherited(&p, "job_lease_renewals_total", "Renewals of the lease over all jobs here.",
                    s.renewals);
    print_inherited(&p, "job_lease_expired_total",
                    "Times that this worker lost its lease, and with it all of its jobs.",
                    s.expired);
}
