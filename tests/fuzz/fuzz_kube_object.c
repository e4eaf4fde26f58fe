/*
 * Hostile Leases from an API server.  What decodes must be found unchanged when
 * it is written back and read again; what does not leaves the value untouched.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "store/kube/kube.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static void write_back(const struct tn_kube *h, const char *key, const struct tenure_value *value,
                       const json_t *base)
{
    struct tenure_swap swap = {.key = key,
                               .expect = value->token,
                               .nonce = {1},
                               .data = value->data,
                               .len = value->len,
                               .tombstone = value->tombstone};
    struct tenure_value again = {0};
    struct tenure_error err;
    json_t *object = NULL;

    if (tn_kube_encode(h, &swap, tn_kube_is_record(key) ? base : NULL, &object, &err))
        return; /* a ttl that cannot be written */
    if (tn_kube_decode(key, object, &again, &err) || again.len != value->len ||
        (value->len && memcmp(again.data, value->data, value->len) != 0) ||
        again.tombstone != value->tombstone || again.token.nonce[0] != 1 ||
        memcmp(again.prev, value->token.nonce, TENURE_NONCE_SIZE) != 0)
        abort();
    tenure_value_free(&again);
    json_decref(object);
}

static void check(const char *key, const json_t *root)
{
    struct tn_kube h = {.namespace = "default"};
    struct tenure_value value = {0};
    struct tenure_error err;
    struct tenure_token token;
    enum tenure_status status = tn_kube_decode(key, root, &value, &err);

    if (status == TENURE_OK) {
        if (!tn_kube_token(key, root, &token) || !tenure_token_equal(&token, &value.token) ||
            tenure_token_absent(&token))
            abort();
        write_back(&h, key, &value, root);
    } else if (value.data || strchr(err.text, '\n')) {
        abort();
    }
    tenure_value_free(&value);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    json_t *root = json_loadb((const char *)bytes, size, 0, NULL);
    struct tenure_error err = {.code = TENURE_OK};
    json_t *yaml = tn_kube_yaml((const char *)bytes, size, &err);

    check("a/lease", root);
    check("a/other", root);
    if (!yaml && (err.code == TENURE_OK || strchr(err.text, '\n')))
        abort();
    json_decref(yaml);
    json_decref(root);
    return 0;
}
