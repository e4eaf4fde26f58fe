/* store/builtin.h - the stores that need no client library. */
#ifndef TN_STORE_BUILTIN_H
#define TN_STORE_BUILTIN_H

#include "tenure/store.h"

extern const struct tenure_store_ops tn_store_noop;
extern const struct tenure_store_ops tn_store_memory;
extern const struct tenure_store_ops tn_store_file;

#endif
