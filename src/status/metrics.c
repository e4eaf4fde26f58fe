#include "status/metrics.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/timing.h"
#include "status/election_inner.h"

/* What one election contributes; looked at once, printed family by family. */
struct sample {
    struct tn_election *e;
    char labels[3 * (TENURE_NAME_MAX + TENURE_ID_MAX)];  /* name="...",id="..." */
    char workers[3 * (TENURE_NAME_MAX + TENURE_ID_MAX)]; /* the same, as older names have it */
    struct tn_election_facts facts;
    struct tn_snapshot now;
    uint64_t epoch; /* 0: does not lead */
    int64_t left_ns, age_ns;
    unsigned candidates, healthy_candidates;
    int64_t gap_ms; /* -1: unknown */
};

struct page {
    FILE *out;
    bool open; /* OpenMetrics */
    const struct sample *samples;
    size_t n;
};

/* ---- Looking ------------------------------------------------------------- */

/* Backslash, quote and line feed are what a label's value may not hold as they are. */
void tn_metrics_label(const char *text, char *out, size_t size)
{
    size_t n = 0;

    for (; *text && n + 3 < size; text++) {
        if (*text == '\\' || *text == '"')
            out[n++] = '\\';
        out[n++] = (unsigned char)*text < 0x20 ? '?' : *text;
    }
    out[n] = '\0';
}

static void take_papers(struct sample *s)
{
    struct tn_election *e = s->e;
    const struct tn_election_papers *p;

    s->gap_ms = -1;
    pthread_mutex_lock(&e->papers_lock);
    p = e->papers;
    s->candidates = p ? p->n_candidates : 0;
    for (unsigned i = 0; i < s->candidates; i++)
        s->healthy_candidates += p->candidates[i].healthy;
    if (p && p->history.n > 0)
        s->gap_ms = p->history.terms[p->history.n - 1].gap_ms;
    pthread_mutex_unlock(&e->papers_lock);
}

static void take(struct sample *s, struct tn_election *e)
{
    int64_t now_ns;
    char name[2 * TENURE_NAME_MAX + 4], id[2 * TENURE_ID_MAX + 4];

    s->e = e;
    tn_election_copy_facts(e, &s->facts);
    tn_election_snapshot(e, &s->now);
    now_ns = tenure_now();
    s->epoch = tn_snapshot_epoch(&s->now, now_ns);
    s->left_ns = tn_snapshot_left(&s->now, now_ns);
    s->age_ns = s->now.seen == TN_SEEN_HELD ? now_ns - s->now.observed_ns : -1;
    tn_metrics_label(e->name, name, sizeof name);
    tn_metrics_label(s->now.id, id, sizeof id);
    snprintf(s->labels, sizeof s->labels, "name=\"%s\",id=\"%s\"", name, id);
    snprintf(s->workers, sizeof s->workers, "name=\"%s\",worker_id=\"%s\"", name, id);
    take_papers(s);
}

/* ---- Printing ------------------------------------------------------------ */

/* In OpenMetrics a counter's family has no _total, its samples do. */
static void family(const struct page *p, const char *name, const char *type, const char *help)
{
    size_t len = strlen(name);

    if (p->open && strcmp(type, "counter") == 0)
        len -= strlen("_total");
    fprintf(p->out, "# HELP %.*s %s\n# TYPE %.*s %s\n", (int)len, name, help, (int)len, name, type);
}

typedef bool (*value_fn)(const struct sample *s, double *value);

/* One sample for each election that has it. */
static void each(const struct page *p, const char *name, const char *type, const char *help,
                 value_fn get)
{
    family(p, name, type, help);
    for (size_t i = 0; i < p->n; i++) {
        double value;

        if (get(&p->samples[i], &value))
            fprintf(p->out, "%s{%s} %.15g\n", name, p->samples[i].labels, value);
    }
}

static void each_worker(const struct page *p, const char *name, const char *type, const char *help,
                        value_fn get)
{
    family(p, name, type, help);
    for (size_t i = 0; i < p->n; i++) {
        double value;

        if (get(&p->samples[i], &value))
            fprintf(p->out, "%s{%s} %.15g\n", name, p->samples[i].workers, value);
    }
}

#define VALUE(fn, have, expression)                                                                \
    static bool fn(const struct sample *s, double *value)                                          \
    {                                                                                              \
        *value = (double)(expression);                                                             \
        return have;                                                                               \
    }

