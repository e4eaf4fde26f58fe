/* A Lease object as a register. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base64.h"
#include "base/hex.h"
#include "store/kube/kube.h"

#define EPOCH_DIGITS 19

static const char *text_of(const json_t *object, const char *name)
{
    const json_t *member = json_object_get(object, name);
    const char *text = json_string_value(member);

    return text && strlen(text) == json_string_length(member) ? text : NULL;
}

const char *tn_kube_meta(const json_t *object, const char *name)
{
    return text_of(json_object_get(object, "metadata"), name);
}

static const char *annotation(const json_t *object, const char *name)
{
    return text_of(json_object_get(json_object_get(object, "metadata"), "annotations"), name);
}

const char *tn_kube_key_of(const json_t *object)
{
    const char *key = annotation(object, "tenure/key");

    return key && tenure_key_valid(key) ? key : NULL;
}

/* Of the standard fields; "" if it is not there. */
static const char *field(const json_t *object, const char *name)
{
    const char *text = text_of(json_object_get(object, "spec"), name);

    return text ? text : "";
}

/* ---- Whose words they are ------------------------------------------------ */

static bool same(const char *written, const char *now)
{
    return strcmp(written ? written : "", now) == 0;
}

static bool nonce_of(const json_t *object, const char *name, uint8_t nonce[TENURE_NONCE_SIZE])
{
    static const uint8_t zero[TENURE_NONCE_SIZE];
    const char *text = annotation(object, name);
    uint8_t bytes[TENURE_NONCE_SIZE];

    if (!text || !tn_hex_decode(text, bytes, sizeof bytes) || !memcmp(bytes, zero, sizeof zero))
        return false;
    memcpy(nonce, bytes, sizeof bytes);
    return true;
}

/* The annotations belong to what the standard fields say now. */
static bool believed(const json_t *object)
{
    uint8_t nonce[TENURE_NONCE_SIZE];

    return tn_kube_key_of(object) && nonce_of(object, "tenure/nonce", nonce) &&
           same(annotation(object, "tenure/holder"), field(object, "holderIdentity")) &&
           same(annotation(object, "tenure/renewed"), field(object, "renewTime"));
}

/* An object that tenure never wrote, or another election's. */
static bool ours(const char *key, const json_t *object)
{
    const char *says = annotation(object, "tenure/key");

    return says ? strcmp(says, key) == 0 : tn_kube_is_record(key);
}

bool tn_kube_anothers(const char *key, const json_t *object)
{
    const char *says = tn_kube_key_of(object);

    return says && strcmp(says, key) != 0;
}

bool tn_kube_token(const char *key, const json_t *object, struct tenure_token *token)
{
    const char *rv = tn_kube_meta(object, "resourceVersion"), *uid = tn_kube_meta(object, "uid");
    struct tenure_token t = {0};
    bool plain = believed(object);

    if (!rv || !uid || !*rv || !*uid || strchr(rv, '.') || strlen(rv) > TN_KUBE_RV_MAX ||
        strlen(rv) + 1 + strlen(uid) > TENURE_VERSION_MAX || !ours(key, object) ||
        (!plain && !tn_kube_is_record(key)))
        return false;
    snprintf(t.version, sizeof t.version, "%s.%s", rv, uid);
    if (plain) {
        nonce_of(object, "tenure/nonce", t.nonce);
    } else {
        /* Somebody else's words have no nonce: what they say serves as one. */
        const char *parts[] = {"nonce", uid, rv, field(object, "holderIdentity"),
                               field(object, "renewTime")};

        tn_kube_hash(parts, 5, t.nonce);
    }
    *token = t;
    return true;
}

/* ---- Somebody else's record ---------------------------------------------- */

/* "2026-01-31T12:00:00.250000Z" as the record has it, in milliseconds. */
static void plain_time(const char *text, char out[32])
{
    bool usual = strlen(text) == 27 && text[19] == '.' && text[26] == 'Z';

    snprintf(out, 32, "%.23s%s", usual ? text : "", usual ? "Z" : "");
}

/*
 * The last epoch that tenure wrote, which client-go has kept, or 1: the next
 * grant goes beyond it (I2).  Zero, which is refused, if it makes no sense.
 */
static json_int_t floor_of(const json_t *object)
{
    const char *text = annotation(object, "tenure/epoch");
    size_t n = text ? strspn(text, "0123456789") : 0;

    if (!text)
        return 1;
    return n == 0 || n > EPOCH_DIGITS - 1 || text[n] ? 0 : (json_int_t)strtoll(text, NULL, 10);
}

