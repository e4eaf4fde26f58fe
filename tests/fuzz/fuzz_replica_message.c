/* The messages of replication on hostile bytes: what is taken is in bounds, and survives a round
 * trip. */
#include <stdint.h>

#include "check.h"
#include "replica/message.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void add_items(struct tn_message_writer *w, const struct tn_message *m)
{
    struct tn_message_items items = m->items;
    struct tn_message_document d;
    uint32_t left = items.count;

    while (tn_message_next(&items, &d)) {
        left--;
        assert(d.name.id_len && d.size <= TN_DOCUMENT_MAX);
        if (m->kind == TN_MESSAGE_GROUP)
            assert(d.n <= m->group.to && tn_message_add_document(w, &d, NULL) == TENURE_OK);
        else
            assert(tn_message_add_name(w, &d.name, NULL) == TENURE_OK);
    }
    assert(left == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct tn_message_writer w = {0};
    struct tn_message m, again;
    struct tenure_error err = {0};
    const uint8_t *bytes;
    size_t n;

    enum tenure_status status = tn_message_decode(data, size, &m, &err);
    if (status) {
        check_refusal(&err, status);
        return 0;
    }
    if (m.kind == TN_MESSAGE_HELLO) {
        CHECK_TEXT(m.hello.election);
        CHECK_TEXT(m.hello.node);
        assert(tn_hello_valid(&m.hello.core));
    } else if (m.kind == TN_MESSAGE_REFUSAL) {
        CHECK_TEXT(m.refusal.text);
        assert(*tn_refusal_word(m.refusal.reason));
    } else if (m.kind == TN_MESSAGE_GROUP || m.kind == TN_MESSAGE_STATUS) {
        assert(tn_group_valid(&m.group));
    }
    if (tn_message_check(&m, "web", 0, &err))
        CHECK_TEXT(err.text);
    add_items(&w, &m);
    assert(tn_message_finish(&w, &m, &bytes, &n, NULL) == TENURE_OK);
    assert(m.kind == TN_MESSAGE_REFUSAL || (n == size && memcmp(bytes, data, n) == 0));
    assert(tn_message_decode(bytes, n, &again, NULL) == TENURE_OK && again.epoch == m.epoch);
    tn_message_writer_free(&w);
    return 0;
}
