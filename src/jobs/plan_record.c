/* GROUP/plan and GROUP/bell. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/key.h"
#include "jobs/records.h"

/* ---- The plan ------------------------------------------------------------ */

static unsigned width_of(uint32_t members)
{
    return members <= 254 ? 1 : 2;
}

size_t tn_plan_size(uint32_t jobs, uint32_t members)
{
    return 160 + (size_t)members * (TN_MEMBER_ID_MAX + 1) + (size_t)jobs * width_of(members);
}

void tn_plan_free(struct tn_plan_register *plan)
{
    free(plan->members);
    free(plan->slots);
    memset(plan, 0, sizeof *plan);
}

/* The ids stand one a line; *at is behind them then. */
static bool take_ids(struct tn_plan_register *p, const unsigned char **at, size_t *left)
{
    for (uint32_t i = 0; i < p->member_count; i++) {
        const unsigned char *end = *left ? memchr(*at, '\n', *left) : NULL;
        size_t n = end ? (size_t)(end - *at) : 0;

        if (!end || n > TN_MEMBER_ID_MAX || memchr(*at, '\0', n))
            return false;
        memcpy(p->members[i], *at, n);
        if (tn_jobs_id_fault(p->members[i]))
            return false;
        *at = end + 1;
        *left -= n + 1;
    }
    return true;
}

static bool take_slots(struct tn_plan_register *p, const unsigned char *at, size_t left,
                       unsigned width)
{
    if (left != (size_t)p->job_count * width)
        return false;
    for (uint32_t i = 0; i < p->job_count; i++) {
        unsigned slot = width == 1 ? at[i] : at[2 * i] | (unsigned)at[2 * i + 1] << 8;
        bool none = slot == (width == 1 ? UINT8_MAX : UINT16_MAX);

        if (!none && slot >= p->member_count)
            return false;
        p->slots[i] = none ? TN_SLOT_NONE : (uint16_t)slot;
    }
    return true;
}

enum tenure_status tn_plan_decode(const void *data, size_t len, struct tn_plan_register *plan,
                                  struct tenure_error *err)
{
    struct tn_plan_register p = {0};
    uint8_t digest[8] = {0};
    struct tn_line line;
    enum tenure_status status = tn_line_begin(data, len, TN_PLAN_KIND, &line, err);

    if (status)
        return status;
    p.seq = tn_line_number(&line, TN_EPOCH_MAX);
    p.catalogue = tn_line_number(&line, TN_EPOCH_MAX);
    tn_line_hex(&line, digest, sizeof digest);
    p.cut = tn_line_letter(&line, "-c") == 'c';
    p.member_count = (uint32_t)tn_line_number(&line, TN_PLAN_MEMBERS_MAX);
    p.job_count = (uint32_t)tn_line_number(&line, TN_PLAN_JOBS_MAX);
    unsigned width = (unsigned)tn_line_number(&line, 2);
    status = tn_line_end(&line, TN_PLAN_KIND, err);
    if (status)
        return status;
    for (unsigned i = 0; i < 8; i++)
        p.digest = p.digest << 8 | digest[i];
    /* A member takes two bytes and a job one, so what is asked for is no more than what came. */
    bool possible = width == width_of(p.member_count) && p.seq > 0 &&
                    (size_t)p.member_count * 2 + (size_t)p.job_count * width <= line.after_len;
    if (possible) {
        p.members = calloc((size_t)p.member_count + 1, sizeof *p.members);
        p.slots = calloc((size_t)p.job_count + 1, sizeof *p.slots);
        if (!p.members || !p.slots)
            status = tenure_fail(err, TENURE_NOMEM, "out of memory");
    }
    if (!status && !(possible && take_ids(&p, &line.after, &line.after_len) &&
                     take_slots(&p, line.after, line.after_len, width)))
        status = tenure_fail(err, TENURE_CORRUPT, "the plan is damaged");
    if (status)
        tn_plan_free(&p);
    else
        *plan = p;
    return status;
}

unsigned char *tn_plan_encode(const struct tn_plan_register *plan, size_t *len)
{
    unsigned width = width_of(plan->member_count);
    unsigned char *out = malloc(tn_plan_size(plan->job_count, plan->member_count)), *to = out;

    if (!out)
        return NULL;
    to +=
        sprintf((char *)to, TN_PLAN_KIND " %d %" PRIu64 " %" PRIu64 " %016" PRIx64 " %c %u %u %u\n",
                TN_JOBS_FORMAT, plan->seq, plan->catalogue, plan->digest, plan->cut ? 'c' : '-',
                plan->member_count, plan->job_count, width);
    for (uint32_t i = 0; i < plan->member_count; i++)
        to += sprintf((char *)to, "%s\n", plan->members[i]);
    for (uint32_t i = 0; i < plan->job_count; i++) {
        *to++ = (unsigned char)plan->slots[i];
        if (width == 2)
            *to++ = (unsigned char)(plan->slots[i] >> 8);
    }
    *len = (size_t)(to - out);
    return out;
}

/* ---- The bell ------------------------------------------------------------ */

void tn_bell_ring(tenure_store *store, const char *group, int64_t deadline)
{
    struct tenure_value value = {0};
    char key[TENURE_KEY_MAX + 1], text[64];
    struct tenure_swap swap = {.key = key, .data = text};
    struct tn_line line;
    uint64_t count = 0;

    tn_key_of(group, TN_KEY_BELL, key);
    if (tenure_store_read(store, key, &value, deadline, NULL) == TENURE_OK) {
        if (tn_line_begin(value.data, value.len, TN_BELL_KIND, &line, NULL) == TENURE_OK)
            count = tn_line_number(&line, INT64_MAX - 1);
        swap.expect = value.token;
        swap.len =
            (size_t)sprintf(text, TN_BELL_KIND " %d %" PRIu64 "\n", TN_JOBS_FORMAT, count + 1);
        /* Whatever comes of it: somebody else has rung, or a look at the interval will do. */
        if (tenure_nonce(swap.nonce, NULL) == TENURE_OK)
            tenure_store_swap(store, &swap, deadline, NULL);
    }
    tenure_value_free(&value);
}
