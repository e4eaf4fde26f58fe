/* sim/replica/node.c - a node's driver: what the machine asks for is done here. */
#include <string.h>

#include "world.h"

/* Link i leads down to node i, link NODES + i up to it. */
static const char *const writes[] = {"",       "head",   "drop",  "begin",
                                     "change", "forget", "stage", "apply"};

static void step(struct world *w, struct node *n, struct tn_replica_event *ev,
                 const struct msg *cause);

static bool is_tracked(const struct tn_replica_actions *out)
{
    return out->write == TN_WRITE_CHANGES || out->write == TN_WRITE_BEGIN;
}

static void begin_flush(struct world *w, struct node *n, const struct tn_replica_actions *out,
                        const struct msg *cause)
{
    struct flush *f = &n->flush;

    f->write = out->write;
    f->head = out->head;
    f->fresh = out->fresh;
    f->taking = out->taking;
    f->common = out->common;
    if (out->write != TN_WRITE_CHANGES)
        memset(f->docs, 0, sizeof f->docs);
    if (out->write == TN_WRITE_STAGE || out->write == TN_WRITE_APPLY)
        memcpy(f->docs, cause->docs, sizeof f->docs);
    if (is_tracked(out)) {
        struct doc doc[DOCS];

        memcpy(doc, n->disk.doc, sizeof doc);
        for (unsigned i = 0; i < DOCS; i++)
            if (f->docs[i].present)
                doc[i] = f->docs[i].doc;
        check_state_made(w, &out->head.chain, doc);
    }
    rep_say(w, "n%u %s (%llu, %llu) epoch %llu", n->index, writes[f->write],
            (unsigned long long)tn_chain_epoch(&f->head.chain), (unsigned long long)f->head.chain.n,
            (unsigned long long)f->head.epoch);
}

static void send_group(struct world *w, struct node *n, unsigned to,
                       const struct tn_replica_link_actions *link)
{
    struct tn_replica_event sent = {.kind = TN_REPLICA_SENT, .link = to};
    struct tn_answer status = {.from = n->disk.head.chain.n};
    struct msg *m = rep_msg(w, n->index, to, M_GROUP);

    m->group = tn_replica_group(&n->core);
    disk_read(&n->disk, link->send ? &link->answer : &status, n->wants[to], w->chunk, &m->group,
              m->docs);
    m->group.rewinder = tn_chain_end(&n->asked[to].chain);
    sent.n = m->group.to;
    if (link->send)
        step(w, n, &sent, NULL);
}

static void use_links(struct world *w, struct node *n, const struct tn_replica_actions *out,
                      const struct msg *cause)
{
    for (unsigned i = 0; i < 2 * w->nodes; i++) {
        unsigned to = i % w->nodes, number = i < w->nodes ? i : NODES + to;
        const struct tn_replica_link_actions *link = &out->link[number];

        if (link->hello) {
            struct msg *m = rep_msg(w, n->index, to, M_HELLO);

            m->hello = tn_replica_hello(&n->core, number);
            for (unsigned d = 0; d < DOCS; d++)
                m->wants[d] = m->hello.rewinds && n->disk.doc[d].n > m->hello.wants_from;
        }
        if (link->ack)
            rep_msg(w, n->index, to, M_ACK)->ack = out->ack;
        if (link->forward)
            rep_msg(w, n->index, to, M_ACK)->ack = cause->ack;
        if (link->refuse)
            rep_msg(w, n->index, to, M_REFUSE)->epoch = out->epoch;
        if (link->send || link->status)
            send_group(w, n, to, link);
    }
}

