#include "lease/floor.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>

#include "base/key.h"
#include "core/lease.h"

enum tenure_status tn_floor_damaged(struct tenure_error *err)
{
    return tenure_fail(err, TENURE_CORRUPT,
                       "register " TN_KEY_REMOVED " is damaged, so the epochs of removed elections "
                       "are not known; repair it with `tenure reset --removed`");
}

enum tenure_status tn_floor_see(const struct tenure_value *value, uint64_t *epoch,
                                struct tenure_error *err)
{
    json_t *object, *number;

    if (tenure_token_absent(&value->token)) {
        *epoch = 0;
        return TENURE_OK;
    }
    object = json_loadb((const char *)value->data, value->len, 0, NULL);
    number = json_object_get(object, "epoch");
    json_int_t found = json_integer_value(number);
    json_decref(object);
    /* An epoch that leaves no room for a higher one would end every election. */
    if (value->tombstone || found < 1 || found >= (json_int_t)TN_EPOCH_MAX - 1)
        return tn_floor_damaged(err);
    *epoch = (uint64_t)found;
    return TENURE_OK;
}

enum tenure_status tn_floor_read(tenure_store *store, uint64_t *epoch, struct tenure_token *token,
                                 int64_t deadline, struct tenure_error *err)
{
    struct tenure_value value = {0};
    enum tenure_status status = tenure_store_read(store, TN_KEY_REMOVED, &value, deadline, err);

    if (status == TENURE_CORRUPT)
        tn_floor_damaged(err);
    if (!status)
        status = tn_floor_see(&value, epoch, err);
    *token = value.token;
    tenure_value_free(&value);
    return status;
}

enum tenure_status tn_floor_write(tenure_store *store, const struct tenure_token *expect,
                                  uint64_t epoch, int64_t deadline, struct tenure_error *err)
{
    char text[48];
    struct tenure_swap swap = {.key = TN_KEY_REMOVED, .expect = *expect, .data = text};
    enum tenure_status status = tenure_nonce(swap.nonce, err);

    swap.len = (size_t)snprintf(text, sizeof text, "{\"epoch\":%" PRIu64 "}", epoch);
    return status ? status : tenure_store_swap(store, &swap, deadline, err);
}
