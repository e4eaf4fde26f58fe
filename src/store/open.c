#include "store/open.h"

#include <stdlib.h>

#include "store/patience.h"

enum tenure_status tn_open(const struct tn_opener *opener, const char *url, int64_t deadline,
                           void **impl, struct tenure_error *err)
{
    void *handle = calloc(1, opener->size);
    bool unready = false;
    enum tenure_status status;

    if (!handle)
        return tenure_fail(err, TENURE_NOMEM, "out of memory");
    status = opener->configure(handle, url, err);
    if (!status && opener->reach) {
        do {
            unready = false;
            status = opener->reach(handle, deadline, &unready, err);
        } while (status == TENURE_UNAVAILABLE && unready && tn_store_pause(deadline));
    }
    if (status)
        opener->close(handle);
    else
        *impl = handle;
    return status;
}
