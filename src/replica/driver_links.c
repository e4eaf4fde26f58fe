/*
 * replica/driver_links.c - peers; messages in and out.
 *
 * One connection carries both directions: slot i is link i of the machine (groups go down to the
 * peer) and link i + TN_NODE_SLOTS (they come from it).  Who leads is not asked: a node takes
 * what fits, from whomever it comes.
 */
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "replica/driver_inner.h"

#define QUEUED_MAX  (16u << 20) /* bytes of one peer in the inbox */
#define GROUP_BYTES (256u << 10)
#define WANTS_MAX   1000000u
#define FRAME       (2 * TENURE_NONCE_SIZE) /* before the bytes of a document: nonce, prev */

static uint64_t wall_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* ---- Events of the transport, on its thread -------------------------------------------- */

static struct tn_slot *find_slot(struct tn_replica_driver *d, const struct tn_peer *peer)
{
    for (unsigned i = 0; i < TN_NODE_SLOTS; i++)
        if (d->slot[i].peer == peer)
            return &d->slot[i];
    return NULL;
}

static void post_for(struct tn_replica_driver *d, enum tn_item_kind kind,
                     const struct tn_slot *slot)
{
    struct tn_item *item = tn_node_item(kind, 0);

    item->slot = (unsigned)(slot - d->slot);
    tn_node_post_locked(d, item);
}

/*
 * Two nodes that connect to each other keep one connection: that of the smaller name.  Of two from
 * the same end the later one counts: the other has died, and nobody has noticed yet.
 */
static bool is_preferred(const struct tn_replica_driver *d, const struct tn_peer_identity *fresh,
                         const struct tn_peer_identity *old)
{
    bool ours = strcmp(d->node, fresh->node) < 0;

    return fresh->outbound == old->outbound || fresh->outbound == ours;
}

static void opened(void *ctx, struct tn_peer *peer, const struct tn_peer_identity *who)
{
    struct tn_replica_driver *d = ctx;
    struct tn_slot *made = NULL;
    struct tn_peer *replaced = NULL;
    const char *why = strcmp(who->node, d->node) == 0 ? "both nodes have the same id" : NULL;

    pthread_mutex_lock(&d->lock);
    for (unsigned i = 0; i < TN_NODE_SLOTS && why == NULL; i++) {
        struct tn_slot *slot = &d->slot[i];

        if (!slot->used && made == NULL)
            made = slot;
        if (slot->peer == NULL || strcmp(slot->who.node, who->node) != 0)
            continue;
        if (is_preferred(d, who, &slot->who))
            replaced = slot->peer;
        else
            why = "there is another connection";
    }
    if (why == NULL && made == NULL)
        why = "too many connections";
    if (why == NULL) {
        made->used = true;
        made->peer = peer;
        made->who = *who;
        post_for(d, TN_ITEM_OPENED, made);
    }
    pthread_mutex_unlock(&d->lock);
    if (why != NULL) /* Both live at least until this event returns. */
        tn_peer_close(peer, why);
    else if (replaced != NULL)
        tn_peer_close(replaced, "another connection took its place");
}

static void received(void *ctx, struct tn_peer *peer, const uint8_t *bytes, size_t size)
{
    struct tn_replica_driver *d = ctx;
    struct tn_item *item = size > 0 ? tn_node_item(TN_ITEM_MESSAGE, size) : NULL;
    struct tn_slot *slot;
    bool room;

    pthread_mutex_lock(&d->lock);
    slot = find_slot(d, peer);
    room = slot != NULL && item != NULL && slot->queued + size <= QUEUED_MAX;
    if (room) {
        memcpy(item->bytes, bytes, size);
        item->slot = (unsigned)(slot - d->slot);
        slot->queued += size;
        tn_node_post_locked(d, item);
    }
    pthread_mutex_unlock(&d->lock);
    if (room)
        return;
    free(item);
    if (slot != NULL)
        tn_peer_close(peer, "more messages than this node can take");
}

/* What could not be sent is asked for again: nothing waits for room. */
static void drained(void *ctx, struct tn_peer *peer)
{
    (void)ctx;
    (void)peer;
}

static void closed(void *ctx, struct tn_peer *peer, const char *why)
{
    struct tn_replica_driver *d = ctx;
    struct tn_slot *slot;

    (void)why;
    pthread_mutex_lock(&d->lock);
    slot = find_slot(d, peer);
    if (slot != NULL) {
        slot->peer = NULL;
        post_for(d, TN_ITEM_CLOSED, slot);
    }
    pthread_mutex_unlock(&d->lock);
}

