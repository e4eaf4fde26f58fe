/* What the URL says: scheme://[user[:password]@]bucket[/prefix]?... */
#include <stdio.h>
#include <string.h>

#include "base/duration.h"
#include "store/object/object.h"

#define AT(member) offsetof(struct tn_object_conf, member)
#define S          INT64_C(1000000000)

const struct tn_option tn_s3_options[] = {
    TN_TEXT_OPTION("endpoint", AT(endpoint), "http(s)://host[:port]", NULL,
                   "the server, if it is not Amazon's"),
    TN_TEXT_OPTION("region", AT(region), "a name", NULL,
                   "where the bucket is; else AWS_REGION, the profile's, us-east-1"),
    TN_WORD_OPTION("addressing", AT(addressing), "auto|path|virtual", "auto", NULL,
                   "the bucket's name stands in the path, or in the host's name"),
    TN_TEXT_OPTION("profile", AT(profile), "a name", NULL,
                   "of ~/.aws/credentials and ~/.aws/config; else AWS_PROFILE, default"),
    TN_TEXT_OPTION("user", AT(remote.user), "a name", NULL,
                   "the access key's ID; else the environment, the profile, the machine's role"),
    TN_TEXT_OPTION("password_file", AT(remote.password.file), "a file", NULL,
                   "its first line is the secret access key; read again when it is refused"),
    TN_TEXT_OPTION("password_env", AT(remote.password.env), "a variable", NULL,
                   "the environment variable that holds the secret access key"),
    TN_TIME_OPTION("poll", AT(poll_ns), S / 100, 60 * S, "1s", NULL,
                   "how often a standby asks whether something has changed"),
    TN_REPAIR_OPTION(AT(repair)),
    TN_REMOTE_TLS(struct tn_object_conf, remote, NULL),
    {0},
};

const struct tn_option tn_azure_options[] = {
    TN_TEXT_OPTION("endpoint", AT(endpoint), "http(s)://host[:port]", NULL,
                   "the server, if it is not Azure's"),
    TN_TEXT_OPTION("account", AT(remote.user), "a name", NULL,
                   "the storage account; else AZURE_STORAGE_ACCOUNT"),
    TN_WORD_OPTION("addressing", AT(addressing), "auto|path|virtual", "auto", NULL,
                   "the account's name stands in the path, or in the host's name"),
    TN_TEXT_OPTION("password_file", AT(remote.password.file), "a file", NULL,
                   "its first line is the account's key; read again when it is refused"),
    TN_TEXT_OPTION("password_env", AT(remote.password.env), "a variable", NULL,
                   "the environment variable that holds the account's key"),
    TN_TEXT_OPTION("sas_file", AT(sas.file), "a file", NULL,
                   "its first line is a shared access signature; read again when it is refused"),
    TN_TEXT_OPTION("sas_env", AT(sas.env), "a variable", NULL,
                   "the environment variable that holds a shared access signature"),
    TN_TIME_OPTION("poll", AT(poll_ns), S / 100, 60 * S, "1s", NULL,
                   "how often a standby asks whether something has changed"),
    TN_REPAIR_OPTION(AT(repair)),
    TN_REMOTE_TLS(struct tn_object_conf, remote, NULL),
    {0},
};

static enum tenure_status parse_bucket(struct tn_object_conf *c, struct tenure_error *err)
{
    const char *name = c->remote.url.hosts;
    size_t n = strlen(name);

    if (n < 3 || n >= sizeof c->bucket || name[0] == '.' || name[0] == '-' ||
        strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-") != n ||
        strstr(name, ".."))
        return tenure_fail(err, TENURE_CONFIG,
                           "%s: name a bucket, of 3 to 63 letters, digits or . - in its name: "
                           "%s://BUCKET/PREFIX",
                           c->remote.url.scheme, c->remote.url.scheme);
    memcpy(c->bucket, name, n + 1);
    return TENURE_OK;
}

enum tenure_status tn_object_conf_parse(const char *url, const struct tn_option *options,
                                        struct tn_object_conf *c, struct tenure_error *err)
{
    const char *prefix;
    enum tenure_status status = tn_remote_parse(url, options, c, &c->remote, err);

    if (!status)
        status = parse_bucket(c, err);
    if (!status)
        status = tn_remote_prefix(&c->remote.url, TN_OBJECT_PREFIX, &prefix, err);
    if (status)
        return status;
    snprintf(c->base, sizeof c->base, "%s/", prefix);
    c->http = tn_http_conf_of(&c->remote);
    return TENURE_OK;
}

void tn_object_conf_free(struct tn_object_conf *conf)
{
    tn_url_free(&conf->remote.url);
    memset(conf, 0, sizeof *conf);
}

enum tenure_status tn_object_set_server(struct tn_object *h, const char *option,
                                        const char *endpoint, const char *label,
                                        struct tenure_error *err)
{
    bool tls = strncmp(endpoint, "https://", 8) == 0;
    const char *host = endpoint + (tls ? 8 : 7), *usual = tls ? ":443" : ":80";
    size_t n = strcspn(host, "/"), skip = strlen(usual);

    if ((!tls && strncmp(endpoint, "http://", 7) != 0) || n == 0 || n > 200 ||
        strlen(host) > n + 1 || strpbrk(host, "?#@% \t\r\n"))
        return tenure_fail(err, TENURE_CONFIG, "%s: %s takes http(s)://host[:port], not '%.100s'",
                           h->vendor->scheme, option, endpoint);
    /* libcurl leaves the usual port out of the header, which is signed. */
    if (n > skip && strncmp(host + n - skip, usual, skip) == 0)
        n -= skip;
    snprintf(h->host, sizeof h->host, "%s%s%.*s", label, *label ? "." : "", (int)n, host);
    snprintf(h->server, sizeof h->server, "%s://%s", tls ? "https" : "http", h->host);
    return TENURE_OK;
}
