/* driver/timing_text.h - the arithmetic of a lease in words, for errors and `config check`. */
#ifndef TN_DRIVER_TIMING_TEXT_H
#define TN_DRIVER_TIMING_TEXT_H

#include "core/timing.h"
#include "tenure/status.h"

/* CONFIG with the numbers and the fix; OK for TN_TIMING_OK. */
enum tenure_status tn_timing_explain(enum tn_timing_fault fault, const struct tn_timing *t,
                                     struct tenure_error *err);

#endif
