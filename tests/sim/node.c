#include "node.h"

#include <assert.h>
#include <string.h>

#include "body.h"
#include "check.h"
#include "net.h"
#include "prover.h"
#include "state.h"
#include "store.h"

/* ---- Steps --------------------------------------------------------------- */

static void draw_stall(struct sim_world *w, struct sim_node *n)
{
    const struct sim_plan *p = &w->plan;

    n->stall_duty = SIM_DUTIES;
    if (p->odds.stall == 0 || w->quiet)
        return;
    struct sim_rng rng = sim_rng_keyed(p->seed, SIM_RND_STALL, n->index, n->steps);
    if ((uint16_t)sim_rng_next(&rng) >= p->odds.stall)
        return;
    n->stall_duty = (unsigned)sim_rng_below(&rng, SIM_DUTIES);
    int64_t most = sim_rng_chance(&rng, 50) ? n->timing->request_ns : 2 * n->timing->ttl_ns;
    n->stall_ns = sim_rng_span(&rng, 1, most);
    if (!sim_fault(w, SIM_RND_STALL, n->index, n->steps))
        n->stall_duty = SIM_DUTIES;
}

static void say_step(struct sim_world *w, const struct sim_node *n, const struct tn_event *ev)
{
    static const char *const kinds[] = {"start",  "timer",    "changed",  "read",    "swapped",
                                        "sealed", "fenced",   "unsealed", "stopped", "fired",
                                        "yield",  "shutdown", "control",  "timing",  "proved"};
    const struct tn_elector *e = &n->elector;

    sim_say_at(w, n->index, "%s%s%s -> %s, deadline %+.3f s", kinds[ev->kind],
               ev->kind == TN_EV_READ || ev->kind == TN_EV_SWAPPED ? " " : "",
               ev->kind == TN_EV_READ || ev->kind == TN_EV_SWAPPED ? tenure_status_word(ev->status)
                                                                   : "",
               tn_phase_word(e->phase),
               n->out.deadline_ns ? (double)(n->out.deadline_ns - e->now_ns) / 1e9 : 0.0);
}

static void step(struct sim_world *w, struct sim_node *n, struct tn_event *ev)
{
    const struct sim_plan *p = &w->plan;

    n->steps++;
    n->step_ns = w->now_ns;
    ev->now_ns = sim_local(w, n);
    ev->wall_ms = (uint64_t)(p->wall_ms + n->wall_off_ms + w->now_ns / TN_MS);
    ev->entropy[0] = sim_key(p->seed, SIM_RND_ENTROPY, n->index, n->steps);
    ev->entropy[1] = sim_mix(ev->entropy[0] + n->index) | 1;
    n->waiting = false;
    n->wait_gen++;
    tn_elector_step(&n->elector, ev, &n->out);
    w->counts.steps++;
    sim_hash(w, (uint64_t)ev->kind << 32 | n->out.set << 8 | n->index,
             (uint64_t)n->out.deadline_ns ^ (uint64_t)w->now_ns);
    if (w->trace.to)
        say_step(w, n, ev);
    n->duty = 0;
    draw_stall(w, n);
    sim_check_step(w, n, ev);
}

/* Fill the event from the mail.  False: it is about something that is over. */
static bool open_mail(struct sim_world *w, struct sim_node *n, const struct sim_mail *mail,
                      struct tn_event *ev)
{
    ev->kind = mail->kind;
    switch (mail->kind) {
    case TN_EV_TIMER:
    case TN_EV_CHANGED:
        return n->waiting && mail->tag == n->wait_gen;
    case TN_EV_READ:
    case TN_EV_SWAPPED:
        if (!n->req.out || mail->tag != n->req.no)
            return false;
        n->req.out = false;
        ev->status = mail->status;
        /* Both the answer and the end of its time may be there when a paused
         * driver goes on; which it sees first is nobody's promise. */
        if (n->req.answered && n->req.answer_ns <= w->now_ns && (n->steps & 1))
            ev->status = n->req.status;
        ev->floor = n->req.floor;
        ev->token = n->req.seen.token;
        ev->tombstone = n->req.seen.tombstone;
        ev->corrupt = n->req.seen.corrupt;
        ev->record = n->req.seen.has_record && !n->req.seen.corrupt ? &n->req.seen.lease : NULL;
        return true;
    case TN_EV_SEALED:
    case TN_EV_FENCED:
    case TN_EV_UNSEALED:
        memcpy(ev->grant, mail->grant, TENURE_NONCE_SIZE);
        ev->floor = mail->floor;
        ev->final = mail->final;
        return true;
    case TN_EV_PROVED:
        ev->status = mail->status;
        return true;
    case TN_EV_FIRED:
        /* "On the current grant": the driver's own guard word tells which. */
        return memcmp(mail->grant, n->elector.grant, TENURE_NONCE_SIZE) == 0;
    default:
        ev->until_ns = mail->until_ns;
        ev->may_claim = mail->may_claim;
        ev->claim_delay_ns = mail->until_ns;
        ev->timing = mail->timing;
        if (mail->kind == TN_EV_CONTROL)
            n->may_claim = mail->may_claim;
        n->facts.ordered |= mail->kind == TN_EV_YIELD;
        n->facts.ending |= mail->kind == TN_EV_SHUTDOWN;
        return true;
    }
}

