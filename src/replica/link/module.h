/*
 * replica/link/module.h - tenure-link.so: replica/transport.h over WebSocket and TLS.
 *
 * A module of its own, so that a copy that nobody connects to maps neither GnuTLS nor wslay.
 * load.c calls it.
 */
#ifndef TN_REPLICA_LINK_MODULE_H
#define TN_REPLICA_LINK_MODULE_H

#include "replica/transport.h"

#define TN_LINK_MODULE "tenure-link.so"
#define TN_LINK_SYMBOL "tenure_link_module"
#define TN_LINK_ABI    1

/* Each as its namesake in replica/transport.h. */
struct tn_link_module {
    uint32_t abi;
    enum tenure_status (*open)(struct tn_transport **transport,
                               const struct tn_transport_conf *conf,
                               const struct tn_transport_events *events, void *ctx,
                               struct tenure_error *err);
    uint16_t (*port)(const struct tn_transport *transport);
    void (*close)(struct tn_transport *transport);
    enum tenure_status (*send)(struct tn_peer *peer, const void *bytes, size_t size);
    void (*close_peer)(struct tn_peer *peer, const char *why);
};

#endif
