/* core/jobs/worker_batch.c - which registers are read and swapped next, and what is written. */
#include "core/jobs/worker_inner.h"

static bool draft(struct tn_worker *w, struct tn_held *h, const struct tn_work_event *ev,
                  struct tn_job_swap *s)
{
    uint64_t nonce[2] = {ev->entropy[0] + h->job * UINT64_C(0x9e3779b97f4a7c15), ev->entropy[1]};
    struct tn_owner own = tn_worker_owner(w);
    struct tn_run run = tn_held_run(w, h);

    s->job = h->job;
    s->purpose = h->purpose;
    s->expect = held_token(w, h);
    s->record = (struct tn_job){.owner = own, .epoch = h->epoch, .seq = h->seq};
    memcpy(h->nonce, nonce, sizeof h->nonce);
    memcpy(s->nonce, nonce, sizeof s->nonce);
    if (h->purpose == TN_SWAP_CLAIM) {
        if (!tn_job_claim(&s->record, &own, w->cfg.ttl_ms, (const uint8_t *)nonce, ev->wall_ms))
            return false;
        h->epoch = s->record.epoch;
        memcpy(h->grant, s->record.grant, sizeof h->grant);
        return true;
    }
    memcpy(s->record.grant, h->grant, sizeof h->grant);
    s->record.wanted = (enum tn_wanted)h->wanted;
    s->record.ttl_ms = w->cfg.ttl_ms;
    if (h->purpose == TN_SWAP_COMMIT)
        s->record.seq++;
    else
        tn_job_release(&s->record, &run);
    return true;
}

static bool ask_reads(struct tn_worker *w, struct tn_work_actions *out)
{
    out->n = 0;
    for (uint32_t i = 0; i < w->held_count && out->n < w->pace && w->reads_due; i++) {
        struct tn_held *h = &w->cfg.held[i];

        if (h->request != TN_REQUEST_READ)
            continue;
        h->request = TN_REQUEST_READING;
        w->lists.jobs[out->n++] = h->job;
    }
    w->reads_due = out->n == w->pace; /* else that was all of them */
    out->request = out->n ? TN_WORK_READ_JOBS : TN_WORK_NOTHING;
    return out->n > 0;
}

/* From where the last batch ended: programs that commit all the time keep nobody waiting. */
static bool ask_swaps(struct tn_worker *w, const struct tn_work_event *ev,
                      struct tn_work_actions *out)
{
    uint32_t first = w->swap_next;

    out->n = 0;
    for (uint32_t i = 0; i < w->held_count && out->n < w->pace; i++) {
        uint32_t at = (first + i) % w->held_count;
        struct tn_held *h = &w->cfg.held[at];

        if (h->request != TN_REQUEST_SWAP)
            continue;
        if (!draft(w, h, ev, &w->lists.swaps[out->n])) {
            h->request = TN_REQUEST_LATER; /* no epoch is left, until an operator helps */
            continue;
        }
        h->request = TN_REQUEST_SWAPPING;
        w->swap_next = at + 1;
        w->lists.batch[out->n++] = h->job;
    }
    w->batch_n = out->n;
    out->request = out->n ? TN_WORK_SWAP_JOBS : TN_WORK_NOTHING;
    return out->n > 0;
}

/*
 * What lasts longer than half of its time is halved: a batch that is cut off at its deadline
 * leaves all of its jobs in doubt.  What lasts less than a quarter is doubled.
 */
void tn_held_pace(struct tn_worker *w)
{
    int64_t took_ns = w->now_ns - w->asked_ns;
    uint32_t n = w->asked_n;
    uint32_t least = w->cfg.batch_min;

    if (took_ns > w->good_ns)
        w->pace = n / 2 > least ? n / 2 : least;
    else if (n == w->pace && took_ns < w->good_ns / 2)
        w->pace = n < w->cfg.batch_max / 2 ? 2 * n : w->cfg.batch_max;
}

bool tn_held_ask(struct tn_worker *w, const struct tn_work_event *ev, struct tn_work_actions *out)
{
    int64_t most_ns = w->cfg.timing.hold_ns / 10;

    if (w->cfg.timing.request_ns < most_ns)
        most_ns = w->cfg.timing.request_ns;
    out->request_by_ns = w->now_ns + most_ns;
    w->asked_ns = w->now_ns;
    w->good_ns = most_ns / 2;
    /* In turns: what was read is claimed before more is, and commits keep no read waiting. */
    bool asked = w->swaps_first ? ask_swaps(w, ev, out) || ask_reads(w, out)
                                : ask_reads(w, out) || ask_swaps(w, ev, out);
    w->swaps_first = out->request == TN_WORK_READ_JOBS;
    w->asked_n = asked ? out->n : 0;
    assert(w->asked_n <= w->cfg.batch_max);
    return w->asked_n > 0;
}
