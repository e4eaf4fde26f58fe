#include "store/lease_record.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/hex.h"
#include "base/rfc3339.h"
#include "base/text.h"

/* ---- Members ------------------------------------------------------------- */

static enum tenure_status bad(struct tenure_error *err, const char *member, const char *want)
{
    return tenure_fail(err, TENURE_CORRUPT, "lease record: \"%s\" must be %s", member, want);
}

/* Each getter takes its member out of the object, so that what remains at the
 * end is what we do not know. */
static enum tenure_status get_text(json_t *object, const char *name, char *out, size_t size,
                                   bool required, struct tenure_error *err)
{
    json_t *member = json_object_get(object, name);
    size_t len = json_string_length(member);

    if (!member && !required) {
        out[0] = '\0';
        return TENURE_OK;
    }
    if (!json_is_string(member) || len >= size || strlen(json_string_value(member)) != len)
        return bad(err, name, "a short string");
    /* These end up on terminals and in logs. */
    for (const char *p = json_string_value(member); *p; p++) {
        if (tn_text_control(p))
            return bad(err, name, "free of control characters");
    }
    memcpy(out, json_string_value(member), len + 1);
    json_object_del(object, name);
    return TENURE_OK;
}

static enum tenure_status get_nonce(json_t *object, const char *name, uint8_t *out,
                                    struct tenure_error *err)
{
    char text[TN_NONCE_HEX + 1];

    if (get_text(object, name, text, sizeof text, true, err) ||
        !tn_hex_decode(text, out, TENURE_NONCE_SIZE))
        return bad(err, name, "32 hexadecimal digits");
    return TENURE_OK;
}

static enum tenure_status get_number(json_t *object, const char *name, json_int_t low,
                                     json_int_t high, bool required, json_int_t *out,
                                     struct tenure_error *err)
{
    json_t *member = json_object_get(object, name);

    *out = 0;
    if (!member && !required)
        return TENURE_OK;
    if (!json_is_integer(member) || json_integer_value(member) < low ||
        json_integer_value(member) > high)
        return bad(err, name, "a whole number within its bounds");
    *out = json_integer_value(member);
    json_object_del(object, name);
    return TENURE_OK;
}

/* Times are for people: one that cannot be read is dropped, not an error. */
static uint64_t get_time(json_t *object, const char *name)
{
    uint64_t ms = 0;
    const char *text = json_string_value(json_object_get(object, name));

    if (text && !tn_rfc3339_parse(text, &ms))
        ms = 0;
    json_object_del(object, name);
    return ms;
}

static enum tenure_status get_all(json_t *object, struct tn_lease *l, struct tenure_error *err)
{
    json_int_t epoch = 0, ttl = 0, transitions = 0, priority = 0;
    const json_int_t big = (json_int_t)INT64_MAX;

    if (get_text(object, "holder", l->holder, sizeof l->holder, true, err) ||
        get_nonce(object, "incarnation", l->incarnation, err) ||
        get_nonce(object, "grant", l->grant, err) ||
        get_number(object, "epoch", 0, big, true, &epoch, err) ||
        get_number(object, "ttl_ms", 0, UINT32_MAX, true, &ttl, err) ||
        get_number(object, "transitions", 0, big, false, &transitions, err) ||
        get_number(object, "priority", INT32_MIN, INT32_MAX, false, &priority, err) ||
        get_text(object, "address", l->address, sizeof l->address, false, err) ||
        get_text(object, "build", l->build, sizeof l->build, false, err) ||
        get_text(object, "cause", l->cause, sizeof l->cause, false, err))
        return TENURE_CORRUPT;
    l->epoch = (uint64_t)epoch;
    l->ttl_ms = (uint32_t)ttl;
    l->transitions = (uint64_t)transitions;
    l->priority = (int32_t)priority;
    l->checked = json_is_true(json_object_get(object, "checked"));
    json_object_del(object, "checked");
    l->acquired_ms = get_time(object, "acquired_at");
    l->renewed_ms = get_time(object, "renewed_at");
    return TENURE_OK;
}

/* ---- Text ----------------------------------------------------------------- */

/*
 * As json_loadb(), which without memory may tell a syntax error, or leave a
 * byte out of a string or a digit out of a number and say nothing.  So it
 * reads twice: what a failed allocation has cost the one, the other shows.
 */
static json_t *parse(const char *data, size_t len, size_t flags, json_error_t *why)
{
    json_error_t other;

    errno = 0;
    json_t *object = json_loadb(data, len, flags, why);
    json_t *again = json_loadb(data, len, flags, &other);
    bool starved = errno == ENOMEM || (object ? !json_equal(object, again) : again != NULL);

    json_decref(again);
    if (!starved)
        return object;
    json_decref(object);
    why->text[sizeof why->text - 1] = (char)json_error_out_of_memory;
    return NULL;
}

/*
 * As json_dumps(), which without memory may leave out a piece and say nothing:
 * a corrupt record.  Into a buffer that is there already nothing is lost.
 */
static char *dump(const json_t *object, size_t flags, size_t *len)
{
    size_t n = json_dumpb(object, NULL, 0, flags);
    char *text = n ? malloc(n + 1) : NULL;

    if (!text)
        return NULL;
    if (json_dumpb(object, text, n, flags) != n) {
        free(text);
        return NULL;
    }
    text[n] = '\0';
    *len = n;
    return text;
}

/* ---- Decode -------------------------------------------------------------- */

