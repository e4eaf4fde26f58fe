#include <stdio.h>
#include <string.h>

#include "store/consul/consul.h"

const struct tn_option tn_consul_options[] = {
    TN_TEXT_OPTION("token_file", offsetof(struct tn_consul_conf, token.file), "a file", NULL,
                   "its first line is the ACL token; read again at every request"),
    TN_TEXT_OPTION("token_env", offsetof(struct tn_consul_conf, token.env), "a variable", NULL,
                   "the environment variable that holds the ACL token"),
    TN_REPAIR_OPTION(offsetof(struct tn_consul_conf, repair)),
    TN_REMOTE_TLS(struct tn_consul_conf, remote, "consuls"),
    {0},
};

static enum tenure_status check_token(struct tn_consul_conf *c, struct tenure_error *err)
{
    const char *scheme = c->remote.url.scheme;

    if (c->remote.user)
        return tenure_fail(err, TENURE_CONFIG,
                           "%s: Consul has no users: use token_file= or token_env=, or "
                           "%s://:TOKEN@host",
                           scheme, scheme);
    c->token.text = c->remote.password.text;
    if (!!c->token.text + !!c->token.file + !!c->token.env > 1)
        return tenure_fail(err, TENURE_CONFIG,
                           "%s: give the token once: in the URL, by token_file or by token_env",
                           scheme);
    return TENURE_OK;
}

enum tenure_status tn_consul_conf_parse(const char *url, struct tn_consul_conf *c,
                                        struct tenure_error *err)
{
    const char *prefix;
    enum tenure_status status = tn_remote_parse(url, tn_consul_options, c, &c->remote, err);

    if (!status)
        status = tn_remote_origins(&c->remote.url, "8500", "consuls", c->hosts, &c->n_hosts, err);
    if (!status)
        status = tn_remote_prefix(&c->remote.url, TN_CONSUL_PREFIX, &prefix, err);
    if (!status)
        status = check_token(c, err);
    if (status)
        return status;
    snprintf(c->base, sizeof c->base, "%s/", prefix);
    c->http = tn_http_conf_of(&c->remote);
    return TENURE_OK;
}

void tn_consul_conf_free(struct tn_consul_conf *conf)
{
    tn_url_free(&conf->remote.url);
    memset(conf, 0, sizeof *conf);
}