static void failed(void *ctx, const char *address, const char *why)
{
    struct tn_replica_driver *d = ctx;

    tn_node_log(d, "replica-unreachable", "%s: %s", address, why);
}

const struct tn_transport_events tn_node_links = {
    .opened = opened, .received = received, .drained = drained, .failed = failed, .closed = closed};

/* ---- Connections, on the driver's thread ------------------------------------------------- */

static void free_names(char ***names, size_t *n)
{
    for (size_t i = 0; i < *n; i++)
        free((*names)[i]);
    free(*names);
    *names = NULL;
    *n = 0;
}

void tn_node_free_slot(struct tn_slot *slot)
{
    free_names(&slot->wants, &slot->n_wants);
    free_names(&slot->more, &slot->n_more);
    memset(slot, 0, sizeof *slot);
}

void tn_node_link_opened(struct tn_replica_driver *d, unsigned i)
{
    d->slot[i].up = true;
    tn_node_log(d, "replica-connected", "connected to %s (%s)", d->slot[i].who.node,
                d->slot[i].who.address);
    tn_node_event(d, TN_REPLICA_UP, i);
    tn_node_event(d, TN_REPLICA_UP, i + TN_NODE_SLOTS);
}

void tn_node_link_closed(struct tn_replica_driver *d, unsigned i)
{
    tn_node_log(d, "replica-disconnected", "not connected to %s any more", d->slot[i].who.node);
    d->slot[i].up = false;
    tn_node_event(d, TN_REPLICA_DOWN, i);
    tn_node_event(d, TN_REPLICA_DOWN, i + TN_NODE_SLOTS);
    pthread_mutex_lock(&d->lock);
    tn_node_free_slot(&d->slot[i]);
    pthread_mutex_unlock(&d->lock);
}

/* ---- Sending ------------------------------------------------------------------------------ */

/* What was added to the writer, behind this head.  A message that is not sent is asked for again.
 */
static void send_message(struct tn_replica_driver *d, unsigned slot)
{
    const uint8_t *bytes = NULL;
    struct tenure_error err;
    size_t size = 0;

    if (tn_message_finish(&d->writer, &d->message, &bytes, &size, &err))
        return;
    pthread_mutex_lock(&d->lock);
    if (d->slot[slot].peer != NULL)
        tn_peer_send(d->slot[slot].peer, bytes, size);
    pthread_mutex_unlock(&d->lock);
}

static void prepare_message(struct tn_replica_driver *d, enum tn_message_kind kind)
{
    memset(&d->message, 0, sizeof d->message);
    d->message.kind = kind;
    d->message.clock_ms = wall_ms();
}

static void send_ack(struct tn_replica_driver *d, unsigned slot, enum tn_message_kind kind,
                     const struct tn_replica_ack *ack)
{
    prepare_message(d, kind);
    d->message.ack = *ack;
    send_message(d, slot);
}

static void send_refusal(struct tn_replica_driver *d, unsigned slot, enum tn_refusal_reason reason,
                         const char *text)
{
    prepare_message(d, TN_MESSAGE_REFUSAL);
    d->message.epoch = d->core.heard;
    d->message.refusal.reason = reason;
    d->message.refusal.version = TN_MESSAGE_VERSION;
    snprintf(d->message.refusal.text, sizeof d->message.refusal.text, "%s", text);
    send_message(d, slot);
}

/* A key is the id of a document, in no collection: it says itself where it belongs. */
static struct tn_document_name name_of(const char *key)
{
    return (struct tn_document_name){.collection = "", .id = key, .id_len = (uint8_t)strlen(key)};
}

struct naming {
    struct tn_replica_driver *d;
    unsigned slot;
    uint32_t count;
    bool failed;
};

static bool add_name(void *arg, const struct tn_record *record)
{
    struct naming *naming = arg;
    struct tn_replica_driver *d = naming->d;
    struct tn_document_name name = name_of(record->key);
    struct tenure_error err;

    if (tn_message_add_name(&d->writer, &name, &err) == TENURE_UNAVAILABLE) {
        prepare_message(d, TN_MESSAGE_WANTS);
        send_message(d, naming->slot);
        if (tn_message_add_name(&d->writer, &name, &err)) {
            naming->failed = true;
            return false;
        }
    }
    naming->count++;
    return true;
}

