/* The fields of a schedule, and the record of a period, on hostile bytes. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "cron/record.h"
#include "cron/schedule.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* An hour forward and an hour back in each year of 365 days. */
static int64_t offset(void *arg, int64_t at_s)
{
    int64_t of_year = (at_s % 31536000 + 31536000) % 31536000;

    (void)arg;
    return of_year > 7500000 && of_year < 25700000 ? 7200 : 3600;
}

/* What is taken has a last time and a next one, and they agree. */
static void check_schedule(const char *text)
{
    static const struct tn_zone zone = {.offset = offset};
    const int64_t at = 1794970000;
    struct tn_schedule s, untouched;
    struct tenure_error err = {0};

    memset(&s, 0x5a, sizeof s);
    untouched = s;
    enum tenure_status status = tn_schedule_parse(text, &s, &err);
    if (status) {
        check_refusal(&err, status);
        assert(memcmp(&s, &untouched, sizeof s) == 0);
        return;
    }
    int64_t last = tn_schedule_last(&s, &zone, at), next = tn_schedule_next(&s, &zone, at);
    assert(last <= at && next > at);
    assert(tn_schedule_last(&s, &zone, next) == next);
    assert(tn_schedule_last(&s, &zone, next - 1) == last);
    assert(tn_schedule_next(&s, &zone, last) == next);
}

static void check_record(const uint8_t *data, size_t size)
{
    struct tn_period_record r, again;
    struct tenure_error err = {0};
    char name[TN_PERIOD_MAX + 1];
    size_t len;

    enum tenure_status status = tn_period_record_decode(data, size, &r, &err);
    if (status) {
        check_refusal(&err, status);
        return;
    }
    CHECK_TEXT(r.period);
    CHECK_TEXT(r.by);
    CHECK_TEXT(r.schedule);
    assert(r.state > TN_PERIOD_NONE && r.state < TN_PERIOD_STATES && r.code >= 0 && r.code < 256);
    tn_period_name(r.at_s, name);
    CHECK_TEXT(name);
    char *text = tn_period_record_encode(&r, &len);
    assert(text && tn_period_record_decode(text, len, &again, &err) == TENURE_OK);
    assert(memcmp(&r, &again, sizeof r) == 0);
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = strndup((const char *)data, size);

    if (text)
        check_schedule(text);
    free(text);
    check_record(data, size);
    return 0;
}
