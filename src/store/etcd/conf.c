#include <stdio.h>
#include <string.h>

#include "store/etcd/etcd.h"

const struct tn_option tn_etcd_options[] = {
    TN_REMOTE_LOGIN(struct tn_etcd_conf, remote.user, remote.password, "", NULL),
    TN_REPAIR_OPTION(offsetof(struct tn_etcd_conf, repair)),
    TN_REMOTE_TLS(struct tn_etcd_conf, remote, "etcds"),
    {0},
};

enum tenure_status tn_etcd_conf_parse(const char *url, struct tn_etcd_conf *c,
                                      struct tenure_error *err)
{
    const struct tn_secret *password = &c->remote.password;
    const char *prefix;
    enum tenure_status status = tn_remote_parse(url, tn_etcd_options, c, &c->remote, err);

    if (!status)
        status = tn_remote_origins(&c->remote.url, "2379", "etcds", c->hosts, &c->n_hosts, err);
    if (!status)
        status = tn_remote_prefix(&c->remote.url, TN_ETCD_PREFIX, &prefix, err);
    if (status)
        return status;
    snprintf(c->base, sizeof c->base, "/%s/", prefix);
    if (!c->remote.user && (password->text || password->file || password->env))
        return tenure_fail(err, TENURE_CONFIG, "%s: a password needs a user", c->remote.url.scheme);
    c->http = tn_http_conf_of(&c->remote);
    return TENURE_OK;
}

void tn_etcd_conf_free(struct tn_etcd_conf *conf)
{
    tn_url_free(&conf->remote.url);
    memset(conf, 0, sizeof *conf);
}
