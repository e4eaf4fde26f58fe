/* Releasing a grant from outside the process that held it: the guard's releaser. */
#include <string.h>

#include "agent/driver.h"
#include "os/clock.h"
#include "store/lease.h"

enum tenure_status tn_driver_release_grant(tenure_store *store, const char *name, const char *id,
                                           const uint8_t incarnation[TENURE_NONCE_SIZE],
                                           const uint8_t grant[TENURE_NONCE_SIZE], int64_t deadline,
                                           struct tenure_error *err)
{
    struct tenure_value buffer = {0};
    struct tn_lease_seen seen = {0};
    uint8_t nonce[TENURE_NONCE_SIZE];
    struct tenure_token token;
    enum tenure_status status;

    status = tenure_nonce(nonce, err);
    if (!status)
        status = tn_lease_read(store, name, &buffer, &seen, deadline, err);
    if (status)
        goto done;
    /* The exact term, and the swap on exactly what was read (I8): a late
     * release must never blank a successor. */
    if (!seen.present || seen.tombstone ||
        !tn_lease_is_grant(&seen.lease, id, incarnation, grant)) {
        status = tenure_fail(err, TENURE_CONFLICT, "%s: another grant holds the lease", name);
        goto done;
    }
    seen.lease.holder[0] = '\0';
    seen.lease.renewed_ms = tn_wall_ms();
    memcpy(seen.lease.cause, "crashed", sizeof "crashed");
    status = tn_lease_swap(store, name, &seen.token, nonce, &seen.lease, seen.extra, &token,
                           deadline, err);
done:
    tn_lease_seen_free(&seen);
    tenure_value_free(&buffer);
    return status;
}
