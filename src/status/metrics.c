#include "status/metrics.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/timing.h"
#include "os/process.h"

/* What one election contributes: its snapshot, and its labels as they are printed. */
struct sample {
    const struct tn_election_snapshot *s;
    char labels[3 * (TENURE_NAME_MAX + TENURE_ID_MAX)];  /* name="...",id="..." */
    char workers[3 * (TENURE_NAME_MAX + TENURE_ID_MAX)]; /* the same, as older names have it */
};

struct page {
    FILE *out;
    bool open; /* OpenMetrics */
    const struct sample *samples;
    size_t n;
};

/* Backslash, quote and line feed are what a label's value may not hold as they are. */
void tn_metrics_escape(const char *text, char *out, size_t size)
{
    size_t n = 0;

    for (; *text && n + 3 < size; text++) {
        if (*text == '\\' || *text == '"')
            out[n++] = '\\';
        out[n++] = (unsigned char)*text < 0x20 ? '?' : *text;
    }
    out[n] = '\0';
}

static void label(struct sample *sample, const struct tn_election_snapshot *s)
{
    char name[2 * TENURE_NAME_MAX + 4], id[2 * TENURE_ID_MAX + 4];

    sample->s = s;
    tn_metrics_escape(s->driver.name, name, sizeof name);
    tn_metrics_escape(s->driver.id, id, sizeof id);
    snprintf(sample->labels, sizeof sample->labels, "name=\"%s\",id=\"%s\"", name, id);
    snprintf(sample->workers, sizeof sample->workers, "name=\"%s\",worker_id=\"%s\"", name, id);
}

/* An election whose process does not answer has nothing to count. */
static bool is_up(const struct tn_election_snapshot *s)
{
    return s->reach <= TN_REACH_BEHIND;
}

/* Since the lease was last seen to be renewed; -1: nobody holds it. */
static int64_t lease_age(const struct tn_election_snapshot *s)
{
    return s->driver.seen == TN_SEEN_HELD ? s->now_ns - s->driver.observed_ns : -1;
}

/* ---- Printing ------------------------------------------------------------ */

void tn_metrics_family(FILE *out, bool open, const char *name, const char *type, const char *help)
{
    size_t len = strlen(name);

    if (open && strcmp(type, "counter") == 0)
        len -= strlen("_total");
    fprintf(out, "# HELP %.*s %s\n# TYPE %.*s %s\n", (int)len, name, help, (int)len, name, type);
}

static void family(const struct page *p, const char *name, const char *type, const char *help)
{
    tn_metrics_family(p->out, p->open, name, type, help);
}

typedef bool (*value_fn)(const struct tn_election_snapshot *s, double *value);

/* One line for each election that has it. */
static void print_values(const struct page *p, const char *name, const char *type, const char *help,
                         value_fn get, bool workers)
{
    family(p, name, type, help);
    for (size_t i = 0; i < p->n; i++) {
        const struct sample *sample = &p->samples[i];
        double value;

        if (get(sample->s, &value))
            fprintf(p->out, "%s{%s} %.15g\n", name, workers ? sample->workers : sample->labels,
                    value);
    }
}

static void each(const struct page *p, const char *name, const char *type, const char *help,
                 value_fn get)
{
    print_values(p, name, type, help, get, false);
}

static void each_worker(const struct page *p, const char *name, const char *type, const char *help,
                        value_fn get)
{
    print_values(p, name, type, help, get, true);
}

#define VALUE(fn, have, expression)                                                                \
    static bool fn(const struct tn_election_snapshot *s, double *value)                            \
    {                                                                                              \
        *value = (double)(expression);                                                             \
        return have;                                                                               \
    }

VALUE(leader, true, s->leads) /* always exported: a process that is gone leads nothing */
VALUE(ready, is_up(s), s->leads && s->running)
VALUE(sealing, is_up(s), s->driver.phase == TN_PHASE_SEALING)
VALUE(unsealed, is_up(s), s->record.unsealed_terms)
VALUE(epoch, is_up(s), s->epoch)
VALUE(left, is_up(s), (double)s->grant_ns / 1e9)
VALUE(ttl, is_up(s), (double)s->driver.ttl_ns / 1e9)
VALUE(leader_epoch, is_up(s), s->driver.seen == TN_SEEN_HELD ? s->driver.lease.epoch : 0)
VALUE(age, is_up(s) && lease_age(s) >= 0, (double)lease_age(s) / 1e9)
VALUE(paused, is_up(s), s->driver.control.paused)
VALUE(healthy, is_up(s), s->record.healthy)
VALUE(candidates, is_up(s), s->n_candidates)
VALUE(healthy_candidates, is_up(s), s->n_healthy)
VALUE(renewals, is_up(s), s->record.renewals)
VALUE(losses, is_up(s), s->record.losses)
VALUE(gap, is_up(s) && s->gap_ms >= 0, (double)s->gap_ms / 1e3)
VALUE(commits, is_up(s), s->record.commits)
VALUE(fenced, is_up(s), s->record.fenced)
VALUE(kills, is_up(s), s->record.kills)
VALUE(exits, is_up(s), s->record.exits)
VALUE(expired, is_up(s), s->record.takeovers[TN_CAUSE_EXPIRED])
VALUE(active, is_up(s), s->leads)

