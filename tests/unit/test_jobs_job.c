/* The register of a job: when it may be claimed, and what the answers of the store mean. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/jobs/job.h"

static struct tn_owner owner(const char *id, uint64_t number, char incarnation)
{
    struct tn_owner made = {.identity = {.number = number}};

    memcpy(made.id, id, strlen(id));
    memset(made.identity.incarnation, incarnation, sizeof made.identity.incarnation);
    return made;
}

static struct tn_job job(const struct tn_owner *by, uint64_t epoch, char grant)
{
    struct tn_job made = {.owner = *by, .epoch = epoch, .seq = 4};

    memset(made.grant, grant, sizeof made.grant);
    return made;
}

static struct tenure_token token(const char *version, char nonce)
{
    struct tenure_token made = {.version = ""};

    memcpy(made.version, version, strlen(version));
    memset(made.nonce, nonce, sizeof made.nonce);
    return made;
}

static void test_states(void **unused)
{
    struct tn_owner nobody = {.id = ""}, a = owner("a", 5, '1'), b = owner("b", 7, '2');
    struct tn_owner a2 = owner("a", 6, '3'), other = owner("c", 5, '1');
    struct tn_member record = {.identity = a.identity, .state = TN_MEMBER_ALIVE};
    struct tn_job j = job(&nobody, 9, 'g');

    (void)unused;
    assert_int_equal(tn_job_state(&j, &b, NULL), TN_JOB_CLAIMABLE);
    j.wanted = TN_WANTED_PAUSED;
    assert_int_equal(tn_job_state(&j, &b, NULL), TN_JOB_UNWANTED);
    j.wanted = TN_WANTED_REMOVED;
    assert_int_equal(tn_job_state(&j, &b, NULL), TN_JOB_UNWANTED);
    j = job(&a, 9, 'g');
    assert_int_equal(tn_job_state(&j, &b, &record), TN_JOB_HELD);
    assert_int_equal(tn_job_state(&j, &a, &record), TN_JOB_OURS);
    assert_int_equal(tn_job_state(&j, &a2, &record), TN_JOB_HELD);
    assert_int_equal(tn_job_state(&j, &other, &record), TN_JOB_HELD);
    assert_int_equal(tn_job_state(&j, &b, NULL), TN_JOB_ORPHANED);
    record.state = TN_MEMBER_DEAD;
    assert_int_equal(tn_job_state(&j, &b, &record), TN_JOB_CLAIMABLE);
}

static void test_claims_and_releases(void **unused)
{
    uint8_t grant[TENURE_NONCE_SIZE] = {7};
    struct tn_owner nobody = {.id = ""}, a = owner("a", 5, '1'), b = owner("b", 7, '2');
    struct tn_job j = job(&nobody, 9, 'g');
    struct tn_run run = {.owner = a, .epoch = 10}, later;

    (void)unused;
    memcpy(run.grant, grant, sizeof grant);
    assert_true(tn_job_claim(&j, &a, 5000, grant, 3));
    assert_true(tn_job_is_run(&j, &run));
    assert_int_equal(j.seq, 4);
    assert_int_equal(j.ttl_ms, 5000);
    /* The same worker claims it again: the run before is not this one. */
    assert_true(tn_job_claim(&j, &a, 5000, grant, 1000));
    assert_int_equal(j.epoch, 1000);
    assert_false(tn_job_release(&j, &run));
    run.epoch = 1000;
    later = run;
    later.grant[0]++;
    assert_false(tn_job_release(&j, &later));
    later = run;
    later.owner = b;
    assert_false(tn_job_release(&j, &later));
    assert_true(tn_job_release(&j, &run));
    assert_false(tn_job_owned(&j));
    assert_int_equal(j.epoch, 1000);
    j.epoch = TN_EPOCH_MAX;
    assert_false(tn_job_claim(&j, &a, 5000, grant, 3));
    assert_false(tn_job_owned(&j));
}

static void test_commits(void **unused)
{
    struct tn_owner a = owner("a", 5, '1');
    struct tn_job mine = job(&a, 9, 'g'), later = job(&a, 10, 'h');
    struct tn_run run = {.owner = a, .epoch = 9};
    struct tn_swap_attempt attempt = {.base = token("3", 'b')};
    struct tenure_token done = token("4", 'n'), edited = token("4", 'o'), after = token("5", 'o');
    uint8_t none[TENURE_NONCE_SIZE] = {0}, own[TENURE_NONCE_SIZE];

    (void)unused;
    memset(run.grant, 'g', sizeof run.grant);
    memset(attempt.nonce, 'n', sizeof attempt.nonce);
    memset(own, 'n', sizeof own);
    assert_int_equal(tn_commit_fate(&attempt, &attempt.base, none, &mine, &run), TN_SWAP_PENDING);
    assert_int_equal(tn_commit_fate(&attempt, &done, none, &mine, &run), TN_SWAP_DONE);
    assert_int_equal(tn_commit_fate(&attempt, &after, own, &mine, &run), TN_SWAP_DONE);
    assert_int_equal(tn_commit_fate(&attempt, &edited, none, &mine, &run), TN_SWAP_ADOPT);
    assert_int_equal(tn_commit_fate(&attempt, &edited, none, &later, &run), TN_SWAP_LOST);
    attempt.answered = true;
    assert_int_equal(tn_commit_fate(&attempt, &attempt.base, none, &mine, &run), TN_SWAP_ADOPT);
}

static void test_claims_in_doubt(void **unused)
{
    struct tn_owner a = owner("a", 5, '1'), b = owner("b", 7, '2');
    struct tn_job mine = job(&a, 9, 'g'), theirs = job(&b, 9, 'g');
    struct tn_swap_attempt attempt = {.base = token("3", 'b')};
    struct tenure_token done = token("4", 'n'), other = token("4", 'o');

    (void)unused;
    memset(attempt.nonce, 'n', sizeof attempt.nonce);
    assert_int_equal(tn_claim_fate(&attempt, &attempt.base, &theirs, &a), TN_SWAP_PENDING);
    assert_int_equal(tn_claim_fate(&attempt, &done, &mine, &a), TN_SWAP_DONE);
    assert_int_equal(tn_claim_fate(&attempt, &other, &mine, &a), TN_SWAP_AGAIN);
    assert_int_equal(tn_claim_fate(&attempt, &other, &theirs, &a), TN_SWAP_LOST);
    attempt.answered = true;
    assert_int_equal(tn_claim_fate(&attempt, &attempt.base, &theirs, &a), TN_SWAP_LOST);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_states),
        cmocka_unit_test(test_claims_and_releases),
        cmocka_unit_test(test_commits),
        cmocka_unit_test(test_claims_in_doubt),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
