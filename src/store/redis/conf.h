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

#include <stddef.h>
#include <stdint.h>

#include "base/url.h"
#include "os/secret.h"

#define TN_REDIS_HOSTS      8
#define TN_REDIS_PREFIX_MAX 64

/* Where one server listens. */
struct tn_redis_addr {
    char host[256]; /* a name, an address, or the path of a socket */
    char port[6];   /* "" for the path of a socket */
    char name[256]; /* what a TLS certificate must be for; "" for host */
};

enum tn_redis_kind { TN_REDIS_DIRECT, TN_REDIS_UNIX, TN_REDIS_SENTINEL };

struct tn_redis_conf {
    struct tn_url url; /* owns the strings below */
    enum tn_redis_kind kind;
    bool tls;
    struct tn_redis_addr hosts[TN_REDIS_HOSTS]; /* of the server, the cluster or the Sentinels */
    unsigned n_hosts;
    const char *master; /* SENTINEL: what the Sentinels call it */
    bool check;         /* SENTINEL: ask a majority before every call, not only to connect */
    const char *user;
    struct tn_secret password;
    const char *sentinel_user;
    struct tn_secret sentinel_password;
    unsigned db;
    unsigned replicas; /* that must confirm a change before it is OK */
    bool repair;       /* a damaged register is read as it is, and may be replaced */
    char prefix[TN_REDIS_PREFIX_MAX + 1];
    const char *ca_file;   /* NULL: the system's */
    const char *cert_file; /* NULL: no client certificate */
    const char *key_file;
    const char *server_name; /* NULL: the host's */
    bool blind;              /* verify=none: anybody may pose as the server */
    int cancel_fd; /* readable: whatever is being awaited ends with CANCELLED; -1 for none */
};

/* Parse; CONFIG says what is wrong, without secrets.  On failure conf is untouched. */
enum tenure_status tn_redis_conf_parse(const char *url, struct tn_redis_conf *conf,
                                       struct tenure_error *err);
/* Accepts a zeroed struct. */
void tn_redis_conf_free(struct tn_redis_conf *conf);

/* "host:port", for messages and comparison. */
#define TN_REDIS_ADDR_TEXT 264
void tn_redis_addr_text(const struct tn_redis_addr *addr, char out[TN_REDIS_ADDR_TEXT]);
/* host and port from outside (a Sentinel, MOVED).  False if they make no sense. */
bool tn_redis_addr_set(struct tn_redis_addr *addr, const char *host, size_t host_len,
                       const char *port, size_t port_len);

#endif
