/* Releasing a grant from outside the process that held it: the guard's releaser. */
#include <string.h>

#include "driver/driver.h"
#include "lease/lease.h"
#include "os/clock.h"

/* The term that is to be released. */
struct term {
    const char *id;
    const uint8_t *incarnation;
    const uint8_t *grant;
};

/* An earlier try, told as unknown, did land: nobody else leaves such a record. */
static bool is_free_already(const struct tn_lease *lease, const struct term *t)
{
    return !tn_lease_held(lease) &&
           memcmp(lease->incarnation, t->incarnation, TENURE_NONCE_SIZE) == 0 &&
           memcmp(lease->grant, t->grant, TENURE_NONCE_SIZE) == 0;
}

/* Read and swap.  *raced: the record changed in between, and may still be that term's. */
static enum tenure_status try_release(tenure_store *store, const char *name, const struct term *t,
                                      int64_t deadline, bool *raced, struct tenure_error *err)
{
    struct tenure_value buffer = {0};
    struct tn_lease_seen seen = {0};
    uint8_t nonce[TENURE_NONCE_SIZE]; /* fresh for every request (I6) */
    struct tenure_token token;
    enum tenure_status status;

    *raced = false;
    status = tenure_nonce(nonce, err);
    if (!status)
        status = tn_lease_read(store, name, &buffer, &seen, deadline, err);
    if (status || (seen.present && !seen.tombstone && is_free_already(&seen.lease, t)))
        goto done;
    /* The exact term, and the swap on exactly what was read (I8): a late
     * release must never blank a successor. */
    if (!seen.present || seen.tombstone ||
        !tn_lease_is_grant(&seen.lease, t->id, t->incarnation, t->grant)) {
        status = tenure_fail(err, TENURE_CONFLICT, "%s: another grant holds the lease", name);
        goto done;
    }
    seen.lease.holder[0] = '\0';
    seen.lease.renewed_ms = tn_wall_ms();
    memcpy(seen.lease.cause, TN_LEASE_CRASHED, sizeof TN_LEASE_CRASHED);
    status = tn_lease_swap(store, name, &seen.token, nonce, &seen.lease, seen.extra, &token,
                           deadline, err);
    *raced = status == TENURE_CONFLICT;
done:
    tn_lease_seen_free(&seen);
    tenure_value_free(&buffer);
    return status;
}

enum tenure_status tn_driver_release_grant(tenure_store *store, const char *name, const char *id,
                                           const uint8_t incarnation[TENURE_NONCE_SIZE],
                                           const uint8_t grant[TENURE_NONCE_SIZE], int64_t deadline,
                                           struct tenure_error *err)
{
    const struct term t = {.id = id, .incarnation = incarnation, .grant = grant};
    enum tenure_status status;
    bool raced;

    /* A last renewal of the dead may still have been on its way: it costs one
     * more look, not a whole ttl. */
    do
        status = try_release(store, name, &t, deadline, &raced, err);
    while (raced && tenure_now() < deadline);
    if (raced)
        status =
            tenure_fail(err, TENURE_TIMEOUT, "%s: the lease changes faster than it is read", name);
    return status;
}
