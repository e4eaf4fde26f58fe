/* replica/status.h - what a copy and the register say of a replicated state: see module.h. */
#ifndef TN_REPLICA_STATUS_H
#define TN_REPLICA_STATUS_H

#include "replica/module.h"

enum tenure_status tn_replica_status(const struct tn_replica_host *host, const char *url,
                                     const char *store, const char *name, int64_t deadline,
                                     char **json, struct tenure_error *err);

#endif
