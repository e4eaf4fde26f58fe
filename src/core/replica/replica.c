/* core/replica/replica.c - the copy and its links: see replica.h. */
#include "core/replica/replica.h"

#include <assert.h>
#include <string.h>

#include "core/replica/replica_inner.h"

void tn_replica_init(struct tn_replica *r, const struct tn_replica_config *cfg,
                     const struct tn_copy_head *head)
{
    assert(cfg->window > 0 && cfg->k < TN_SET_MAX && tn_chain_valid(&head->chain));
    memset(r, 0, sizeof *r);
    r->cfg = *cfg;
    r->head = *head;
    r->heard = head->epoch;
    r->group_link = TN_REPLICA_LINKS;
}

void tn_replica_hear(struct tn_replica *r, uint64_t epoch, struct tn_replica_actions *out)
{
    if (epoch <= r->heard)
        return;
    r->heard = epoch;
    r->ack_count = 0;
    tn_replica_term_end(r, out);
}

void tn_replica_write(struct tn_replica *r, enum tn_write write, struct tn_replica_actions *out)
{
    assert(r->writing == TN_WRITE_NOTHING);
    r->draft.epoch = r->heard;
    r->writing = out->write = write;
    out->head = r->draft;
}

struct tn_hello tn_replica_hello(const struct tn_replica *r, unsigned link)
{
    struct tn_hello hello = {.epoch = r->head.epoch,
                             .chain = r->head.chain,
                             .floor = r->head.floor,
                             .staging = r->head.staging,
                             .rewinds = r->link[link].rewinds,
                             .wants_from = r->link[link].wants_from};

    memcpy(hello.database, r->head.database, sizeof hello.database);
    return hello;
}

struct tn_group tn_replica_group(const struct tn_replica *r)
{
    return (struct tn_group){.epoch = r->head.epoch,
                             .chain = r->head.chain,
                             .floor = r->head.floor,
                             .committed = r->head.committed,
                             .from = r->head.chain.n,
                             .to = r->head.chain.n};
}

/* ---- A receiver's side ----------------------------------------------------- */

static void say_hello(struct tn_replica *r, unsigned i, struct tn_replica_actions *out)
{
    r->link[i].asked = true;
    out->link[i].hello = true;
}

/* Where we are, if the highest epoch is flushed; else that comes first (R9). */
static void acknowledge(struct tn_replica *r, unsigned i, struct tn_replica_actions *out)
{
    if (r->head.epoch < r->heard) {
        r->group_link = i;
        return;
    }
    if (i == TN_REPLICA_LINKS || !r->link[i].up)
        return;
    out->link[i].ack = true;
    out->ack.epoch = r->head.epoch;
    out->ack.observer = r->cfg.observer;
    out->ack.position = tn_chain_end(&r->head.chain);
    memcpy(out->ack.database, r->head.database, sizeof out->ack.database);
}

/* It does not fit: a new hello, at once if it says something new, else at the next tick (R6). */
static void misfit(struct tn_replica *r, unsigned i, const struct tn_group *group,
                   struct tn_replica_actions *out)
{
    struct tn_replica_link *link = &r->link[i];
    uint64_t point = 0;
    bool rewinds = tn_copy_rewinds(&r->head, &group->chain, &point);
    bool news = rewinds != link->rewinds || point != link->wants_from;

    link->rewinds = rewinds;
    link->wants_from = point;
    if (news || !link->asked)
        say_hello(r, i, out);
}

static void take_group(struct tn_replica *r, const struct tn_replica_event *ev,
                       struct tn_replica_actions *out)
{
    const struct tn_group *group = ev->group;
    struct tn_take take = {TN_TAKE_NOTHING, false};

    assert(r->writing == TN_WRITE_NOTHING);
    if (!tn_group_valid(group))
        return;
    if (group->epoch < r->heard) {
        out->link[ev->link].refuse = true;
        return;
    }
    tn_replica_hear(r, group->epoch, out);
    if (r->phase != TN_REPLICA_STANDBY)
        return;
    switch (tn_copy_judge(&r->head, r->heard, group, &r->draft, &take)) {
    case TN_GROUP_STAGE:
        tn_replica_write(r, TN_WRITE_STAGE, out);
        break;
    case TN_GROUP_APPLY:
        out->common = tn_chain_common(&r->head.chain, &group->chain);
        tn_replica_write(r, TN_WRITE_APPLY, out);
        break;
    case TN_GROUP_MISFIT:
        misfit(r, ev->link, group, out);
        return;
    default:
        acknowledge(r, ev->link, out);
        return;
    }
    out->fresh = take.fresh;
    out->taking = take.taking;
    r->group_link = ev->link;
    r->link[ev->link].fed = true;
}

/* ---- A sender's side ------------------------------------------------------- */

static void send(struct tn_replica *r, unsigned i, struct tn_answer answer,
                 struct tn_replica_actions *out)
{
    r->link[i].sending = true;
    out->link[i].send = true;
    out->link[i].answer = answer;
}

static void greeted(struct tn_replica *r, const struct tn_replica_event *ev,
                    struct tn_replica_actions *out)
{
    struct tn_replica_link *link = &r->link[ev->link];
    struct tn_answer answer;

    if (!tn_hello_valid(ev->hello))
        return;
    tn_replica_hear(r, ev->hello->epoch, out);
    if (ev->hello->epoch < r->heard) {
        out->link[ev->link].refuse = true;
        return;
    }
    answer = tn_copy_answer(&r->head, ev->hello);
    link->greeted = true;
    link->flowing = answer.send || (ev->hello->chain.n == r->head.chain.n &&
                                    tn_chain_within(&ev->hello->chain, &r->head.chain));
    link->under_way = 0;
    link->cursor = answer.send ? answer.from : r->head.chain.n;
    memcpy(link->database, ev->hello->database, sizeof link->database);
    if (answer.send)
        send(r, ev->link, answer, out);
    else
        out->link[ev->link].status = true;
}

