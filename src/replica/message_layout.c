/* The layout of every message, but for its items. */
#include <string.h>

#include "base/text.h"
#include "replica/message_inner.h"

void tn_io_fail(struct tn_io *io, const char *what)
{
    if (!io->bad)
        io->bad = what;
}

static void io_bytes(struct tn_io *io, void *bytes, size_t n)
{
    if (io->out) {
        memcpy(io->out, bytes, n);
        io->out += n;
    } else if (io->bad || (size_t)(io->end - io->in) < n) {
        memset(bytes, 0, n);
        tn_io_fail(io, "it ends too early");
    } else {
        memcpy(bytes, io->in, n);
        io->in += n;
    }
}

/* A number of n bytes. */
uint64_t tn_io_number(struct tn_io *io, uint64_t value, size_t n)
{
    uint8_t bytes[8];
    uint64_t read = 0;

    for (size_t i = 0; i < n; i++)
        bytes[i] = (uint8_t)(value >> (8 * i));
    io_bytes(io, bytes, n);
    for (size_t i = 0; i < n; i++)
        read |= (uint64_t)bytes[i] << (8 * i);
    return read;
}

void tn_io_u64(struct tn_io *io, uint64_t *value)
{
    *value = tn_io_number(io, *value, 8);
}

void tn_io_u32(struct tn_io *io, uint32_t *value)
{
    *value = (uint32_t)tn_io_number(io, *value, 4);
}

/* Epochs and numbers of changes. */
void tn_io_count(struct tn_io *io, uint64_t *value)
{
    tn_io_u64(io, value);
    if (*value > TN_EPOCH_MAX)
        tn_io_fail(io, "a number is out of range");
}

unsigned tn_io_word(struct tn_io *io, unsigned value, unsigned max)
{
    value = (unsigned)tn_io_number(io, value, 1);
    if (value > max)
        tn_io_fail(io, "a code is not known");
    return value <= max ? value : 0;
}

static void io_flag(struct tn_io *io, bool *value)
{
    *value = tn_io_word(io, *value, 1);
}

/* size: with the NUL, at most 256. */
static void io_text(struct tn_io *io, char *text, size_t size)
{
    size_t n = (size_t)tn_io_number(io, io->out ? strlen(text) : 0, 1);

    if (n >= size) {
        tn_io_fail(io, "a text is too long");
        n = 0;
    }
    io_bytes(io, text, n);
    if (!io->out) {
        text[n] = '\0';
        if (strlen(text) != n)
            tn_io_fail(io, "a text holds a NUL");
    }
}

/* One that goes to logs as it is. */
static void io_line(struct tn_io *io, char *text, size_t size)
{
    io_text(io, text, size);
    if (io->out)
        return;
    for (const char *p = text; *p; p += tn_text_char(p)) {
        if (!tn_text_char(p) || tn_text_control(p)) {
            tn_io_fail(io, "a text is not UTF-8, or holds control characters");
            text[0] = '\0';
            return;
        }
    }
}

static void io_position(struct tn_io *io, struct tn_position *p)
{
    tn_io_count(io, &p->epoch);
    tn_io_count(io, &p->n);
    io_bytes(io, p->grant, sizeof p->grant);
    if ((p->epoch == 0) != (p->n == 0))
        tn_io_fail(io, "a position has no epoch, or no number");
}

static void io_chain(struct tn_io *io, struct tn_chain *chain)
{
    tn_io_count(io, &chain->n);
    chain->count = tn_io_word(io, chain->count, TN_CHAIN_MAX);
    for (uint32_t i = 0; i < chain->count; i++) {
        tn_io_count(io, &chain->link[i].epoch);
        tn_io_count(io, &chain->link[i].first);
        io_bytes(io, chain->link[i].grant, sizeof chain->link[i].grant);
    }
}

static void io_hello(struct tn_io *io, struct tn_message_hello *h)
{
    struct tn_staging *staging = &h->core.staging;

    io_line(io, h->election, sizeof h->election);
    io_line(io, h->node, sizeof h->node);
    io_bytes(io, h->core.database, sizeof h->core.database);
    io_flag(io, &h->observer);
    tn_io_u64(io, &h->capabilities);
    tn_io_u64(io, &h->clock_ms);
    io_bytes(io, h->filter, sizeof h->filter);
    io_chain(io, &h->core.chain);
    tn_io_count(io, &h->core.floor);
    staging->taking = (enum tn_taking)tn_io_word(io, staging->taking, TN_TAKE_SNAPSHOT);
    tn_io_count(io, &staging->begun);
    tn_io_count(io, &staging->floor);
    tn_io_count(io, &staging->to);
    io_position(io, &staging->far);
    io_flag(io, &h->core.rewinds);
    tn_io_count(io, &h->core.wants_from);
    tn_io_u32(io, &h->wants);
}

static void io_group(struct tn_io *io, struct tn_message *m)
{
    struct tn_group *g = &m->group;

    tn_io_u64(io, &m->clock_ms);
    io_chain(io, &g->chain);
    tn_io_count(io, &g->floor);
    io_position(io, &g->committed);
    tn_io_count(io, &g->from);
    tn_io_count(io, &g->to);
    io_flag(io, &g->snapshot);
    io_flag(io, &g->rewinds);
    io_position(io, &g->rewinder);
}

static void io_ack(struct tn_io *io, struct tn_replica_ack *ack)
{
    io_bytes(io, ack->database, sizeof ack->database);
    io_position(io, &ack->position);
    io_flag(io, &ack->observer);
}

static void io_refusal(struct tn_io *io, struct tn_message_refusal *r)
{
    r->reason = (enum tn_refusal_reason)tn_io_number(io, r->reason, 1);
    /* Another version may know more of them. */
    if (r->reason < TN_REFUSED_EPOCH || r->reason > TN_REFUSED_OTHER)
        r->reason = TN_REFUSED_OTHER;
    tn_io_u32(io, &r->version);
    io_text(io, r->text, sizeof r->text);
    if (!io->out)
        tn_text_tame(r->text, '?');
}

void tn_io_body(struct tn_io *io, struct tn_message *m)
{
    switch (m->kind) {
    case TN_MESSAGE_HELLO:
        m->hello.core.epoch = m->epoch;
        io_hello(io, &m->hello);
        break;
    case TN_MESSAGE_WANTS:
        break;
    case TN_MESSAGE_GROUP:
    case TN_MESSAGE_STATUS:
        m->group.epoch = m->epoch;
        io_group(io, m);
        break;
    case TN_MESSAGE_ACK:
    case TN_MESSAGE_FORWARD:
        m->ack.epoch = m->epoch;
        io_ack(io, &m->ack);
        break;
    case TN_MESSAGE_REFUSAL:
        io_refusal(io, &m->refusal);
        break;
    }
}
