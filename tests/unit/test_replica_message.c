/* The messages of replication as bytes: round trips, every truncation, every bound. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "replica/message.h"

static struct tn_chain chain(void)
{
    struct tn_chain made = {.n = 9, .count = 2};

    made.link[0].epoch = 1;
    made.link[0].first = 1;
    made.link[1].epoch = 3;
    made.link[1].first = 5;
    memset(made.link[0].grant, 1, TENURE_NONCE_SIZE);
    memset(made.link[1].grant, 3, TENURE_NONCE_SIZE);
    return made;
}

static struct tn_message hello(void)
{
    struct tn_message m = {.kind = TN_MESSAGE_HELLO};
    struct tn_message_hello *h = &m.hello;

    memset(h->core.database, 7, sizeof h->core.database);
    memset(h->filter, 9, sizeof h->filter);
    strcpy(h->election, "team/web");
    strcpy(h->node, "b-2");
    h->core.epoch = 4;
    h->core.chain = chain();
    h->core.floor = 2;
    h->core.staging.taking = TN_TAKE_REWIND;
    h->core.staging.begun = 11;
    h->core.staging.to = 6;
    h->core.staging.far = tn_chain_end(&h->core.chain);
    h->core.rewinds = true;
    h->core.wants_from = 4;
    h->observer = true;
    h->capabilities = UINT64_C(0x8000000000000001);
    h->clock_ms = UINT64_C(1800000000000);
    h->wants = 3;
    return m;
}

static struct tn_message group(enum tn_message_kind kind)
{
    struct tn_message m = {.kind = kind, .clock_ms = 1800000000123};

    m.group.epoch = 4;
    m.group.chain = chain();
    m.group.floor = 2;
    m.group.committed = tn_chain_end(&m.group.chain);
    m.group.from = kind == TN_MESSAGE_STATUS ? 9 : 5;
    m.group.to = kind == TN_MESSAGE_STATUS ? 9 : 8;
    return m;
}

static struct tn_message ack(enum tn_message_kind kind)
{
    struct tn_message m = {.kind = kind};

    memset(m.ack.database, 5, sizeof m.ack.database);
    m.ack.epoch = 4;
    m.ack.position.epoch = 3;
    m.ack.position.n = 9;
    m.ack.observer = true;
    return m;
}

static struct tn_message refusal(void)
{
    struct tn_message m = {.kind = TN_MESSAGE_REFUSAL, .epoch = 12};

    m.refusal.reason = TN_REFUSED_ELECTION;
    m.refusal.version = TN_MESSAGE_VERSION;
    strcpy(m.refusal.text, "of another election");
    return m;
}

static struct tn_document_name name(const char *collection, const char *id)
{
    return (struct tn_document_name){collection, id, (uint8_t)strlen(collection),
                                     (uint8_t)strlen(id)};
}

static struct tn_message_document document(const char *id, uint64_t n, const char *text)
{
    return (struct tn_message_document){name("jobs", id), TN_DOCUMENT_THERE, n,
                                        (const uint8_t *)text, (uint32_t)strlen(text)};
}

static void add(struct tn_message_writer *w, const struct tn_message_document *d)
{
    assert_int_equal(tn_message_add_document(w, d, NULL), TENURE_OK);
}

/* The bytes of it, in memory of their own: what reads beyond them is found. */
static uint8_t *finish(struct tn_message_writer *w, const struct tn_message *m, size_t *size)
{
    const uint8_t *bytes;

    assert_int_equal(tn_message_finish(w, m, &bytes, size, NULL), TENURE_OK);
    assert_true(*size <= TN_MESSAGE_MAX);
    uint8_t *copy = malloc(*size);
    assert_non_null(copy);
    return memcpy(copy, bytes, *size);
}

static enum tenure_status decode(const uint8_t *bytes, size_t size, struct tn_message *out)
{
    struct tenure_error err = {0};
    enum tenure_status status = tn_message_decode(bytes, size, out, &err);

    assert_true(status == TENURE_OK || (err.code == status && err.text[0]));
    return status;
}

