/* replica/driver_machine.c - steps of the machine, and what they ask for (core/replica/replica.h).
 */
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "replica/driver_inner.h"

/* ---- What others see -------------------------------------------------------------- */

void tn_node_set_trouble(struct tn_replica_driver *d, const char *text)
{
    bool news;

    pthread_mutex_lock(&d->lock);
    news = strcmp(d->view.trouble, text) != 0;
    snprintf(d->view.trouble, sizeof d->view.trouble, "%s", text);
    pthread_mutex_unlock(&d->lock);
    if (news && text[0] != '\0')
        tn_node_log(d, "replica-trouble", "%s", text);
}

static void publish(struct tn_replica_driver *d)
{
    pthread_mutex_lock(&d->lock);
    d->view.phase = d->core.phase;
    d->view.heard = d->core.heard;
    d->view.first = d->core.first;
    d->view.acknowledged = d->core.acknowledged;
    d->view.grant.epoch = d->core.epoch;
    memcpy(d->view.grant.id, d->core.grant, TENURE_NONCE_SIZE);
    pthread_cond_broadcast(&d->changed);
    pthread_mutex_unlock(&d->lock);
}

/* The term that was asked for does not begin. */
static void refuse_term(struct tn_replica_driver *d)
{
    struct tn_node_view *view = &d->view;

    pthread_mutex_lock(&d->lock);
    view->refusal = TENURE_DENIED;
    switch (d->out.release) {
    case TN_RELEASE_SEALED:
        view->refusal = TENURE_FENCED;
        snprintf(view->why, sizeof view->why, "replica: a node with epoch %" PRIu64 " was here",
                 d->core.heard);
        break;
    case TN_RELEASE_NO_MEMBER:
        snprintf(view->why, sizeof view->why,
                 "replica: this copy is not in the replica set: it may lack acknowledged changes; "
                 "let a member lead first");
        break;
    default:
        snprintf(view->why, sizeof view->why,
                 "replica: this copy is %" PRIu64 " changes behind the commit point; let a node "
                 "that has them lead first",
                 d->out.lag);
        break;
    }
    pthread_mutex_unlock(&d->lock);
    tn_node_log(d, "replica-refused", "epoch %" PRIu64 " does not begin: %s", d->view.refused.epoch,
                view->why);
}

/* ---- A step ------------------------------------------------------------------------- */

void tn_node_queue_event(struct tn_replica_driver *d, const struct tn_replica_event *event)
{
    assert(d->fifo_count < TN_NODE_FIFO);
    d->fifo[(d->fifo_first + d->fifo_count++) % TN_NODE_FIFO] = *event;
}

/* The transaction that the machine asked for. */
static void write_database(struct tn_replica_driver *d, const struct tn_cause *cause)
{
    static const struct tn_replica_event flushed = {.kind = TN_REPLICA_FLUSHED};
    const struct tn_replica_actions *out = &d->out;
    struct tn_database_write w = {.write = out->write,
                                  .head = &out->head,
                                  .fresh = out->fresh,
                                  .taking = out->taking,
                                  .common = out->common,
                                  .epoch = tn_chain_epoch(&d->core.head.chain)};
    struct tenure_error err = {0};
    bool carries =
        w.write == TN_WRITE_CHANGES || w.write == TN_WRITE_STAGE || w.write == TN_WRITE_APPLY;

    if (carries) {
        assert(cause != NULL);
        w.records = cause->records;
        w.count = cause->count;
    }
    if (tn_database_write(d->db, &w, &err)) {
        tn_node_set_trouble(d, err.text);
        d->broken = true;
        return;
    }
    if (w.write == TN_WRITE_APPLY && w.taking == TN_TAKE_REWIND)
        tn_node_log(d, "replica-rewound",
                    "this copy had changes that the leader does not have: rewound to change "
                    "%" PRIu64 "; what was given up is kept in its conflicts",
                    w.common);
    tn_node_queue_event(d, &flushed);
}

/*
 * The duties, in their order; what is sent is read before the transaction, while the database is
 * at the head that goes with it.
 */
