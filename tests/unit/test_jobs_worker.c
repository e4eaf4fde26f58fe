/* A worker among many jobs: whom it asks, who is served next, and when the next round is. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/jobs/worker.h"

enum { JOBS = 40, MANY = 640, MEMBERS = 3, BATCH = 4, LARGE = 200 };

static const struct tn_requirements requirements[1];
static struct tn_worker w;
static struct tn_peer peers[MEMBERS];
static struct tn_member records[MEMBERS];
static bool counts[MEMBERS];
static struct tn_known known[MANY];
static struct tn_held held[MANY];
static char versions[MANY][16];
static uint64_t scratch[4096], batch[10000];
static uint32_t batch_max = BATCH;
static int64_t left_ns = 72 * TN_S;       /* until D, at every step */
static struct tn_work_actions out, asked; /* of the last step; of the request that is out */
static uint64_t draws;
static struct tn_job registers[MANY];
static uint16_t slots[MANY];
static struct tn_entry entries[MANY];
static uint32_t job_count;

static void step(int64_t at_ms, struct tn_work_event ev)
{
    ev.now_ns = at_ms * TN_MS;
    ev.wall_ms = 1000;
    ev.entropy[0] = ++draws;
    ev.entropy[1] = ~draws;
    ev.in = true;
    ev.deadline_ns = ev.now_ns + left_ns;
    ev.identity.number = 9;
    tn_worker_step(&w, &ev, &out);
    if (out.request != TN_WORK_NOTHING)
        asked = out;
}

static void event(int64_t at_ms, enum tn_work_kind kind, uint32_t job)
{
    step(at_ms, (struct tn_work_event){
                    .kind = kind, .job = job, .jobs = &job, .n = kind == TN_WORK_COMMIT});
}

/* The request that is out is answered. */
static void expect(enum tn_work_request request)
{
    assert_int_equal(asked.request, request);
    asked.request = TN_WORK_NOTHING;
}

static void begin(uint32_t jobs)
{
    struct tn_worker_config cfg = {.id = "a",
                                   .ttl_ms = 90000,
                                   .timing = {.hold_ns = 72 * TN_S,
                                              .request_ns = 10 * TN_S,
                                              .retry_ns = TN_S,
                                              .poll_ns = 20 * TN_S},
                                   .members_max = MEMBERS,
                                   .jobs_max = MANY,
                                   .held_max = MANY,
                                   .class_max = 1,
                                   .requirements = requirements,
                                   .peers = peers,
                                   .records = records,
                                   .counts = counts,
                                   .known = known,
                                   .held = held,
                                   .versions = versions[0],
                                   .version_size = sizeof versions[0],
                                   .scratch = scratch,
                                   .batch_max = batch_max,
                                   .batch_min = batch_max < TN_WORK_BATCH_MIN ? batch_max
                                                                              : TN_WORK_BATCH_MIN,
                                   .drain_ns = 8 * TN_S,
                                   .batch = batch};

    assert_true(tn_worker_scratch_size(&cfg) <= sizeof scratch);
    assert_true(tn_worker_batch_size(batch_max) <= sizeof batch);
    memset(peers, 0, sizeof peers);
    memset(registers, 0, sizeof registers);
    memset(slots, 0, sizeof slots);
    asked.request = TN_WORK_NOTHING;
    tn_worker_init(&w, &cfg);
    job_count = jobs;
    for (uint32_t j = 0; j < jobs; j++)
        entries[j] = (struct tn_entry){.number = j, .weight = 1};
}

static struct tenure_token token(uint32_t n)
{
    return (struct tenure_token){.version = "v", .nonce = {(uint8_t)(n + 1), 7}};
}

