/* The records of a group of jobs on hostile bytes: no crash, and what is taken survives a round
 * trip. */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "jobs/catalogue.h"
#include "jobs/history.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void try_job(const uint8_t *data, size_t size)
{
    const unsigned char *checkpoint, *again;
    struct tn_job job, copy;
    size_t len, again_len;

    if (tn_job_decode(data, size, &job, &checkpoint, &len, NULL) != TENURE_OK)
        return;
    unsigned char *out = malloc(TN_JOB_HEADER_MAX + len);
    assert(out);
    size_t n = tn_job_put(&job, checkpoint, len, out);
    assert(tn_job_decode(out, n, &copy, &again, &again_len, NULL) == TENURE_OK);
    assert(again_len == len && memcmp(again, checkpoint, len) == 0);
    assert(copy.epoch == job.epoch && copy.seq == job.seq && copy.wanted == job.wanted);
    assert(tn_owner_equal(&copy.owner, &job.owner) && copy.ttl_ms == job.ttl_ms);
    check_tame(job.owner.id);
    free(out);
}

static void try_member(const uint8_t *data, size_t size)
{
    struct tn_member_record record, copy;

    if (tn_member_decode(data, size, &record, NULL) != TENURE_OK)
        return;
    check_tame(record.id);
    check_tame(record.host);
    char *text = tn_member_encode(&record);
    assert(text && tn_member_decode(text, strlen(text), &copy, NULL) == TENURE_OK);
    assert(tn_identity_equal(&copy.member.identity, &record.member.identity));
    assert(copy.member.ttl_ms == record.member.ttl_ms && copy.member.mark == record.member.mark);
    free(text);
}

static void try_plan(const uint8_t *data, size_t size)
{
    struct tn_plan_register plan, copy;
    size_t len;

    if (tn_plan_decode(data, size, &plan, NULL) != TENURE_OK)
        return;
    unsigned char *out = tn_plan_encode(&plan, &len);
    assert(out && len <= tn_plan_size(plan.job_count, plan.member_count));
    assert(tn_plan_decode(out, len, &copy, NULL) == TENURE_OK);
    assert(copy.digest == plan.digest && copy.job_count == plan.job_count);
    assert(memcmp(copy.slots, plan.slots, plan.job_count * sizeof *plan.slots) == 0);
    free(out);
    tn_plan_free(&plan);
    tn_plan_free(&copy);
}

static void try_catalogue(const uint8_t *data, size_t size)
{
    struct tn_catalogue root = {0};
    struct tn_page page, copy;
    uint64_t *revisions;
    uint32_t pages;
    size_t len;

    if (tn_catalogue_root_decode(data, size, &root, &revisions, &pages, NULL) == TENURE_OK)
        free(revisions);
    if (tn_page_decode(data, size, 0, &page, NULL) != TENURE_OK)
        return;
    char *text = tn_page_encode(&page, 0, &len);
    assert(text && tn_page_decode(text, len, 0, &copy, NULL) == TENURE_OK);
    assert(copy.count == page.count && copy.revision == page.revision);
    free(text);
    tn_page_free(&page);
    tn_page_free(&copy);
}

static void try_history(const uint8_t *data, size_t size)
{
    struct tn_jobs_history history = {0}, copy = {0};

    if (tn_jobs_history_read(data, size, &history, NULL) != TENURE_OK)
        return;
    for (uint32_t i = 0; i < history.count; i++)
        check_tame(history.events[i].other);
    char *text = tn_jobs_history_text(&history, size + 64);
    assert(text && tn_jobs_history_read(text, strlen(text), &copy, NULL) == TENURE_OK);
    assert(copy.count == history.count);
    free(text);
    tn_jobs_history_free(&history);
    tn_jobs_history_free(&copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    try_job(data, size);
    try_member(data, size);
    try_plan(data, size);
    try_catalogue(data, size);
    try_history(data, size);
    return 0;
}
