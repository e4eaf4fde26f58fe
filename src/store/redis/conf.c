#include "store/redis/conf.h"

#include <stdio.h>
#include <string.h>
#include <sys/un.h>

static bool read_prefix(const char *text, void *conf)
{
    struct tn_redis_conf *c = conf;
    size_t n = strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._:/-");

    if (n == 0 || text[n] || n > TN_REDIS_PREFIX_MAX)
        return false;
    memcpy(c->prefix, text, n + 1);
    return true;
}

#define AT(member) offsetof(struct tn_redis_conf, member)
const struct tn_option tn_redis_options[] = {
    TN_OWN_OPTION("prefix", read_prefix, "1 to 64 letters, digits or . _ : / -", "tenure", NULL,
                  "what the names of all keys begin with"),
    TN_NUMBER_OPTION("db", AT(db), 0, 65535, NULL, NULL, "the database, if not in the path"),
    TN_NUMBER_OPTION("replicas", AT(replicas), 0, 100, "0", NULL,
                     "how many replicas must confirm a change"),
    TN_REMOTE_LOGIN(struct tn_redis_conf, remote.user, remote.password, "", NULL),
    TN_REPAIR_OPTION(AT(repair)),
    TN_SWITCH_OPTION("sentinel_check", AT(check), "connect|always", "always", NULL,
                     "when to ask a majority of the Sentinels for the master"),
    TN_REMOTE_LOGIN(struct tn_redis_conf, sentinel_user, sentinel_password, "sentinel_",
                    "+sentinel"),
    TN_REMOTE_TLS(struct tn_redis_conf, remote, "rediss"),
    TN_TEXT_OPTION("server_name", AT(server_name), "a name", "rediss",
                   "what the server's certificate is for, if not for the host"),
    {0},
};

/* "/db", or "/master-name/db".  Cuts the path in place. */
static enum tenure_status parse_path(struct tn_redis_conf *c, const char **db,
                                     struct tenure_error *err)
{
    char *path = c->remote.url.path;

    *db = NULL;
    if (c->kind == TN_REDIS_UNIX) {
        if (c->remote.url.hosts[0] || path[0] != '/' ||
            strlen(path) >= sizeof((struct sockaddr_un *)0)->sun_path)
            return tenure_fail(err, TENURE_CONFIG,
                               "%s: needs the absolute path of a socket (under 108 bytes): "
                               "unix:/run/redis/redis.sock",
                               c->remote.url.scheme);
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
                               c->remote.url.scheme, c->remote.url.scheme);
        c->master = path;
        path = slash ? slash + 1 : path + strlen(path);
    }
    if (*path)
        *db = path;
    return TENURE_OK;
}

static enum tenure_status parse_db(struct tn_redis_conf *c, const char *db,
                                   struct tenure_error *err)
{
    const char *scheme = c->remote.url.scheme;

    if (!db)
        return TENURE_OK;
    if (tn_url_param(&c->remote.url, "db"))
        return tenure_fail(err, TENURE_CONFIG, "%s: give the database once", scheme);
    /* Not repeated: without its slashes it may hold a password. */
    if (strpbrk(db, ":@"))
        return tenure_fail(err, TENURE_CONFIG, "%s: write %s://host:port/database", scheme, scheme);
    return tn_option_read(tn_option_find(tn_redis_options, "db", 2), scheme, db, c, err);
}

enum tenure_status tn_redis_conf_parse(const char *url, struct tn_redis_conf *c,
                                       struct tenure_error *err)
{
    enum tenure_status status = tn_remote_parse(url, tn_redis_options, c, &c->remote, err);
    const char *scheme = c->remote.url.scheme, *db = NULL;

    c->cancel_fd = -1;
    if (status)
        return status;
    c->tls = strncmp(scheme, "rediss", 6) == 0;
    if (strcmp(scheme, "redis+unix") == 0 || strcmp(scheme, "unix") == 0)
        c->kind = TN_REDIS_UNIX;
    else if (strstr(scheme, "+sentinel"))
        c->kind = TN_REDIS_SENTINEL;
    c->check = c->check && c->kind == TN_REDIS_SENTINEL;
    if ((status = parse_path(c, &db, err)) || (status = parse_db(c, db, err)))
        return status;
    if (c->kind != TN_REDIS_UNIX)
        status = tn_remote_hosts(&c->remote.url, c->kind == TN_REDIS_SENTINEL ? "26379" : "6379",
                                 c->hosts, &c->n_hosts, err);
    return status ? status
                  : tn_remote_check_secret(scheme, &c->sentinel_password, "sentinel_", err);
}

void tn_redis_conf_free(struct tn_redis_conf *conf)
{
    tn_url_free(&conf->remote.url);
    memset(conf, 0, sizeof *conf);
}
