/* Values, tokens and keys: the plain data of the register contract. */
#include <stdlib.h>
#include <string.h>

#include "tenure/store.h"

void tenure_value_free(struct tenure_value *value)
{
    if (!value)
        return;
    free(value->data);
    memset(value, 0, sizeof *value);
}

enum tenure_status tenure_value_set(struct tenure_value *value, const void *data, size_t len,
                                    struct tenure_error *err)
{
    if (len + 1 > value->cap) {
        unsigned char *grown = realloc(value->data, len + 1);

        if (!grown)
            return tenure_fail(err, TENURE_NOMEM, "out of memory for a value of %zu bytes", len);
        value->data = grown;
        value->cap = len + 1;
    }
    if (len)
        memmove(value->data, data, len);
    value->data[len] = '\0';
    value->len = len;
    return TENURE_OK;
}

enum tenure_status tenure_value_absent(struct tenure_value *value, struct tenure_error *err)
{
    enum tenure_status status = tenure_value_set(value, NULL, 0, err);

    if (status)
        return status;
    memset(&value->token, 0, sizeof value->token);
    memset(value->prev, 0, sizeof value->prev);
    value->tombstone = false;
    return TENURE_OK;
}

bool tenure_token_equal(const struct tenure_token *a, const struct tenure_token *b)
{
    return strcmp(a->version, b->version) == 0 &&
           memcmp(a->nonce, b->nonce, TENURE_NONCE_SIZE) == 0;
}

bool tenure_token_absent(const struct tenure_token *token)
{
    static const uint8_t zero[TENURE_NONCE_SIZE];

    return token->version[0] == '\0' && memcmp(token->nonce, zero, TENURE_NONCE_SIZE) == 0;
}

static bool key_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-';
}

/* Checks segments; slash_ok says whether the text may end with a slash. */
static bool well_formed(const char *text, bool slash_ok)
{
    size_t n = 0;
    bool fresh = true; /* at the start of a segment */

    for (; text[n]; n++) {
        if (n >= TENURE_KEY_MAX)
            return false;
        if (text[n] == '/') {
            if (fresh)
                return false;
            fresh = true;
        } else if (!key_char(text[n]) || (fresh && text[n] == '.')) {
            return false;
        } else {
            fresh = false;
        }
    }
    return !fresh || (slash_ok);
}

bool tenure_key_valid(const char *key)
{
    return key && key[0] && well_formed(key, false);
}

bool tenure_prefix_valid(const char *prefix)
{
    return prefix && well_formed(prefix, true);
}
