/*
 * store/kube/label.h - a label of a pod, for Services that select the leader.
 *
 * Not part of the store: the module has the client of the API server, and exports this beside its
 * table.
 */
#ifndef TN_STORE_KUBE_LABEL_H
#define TN_STORE_KUBE_LABEL_H

#include <stdint.h>

#include "tenure/status.h"

#define TN_KUBE_LABEL_SYMBOL "tenure_kube_label_pod"

/* Set KEY of the pod, in the namespace and with the account of url (kube:...), by deadline. Blocks.
 * CONFIG: there is no such pod; INVALID: the server refuses the label; DENIED: the right is
 * missing. */
typedef enum tenure_status tn_kube_label_fn(const char *url, const char *pod, const char *key,
                                            const char *value, int64_t deadline,
                                            struct tenure_error *err);

#endif
