#include "jobs/assigned.h"

#include <stdlib.h>
#include <string.h>

#include "base/sum.h"

#define BUCKETS_MIN 64u

static size_t id_bucket(const struct tn_assigned_table *t, const char *id)
{
    return (size_t)tn_sum(TN_SUM_START, id, strlen(id)) & (t->buckets - 1);
}

static size_t number_bucket(const struct tn_assigned_table *t, uint32_t number)
{
    return number & (t->buckets - 1);
}

static void link_job(struct tn_assigned_table *t, struct tn_assigned *job)
{
    struct tn_assigned **id = &t->by_id[id_bucket(t, job->id)];
    struct tn_assigned **number = &t->by_number[number_bucket(t, job->number)];

    job->next_of_id = *id;
    *id = job;
    job->next_of_number = *number;
    *number = job;
}

/* One place for two jobs, at least. */
static bool grow(struct tn_assigned_table *t)
{
    struct tn_assigned_table larger = {.buckets = t->buckets ? 2 * t->buckets : BUCKETS_MIN,
                                       .count = t->count};

    if (t->count < 2 * t->buckets)
        return true;
    larger.by_id = calloc(larger.buckets, sizeof(struct tn_assigned *));
    larger.by_number = calloc(larger.buckets, sizeof(struct tn_assigned *));
    if (!larger.by_id || !larger.by_number) {
        free(larger.by_id);
        free(larger.by_number);
        return false;
    }
    for (size_t i = 0; i < t->buckets; i++) {
        for (struct tn_assigned *job = t->by_id[i], *next; job; job = next) {
            next = job->next_of_id;
            link_job(&larger, job);
        }
    }
    free(t->by_id);
    free(t->by_number);
    *t = larger;
    return true;
}

struct tn_assigned *tn_assigned_add(struct tn_assigned_table *t, const char *id, uint32_t number,
                                    uint64_t epoch)
{
    /* There are very many: the padding behind the last member is not wasted. */
    size_t size = offsetof(struct tn_assigned, id) + strlen(id) + 1;
    struct tn_assigned *job = grow(t) ? calloc(1, size < sizeof *job ? sizeof *job : size) : NULL;

    if (!job)
        return NULL;
    job->number = number;
    job->epoch = epoch;
    memcpy(job->id, id, strlen(id) + 1);
    link_job(t, job);
    t->count++;
    return job;
}

struct tn_assigned *tn_assigned_find(const struct tn_assigned_table *t, const char *id)
{
    struct tn_assigned *job = t->buckets ? t->by_id[id_bucket(t, id)] : NULL;

    while (job && strcmp(job->id, id) != 0)
        job = job->next_of_id;
    return job;
}

struct tn_assigned *tn_assigned_of_number(const struct tn_assigned_table *t, uint32_t number)
{
    struct tn_assigned *job = t->buckets ? t->by_number[number_bucket(t, number)] : NULL;

    while (job && job->number != number)
        job = job->next_of_number;
    return job;
}

void tn_assigned_drop(struct tn_assigned_table *t, struct tn_assigned *job)
{
    struct tn_assigned **at = &t->by_id[id_bucket(t, job->id)];

    while (*at != job)
        at = &(*at)->next_of_id;
    *at = job->next_of_id;
    at = &t->by_number[number_bucket(t, job->number)];
    while (*at != job)
        at = &(*at)->next_of_number;
    *at = job->next_of_number;
    t->count--;
    free(job);
}

struct tn_assigned *tn_assigned_next(const struct tn_assigned_table *t, size_t *bucket,
                                     const struct tn_assigned *job)
{
    struct tn_assigned *next = job ? job->next_of_id : NULL;

    while (!next && *bucket < t->buckets)
        next = t->by_id[(*bucket)++];
    return next;
}

void tn_assigned_free(struct tn_assigned_table *t)
{
    for (size_t i = 0; i < t->buckets; i++) {
        while (t->by_id[i]) {
            struct tn_assigned *next = t->by_id[i]->next_of_id;

            free(t->by_id[i]);
            t->by_id[i] = next;
        }
    }
    free(t->by_id);
    free(t->by_number);
    memset(t, 0, sizeof *t);
}
