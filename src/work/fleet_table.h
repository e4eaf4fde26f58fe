/*
 * work/fleet_table.h - a fleet's programs, found by the number of their job.  Adding, finding and
 * removing one cost the same however many there are.
 *
 * An entry keeps its place until the table is freed, so a walk over programs[] may remove what it
 * meets; those that are not used are free.
 */
#ifndef TN_WORK_FLEET_TABLE_H
#define TN_WORK_FLEET_TABLE_H

#include <stdint.h>

struct tn_fleet_program;

struct tn_fleet_table {
    struct tn_fleet_program **programs, **by_job; /* room of each; by_job has lists */
    struct tn_fleet_program *free;                /* a list */
    uint32_t count, room;
};

/* NULL: the job has none. */
struct tn_fleet_program *tn_fleet_table_find(const struct tn_fleet_table *t, uint32_t job);
/* For a job that has none; empty but for job and used.  NULL: no memory, which cannot be right
 * after a removal. */
struct tn_fleet_program *tn_fleet_table_add(struct tn_fleet_table *t, uint32_t job);
/* Frees what it has. */
void tn_fleet_table_remove(struct tn_fleet_table *t, struct tn_fleet_program *p);
void tn_fleet_table_free(struct tn_fleet_table *t);

#endif
