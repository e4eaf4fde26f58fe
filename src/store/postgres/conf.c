/* The URL: what is ours is taken out, what remains is libpq's to understand. */
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/duration.h"
#include "base/url.h"
#include "store/postgres/postgres.h"

#define SECOND INT64_C(1000000000)

/* The first five are for both schemes, the others for postgres+advisory: alone. */
static const char *const own_names[] = {"schema", "create", "notify", "poll",
                                        "repair", "key",    "retry",  "takeover_delay"};
#define OWN_NAMES (sizeof own_names / sizeof own_names[0])
#define OWN_ROW   5

static bool is_own(const char *name, size_t len, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (strlen(own_names[i]) == len && memcmp(own_names[i], name, len) == 0)
            return true;
    }
    return false;
}

static bool libpq_knows(const char *name)
{
    PQconninfoOption *all = PQconndefaults();
    bool found = strcmp(name, "ssl") == 0; /* "ssl=true", which libpq takes for JDBC's sake */

    for (PQconninfoOption *o = all; o && o->keyword && !found; o++)
        found = strcmp(o->keyword, name) == 0;
    PQconninfoFree(all);
    return found;
}

/* ---- What libpq gets ----------------------------------------------------- */

/* "postgresql://…" with our own parameters left out.  Escapes stay as they are. */
static char *strip(const char *url)
{
    const char *rest = strstr(url, "://") + 3;
    size_t head = strcspn(rest, "?");
    char *uri = malloc(strlen("postgresql://") + strlen(rest) + 1);
    char divider = '?';

    if (!uri)
        return NULL;
    char *to = stpcpy(uri, "postgresql://");
    to = mempcpy(to, rest, head);
    for (const char *p = rest + head; *p;) {
        size_t n = strcspn(p + 1, "&");
        if (n > 0 && !is_own(p + 1, strcspn(p + 1, "=&"), OWN_NAMES)) {
            *to++ = divider;
            to = mempcpy(to, p + 1, n);
            divider = '&';
        }
        p += 1 + n;
    }
    *to = '\0';
    return uri;
}

/* libpq's own words may repeat the URL, password and all: say it in ours. */
static enum tenure_status check_uri(const char *uri, const char *scheme, struct tenure_error *err)
{
    char *why = NULL;
    PQconninfoOption *options = PQconninfoParse(uri, &why);

    PQfreemem(why);
    if (!options)
        return tenure_fail(err, TENURE_CONFIG,
                           "%s: libpq cannot read the URL; write "
                           "%s://user@host:port/database?name=value, with %%-escapes for "
                           "characters that divide",
                           scheme, scheme);
    PQconninfoFree(options);
    return TENURE_OK;
}

/* A '/' or a second '@' in a password makes part of it look like a host: catch
 * that before any message shows it. */
static enum tenure_status check_at(const char *url, const char *scheme, struct tenure_error *err)
{
    const char *authority = strstr(url, "://");
    if (!authority)
        return tenure_fail(err, TENURE_CONFIG,
                           "%s: the URL needs '//'; write %s://user@host:port/database", scheme,
                           scheme);
    authority += 3;
    size_t host = strcspn(authority, "/?");
    size_t path = strcspn(authority, "?");
    const char *at = memchr(authority, '@', path);
    if (at && (at >= authority + host || memchr(at + 1, '@', path - (size_t)(at + 1 - authority))))
        return tenure_fail(err, TENURE_CONFIG,
                           "%s: '@' divides user and host; inside a password or a name write %%40 "
                           "for '@' and %%2F for '/'",
                           scheme);
    return TENURE_OK;
}

/* ---- What is ours -------------------------------------------------------- */

static enum tenure_status parse_switch(struct tn_url *url, const char *name, bool *out,
                                       struct tenure_error *err)
{
    const char *value = tn_url_param(url, name);

    if (!value)
        return TENURE_OK;
    if (strcmp(value, "on") != 0 && strcmp(value, "off") != 0)
        return tenure_fail(err, TENURE_CONFIG, "%s: %s is 'on' or 'off', not '%.40s'", url->scheme,
                           name, value);
    *out = strcmp(value, "on") == 0;
    return TENURE_OK;
}

static enum tenure_status parse_span(struct tn_url *url, const char *name, int64_t *out,
                                     struct tenure_error *err)
{
    const char *value = tn_url_param(url, name);
    int64_t ns;

    if (!value)
        return TENURE_OK;
    if (!tn_duration_parse(value, &ns) || ns < SECOND / 100 || ns > 600 * SECOND)
        return tenure_fail(err, TENURE_CONFIG,
                           "%s: %s is a time from 10ms to 10m such as '5s', not '%.40s'",
                           url->scheme, name, value);
    *out = ns;
    return TENURE_OK;
}

static bool parse_decimal(const char *text, int64_t *out)
{
    const char *digits = text + (*text == '-');
    char *end;

    if (!*digits || strspn(digits, "0123456789") != strlen(digits))
        return false;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (errno || *end)
        return false;
    *out = value;
    return true;
}

/* 0x and 1 to 16 digits: the bits of the key, whatever their sign. */
static bool parse_hex(const char *text, int64_t *out)
{
    uint64_t bits;

    if (strncmp(text, "0x", 2) != 0 || strlen(text) < 3 || strlen(text) > 18 ||
        strspn(text + 2, "0123456789abcdefABCDEF") != strlen(text + 2))
        return false;
    bits = strtoull(text + 2, NULL, 16);
    memcpy(out, &bits, sizeof bits);
    return true;
}