static void step(struct world *w, struct node *n, struct tn_replica_event *ev,
                 const struct msg *cause)
{
    struct tn_replica_actions out;

    tn_replica_step(&n->core, ev, &out);
    if (out.demoted || out.release != TN_RELEASE_NOT) {
        rep_say(w, "n%u leads no more (%d)", n->index, (int)out.release);
        w->released += out.release != TN_RELEASE_NOT;
        if (w->held && w->holder == n->index)
            w->held = false;
        n->acknowledged = 0;
    }
    if (out.write != TN_WRITE_NOTHING)
        begin_flush(w, n, &out, cause);
    if (out.lead) {
        n->acknowledged = 0;
        check_began(w, n);
    }
    if (out.acknowledged > n->acknowledged) {
        check_acknowledged(w, n, out.acknowledged);
        n->acknowledged = out.acknowledged;
    }
    if (out.request != TN_REPLICA_NO_REQUEST) {
        n->request = (struct request){.kind = out.request, .expect = out.expect, .set = out.set};
        rep_nonce(w, n->request.nonce);
    }
    use_links(w, n, &out, cause);
}

void rep_event(struct world *w, struct node *n, enum tn_replica_kind kind, uint64_t number)
{
    struct tn_replica_event ev = {.kind = kind, .n = number};

    step(w, n, &ev, NULL);
}

/* ---- Its process ----------------------------------------------------------- */

void rep_boot(struct world *w, struct node *n)
{
    struct tn_replica_config cfg = w->cfg;

    n->up = true;
    n->stopped = false;
    n->won = 0;
    n->acknowledged = 0;
    memset(&n->flush, 0, sizeof n->flush);
    memset(&n->request, 0, sizeof n->request);
    cfg.observer = n->hub;
    tn_replica_init(&n->core, &cfg, &n->disk.head);
    rep_say(w, "n%u up at (%llu, %llu)", n->index,
            (unsigned long long)tn_chain_epoch(&n->disk.head.chain),
            (unsigned long long)n->disk.head.chain.n);
    rep_connect(w, n, n->upstream);
}

/* What was not flushed is there, or it is not. */
void rep_crash(struct world *w, struct node *n)
{
    if (rep_busy(n) && rep_chance(w, 50))
        disk_commit(w, n, &n->disk, &n->flush);
    if (n->request.kind == TN_REPLICA_SWAP_SET && !n->request.executed)
        w->late = n->request;
    n->up = false;
    if (w->held && w->holder == n->index)
        w->held = false;
    rep_say(w, "n%u crashes", n->index);
}

void rep_connect(struct world *w, struct node *n, unsigned upstream)
{
    struct tn_replica_event down = {.kind = TN_REPLICA_DOWN, .link = NODES + n->upstream};
    struct tn_replica_event up = {
        .kind = TN_REPLICA_UP, .link = NODES + upstream, .upstream = true};
    struct tn_replica_event other = {.kind = TN_REPLICA_UP, .link = n->index};

    if (n->upstream != upstream && n->upstream != NODES)
        step(w, n, &down, NULL);
    n->upstream = upstream;
    if (upstream == NODES)
        return;
    if (w->node[upstream].up && !w->node[upstream].stopped)
        step(w, &w->node[upstream], &other, NULL);
    step(w, n, &up, NULL);
}

/* ---- What happens to it ------------------------------------------------------ */

void rep_deliver(struct world *w, struct msg *m)
{
    static const char *const names[] = {"hello", "group", "ack", "refusal"};
    struct node *n = &w->node[m->to];
    struct tn_replica_event ev = {.link = m->from};

    rep_say(w, "  n%u < n%u %s", m->to, m->from, names[m->what]);
    switch (m->what) {
    case M_HELLO:
        ev.kind = TN_REPLICA_HELLO;
        ev.hello = &m->hello;
        n->asked[m->from] = m->hello;
        memcpy(n->wants[m->from], m->wants, sizeof m->wants);
        break;
    case M_GROUP:
        ev.kind = TN_REPLICA_GROUP;
        ev.link = NODES + m->from;
        ev.group = &m->group;
        rep_say(w, "    (%llu, %llu] of %llu%s%s, floor %llu; staged to %llu of %llu",
                (unsigned long long)m->group.from, (unsigned long long)m->group.to,
                (unsigned long long)m->group.chain.n, m->group.snapshot ? " snapshot" : "",
                m->group.rewinds ? " rewinds" : "", (unsigned long long)m->group.floor,
                (unsigned long long)n->disk.head.staging.to,
                (unsigned long long)n->disk.head.staging.far.n);
        break;
    case M_ACK:
        ev.kind = TN_REPLICA_ACK;
        ev.ack = &m->ack;
        break;
    case M_REFUSE:
        ev.kind = TN_REPLICA_REFUSED;
        ev.n = m->epoch;
        break;
    }
    step(w, n, &ev, m);
}

