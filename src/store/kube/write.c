/* The Lease object that a swap writes. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/base64.h"
#include "base/hex.h"
#include "os/clock.h"
#include "store/kube/kube.h"
#include "store/lease_record.h"

#define TIME_SIZE 32

/* ---- Times --------------------------------------------------------------- */

/* As the server writes them: microseconds, always. */
static void write_time(uint64_t ms, char out[TIME_SIZE])
{
    time_t seconds = (time_t)(ms / 1000);
    struct tm tm;
    size_t n = gmtime_r(&seconds, &tm) ? strftime(out, TIME_SIZE, "%Y-%m-%dT%H:%M:%S", &tm) : 0;

    snprintf(out + n, TIME_SIZE - n, ".%03u000Z", (unsigned)(ms % 1000));
}

static bool read_time(const char *text, uint64_t *ms)
{
    struct tm tm = {0};
    unsigned micros = 0;
    const char *rest = text ? strptime(text, "%Y-%m-%dT%H:%M:%S", &tm) : NULL;
    time_t seconds = rest ? timegm(&tm) : -1;

    if (seconds < 0 || seconds >= INT64_C(253402300800))
        return false;
    sscanf(rest, ".%6u", &micros);
    *ms = (uint64_t)seconds * 1000 + micros / 1000;
    return true;
}

/*
 * Now, but a second later than what stands there at least: client-go sees a
 * renewal only if the whole seconds differ.  A time for people; nothing else is
 * ever concluded from it.
 */
static void renew_time(const json_t *base, char out[TIME_SIZE])
{
    const json_t *spec = json_object_get(base, "spec");
    uint64_t now = tn_wall_ms(), before;

    if (read_time(json_string_value(json_object_get(spec, "renewTime")), &before) &&
        now < before + 1000 && before < UINT64_C(253402300799000) - 1000)
        now = before + 1000;
    write_time(now, out);
}

/* ---- Parts --------------------------------------------------------------- */

static bool set(json_t *object, const char *name, const char *text)
{
    return text ? !json_object_set_new(object, name, json_string(text))
                : (json_object_del(object, name), true);
}

static bool set_nonce(json_t *object, const char *name, const uint8_t nonce[TENURE_NONCE_SIZE])
{
    static const uint8_t zero[TENURE_NONCE_SIZE];
    char hex[TN_NONCE_HEX + 1];

    tn_hex_encode(nonce, TENURE_NONCE_SIZE, hex);
    return set(object, name, memcmp(nonce, zero, sizeof zero) ? hex : NULL);
}

/* Text that people can read where it is text. */
static bool set_data(json_t *notes, const struct tenure_swap *swap)
{
    const char *bytes = swap->len ? swap->data : "";
    json_t *text = memchr(bytes, '\0', swap->len) ? NULL : json_stringn(bytes, swap->len);
    char *base64;
    bool well;

    json_object_del(notes, "tenure/text");
    json_object_del(notes, "tenure/base64");
    if (text)
        return !json_object_set_new(notes, "tenure/text", text);
    base64 = malloc(TN_BASE64_LEN(swap->len) + 1);
    if (!base64)
        return false;
    tn_base64_encode(bytes, swap->len, base64);
    well = set(notes, "tenure/base64", base64);
    free(base64);
    return well;
}

/* A member of metadata that is an object: what stands there already, or an empty one. */
static json_t *part(json_t *meta, const char *name)
{
    json_t *there = json_object_get(meta, name);

    if (!json_is_object(there)) {
        json_object_set_new(meta, name, json_object());
        there = json_object_get(meta, name);
    }
    return there;
}

/* What others have noted in the base stays. */
static json_t *write_meta(const struct tn_kube *h, const struct tenure_swap *swap,
                          const json_t *base)
{
    char name[TN_KUBE_NAME_MAX + 1], rv[TN_KUBE_RV_MAX + 1], uid[64];
    json_t *meta = base ? json_deep_copy(json_object_get(base, "metadata")) : json_object();
    bool fresh = tenure_token_absent(&swap->expect), well;

    tn_kube_name(h, swap->key, name);
    well = set(meta, "name", name) && set(meta, "namespace", h->namespace);
    json_object_del(meta, "managedFields");
    if (!fresh && tn_kube_version(swap->expect.version, rv, uid))
        well = well && set(meta, "resourceVersion", rv) && set(meta, "uid", uid);
    json_t *labels = part(meta, "labels"), *notes = part(meta, "annotations");
    well = well && set(labels, "app.kubernetes.io/managed-by", "tenure") &&
           set(labels, "tenure/scope", h->scope) && set(notes, "tenure/key", swap->key) &&
           set_nonce(notes, "tenure/nonce", swap->nonce) &&
           set_nonce(notes, "tenure/prev", swap->expect.nonce) &&
           set(notes, "tenure/tombstone", swap->tombstone ? "true" : NULL) && set_data(notes, swap);
    if (well)
        return meta;
    json_decref(meta);
    return NULL;
}

