/* driver/timing_text.h - the arithmetic of a lease in words, for errors and `config check`. */
#ifndef TN_DRIVER_TIMING_TEXT_H
#define TN_DRIVER_TIMING_TEXT_H

#include "core/timing.h"
#include "tenure/store.h"

/* CONFIG with the numbers and the fix; OK for TN_TIMING_OK. */
enum tenure_status tn_timing_explain(enum tn_timing_fault fault, const struct tn_timing *t,
                                     struct tenure_error *err);
/* May a holder with these times be suspected after so long of silence, that is, also one that had
 * to send a renewal twice?  CONFIG, likewise. */
enum tenure_status tn_timing_explain_fence(const struct tn_timing *t, int64_t after_ns,
                                           struct tenure_error *err);

/* Times as options give them; 0: choose. */
struct tn_timing_ms {
    int64_t ttl_ms, renew_ms, grace_ms, kill_ms;
    uint32_t rho_ppm;
    bool poll_as_renew; /* polls as often as it renews, also where it is notified */
};
/* Times that are safe on a store.  CONFIG with the arithmetic. */
enum tenure_status tn_timing_settle(const struct tn_timing_ms *wish,
                                    const struct tenure_store_info *info, struct tn_timing *out,
                                    struct tenure_error *err);

#endif