static void send_hello(struct tn_replica_driver *d, unsigned slot)
{
    struct tn_hello hello = tn_replica_hello(&d->core, slot + TN_NODE_SLOTS);
    struct naming naming = {d, slot, 0, false};
    struct tenure_error err;

    /* A hello that does not name everything it has changed would keep what is not named (R10): it
     * is not sent, and said again at the next tick. */
    if (hello.rewinds && tn_database_since(d->db, hello.wants_from, add_name, &naming, &err)) {
        tn_node_set_trouble(d, err.text);
        naming.failed = true;
    }
    if (naming.failed) {
        tn_message_writer_free(&d->writer);
        return;
    }
    prepare_message(d, TN_MESSAGE_HELLO);
    d->message.hello.core = hello;
    snprintf(d->message.hello.election, sizeof d->message.hello.election, "%s", d->name);
    snprintf(d->message.hello.node, sizeof d->message.hello.node, "%s", d->node);
    d->message.hello.clock_ms = wall_ms();
    d->message.hello.wants = naming.count;
    send_message(d, slot);
}

struct filling {
    struct tn_replica_driver *d;
    uint64_t to;
    size_t bytes;
    uint8_t *frame; /* nonce, prev and data of one document */
    bool more;
    enum tenure_status status;
};

static enum tenure_status add_record(struct filling *f, const struct tn_record *record,
                                     struct tenure_error *err)
{
    struct tn_message_document document = {.name = name_of(record->key), .n = record->n};

    if (record->n == 0) {
        document.state = TN_DOCUMENT_ABSENT;
    } else {
        document.state = record->tombstone ? TN_DOCUMENT_DELETED : TN_DOCUMENT_THERE;
        memcpy(f->frame, record->nonce, TENURE_NONCE_SIZE);
        memcpy(f->frame + TENURE_NONCE_SIZE, record->prev, TENURE_NONCE_SIZE);
        if (record->len > 0)
            memcpy(f->frame + FRAME, record->data, record->len);
        document.bytes = f->frame;
        document.size = (uint32_t)(FRAME + record->len);
    }
    f->bytes += document.size + 64;
    return tn_message_add_document(&f->d->writer, &document, err);
}

static bool fill(void *arg, const struct tn_record *record)
{
    struct filling *f = arg;
    struct tenure_error err;

    f->more = f->bytes > GROUP_BYTES;
    if (f->more)
        return false;
    f->status = add_record(f, record, &err);
    f->more = f->status == TENURE_UNAVAILABLE;
    if (f->status)
        return false;
    f->to = record->n;
    return true;
}

/* What a receiver that rewinds has changed since: as it is here.  false: too much for a message. */
static bool add_wanted(struct filling *f, const struct tn_slot *slot, uint64_t from)
{
    struct tenure_value value = {0};
    struct tenure_error err;
    enum tenure_status status = TENURE_OK;

    for (size_t i = 0; i < slot->n_wants && !status; i++) {
        struct tn_record record = {.key = slot->wants[i]};

        status = tn_database_read(f->d->db, slot->wants[i], &value, &err);
        if (status)
            break;
        record.n = strtoull(value.token.version, NULL, 10);
        if (record.n > from)
            continue; /* It comes with the others. */
        memcpy(record.nonce, value.token.nonce, TENURE_NONCE_SIZE);
        memcpy(record.prev, value.prev, TENURE_NONCE_SIZE);
        record.tombstone = value.tombstone;
        record.data = value.data;
        record.len = value.len;
        status = add_record(f, &record, &err);
    }
    tenure_value_free(&value);
    return status == TENURE_OK;
}

static void discard(struct tn_replica_driver *d)
{
    const uint8_t *bytes;
    struct tenure_error err;
    size_t size;

    prepare_message(d, TN_MESSAGE_WANTS);
    (void)!tn_message_finish(&d->writer, &d->message, &bytes, &size, &err);
}

static void read_group(struct tn_replica_driver *d, unsigned slot, struct tn_answer answer,
                       struct tn_group *group)
{
    struct filling f = {.d = d, .to = answer.from};
    struct tenure_error err;