/* The plan, the members a and b, the catalogue; `slot`: everything is planned for it. */
static void answer_round(int64_t at_ms, uint64_t seq, uint16_t slot)
{
    static const char ids[2][TN_MEMBER_ID_MAX + 1] = {"a", "b"};
    struct tn_plan_record plan = {
        .seq = seq, .member_count = 2, .job_count = job_count, .members = ids, .slots = slots};
    struct tn_member m[2] = {{.identity = {.number = 9}, .ttl_ms = 90000},
                             {.identity = {.number = 5}, .ttl_ms = 90000, .standby = true}};
    struct tn_listed listed[2] = {{"a", token(100), &m[0]}, {"b", token(101), &m[1]}};

    for (uint32_t j = 0; j < job_count; j++)
        slots[j] = slot;
    expect(TN_WORK_READ_PLAN);
    step(at_ms, (struct tn_work_event){
                    .kind = TN_WORK_PLAN, .plan = &plan, .token = token((uint32_t)(110 + seq))});
    expect(TN_WORK_LIST_MEMBERS);
    w.plan_tried = true; /* what is planned here is not its own */
    step(at_ms, (struct tn_work_event){.kind = TN_WORK_MEMBERS, .listed = listed, .n = 2});
    expect(TN_WORK_READ_CATALOGUE);
    step(at_ms, (struct tn_work_event){.kind = TN_WORK_CATALOGUE,
                                       .revision = 1,
                                       .active = 1,
                                       .job_count = job_count,
                                       .entries = entries,
                                       .n = job_count});
}

static void answer_reads(int64_t at_ms)
{
    struct tn_read reads[LARGE];

    expect(TN_WORK_READ_JOBS);
    assert_true(asked.n <= batch_max);
    for (unsigned i = 0; i < asked.n; i++)
        reads[i] = (struct tn_read){.job = asked.jobs[i],
                                    .token = token(asked.jobs[i]),
                                    .record = registers[asked.jobs[i]]};
    step(at_ms, (struct tn_work_event){.kind = TN_WORK_READ, .reads = reads, .n = asked.n});
}

static void answer_swaps(int64_t at_ms)
{
    static const enum tenure_status statuses[LARGE];
    struct tenure_token tokens[LARGE];

    expect(TN_WORK_SWAP_JOBS);
    for (unsigned i = 0; i < asked.n; i++)
        tokens[i] = token(asked.swaps[i].job);
    step(at_ms,
         (struct tn_work_event){.kind = TN_WORK_SWAPPED, .statuses = statuses, .tokens = tokens});
}

/* All of them run here: what was read is claimed before more is. */
static void run_all(uint32_t jobs)
{
    uint32_t started = 0;

    begin(jobs);
    event(0, TN_WORK_TIMER, 0);
    answer_round(0, 1, 0);
    while (asked.request == TN_WORK_READ_JOBS) {
        unsigned n = asked.n;

        answer_reads(0);
        assert_int_equal(asked.n, n);
        answer_swaps(0);
        started += out.start_count;
    }
    assert_int_equal(started, jobs);
}

/* Others refuse a record whose asks are not in the order of their numbers. */
static void test_asks_are_in_order_and_in_turns(void **unused)
{
    bool seen[JOBS] = {false};

    (void)unused;
    begin(JOBS);
    for (uint32_t j = 0; j < JOBS; j++) /* b owns them all */
        registers[j] = (struct tn_job){.owner = {.id = "b", .identity.number = 5}, .epoch = 1};
    event(0, TN_WORK_TIMER, 0);
    for (int64_t round = 0; round < 4; round++) {
        answer_round(round * 30000, 1, 0);
        for (uint32_t i = 0; i < w.profile.ask_count; i++) {
            seen[w.profile.asks[i]] = true;
            assert_true(i == 0 || w.profile.asks[i] > w.profile.asks[i - 1]);
        }
        while (asked.request == TN_WORK_READ_JOBS)
            answer_reads(round * 30000);
        event((round + 1) * 30000, TN_WORK_TIMER, 0);
    }
    for (uint32_t j = 0; j < JOBS; j++)
        assert_true(seen[j]);
}