/* Send what is new to everybody who is ready for it. */
static void pump(struct tn_replica *r, struct tn_replica_actions *out)
{
    for (unsigned i = 0; i < TN_REPLICA_LINKS; i++) {
        const struct tn_replica_link *link = &r->link[i];

        if (link->flowing && !link->sending && link->under_way < r->cfg.window &&
            link->cursor < r->head.chain.n && link->cursor >= r->head.floor)
            send(r, i, (struct tn_answer){.send = true, .from = link->cursor}, out);
    }
}

static void take_ack(struct tn_replica *r, const struct tn_replica_event *ev,
                     struct tn_replica_actions *out)
{
    struct tn_replica_link *link = &r->link[ev->link];

    tn_replica_hear(r, ev->ack->epoch, out);
    if (ev->ack->epoch < r->heard) {
        out->link[ev->link].refuse = true;
        return;
    }
    if (link->under_way > 0 &&
        memcmp(link->database, ev->ack->database, sizeof link->database) == 0)
        link->under_way--;
    if (!tn_replica_term_ack(r, ev->ack) || r->phase != TN_REPLICA_STANDBY)
        return;
    for (unsigned i = 0; i < TN_REPLICA_LINKS; i++) /* A hub, or a standby that others follow. */
        out->link[i].forward = r->link[i].up && r->link[i].upstream;
}

/* ---- Steps ----------------------------------------------------------------- */

static void flushed(struct tn_replica *r, struct tn_replica_actions *out)
{
    enum tn_write write = r->writing;
    unsigned link = r->group_link;
    bool rewound = !tn_chain_within(&r->head.chain, &r->draft.chain);

    assert(write != TN_WRITE_NOTHING);
    r->head = r->draft;
    r->writing = TN_WRITE_NOTHING;
    r->group_link = TN_REPLICA_LINKS;
    acknowledge(r, link, out);
    for (unsigned i = 0; i < TN_REPLICA_LINKS; i++) {
        r->link[i].asked = false;
        if (rewound) /* What was sent from here is not on the chain any more: ask them again. */
            r->link[i].rewinds = r->link[i].flowing = false;
    }
    tn_replica_term_flushed(r, write, out);
}

static void tick(struct tn_replica *r, struct tn_replica_actions *out)
{
    r->pause = false;
    if (r->phase == TN_REPLICA_STANDBY)
        r->ack_count = 0; /* What is forwarded may be lost: it goes up once more. */
    for (unsigned i = 0; i < TN_REPLICA_LINKS; i++) {
        struct tn_replica_link *link = &r->link[i];

        if (link->up && link->upstream && !link->fed && r->phase == TN_REPLICA_STANDBY)
            say_hello(r, i, out);
        if (link->greeted && link->under_way == 0)
            out->link[i].status = true;
        link->fed = false;
    }
}

static void forget(struct tn_replica *r, struct tn_replica_actions *out)
{
    r->draft = r->head;
    if (r->head.committed.n <= r->head.floor)
        return;
    r->draft.floor = r->head.committed.n;
    tn_replica_write(r, TN_WRITE_FORGET, out);
}

static void change(struct tn_replica *r, uint64_t n, struct tn_replica_actions *out)
{
    assert(r->phase == TN_REPLICA_PRIMARY && n > 0);
    r->draft = r->head;
    r->draft.chain.n += n;
    r->draft.committed = tn_replica_term_committed(r);
    tn_replica_write(r, TN_WRITE_CHANGES, out);
}

void tn_replica_step(struct tn_replica *r, const struct tn_replica_event *ev,
                     struct tn_replica_actions *out)
{
    assert(ev->link < TN_REPLICA_LINKS);
    memset(out, 0, sizeof *out);
    switch (ev->kind) {
    case TN_REPLICA_TICK:
        tick(r, out);
        break;
    case TN_REPLICA_FLUSHED:
        flushed(r, out);
        break;
    case TN_REPLICA_UP:
        r->link[ev->link] = (struct tn_replica_link){.up = true, .upstream = ev->upstream};
        if (ev->upstream)
            say_hello(r, ev->link, out);
        break;
    case TN_REPLICA_DOWN:
        r->link[ev->link] = (struct tn_replica_link){.up = false};
        break;
    case TN_REPLICA_HELLO:
        greeted(r, ev, out);
        break;
    case TN_REPLICA_GROUP:
        take_group(r, ev, out);
        break;
    case TN_REPLICA_SENT:
        r->link[ev->link].sending = false;
        r->link[ev->link].cursor = ev->n;
        r->link[ev->link].under_way++;
        break;
    case TN_REPLICA_ACK:
        take_ack(r, ev, out);
        break;
    case TN_REPLICA_REFUSED:
        tn_replica_hear(r, ev->n, out);
        break;
    case TN_REPLICA_LOST:
        tn_replica_term_lost(r, ev->id);
        break;
    case TN_REPLICA_WRITE:
        change(r, ev->n, out);
        break;
    case TN_REPLICA_FORGET:
        forget(r, out);
        break;
    case TN_REPLICA_WON:
        tn_replica_term_won(r, ev, out);
        break;
    case TN_REPLICA_DEMOTE:
        tn_replica_term_end(r, out);
        break;
    default:
        tn_replica_term_answered(r, ev, out);
        break;
    }
    tn_replica_term_plan(r, out);
    if (r->writing == TN_WRITE_NOTHING && r->head.epoch < r->heard) {
        r->draft = r->head;
        tn_replica_write(r, TN_WRITE_HEAD, out);
    }
    pump(r, out);
    out->epoch = r->heard;
}
