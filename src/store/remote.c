#include "store/remote.h"

#include <stdio.h>
#include <string.h>

#include "tenure/store.h"

#define LETTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
#define DIGITS  "0123456789"

/* ---- Addresses ----------------------------------------------------------- */

bool tn_remote_addr_set(struct tn_remote_addr *addr, const char *host, size_t host_len,
                        const char *port, size_t port_len)
{
    unsigned number = 0;

    if (host_len == 0 || host_len >= sizeof addr->host || memchr(host, '\0', host_len) ||
        port_len == 0 || port_len >= sizeof addr->port)
        return false;
    for (size_t i = 0; i < host_len; i++) {
        if ((unsigned char)host[i] <= ' ' || host[i] == '/')
            return false;
    }
    for (size_t i = 0; i < port_len; i++) {
        if (port[i] < '0' || port[i] > '9')
            return false;
        number = number * 10 + (unsigned)(port[i] - '0');
    }
    if (number == 0 || number > 65535)
        return false;
    memset(addr, 0, sizeof *addr);
    memcpy(addr->host, host, host_len);
    memcpy(addr->port, port, port_len);
    return true;
}

void tn_remote_addr_text(const struct tn_remote_addr *addr, char out[TN_REMOTE_ADDR_TEXT])
{
    bool six = strchr(addr->host, ':') != NULL;

    if (addr->port[0])
        snprintf(out, TN_REMOTE_ADDR_TEXT, "%s%s%s:%s", six ? "[" : "", addr->host, six ? "]" : "",
                 addr->port);
    else
        snprintf(out, TN_REMOTE_ADDR_TEXT, "%s", addr->host);
}

/* The bytes of "host" or "[v6]" at the beginning of text; 0: there is neither. */
static size_t host_len(const char *text)
{
    size_t n;

    if (*text != '[')
        return strspn(text, LETTERS DIGITS "._-");
    n = 1 + strspn(text + 1, "ABCDEFabcdef" DIGITS ":.");
    if (!memchr(text, ':', n))
        return 0;
    if (text[n] == '%') /* the zone of a link-local address */
        n += 1 + strspn(text + n + 1, LETTERS DIGITS "._-");
    return text[n] == ']' ? n + 1 : 0;
}

/* One "host", "host:port", "[v6]" or "[v6]:port" of n bytes. */
static bool parse_host(const char *text, size_t n, const char *port, struct tn_remote_addr *addr)
{
    size_t len = host_len(text), brackets = *text == '[';

    if (len == 0 || len > n || (len < n && text[len] != ':'))
        return false;
    return tn_remote_addr_set(addr, text + brackets, len - 2 * brackets,
                              len < n ? text + len + 1 : port,
                              len < n ? n - len - 1 : strlen(port));
}

enum tenure_status tn_remote_hosts(const struct tn_url *url, const char *port,
                                   struct tn_remote_addr hosts[TN_REMOTE_HOSTS], unsigned *n,
                                   struct tenure_error *err)
{
    const char *text = url->hosts;

    if (!*text)
        return tenure_fail(err, TENURE_CONFIG, "%s: needs a host: %s://host:%s/...", url->scheme,
                           url->scheme, port);
    for (*n = 0; *text; ++*n) {
        size_t len = strcspn(text, ",");

        if (*n == TN_REMOTE_HOSTS)
            return tenure_fail(err, TENURE_CONFIG, "%s: more than %d hosts", url->scheme,
                               TN_REMOTE_HOSTS);
        if (parse_host(text, len, port, &hosts[*n])) {
            text += len + (text[len] == ',');
            continue;
        }
        if (strchr(url->path, '@')) /* then this is a part of the password: not to be shown */
            return tenure_fail(err, TENURE_CONFIG,
                               "%s: '@' divides user and host; inside a password or a name write "
                               "%%40 for '@' and %%2F for '/'",
                               url->scheme);
        return tenure_fail(err, TENURE_CONFIG,
                           "%s: '%.*s' is not a host; write host:port, or [v6]:port", url->scheme,
                           len > 60 ? 60 : (int)len, text);
    }
    return TENURE_OK;
}

enum tenure_status tn_remote_origins(const struct tn_url *url, const char *port, const char *tls,
                                     char origins[TN_REMOTE_HOSTS][TN_REMOTE_ORIGIN], unsigned *n,
                                     struct tenure_error *err)
{
    struct tn_remote_addr hosts[TN_REMOTE_HOSTS];
    const char *scheme = strcmp(url->scheme, tls) == 0 ? "https" : "http";
    enum tenure_status status = tn_remote_hosts(url, port, hosts, n, err);

    for (unsigned i = 0; !status && i < *n; i++) {
        char text[TN_REMOTE_ADDR_TEXT];

        tn_remote_addr_text(&hosts[i], text);
        snprintf(origins[i], TN_REMOTE_ORIGIN, "%s://%s", scheme, text);
    }
    return status;
}

char *tn_remote_path(struct tn_url *url)
{
    char *path = url->path + (*url->path == '/');
    size_t n = strlen(path);

    if (n && path[n - 1] == '/')
        path[n - 1] = '\0';
    return path;
}

enum tenure_status tn_remote_prefix(struct tn_url *url, size_t max, const char **prefix,
                                    struct tenure_error *err)
{
    const char *path = tn_remote_path(url);
    size_t n = strlen(path);

    if (n > max || (n && !tenure_key_valid(path)))
        return tenure_fail(err, TENURE_CONFIG,
                           "%s: the path is the prefix of all keys: at most %zu letters, digits or "
                           ". _ - in segments divided by '/'",
                           url->scheme, max);
    *prefix = n ? path : "tenure";
    return TENURE_OK;
}

/* ---- Login and TLS ------------------------------------------------------- */

enum tenure_status tn_remote_check_secret(const char *scheme, const struct tn_secret *secret,
                                          const char *before, struct tenure_error *err)
{
    if (!!secret->text + !!secret->file + !!secret->env <= 1)
        return TENURE_OK;
    return tenure_fail(err, TENURE_CONFIG,
                       "%s: give the password once: in the URL, by %spassword_file or by "
                       "%spassword_env",
                       scheme, before, before);
}

enum tenure_status tn_remote_parse(const char *text, const struct tn_option *rows, void *conf,
                                   struct tn_remote *remote, struct tenure_error *err)
{
    struct tn_url *url = &remote->url;
    enum tenure_status status = tn_url_parse(text, url, err);

    if (!status)
        status = tn_options_read(rows, url, conf, err);
    if (status)
        return status;
    if (!remote->user && url->user && *url->user)
        remote->user = url->user;
    remote->password.text = url->password;
    if (remote->key_file && !remote->cert_file)
        return tenure_fail(err, TENURE_CONFIG, "%s: key_file needs cert_file", url->scheme);
    if (!remote->key_file)
        remote->key_file = remote->cert_file;
    return tn_remote_check_secret(url->scheme, &remote->password, "", err);
}
