/*
 * Elections without a program: those who ask whether we lead are the work.
 *
 * Nobody can kill a client, so its time is bounded by what it is told: an answer
 * "leading" holds for left_ms, at most answer_ns, and the client stops when that
 * has passed, whether or not it could ask again.  From the moment leadership is
 * dropped in memory (I7) nobody is told so any more; answer_ns later, or at D,
 * whichever comes first, the last answer has run out and the lease may be
 * released (I8).  Meanwhile the drain goes on renewing.  After a crash of ours
 * the guard waits as long (release_delay_ns) before its releaser does the same.
 */
#include "driver/driver.h"
#include "os/clock.h"
#include "supervise/supervisor_inner.h"

void tn_supervisor_lead_clients(struct tn_supervisor *s)
{
    s->fired = false;
    if (!tn_supervisor_leave_facts(s)) {
        tn_driver_ended(s->elector, s->epoch);
        return;
    }
    tn_supervisor_note_start(s, tenure_now());
}

void tn_supervisor_stop_clients(struct tn_supervisor *s)
{
    int64_t now = tenure_now(), deadline = atomic_load(&s->deadline_ns);

    if (s->state == TN_PROGRAM_HOOK)
        return;
    s->state = TN_PROGRAM_HOOK; /* nothing runs, and the release waits */
    s->quiet.at_ns = now + s->options->answer_ns;
    if (deadline > 0 && s->quiet.at_ns > deadline)
        s->quiet.at_ns = deadline;
    tn_guard_link_keep(&s->link, s->quiet.at_ns);
}

void tn_supervisor_clients_time(void *arg, int64_t now)
{
    struct tn_supervisor *s = arg;

    if (s->epoch != 0) {
        s->self.ended_epoch = s->epoch;
        s->self.ended_ns = now;
        s->self.ended_ms = tn_wall_ms();
    }
    tn_supervisor_hooks_end(s);
}
