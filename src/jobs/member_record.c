/* GROUP/member/ID: one worker, as JSON. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/hex.h"
#include "base/record_text.h"
#include "base/rfc3339.h"
#include "core/timing.h"
#include "jobs/records.h"

static const char *const states[] = {"alive", "dead", "left"};
static const char *const marks[] = {"none", "evicted", "placeholder"};
enum { STATES = 3, MARKS = 3 };

/* ---- In ------------------------------------------------------------------ */

static bool take_word(const json_t *object, const char *member, const char *const *words,
                      unsigned n, unsigned *out)
{
    const char *text = json_string_value(json_object_get(object, member));

    for (unsigned i = 0; text && i < n; i++) {
        if (strcmp(text, words[i]) != 0)
            continue;
        *out = i;
        return true;
    }
    return false;
}

/* A whole number within bounds; `missing` if it is not there. */
static bool take_count(const json_t *object, const char *member, uint64_t max, uint64_t missing,
                       uint64_t *out)
{
    const json_t *number = json_object_get(object, member);
    json_int_t value = json_integer_value(number);

    *out = number ? (uint64_t)value : missing;
    return !number || (json_is_integer(number) && value >= 0 && (uint64_t)value <= max);
}

static bool take_jobs(const json_t *object, const char *member, uint32_t *jobs, uint32_t *count)
{
    const json_t *array = json_object_get(object, member), *one;
    size_t i;

    *count = 0;
    if (!array)
        return true;
    if (!json_is_array(array) || json_array_size(array) > TN_MEMBER_ASKS_MAX)
        return false;
    json_array_foreach(array, i, one)
    {
        json_int_t number = json_integer_value(one);

        if (!json_is_integer(one) || number < 0 || number >= TN_PLAN_JOBS_MAX ||
            (i > 0 && (uint32_t)number <= jobs[i - 1]))
            return false;
        jobs[(*count)++] = (uint32_t)number;
    }
    return true;
}

static bool take_counts(const json_t *object, struct tn_member *m)
{
    uint64_t ttl, renewals, flaps, format, share, limit, linger;
    bool well = take_count(object, "number", TN_MEMBER_NUMBER_MAX, 0, &m->identity.number) &&
                take_count(object, "ttl_ms", TN_TTL_MAX_MS, 0, &ttl) &&
                take_count(object, "renewals", UINT32_MAX, 0, &renewals) &&
                take_count(object, "flaps", 64, 0, &flaps) &&
                take_count(object, "linger_ms", UINT32_MAX, 0, &linger) &&
                take_count(object, "reads_format", UINT32_MAX, 1, &format) &&
                take_count(object, "share", TN_PLAN_SHARE_MAX, 1, &share) &&
                take_count(object, "limit", UINT32_MAX, UINT32_MAX, &limit) &&
                take_count(object, "plan_applied", INT64_MAX, 0, &m->applied);

    if (!well || m->identity.number == 0 || ttl < TN_TTL_MIN_MS || share == 0)
        return false;
    m->ttl_ms = (uint32_t)ttl;
    m->renewals = (uint32_t)renewals;
    m->flaps = (uint32_t)flaps;
    m->linger_ms = (uint32_t)linger;
    m->format = (uint32_t)format;
    m->share = (uint32_t)share;
    m->limit = (uint32_t)limit;
    return true;
}

static bool take_member(const json_t *object, struct tn_member *m)
{
    const char *incarnation = json_string_value(json_object_get(object, "incarnation"));
    const char *labels = json_string_value(json_object_get(object, "labels"));
    char sorted[TN_MEMBER_LABELS_MAX + 1];
    unsigned state, mark;

    if (!take_word(object, "state", states, STATES, &state) ||
        !take_word(object, "mark", marks, MARKS, &mark) || !take_counts(object, m) ||
        !incarnation || !tn_hex_decode(incarnation, m->identity.incarnation, TENURE_NONCE_SIZE) ||
        !take_jobs(object, "asks", m->asks, &m->ask_count) ||
        !take_jobs(object, "unfit", m->unfit, &m->unfit_count))
        return false;
    m->state = (enum tn_member_state)state;
    m->mark = (enum tn_member_mark)mark;
    m->draining = json_is_true(json_object_get(object, "draining"));
    m->standby = json_is_true(json_object_get(object, "standby"));
    if (labels && (tn_labels_sort(labels, sorted, NULL) || strcmp(sorted, labels) != 0))
        return false;
    strcpy(m->labels, labels ? labels : "");
    return true;
}