/* What is meant for a number and is none is an error, never another key: two
 * programs that think they share a key must not end up with different ones. */
static enum tenure_status parse_key(struct tn_url *url, struct tn_pg_conf *conf,
                                    struct tenure_error *err)
{
    const char *value = tn_url_param(url, "key");

    if (!value)
        return TENURE_OK; /* the name of the lease, hashed */
    conf->key_kind = TN_PG_KEY_NUMBER;
    if (parse_decimal(value, &conf->key) || parse_hex(value, &conf->key))
        return TENURE_OK;
    if (!isalpha((unsigned char)value[0]) || !tenure_key_valid(value))
        return tenure_fail(err, TENURE_CONFIG,
                           "%s: key '%.40s' is neither a decimal number of 64 bits, nor 0x and up "
                           "to 16 hexadecimal digits, nor a name that begins with a letter",
                           url->scheme, value);
    conf->key_kind = TN_PG_KEY_NAME;
    snprintf(conf->key_name, sizeof conf->key_name, "%s", value);
    return TENURE_OK;
}

static enum tenure_status parse_advisory(struct tn_url *url, struct tn_pg_conf *conf,
                                         struct tenure_error *err)
{
    enum tenure_status status = parse_key(url, conf, err);
    const char *delay = tn_url_param(url, "takeover_delay");

    if (!status)
        status = parse_span(url, "retry", &conf->retry_ns, err);
    if (status || !delay)
        return status;
    if (strcmp(delay, "0") != 0)
        return tenure_fail(err, TENURE_CONFIG,
                           "%s: takeover_delay can only be 0 (take over as soon as the lock is "
                           "free, for those who fence at the resource); leave it out to wait until "
                           "the old leader has surely stopped",
                           url->scheme);
    conf->takeover_now = true;
    return TENURE_OK;
}

static enum tenure_status parse_repair(struct tn_url *url, struct tn_pg_conf *conf,
                                       struct tenure_error *err)
{
    const char *word = tn_url_param(url, "repair");

    if (word && strcmp(word, "yes") != 0 && strcmp(word, "no") != 0)
        return tenure_fail(err, TENURE_CONFIG, "%s: repair=%.40s is neither yes nor no",
                           url->scheme, word);
    conf->repair = word && strcmp(word, "yes") == 0;
    return TENURE_OK;
}

static enum tenure_status parse_own(struct tn_url *url, struct tn_pg_conf *conf,
                                    struct tenure_error *err)
{
    const char *schema = tn_url_param(url, "schema");
    enum tenure_status status;

    if (schema && !tn_pg_schema_valid(schema))
        return tenure_fail(err, TENURE_CONFIG,
                           "%s: schema is at most %d letters, digits and '_', not '%.60s'",
                           url->scheme, TN_PG_SCHEMA_MAX, schema);
    snprintf(conf->schema, sizeof conf->schema, "%s", schema ? schema : TN_PG_SCHEMA);
    status = parse_switch(url, "create", &conf->create, err);
    if (!status)
        status = parse_switch(url, "notify", &conf->notify, err);
    if (!status)
        status = parse_span(url, "poll", &conf->poll_ns, err);
    if (!status)
        status = parse_repair(url, conf, err);
    if (!status && conf->advisory)
        status = parse_advisory(url, conf, err);
    return status;
}

static enum tenure_status check_names(struct tn_url *url, const struct tn_pg_conf *conf,
                                      struct tenure_error *err)
{
    const char *known = conf->advisory
                            ? "schema, create, notify, poll, key, retry, takeover_delay, and "
                              "libpq's connection parameters"
                            : "schema, create, notify, poll, and libpq's connection parameters";
    size_t count = conf->advisory ? OWN_NAMES : OWN_ROW;

    for (unsigned i = 0; i < url->n_params; i++) {
        const char *name = url->params[i].name;
        url->params[i].used = is_own(name, strlen(name), count) || libpq_knows(name);
    }
    return tn_url_check_params(url, known, err);
}

enum tenure_status tn_pg_conf_parse(const char *text, struct tn_pg_conf *conf,
                                    struct tenure_error *err)
{
    struct tn_pg_conf c = {
        .create = true, .notify = true, .poll_ns = SECOND, .retry_ns = 5 * SECOND};
    struct tn_url url = {0};
    enum tenure_status status = tn_url_parse(text, &url, err);

    if (status)
        return status;
    c.advisory = strcmp(url.scheme, "postgres+advisory") == 0;
    status = check_at(text, url.scheme, err);
    if (!status)
        status = check_names(&url, &c, err);
    if (!status)
        status = parse_own(&url, &c, err);
    if (!status && !(c.uri = strip(text)))
        status = tenure_fail(err, TENURE_NOMEM, "out of memory");
    if (!status)
        status = check_uri(c.uri, url.scheme, err);
    tn_url_free(&url);
    if (status) {
        tn_pg_conf_free(&c);
        return status;
    }
    *conf = c;
    return TENURE_OK;
}

void tn_pg_conf_free(struct tn_pg_conf *conf)
{
    if (conf->uri)
        explicit_bzero(conf->uri, strlen(conf->uri));
    free(conf->uri);
    memset(conf, 0, sizeof *conf);
}