static void act(struct tn_replica_driver *d, const struct tn_cause *cause)
{
    const struct tn_replica_actions *out = &d->out;

    if (out->demoted) {
        tn_node_abandon(d);
        tn_node_log(d, "replica-standby", "this copy follows from now on");
    }
    if (out->release != TN_RELEASE_NOT)
        refuse_term(d);
    if (out->lead) {
        d->led_ns = tenure_now();
        tn_node_log(d, "replica-leading", "this copy leads with epoch %" PRIu64 ", change %" PRIu64,
                    d->core.epoch, d->core.head.chain.n);
    }
    if (out->acknowledged > 0)
        tn_node_acknowledge(d, out->acknowledged);
    if (out->request != TN_REPLICA_NO_REQUEST)
        tn_node_set_ask(d);
    tn_node_use_links(d, cause);
    if (out->write != TN_WRITE_NOTHING)
        write_database(d, cause);
}

void tn_node_step(struct tn_replica_driver *d, const struct tn_replica_event *event,
                  const struct tn_cause *cause)
{
    if (d->broken)
        return;
    tn_node_queue_event(d, event);
    while (d->fifo_count > 0 && !d->broken) {
        struct tn_replica_event next = d->fifo[d->fifo_first];

        d->fifo_first = (d->fifo_first + 1) % TN_NODE_FIFO;
        d->fifo_count--;
        tn_replica_step(&d->core, &next, &d->out);
        act(d, cause);
        cause = NULL;
    }
    if (d->broken) { /* What was flushed is what counts: begin from there, as a standby. */
        d->fifo_count = 0;
        tn_node_abandon(d);
        tn_node_restart(d);
    }
    publish(d);
}

void tn_node_event(struct tn_replica_driver *d, enum tn_replica_kind kind, unsigned link)
{
    struct tn_replica_event event = {.kind = kind, .link = link, .upstream = link >= TN_NODE_SLOTS};

    tn_node_step(d, &event, NULL);
}

/* ---- The beginning, and the heartbeat ------------------------------------------------- */

static bool open_database(struct tn_replica_driver *d, struct tn_copy_head *head)
{
    struct tenure_error err = {0};
    struct tn_database *again = NULL;
    enum tenure_status status = tn_database_open(d->conf.path, true, &again, &err);

    if (!status)
        status = tn_database_head(again, head, NULL, &err);
    if (status) {
        tn_database_close(again);
        tn_node_set_trouble(d, err.text);
        return false;
    }
    tn_database_close(d->db);
    d->db = again;
    return true;
}

bool tn_node_restart(struct tn_replica_driver *d)
{
    struct tn_replica_config cfg = {.k = d->conf.async ? 0 : d->conf.acks,
                                    .async = d->conf.async,
                                    .unpublished = d->conf.unpublished,
                                    .max_lag = d->conf.max_lag,
                                    .window = 4};
    struct tn_copy_head head;

    if (!open_database(d, &head))
        return false;
    d->broken = false;
    d->life++; /* What was asked before is answered to nobody. */
    tn_replica_init(&d->core, &cfg, &head);
    for (unsigned i = 0; i < TN_NODE_SLOTS; i++) {
        if (!d->slot[i].up)
            continue;
        tn_node_event(d, TN_REPLICA_UP, i);
        tn_node_event(d, TN_REPLICA_UP, i + TN_NODE_SLOTS);
    }
    publish(d);
    return true;
}

/* Who was heard of, and is silent for too long; a member that never was counts from the start. */
static void judge_silence(struct tn_replica_driver *d, const uint8_t *id, int64_t now)
{
    struct tn_replica_event lost = {.kind = TN_REPLICA_LOST, .id = id};
    int64_t since = d->led_ns;

    for (unsigned i = 0; i < d->n_heard; i++)
        if (memcmp(d->heard[i].database, id, TENURE_NONCE_SIZE) == 0 && d->heard[i].at_ns > since)
            since = d->heard[i].at_ns;
    if (now - since > d->conf.timeout_ns)
        tn_node_step(d, &lost, NULL);
}

void tn_node_tick(struct tn_replica_driver *d)
{
    int64_t now = tenure_now();
    struct tn_set members = d->core.landed.set;

    if (d->broken && !tn_node_restart(d))
        return;
    tn_node_event(d, TN_REPLICA_TICK, 0);
    if (d->core.phase != TN_REPLICA_PRIMARY)
        return;
    for (unsigned i = 0; i < members.count; i++)
        if (memcmp(members.id[i], d->core.head.database, TENURE_NONCE_SIZE) != 0)
            judge_silence(d, members.id[i], now);
    for (unsigned i = 0; i < d->n_heard; i++)
        if (!tn_set_has(&members, d->heard[i].database))
            judge_silence(d, d->heard[i].database, now);
}