static bool is_answer(const struct sim_mail *mail)
{
    return mail->kind == TN_EV_READ || mail->kind == TN_EV_SWAPPED;
}

/* The next mail that the driver would look at now; a blocking driver sees
 * nothing but its store call while that is out. */
static int next_mail(const struct sim_world *w, const struct sim_node *n)
{
    for (unsigned i = 0; i < n->n_mail; i++) {
        if (!w->plan.blocking || !n->req.out || is_answer(&n->mail[i]))
            return (int)i;
    }
    return -1;
}

/* ---- Duties -------------------------------------------------------------- */

static void fill_msg(struct sim_node *n, struct sim_msg *msg)
{
    const struct tn_actions *out = &n->out;

    msg->node = n->index;
    msg->life = n->life;
    msg->no = n->req.no;
    msg->read = n->req.read;
    msg->echo = false;
    msg->purpose = n->req.purpose;
    msg->sent_ns = n->req.sent_ns;
    msg->hold_ns = n->req.hold_ns;
    if (msg->read)
        return;
    memcpy(msg->incarnation, n->elector.cfg.incarnation, TENURE_NONCE_SIZE);
    memcpy(msg->grant, n->elector.grant, TENURE_NONCE_SIZE);
    msg->expect = out->expect;
    memcpy(msg->nonce, out->nonce, TENURE_NONCE_SIZE);
    msg->record = out->record;
}

/* How long a request waits for its session.  What is being set up outlives the request. */
static int64_t session_wait(struct sim_world *w, struct sim_node *n)
{
    if (w->plan.trips == 0 || n->session)
        return 0;
    if (n->session_ns == 0)
        n->session_ns = w->now_ns + w->plan.trips * 2 * w->plan.latency_ns;
    sim_check_excuse(w, n);
    return n->session_ns > w->now_ns ? n->session_ns - w->now_ns : 0;
}

/* Not sent: its time is up before. */
static void time_out(struct sim_world *w, struct sim_node *n, int64_t at_ns)
{
    struct sim_request *r = &n->req;

    r->status = TENURE_TIMEOUT;
    r->answered = true;
    r->answer_ns = at_ns;
    sim_check_excuse(w, n);
    sim_at(w, at_ns, SIM_Q_ANSWER, n->index, r->no, 0);
}

static void ask(struct sim_world *w, struct sim_node *n)
{
    struct sim_request *r = &n->req;

    r->out = true;
    r->answered = false;
    r->read = n->out.set & TN_ACT_READ;
    r->no++;
    r->purpose = r->read ? TN_FOR_NONE : n->out.purpose;
    r->sent_ns = n->elector.now_ns;
    r->hold_ns = n->elector.cfg.timing.hold_ns;
    r->grace_ns = n->elector.cfg.timing.grace_ns;
    r->by_ns = n->out.request_by_ns;
    r->seen.token = (struct tenure_token){0};
    r->seen.has_record = r->seen.tombstone = r->seen.corrupt = false;
    n->facts.request_ns = n->step_ns;
    if (w->trace.to && r->read)
        sim_say_at(w, n->index, "asks to read (request %u)", r->no);
    else if (w->trace.to)
        sim_say_at(w, n->index, "asks to %s at v%s, epoch %llu (request %u)",
                   sim_purpose_word(r->purpose), n->out.expect.version,
                   (unsigned long long)n->out.record.epoch, r->no);
    if (!r->read)
        sim_check_send(w, n);

    int64_t by = sim_clock_true(&n->clock, r->by_ns);
    if (by <= w->now_ns && (n->steps & 2)) {
        time_out(w, n, w->now_ns); /* a store may tell so at once */
        return;
    }
    int64_t wait = session_wait(w, n);
    r->late = wait > 0;
    if (w->now_ns + wait > by) {
        time_out(w, n, by > w->now_ns ? by : w->now_ns);
        return;
    }
    n->session = true;
    n->session_ns = 0;
    struct sim_msg *msg = sim_net_take(w);
    fill_msg(n, msg);
    msg->wait_ns = wait;
    int64_t due = w->plan.family->send(w, n, msg);
    if (due >= by)
        sim_at(w, by > w->now_ns ? by : w->now_ns, SIM_Q_GIVE_UP, n->index, r->no, 0);
}

