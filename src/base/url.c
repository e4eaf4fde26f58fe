#include "url.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "tenure/store.h"

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c = (char)tolower((unsigned char)c);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Decode percent-escapes in place.  NUL and bad escapes are refused. */
static bool unescape(char *text)
{
    char *to = text;

    for (const char *from = text; *from; from++) {
        if (*from != '%') {
            *to++ = *from;
            continue;
        }
        int high = hex_digit(from[1]);
        int low = high < 0 ? -1 : hex_digit(from[2]);
        if (low < 0 || (high == 0 && low == 0))
            return false;
        *to++ = (char)(high << 4 | low);
        from += 2;
    }
    *to = '\0';
    return true;
}

static enum tenure_status split_authority(struct tn_url *url, char *rest, char **path,
                                          struct tenure_error *err)
{
    char *at;
    size_t end = strcspn(rest, "/");

    /* The path keeps its slash, so the authority is moved one to the left,
     * over the second slash of "//". */
    memmove(rest - 1, rest, end);
    rest--;
    rest[end] = '\0';
    *path = rest + end + 1;
    url->authority = true;
    url->hosts = rest;
    at = strrchr(rest, '@');
    if (!at)
        return TENURE_OK;
    *at = '\0';
    url->hosts = at + 1;
    url->user = rest;
    char *colon = strchr(rest, ':');
    if (colon) {
        *colon = '\0';
        url->password = colon + 1;
        if (!unescape(url->password))
            return tenure_fail(err, TENURE_CONFIG, "store URL: bad %%-escape in the password");
    }
    if (!unescape(url->user))
        return tenure_fail(err, TENURE_CONFIG, "store URL: bad %%-escape in the user name");
    return TENURE_OK;
}

static enum tenure_status split_params(struct tn_url *url, char *query, struct tenure_error *err)
{
    for (char *next; query && *query; query = next) {
        next = strchr(query, '&');
        if (next)
            *next++ = '\0';
        char *equals = strchr(query, '=');
        if (!equals || equals == query)
            return tenure_fail(err, TENURE_CONFIG,
                               "store URL: a parameter behind '?' must read name=value");
        *equals = '\0';
        if (url->n_params == TN_URL_PARAMS)
            return tenure_fail(err, TENURE_CONFIG, "store URL: more than %d parameters",
                               TN_URL_PARAMS);
        url->params[url->n_params].name = query;
        url->params[url->n_params].value = equals + 1;
        if (!unescape(query) || !unescape(equals + 1))
            return tenure_fail(err, TENURE_CONFIG, "store URL: bad %%-escape in a parameter");
        url->n_params++;
    }
    return TENURE_OK;
}

static enum tenure_status split(struct tn_url *url, struct tenure_error *err)
{
    char *text = url->buffer;
    size_t n = strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789+-.");
    enum tenure_status status;

    if (n == 0 || text[n] != ':' || !isalpha((unsigned char)text[0]))
        return tenure_fail(err, TENURE_CONFIG,
                           "store URL has no scheme; write for example sqlite:/path or file:/dir");
    url->scheme = text;
    text[n] = '\0';
    text += n + 1;
    char *query = strchr(text, '?');
    if (query)
        *query++ = '\0';
    url->hosts = text + strlen(text); /* "" */
    url->path = text;
    if (text[0] == '/' && text[1] == '/') {
        status = split_authority(url, text + 2, &url->path, err);
        if (status)
            return status;
    }
    if (!unescape(url->path))
        return tenure_fail(err, TENURE_CONFIG, "store URL: bad %%-escape in the path");
    return split_params(url, query, err);
}

enum tenure_status tn_url_parse(const char *text, struct tn_url *url, struct tenure_error *err)
{
    struct tn_url u = {0};
    enum tenure_status status;

    if (strlen(text) > TN_URL_MAX)
        return tenure_fail(err, TENURE_CONFIG, "store URL is longer than %d bytes", TN_URL_MAX);
    u.buffer = strdup(text);
    if (!u.buffer)
        return tenure_fail(err, TENURE_NOMEM, "out of memory");
    status = split(&u, err);
    if (status) {
        tn_url_free(&u);
        return status;
    }
    *url = u;
    return TENURE_OK;
}

void tn_url_free(struct tn_url *url)
{
    if (url->buffer)
        explicit_bzero(url->buffer, strlen(url->buffer));
    free(url->buffer);
    memset(url, 0, sizeof *url);
}