void rep_flush(struct world *w, struct node *n)
{
    disk_commit(w, n, &n->disk, &n->flush);
    check_copy(w, n);
    n->flush.write = TN_WRITE_NOTHING;
    rep_event(w, n, TN_REPLICA_FLUSHED, 0);
}

/* A batch of changes of the primary: documents written, overwritten, deleted. */
void rep_change(struct world *w, struct node *n)
{
    uint64_t number = n->core.head.chain.n, count = 1 + rep_below(w, 3);

    memset(n->flush.docs, 0, sizeof n->flush.docs);
    for (uint64_t i = 1; i <= count; i++) {
        unsigned d = rep_below(w, DOCS);
        struct carried *c = &n->flush.docs[d];

        c->present = true;
        c->doc = (struct doc){number + i, n->core.epoch, ++w->values, rep_chance(w, 30)};
    }
    rep_event(w, n, TN_REPLICA_WRITE, count);
}

void rep_won(struct world *w, struct node *n)
{
    uint8_t grant[TENURE_NONCE_SIZE];
    struct tn_replica_event ev = {.kind = TN_REPLICA_WON, .n = n->won, .id = grant};

    rep_nonce(w, grant);
    n->won = 0;
    if (n->core.phase != TN_REPLICA_STANDBY)
        rep_event(w, n, TN_REPLICA_DEMOTE, 0);
    step(w, n, &ev, NULL);
}

void rep_lost(struct world *w, struct node *n, const uint8_t *id)
{
    struct tn_replica_event ev = {.kind = TN_REPLICA_LOST, .id = id};

    step(w, n, &ev, NULL);
}

/* ---- The register ------------------------------------------------------------ */

void rep_execute(struct world *w, struct request *q)
{
    struct tn_replica_set before = w->set;

    q->executed = true;
    q->status = TENURE_OK;
    if (q->kind == TN_REPLICA_SWAP_SET) {
        if (!tenure_token_equal(&q->expect, &w->token)) {
            q->status = TENURE_CONFLICT;
            return;
        }
        w->set = q->set;
        w->present = true;
        w->token.version[0] = '1';
        w->token.version[1] = '\0';
        memcpy(w->token.nonce, q->nonce, sizeof w->token.nonce);
        rep_say(w, "register: epoch %llu serial %llu, %u members, k %u, committed %llu",
                (unsigned long long)q->set.epoch, (unsigned long long)q->set.serial,
                q->set.set.count, q->set.set.k, (unsigned long long)q->set.committed.n);
        check_register(w, &before);
    }
    q->set = w->set;
    q->present = w->present;
    q->token = w->token;
}

void rep_answer(struct world *w, struct node *n, bool lost)
{
    struct request q = n->request;
    struct tn_replica_event ev = {.token = q.token, .status = q.status};

    if (lost && q.kind == TN_REPLICA_SWAP_SET && !q.executed)
        w->late = q;
    n->request.kind = TN_REPLICA_NO_REQUEST;
    ev.kind = q.kind == TN_REPLICA_SWAP_SET ? TN_REPLICA_SWAPPED : TN_REPLICA_READ;
    if (lost)
        ev.status = q.kind == TN_REPLICA_SWAP_SET ? TENURE_UNKNOWN : TENURE_UNAVAILABLE;
    ev.set = q.present ? &q.set : NULL;
    step(w, n, &ev, NULL);
}
