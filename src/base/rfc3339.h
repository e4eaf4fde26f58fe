/* base/rfc3339.h - wall-clock times as people write them: 2026-01-31T12:00:00.250Z. */
#ifndef TN_BASE_RFC3339_H
#define TN_BASE_RFC3339_H

#include <stdbool.h>
#include <stdint.h>

#define TN_RFC3339_SIZE 40

/* UTC, with milliseconds. */
void tn_rfc3339_format(uint64_t unix_ms, char out[TN_RFC3339_SIZE]);
/* Reads what format wrote.  Untouched on failure. */
bool tn_rfc3339_parse(const char *text, uint64_t *unix_ms);
/* From one to the other, 0 if that would be negative; -1: unknown, because one of them is (0), or
 * because one is of a clock that had not been set, as a machine without a battery begins in 1970.
 */
int64_t tn_wall_span_ms(uint64_t from_ms, uint64_t to_ms);

#endif