VALUE(leader, true, s->epoch != 0)
VALUE(ready, true, tn_election_ready(s->e))
VALUE(sealing, true, s->now.phase == TN_PHASE_SEALING)
VALUE(unsealed, true, s->facts.unsealed_terms)
VALUE(epoch, true, s->epoch)
VALUE(left, true, (double)s->left_ns / 1e9)
VALUE(ttl, true, (double)s->now.ttl_ns / 1e9)
VALUE(leader_epoch, true, s->now.seen == TN_SEEN_HELD ? s->now.lease.epoch : 0)
VALUE(age, s->age_ns >= 0, (double)s->age_ns / 1e9)
VALUE(paused, true, s->now.control.paused)
VALUE(healthy, true, s->facts.healthy)
VALUE(candidates, true, s->candidates)
VALUE(healthy_candidates, true, s->healthy_candidates)
VALUE(renewals, true, s->facts.renewals)
VALUE(losses, true, s->facts.losses)
VALUE(gap, s->gap_ms >= 0, (double)s->gap_ms / 1e3)
VALUE(commits, true, s->facts.commits)
VALUE(fenced, true, s->facts.fenced)
VALUE(kills, true, s->facts.kills)
VALUE(expired, true, s->facts.takeovers[TN_CAUSE_EXPIRED])

static bool failovers(const struct sample *s, double *value)
{
    *value = 0;
    for (int i = 0; i < TN_CAUSES; i++)
        *value += (double)s->facts.takeovers[i];
    return true;
}

static void failures(const struct page *p)
{
    family(p, "tenure_store_failures_total", "counter", "Store requests that failed, by class.");
    for (size_t i = 0; i < p->n; i++) {
        for (int k = 1; k < TN_STATUSES; k++) {
            const char *word = tenure_status_word((enum tenure_status)k);

            if (strcmp(word, "?") != 0)
                fprintf(p->out, "tenure_store_failures_total{%s,class=\"%s\"} %" PRIu64 "\n",
                        p->samples[i].labels, word, p->samples[i].facts.failures[k]);
        }
    }
}

static void takeovers(const struct page *p)
{
    family(p, "tenure_takeovers_total", "counter", "Terms that this candidate began, by cause.");
    for (size_t i = 0; i < p->n; i++) {
        for (int k = 0; k < TN_CAUSES; k++)
            fprintf(p->out, "tenure_takeovers_total{%s,cause=\"%s\"} %" PRIu64 "\n",
                    p->samples[i].labels, tn_cause_word((enum tn_cause)k),
                    p->samples[i].facts.takeovers[k]);
    }
}

static void latency(const struct page *p)
{
    static const char name[] = "tenure_renewal_duration_seconds";

    family(p, name, "histogram", "How long the store took to acknowledge a renewal.");
    for (size_t i = 0; i < p->n; i++) {
        const struct tn_election_facts *f = &p->samples[i].facts;
        const char *labels = p->samples[i].labels;
        uint64_t sum = 0;

        for (int k = 0; k < TN_BUCKETS; k++) {
            sum += f->buckets[k];
            /* OpenMetrics wants whole numbers as 1.0. */
            fprintf(p->out,
                    tn_buckets_ns[k] % TN_S ? "%s_bucket{%s,le=\"%g\"} %" PRIu64 "\n"
                                            : "%s_bucket{%s,le=\"%.1f\"} %" PRIu64 "\n",
                    name, labels, (double)tn_buckets_ns[k] / 1e9, sum);
        }
        sum += f->buckets[TN_BUCKETS];
        fprintf(p->out, "%s_bucket{%s,le=\"+Inf\"} %" PRIu64 "\n", name, labels, sum);
        fprintf(p->out, "%s_sum{%s} %.9g\n%s_count{%s} %" PRIu64 "\n", name, labels,
                (double)f->renew_sum_ns / 1e9, name, labels, sum);
    }
}

static void probes(const struct page *p)
{
    static const char *const words[] = {"program", "candidate"};

    family(p, "tenure_probe_success", "gauge", "1: the last probe succeeded.");
    for (size_t i = 0; i < p->n; i++) {
        for (int k = 0; k < 2; k++) {
            if (p->samples[i].facts.probes[k].asked)
                fprintf(p->out, "tenure_probe_success{%s,probe=\"%s\"} %d\n", p->samples[i].labels,
                        words[k], p->samples[i].facts.probes[k].well);
        }
    }
    family(p, "tenure_probes_total", "counter", "Probes, by result.");
    for (size_t i = 0; i < p->n; i++) {
        for (int k = 0; k < 2; k++) {
            const struct sample *s = &p->samples[i];

            if (s->facts.probes[k].asked)
                fprintf(p->out,
                        "tenure_probes_total{%s,probe=\"%s\",result=\"ok\"} %" PRIu64 "\n"
                        "tenure_probes_total{%s,probe=\"%s\",result=\"failed\"} %" PRIu64 "\n",
                        s->labels, words[k], s->facts.probes[k].good, s->labels, words[k],
                        s->facts.probes[k].bad);
        }
    }
}

