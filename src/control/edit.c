#include "control/edit.h"

#include <stdlib.h>
#include <string.h>

#include "store/patience.h"

static enum tenure_status try_edit(tenure_store *store, const char *key, tn_edit_fn edit, void *arg,
                                   struct tenure_value *value, int64_t deadline,
                                   struct tenure_error *err)
{
    struct tenure_swap swap = {.key = key};
    struct tn_edit wanted = {0};
    enum tenure_status status = tenure_store_read(store, key, value, deadline, err);

    if (!status)
        status = edit(arg, value, &wanted, err);
    if (status || (!wanted.text && !wanted.tombstone))
        goto done;
    swap.expect = value->token;
    swap.data = wanted.text;
    swap.len = wanted.text ? strlen(wanted.text) : 0;
    swap.tombstone = wanted.tombstone;
    status = tenure_nonce(swap.nonce, err);
    if (!status)
        status = tenure_store_swap(store, &swap, deadline, err);
done:
    free(wanted.text);
    return status;
}

/* Somebody was faster: at once.  A server that refuses changes, or does not say whether it made
 * them, has trouble enough. */
static bool again(enum tenure_status status, int64_t deadline)
{
    return status == TENURE_CONFLICT ? tenure_now() < deadline
                                     : status == TENURE_UNKNOWN && tn_store_pause(deadline);
}

enum tenure_status tn_edit_register(tenure_store *store, const char *key, tn_edit_fn edit,
                                    void *arg, int64_t deadline, struct tenure_error *err)
{
    struct tenure_value value = {0};
    struct tenure_error why = {0};
    bool unsure = false; /* a try before the last may have been done (I6) */
    enum tenure_status status;

    while (again(status = try_edit(store, key, edit, arg, &value, deadline, &why), deadline))
        unsure |= status == TENURE_UNKNOWN;
    tenure_value_free(&value);
    if (unsure && status && status != TENURE_UNKNOWN)
        return tenure_fail(err, TENURE_UNKNOWN, "it may have been done, look again: %s", why.text);
    if (status && err)
        *err = why;
    return status;
}
