/*
 * jobs - a group of very many jobs; jobs.py runs it and makes the table.
 *
 *     jobs add URL GROUP JOBS
 *     jobs worker URL GROUP ID JOBS TTL_MS RENEW_MS [standby]
 *     jobs bare URL GROUP JOBS BATCH
 *     jobs plan JOBS MEMBERS
 *
 * add makes the group.  worker is one worker of it through the public library: it prints `assigned
 * NS` whenever it has been given all the jobs once more, `buried NS` when it declares another one
 * dead, and answers lines on its input: `status`, `commit BATCH SECONDS`, `leave`.  bare does what
 * a take-over of all jobs costs the store at least: list them, and swap each of them in batches.
 * plan is the plan function alone.  JOBS_DIR is where the modules of the stores are.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/jobs/plan.h"
#include "jobs/operator.h"
#include "tenure/jobs.h"

#define SECOND  INT64_C(1000000000)
#define ID_SIZE 12

static const char *store_url, *group;
static unsigned jobs;

static void check(enum tenure_status status, const struct tenure_error *err)
{
    if (!status)
        return;
    fprintf(stderr, "jobs: %s\n", err->text);
    exit(1);
}

static double seconds_since(int64_t from_ns)
{
    return (double)(tenure_now() - from_ns) / 1e9;
}

static int64_t cpu_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return t.tv_sec * SECOND + t.tv_nsec;
}

static void *array(size_t n, size_t size)
{
    void *made = calloc(n, size);

    if (!made)
        abort();
    return made;
}

static void name_job(char id[ID_SIZE], unsigned i)
{
    snprintf(id, ID_SIZE, "job-%06u", i);
}

static tenure_store *open_store(void)
{
    struct tenure_error err = {0};
    tenure_store *store = NULL;

    check(tenure_store_open(store_url, tenure_now() + 10 * SECOND, &store, &err), &err);
    return store;
}

/* ---- The group ----------------------------------------------------------- */

static void add_jobs(void)
{
    struct tn_new_job *list = array(jobs, sizeof *list);
    char(*ids)[ID_SIZE] = array(jobs, sizeof *ids);
    struct tn_jobs g = {.store = open_store(), .name = group};
    struct tenure_error err = {0};
    int64_t before = tenure_now();
    size_t added;

    g.deadline = g.wait_until = before + 120 * SECOND;
    for (unsigned i = 0; i < jobs; i++) {
        name_job(ids[i], i);
        list[i] =
            (struct tn_new_job){.id = ids[i], .pin = "", .must = "", .prefer = "", .weight = 1};
    }
    check(tn_jobs_add(&g, list, jobs, &added, &err), &err);
    printf("added %zu %.3f\n", added, seconds_since(before));
    tenure_store_close(g.store);
    free(list);
    free(ids);
}

/* ---- A worker ------------------------------------------------------------ */

static tenure_worker *worker;
static unsigned given; /* by the thread of the callbacks alone */

static void assigned(void *arg, const struct tenure_job *job)
{
    (void)arg, (void)job;
    if (++given % jobs == 0)
        printf("assigned %lld\n", (long long)tenure_now());
}

static void traced(void *arg, const struct tenure_worker_trace *t)
{
    (void)arg;
    if (t->event == TENURE_WORKER_BURIED)
        printf("buried %lld\n", (long long)t->at_ns);
    else if (t->event == TENURE_WORKER_TROUBLE || t->event == TENURE_WORKER_LOST)
        fprintf(stderr, "jobs: %s\n", t->text);
}

/* Every job advances by one checkpoint, a batch a call, again and again. */
static void commit_for(unsigned batch, double seconds)
{
    struct tenure_job_commit *commits = array(batch, sizeof *commits);
    char(*ids)[ID_SIZE] = array(jobs, sizeof *ids);
    uint64_t *epochs = array(jobs, sizeof *epochs);
    struct tenure_error err = {0};
    int64_t before;
    unsigned next = 0, done = 0;
    char text[32];

    for (unsigned i = 0; i < jobs; i++) {
        name_job(ids[i], i);
        if (!tenure_worker_holds(worker, ids[i], &epochs[i]))
            check(tenure_fail(&err, TENURE_FENCED, "%s is not here", ids[i]), &err);
    }
    for (before = tenure_now(); seconds_since(before) < seconds; done += batch) {
        size_t len = (size_t)snprintf(text, sizeof text, "checkpoint %u", done);

        for (unsigned i = 0; i < batch; i++, next = (next + 1) % jobs)
            commits[i] = (struct tenure_job_commit){ids[next], epochs[next], text, len, TENURE_OK};
        check(tenure_worker_commit_many(worker, commits, batch, &err), &err);
    }
    printf("committed %u %.3f\n", done, seconds_since(before));
    free(commits);
    free(ids);
    free(epochs);
}

