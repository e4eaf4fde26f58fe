/* lease/read.h - read one register and decode it; what all public looks at an election do. */
#ifndef TN_LEASE_READ_H
#define TN_LEASE_READ_H

#include "tenure/store.h"

/* Decodes a value into what arg is. */
typedef enum tenure_status (*tn_decode_fn)(void *arg, const struct tenure_value *value,
                                           struct tenure_error *err);

static inline enum tenure_status tn_read_register(tenure_store *store, const char *key,
                                                  tn_decode_fn decode, void *arg, int64_t deadline,
                                                  struct tenure_error *err)
{
    struct tenure_value value = {0};
    enum tenure_status status = tenure_store_read(store, key, &value, deadline, err);

    if (!status)
        status = decode(arg, &value, err);
    tenure_value_free(&value);
    return status;
}

#endif
