/* file:DIR - see docs/internals/file.md.  The slots come with the next change. */
#include "store/builtin.h"

static enum tenure_status file_open(const char *url, int64_t deadline, void **impl,
                                    struct tenure_error *err)
{
    (void)url;
    (void)deadline;
    (void)impl;
    return tenure_fail(err, TENURE_UNSUPPORTED, "file: is not built yet");
}

const struct tenure_store_ops tn_store_file = {
    .abi = TENURE_STORE_ABI,
    .scheme = "file",
    .open = file_open,
};
