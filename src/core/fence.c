#include "core/fence.h"

#include <string.h>

enum tn_verdict tn_fence_judge(const struct tn_fence *accepted, const struct tn_fence *writer)
{
    if (writer->epoch == 0 || writer->epoch > TN_EPOCH_MAX)
        return TN_VERDICT_INVALID;
    if (writer->epoch > accepted->epoch)
        return TN_VERDICT_RAISE;
    if (writer->epoch == accepted->epoch &&
        memcmp(writer->grant, accepted->grant, TENURE_NONCE_SIZE) == 0)
        return TN_VERDICT_SAME;
    return TN_VERDICT_STALE;
}