/* Write again what was read: the same bytes. */
static void check_same(const struct tn_message *m, const uint8_t *bytes, size_t size)
{
    struct tn_message_writer w = {0};
    struct tn_message_items items = m->items;
    struct tn_message_document d;
    size_t again;

    while (tn_message_next(&items, &d)) {
        if (m->kind == TN_MESSAGE_GROUP)
            add(&w, &d);
        else
            assert_int_equal(tn_message_add_name(&w, &d.name, NULL), TENURE_OK);
    }
    uint8_t *copy = finish(&w, m, &again);
    assert_int_equal(again, size);
    assert_memory_equal(copy, bytes, size);
    free(copy);
    tn_message_writer_free(&w);
}

/* It comes back, and no shorter or longer part of it is taken for a message. */
static void check_round_trip(struct tn_message_writer *w, const struct tn_message *m)
{
    struct tn_message out;
    size_t size;
    uint8_t *bytes = finish(w, m, &size);

    assert_int_equal(decode(bytes, size, &out), TENURE_OK);
    assert_int_equal(out.kind, m->kind);
    check_same(&out, bytes, size);
    for (size_t n = 0; n < size; n++) {
        uint8_t *cut = malloc(n ? n : 1);

        assert_non_null(cut);
        memcpy(cut, bytes, n);
        assert_int_equal(decode(cut, n, &out), TENURE_CORRUPT);
        free(cut);
    }
    uint8_t *longer = calloc(1, size + 1);
    assert_non_null(longer);
    memcpy(longer, bytes, size);
    assert_int_equal(decode(longer, size + 1, &out), TENURE_CORRUPT);
    free(longer);
    free(bytes);
}

static void test_round_trips(void **unused)
{
    struct tn_message_writer w = {0};
    struct tn_document_name names[] = {name("jobs", "1"), name("", "a/b")};
    struct tn_message_document there = document("1", 6, "{}"), gone = document("2", 8, "epoch");
    struct tn_message m;

    (void)unused;
    for (unsigned i = 0; i < 2; i++)
        assert_int_equal(tn_message_add_name(&w, &names[i], NULL), TENURE_OK);
    m = hello();
    check_round_trip(&w, &m);
    assert_int_equal(tn_message_add_name(&w, &names[0], NULL), TENURE_OK);
    m = (struct tn_message){.kind = TN_MESSAGE_WANTS, .epoch = 4};
    check_round_trip(&w, &m);
    gone.state = TN_DOCUMENT_DELETED;
    add(&w, &there);
    add(&w, &gone);
    m = group(TN_MESSAGE_GROUP);
    check_round_trip(&w, &m);
    m = group(TN_MESSAGE_STATUS);
    check_round_trip(&w, &m);
    m = ack(TN_MESSAGE_ACK);
    check_round_trip(&w, &m);
    m = ack(TN_MESSAGE_FORWARD);
    check_round_trip(&w, &m);
    m = refusal();
    check_round_trip(&w, &m);
    tn_message_writer_free(&w);
}

static void test_what_a_hello_says(void **unused)
{
    struct tn_message_writer w = {0};
    struct tn_message m = hello(), out;
    size_t size;
    uint8_t *bytes = finish(&w, &m, &size);

    (void)unused;
    assert_int_equal(decode(bytes, size, &out), TENURE_OK);
    assert_string_equal(out.hello.election, "team/web");
    assert_string_equal(out.hello.node, "b-2");
    assert_int_equal(out.epoch, 4);
    assert_int_equal(out.hello.core.epoch, 4);
    assert_int_equal(out.hello.core.chain.link[1].first, 5);
    assert_int_equal(out.hello.core.staging.taking, TN_TAKE_REWIND);
    assert_int_equal(out.hello.core.staging.far.n, 9);
    assert_int_equal(out.hello.wants, 3);
    assert_true(out.hello.observer && out.hello.core.rewinds);
    assert_memory_equal(out.hello.filter, m.hello.filter, sizeof m.hello.filter);
    /* Little endian, whatever runs here: version, kind, two zeros, no names, the epoch. */
    static const uint8_t start[] = {1, 1, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 8, 't'};
    assert_memory_equal(bytes, start, sizeof start);
    free(bytes);
    tn_message_writer_free(&w);
}

/* The message `m` with these documents is refused by who reads it. */
static void check_refused(struct tn_message *m, const struct tn_message_document *d)
{
    struct tn_message_writer w = {0};
    struct tn_message out;
    size_t size;

    if (d)
        add(&w, d);
    uint8_t *bytes = finish(&w, m, &size);
    assert_int_equal(decode(bytes, size, &out), TENURE_CORRUPT);
    free(bytes);
    tn_message_writer_free(&w);
}