static void print_status(void)
{
    struct tenure_worker_status s = TENURE_WORKER_STATUS;

    tenure_worker_status(worker, &s);
    printf("status %u %u %u %llu %llu\n", s.jobs, s.planned, s.running,
           (unsigned long long)s.renewals, (unsigned long long)s.lists);
}

static void run_worker(char **argv, bool standby)
{
    struct tenure_worker_options o = TENURE_WORKER_OPTIONS;
    struct tenure_error err = {0};
    char line[64];
    unsigned batch;
    double seconds;

    o.store = store_url;
    o.group = group;
    o.id = argv[0];
    o.ttl_ms = atoi(argv[2]);
    o.renew_ms = atoi(argv[3]);
    o.standby = standby;
    o.assigned = assigned;
    o.trace = traced;
    check(tenure_worker_start(&o, &worker, &err), &err);
    while (fgets(line, sizeof line, stdin) && strcmp(line, "leave\n") != 0) {
        if (strcmp(line, "status\n") == 0)
            print_status();
        else if (sscanf(line, "commit %u %lf", &batch, &seconds) == 2)
            commit_for(batch, seconds);
    }
    int64_t before = tenure_now();
    tenure_worker_stop(worker);
    printf("left %.3f\n", seconds_since(before));
}

/* ---- The store alone ----------------------------------------------------- */

struct listing {
    struct tenure_swap *swaps;
    char (*keys)[64];
    unsigned char *data;
    size_t used;
    unsigned n;
};

static bool take(void *arg, const char *key, const struct tenure_value *value)
{
    struct listing *l = arg;
    struct tenure_swap *s = &l->swaps[l->n];

    if (l->n == jobs || value->len > 256)
        return true;
    snprintf(l->keys[l->n++], sizeof l->keys[0], "%s", key);
    memcpy(l->data + l->used, value->data, value->len);
    *s = (struct tenure_swap){.key = l->keys[l->n - 1],
                              .expect = value->token,
                              .data = l->data + l->used,
                              .len = value->len};
    l->used += value->len;
    return true;
}

static void run_bare(unsigned batch)
{
    struct listing l = {.swaps = array(jobs, sizeof *l.swaps),
                        .keys = array(jobs, sizeof *l.keys),
                        .data = array(jobs, 256)};
    tenure_store *store = open_store();
    struct tenure_error err = {0};
    char prefix[64], mark[TENURE_VERSION_MAX + 1];
    int64_t before = tenure_now(), cpu = cpu_ns(), listed_cpu;

    snprintf(prefix, sizeof prefix, "%s/job/", group);
    check(tenure_store_list(store, prefix, "", take, &l, mark, before + 60 * SECOND, &err), &err);
    printf("listed %u %.3f\n", l.n, seconds_since(before));
    before = tenure_now();
    listed_cpu = cpu_ns();
    for (unsigned at = 0; at < l.n; at += batch) {
        unsigned n = l.n - at < batch ? l.n - at : batch;

        for (unsigned i = 0; i < n; i++)
            check(tenure_nonce(l.swaps[at + i].nonce, &err), &err);
        check(tenure_store_swap_many(store, l.swaps + at, n, tenure_now() + 60 * SECOND, &err),
              &err);
    }
    printf("swapped %u %.3f %.3f\n", l.n, seconds_since(before),
           (double)(cpu_ns() - listed_cpu) / 1e9);
    printf("cpu %.3f\n", (double)(cpu_ns() - cpu) / 1e9);
    tenure_store_close(store);
    free(l.swaps);
    free(l.keys);
    free(l.data);
}

/* ---- The plan function --------------------------------------------------- */

#define REPEATS 11

struct planning {
    struct tn_plan_member *members;
    struct tn_plan_job *jobs;
    uint8_t *fit;
    uint16_t *slots;
    void *scratch;
    uint32_t loads_max;
};