    f.frame = malloc(FRAME + TENURE_DATA_MAX);
    if (f.frame == NULL) {
        group->from = group->to = answer.from;
        return;
    }
    if (answer.rewinds && !add_wanted(&f, &d->slot[slot], answer.from)) {
        discard(d); /* Everything is a rewind, too. */
        answer = (struct tn_answer){.send = true, .snapshot = true};
        f.bytes = f.to = 0;
    }
    group->from = answer.from;
    group->snapshot = answer.snapshot;
    group->rewinds = answer.rewinds;
    group->rewinder = tn_chain_end(&d->slot[slot].hello.chain);
    if (tn_database_since(d->db, answer.from, fill, &f, &err) || (f.status && !f.more))
        f.more = true;
    group->to = f.more ? f.to : group->chain.n;
    free(f.frame);
}

static void send_group(struct tn_replica_driver *d, unsigned slot,
                       const struct tn_replica_link_actions *link)
{
    struct tn_replica_event sent = {.kind = TN_REPLICA_SENT, .link = slot};
    struct tn_group group = tn_replica_group(&d->core);

    if (link->send)
        read_group(d, slot, link->answer, &group);
    prepare_message(d, link->send ? TN_MESSAGE_GROUP : TN_MESSAGE_STATUS);
    d->message.group = group;
    send_message(d, slot);
    sent.n = group.to;
    if (link->send)
        tn_node_queue_event(d, &sent);
}

void tn_node_use_links(struct tn_replica_driver *d, const struct tn_cause *cause)
{
    for (unsigned i = 0; i < 2 * TN_NODE_SLOTS; i++) {
        const struct tn_replica_link_actions *link = &d->out.link[i];
        unsigned slot = i % TN_NODE_SLOTS;

        if (link->hello)
            send_hello(d, slot);
        if (link->ack)
            send_ack(d, slot, TN_MESSAGE_ACK, &d->out.ack);
        if (link->forward && cause != NULL)
            send_ack(d, slot, TN_MESSAGE_FORWARD, cause->ack);
        if (link->refuse)
            send_refusal(d, slot, TN_REFUSED_EPOCH, "a later epoch was seen");
        if (link->send || link->status)
            send_group(d, slot, link);
    }
}

/* ---- Receiving ------------------------------------------------------------------------------ */

static void hear_of(struct tn_replica_driver *d, const uint8_t *database)
{
    unsigned i = 0;

    while (i < d->n_heard && memcmp(d->heard[i].database, database, TENURE_NONCE_SIZE) != 0)
        i++;
    if (i == TN_NODE_HEARD) { /* In the place of the one that was silent the longest. */
        i = 0;
        for (unsigned j = 1; j < TN_NODE_HEARD; j++)
            if (d->heard[j].at_ns < d->heard[i].at_ns)
                i = j;
    } else if (i == d->n_heard) {
        d->n_heard++;
    }
    memcpy(d->heard[i].database, database, TENURE_NONCE_SIZE);
    d->heard[i].at_ns = tenure_now();
}

static bool take_names(struct tn_slot *slot, struct tn_message_items *items)
{
    struct tn_message_document item;
    size_t n = slot->n_more + items->count;
    char **grown = n > WANTS_MAX ? NULL : realloc(slot->more, (n + 1) * sizeof *grown);

    if (grown == NULL)
        return false;
    slot->more = grown;
    while (tn_message_next(items, &item)) {
        char *name = strndup(item.name.id, item.name.id_len);

        if (name == NULL || !tenure_key_valid(name)) {
            free(name);
            return false;
        }
        slot->more[slot->n_more++] = name;
    }
    return true;
}

static bool take_hello(struct tn_replica_driver *d, unsigned i, struct tn_message *m)
{
    struct tn_slot *slot = &d->slot[i];
    struct tn_replica_event event = {.kind = TN_REPLICA_HELLO, .link = i, .hello = &slot->hello};

    if (!take_names(slot, &m->items) || slot->n_more != m->hello.wants)
        return false;
    free_names(&slot->wants, &slot->n_wants);
    slot->wants = slot->more;
    slot->n_wants = slot->n_more;
    slot->more = NULL;
    slot->n_more = 0;
    slot->hello = m->hello.core;
    hear_of(d, slot->hello.database);
    tn_node_step(d, &event, NULL);
    return true;
}

