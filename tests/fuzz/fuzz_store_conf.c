/*
 * What the URLs of postgres:, etcd:, consul: and redis: say.  The first byte chooses the
 * scheme, the rest stands behind it; a password is put into it as well.  What
 * is taken is within bounds, and no refusal shows the password.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "check.h"
#include "store/consul/consul.h"
#include "store/etcd/etcd.h"
#include "store/postgres/postgres.h"
#include "store/redis/conf.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MARKER "S3cr3tS3cr3t"

static enum tenure_status check_postgres(const char *url, struct tenure_error *err)
{
    struct tn_pg_conf c = {0}, again = {0};
    enum tenure_status status = tn_pg_conf_parse(url, &c, err);

    if (status) {
        assert(!c.uri);
        return status;
    }
    assert(strncmp(c.uri, "postgresql://", 13) == 0 && strlen(c.uri) <= strlen(url) + 10);
    assert(tn_pg_schema_valid(c.schema) && memchr(c.key_name, '\0', sizeof c.key_name));
    assert(c.poll_ns > 0 && c.retry_ns > 0);
    assert(c.key_kind != TN_PG_KEY_NAME || tenure_key_valid(c.key_name));
    /* Nothing of ours is left in what libpq gets. */
    status = tn_pg_conf_parse(c.uri, &again, err);
    assert(!status && strcmp(again.uri, c.uri) == 0);
    assert(strcmp(again.schema, TN_PG_SCHEMA) == 0 && again.create && again.notify &&
           !again.repair);
    tn_pg_conf_free(&again);
    tn_pg_conf_free(&c);
    return TENURE_OK;
}

static enum tenure_status check_etcd(const char *url, struct tenure_error *err)
{
    bool tls = strncmp(url, "etcds", 5) == 0;
    struct tn_etcd_conf c = {0};
    enum tenure_status status = tn_etcd_conf_parse(url, &c, err);

    if (status) {
        tn_etcd_conf_free(&c);
        return status;
    }
    assert(c.n_hosts >= 1 && c.n_hosts <= TN_REMOTE_HOSTS);
    for (unsigned i = 0; i < c.n_hosts; i++) {
        const char *host = c.hosts[i] + (tls ? 8 : 7);

        CHECK_TEXT(c.hosts[i]);
        assert(strncmp(c.hosts[i], tls ? "https://" : "http://", tls ? 8 : 7) == 0);
        assert(*host && *host != ':' && strrchr(host, ':') && atoi(strrchr(host, ':') + 1) > 0);
    }
    size_t n = strnlen(c.base, sizeof c.base);
    assert(n >= 3 && n < sizeof c.base && c.base[0] == '/' && c.base[n - 1] == '/');
    c.base[n - 1] = '\0';
    assert(tenure_key_valid(c.base + 1));
    assert(!c.http.cert_file == !c.http.key_file && (tls || !c.http.ca_file));
    tn_etcd_conf_free(&c);
    return TENURE_OK;
}

static enum tenure_status check_consul(const char *url, struct tenure_error *err)
{
    bool tls = strncmp(url, "consuls", 7) == 0;
    struct tn_consul_conf c = {0};
    enum tenure_status status = tn_consul_conf_parse(url, &c, err);

    if (status) {
        tn_consul_conf_free(&c);
        return status;
    }
    assert(c.n_hosts >= 1 && c.n_hosts <= TN_REMOTE_HOSTS);
    for (unsigned i = 0; i < c.n_hosts; i++)
        CHECK_TEXT(c.hosts[i]);
    size_t n = strnlen(c.base, sizeof c.base);
    assert(n >= 2 && n < sizeof c.base && c.base[n - 1] == '/');
    c.base[n - 1] = '\0';
    assert(tenure_key_valid(c.base));
    assert(!!c.token.text + !!c.token.file + !!c.token.env <= 1);
    assert(!c.http.cert_file == !c.http.key_file && (tls || !c.http.ca_file));
    tn_consul_conf_free(&c);
    return TENURE_OK;
}

/* An address as it is shown says the same when it is read. */
static void check_addr(const struct tn_remote_addr *addr)
{
    struct tn_redis_conf again = {0};
    char text[TN_REMOTE_ADDR_TEXT], url[TN_REMOTE_ADDR_TEXT + 16];

    tn_remote_addr_text(addr, text);
    assert(memchr(text, '\0', sizeof text));
    if (!addr->port[0] || strpbrk(addr->host, "?@,[]/%"))
        return; /* the path of a socket, or what a URL would divide or decode */
    snprintf(url, sizeof url, "redis://%s", text);
    enum tenure_status status = tn_redis_conf_parse(url, &again, NULL);
    assert(!status && again.n_hosts == 1);
    assert(strcmp(again.hosts[0].host, addr->host) == 0);
    assert(strcmp(again.hosts[0].port, addr->port) == 0);
    tn_redis_conf_free(&again);
}

static enum tenure_status check_redis(const char *url, struct tenure_error *err)
{
    struct tn_redis_conf c = {0};
    enum tenure_status status = tn_redis_conf_parse(url, &c, err);

    if (status) {
        tn_redis_conf_free(&c);
        return status;
    }
    assert(c.n_hosts >= 1 && c.n_hosts <= TN_REMOTE_HOSTS && c.db <= 65535 && c.replicas <= 100);
    CHECK_TEXT(c.prefix);
    assert(c.prefix[0] && (c.kind != TN_REDIS_SENTINEL || c.master[0]));
    assert(c.tls || (!c.remote.ca_file && !c.remote.cert_file && !c.remote.key_file &&
                     !c.server_name && !c.remote.blind));
    for (unsigned i = 0; i < c.n_hosts; i++) {
        assert(c.hosts[i].host[0] && (c.kind == TN_REDIS_UNIX) == !c.hosts[i].port[0]);
        check_addr(&c.hosts[i]);
    }
    tn_redis_conf_free(&c);
    return TENURE_OK;
}

static const struct {
    const char *scheme;
    enum tenure_status (*check)(const char *url, struct tenure_error *err);
} kinds[] = {
    {"postgres", check_postgres},
    {"postgres+advisory", check_postgres},
    {"etcd", check_etcd},
    {"etcds", check_etcd},
    {"consul", check_consul},
    {"consuls", check_consul},
    {"redis", check_redis},
    {"rediss", check_redis},
    {"redis+sentinel", check_redis},
    {"redis+unix", check_redis},
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char url[2 * TN_URL_MAX];
    struct tenure_error err = {0};

    if (size == 0 || size > TN_URL_MAX)
        return 0;
    size_t kind = data[0] % (sizeof kinds / sizeof kinds[0]);
    char *rest = strndup((const char *)data + 1, size - 1);
    if (!rest)
        return 0;
    snprintf(url, sizeof url, "%s:%s", kinds[kind].scheme, rest);
    enum tenure_status status = kinds[kind].check(url, &err);
    if (status)
        check_refusal(&err, status);
    /* The rest must not take the password's place. */
    if (!strstr(rest, MARKER)) {
        snprintf(url, sizeof url, "%s://user:" MARKER "@%s", kinds[kind].scheme, rest);
        err.text[0] = '\0';
        kinds[kind].check(url, &err);
        assert(!strstr(err.text, MARKER));
    }
    free(rest);
    return 0;
}