static void test_numbers_out_of_order(void **unused)
{
    struct tn_message m;

    (void)unused;
#define REFUSED(made, change)                                                                      \
    do {                                                                                           \
        m = made;                                                                                  \
        change;                                                                                    \
        check_refused(&m, NULL);                                                                   \
    } while (0)
    REFUSED(hello(), m.hello.core.floor = 10);
    REFUSED(hello(), m.hello.core.epoch = 2);
    REFUSED(hello(), m.hello.core.staging.to = 10);
    REFUSED(hello(), m.hello.core.chain.link[1].first = 10);
    REFUSED(hello(), m.hello.core.rewinds = false);
    REFUSED(hello(), strcpy(m.hello.node, "a\nb"));
    REFUSED(hello(), strcpy(m.hello.node, "\xff"));
    REFUSED(group(TN_MESSAGE_GROUP), m.group.to = 10);
    REFUSED(group(TN_MESSAGE_GROUP), m.group.from = 9);
    REFUSED(group(TN_MESSAGE_GROUP), m.group.committed.n = 10);
    REFUSED(group(TN_MESSAGE_GROUP), m.group.snapshot = true);
    REFUSED(group(TN_MESSAGE_STATUS), m.group.from = 8);
    REFUSED(ack(TN_MESSAGE_ACK), m.ack.epoch = 2);
    REFUSED(ack(TN_MESSAGE_ACK), m.ack.epoch = TN_EPOCH_MAX);
#undef REFUSED
}

static void test_documents_outside_their_group(void **unused)
{
    struct tn_message m = group(TN_MESSAGE_GROUP);
    struct tn_message_document d = document("1", 9, "x");

    (void)unused;
    check_refused(&m, &d);
    d.n = 5;
    check_refused(&m, &d);
    d.n = 0;
    check_refused(&m, &d);
    d = document("1", 0, "");
    d.state = TN_DOCUMENT_ABSENT;
    check_refused(&m, &d);
    m.group.rewinds = true;
    d.n = 6;
    check_refused(&m, &d);
    /* An answer to a want: older than the group, or there was none. */
    struct tn_message_writer w = {0};
    d.n = 0;
    add(&w, &d);
    d = document("2", 3, "old");
    add(&w, &d);
    check_round_trip(&w, &m);
    tn_message_writer_free(&w);
    /* A kind that has none. */
    m = ack(TN_MESSAGE_ACK);
    check_refused(&m, &d);
}

/* Each byte of each message set to each of a few values: never more than was sent is read. */
static void test_every_byte(void **unused)
{
    static const uint8_t values[] = {0, 1, 7, 0x80, 0xff};
    struct tn_message messages[] = {hello(), group(TN_MESSAGE_GROUP), ack(TN_MESSAGE_ACK),
                                    refusal()};
    struct tn_message_document d = document("1", 6, "{}");
    struct tn_message_writer w = {0};
    struct tn_message out;

    (void)unused;
    for (size_t i = 0; i < sizeof messages / sizeof messages[0]; i++) {
        size_t size;

        if (messages[i].kind == TN_MESSAGE_GROUP)
            add(&w, &d);
        uint8_t *bytes = finish(&w, &messages[i], &size);
        for (size_t at = 0; at < size; at++) {
            uint8_t before = bytes[at];

            for (size_t v = 0; v < sizeof values; v++) {
                bytes[at] = values[v];
                if (decode(bytes, size, &out) == TENURE_OK && out.kind != TN_MESSAGE_REFUSAL)
                    check_same(&out, bytes, size);
            }
            bytes[at] = before;
        }
        free(bytes);
    }
    tn_message_writer_free(&w);
}