/* ---- Records ------------------------------------------------------------- */

static enum tenure_status check_ttl(const struct tn_lease *l, struct tenure_error *err)
{
    if (l->holder[0] && (l->ttl_ms % 1000 || l->ttl_ms < TN_KUBE_TTL_MIN_MS))
        return tenure_fail(err, TENURE_INVALID,
                           "kube: a ttl of %u ms cannot be written: a Lease has whole seconds, and "
                           "at least %d; give 5s, 6s, ...",
                           l->ttl_ms, TN_KUBE_TTL_MIN_MS / 1000);
    return TENURE_OK;
}

/* Free is told as client-go does: nobody holds it, for one second. */
static json_t *write_spec(const struct tn_lease *l, bool erased, const char *renewed)
{
    char acquired[TIME_SIZE];
    bool held = l->holder[0] && !erased;
    uint64_t turns = l->transitions < INT32_MAX ? l->transitions : INT32_MAX;

    write_time(l->acquired_ms, acquired);
    return json_pack("{s:s, s:I, s:s, s:s, s:I}", "holderIdentity", held ? l->holder : "",
                     "leaseDurationSeconds", (json_int_t)(held ? l->ttl_ms / 1000 : 1),
                     "acquireTime", held ? acquired : renewed, "renewTime", renewed,
                     "leaseTransitions", (json_int_t)turns);
}

static bool note_record(json_t *notes, const struct tn_lease *l, bool erased, const char *renewed)
{
    char epoch[24];

    snprintf(epoch, sizeof epoch, "%" PRIu64, l->epoch);
    return set(notes, "tenure/holder", erased ? "" : l->holder) &&
           set(notes, "tenure/renewed", renewed) && set(notes, "tenure/epoch", epoch) &&
           set_nonce(notes, "tenure/grant", l->grant) &&
           set_nonce(notes, "tenure/incarnation", l->incarnation);
}

/* The standard fields of a record; none, if it is something else. */
static enum tenure_status write_record(const struct tenure_swap *swap, const json_t *base,
                                       json_t *meta, json_t **spec, struct tenure_error *err)
{
    json_t *notes = json_object_get(meta, "annotations");
    struct tn_lease lease;
    char renewed[TIME_SIZE];
    struct tenure_error ignored;
    enum tenure_status status;

    if (!tn_kube_is_record(swap->key))
        return TENURE_OK;
    if (tn_lease_decode(swap->data, swap->len, &lease, NULL, &ignored)) {
        /* Not understood: believed as long as nobody claims to hold it.  The
         * epoch of what it replaces stays, as a floor. */
        set(notes, "tenure/holder", NULL);
        set(notes, "tenure/renewed", NULL);
        return TENURE_OK;
    }
    status = swap->tombstone ? TENURE_OK : check_ttl(&lease, err);
    if (status)
        return status;
    renew_time(base, renewed);
    json_decref(*spec);
    *spec = write_spec(&lease, swap->tombstone, renewed);
    if (!*spec || !note_record(notes, &lease, swap->tombstone, renewed))
        return tenure_fail(err, TENURE_NOMEM, "kube: out of memory");
    return TENURE_OK;
}

enum tenure_status tn_kube_encode(const struct tn_kube *h, const struct tenure_swap *swap,
                                  const json_t *base, json_t **object, struct tenure_error *err)
{
    json_t *meta = write_meta(h, swap, base), *spec = json_object(), *whole = NULL;
    enum tenure_status status = TENURE_OK;

    if (!meta || !spec)
        status = tenure_fail(err, TENURE_NOMEM, "kube: out of memory");
    else
        status = write_record(swap, base, meta, &spec, err);
    if (!status) {
        whole = json_pack("{s:s, s:s, s:O, s:O}", "apiVersion", "coordination.k8s.io/v1", "kind",
                          "Lease", "metadata", meta, "spec", spec);
        if (!whole)
            status = tenure_fail(err, TENURE_NOMEM, "kube: out of memory");
        else
            *object = whole;
    }
    json_decref(meta);
    json_decref(spec);
    return status;
}