static bool failovers(const struct tn_election_snapshot *s, double *value)
{
    *value = 0;
    for (int i = 0; i < TN_CAUSES; i++)
        *value += (double)s->record.takeovers[i];
    return is_up(s);
}

/* Only of elections in processes of their own. */
static void election_up(const struct page *p)
{
    bool remote = false;

    for (size_t i = 0; i < p->n; i++)
        remote |= p->samples[i].s->remote;
    if (!remote)
        return;
    family(p, "tenure_election_up", "gauge", "1: the process of this election answers.");
    for (size_t i = 0; i < p->n; i++) {
        char name[2 * TENURE_NAME_MAX + 4];

        tn_metrics_escape(p->samples[i].s->driver.name, name, sizeof name);
        fprintf(p->out, "tenure_election_up{name=\"%s\"} %d\n", name, is_up(p->samples[i].s));
    }
}

static void failures(const struct page *p)
{
    family(p, "tenure_store_failures_total", "counter", "Store requests that failed, by class.");
    for (size_t i = 0; i < p->n; i++) {
        for (int k = 1; is_up(p->samples[i].s) && k < TN_STATUSES; k++) {
            const char *word = tenure_status_word((enum tenure_status)k);

            if (strcmp(word, "?") != 0)
                fprintf(p->out, "tenure_store_failures_total{%s,class=\"%s\"} %" PRIu64 "\n",
                        p->samples[i].labels, word, p->samples[i].s->record.failures[k]);
        }
    }
}

static void takeovers(const struct page *p)
{
    family(p, "tenure_takeovers_total", "counter", "Terms that this candidate began, by cause.");
    for (size_t i = 0; i < p->n; i++) {
        for (int k = 0; is_up(p->samples[i].s) && k < TN_CAUSES; k++)
            fprintf(p->out, "tenure_takeovers_total{%s,cause=\"%s\"} %" PRIu64 "\n",
                    p->samples[i].labels, tn_cause_word((enum tn_cause)k),
                    p->samples[i].s->record.takeovers[k]);
    }
}

static void warnings(const struct page *p)
{
    family(p, "tenure_warning", "gauge", "1: somebody should look at this, by kind.");
    for (size_t i = 0; i < p->n; i++) {
        for (int k = 0; is_up(p->samples[i].s) && k < TN_WARNINGS; k++)
            fprintf(p->out, "tenure_warning{%s,kind=\"%s\"} %d\n", p->samples[i].labels,
                    tn_warning_word((enum tn_warning)k),
                    tn_snapshot_warning(p->samples[i].s, (enum tn_warning)k)[0] != '\0');
    }
}

static void latency(const struct page *p)
{
    static const char name[] = "tenure_renewal_duration_seconds";

    family(p, name, "histogram", "How long the store took to acknowledge a renewal.");
    for (size_t i = 0; i < p->n; i++) {
        const struct tn_election_record *r = &p->samples[i].s->record;
        const char *labels = p->samples[i].labels;
        uint64_t sum = 0;

        if (!is_up(p->samples[i].s))
            continue;
        for (int k = 0; k < TN_BUCKETS; k++) {
            sum += r->buckets[k];
            /* OpenMetrics wants whole numbers as 1.0. */
            fprintf(p->out,
                    tn_buckets_ns[k] % TN_S ? "%s_bucket{%s,le=\"%g\"} %" PRIu64 "\n"
                                            : "%s_bucket{%s,le=\"%.1f\"} %" PRIu64 "\n",
                    name, labels, (double)tn_buckets_ns[k] / 1e9, sum);
        }
        sum += r->buckets[TN_BUCKETS];
        fprintf(p->out, "%s_bucket{%s,le=\"+Inf\"} %" PRIu64 "\n", name, labels, sum);
        fprintf(p->out, "%s_sum{%s} %.9g\n%s_count{%s} %" PRIu64 "\n", name, labels,
                (double)r->renew_sum_ns / 1e9, name, labels, sum);
    }
}

