/*
 * replica/module.h - what the process that runs an election asks of tenure-store-replica.so.
 *
 * The store replica: reads a copy wherever it is.  To receive, to lead and to acknowledge a process
 * must run its driver: `tenure run` starts it before it contends and stops it at the end, so that a
 * standby receives while it does not lead.  Handles of the store that the same process opens find
 * the driver by the file.
 */
#ifndef TN_REPLICA_MODULE_H
#define TN_REPLICA_MODULE_H

#include "tenure/store.h"

#define TN_REPLICA_MODULE "tenure-store-replica.so"
#define TN_REPLICA_SYMBOL "tenure_replica_module"
#define TN_REPLICA_ABI    1

struct tn_replica_driver;

/* What the module needs of the program that has loaded it. */
struct tn_replica_host {
    enum tenure_status (*open)(const char *url, int64_t deadline, tenure_store **store,
                               struct tenure_error *err);
    void (*close)(tenure_store *store);
    enum tenure_status (*read)(tenure_store *store, const char *key, struct tenure_value *value,
                               int64_t deadline, struct tenure_error *err);
    enum tenure_status (*swap)(tenure_store *store, struct tenure_swap *swap, int64_t deadline,
                               struct tenure_error *err);
    /* May be NULL. */
    void (*log)(const char *event, const char *format, ...) TENURE_PRINTF(2, 3);
};

struct tn_replica_module {
    uint32_t abi; /* TN_REPLICA_ABI */
    /*
     * Open the copy of url (replica:...), listen and connect.  store: the lease's, where the
     * replica set has its register; node: what this candidate is called.  Strings are copied.
     */
    enum tenure_status (*start)(const struct tn_replica_host *host, const char *url,
                                const char *store, const char *name, const char *node,
                                struct tn_replica_driver **driver, struct tenure_error *err);
    /* Accepts NULL. */
    void (*stop)(struct tn_replica_driver *driver);
    /* What the file of url and the register say, as JSON, for the caller to free.  Needs no driver.
     */
    enum tenure_status (*status)(const struct tn_replica_host *host, const char *url,
                                 const char *store, const char *name, int64_t deadline, char **json,
                                 struct tenure_error *err);
};

#endif
