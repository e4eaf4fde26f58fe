/* The lease record's decoder on hostile bytes: no crash, and what is taken survives a round trip.
 */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "store/lease_record.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct tn_lease lease, again;
    struct tenure_error err;
    char *extra = NULL, *text = NULL;
    size_t len;

    if (tn_lease_decode(data, size, &lease, &extra, &err) != TENURE_OK)
        return 0;
    assert(strlen(lease.holder) <= TN_HOLDER_MAX);
    if (tn_lease_encode(&lease, extra, &text, &len, &err) == TENURE_OK) {
        assert(tn_lease_decode(text, len, &again, NULL, &err) == TENURE_OK);
        assert(memcmp(lease.grant, again.grant, sizeof again.grant) == 0);
        assert(lease.epoch == again.epoch && lease.ttl_ms == again.ttl_ms);
        free(text);
    }
    free(extra);
    return 0;
}
