/* Registers as etcd's keys and values, in its JSON. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base64.h"
#include "base/hex.h"
#include "store/etcd/etcd.h"
#include "store/frame.h"

#define NONCE_KEY "#nonce"
#define COMPARED  (128u << 10)

/* ---- Out ----------------------------------------------------------------- */

json_t *tn_etcd_bytes(const void *data, size_t n)
{
    char *text = malloc(TN_BASE64_LEN(n) + 1);
    json_t *string = NULL;

    if (text) {
        tn_base64_encode(data, n, text);
        string = json_stringn_nocheck(text, TN_BASE64_LEN(n));
    }
    free(text);
    return string;
}

json_t *tn_etcd_key(const struct tn_etcd *h, const char *key, const char *suffix)
{
    char name[TN_ETCD_KEY_MAX];

    return tn_etcd_bytes(name,
                         (size_t)snprintf(name, sizeof name, "%s%s%s", h->conf.base, key, suffix));
}

json_t *tn_etcd_nonce(const uint8_t nonce[TENURE_NONCE_SIZE])
{
    char hex[TN_NONCE_HEX + 1];

    tn_hex_encode(nonce, TENURE_NONCE_SIZE, hex);
    return tn_etcd_bytes(hex, TN_NONCE_HEX);
}

static json_t *put(const struct tn_etcd *h, const char *key, const char *suffix, const void *data,
                   size_t n)
{
    return json_pack("{s:{s:o, s:o}}", "requestPut", "key", tn_etcd_key(h, key, suffix), "value",
                     tn_etcd_bytes(data, n));
}

static json_t *put_data(const struct tn_etcd *h, const struct tenure_swap *swap)
{
    size_t len;
    char *text = tn_frame_write(swap, &len);
    json_t *made = text ? put(h, swap->key, "", text, len) : NULL;

    free(text);
    return made;
}

static json_t *compare(const struct tn_etcd *h, const struct tenure_swap *swap)
{
    if (tenure_token_absent(&swap->expect))
        return json_pack("[{s:o, s:s, s:s, s:s}]", "key", tn_etcd_key(h, swap->key, ""), "target",
                         "CREATE", "result", "EQUAL", "create_revision", "0");
    return json_pack("[{s:o, s:s, s:s, s:s}, {s:o, s:s, s:s, s:o}]", "key",
                     tn_etcd_key(h, swap->key, ""), "target", "MOD", "result", "EQUAL",
                     "mod_revision", swap->expect.version, "key",
                     tn_etcd_key(h, swap->key, NONCE_KEY), "target", "VALUE", "result", "EQUAL",
                     "value", tn_etcd_nonce(swap->expect.nonce));
}

/* A request holds 1.5 MiB: of what is large the revision alone is compared. */
json_t *tn_etcd_same(const struct tn_etcd *h, const char *key, bool nonce,
                     const struct tn_etcd_pair *pair)
{
    const char *suffix = nonce ? NONCE_KEY : "";
    json_t *one = json_pack("{s:o, s:s, s:s, s:s}", "key", tn_etcd_key(h, key, suffix), "target",
                            "MOD", "result", "EQUAL", "mod_revision", pair ? pair->revision : "0");

    if (!pair || pair->len > COMPARED)
        return json_pack("[o]", one);
    return json_pack("[o, {s:o, s:s, s:s, s:o}]", one, "key", tn_etcd_key(h, key, suffix), "target",
                     "VALUE", "result", "EQUAL", "value", tn_etcd_bytes(pair->data, pair->len));
}

json_t *tn_etcd_txn(const struct tn_etcd *h, const struct tenure_swap *swap)
{
    return tn_etcd_txn_if(h, swap, compare(h, swap));
}

json_t *tn_etcd_txn_if(const struct tn_etcd *h, const struct tenure_swap *swap, json_t *compare)
{
    char nonce[TN_NONCE_HEX + 1];

    tn_hex_encode(swap->nonce, TENURE_NONCE_SIZE, nonce);
    /* json_pack() gives up, and frees what it was given, if one of them is NULL. */
    return json_pack("{s:o, s:[o, o]}", "compare", compare, "success", put_data(h, swap),
                     put(h, swap->key, NONCE_KEY, nonce, TN_NONCE_HEX));
}

