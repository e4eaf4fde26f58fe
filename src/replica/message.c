#include "replica/message.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

#include "replica/message_inner.h"

/* ---- Items ----------------------------------------------------------------- */

static void read_text(struct tn_io *io, const char **text, uint8_t len)
{
    *text = (const char *)io->in;
    if ((size_t)(io->end - io->in) < len)
        tn_io_fail(io, "it ends too early");
    else if (memchr(io->in, '\0', len))
        tn_io_fail(io, "a name holds a NUL");
    else
        io->in += len;
}

static void read_item(struct tn_io *io, bool document, struct tn_message_document *item)
{
    struct tn_document_name *name = &item->name;

    name->collection_len = (uint8_t)tn_io_number(io, 0, 1);
    name->id_len = (uint8_t)tn_io_number(io, 0, 1);
    if (document) {
        item->state = (enum tn_document_state)tn_io_word(io, 0, TN_DOCUMENT_ABSENT);
        tn_io_count(io, &item->n);
        tn_io_u32(io, &item->size);
    }
    read_text(io, &name->collection, name->collection_len);
    read_text(io, &name->id, name->id_len);
    item->bytes = io->in;
    if (name->id_len == 0)
        tn_io_fail(io, "a document has no id");
    if (item->size > TN_DOCUMENT_MAX)
        tn_io_fail(io, "a document is too large");
    if (!io->bad && item->size > (size_t)(io->end - io->in))
        tn_io_fail(io, "it ends too early");
    if (!io->bad)
        io->in += item->size;
}

/* What a group says of its documents (R4); those that were wanted are older. */
static void check_document(struct tn_io *io, const struct tn_group *g,
                           const struct tn_message_document *d)
{
    if (d->state == TN_DOCUMENT_ABSENT) {
        if (d->n || d->size || !g->rewinds)
            tn_io_fail(io, "an absent document has a change, or was not wanted");
    } else if (d->n == 0 || d->n > g->to || (d->n <= g->from && !g->rewinds)) {
        tn_io_fail(io, "a document's change is not in the group");
    }
}

bool tn_message_next(struct tn_message_items *items, struct tn_message_document *item)
{
    struct tn_io io = {.in = items->at, .end = items->end};

    if (items->count == 0)
        return false;
    memset(item, 0, sizeof *item);
    read_item(&io, items->documents, item);
    assert(!io.bad); /* decoding has walked them */
    items->at = io.in;
    items->count--;
    return true;
}

static void walk(struct tn_io *io, struct tn_message *m)
{
    m->items.documents = m->kind == TN_MESSAGE_GROUP;
    m->items.at = io->in;
    m->items.end = io->end;
    if (m->items.count && !m->items.documents && m->kind != TN_MESSAGE_HELLO &&
        m->kind != TN_MESSAGE_WANTS)
        tn_io_fail(io, "this kind holds no documents");
    for (uint32_t i = 0; i < m->items.count && !io->bad; i++) {
        struct tn_message_document item = {.n = 0};

        read_item(io, m->items.documents, &item);
        if (m->items.documents)
            check_document(io, &m->group, &item);
    }
    if (io->in != io->end)
        tn_io_fail(io, "something follows its end");
}

/* ---- Reading --------------------------------------------------------------- */

static const char *fault_of(const struct tn_message *m)
{
    switch (m->kind) {
    case TN_MESSAGE_HELLO:
        return !tn_hello_valid(&m->hello.core)            ? "the hello's numbers are out of order"
               : m->hello.wants < m->items.count          ? "it names more documents than it wants"
               : m->hello.wants && !m->hello.core.rewinds ? "it wants documents without a rewind"
                                                          : NULL;
    case TN_MESSAGE_GROUP:
    case TN_MESSAGE_STATUS:
        if (!tn_group_valid(&m->group) || (m->group.rewinds && m->group.snapshot))
            return "the group's numbers are out of order";
        if (m->kind == TN_MESSAGE_STATUS &&
            (m->group.from != m->group.chain.n || m->group.to != m->group.chain.n))
            return "a status is not at the end of its chain";
        return NULL;
    case TN_MESSAGE_ACK:
    case TN_MESSAGE_FORWARD:
        return m->ack.position.epoch > m->epoch ? "it acknowledges a later epoch than it has seen"
                                                : NULL;
    case TN_MESSAGE_WANTS:
    case TN_MESSAGE_REFUSAL:
        break;
    }
    return NULL;
}