static void probes(const struct page *p)
{
    static const char *const words[] = {"program", "candidate"};

    family(p, "tenure_probe_success", "gauge", "1: the last probe succeeded.");
    for (size_t i = 0; i < p->n; i++) {
        const struct tn_election_snapshot *s = p->samples[i].s;

        for (int k = 0; is_up(s) && k < 2; k++) {
            if (s->record.probes[k].asked)
                fprintf(p->out, "tenure_probe_success{%s,probe=\"%s\"} %d\n", p->samples[i].labels,
                        words[k], s->record.probes[k].healthy);
        }
    }
    family(p, "tenure_probes_total", "counter", "Probes, by result.");
    for (size_t i = 0; i < p->n; i++) {
        const struct tn_election_snapshot *s = p->samples[i].s;
        const char *labels = p->samples[i].labels;

        for (int k = 0; is_up(s) && k < 2; k++) {
            if (s->record.probes[k].asked)
                fprintf(p->out,
                        "tenure_probes_total{%s,probe=\"%s\",result=\"ok\"} %" PRIu64 "\n"
                        "tenure_probes_total{%s,probe=\"%s\",result=\"failed\"} %" PRIu64 "\n",
                        labels, words[k], s->record.probes[k].good, labels, words[k],
                        s->record.probes[k].bad);
        }
    }
}

/* ---- The whole ----------------------------------------------------------- */

static void ours(const struct page *p)
{
    each(p, "tenure_leader", "gauge", "1: this candidate leads.", leader);
    election_up(p);
    each(p, "tenure_ready", "gauge", "1: it leads, and its program runs.", ready);
    each(p, "tenure_sealing", "gauge",
         "1: it has won a term, and its program waits until the state is sealed.", sealing);
    each(p, "tenure_epoch", "gauge", "Epoch of the current term; 0: none.", epoch);
    each(p, "tenure_leader_epoch", "gauge", "Epoch of the current leader, as last seen; 0: none.",
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
    each(p, "tenure_program_exits_total", "counter", "Times that the program ended by itself.",
         exits);
    warnings(p);
    probes(p);
}

/* Names that people have in their dashboards already. */
static void inherited(const struct page *p)
{
    each_worker(p, "worker_role", "gauge", "0: standby, 1: active.", active);
    each_worker(p, "worker_heartbeat_age_seconds", "gauge",
                "Since the last heartbeat of the active one.", age);
    each_worker(p, "worker_failovers_total", "counter", "Promotions from standby to active.",
                failovers);
    each_worker(p, "job_lease_renewals_total", "counter", "Lease renewals.", renewals);
    each_worker(p, "job_lease_expired_total", "counter", "Leases claimed from holders that died.",
                expired);
}

static void one(const struct page *p, const char *name, const char *type, const char *help,
                double value)
{
    family(p, name, type, help);
    fprintf(p->out, "%s %.15g\n", name, value);
}

/* Under the names that Prometheus' own client libraries have given them. */
static void process(const struct page *p)
{
    struct tn_process now;

    if (!tn_process_read(&now))
        return;
    one(p, "process_cpu_seconds_total", "counter", "Total user and system CPU time, in seconds.",
        now.cpu_s);
    one(p, "process_open_fds", "gauge", "Open file descriptors.", (double)now.open_fds);
    if (now.max_fds != UINT64_MAX)
        one(p, "process_max_fds", "gauge", "The limit of open file descriptors.",
            (double)now.max_fds);
    one(p, "process_virtual_memory_bytes", "gauge", "Virtual memory.", (double)now.virtual_bytes);
    one(p, "process_resident_memory_bytes", "gauge", "Resident memory.",
        (double)now.resident_bytes);
    one(p, "process_start_time_seconds", "gauge", "When the process started, in Unix time.",
        now.start_s);
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

const char *tn_metrics_type(bool openmetrics)
{
    return openmetrics ? "application/openmetrics-text; version=1.0.0; charset=utf-8"
                       : "text/plain; version=0.0.4; charset=utf-8";
}

void tn_metrics_end(FILE *out, bool openmetrics, const struct tn_http_counts *http)
{
    struct page p = {.out = out, .open = openmetrics};

    agent(&p, http);
    process(&p);
    if (openmetrics)
        fputs("# EOF\n", out);
}

char *tn_metrics_text(struct tn_election_snapshot *const *snapshots, size_t n,
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
        label(&samples[i], snapshots[i]);
    struct page p = {.out = out, .open = openmetrics, .samples = samples, .n = n};
    ours(&p);
    inherited(&p);
    tn_metrics_end(out, openmetrics, http);
    bool failed = ferror(out) != 0;
    failed |= fclose(out) != 0;
    free(samples);
    if (failed) {
        free(text);
        text = NULL;
    }
    return text;
}