static bool take_document(const struct tn_message_document *item, struct tn_record *record)
{
    char *key = strndup(item->name.id, item->name.id_len);

    *record = (struct tn_record){.key = key, .n = item->n};
    if (key == NULL || item->name.collection_len > 0 || !tenure_key_valid(key))
        return false;
    if (item->state == TN_DOCUMENT_ABSENT) {
        record->n = 0;
        return true;
    }
    if (item->size < FRAME || item->size - FRAME > TENURE_DATA_MAX || item->n == 0)
        return false;
    memcpy(record->nonce, item->bytes, TENURE_NONCE_SIZE);
    memcpy(record->prev, item->bytes + TENURE_NONCE_SIZE, TENURE_NONCE_SIZE);
    record->tombstone = item->state == TN_DOCUMENT_DELETED;
    record->data = item->bytes + FRAME;
    record->len = item->size - FRAME;
    return true;
}

static bool take_group(struct tn_replica_driver *d, unsigned i, struct tn_message *m)
{
    struct tn_replica_event event = {
        .kind = TN_REPLICA_GROUP, .link = i + TN_NODE_SLOTS, .group = &m->group};
    struct tn_record *records = calloc(m->items.count + 1, sizeof *records);
    struct tn_cause cause = {.records = records};
    struct tn_message_document item;
    bool valid = records != NULL;

    while (valid && tn_message_next(&m->items, &item))
        valid = take_document(&item, &records[cause.count++]);
    if (valid)
        tn_node_step(d, &event, &cause);
    for (size_t j = 0; j < cause.count; j++)
        free((void *)(uintptr_t)records[j].key);
    free(records);
    return valid;
}

static void take_ack(struct tn_replica_driver *d, unsigned i, const struct tn_message *m)
{
    struct tn_replica_event event = {.kind = TN_REPLICA_ACK, .link = i, .ack = &m->ack};
    struct tn_cause cause = {.ack = &m->ack};

    hear_of(d, m->ack.database);
    tn_node_step(d, &event, &cause);
}

static void take_refusal(struct tn_replica_driver *d, unsigned i, const struct tn_message *m)
{
    struct tn_replica_event event = {.kind = TN_REPLICA_REFUSED, .link = i, .n = m->epoch};

    if (m->refusal.reason == TN_REFUSED_EPOCH)
        tn_node_step(d, &event, NULL);
    else
        tn_node_log(d, "replica-peer-refused", "%s refuses this node: %s", d->slot[i].who.node,
                    m->refusal.text);
}

static bool take_message(struct tn_replica_driver *d, unsigned i, struct tn_message *m)
{
    switch (m->kind) {
    case TN_MESSAGE_HELLO:
        return take_hello(d, i, m);
    case TN_MESSAGE_WANTS:
        return take_names(&d->slot[i], &m->items);
    case TN_MESSAGE_GROUP:
    case TN_MESSAGE_STATUS:
        return take_group(d, i, m);
    case TN_MESSAGE_ACK:
    case TN_MESSAGE_FORWARD:
        take_ack(d, i, m);
        return true;
    case TN_MESSAGE_REFUSAL:
        take_refusal(d, i, m);
        return true;
    }
    return false;
}

static void close_peer(struct tn_replica_driver *d, unsigned i, enum tn_refusal_reason reason,
                       const char *text)
{
    tn_node_log(d, "replica-peer-refused", "%s: %s: %s", d->slot[i].who.node,
                tn_refusal_word(reason), text);
    send_refusal(d, i, reason, text);
    pthread_mutex_lock(&d->lock);
    if (d->slot[i].peer != NULL)
        tn_peer_close(d->slot[i].peer, text);
    pthread_mutex_unlock(&d->lock);
}

void tn_node_link_message(struct tn_replica_driver *d, unsigned i, const uint8_t *bytes,
                          size_t size)
{
    struct tn_message m;
    struct tenure_error err = {0};
    enum tn_refusal_reason reason = 0;
    enum tenure_status status = tn_message_decode(bytes, size, &m, &err);

    if (!d->slot[i].up || d->broken)
        return;
    if (status)
        reason = tn_refusal_of(status);
    else
        reason = tn_message_check(&m, d->name, wall_ms(), &err);
    if (reason == 0 && !take_message(d, i, &m)) {
        reason = TN_REFUSED_MALFORMED;
        tenure_fail(&err, TENURE_CORRUPT, "a document or a name is not valid");
    }
    if (reason != 0)
        close_peer(d, i, reason, err.text);
}
