/* replica/conf.h - what a URL of a replicated state says: replica:///PATH?listen=...&peer=... */
#ifndef TN_REPLICA_CONF_H
#define TN_REPLICA_CONF_H

#include <stdint.h>

#include "base/options.h"

#define TN_REPLICA_PEERS 7u /* nodes besides this one */

struct tn_replica_conf {
    struct tn_url url; /* the strings point into it */
    const char *path;
    const char *listen, *peers;
    const char *cert, *key, *ca, *token_file;
    bool plain, preview;
    bool async;
    unsigned acks; /* standbys that have a change before it is acknowledged; 0: available */
    unsigned unpublished, max_lag;
    int64_t heartbeat_ns, timeout_ns;

    char *list; /* the peers, cut */
    const char *target[TN_REPLICA_PEERS];
    unsigned targets;
};

extern const struct tn_option tn_replica_options[];

/* CONFIG names what is wrong.  Free it in any case; zeroed before. */
enum tenure_status tn_replica_conf_read(const char *url, struct tn_replica_conf *conf,
                                        struct tenure_error *err);
void tn_replica_conf_free(struct tn_replica_conf *conf);

#endif
