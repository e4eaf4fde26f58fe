#include "store/redis/conf.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>

static const char known[] = "prefix, db, user, password_file, password_env, replicas, "
                            "sentinel_user, sentinel_password_file, sentinel_password_env, "
                            "sentinel_check, repair; with rediss: ca_file, cert_file, key_file, "
                            "server_name, verify";

/* ---- Addresses ----------------------------------------------------------- */

bool tn_redis_addr_set(struct tn_redis_addr *addr, const char *host, size_t host_len,
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

void tn_redis_addr_text(const struct tn_redis_addr *addr, char out[TN_REDIS_ADDR_TEXT])
{
    bool six = strchr(addr->host, ':') != NULL;

    if (addr->port[0])
        snprintf(out, TN_REDIS_ADDR_TEXT, "%s%s%s:%s", six ? "[" : "", addr->host, six ? "]" : "",
                 addr->port);
    else
        snprintf(out, TN_REDIS_ADDR_TEXT, "%s", addr->host);
}

/* One "host", "host:port", "[v6]" or "[v6]:port" of n bytes. */
static bool parse_host(const char *text, size_t n, const char *port, struct tn_redis_addr *addr)
{
    const char *host = text, *colon;
    size_t host_len, port_len = strlen(port);

    if (n && text[0] == '[') {
        const char *close = memchr(text, ']', n);

        if (!close)
            return false;
        host = text + 1;
        host_len = (size_t)(close - host);
        colon = close + 1 < text + n ? close + 1 : NULL;
        if (colon && *colon != ':')
            return false;
    } else {
        colon = memchr(text, ':', n);
        host_len = colon ? (size_t)(colon - text) : n;
    }
    if (colon) {
        port = colon + 1;
        port_len = n - (size_t)(port - text);
    }
    return tn_redis_addr_set(addr, host, host_len, port, port_len);
}

static enum tenure_status parse_hosts(struct tn_redis_conf *c, struct tenure_error *err)
{
    const char *text = c->url.hosts;
    const char *port = c->kind == TN_REDIS_SENTINEL ? "26379" : "6379";

    if (!*text)
        return tenure_fail(err, TENURE_CONFIG, "%s: needs a host: %s://host:%s/...", c->url.scheme,
                           c->url.scheme, port);
    while (*text) {
        size_t n = strcspn(text, ",");

        if (c->n_hosts == TN_REDIS_HOSTS)
            return tenure_fail(err, TENURE_CONFIG, "%s: more than %d hosts", c->url.scheme,
                               TN_REDIS_HOSTS);
        if (!parse_host(text, n, port, &c->hosts[c->n_hosts++]))
            return tenure_fail(err, TENURE_CONFIG,
                               "%s: '%.*s' is not a host; write host:port, or [v6]:port",
                               c->url.scheme, n > 60 ? 60 : (int)n, text);
        text += n + (text[n] == ',');
    }
    return TENURE_OK;
}

/* ---- Parameters ---------------------------------------------------------- */

static bool parse_number(const char *text, unsigned max, unsigned *out)
{
    char *end;
    unsigned long n;

    if (text[0] < '0' || text[0] > '9')
        return false;
    errno = 0;
    n = strtoul(text, &end, 10);
    if (errno || *end || n > max)
        return false;
    *out = (unsigned)n;
    return true;
}

static enum tenure_status parse_prefix(struct tn_redis_conf *c, struct tenure_error *err)
{
    const char *text = tn_url_param(&c->url, "prefix");

    if (!text)
        text = "tenure";
    size_t n = strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._:/-");
    if (n == 0 || text[n] || n > TN_REDIS_PREFIX_MAX)
        return tenure_fail(err, TENURE_CONFIG,
                           "%s: prefix must be 1 to %d letters, digits or . _ : / -", c->url.scheme,
                           TN_REDIS_PREFIX_MAX);
    memcpy(c->prefix, text, n + 1);
    return TENURE_OK;
}

static enum tenure_status parse_secret(struct tn_redis_conf *c, const char *file, const char *env,
                                       struct tn_secret *secret, struct tenure_error *err)
{
    secret->file = tn_url_param(&c->url, file);
    secret->env = tn_url_param(&c->url, env);
    if (!!secret->text + !!secret->file + !!secret->env > 1)
        return tenure_fail(err, TENURE_CONFIG,
                           "%s: give the password once: in the URL, by %s or by %s", c->url.scheme,
                           file, env);
    return TENURE_OK;
}

static enum tenure_status parse_counts(struct tn_redis_conf *c, const char *db,
                                       struct tenure_error *err)
{
    const char *param = tn_url_param(&c->url, "db");
    const char *replicas = tn_url_param(&c->url, "replicas");
    const char *check = tn_url_param(&c->url, "sentinel_check");
    const char *repair = tn_url_param(&c->url, "repair");

    if (db && param)
        return tenure_fail(err, TENURE_CONFIG, "%s: give the database once", c->url.scheme);
    if (param)
        db = param;
    /* Not repeated: without its slashes it may hold a password. */
    if (db && strpbrk(db, ":@"))
        return tenure_fail(err, TENURE_CONFIG, "%s: write %s://host:port/database", c->url.scheme,
                           c->url.scheme);
    if (db && *db && !parse_number(db, 65535, &c->db))
        return tenure_fail(err, TENURE_CONFIG, "%s: '%.40s' is not a database number",
                           c->url.scheme, db);
    if (replicas && !parse_number(replicas, 100, &c->replicas))
        return tenure_fail(err, TENURE_CONFIG, "%s: replicas must be 0 to 100", c->url.scheme);
    c->check = c->kind == TN_REDIS_SENTINEL;
    if (check && strcmp(check, "always") != 0 && strcmp(check, "connect") != 0)
        return tenure_fail(err, TENURE_CONFIG, "%s: sentinel_check must be always or connect",
                           c->url.scheme);
    if (check && strcmp(check, "connect") == 0)
        c->check = false;
    if (repair && strcmp(repair, "yes") != 0 && strcmp(repair, "no") != 0)
        return tenure_fail(err, TENURE_CONFIG, "%s: repair=%.40s is neither yes nor no",
                           c->url.scheme, repair);
    c->repair = repair && strcmp(repair, "yes") == 0;
    return TENURE_OK;
}

static enum tenure_status parse_tls(struct tn_redis_conf *c, struct tenure_error *err)
{
    const char *verify;

    if (!c->tls)
        return TENURE_OK;
    c->ca_file = tn_url_param(&c->url, "ca_file");
    c->cert_file = tn_url_param(&c->url, "cert_file");
    c->key_file = tn_url_param(&c->url, "key_file");
    c->server_name = tn_url_param(&c->url, "server_name");
    verify = tn_url_param(&c->url, "verify");
    if (verify && strcmp(verify, "full") != 0 && strcmp(verify, "none") != 0)
        return tenure_fail(err, TENURE_CONFIG, "%s: verify must be full or none", c->url.scheme);
    c->blind = verify && strcmp(verify, "none") == 0;
    if (c->key_file && !c->cert_file)
        return tenure_fail(err, TENURE_CONFIG, "%s: key_file needs cert_file", c->url.scheme);
    if (c->cert_file && !c->key_file)
        c->key_file = c->cert_file;
    return TENURE_OK;
}

/* ---- The whole ----------------------------------------------------------- */

/* "/db", or "/master-name/db".  Cuts the path in place. */
static enum tenure_status parse_path(struct tn_redis_conf *c, const char **db,
                                     struct tenure_error *err)
{
    char *path = c->url.path;

    *db = NULL;
    if (c->kind == TN_REDIS_UNIX) {
        if (c->url.hosts[0] || path[0] != '/' ||
            strlen(path) >= sizeof((struct sockaddr_un *)0)->sun_path)
            return tenure_fail(err, TENURE_CONFIG,
                               "%s: needs the absolute path of a socket (under 108 bytes): "
                               "unix:/run/redis/redis.sock",
                               c->url.scheme);
        snprintf(c->hosts[0].host, sizeof c->hosts[0].host, "%s", path);
        c->n_hosts = 1;
        return TENURE_OK;
    }
    path += *path == '/';
    if (c->kind == TN_REDIS_SENTINEL) {
        char *slash = strchr(path, '/');

        if (slash)
            *slash = '\0';
        if (!*path)
            return tenure_fail(err, TENURE_CONFIG,
                               "%s: needs the master's name: %s://host:26379/mymaster",
                               c->url.scheme, c->url.scheme);
        c->master = path;
        path = slash ? slash + 1 : path + strlen(path);
    }
    if (*path)
        *db = path;
    return TENURE_OK;
}

static enum tenure_status parse(struct tn_redis_conf *c, struct tenure_error *err)
{
    enum tenure_status status;
    const char *scheme = c->url.scheme, *db = NULL, *user;

    c->tls = strncmp(scheme, "rediss", 6) == 0;
    if (strcmp(scheme, "redis+unix") == 0 || strcmp(scheme, "unix") == 0)
        c->kind = TN_REDIS_UNIX;
    else if (strstr(scheme, "+sentinel"))
        c->kind = TN_REDIS_SENTINEL;
    c->password.text = c->url.password;
    user = tn_url_param(&c->url, "user");
    c->user = user ? user : c->url.user && *c->url.user ? c->url.user : NULL;
    if ((status = parse_path(c, &db, err)) || (status = parse_counts(c, db, err)) ||
        (status = parse_prefix(c, err)) ||
        (status = parse_secret(c, "password_file", "password_env", &c->password, err)))
        return status;
    if (c->kind != TN_REDIS_UNIX && (status = parse_hosts(c, err)))
        return status;
    if (c->kind == TN_REDIS_SENTINEL) {
        c->sentinel_user = tn_url_param(&c->url, "sentinel_user");
        status = parse_secret(c, "sentinel_password_file", "sentinel_password_env",
                              &c->sentinel_password, err);
        if (status)
            return status;
    }
    status = parse_tls(c, err);
    return status ? status : tn_url_check_params(&c->url, known, err);
}

enum tenure_status tn_redis_conf_parse(const char *url, struct tn_redis_conf *conf,
                                       struct tenure_error *err)
{
    struct tn_redis_conf c = {.cancel_fd = -1};
    enum tenure_status status = tn_url_parse(url, &c.url, err);

    if (!status)
        status = parse(&c, err);
    if (status)
        tn_redis_conf_free(&c);
    else
        *conf = c;
    return status;
}

void tn_redis_conf_free(struct tn_redis_conf *conf)
{
    tn_url_free(&conf->url);
    memset(conf, 0, sizeof *conf);
}
