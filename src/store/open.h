/*
 * store/open.h - opening a handle of a store that is a server: read the URL, reach the server, and
 * ask again for a while if it is there but not ready yet (it starts, loads its data, elects a
 * leader, or has too much to do).
 */
#ifndef TN_STORE_OPEN_H
#define TN_STORE_OPEN_H

#include "tenure/store.h"

struct tn_opener {
    size_t size; /* of the handle, which is zeroed */
    enum tenure_status (*configure)(void *impl, const char *url, struct tenure_error *err);
    /* Everything that can be wrong must show.  *unready with UNAVAILABLE: ask again.  May be NULL.
     */
    enum tenure_status (*reach)(void *impl, int64_t deadline, bool *unready,
                                struct tenure_error *err);
    void (*close)(void *impl); /* also of a handle that could not be configured */
};

/* open() of struct tenure_store_ops. */
enum tenure_status tn_open(const struct tn_opener *opener, const char *url, int64_t deadline,
                           void **impl, struct tenure_error *err);

#endif