enum tenure_status tn_message_decode(const uint8_t *bytes, size_t size, struct tn_message *out,
                                     struct tenure_error *err)
{
    struct tn_io io = {.in = bytes, .end = bytes + size};

    memset(out, 0, sizeof *out);
    unsigned version = (unsigned)tn_io_number(&io, 0, 1);
    out->kind = (enum tn_message_kind)tn_io_word(&io, 0, TN_MESSAGE_REFUSAL);
    if (io.bad || out->kind == 0 || size > TN_MESSAGE_MAX)
        return tenure_fail(
            err, version && version != TN_MESSAGE_VERSION ? TENURE_UNSUPPORTED : TENURE_CORRUPT,
            "a message of %zu bytes is not valid: %s", size,
            size > TN_MESSAGE_MAX ? "it is too large" : "its kind is not known");
    if (version != TN_MESSAGE_VERSION && out->kind != TN_MESSAGE_REFUSAL)
        return tenure_fail(err, TENURE_UNSUPPORTED,
                           "the peer speaks version %u of the replication protocol, this node "
                           "version %u: run the same release of tenure on both",
                           version, TN_MESSAGE_VERSION);
    if (tn_io_number(&io, 0, 2))
        tn_io_fail(&io, "its reserved bytes are not zero");
    tn_io_u32(&io, &out->items.count);
    tn_io_count(&io, &out->epoch);
    if (out->epoch == TN_EPOCH_MAX)
        tn_io_fail(&io, "a number is out of range");
    tn_io_body(&io, out);
    if (!io.bad)
        walk(&io, out);
    if (!io.bad)
        io.bad = fault_of(out);
    if (io.bad)
        return tenure_fail(err, TENURE_CORRUPT,
                           "a message of kind %d and %zu bytes is not valid: %s", (int)out->kind,
                           size, io.bad);
    return TENURE_OK;
}

/* ---- Refusing -------------------------------------------------------------- */

enum tn_refusal_reason tn_message_check(const struct tn_message *m, const char *election,
                                        uint64_t now_ms, struct tenure_error *err)
{
    uint64_t clock = m->kind == TN_MESSAGE_HELLO ? m->hello.clock_ms : m->clock_ms;

    if (m->kind == TN_MESSAGE_HELLO && strcmp(m->hello.election, election) != 0) {
        tenure_fail(err, TENURE_CONFIG,
                    "the peer replicates the election '%s', this node '%s': correct the target or "
                    "the name of one of them",
                    m->hello.election, election);
        return TN_REFUSED_ELECTION;
    }
    if (clock > now_ms && clock - now_ms > (uint64_t)TN_MESSAGE_CLOCK_AHEAD) {
        tenure_fail(err, TENURE_CONFIG,
                    "the peer's clock is %" PRIu64 " hours ahead of this node's: set the clock of "
                    "one of them (NTP)",
                    (clock - now_ms) / 3600000);
        return TN_REFUSED_CLOCK;
    }
    return (enum tn_refusal_reason)0;
}

const char *tn_refusal_word(enum tn_refusal_reason reason)
{
    static const char *const words[] = {
        [TN_REFUSED_EPOCH] = "later epoch",
        [TN_REFUSED_VERSION] = "another version",
        [TN_REFUSED_ELECTION] = "another election",
        [TN_REFUSED_CLOCK] = "clock ahead",
        [TN_REFUSED_MALFORMED] = "malformed",
        [TN_REFUSED_TOO_LARGE] = "too large",
        [TN_REFUSED_OTHER] = "refused",
    };

    assert(reason >= TN_REFUSED_EPOCH && reason <= TN_REFUSED_OTHER);
    return words[reason];
}

enum tn_refusal_reason tn_refusal_of(enum tenure_status decoded)
{
    return decoded == TENURE_UNSUPPORTED ? TN_REFUSED_VERSION : TN_REFUSED_MALFORMED;
}
