/* Registers as keys and values of Consul, in its JSON. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base64.h"
#include "store/consul/consul.h"
#include "store/frame.h"

/* ---- Names --------------------------------------------------------------- */

bool tn_consul_is_index(const char *text)
{
    size_t n = strlen(text);

    return n > 0 && n <= 18 && text[0] != '0' && strspn(text, "0123456789") == n;
}

void tn_consul_name(const struct tn_consul *h, const char *key, const char *suffix,
                    char out[TN_CONSUL_NAME_MAX])
{
    snprintf(out, TN_CONSUL_NAME_MAX, "%s%s#%s", h->conf.base, key, suffix);
}

void tn_consul_row_name(const struct tn_consul *h, const char *key,
                        const uint8_t nonce[TENURE_NONCE_SIZE], char out[TN_CONSUL_NAME_MAX])
{
    char hex[TN_NONCE_HEX + 1];

    tn_hex_encode(nonce, TENURE_NONCE_SIZE, hex);
    tn_consul_name(h, key, hex, out);
}

bool tn_consul_split(const struct tn_consul *h, const char *name, char key[TENURE_KEY_MAX + 1],
                     const char **suffix)
{
    size_t base = strlen(h->conf.base);
    const char *end = strchr(name, '#');

    if (!end || strncmp(name, h->conf.base, base) != 0 ||
        (size_t)(end - name) - base > TENURE_KEY_MAX)
        return false;
    snprintf(key, TENURE_KEY_MAX + 1, "%.*s", (int)(end - name - (ptrdiff_t)base), name + base);
    *suffix = end + 1;
    return tenure_key_valid(key);
}

const char *tn_consul_suffix(const struct tn_consul *h, const char *name, const char *key)
{
    char whose[TENURE_KEY_MAX + 1];
    const char *suffix;

    return name && tn_consul_split(h, name, whose, &suffix) && strcmp(whose, key) == 0 ? suffix
                                                                                       : NULL;
}

bool tn_consul_nonce(const char *suffix, uint8_t nonce[TENURE_NONCE_SIZE])
{
    return strlen(suffix) == TN_NONCE_HEX && tn_hex_decode(suffix, nonce, TENURE_NONCE_SIZE);
}

/* ---- Out ----------------------------------------------------------------- */

static bool append(json_t *ops, json_t *kv)
{
    json_t *op = json_pack("{s:o}", "KV", kv); /* which frees kv if it fails */

    return op && !json_array_append_new(ops, op);
}

bool tn_consul_op(json_t *ops, const char *verb, const char *name, const char *index)
{
    json_t *kv = json_pack("{s:s, s:s}", "Verb", verb, "Key", name);

    if (!kv ||
        (index && json_object_set_new(kv, "Index", json_integer(strtoll(index, NULL, 10))))) {
        json_decref(kv);
        return false;
    }
    return append(ops, kv);
}

static bool append_set(json_t *ops, const char *name, const void *data, size_t n)
{
    char *text = malloc(TN_BASE64_LEN(n) + 1);
    bool done;

    if (!text)
        return false;
    tn_base64_encode(data, n, text);
    done = append(ops, json_pack("{s:s, s:s, s:s%}", "Verb", "set", "Key", name, "Value", text,
                                 TN_BASE64_LEN(n)));
    free(text);
    return done;
}

bool tn_consul_op_anchor(const struct tn_consul *h, json_t *ops, const char *key)
{
    char name[TN_CONSUL_NAME_MAX];

    tn_consul_name(h, key, "", name);
    return tn_consul_op(ops, "delete-tree", name, NULL) && append_set(ops, name, "tenure", 6);
}

bool tn_consul_op_row(const struct tn_consul *h, json_t *ops, const struct tenure_swap *swap)
{
    char name[TN_CONSUL_NAME_MAX];
    size_t len;
    char *bytes = tn_frame_write(swap, &len);
    bool done;

    tn_consul_row_name(h, swap->key, swap->nonce, name);
    done = bytes && append_set(ops, name, bytes, len);
    free(bytes);
    return done;
}

/* ---- In ------------------------------------------------------------------ */

const char *tn_consul_entry_name(const json_t *entry)
{
    return json_string_value(json_object_get(entry, "Key"));
}

bool tn_consul_entry_index(const json_t *entry, char out[TENURE_VERSION_MAX + 1])
{
    const json_t *index = json_object_get(entry, "ModifyIndex");

    snprintf(out, TENURE_VERSION_MAX + 1, "%lld", (long long)json_integer_value(index));
    return tn_consul_is_index(out);
}

char *tn_consul_entry_bytes(const json_t *entry, size_t *len)
{
    const json_t *text = json_object_get(entry, "Value");
    size_t n = json_string_length(text); /* an empty value is null */
    char *out = malloc(n / 4 * 3 + 1);

    *len = 0;
    if (out && (json_is_string(text) || json_is_null(text)) &&
        (n == 0 || tn_base64_decode(json_string_value(text), n, out, len)))
        return out;
    free(out);
    return NULL;
}

struct tn_consul_register tn_consul_gather(const struct tn_consul *h, const json_t *answer,
                                           const char *key)
{
    struct tn_consul_register r = {0};
    const json_t *one;
    size_t i;

    json_array_foreach(json_object_get(answer, "Results"), i, one)
    {
        const json_t *entry = json_object_get(one, "KV");
        const char *name = tn_consul_entry_name(entry), *suffix = tn_consul_suffix(h, name, key);

        if (!suffix)
            continue;
        if (!*suffix) {
            r.anchor = entry;
        } else if (!r.row || strcmp(tn_consul_entry_name(r.row), name) != 0) {
            r.row = r.row ? r.row : entry; /* the same one again if a key was asked for twice */
            r.rows++;
        }
    }
    return r;
}

static enum tenure_status decode_row(const json_t *row, struct tenure_value *value,
                                     struct tenure_error *err)
{
    const char *name = tn_consul_entry_name(row);
    char index[TENURE_VERSION_MAX + 1];
    uint8_t named[TENURE_NONCE_SIZE];
    struct tn_frame frame;
    size_t len;
    char *bytes;
    enum tenure_status status;

    if (!tn_consul_entry_index(row, index) || !(bytes = tn_consul_entry_bytes(row, &len)))
        return tenure_fail(err, TENURE_UNAVAILABLE, "the answer cannot be understood");
    if (!tn_frame_parse(bytes, len, &frame))
        status = tenure_fail(err, TENURE_CORRUPT,
                             "the key holds something that tenure did not write; it was not "
                             "touched");
    else if (!tn_consul_nonce(strchr(name, '#') + 1, named) ||
             memcmp(named, frame.nonce, sizeof named) != 0)
        status = tenure_fail(err, TENURE_CORRUPT,
                             "the key and its value have different nonces; nothing was touched");
    else
        status = tn_frame_value(&frame, index, value, err);
    free(bytes);
    return status;
}

enum tenure_status tn_consul_decode(const struct tn_consul *h, const char *key,
                                    const struct tn_consul_register *r, struct tenure_value *value,
                                    struct tenure_error *err)
{
    enum tenure_status status;

    if (!r->anchor)
        return tenure_value_absent(value, err);
    if (r->rows == 1)
        status = decode_row(r->row, value, err);
    else
        status = tenure_fail(err, TENURE_CORRUPT,
                             "there must be one key with a nonce behind '#', but there are %u; "
                             "nothing was touched",
                             r->rows);
    return status ? tenure_fail_context(err, "consul: %s%s#", h->conf.base, key) : TENURE_OK;
}
