/*
 * store/redis/conf.h - what a Redis URL says.
 *
 *   redis://[user[:password]@]host[:port][,host...][/db]?...
 *   redis+unix:///path?...          unix:/path?...
 *   redis+sentinel://host[:port],.../master-name[/db]?...
 *   rediss: and rediss+sentinel: the same over TLS
 */
#ifndef TN_STORE_REDIS_CONF_H
#define TN_STORE_REDIS_CONF_H

#include "store/remote.h"

#define TN_REDIS_PREFIX_MAX 64

enum tn_redis_kind { TN_REDIS_DIRECT, TN_REDIS_UNIX, TN_REDIS_SENTINEL };

struct tn_redis_conf {
    struct tn_remote remote;
    enum tn_redis_kind kind;
    bool tls;
    struct tn_remote_addr hosts[TN_REMOTE_HOSTS]; /* of the server, the cluster or the Sentinels */
    unsigned n_hosts;
    const char *master; /* SENTINEL: what the Sentinels call it */
    bool check;         /* SENTINEL: ask a majority before every call, not only to connect */
    const char *sentinel_user;
    struct tn_secret sentinel_password;
    unsigned db;
    unsigned replicas; /* that must confirm a change before it is OK */
    bool repair;       /* a damaged register is read as it is, and may be replaced */
    char prefix[TN_REDIS_PREFIX_MAX + 1];
    const char *server_name; /* NULL: the host's */
    int cancel_fd; /* readable: whatever is being awaited ends with CANCELLED; -1 for none */
};

extern const struct tn_option tn_redis_options[];

/* Parse into a zeroed one; CONFIG says what is wrong, without secrets.  Free it on failure too. */
enum tenure_status tn_redis_conf_parse(const char *url, struct tn_redis_conf *conf,
                                       struct tenure_error *err);
/* Accepts a zeroed struct. */
void tn_redis_conf_free(struct tn_redis_conf *conf);

#endif
