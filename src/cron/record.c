#include "cron/record.h"

#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/record_text.h"

static const char *const words[] = {"none",        "new",    "skipped", "running",
                                    "interrupted", "failed", "done"};
_Static_assert(sizeof words / sizeof words[0] == TN_PERIOD_STATES, "a word each");

const char *tn_period_state_word(enum tn_period_state state)
{
    return words[state];
}

void tn_period_name(int64_t at_s, char out[TN_PERIOD_MAX + 1])
{
    time_t at = (time_t)at_s;
    struct tm utc = {0};

    gmtime_r(&at, &utc);
    strftime(out, TN_PERIOD_MAX + 1, "%Y-%m-%dT%H:%M:%SZ", &utc);
}

char *tn_period_record_encode(const struct tn_period_record *r, size_t *len)
{
    json_t *o = json_pack("{s:s, s:s, s:I, s:i, s:i, s:I, s:I, s:I, s:s, s:s}", "state",
                          words[r->state], "period", r->period, "at", (json_int_t)r->at_s, "code",
                          r->code, "tries", (int)r->tries, "epoch", (json_int_t)r->epoch, "started",
                          (json_int_t)r->started_ms, "ended", (json_int_t)r->ended_ms, "by", r->by,
                          "schedule", r->schedule);
    char *text = o ? json_dumps(o, JSON_COMPACT) : NULL;

    json_decref(o);
    *len = text ? strlen(text) : 0;
    return text;
}

static enum tn_period_state state_of(const char *word)
{
    for (int i = 1; i < TN_PERIOD_STATES; i++) {
        if (strcmp(word, words[i]) == 0)
            return (enum tn_period_state)i;
    }
    return TN_PERIOD_NONE;
}

enum tenure_status tn_period_record_decode(const void *data, size_t len, struct tn_period_record *r,
                                           struct tenure_error *err)
{
    json_t *o = json_loadb(data, len, JSON_REJECT_DUPLICATES, NULL);
    struct tn_period_record found = {0};
    char state[32];

    tn_record_text(o, "state", state, sizeof state);
    found.state = state_of(state);
    tn_record_text(o, "period", found.period, sizeof found.period);
    found.at_s = (int64_t)tn_record_number(o, "at", INT64_C(1) << 40);
    found.code = (int)tn_record_number(o, "code", 255);
    found.tries = (uint32_t)tn_record_number(o, "tries", INT_MAX);
    found.epoch = tn_record_number(o, "epoch", INT64_MAX);
    found.started_ms = tn_record_number(o, "started", INT64_MAX);
    found.ended_ms = tn_record_number(o, "ended", INT64_MAX);
    tn_record_text(o, "by", found.by, sizeof found.by);
    tn_record_text(o, "schedule", found.schedule, sizeof found.schedule);
    json_decref(o);
    if (found.state == TN_PERIOD_NONE || !found.period[0])
        return tenure_fail(err, TENURE_CORRUPT, "the record of the last period cannot be read");
    *r = found;
    return TENURE_OK;
}
