#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "replica/message_inner.h"

#define NAME_ITEM     2u  /* bytes of a name beside its two texts */
#define DOCUMENT_ITEM 15u /* of a document, beside them and its own */
#define ROOM          (TN_MESSAGE_MAX - TN_MESSAGE_HEAD_MAX) /* for items */

_Static_assert(ROOM >= DOCUMENT_ITEM + 2 * TN_DOCUMENT_NAME_MAX + TN_DOCUMENT_MAX,
               "a message has room for any one document");

/* Room for n more bytes of items; the head goes before them. */
static enum tenure_status reserve(struct tn_message_writer *w, size_t n, struct tenure_error *err)
{
    if (w->end == 0)
        w->end = TN_MESSAGE_HEAD_MAX;
    if (w->end + n > TN_MESSAGE_MAX)
        return tenure_fail(err, TENURE_UNAVAILABLE, "the message is full");
    if (w->end + n > w->cap) {
        size_t cap = w->cap < 32768 ? 32768 : 2 * w->cap;
        uint8_t *grown = realloc(w->buffer, cap < w->end + n ? w->end + n : cap);

        if (!grown)
            return tenure_fail(err, TENURE_NOMEM, "out of memory");
        w->buffer = grown;
        w->cap = cap < w->end + n ? w->end + n : cap;
    }
    return TENURE_OK;
}

static enum tenure_status check_name(const struct tn_document_name *name, struct tenure_error *err)
{
    if (name->id_len == 0 || memchr(name->id, '\0', name->id_len) ||
        (name->collection_len && memchr(name->collection, '\0', name->collection_len)))
        return tenure_fail(err, TENURE_INVALID, "a document's name is empty or holds a NUL");
    return TENURE_OK;
}

/* Into the room that is reserved. */
static void add(struct tn_message_writer *w, const struct tn_message_document *d, bool document)
{
    struct tn_io io = {.out = w->buffer + w->end};

    tn_io_number(&io, d->name.collection_len, 1);
    tn_io_number(&io, d->name.id_len, 1);
    if (document) {
        tn_io_number(&io, d->state, 1);
        tn_io_number(&io, d->n, 8);
        tn_io_number(&io, d->size, 4);
    }
    memcpy(mempcpy(io.out, d->name.collection, d->name.collection_len), d->name.id, d->name.id_len);
    io.out += d->name.collection_len + d->name.id_len;
    if (d->size)
        memcpy(io.out, d->bytes, d->size);
    w->end = (size_t)(io.out - w->buffer) + d->size;
    w->count++;
}

enum tenure_status tn_message_add_name(struct tn_message_writer *w,
                                       const struct tn_document_name *name,
                                       struct tenure_error *err)
{
    struct tn_message_document item = {.name = *name};
    enum tenure_status status = check_name(name, err);

    if (!status)
        status = reserve(w, NAME_ITEM + name->collection_len + name->id_len, err);
    if (!status)
        add(w, &item, false);
    return status;
}

enum tenure_status tn_message_add_document(struct tn_message_writer *w,
                                           const struct tn_message_document *document,
                                           struct tenure_error *err)
{
    const struct tn_document_name *name = &document->name;
    enum tenure_status status = check_name(name, err);

    if (!status && document->size > TN_DOCUMENT_MAX)
        status = tenure_fail(err, TENURE_INVALID,
                             "the document %.*s/%.*s has %" PRIu32 " bytes, a link carries at "
                             "most %u: make it smaller",
                             name->collection_len, name->collection, name->id_len, name->id,
                             document->size, TN_DOCUMENT_MAX);
    if (!status)
        status =
            reserve(w, DOCUMENT_ITEM + name->collection_len + name->id_len + document->size, err);
    if (!status)
        add(w, document, true);
    return status;
}

enum tenure_status tn_message_finish(struct tn_message_writer *w, const struct tn_message *message,
                                     const uint8_t **bytes, size_t *size, struct tenure_error *err)
{
    uint8_t head[TN_MESSAGE_HEAD_MAX];
    struct tn_message m = *message;
    struct tn_io io = {.out = head};
    enum tenure_status status = reserve(w, 0, err);

    if (status)
        return status;
    m.epoch = m.kind == TN_MESSAGE_HELLO                                  ? m.hello.core.epoch
              : m.kind == TN_MESSAGE_GROUP || m.kind == TN_MESSAGE_STATUS ? m.group.epoch
              : m.kind == TN_MESSAGE_ACK || m.kind == TN_MESSAGE_FORWARD  ? m.ack.epoch
                                                                          : m.epoch;
    tn_io_number(&io, TN_MESSAGE_VERSION, 1);
    tn_io_number(&io, m.kind, 1);
    tn_io_number(&io, 0, 2);
    tn_io_u32(&io, &w->count);
    tn_io_u64(&io, &m.epoch);
    tn_io_body(&io, &m);
    assert(!io.bad); /* what is said is valid */
    size_t n = (size_t)(io.out - head);
    assert(n <= sizeof head);
    *bytes = memcpy(w->buffer + TN_MESSAGE_HEAD_MAX - n, head, n);
    *size = w->end - TN_MESSAGE_HEAD_MAX + n;
    w->end = 0;
    w->count = 0;
    return TENURE_OK;
}

void tn_message_writer_free(struct tn_message_writer *w)
{
    free(w->buffer);
    memset(w, 0, sizeof *w);
}