json_t *tn_etcd_txn_purge(const struct tn_etcd *h, const struct tenure_swap *swap)
{
    return json_pack("{s:o, s:[{s:{s:o}}, {s:{s:o}}]}", "compare", compare(h, swap), "success",
                     "request_delete_range", "key", tn_etcd_key(h, swap->key, ""),
                     "request_delete_range", "key", tn_etcd_key(h, swap->key, NONCE_KEY));
}

/* ---- In ------------------------------------------------------------------ */

bool tn_etcd_is_number(const char *text)
{
    size_t n = strlen(text);

    return n > 0 && n <= 19 && text[0] != '0' && strspn(text, "0123456789") == n;
}

const char *tn_etcd_number(const json_t *object, const char *member)
{
    const char *text = json_string_value(json_object_get(object, member));

    return text && tn_etcd_is_number(text) ? text : NULL;
}

bool tn_etcd_mark(const json_t *answer, char mark[TENURE_VERSION_MAX + 1])
{
    const json_t *header = json_object_get(answer, "header");
    const char *revision = tn_etcd_number(header, "revision");
    const char *term = tn_etcd_number(header, "raft_term");
    const char *cluster = json_string_value(json_object_get(header, "cluster_id"));

    if (!revision || !term || !cluster || strlen(cluster) > 20 ||
        strspn(cluster, "0123456789") != strlen(cluster))
        return false;
    return snprintf(mark, TENURE_VERSION_MAX + 1, "%s.%s.%s", revision, term, cluster) <=
           TENURE_VERSION_MAX;
}

/* A base64 member; an empty value is left out of the JSON.  NULL: no memory or no base64. */
static char *unpack(const json_t *object, const char *member, size_t *len)
{
    const json_t *string = json_object_get(object, member);
    size_t n = string ? json_string_length(string) : 0;
    char *out = malloc(n / 4 * 3 + 1);

    *len = 0;
    if (out && (string ? json_is_string(string) : true) &&
        (n == 0 || tn_base64_decode(json_string_value(string), n, out, len))) {
        out[*len] = '\0';
        return out;
    }
    free(out);
    return NULL;
}

bool tn_etcd_pair(const struct tn_etcd *h, const json_t *kv, struct tn_etcd_pair *pair)
{
    const char *revision = tn_etcd_number(kv, "mod_revision");
    size_t n, base = strlen(h->conf.base), suffix = strlen(NONCE_KEY);
    char *name = unpack(kv, "key", &n);
    bool ours = name && n > base && n < TN_ETCD_KEY_MAX && strlen(name) == n &&
                memcmp(name, h->conf.base, base) == 0;

    memset(pair, 0, sizeof *pair);
    pair->broken = !name || n == 0;
    if (ours) {
        pair->nonce = n > suffix && strcmp(name + n - suffix, NONCE_KEY) == 0;
        if (pair->nonce)
            name[n - suffix] = '\0';
        ours = tenure_key_valid(name + base);
    }
    if (ours) {
        snprintf(pair->key, sizeof pair->key, "%s", name + base);
        snprintf(pair->revision, sizeof pair->revision, "%s", revision ? revision : "");
        pair->data = revision ? unpack(kv, "value", &pair->len) : NULL;
    }
    free(name);
    return ours;
}

bool tn_etcd_token(const struct tn_etcd_pair *data, struct tenure_token *token)
{
    struct tenure_token t = {0};

    if (!tn_frame_nonce(data->data, data->len, t.nonce))
        return false;
    snprintf(t.version, sizeof t.version, "%s", data->revision);
    *token = t;
    return true;
}

enum tenure_status tn_etcd_decode(const struct tn_etcd_pair *data, const struct tn_etcd_pair *nonce,
                                  struct tenure_value *value, struct tenure_error *err)
{
    struct tn_frame frame;
    uint8_t mate[TENURE_NONCE_SIZE];

    if (!tn_frame_parse(data->data, data->len, &frame))
        return tenure_fail(err, TENURE_CORRUPT,
                           "the key holds something that tenure did not write; it was not touched");
    if (!nonce || nonce->len != TN_NONCE_HEX ||
        !tn_hex_decode(nonce->data, mate, TENURE_NONCE_SIZE) ||
        memcmp(mate, frame.nonce, sizeof mate) != 0)
        return tenure_fail(err, TENURE_CORRUPT,
                           "its companion " NONCE_KEY
                           " is missing or differs; nothing was touched");
    return tn_frame_value(&frame, data->revision, value, err);
}
