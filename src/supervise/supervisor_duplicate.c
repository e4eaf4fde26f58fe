/*
 * Another process under our id.
 *
 * Each candidate writes NAME/candidates/ID with its incarnation.  If another one stands there than
 * the one that we wrote, a second process is alive under our id: both replace each other's record,
 * once a ttl at most, and so both know.  A process that was started in the place of a dead one is
 * never replaced.  Who leads was first; else who began to contend earlier.  The second one does not
 * contend until nobody has replaced its record for a ttl.
 *
 * None of it is needed for safety: grants are told apart by the incarnation, not by the id (I6b).
 */
#include <string.h>

#include "core/timing.h"
#include "supervise/supervisor_inner.h"

static int64_t ttl_ns(const struct tn_supervisor *s)
{
    int64_t ms = s->options->elector.ttl_ms;

    return (ms > 0 ? ms : 15000) * TN_MS;
}

/* Both come to the same answer from the two records. */
static bool was_first(const struct tn_supervisor *s, const struct tenure_candidate *other)
{
    int order = strcmp(s->self.since, other->since);

    if (s->machine.epoch != 0)
        return true;
    if (strcmp(other->state, "leading") == 0)
        return false;
    return order != 0 ? order < 0 : strcmp(s->self.incarnation, other->incarnation) < 0;
}

static void hold_back(struct tn_supervisor *s, bool second)
{
    pthread_mutex_lock(&s->inbox.lock);
    bool changed = s->inbox.duplicate != second;
    s->inbox.duplicate = second;
    pthread_mutex_unlock(&s->inbox.lock);
    if (changed)
        tn_supervisor_apply_claim(s);
}

void tn_supervisor_duplicate_found(struct tn_supervisor *s, const struct tenure_candidate *other)
{
    bool first = was_first(s, other), allowed = s->options->allow_duplicate_id;
    int64_t now = tenure_now(), again = s->rewritten_ns + ttl_ns(s);

    tn_supervisor_warn(s, TN_WARNING_DUPLICATE_ID,
                       "another process contends with the same id%s; give each an id of its own",
                       first     ? ""
                       : allowed ? ", and was there first"
                                 : " and was there first: this one does not contend");
    hold_back(s, !first && !allowed);
    s->duplicate_ns = now;
    s->duplicate.at_ns = s->rewritten_ns && again > now ? again : now;
}

static void rewrite_or_end(void *arg, int64_t now)
{
    struct tn_supervisor *s = arg;

    if (s->rewritten_ns > s->duplicate_ns) {
        tn_supervisor_warn(s, TN_WARNING_DUPLICATE_ID, "%s", "");
        hold_back(s, false);
        return;
    }
    s->rewritten_ns = now;
    s->duplicate.at_ns = now + ttl_ns(s);
    tn_supervisor_sync(s, TN_PEER_ANNOUNCE | TN_PEER_MEMBERSHIP);
}

void tn_supervisor_duplicate_open(struct tn_supervisor *s)
{
    tn_loop_timer(&s->loop, &s->duplicate, rewrite_or_end, s);
}
