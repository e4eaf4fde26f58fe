#include "work/fleet_table.h"

#include <stdlib.h>

#include "work/fleet.h"

/* Mixed, because a worker may have each sixteenth job. */
static struct tn_fleet_program **bucket(const struct tn_fleet_table *t, uint32_t job)
{
    return &t->by_job[(uint64_t)(uint32_t)(job * 2654435769u) * t->room >> 32];
}

static void push(struct tn_fleet_program **list, struct tn_fleet_program *p)
{
    p->next = *list;
    *list = p;
}

struct tn_fleet_program *tn_fleet_table_find(const struct tn_fleet_table *t, uint32_t job)
{
    struct tn_fleet_program *p = t->room ? *bucket(t, job) : NULL;

    while (p && p->job != job)
        p = p->next;
    return p;
}

/* Only when all entries are used. */
static bool grow(struct tn_fleet_table *t)
{
    uint32_t room = t->room ? 2 * t->room : 16;
    struct tn_fleet_program **programs = realloc(t->programs, room * sizeof *programs);

    if (!programs)
        return false;
    t->programs = programs;
    struct tn_fleet_program **by_job = calloc(room, sizeof *by_job);
    if (!by_job)
        return false;
    free(t->by_job);
    t->by_job = by_job;
    t->room = room;
    for (uint32_t i = 0; i < t->count; i++)
        push(bucket(t, programs[i]->job), programs[i]);
    return true;
}

struct tn_fleet_program *tn_fleet_table_add(struct tn_fleet_table *t, uint32_t job)
{
    struct tn_fleet_program *p = t->free;

    if (p) {
        t->free = p->next;
    } else {
        if (t->count == t->room && !grow(t))
            return NULL;
        p = calloc(1, sizeof *p);
        if (!p)
            return NULL;
        t->programs[t->count++] = p;
    }
    p->used = true;
    p->job = job;
    push(bucket(t, job), p);
    return p;
}

void tn_fleet_table_remove(struct tn_fleet_table *t, struct tn_fleet_program *p)
{
    struct tn_fleet_program **at = bucket(t, p->job);

    while (*at != p)
        at = &(*at)->next;
    *at = p->next;
    free(p->spec);
    *p = (struct tn_fleet_program){0};
    push(&t->free, p);
}

void tn_fleet_table_free(struct tn_fleet_table *t)
{
    for (uint32_t i = 0; i < t->count; i++) {
        free(t->programs[i]->spec);
        free(t->programs[i]);
    }
    free(t->programs);
    free(t->by_job);
    *t = (struct tn_fleet_table){0};
}