static void test_sizes(void **unused)
{
    struct tn_message_writer w = {0};
    struct tn_message m = group(TN_MESSAGE_GROUP), out;
    struct tn_message_document d = document("1", 6, "");
    struct tenure_error err = {0};
    uint8_t *large = calloc(1, TN_DOCUMENT_MAX + 1);
    size_t size;

    (void)unused;
    assert_non_null(large);
    d.bytes = large;
    d.size = TN_DOCUMENT_MAX + 1;
    assert_int_equal(tn_message_add_document(&w, &d, &err), TENURE_INVALID);
    assert_non_null(strstr(err.text, "jobs/1"));
    d.size = TN_DOCUMENT_MAX;
    add(&w, &d);
    d.size = TENURE_DATA_MAX / 2;
    assert_int_equal(tn_message_add_document(&w, &d, NULL), TENURE_UNAVAILABLE);
    uint8_t *bytes = finish(&w, &m, &size);
    assert_int_equal(decode(bytes, size, &out), TENURE_OK);
    assert_int_equal(out.items.count, 1);
    free(bytes);
    /* What did not fit goes into the next one. */
    add(&w, &d);
    bytes = finish(&w, &m, &size);
    assert_int_equal(decode(bytes, size, &out), TENURE_OK);
    assert_int_equal(out.items.count, 1);
    free(bytes);
    bytes = calloc(1, TN_MESSAGE_MAX + 1);
    assert_non_null(bytes);
    bytes[0] = TN_MESSAGE_VERSION;
    bytes[1] = TN_MESSAGE_GROUP;
    assert_int_equal(decode(bytes, TN_MESSAGE_MAX + 1, &out), TENURE_CORRUPT);
    free(bytes);
    struct tn_document_name none = name("jobs", "");
    assert_int_equal(tn_message_add_name(&w, &none, NULL), TENURE_INVALID);
    free(large);
    tn_message_writer_free(&w);
}

static void test_another_version(void **unused)
{
    struct tn_message_writer w = {0};
    struct tn_message m = hello(), out;
    struct tenure_error err = {0};
    size_t size;
    uint8_t *bytes = finish(&w, &m, &size);

    (void)unused;
    bytes[0] = 2;
    assert_int_equal(tn_message_decode(bytes, size, &out, &err), TENURE_UNSUPPORTED);
    assert_non_null(strstr(err.text, "version 2"));
    assert_int_equal(tn_refusal_of(TENURE_UNSUPPORTED), TN_REFUSED_VERSION);
    assert_int_equal(tn_refusal_of(TENURE_CORRUPT), TN_REFUSED_MALFORMED);
    free(bytes);
    /* Its refusal is understood, and what it tells is fit for a terminal. */
    m = refusal();
    strcpy(m.refusal.text, "no\033[31m\nmore");
    bytes = finish(&w, &m, &size);
    bytes[0] = 2;
    bytes[16] = 200;
    assert_int_equal(tn_message_decode(bytes, size, &out, NULL), TENURE_OK);
    assert_int_equal(out.refusal.reason, TN_REFUSED_OTHER);
    assert_string_equal(out.refusal.text, "no?[31m?more");
    assert_string_equal(tn_refusal_word(out.refusal.reason), "refused");
    free(bytes);
    tn_message_writer_free(&w);
}

static void test_not_ours(void **unused)
{
    struct tn_message m = hello(), g = group(TN_MESSAGE_GROUP);
    struct tenure_error err = {0};
    const uint64_t day = 86400000, now = m.hello.clock_ms;

    (void)unused;
    assert_int_equal(tn_message_check(&m, "team/web", now, &err), 0);
    assert_int_equal(tn_message_check(&m, "team/web", now - day, &err), 0);
    assert_int_equal(tn_message_check(&m, "team/web", now + 9 * day, &err), 0);
    assert_int_equal(tn_message_check(&m, "team/db", now, &err), TN_REFUSED_ELECTION);
    assert_non_null(strstr(err.text, "'team/web', this node 'team/db'"));
    assert_int_equal(tn_message_check(&m, "team/web", now - 2 * day, &err), TN_REFUSED_CLOCK);
    assert_non_null(strstr(err.text, "48 hours ahead"));
    assert_int_equal(tn_message_check(&g, "team/web", g.clock_ms - day - 1, &err),
                     TN_REFUSED_CLOCK);
    m = ack(TN_MESSAGE_ACK);
    assert_int_equal(tn_message_check(&m, "team/web", 0, &err), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trips),
        cmocka_unit_test(test_what_a_hello_says),
        cmocka_unit_test(test_numbers_out_of_order),
        cmocka_unit_test(test_documents_outside_their_group),
        cmocka_unit_test(test_every_byte),
        cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_another_version),
        cmocka_unit_test(test_not_ours),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