enum tenure_status tn_lease_decode(const void *data, size_t len, struct tn_lease *lease,
                                   char **extra, struct tenure_error *err)
{
    struct tn_lease l = {0};
    char *rest = NULL;
    size_t rest_len;
    json_error_t why;
    json_t *object = NULL;
    enum tenure_status status;

    if (len == 0 || len > TN_LEASE_RECORD_MAX)
        return tenure_fail(err, TENURE_CORRUPT, "lease record: %zu bytes, expected 1 to %d", len,
                           TN_LEASE_RECORD_MAX);
    object = parse(data, len, JSON_REJECT_DUPLICATES, &why);
    if (!object)
        return json_error_code(&why) == json_error_out_of_memory
                   ? tenure_fail(err, TENURE_NOMEM, "out of memory")
                   : tenure_fail(err, TENURE_CORRUPT, "lease record: %s at byte %d", why.text,
                                 why.position);
    if (!json_is_object(object)) {
        status = tenure_fail(err, TENURE_CORRUPT, "lease record: not a JSON object");
        goto done;
    }
    status = get_all(object, &l, err);
    if (status)
        goto done;
    if (extra && json_object_size(object) > 0 &&
        !(rest = dump(object, JSON_COMPACT | JSON_SORT_KEYS, &rest_len))) {
        status = tenure_fail(err, TENURE_NOMEM, "out of memory");
        goto done;
    }
    *lease = l;
    if (extra)
        *extra = rest;
done:
    json_decref(object);
    return status;
}

/* ---- What is left of a damaged one --------------------------------------- */

static const char *skip_space(const char *p, const char *end)
{
    while (p < end && (*p == ' ' || *p == '\t' || *p == '\r' || *p == '\n'))
        p++;
    return p;
}

/* ":DIGITS," or ":DIGITS}".  A number that was cut, or goes on as something else, is none. */
static bool number_behind(const char *p, const char *end, uint64_t *number)
{
    uint64_t n = 0;
    int digits = 0;

    p = skip_space(p, end);
    if (p == end || *p != ':')
        return false;
    p = skip_space(p + 1, end);
    if (p < end && *p == '0') /* no number begins so, and no epoch is 0 */
        return false;
    for (; p < end && *p >= '0' && *p <= '9' && digits < 17; p++, digits++)
        n = n * 10 + (uint64_t)(*p - '0');
    p = skip_space(p, end);
    *number = n;
    return digits && p < end && (*p == ',' || *p == '}');
}

uint64_t tn_lease_legible_epoch(const void *data, size_t len)
{
    static const char name[] = "\"epoch\"";
    /* Damage must not use up the epochs that are left: as with a wall clock in the last
     * thousandth of the range, that is an operator's to say. */
    const char *p = data, *end = len ? p + len : p;
    uint64_t highest = 0, number;

    while (p < end && (p = memmem(p, (size_t)(end - p), name, sizeof name - 1))) {
        p += sizeof name - 1;
        if (!number_behind(p, end, &number) || number >= TN_EPOCH_ROOM)
            return 0;
        if (number > highest)
            highest = number;
    }
    return highest;
}

/* ---- Encode -------------------------------------------------------------- */

/* Adds what object lacks.  json_object_update_missing() hides that it ran out of memory. */
static bool add_missing(json_t *object, json_t *rest)
{
    const char *name;
    json_t *member;

    json_object_foreach(rest, name, member)
    {
        if (!json_object_get(object, name) && json_object_set(object, name, member) != 0)
            return false;
    }
    return true;
}

static json_t *to_json(const struct tn_lease *l, const char *extra)
{
    char incarnation[TN_NONCE_HEX + 1], grant[TN_NONCE_HEX + 1];
    char acquired[TN_RFC3339_SIZE], renewed[TN_RFC3339_SIZE];
    json_t *object, *rest;
    json_error_t why;

    tn_hex_encode(l->incarnation, TENURE_NONCE_SIZE, incarnation);
    tn_hex_encode(l->grant, TENURE_NONCE_SIZE, grant);
    tn_rfc3339_format(l->acquired_ms, acquired);
    tn_rfc3339_format(l->renewed_ms, renewed);
    object = json_pack("{s:s, s:I, s:I, s:s, s:s, s:I, s:i, s:s, s:s, s:s, s:s, s:s, s:o*}", /* */
                       "holder", l->holder, "epoch", (json_int_t)l->epoch, "ttl_ms",
                       (json_int_t)l->ttl_ms, "incarnation", incarnation, "grant", grant,
                       "transitions", (json_int_t)l->transitions, "priority", (int)l->priority,
                       "address", l->address, "build", l->build, "cause", l->cause, "acquired_at",
                       acquired, "renewed_at", renewed, "checked", l->checked ? json_true() : NULL);
    if (!object || !extra)
        return object;
    rest = parse(extra, strlen(extra), 0, &why);
    if (!rest || !add_missing(object, rest)) {
        json_decref(object);
        object = NULL;
    }
    json_decref(rest);
    return object;
}

enum tenure_status tn_lease_encode(const struct tn_lease *lease, const char *extra, char **text,
                                   size_t *len, struct tenure_error *err)
{
    json_t *object = to_json(lease, extra);
    size_t n = 0;
    char *dumped = object ? dump(object, JSON_COMPACT, &n) : NULL;

    json_decref(object);
    if (!dumped)
        return tenure_fail(err, TENURE_NOMEM, "out of memory for a lease record");
    if (n > TN_LEASE_RECORD_MAX) {
        free(dumped);
        return tenure_fail(err, TENURE_INVALID, "lease record: more than %d bytes",
                           TN_LEASE_RECORD_MAX);
    }
    *text = dumped;
    *len = n;
    return TENURE_OK;
}
