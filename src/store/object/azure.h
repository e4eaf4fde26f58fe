/* store/object/azure.h - who we are to Azure's storage. */
#ifndef TN_STORE_OBJECT_AZURE_H
#define TN_STORE_OBJECT_AZURE_H

#include "store/object/object.h"

enum tn_azure_kind { TN_AZURE_NONE, TN_AZURE_KEY, TN_AZURE_SAS, TN_AZURE_BEARER };

/* Strings are owned. */
struct tn_azure_login {
    enum tn_azure_kind kind; /* NONE: nothing was loaded yet */
    char *secret; /* the account's key, decoded; a query that is signed already; a token */
    size_t len;
    struct tn_object_lifetime life; /* of a token */
};

/*
 * Keep the login fit for use.  The chain: what the URL names, AZURE_STORAGE_KEY,
 * AZURE_STORAGE_SAS_TOKEN, a workload's federated token, the machine's managed identity.  DENIED
 * if nobody has any; CONFIG if what is there makes no sense.
 */
enum tenure_status tn_azure_login_load(const struct tn_object_conf *conf,
                                       struct tn_azure_login *login, int64_t deadline,
                                       struct tenure_error *err);
/* Accepts a zeroed struct, and leaves one. */
void tn_azure_login_free(struct tn_azure_login *login);

#endif