static json_int_t number(const json_t *object, const char *name)
{
    const json_t *member = json_object_get(json_object_get(object, "spec"), name);
    json_int_t value = json_integer_value(member);

    return value < 0 || value > INT32_MAX ? 0 : value;
}

static json_t *foreign(const json_t *object)
{
    const char *holder = field(object, "holderIdentity"), *uid = tn_kube_meta(object, "uid");
    const char *acquired = field(object, "acquireTime");
    char turn[24], from[32], renewed[32];
    char grant[TN_NONCE_HEX + 1], incarnation[TN_NONCE_HEX + 1];
    uint8_t bytes[TENURE_NONCE_SIZE];
    json_int_t seconds = number(object, "leaseDurationSeconds");

    snprintf(turn, sizeof turn, "%lld", (long long)number(object, "leaseTransitions"));
    plain_time(acquired, from);
    plain_time(field(object, "renewTime"), renewed);
    tn_kube_hash((const char *[]){"grant", uid ? uid : "", holder, acquired, turn}, 5, bytes);
    tn_hex_encode(bytes, sizeof bytes, grant);
    tn_kube_hash((const char *[]){"incarnation", holder}, 2, bytes);
    tn_hex_encode(bytes, sizeof bytes, incarnation);
    /* A Lease that nobody holds needs no duration; one that somebody holds for an
     * unknown time is never claimed by time. */
    if (!*holder && seconds < 1)
        seconds = 1;
    return json_pack("{s:s, s:I, s:I, s:s, s:s, s:I, s:s, s:s, s:s}", "holder", holder, "epoch",
                     floor_of(object), "ttl_ms", seconds * 1000, "incarnation", incarnation,
                     "grant", grant, "transitions", number(object, "leaseTransitions"), "cause",
                     "foreign", "acquired_at", from, "renewed_at", renewed);
}

static enum tenure_status take_foreign(const json_t *object, struct tenure_value *value,
                                       struct tenure_error *err)
{
    json_t *record = foreign(object);
    char *text = record ? json_dumps(record, JSON_COMPACT) : NULL;
    enum tenure_status status = text ? tenure_value_set(value, text, strlen(text), err)
                                     : tenure_fail(err, TENURE_NOMEM, "out of memory");

    free(text);
    json_decref(record);
    return status;
}

/* ---- Values -------------------------------------------------------------- */

static enum tenure_status take_base64(const char *text, struct tenure_value *value,
                                      struct tenure_error *err)
{
    size_t len = strlen(text), n = 0;
    void *bytes = malloc(len / 4 * 3 + 1);
    enum tenure_status status;

    if (!bytes)
        return tenure_fail(err, TENURE_NOMEM, "out of memory");
    if (!tn_base64_decode(text, len, bytes, &n))
        status =
            tenure_fail(err, TENURE_CORRUPT, "tenure/base64 is not base64; it was not touched");
    else
        status = tenure_value_set(value, bytes, n, err);
    free(bytes);
    return status;
}

static enum tenure_status take_data(const json_t *object, struct tenure_value *value,
                                    struct tenure_error *err)
{
    const char *text = annotation(object, "tenure/text");
    const char *base64 = annotation(object, "tenure/base64");

    if (!text == !base64)
        return tenure_fail(err, TENURE_CORRUPT,
                           "it must have tenure/text or tenure/base64; it was not touched");
    return text ? tenure_value_set(value, text, strlen(text), err)
                : take_base64(base64, value, err);
}

enum tenure_status tn_kube_decode(const char *key, const json_t *object, struct tenure_value *value,
                                  struct tenure_error *err)
{
    const char *says = annotation(object, "tenure/key"), *dead;
    struct tenure_token token;
    enum tenure_status status;
    bool plain = believed(object);

    if (says && strcmp(says, key) != 0)
        return tenure_fail(err, TENURE_CORRUPT,
                           "it belongs to '%.60s', not to '%.60s': give each election a Lease of "
                           "its own",
                           says, key);
    if (!tn_kube_token(key, object, &token))
        return tenure_fail(err, TENURE_CORRUPT,
                           "it is not a register of tenure, or somebody else has changed it; it "
                           "was not touched");
    status = plain ? take_data(object, value, err) : take_foreign(object, value, err);
    if (status)
        return status;
    dead = annotation(object, "tenure/tombstone");
    value->token = token;
    value->tombstone = plain && dead && strcmp(dead, "true") == 0;
    memset(value->prev, 0, TENURE_NONCE_SIZE);
    /* What a foreigner has overwritten, perhaps not at once, did take effect (I6). */
    nonce_of(object, plain ? "tenure/prev" : "tenure/nonce", value->prev);
    return TENURE_OK;
}
