#include "store/raw.h"

static enum tenure_status decode(const struct tn_raw_ops *ops, void *impl, const char *key,
                                 const void *raw, bool repair, struct tenure_value *value,
                                 struct tenure_error *err)
{
    enum tenure_status status =
        raw ? ops->decode(impl, key, raw, value, err) : tenure_value_absent(value, err);

    return status == TENURE_CORRUPT && repair ? ops->take_damaged(impl, key, raw, value, err)
                                              : status;
}

enum tenure_status tn_raw_read(const struct tn_raw_ops *ops, void *impl, const char *key,
                               bool repair, struct tenure_value *value, int64_t deadline,
                               struct tenure_error *err)
{
    void *raw = NULL;
    enum tenure_status status = ops->read(impl, key, deadline, &raw, err);

    if (!status)
        status = decode(ops, impl, key, raw, repair, value, err);
    if (raw)
        ops->free(raw);
    return status;
}

enum tenure_status tn_raw_read_known(const struct tn_raw_ops *ops, struct tn_watcher *watcher,
                                     const char *key, bool repair, struct tenure_value *value,
                                     int64_t deadline, struct tenure_error *err)
{
    enum tenure_status status = tn_raw_read(ops, watcher->impl, key, repair, value, deadline, err);

    if (!status)
        tn_watcher_learn(watcher, key, &value->token);
    return status;
}

enum tenure_status tn_raw_swap(const struct tn_raw_ops *ops, void *impl, struct tenure_swap *swap,
                               int64_t deadline, struct tenure_error *err)
{
    struct tenure_value value = {0};
    void *raw = NULL;
    enum tenure_status status = ops->read(impl, swap->key, deadline, &raw, err);

    if (!status)
        status = decode(ops, impl, swap->key, raw, true, &value, err);
    if (!status && (!raw || !tenure_token_equal(&value.token, &swap->expect)))
        status = tenure_fail(err, TENURE_CONFLICT, "%s has changed", swap->key);
    if (!status)
        status = ops->replace(impl, swap, raw, deadline, err);
    tenure_value_free(&value);
    if (raw)
        ops->free(raw);
    return swap->status = status;
}
