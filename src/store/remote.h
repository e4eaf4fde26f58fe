/*
 * store/remote.h - what the URLs of servers share:
 *
 *   scheme://[user[:password]@]host[:port][,host...]/...?user=&password_file=&ca_file=...
 */
#ifndef TN_STORE_REMOTE_H
#define TN_STORE_REMOTE_H

#include "base/options.h"
#include "os/secret.h"

#define TN_REMOTE_HOSTS 8

/* Where one server listens. */
struct tn_remote_addr {
    char host[256]; /* a name, an address, or the path of a socket */
    char port[6];   /* "" for the path of a socket */
    char name[256]; /* what a TLS certificate must be for; "" for host */
};

struct tn_remote {
    struct tn_url url; /* owns the strings below */
    const char *user;
    struct tn_secret password;
    const char *ca_file;   /* NULL: the system's */
    const char *cert_file; /* NULL: no client certificate */
    const char *key_file;
    bool blind; /* verify=none: anybody may pose as the server */
};

/* Rows of a table of options: a login, for schemes that contain scope; the files of TLS. */
#define TN_REMOTE_LOGIN(type, login, secret, before, scope)                                        \
    TN_TEXT_OPTION(before "user", offsetof(type, login), "a name", scope, "whom to log in as"),    \
        TN_TEXT_OPTION(before "password_file", offsetof(type, secret.file), "a file", scope,       \
                       "its first line is the password; read again at every login"),               \
        TN_TEXT_OPTION(before "password_env", offsetof(type, secret.env), "a variable", scope,     \
                       "the environment variable that holds the password")
#define TN_REMOTE_TLS(type, remote, scope)                                                         \
    TN_TEXT_OPTION("ca_file", offsetof(type, remote.ca_file), "a file", scope,                     \
                   "certificates of the authorities to trust, instead of the system's"),           \
        TN_TEXT_OPTION("cert_file", offsetof(type, remote.cert_file), "a file", scope,             \
                       "the client certificate"),                                                  \
        TN_TEXT_OPTION("key_file", offsetof(type, remote.key_file), "a file", scope,               \
                       "its key, if that is in another file"),                                     \
        TN_SWITCH_OPTION("verify", offsetof(type, remote.blind), "full|none", "full", scope,       \
                         "none: do not check who the server is")

/*
 * Parse text, read its options into conf, of which remote is a member, and check login and TLS.
 * CONFIG says what is wrong, without secrets.  tn_url_free() the URL, on failure too.
 */
enum tenure_status tn_remote_parse(const char *text, const struct tn_option *rows, void *conf,
                                   struct tn_remote *remote, struct tenure_error *err);
/* CONFIG if the password is given more than once; before is that of TN_REMOTE_LOGIN(). */
enum tenure_status tn_remote_check_secret(const char *scheme, const struct tn_secret *secret,
                                          const char *before, struct tenure_error *err);
/* The hosts of a URL: at least one, at most TN_REMOTE_HOSTS.  port is for those without one. */
enum tenure_status tn_remote_hosts(const struct tn_url *url, const char *port,
                                   struct tn_remote_addr hosts[TN_REMOTE_HOSTS], unsigned *n,
                                   struct tenure_error *err);

/* The same as "http://host:port", or "https:" if the scheme is tls. */
#define TN_REMOTE_ORIGIN 272
enum tenure_status tn_remote_origins(const struct tn_url *url, const char *port, const char *tls,
                                     char origins[TN_REMOTE_HOSTS][TN_REMOTE_ORIGIN], unsigned *n,
                                     struct tenure_error *err);
/* The path without '/' at its ends, "" if there is none.  Changes the URL's, as which it lives. */
char *tn_remote_path(struct tn_url *url);
/* The path as the prefix of all keys, of at most max bytes, without '/' at its ends; "tenure" if
 * there is none.  Lives as long as the URL, whose path it changes. */
enum tenure_status tn_remote_prefix(struct tn_url *url, size_t max, const char **prefix,
                                    struct tenure_error *err);

/* "host:port" or "[v6]:port", for messages, URLs and comparison. */
#define TN_REMOTE_ADDR_TEXT 264
void tn_remote_addr_text(const struct tn_remote_addr *addr, char out[TN_REMOTE_ADDR_TEXT]);
/* host and port from outside.  False if they cannot be that. */
bool tn_remote_addr_set(struct tn_remote_addr *addr, const char *host, size_t host_len,
                        const char *port, size_t port_len);

#endif
