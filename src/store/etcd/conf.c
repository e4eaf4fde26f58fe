#include <stdio.h>
#include <string.h>

#include "store/etcd/etcd.h"

static const char known[] =
    "user, password_file, password_env, repair; with etcds: ca_file, cert_file, "
    "key_file, verify";

#define LETTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
#define DIGITS  "0123456789"

/* The bytes of "host" or "[v6]" at the beginning of text; 0: there is neither. */
static size_t host_len(const char *text)
{
    size_t n;

    if (*text != '[')
        return strspn(text, LETTERS DIGITS "._-");
    n = strspn(text + 1, "ABCDEFabcdef" DIGITS ":.");
    return n && text[n + 1] == ']' ? n + 2 : 0;
}

/* "host", "host:port" or "[v6]:port", as an endpoint of HTTP. */
static bool add_host(struct tn_etcd_conf *c, const char *text, size_t n)
{
    size_t host = host_len(text);
    bool port = host < n;
    unsigned number = 0;

    if (host == 0 || n > 255 || (port && text[host] != ':'))
        return false;
    for (size_t i = host + 1; i < n; i++) {
        if (text[i] < '0' || text[i] > '9' || number > 65535)
            return false;
        number = number * 10 + (unsigned)(text[i] - '0');
    }
    if (port && (number == 0 || number > 65535))
        return false;
    snprintf(c->hosts[c->n_hosts++], sizeof c->hosts[0], "%s://%.*s%s", c->tls ? "https" : "http",
             (int)n, text, port ? "" : ":2379");
    return true;
}

static enum tenure_status parse_hosts(struct tn_etcd_conf *c, struct tenure_error *err)
{
    const char *text = c->url.hosts;

    if (!*text)
        return tenure_fail(err, TENURE_CONFIG, "%s: needs a host: %s://host:2379/prefix",
                           c->url.scheme, c->url.scheme);
    while (*text) {
        size_t n = strcspn(text, ",");

        if (c->n_hosts == TN_ETCD_HOSTS)
            return tenure_fail(err, TENURE_CONFIG, "%s: more than %d endpoints", c->url.scheme,
                               TN_ETCD_HOSTS);
        if (!add_host(c, text, n))
            return tenure_fail(err, TENURE_CONFIG,
                               "%s: '%.*s' is not an endpoint; write host:port, or [v6]:port",
                               c->url.scheme, n > 60 ? 60 : (int)n, text);
        text += n + (text[n] == ',');
    }
    return TENURE_OK;
}

static enum tenure_status parse_prefix(struct tn_etcd_conf *c, struct tenure_error *err)
{
    char *path = c->url.path;
    size_t n;

    path += *path == '/';
    n = strlen(path);
    if (n && path[n - 1] == '/')
        path[--n] = '\0';
    if (n > TN_ETCD_PREFIX || (n && !tenure_key_valid(path)))
        return tenure_fail(err, TENURE_CONFIG,
                           "%s: the path is the prefix of all keys: at most %d letters, digits or "
                           ". _ - in segments divided by '/'",
                           c->url.scheme, TN_ETCD_PREFIX);
    snprintf(c->base, sizeof c->base, "/%s/", n ? path : "tenure");
    return TENURE_OK;
}

static enum tenure_status parse_secret(struct tn_etcd_conf *c, struct tenure_error *err)
{
    const char *user = tn_url_param(&c->url, "user");
    struct tn_secret *s = &c->password;

    c->user = user ? user : c->url.user && *c->url.user ? c->url.user : NULL;
    s->text = c->url.password;
    s->file = tn_url_param(&c->url, "password_file");
    s->env = tn_url_param(&c->url, "password_env");
    if (!!s->text + !!s->file + !!s->env > 1)
        return tenure_fail(err, TENURE_CONFIG,
                           "%s: give the password once: in the URL, by password_file or by "
                           "password_env",
                           c->url.scheme);
    if (!c->user && (s->text || s->file || s->env))
        return tenure_fail(err, TENURE_CONFIG, "%s: a password needs a user", c->url.scheme);
    return TENURE_OK;
}

static enum tenure_status parse_tls(struct tn_etcd_conf *c, struct tenure_error *err)
{
    const char *verify;

    c->http.cancel_fd = -1;
    if (!c->tls)
        return TENURE_OK;
    c->http.ca_file = tn_url_param(&c->url, "ca_file");
    c->http.cert_file = tn_url_param(&c->url, "cert_file");
    c->http.key_file = tn_url_param(&c->url, "key_file");
    verify = tn_url_param(&c->url, "verify");
    if (verify && strcmp(verify, "full") != 0 && strcmp(verify, "none") != 0)
        return tenure_fail(err, TENURE_CONFIG, "%s: verify must be full or none", c->url.scheme);
    c->http.blind = verify && strcmp(verify, "none") == 0;
    if (c->http.key_file && !c->http.cert_file)
        return tenure_fail(err, TENURE_CONFIG, "%s: key_file needs cert_file", c->url.scheme);
    if (c->http.cert_file && !c->http.key_file)
        c->http.key_file = c->http.cert_file;
    return TENURE_OK;
}

static enum tenure_status parse_repair(struct tn_etcd_conf *c, struct tenure_error *err)
{
    const char *word = tn_url_param(&c->url, "repair");

    if (word && strcmp(word, "yes") != 0 && strcmp(word, "no") != 0)
        return tenure_fail(err, TENURE_CONFIG, "%s: repair=%.40s is neither yes nor no",
                           c->url.scheme, word);
    c->repair = word && strcmp(word, "yes") == 0;
    return TENURE_OK;
}

enum tenure_status tn_etcd_conf_parse(const char *url, struct tn_etcd_conf *conf,
                                      struct tenure_error *err)
{
    struct tn_etcd_conf c = {0};
    enum tenure_status status = tn_url_parse(url, &c.url, err);

    if (status)
        return status;
    c.tls = strcmp(c.url.scheme, "etcds") == 0;
    if ((status = parse_hosts(&c, err)) || (status = parse_prefix(&c, err)) ||
        (status = parse_secret(&c, err)) || (status = parse_tls(&c, err)) ||
        (status = parse_repair(&c, err)) || (status = tn_url_check_params(&c.url, known, err))) {
        tn_etcd_conf_free(&c);
        return status;
    }
    *conf = c;
    return TENURE_OK;
}

void tn_etcd_conf_free(struct tn_etcd_conf *conf)
{
    tn_url_free(&conf->url);
    memset(conf, 0, sizeof *conf);
}