/* ---- The whole ----------------------------------------------------------- */

static void ours(const struct page *p)
{
    each(p, "tenure_leader", "gauge", "1: this candidate leads.", leader);
    each(p, "tenure_ready", "gauge", "1: it leads, and its program runs.", ready);
    each(p, "tenure_sealing", "gauge",
         "1: it has won a term, and its program waits until the state is sealed.", sealing);
    each(p, "tenure_epoch", "gauge", "Epoch of the term in hand; 0 if none is.", epoch);
    each(p, "tenure_leader_epoch", "gauge", "Epoch of whoever leads, as last seen; 0: nobody.",
         leader_epoch);
    each(p, "tenure_lease_left_seconds", "gauge",
         "Until the work must have ended, if nothing is renewed.", left);
    each(p, "tenure_lease_ttl_seconds", "gauge", "How long others wait after the last renewal.",
         ttl);
    each(p, "tenure_leader_seen_age_seconds", "gauge",
         "Since the lease was last seen to be renewed, by whomever.", age);
    each(p, "tenure_paused", "gauge", "1: nobody takes over until it is resumed.", paused);
    each(p, "tenure_healthy", "gauge", "1: this machine may lead.", healthy);
    each(p, "tenure_candidates", "gauge", "Candidates that have announced themselves.", candidates);
    each(p, "tenure_candidates_healthy", "gauge", "Those of them that said they are healthy.",
         healthy_candidates);
    each(p, "tenure_renewals_total", "counter", "Renewals that were acknowledged.", renewals);
    failures(p);
    latency(p);
    takeovers(p);
    each(p, "tenure_losses_total", "counter", "Terms of this candidate that ended unasked.",
         losses);
    each(p, "tenure_handover_gap_seconds", "gauge",
         "How long nobody led before the last term began.", gap);
    each(p, "tenure_commits_total", "counter", "Commits to the state.", commits);
    each(p, "tenure_fenced_commits_total", "counter",
         "Commits that met a later leader, and were refused.", fenced);
    each(p, "tenure_unsealed_terms_total", "counter",
         "Terms that were given up because the state could not be sealed.", unsealed);
    each(p, "tenure_guard_kills_total", "counter", "Times that the guard ended the program.",
         kills);
    probes(p);
}

/* Names that people have in their dashboards already. */
static void inherited(const struct page *p)
{
    each_worker(p, "worker_role", "gauge", "0: standby, 1: active.", leader);
    each_worker(p, "worker_heartbeat_age_seconds", "gauge",
                "Since the last heartbeat of the active one.", age);
    each_worker(p, "worker_failovers_total", "counter", "Promotions from standby to active.",
                failovers);
    each_worker(p, "job_lease_renewals_total", "counter", "Lease renewals.", renewals);
    each_worker(p, "job_lease_expired_total", "counter", "Leases claimed from holders that died.",
                expired);
}

static void agent(const struct page *p, const struct tn_http_counts *http)
{
    /* The type "info" is OpenMetrics' own; a gauge says the same to both. */
    family(p, "tenure_build_info", "gauge", "The version of tenure.");
    fprintf(p->out, "tenure_build_info{version=\"%s\"} 1\n", tenure_version());
    family(p, "tenure_http_requests_total", "counter", "Requests that were received.");
    fprintf(p->out, "tenure_http_requests_total %" PRIu64 "\n", http->requests);
    family(p, "tenure_http_connections", "gauge", "Open connections.");
    fprintf(p->out, "tenure_http_connections %u\n", http->connections);
    family(p, "tenure_http_streams", "gauge", "Open event streams.");
    fprintf(p->out, "tenure_http_streams %u\n", http->streams);
}

void tn_metrics_agent(FILE *out, const struct tn_http_counts *http, bool openmetrics)
{
    agent(&(struct page){.out = out, .open = openmetrics}, http);
}

char *tn_metrics_text(struct tn_election *const *elections, size_t n,
                      const struct tn_http_counts *http, bool openmetrics, size_t *len)
{
    struct sample *samples = calloc(n ? n : 1, sizeof *samples);
    char *text = NULL;
    FILE *out = samples ? open_memstream(&text, len) : NULL;

    if (!out) {
        free(samples);
        return NULL;
    }
    for (size_t i = 0; i < n; i++)
        take(&samples[i], elections[i]);
    struct page p = {.out = out, .open = openmetrics, .samples = samples, .n = n};
    ours(&p);
    inherited(&p);
    agent(&p, http);
    if (openmetrics)
        fputs("# EOF\n", out);
    bool failed = ferror(out) != 0;
    failed |= fclose(out) != 0;
    free(samples);
    if (failed) {
        free(text);
        text = NULL;
    }
    return text;
}
