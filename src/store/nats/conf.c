#include <string.h>

#include "store/nats/nats.h"

#define CONF(member) offsetof(struct tn_nats_conf, member)

const struct tn_option tn_nats_options[] = {
    TN_REMOTE_LOGIN(struct tn_nats_conf, remote.user, remote.password, "", NULL),
    TN_TEXT_OPTION("token_file", CONF(token.file), "a file", NULL,
                   "its first line is the token; read again at every login"),
    TN_TEXT_OPTION("token_env", CONF(token.env), "a variable", NULL,
                   "the environment variable that holds the token"),
    TN_TEXT_OPTION("creds_file", CONF(creds_file), "a file", NULL,
                   "a user's credentials, as nsc writes them"),
    TN_TEXT_OPTION("nkey", CONF(nkey), "a public key", NULL, "whom to log in as, with nkey_file"),
    TN_TEXT_OPTION("nkey_file", CONF(nkey_file), "a file", NULL, "the seed of the nkey"),
    TN_NUMBER_OPTION("replicas", CONF(replicas), 1, 5, "1", NULL,
                     "servers that keep the bucket, if it is made"),
    TN_SWITCH_OPTION("sync", CONF(synced), "default|always", "default", NULL,
                     "always: the servers have sync_interval: always"),
    TN_REPAIR_OPTION(CONF(repair)),
    TN_REMOTE_TLS(struct tn_nats_conf, remote, "natss"),
    {0},
};

static enum tenure_status parse_bucket(struct tn_nats_conf *c, struct tenure_error *err)
{
    const char *path = tn_remote_path(&c->remote.url);
    size_t n = strlen(path);

    if (n > TN_NATS_BUCKET_MAX ||
        strspn(path, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-") != n)
        return tenure_fail(err, TENURE_CONFIG,
                           "%s: the path is the name of the bucket: at most %d letters, digits, "
                           "'_' or '-'",
                           c->remote.url.scheme, TN_NATS_BUCKET_MAX);
    c->bucket = n ? path : "tenure";
    return TENURE_OK;
}

/* One way to log in, or none. */
static enum tenure_status check_login(const struct tn_nats_conf *c, struct tenure_error *err)
{
    const struct tn_secret *password = &c->remote.password;
    const char *scheme = c->remote.url.scheme;
    bool secret = password->text || password->file || password->env;
    bool token = c->token.file || c->token.env;

    if (!c->remote.user != !secret)
        return tenure_fail(err, TENURE_CONFIG, "%s: a %s", scheme,
                           secret ? "password needs a user; a token: token_file=FILE"
                                  : "user needs a password: password_file=FILE");
    if (!c->nkey != !c->nkey_file)
        return tenure_fail(err, TENURE_CONFIG,
                           "%s: nkey=PUBLIC_KEY and nkey_file=FILE belong together", scheme);
    if (c->token.file && c->token.env)
        return tenure_fail(err, TENURE_CONFIG,
                           "%s: give the token once: by token_file or token_env", scheme);
    if (secret + token + !!c->creds_file + !!c->nkey > 1)
        return tenure_fail(err, TENURE_CONFIG,
                           "%s: log in one way: a user and a password, a token, creds_file or an "
                           "nkey",
                           scheme);
    return TENURE_OK;
}

enum tenure_status tn_nats_conf_parse(const char *url, struct tn_nats_conf *c,
                                      struct tenure_error *err)
{
    enum tenure_status status = tn_remote_parse(url, tn_nats_options, c, &c->remote, err);

    if (!status)
        status = tn_remote_hosts(&c->remote.url, "4222", c->hosts, &c->n_hosts, err);
    if (!status)
        status = parse_bucket(c, err);
    if (!status)
        status = check_login(c, err);
    return status;
}
