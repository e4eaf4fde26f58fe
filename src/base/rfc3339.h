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

#endif
