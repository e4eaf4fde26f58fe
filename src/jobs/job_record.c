/* The register of a job, and what its id and labels may be. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/decimal.h"
#include "base/hex.h"
#include "base/text.h"
#include "jobs/records.h"

static const char wanted_letters[] = "rpx"; /* by enum tn_wanted */

/* ---- Ids and labels ------------------------------------------------------ */

const char *tn_jobs_id_fault(const char *id)
{
    if (!*id)
        return "it is empty";
    if (strlen(id) > TN_JOB_ID_MAX)
        return "it is longer than 127 bytes";
    if (!tn_text_is_utf8(id))
        return "it is not UTF-8";
    for (const char *p = id; *p; p++) {
        if (tn_text_control(p))
            return "it holds a control character";
    }
    return *id == ' ' || id[strlen(id) - 1] == ' ' ? "it begins or ends with a space" : NULL;
}

static bool is_label_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           strchr("._-/:", c) != NULL;
}

/* "key=value" of letters, digits and ._-/: */
static bool is_label(const char *text)
{
    const char *equals = strchr(text, '=');

    if (!equals || equals == text || strchr(equals + 1, '='))
        return false;
    for (const char *p = text; *p; p++) {
        if (p != equals && !is_label_char(*p))
            return false;
    }
    return true;
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static bool same_key(const char *a, const char *b)
{
    size_t n = strcspn(a, "=");

    return n == strcspn(b, "=") && memcmp(a, b, n) == 0;
}

enum tenure_status tn_labels_sort(const char *text, char out[TN_MEMBER_LABELS_MAX + 1],
                                  struct tenure_error *err)
{
    char copy[TN_MEMBER_LABELS_MAX + 1], *parts[TN_MEMBER_LABELS_MAX / 2 + 1], *rest = copy;
    char *to = out;
    size_t n = 0;

    if (strlen(text) > TN_MEMBER_LABELS_MAX)
        return tenure_fail(err, TENURE_INVALID, "labels of %zu bytes; at most %d", strlen(text),
                           TN_MEMBER_LABELS_MAX);
    strcpy(copy, text);
    while (*text && rest) {
        char *label = strsep(&rest, ",");

        if (!is_label(label))
            return tenure_fail(err, TENURE_INVALID,
                               "'%.60s' is not a label: write key=value with letters, digits and "
                               "._-/:",
                               label);
        parts[n++] = label;
    }
    qsort(parts, n, sizeof *parts, by_text);
    for (size_t i = 1; i < n; i++) {
        if (same_key(parts[i - 1], parts[i]))
            return tenure_fail(err, TENURE_INVALID, "label '%.*s' occurs twice",
                               (int)strcspn(parts[i], "="), parts[i]);
    }
    for (size_t i = 0; i < n; i++)
        to = tn_put_text(i ? tn_put_text(to, ",") : to, parts[i]);
    *to = '\0';
    return TENURE_OK;
}

bool tn_labels_have(const char *labels, const char *wanted)
{
    while (*wanted) {
        size_t n = strcspn(wanted, ",");
        const char *at = labels;

        while (*at && (strcspn(at, ",") != n || memcmp(at, wanted, n) != 0)) {
            at += strcspn(at, ",");
            at += *at == ',';
        }
        if (!*at)
            return false;
        wanted += n + (wanted[n] == ',');
    }
    return true;
}

/* ---- The record ---------------------------------------------------------- */

static bool is_zero(const uint8_t *bytes, size_t n)
{
    while (n && !*bytes)
        bytes++, n--;
    return n == 0;
}

enum tenure_status tn_job_decode(const void *data, size_t len, struct tn_job *job,
                                 const unsigned char **checkpoint, size_t *checkpoint_len,
                                 struct tenure_error *err)
{
    struct tn_job j = {0};
    struct tn_line line;
    enum tenure_status status = tn_line_begin(data, len, TN_JOB_KIND, &line, err);

    if (status)
        return status;
    j.epoch = tn_line_number(&line, TN_EPOCH_MAX);
    tn_line_hex(&line, j.grant, sizeof j.grant);
    j.seq = tn_line_number(&line, TN_EPOCH_MAX);
    char wanted = tn_line_letter(&line, wanted_letters);
    j.owner.identity.number = tn_line_number(&line, TN_MEMBER_NUMBER_MAX);
    tn_line_hex(&line, j.owner.identity.incarnation, sizeof j.owner.identity.incarnation);
    j.ttl_ms = (uint32_t)tn_line_number(&line, TN_TTL_MAX_MS);
    tn_line_rest(&line, j.owner.id, sizeof j.owner.id);
    status = tn_line_end(&line, TN_JOB_KIND, err);
    if (status)
        return status;
    j.wanted = (enum tn_wanted)(strchr(wanted_letters, wanted) - wanted_letters);
    /* An owner is whole or it is none; who owns has claimed, under an epoch and a lease. */
    bool nobody = j.owner.identity.number == 0 &&
                  is_zero(j.owner.identity.incarnation, sizeof j.owner.identity.incarnation);
    if (tn_job_owned(&j)
            ? nobody || j.epoch == 0 || j.ttl_ms < TN_TTL_MIN_MS || tn_jobs_id_fault(j.owner.id)
            : !nobody || j.ttl_ms != 0)
        return tenure_fail(err, TENURE_CORRUPT, TN_JOB_KIND ": its owner is damaged");
    *job = j;
    *checkpoint = line.after;
    *checkpoint_len = line.after_len;
    return TENURE_OK;
}

size_t tn_job_put(const struct tn_job *job, const void *checkpoint, size_t checkpoint_len,
                  unsigned char *out)
{
    char *to = (char *)out;

    assert(tn_job_owned(job) == (job->ttl_ms != 0));
    to = tn_put_number(tn_put_text(to, TN_JOB_KIND " "), TN_JOBS_FORMAT);
    to = tn_put_number(tn_put_text(to, " "), job->epoch);
    *to++ = ' ';
    tn_hex_encode(job->grant, sizeof job->grant, to);
    to = tn_put_number(tn_put_text(to + TN_NONCE_HEX, " "), job->seq);
    *to++ = ' ';
    *to++ = wanted_letters[job->wanted];
    to = tn_put_number(tn_put_text(to, " "), job->owner.identity.number);
    *to++ = ' ';
    tn_hex_encode(job->owner.identity.incarnation, sizeof job->owner.identity.incarnation, to);
    to = tn_put_number(tn_put_text(to + TN_NONCE_HEX, " "), job->ttl_ms);
    to = tn_put_text(tn_put_text(to, " "), job->owner.id);
    *to++ = '\n';
    if (checkpoint_len)
        memcpy(to, checkpoint, checkpoint_len);
    return (size_t)(to - (char *)out) + checkpoint_len;
}
