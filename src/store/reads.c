#include "store/reads.h"

#include <assert.h>

/* What read_many is for a back end that has none, or does not want to now. */
static enum tenure_status read_one(const struct tenure_store_ops *ops, void *impl,
                                   struct tenure_read *read, int64_t deadline,
                                   struct tenure_error *err)
{
    read->status = ops->read(impl, read->key, &read->value, deadline, err);
    return read->status == TENURE_CORRUPT ? TENURE_OK : read->status;
}

enum tenure_status tn_reads_run(const struct tenure_store_ops *ops, void *impl,
                                struct tenure_read *reads, size_t n, int64_t deadline,
                                struct tenure_error *err)
{
    enum tenure_status status = TENURE_OK;
    size_t done = 0;

    while (done < n && !status) {
        size_t piece = 0;

        /* Looked at between the pieces too: a store that answers from memory never does. */
        if (done > 0 && tenure_now() >= deadline) {
            status = tenure_fail(err, TENURE_TIMEOUT, "the deadline passed after %zu of %zu reads",
                                 done, n);
            break;
        }
        if (ops->read_many)
            status = ops->read_many(impl, reads + done, n - done, &piece, deadline, err);
        if (!status && !piece) {
            status = read_one(ops, impl, &reads[done], deadline, err);
            piece = 1;
        }
        if (status)
            break;
        assert(piece <= n - done);
        done += piece;
    }
    for (; done < n; done++)
        reads[done].status = status;
    return status;
}
