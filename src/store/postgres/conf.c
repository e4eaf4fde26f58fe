/* The URL: what is ours is taken out, what remains is libpq's to understand. */
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/postgres/postgres.h"

#define SECOND INT64_C(1000000000)

/* ---- What is ours -------------------------------------------------------- */

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
static bool read_key(const char *text, void *conf)
{
    struct tn_pg_conf *c = conf;

    c->key_kind = TN_PG_KEY_NUMBER;
    if (parse_decimal(text, &c->key) || parse_hex(text, &c->key))
        return true;
    c->key_kind = TN_PG_KEY_NAME;
    if (!isalpha((unsigned char)text[0]) || !tenure_key_valid(text))
        return false;
    snprintf(c->key_name, sizeof c->key_name, "%s", text);
    return true;
}

static bool read_schema(const char *text, void *conf)
{
    struct tn_pg_conf *c = conf;

    snprintf(c->schema, sizeof c->schema, "%s", text);
    return tn_pg_schema_valid(text);
}

static bool read_delay(const char *text, void *conf)
{
    return ((struct tn_pg_conf *)conf)->takeover_now = strcmp(text, "0") == 0;
}

#define AT(member) offsetof(struct tn_pg_conf, member)
const struct tn_option tn_pg_options[] = {
    TN_OWN_OPTION("schema", read_schema, "at most 48 letters, digits and '_'", TN_PG_SCHEMA, NULL,
                  "where the table is"),
    TN_SWITCH_OPTION("create", AT(create), "off|on", "on", NULL,
                     "create the table if it is missing"),
    TN_SWITCH_OPTION("notify", AT(notify), "off|on", "on", NULL,
                     "NOTIFY on a change, and LISTEN; off: poll"),
    TN_TIME_OPTION("poll", AT(poll_ns), SECOND / 100, 600 * SECOND, "1s", NULL,
                   "how often to look where notifications do not come through"),
    TN_REPAIR_OPTION(AT(repair)),
    TN_OWN_OPTION("key", read_key,
                  "a decimal number of 64 bits, 0x and up to 16 hexadecimal digits, or a name that "
                  "begins with a letter",
                  NULL, "+advisory", "the lock's key, instead of the name of the lease"),
    TN_TIME_OPTION("retry", AT(retry_ns), SECOND / 100, 600 * SECOND, "5s", "+advisory",
                   "from one try of the lock to the next"),
    TN_OWN_OPTION("takeover_delay", read_delay,
                  "0 (take over as soon as the lock is free, for those who fence at the resource) "
                  "or left out",
                  NULL, "+advisory", "how long to wait once the lock is free"),
    {0},
};

/* ---- What is libpq's ------------------------------------------------------ */

static bool libpq_knows(const char *name)
{
    PQconninfoOption *all = PQconndefaults();
    bool found = strcmp(name, "ssl") == 0; /* "ssl=true", which libpq takes for JDBC's sake */

    for (PQconninfoOption *o = all; o && o->keyword && !found; o++)
        found = strcmp(o->keyword, name) == 0;
    PQconninfoFree(all);
    return found;
}

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
        if (n > 0 && !tn_option_find(tn_pg_options, p + 1, strcspn(p + 1, "=&"))) {
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

static enum tenure_status parse(const char *text, struct tn_url *url, struct tn_pg_conf *c,
                                struct tenure_error *err)
{
    enum tenure_status status = check_at(text, url->scheme, err);

    for (unsigned i = 0; i < url->n_params; i++)
        url->params[i].used = libpq_knows(url->params[i].name);
    if (!status)
        status = tn_options_read(tn_pg_options, url, c, err);
    if (status)
        return status;
    c->advisory = strcmp(url->scheme, "postgres+advisory") == 0;
    c->uri = strip(text);
    return c->uri ? check_uri(c->uri, url->scheme, err)
                  : tenure_fail(err, TENURE_NOMEM, "out of memory");
}

enum tenure_status tn_pg_conf_parse(const char *text, struct tn_pg_conf *conf,
                                    struct tenure_error *err)
{
    struct tn_pg_conf c = {0};
    struct tn_url url = {0};
    enum tenure_status status = tn_url_parse(text, &url, err);

    if (!status)
        status = parse(text, &url, &c, err);
    tn_url_free(&url);
    if (status)
        tn_pg_conf_free(&c);
    else
        *conf = c;
    return status;
}

void tn_pg_conf_free(struct tn_pg_conf *conf)
{
    if (conf->uri)
        explicit_bzero(conf->uri, strlen(conf->uri));
    free(conf->uri);
    memset(conf, 0, sizeof *conf);
}