const char *tn_url_param(struct tn_url *url, const char *name)
{
    const char *value = NULL;

    for (unsigned i = 0; i < url->n_params; i++) {
        if (strcmp(url->params[i].name, name) == 0) {
            url->params[i].used = true;
            value = url->params[i].value;
        }
    }
    return value;
}

/* Query values are shown only under names known to be harmless: a new secret
 * parameter is hidden before anybody thinks of it. */
static bool harmless(const char *name, size_t n)
{
    static const char *const names[] = {
        "mode",   "table", "schema",  "prefix", "sslmode",  "db",      "key",    "poll", "bucket",
        "master", "sync",  "context", "region", "endpoint", "timeout", "retain", "fs",   "create"};

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strlen(names[i]) == n && strncasecmp(names[i], name, n) == 0)
            return true;
    }
    return false;
}

static void append(char *out, size_t size, const char *text, size_t n)
{
    size_t used = strlen(out);

    if (used + n >= size)
        n = size - used - 1;
    memcpy(out + used, text, n);
    out[used + n] = '\0';
}

/* Where a login may be: behind "://", or behind the scheme if somebody forgot the slashes.  NULL:
 * there is none in a path. */
static const char *authority_of(const char *url, size_t to_query)
{
    const char *slashes = strstr(url, "://"), *colon = strchr(url, ':');

    if (slashes && (size_t)(slashes - url) < to_query)
        return slashes + 3;
    return colon && (size_t)(colon - url) < to_query && colon[1] != '/' ? colon + 1 : NULL;
}

void tenure_url_redact(const char *url, char *out, size_t size)
{
    const char *rest = url;

    if (size == 0)
        return;
    out[0] = '\0';
    size_t to_query = strcspn(url, "?");
    const char *authority = authority_of(url, to_query);
    if (authority) {
        /* A password may hold an unescaped '/' by mistake: look for the last
         * '@' before the query, and hide everything between.  Or a '?': then hide all. */
        const char *at = memrchr(authority, '@', to_query - (size_t)(authority - url));
        const char *end = at ? at : strchr(authority, '@');
        const char *colon = end ? memchr(authority, ':', (size_t)(end - authority)) : NULL;
        if (colon && colon < url + to_query) {
            append(out, size, url, (size_t)(colon - url) + 1);
            append(out, size, "***", 3);
            if (!at)
                return;
            rest = at;
        }
    }
    /* As libpq has it, which a URL has not. */
    const char *word = strcasestr(rest, "password=");
    if (word && word < url + to_query) {
        append(out, size, rest, (size_t)(word - rest) + strlen("password="));
        append(out, size, "***", 3);
        return;
    }
    append(out, size, rest, to_query - (size_t)(rest - url));
    for (const char *p = url + to_query; *p;) {
        size_t n = 1 + strcspn(p + 1, "&");
        size_t name = strcspn(p + 1, "=");
        append(out, size, p, name + 1 < n ? name + 2 : n);
        if (name + 1 < n)
            append(out, size, harmless(p + 1, name) ? p + 2 + name : "***",
                   harmless(p + 1, name) ? n - name - 2 : 3);
        p += n;
    }
}

static char *with_param(const char *text, const char *param)
{
    char *url = malloc(strlen(text) + strlen(param) + 2);

    if (url)
        sprintf(url, "%s%c%s", text, strchr(text, '?') ? '&' : '?', param);
    return url;
}

char *tn_url_repairing(const char *text)
{
    return with_param(text, "repair=yes");
}

unsigned tn_url_traits(const char *text)
{
    static const struct {
        const char *scheme;
        unsigned traits;
    } known[] = {
        {"noop:", TN_URL_PRIVATE},
        {"memory:", TN_URL_PRIVATE},
        {"file:", TN_URL_IN_FILES},
        {"sqlite:", TN_URL_IN_FILES | TN_URL_LOCKED},
    };

    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        if (strncmp(text, known[i].scheme, strlen(known[i].scheme)) == 0)
            return known[i].traits;
    }
    return 0;
}

char *tn_url_existing(const char *text)
{
    return tn_url_traits(text) & TN_URL_IN_FILES ? with_param(text, "create=no") : strdup(text);
}

void tn_url_wipe(char *text)
{
    if (text)
        explicit_bzero(text, strlen(text));
    free(text);
}