void sim_node_set_wake(struct sim_world *w, struct sim_node *n)
{
    int64_t at = sim_clock_true(&n->clock, n->out.wait_until_ns);

    if (at < w->now_ns)
        at = w->now_ns;
    if (n->wake_ns != 0 && n->wake_ns <= at)
        return; /* the timer that is set comes up before, and is set anew then */
    n->wake_ns = at;
    sim_at(w, at, SIM_Q_WAKE, n->index, ++n->wake_gen, 0);
}

static void wait(struct sim_world *w, struct sim_node *n)
{
    n->waiting = true;
    if (n->out.wait_until_ns < SIM_NEVER)
        sim_node_set_wake(w, n);
    if (n->out.watch)
        sim_store_subscribe(w, n);
}

static void do_duty(struct sim_world *w, struct sim_node *n)
{
    unsigned set = n->out.set;

    switch (n->duty) {
    case 0:
        sim_body_publish(w, n);
        break;
    case 1:
        if (set & TN_ACT_STOP)
            sim_body_stop(w, n);
        break;
    case 2:
        if (set & TN_ACT_SEAL)
            sim_saver_seal(w, n);
        break;
    case 3:
        if (set & TN_ACT_START)
            sim_body_start(w, n);
        break;
    case 4:
        if (set & TN_ACT_PROVE) /* who leads is for people */
            sim_prover_start(w, n);
        break;
    default:
        if (set & (TN_ACT_READ | TN_ACT_SWAP)) {
            ask(w, n);
        } else if (set & TN_ACT_WAIT) {
            wait(w, n);
        } else if (set & TN_ACT_HALT) {
            sim_say(w, n->index, "has ended");
            n->run = SIM_DOWN;
            n->ended = true;
            if (w->quiet) /* in the calm everybody takes part */
                sim_at(w, w->now_ns + TN_MS, SIM_Q_BOOT, n->index, 0, 0);
        }
        break;
    }
}

/* Carry the last step's actions out.  False: paused in the middle of it. */
static bool perform(struct sim_world *w, struct sim_node *n)
{
    while (n->duty < SIM_DUTIES) {
        if (n->duty == n->stall_duty) {
            n->stall_duty = SIM_DUTIES;
            sim_say(w, n->index, "is stopped before duty %u for %.3f s", n->duty + 1,
                    (double)n->stall_ns / 1e9);
            sim_node_pause(w, n, n->stall_ns);
            return false;
        }
        do_duty(w, n);
        n->duty++;
    }
    return true;
}

void sim_node_pump(struct sim_world *w, struct sim_node *n)
{
    if (n->busy)
        return;
    n->busy = true;
    while (n->run == SIM_UP && !w->failed && perform(w, n)) {
        struct tn_event ev = {0};
        int i = next_mail(w, n);

        if (i < 0 || n->run != SIM_UP)
            break;
        bool fresh = open_mail(w, n, &n->mail[i], &ev);
        n->n_mail--;
        memmove(&n->mail[i], &n->mail[i + 1], (n->n_mail - (unsigned)i) * sizeof n->mail[0]);
        if (fresh)
            step(w, n, &ev);
    }
    n->busy = false;
}

void sim_node_post(struct sim_world *w, struct sim_node *n, const struct sim_mail *mail)
{
    if (n->run == SIM_DOWN)
        return;
    for (unsigned i = 0; i < n->n_mail; i++) {
        if (mail->tag != 0 && n->mail[i].kind == mail->kind && n->mail[i].tag == mail->tag &&
            n->mail[i].status == mail->status)
            return; /* the same once more */
    }
    assert(n->n_mail < SIM_MAIL_MAX);
    n->mail[n->n_mail++] = *mail;
    sim_node_pump(w, n);
}
