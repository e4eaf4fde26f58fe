#include "store/batch.h"

#include <assert.h>

#define SHARE 10 /* one piece lasts at most such a part of the caller's time */

static size_t largest(const struct tenure_store_info *info)
{
    return info->batch_max ? info->batch_max : 1;
}

size_t tn_batch_cut(const struct tenure_store_info *info, const struct tn_batch_pace *pace,
                    const struct tenure_swap *swaps, size_t n)
{
    size_t most = pace->swaps ? pace->swaps : largest(info), bytes = 0, i;

    assert(n > 0);
    if (info->atomic_batch)
        return n; /* it takes effect as a whole, or it is none */
    for (i = 0; i < n && i < most; i++) {
        bytes += swaps[i].len;
        if (i > 0 && info->batch_bytes && bytes > info->batch_bytes)
            break;
    }
    assert(i > 0);
    return i;
}

void tn_batch_measure(const struct tenure_store_info *info, struct tn_batch_pace *pace, size_t n,
                      int64_t took_ns, int64_t share_ns)
{
    size_t most = largest(info);

    if (took_ns > share_ns) {
        size_t fit = share_ns > 0 ? (size_t)((double)n * (double)share_ns / (double)took_ns) : 0;

        pace->swaps = fit ? fit : 1;
    } else if (pace->swaps && n >= pace->swaps) {
        /* A slow moment passes: what was too much then is tried again by and by. */
        pace->swaps = pace->swaps < most / 2 ? 2 * pace->swaps : 0;
    }
}

enum tenure_status tn_batch_run(const struct tenure_store_info *info, struct tn_batch_pace *pace,
                                tn_batch_send_fn send, void *impl, struct tenure_swap *swaps,
                                size_t n, int64_t deadline, struct tenure_error *err)
{
    int64_t before = tenure_now(), share = (deadline - before) / SHARE;
    enum tenure_status status = TENURE_OK;
    size_t done = 0;

    while (done < n && !status) {
        size_t piece = tn_batch_cut(info, pace, swaps + done, n - done);

        status = send(impl, swaps + done, piece, deadline, err);
        int64_t after = tenure_now();
        if (!status)
            tn_batch_measure(info, pace, piece, after - before, share);
        before = after;
        done += piece;
    }
    for (; done < n; done++)
        swaps[done].status = before >= deadline ? TENURE_TIMEOUT : TENURE_UNAVAILABLE;
    return status;
}
