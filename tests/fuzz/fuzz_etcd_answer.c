/*
 * Hostile JSON from an etcd server: key-value pairs, marks, errors and numbers.
 * What decodes must encode to the same bytes.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hex.h"
#include "store/etcd/etcd.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static void check_value(const struct tn_etcd_pair *data, const struct tn_etcd_pair *nonce)
{
    struct tenure_value value = {0};
    struct tenure_error err;
    struct tenure_token token;
    char own[TN_NONCE_HEX + 1], prev[TN_NONCE_HEX + 1], head[128];

    if (tn_etcd_decode(data, nonce, &value, &err) == TENURE_OK) {
        tn_hex_encode(value.token.nonce, TENURE_NONCE_SIZE, own);
        tn_hex_encode(value.prev, TENURE_NONCE_SIZE, prev);
        int n = snprintf(head, sizeof head, "tenure1 %s %s %c\n", own, prev,
                         value.tombstone ? 't' : 'v');
        if (!nonce || tenure_token_absent(&value.token) || !tn_etcd_token(data, &token) ||
            !tenure_token_equal(&token, &value.token) || (size_t)n + value.len != data->len ||
            memcmp(head, data->data, (size_t)n) != 0)
            abort();
    } else if (value.data) {
        abort(); /* touched on failure */
    }
    tenure_value_free(&value);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    struct tn_etcd h = {.conf = {.base = "/tenure/"}};
    struct tn_etcd_pair pairs[2] = {0};
    char mark[TENURE_VERSION_MAX + 1], *text = malloc(size + 1);
    bool definite, token;
    struct tenure_error err = {.code = TENURE_OK};

    memcpy(text, bytes, size);
    text[size] = '\0';
    json_t *root = json_loads(text, 0, NULL);
    const json_t *kvs = json_object_get(root, "kvs");
    if (tn_etcd_mark(root, mark) && strlen(mark) > TENURE_VERSION_MAX)
        abort();
    for (int i = 0; i < 2; i++) {
        if (tn_etcd_pair(&h, json_array_get(kvs, (size_t)i), &pairs[i]) &&
            !tenure_key_valid(pairs[i].key))
            abort();
    }
    if (pairs[0].data)
        check_value(&pairs[0], pairs[1].data ? &pairs[1] : NULL);
    if (tn_etcd_explain(400, text, &definite, &token, &err) == TENURE_OK || strchr(err.text, '\n'))
        abort();
    free(pairs[0].data);
    free(pairs[1].data);
    json_decref(root);
    free(text);
    return 0;
}
