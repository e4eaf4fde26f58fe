/*
 * Store URLs: parsing never crashes, and the password never shows in what is
 * said about the URL.  The input is the URL; a marker that stands in the
 * password or in a secret parameter must not be in the output.
 */
#include <assert.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/options.h"
#include "tenure/store.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MARKER "S3cr3tS3cr3t"

static const struct tn_option none[1];

/* Every output size, down to none, stays within its buffer and is terminated. */
static void redact_small(const char *url, size_t size)
{
    char *out = malloc(size ? size : 1);

    if (!out)
        return;
    tenure_url_redact(url, out, size);
    assert(size == 0 || memchr(out, '\0', size));
    free(out);
}

/* Whatever stands around it, a marker in the password or a secret parameter is hidden. */
static void hide(const char *before, const char *text, const char *after)
{
    char url[2 * TN_URL_MAX], out[4 * TN_URL_MAX];
    struct tenure_error err = {0};
    struct tn_url parsed = {0};

    snprintf(url, sizeof url, "%s%s%s", before, text, after);
    tenure_url_redact(url, out, sizeof out);
    assert(!strstr(out, MARKER));
    if (tn_url_parse(url, &parsed, &err) != TENURE_OK)
        assert(!strstr(err.text, MARKER));
    else if (tn_options_read(none, &parsed, NULL, &err) != TENURE_OK)
        assert(!strstr(err.text, MARKER));
    tn_url_free(&parsed);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct tenure_error err = {0};
    struct tn_url url = {0};

    if (size > TN_URL_MAX + 16)
        return 0;
    char *text = malloc(size + 1);
    if (!text)
        return 0;
    memcpy(text, data, size);
    text[size] = '\0';
    if (tn_url_parse(text, &url, &err) == TENURE_OK) {
        assert(url.scheme[0] && url.path && url.hosts);
        tn_url_param(&url, "password");
        tn_options_read(none, &url, NULL, &err);
    } else {
        assert(err.text[0] && !url.buffer);
    }
    tn_url_free(&url);
    redact_small(text, size % 40);
    redact_small(text, 2 * size + 8);
    /* The text must not start a query in front of the marker. */
    if (!strchr(text, '?') && !strstr(text, MARKER) && size < 1000) {
        hide("postgres://user:" MARKER, text, "@host/path");
        hide("postgres://user:", text, MARKER "@host/path?sslmode=require");
        if (!strchr(text, '&'))
            hide("redis://host/0?password=", text, MARKER);
        hide("postgres://u:" MARKER "@h/x?options=" MARKER "&table=", text, "");
    }
    free(text);
    return 0;
}
