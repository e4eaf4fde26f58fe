#include <stdatomic.h>

#include "os/module.h"
#include "replica/link/module.h"

static _Atomic(const struct tn_link_module *) loaded; /* it stays */

static enum tenure_status load(struct tenure_error *err)
{
    void *symbol = NULL;
    bool missing = false;

    if (atomic_load(&loaded))
        return TENURE_OK;
    if (tn_module_load(TN_LINK_MODULE, TN_LINK_SYMBOL, &symbol, &missing, err))
        return tenure_fail_context(err, "replication needs the module " TN_LINK_MODULE
                                        " (Debian: tenure-link, with libwslay1 and libgnutls30)");
    const struct tn_link_module *found = symbol;
    if (found->abi != TN_LINK_ABI)
        return tenure_fail(err, TENURE_UNSUPPORTED, TN_LINK_MODULE " is of another version");
    atomic_store(&loaded, found);
    return TENURE_OK;
}

enum tenure_status tn_transport_open(struct tn_transport **transport,
                                     const struct tn_transport_conf *conf,
                                     const struct tn_transport_events *events, void *ctx,
                                     struct tenure_error *err)
{
    enum tenure_status status = load(err);

    return status ? status : atomic_load(&loaded)->open(transport, conf, events, ctx, err);
}

uint16_t tn_transport_port(const struct tn_transport *transport)
{
    return atomic_load(&loaded)->port(transport);
}

void tn_transport_close(struct tn_transport *transport)
{
    if (transport)
        atomic_load(&loaded)->close(transport);
}

enum tenure_status tn_peer_send(struct tn_peer *peer, const void *bytes, size_t size)
{
    return atomic_load(&loaded)->send(peer, bytes, size);
}

void tn_peer_close(struct tn_peer *peer, const char *why)
{
    atomic_load(&loaded)->close_peer(peer, why);
}