/* The least of some repeats: what else the machine does costs time, and saves none. */
static double plan_once(struct planning *p, unsigned members, struct tn_plan_result *result)
{
    struct tn_plan_input in = {.members = p->members,
                               .jobs = p->jobs,
                               .fit = p->fit,
                               .member_count = members,
                               .job_count = jobs,
                               .class_count = 1,
                               .moves_max = jobs};
    double least = 1e9;

    for (unsigned i = 0; i < REPEATS; i++) {
        int64_t before = cpu_ns();

        tn_plan_assign(&in, p->scratch, p->slots, result);
        double took = (double)(cpu_ns() - before) / 1e6;
        least = took < least ? took : least;
    }
    return least;
}

/* What was planned is what the next plan begins with; `leaver` does not count any more. */
static void adopt(struct planning *p, unsigned leaver)
{
    for (unsigned j = 0; j < jobs; j++) {
        uint16_t slot = p->slots[j];

        p->jobs[j].slot = slot == leaver ? TN_SLOT_NONE : slot;
    }
}

static void print_plan(const char *what, const struct planning *p, unsigned members, double ms,
                       const struct tn_plan_result *r)
{
    unsigned *loads = array(members, sizeof *loads), least = jobs, most = 0;

    for (unsigned j = 0; j < jobs; j++)
        loads[p->slots[j]]++;
    for (unsigned m = 0; m < members; m++) {
        least = loads[m] < least ? loads[m] : least;
        most = loads[m] > most ? loads[m] : most;
    }
    printf("%s %.3f %u %u %u %u\n", what, ms, r->moved, r->placed, least, most);
    free(loads);
}

static void run_plan(unsigned members)
{
    struct tn_plan_input largest = {
        .member_count = members + 1, .job_count = jobs, .class_count = 1};
    struct planning p = {.members = array(members + 1, sizeof *p.members),
                         .jobs = array(jobs, sizeof *p.jobs),
                         .fit = array(members + 1, 1),
                         .slots = array(jobs, sizeof *p.slots),
                         .scratch = array(1, tn_plan_scratch_size(&largest))};
    struct tn_plan_result r;
    double ms;

    for (unsigned m = 0; m <= members; m++) {
        p.members[m] = (struct tn_plan_member){.share = 1, .limit = UINT32_MAX};
        p.fit[m] = TN_FIT_YES;
    }
    for (unsigned j = 0; j < jobs; j++)
        p.jobs[j] = (struct tn_plan_job){.weight = 1, .slot = TN_SLOT_NONE};
    ms = plan_once(&p, members, &r);
    print_plan("first", &p, members, ms, &r);
    adopt(&p, TN_SLOT_NONE);
    ms = plan_once(&p, members + 1, &r);
    print_plan("join", &p, members + 1, ms, &r);
    adopt(&p, members); /* the one that has joined leaves again */
    ms = plan_once(&p, members, &r);
    print_plan("leave", &p, members, ms, &r);
    free(p.members);
    free(p.jobs);
    free(p.fit);
    free(p.slots);
    free(p.scratch);
}

int main(int argc, char **argv)
{
    struct tenure_error err = {0};
    const char *verb = argc > 3 ? argv[1] : "";

    setvbuf(stdout, NULL, _IOLBF, 0);
    if (getenv("JOBS_DIR"))
        check(tenure_store_module_dir(getenv("JOBS_DIR"), &err), &err);
    if (argc > 3) {
        store_url = argv[2];
        group = argv[3];
    }
    if (strcmp(verb, "plan") == 0) {
        jobs = (unsigned)atoi(argv[2]);
        run_plan((unsigned)atoi(argv[3]));
    } else if (strcmp(verb, "add") == 0 && argc == 5) {
        jobs = (unsigned)atoi(argv[4]);
        add_jobs();
    } else if (strcmp(verb, "bare") == 0 && argc == 6) {
        jobs = (unsigned)atoi(argv[4]);
        run_bare((unsigned)atoi(argv[5]));
    } else if (strcmp(verb, "worker") == 0 && argc >= 8) {
        jobs = (unsigned)atoi(argv[5]);
        run_worker(argv + 4, argc > 8);
    } else {
        return fputs("usage: jobs add|worker|bare|plan ...\n", stderr), 2;
    }
    return 0;
}
