/*
 * Another process under our id.
 *
 * Each candidate writes NAME/candidates/ID with its incarnation.  If another one stands there than
 * the one that we wrote, a second process is alive under our id: both write their record again,
 * once a ttl, and so both know.  A process that was started in the place of a dead one is never
 * replaced.  tn_peer_holds_back() says which of them does not contend, from what both last wrote.
 * It is over when the other one has removed the record, or has not replaced ours in three ttls.
 *
 * None of it is needed for safety: grants are told apart by the incarnation, not by the id (I6b).
 */
#include "core/timing.h"
#include "supervise/supervisor_inner.h"

#define UNANSWERED_MAX 3

static int64_t ttl_ns(const struct tn_supervisor *s)
{
    int64_t ms = s->options->elector.ttl_ms;

    return (ms > 0 ? ms : 15000) * TN_MS;
}

static void hold_back(struct tn_supervisor *s, bool second)
{
    pthread_mutex_lock(&s->inbox.lock);
    bool changed = s->inbox.duplicate != second;
    s->inbox.duplicate = second;
    pthread_mutex_unlock(&s->inbox.lock);
    if (!changed)
        return;
    tn_supervisor_apply_claim(s);
    tn_supervisor_sync(s, TN_PEER_ANNOUNCE | TN_PEER_MEMBERSHIP);
}

void tn_supervisor_duplicate_found(struct tn_supervisor *s, const struct tenure_candidate *other)
{
    struct tenure_candidate self = tn_supervisor_record(s);
    bool second = tn_peer_holds_back(&self, other), allowed = s->options->allow_duplicate_id;

    tn_supervisor_warn(s, TN_WARNING_DUPLICATE_ID,
                       "another process contends with the same id%s; give each an id of its own",
                       !second   ? ""
                       : allowed ? ", and comes first"
                                 : " and comes first: this one does not contend");
    hold_back(s, second && !allowed);
    s->unanswered = 0;
    if (s->duplicate.at_ns == TN_NEVER)
        s->duplicate.at_ns = tenure_now();
}

void tn_supervisor_duplicate_over(struct tn_supervisor *s)
{
    s->duplicate.at_ns = TN_NEVER;
    tn_supervisor_warn(s, TN_WARNING_DUPLICATE_ID, "%s", "");
    hold_back(s, false);
}

static void rewrite_or_end(void *arg, int64_t now)
{
    struct tn_supervisor *s = arg;

    if (s->unanswered++ >= UNANSWERED_MAX) {
        tn_supervisor_duplicate_over(s);
        return;
    }
    s->duplicate.at_ns = now + ttl_ns(s);
    tn_supervisor_sync(s, TN_PEER_ANNOUNCE | TN_PEER_MEMBERSHIP);
}

void tn_supervisor_duplicate_open(struct tn_supervisor *s)
{
    tn_loop_timer(&s->loop, &s->duplicate, rewrite_or_end, s);
}
