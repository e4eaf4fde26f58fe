/*
 * The lease record: a decoder of hostile input never crashes, leaves its
 * outputs alone when it refuses, and what it accepts survives a round trip.
 */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "store/lease_record.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct tenure_error err = {0};
    struct tn_lease lease, again, untouched;
    char *extra = NULL, *extra_again = NULL, *text = NULL;
    size_t len = 0;

    memset(&lease, 0x5a, sizeof lease);
    untouched = lease;
    enum tenure_status status = tn_lease_decode(data, size, &lease, &extra, &err);
    if (status) {
        assert(status == TENURE_CORRUPT || status == TENURE_NOMEM);
        assert(err.text[0] && !extra);
        assert(memcmp(&lease, &untouched, sizeof lease) == 0);
        return 0;
    }
    /* What is kept of a stranger's members may be too much to write back; never half of it. */
    status = tn_lease_encode(&lease, extra, &text, &len, &err);
    if (status == TENURE_OK) {
        assert(text && len <= TN_LEASE_RECORD_MAX);
        status = tn_lease_decode(text, len, &again, &extra_again, &err);
        assert(status == TENURE_OK);
        assert(strcmp(again.holder, lease.holder) == 0);
        assert(again.epoch == lease.epoch && again.ttl_ms == lease.ttl_ms);
        assert(memcmp(again.grant, lease.grant, sizeof lease.grant) == 0);
        assert(memcmp(again.incarnation, lease.incarnation, sizeof lease.incarnation) == 0);
        assert(!extra == !extra_again);
    }
    free(text);
    free(extra);
    free(extra_again);
    return 0;
}
