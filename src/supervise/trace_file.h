/*
 * supervise/trace_file.h - what a candidate did, a JSON line each, for whoever has
 * to find out later: `tenure run --trace FILE`, and tests of real processes.
 *
 * The first line of every process is a header: the format, the election, the
 * times in force, and how far this process's CLOCK_BOOTTIME is from that of the
 * machine (it may live in a time namespace).  All other lines have at_ns (that
 * clock), id, event and, where it means something, epoch, deadline_ns, took_ns,
 * leader, status and text.  tests/sim reads it: `tenure sim --check FILE ...`.
 */
#ifndef TN_SUPERVISE_TRACE_FILE_H
#define TN_SUPERVISE_TRACE_FILE_H

#include "core/timing.h"
#include "tenure/elector.h"

#define TN_TRACE_VERSION 1

struct tn_trace_file;

/* Appends to the file at path.  The name must live as long.  On failure *out is untouched. */
enum tenure_status tn_trace_file_open(const char *path, const char *name,
                                      const struct tn_timing *timing, struct tn_trace_file **out,
                                      struct tenure_error *err);
/* Writes what is left, and frees it.  Accepts NULL. */
void tn_trace_file_close(struct tn_trace_file *f);

/*
 * From any thread; none of these waits for the disk.  What comes faster than
 * the disk takes it is left out, and the next line says how much ("lost").
 * NULL is no file.
 */
void tn_trace_file_event(struct tn_trace_file *f, const struct tenure_trace *t);
/* The program of that epoch: "running" or "dead", by the guard's word. */
void tn_trace_file_program(struct tn_trace_file *f, const char *id, const char *event,
                           uint64_t epoch, int64_t at_ns);

#endif
