/* replica/register.h - the register NAME/replicas as JSON. */
#ifndef TN_REPLICA_REGISTER_H
#define TN_REPLICA_REGISTER_H

#include "core/replica/replica.h"

#define TN_KEY_REPLICAS "/replicas" /* for tn_key_of() of base/key.h */

/* *text is the caller's to free.  NOMEM. */
enum tenure_status tn_register_encode(const struct tn_replica_set *set, char **text,
                                      struct tenure_error *err);
/* CORRUPT: not what a node has written. */
enum tenure_status tn_register_decode(const void *bytes, size_t size, struct tn_replica_set *set,
                                      struct tenure_error *err);

#endif
