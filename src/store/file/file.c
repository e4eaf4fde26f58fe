/*
 * file:DIR - registers as directories of numbered slots, on a local disk or a
 * shared one.  docs/explanation/internals/file.md tells how, docs/adr/0003 why.
 */
#include <stdlib.h>

#include "store/builtin.h"
#include "store/file/journal/journal.h"

#define TTL_SHARED_MS 5000 /* a network file system may pause for seconds */

static void file_close(void *impl)
{
    struct tn_file *f = impl;

    tn_file_wait_end(f);
    tn_journal_end(f);
    free(f->scratch);
    free(f);
}

static enum tenure_status file_open(const char *url, int64_t deadline, void **impl,
                                    struct tenure_error *err)
{
    struct tn_file *f = calloc(1, sizeof *f);

    (void)deadline;
    if (!f)
        return tenure_fail(err, TENURE_NOMEM, "out of memory");
    f->watches.fd = -1;
    enum tenure_status status = tn_file_setup(f, url, err);
    if (status) {
        file_close(f);
        return status;
    }
    tn_file_clean_temps(f);
    *impl = f;
    return TENURE_OK;
}

static void file_info(void *impl, struct tenure_store_info *info)
{
    struct tn_file *f = impl;

    info->scheme = "file";
    info->promise = f->network
                        ? "keeps what the file server keeps; changes by other hosts are polled for"
                        : "keeps every answered write over a power failure of this host";
    info->notifies = !f->network;
    info->shared = true;
    info->batch_max = f->marker.place ? TN_FILE_BATCH_PLACE : TN_FILE_BATCH;
    info->ttl_min_ms = f->network ? TTL_SHARED_MS : 0;
}

static enum tenure_status file_read(void *impl, const char *key, struct tenure_value *value,
                                    int64_t deadline, struct tenure_error *err)
{
    struct tn_file *f = impl;
    struct tn_slot slot;
    struct tn_journal *journal;
    struct tn_journal_reg *reg;
    char group[TENURE_KEY_MAX + 1];
    const char *name;
    enum tenure_status status;

    if (tn_journal_group(f, key, group, &name)) {
        status = tn_journal_look(f, group, name, &journal, &reg, deadline, err);
        return status ? status : tn_journal_deliver(f, journal, reg, value, err);
    }
    status = tn_file_find(f, key, true, &slot, deadline, err);

    return status ? status : tn_file_deliver(f, &slot, value, err);
}

const struct tenure_store_ops tn_store_file = {
    .abi = TENURE_STORE_ABI,
    .scheme = "file",
    .open = file_open,
    .close = file_close,
    .info = file_info,
    .read = file_read,
    .swap = tn_file_swap,
    .swap_many = tn_file_swap_many,
    .wait = tn_file_wait,
    .list = tn_file_list,
    .options = tn_file_options,
};
