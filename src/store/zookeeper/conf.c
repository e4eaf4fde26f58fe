#include <stdio.h>
#include <string.h>

#include "store/zookeeper/zookeeper.h"

const struct tn_option tn_zk_options[] = {
    TN_REMOTE_LOGIN(struct tn_zk_conf, remote.user, remote.password, "", NULL),
    TN_REPAIR_OPTION(offsetof(struct tn_zk_conf, repair)),
    {0},
};

static enum tenure_status parse_prefix(struct tn_zk_conf *c, struct tenure_error *err)
{
    const char *path = tn_remote_path(&c->remote.url);
    size_t n = strlen(path);

    if (n > TN_ZK_PREFIX || (n && !tenure_key_valid(path)))
        return tenure_fail(err, TENURE_CONFIG,
                           "zookeeper: the path is the node that all registers stand under: at "
                           "most %d letters, digits or . _ - in segments divided by '/'",
                           TN_ZK_PREFIX);
    snprintf(c->base, sizeof c->base, "/%s", n ? path : "tenure");
    return TENURE_OK;
}

enum tenure_status tn_zk_conf_parse(const char *url, struct tn_zk_conf *c, struct tenure_error *err)
{
    const struct tn_secret *password = &c->remote.password;
    enum tenure_status status = tn_remote_parse(url, tn_zk_options, c, &c->remote, err);

    if (status || (status = tn_remote_hosts(&c->remote.url, "2181", c->hosts, &c->n_hosts, err)) ||
        (status = parse_prefix(c, err)))
        return status;
    bool secret = password->text || password->file || password->env;
    if (!c->remote.user != !secret)
        return tenure_fail(err, TENURE_CONFIG, "zookeeper: a %s",
                           secret ? "password needs a user"
                                  : "user needs a password: password_file=FILE");
    if (c->remote.user && strchr(c->remote.user, ':'))
        return tenure_fail(err, TENURE_CONFIG, "zookeeper: the user's name must not have a ':'");
    return TENURE_OK;
}