/* Each program commits again as soon as it has committed. */
static int64_t commit_until_round(int64_t at_ms, bool *committed)
{
    int64_t end_ms = at_ms + 25000;

    while (asked.request != TN_WORK_READ_PLAN) {
        uint32_t again[BATCH];
        unsigned n;

        assert_true(at_ms < end_ms);
        answer_swaps(at_ms += 100);
        n = out.committed_count;
        memcpy(again, out.committed, n * sizeof *again);
        for (unsigned i = 0; i < n; i++) {
            committed[again[i]] = true;
            event(at_ms, TN_WORK_COMMIT, again[i]);
        }
    }
    return at_ms;
}

/* Everybody's turn comes, and so does the next round; also if a round is being acted upon. */
static void test_commits_keep_nobody_waiting(void **unused)
{
    bool committed[12] = {false};
    int64_t at_ms;

    (void)unused;
    run_all(12);
    for (uint32_t j = 0; j < 12; j++)
        event(100, TN_WORK_COMMIT, j);
    at_ms = commit_until_round(100, committed);
    for (uint32_t j = 0; j < 12; j++)
        assert_true(committed[j]);
    answer_round(at_ms, 1, 0);
    at_ms = commit_until_round(at_ms, committed);
    answer_round(at_ms, 1, 0);
    /* The bell is heard as well. */
    event(at_ms + 2000, TN_WORK_BELL, 0);
    assert_true(commit_until_round(at_ms + 2000, committed) < at_ms + 3000);
}

/* A slow store gets less at once, to a limit, and more again when it is quick. */
static void test_batches_are_as_large_as_the_store_is_quick(void **unused)
{
    static const unsigned sizes[] = {LARGE, 100, TN_WORK_BATCH_MIN, TN_WORK_BATCH_MIN, 128, 84};
    uint32_t all[MANY];
    int64_t at_ms = 100;

    (void)unused;
    batch_max = LARGE;
    run_all(MANY);
    batch_max = BATCH;
    for (uint32_t j = 0; j < MANY; j++)
        all[j] = j;
    step(at_ms, (struct tn_work_event){.kind = TN_WORK_COMMIT, .jobs = all, .n = MANY});
    for (unsigned i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        assert_int_equal(asked.n, sizes[i]);
        answer_swaps(at_ms += i < 3 ? 4000 : 10);
        assert_int_equal(out.committed_count, sizes[i]);
    }
    assert_int_equal(out.request, TN_WORK_NOTHING);
}

/* More programs to stop than a batch holds: all of them in the steps that follow at once. */
static void test_all_are_stopped_at_once(void **unused)
{
    uint32_t stopped;

    (void)unused;
    run_all(10);
    event(30000, TN_WORK_TIMER, 0);
    answer_round(30000, 2, 1); /* all of them for b */
    assert_int_equal(stopped = out.stop_count, BATCH);
    while (out.wake_ns == 30000 * TN_MS) {
        event(30000, TN_WORK_TIMER, 0);
        stopped += out.stop_count;
    }
    assert_int_equal(stopped, 10);
}

/* A job that is planned for another has its grace, but not beyond D. */
static void test_a_stop_has_its_grace_but_not_beyond_the_deadline(void **unused)
{
    static const int64_t lefts_ns[] = {72 * TN_S, 3 * TN_S}, by_ns[] = {38 * TN_S, 33 * TN_S};

    (void)unused;
    for (unsigned i = 0; i < 2; i++) {
        run_all(1);
        left_ns = lefts_ns[i];
        event(30000, TN_WORK_TIMER, 0);
        answer_round(30000, 2, 1);
        left_ns = 72 * TN_S;
        assert_int_equal(out.stop_count, 1);
        assert_false(out.fenced[0]);
        assert_int_equal(out.stop_by_ns[0], by_ns[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_asks_are_in_order_and_in_turns),
        cmocka_unit_test(test_commits_keep_nobody_waiting),
        cmocka_unit_test(test_batches_are_as_large_as_the_store_is_quick),
        cmocka_unit_test(test_all_are_stopped_at_once),
        cmocka_unit_test(test_a_stop_has_its_grace_but_not_beyond_the_deadline),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
