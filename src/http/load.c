#include "http/module.h"
#include "os/module.h"

enum tenure_status tn_http_load(const struct tn_http_ops **ops, struct tenure_error *err)
{
    void *symbol = NULL;
    bool missing = false;
    enum tenure_status status =
        tn_module_load("tenure-http.so", "tenure_http_module", &symbol, &missing, err);

    if (status)
        return tenure_fail_context(
            err,
            "HTTP needs the module tenure-http.so (Debian: tenure-http, with libmicrohttpd12)");
    const struct tn_http_ops *found = symbol;
    if (found->abi != TN_HTTP_ABI)
        return tenure_fail(err, TENURE_UNSUPPORTED, "tenure-http.so is of another version");
    *ops = found;
    return TENURE_OK;
}