bool tn_jobs_is_foreign(const void *data, size_t len, const char *kind)
{
    static const char *const members[] = {"holder", "terms", "paused", "request", "roll"};
    static const char start[] = "tenure-";
    size_t n = strlen(kind);
    json_t *object;
    bool foreign = false;

    if (len > sizeof start && memcmp(data, start, sizeof start - 1) == 0)
        return n == 0 || len < n || memcmp(data, kind, n) != 0;
    object = len > 0 ? json_loadb(data, len, JSON_REJECT_DUPLICATES, NULL) : NULL;
    for (size_t i = 0; i < sizeof members / sizeof members[0]; i++)
        foreign |= json_object_get(object, members[i]) != NULL;
    foreign &= !json_object_get(object, "format");
    json_decref(object);
    return foreign;
}

enum tenure_status tn_member_decode(const void *data, size_t len, struct tn_member_record *record,
                                    struct tenure_error *err)
{
    struct tn_member_record r = {0};
    json_t *object = len <= TN_MEMBER_RECORD_MAX && len > 0
                         ? json_loadb(data, len, JSON_REJECT_DUPLICATES, NULL)
                         : NULL;
    uint64_t format = tn_record_number(object, "format", INT64_MAX);
    enum tenure_status status = TENURE_OK;

    if (!json_is_object(object) || format == 0)
        status = tenure_fail(err, TENURE_CORRUPT, "not the record of a member");
    else if (format > TN_JOBS_FORMAT)
        status = tenure_fail(err, TENURE_UNSUPPORTED,
                             "member: format %llu is newer than this build reads (%d): upgrade "
                             "tenure",
                             (unsigned long long)format, TN_JOBS_FORMAT);
    else if (!take_member(object, &r.member))
        status = tenure_fail(err, TENURE_CORRUPT, "the record of a member is damaged");
    TN_RECORD_TEXT(object, &r, id);
    TN_RECORD_TEXT(object, &r, host);
    TN_RECORD_TEXT(object, &r, build);
    r.renewed_ms = tn_record_number(object, "renewed_ms", INT64_C(1) << 50);
    json_decref(object);
    if (!status)
        *record = r;
    return status;
}

/* ---- Out ----------------------------------------------------------------- */

static bool put_jobs(json_t *object, const char *member, const uint32_t *jobs, uint32_t count)
{
    json_t *array = count ? json_array() : NULL;

    for (uint32_t i = 0; i < count; i++)
        json_array_append_new(array, json_integer(jobs[i]));
    return !count || json_object_set_new(object, member, array) == 0;
}

char *tn_member_encode(const struct tn_member_record *record)
{
    const struct tn_member *m = &record->member;
    char incarnation[TN_NONCE_HEX + 1], *text = NULL;
    char expires[TN_RFC3339_SIZE];

    tn_hex_encode(m->identity.incarnation, TENURE_NONCE_SIZE, incarnation);
    tn_rfc3339_format(record->renewed_ms + m->ttl_ms, expires);
    json_t *object = json_pack(
        "{s:i, s:s, s:s, s:s, s:I, s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:s, s:b, s:b, s:I, s:s, s:s,"
        " s:I, s:s, s:I}",
        "format", TN_JOBS_FORMAT, "id", record->id, "state", states[m->state], "mark",
        marks[m->mark], "number", (json_int_t)m->identity.number, "incarnation", incarnation,
        "ttl_ms", (json_int_t)m->ttl_ms, "renewals", (json_int_t)m->renewals, "flaps",
        (json_int_t)m->flaps, "reads_format", (json_int_t)m->format, "share",
        (json_int_t)(m->share ? m->share : 1), "limit", (json_int_t)m->limit, "labels", m->labels,
        "draining", (int)m->draining, "standby", (int)m->standby, "plan_applied",
        (json_int_t)m->applied, "host", record->host, "build", record->build, "renewed_ms",
        (json_int_t)record->renewed_ms, "lease_expires", expires, "linger_ms",
        (json_int_t)m->linger_ms);

    if (object && put_jobs(object, "asks", m->asks, m->ask_count) &&
        put_jobs(object, "unfit", m->unfit, m->unfit_count))
        text = json_dumps(object, JSON_COMPACT);
    json_decref(object);
    return text;
}
