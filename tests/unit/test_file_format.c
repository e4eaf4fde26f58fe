/* The bytes of a slot: what is written reads back, and nothing else is believed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "store/file/format.h"

static struct tn_slot sample(uint32_t len)
{
    struct tn_slot slot = {.number = 42, .base = UINT64_C(0x0123456789abcdef), .len = len};

    memset(slot.nonce, 0xa5, sizeof slot.nonce);
    memset(slot.prev, 0x5a, sizeof slot.prev);
    return slot;
}

static void round_trip(void **state)
{
    static const char data[] = "{\"holder\":\"a\"}";
    struct tn_slot slot = sample(sizeof data - 1), back;
    char line[TN_SLOT_HEADER + 1];

    (void)state;
    tn_slot_encode(&slot, data, line);
    assert_int_equal(strlen(line), TN_SLOT_HEADER);
    assert_string_equal(line,
                        "tenure-slot 1 @0000000000000042 nonce=a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5"
                        " prev=5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a base=0123456789abcdef live"
                        " length=0000014 sum=04c2c0a39ccdf5b5\n");
    assert_null(tn_slot_decode((unsigned char *)line, TN_SLOT_HEADER + 14, 42, &back));
    assert_memory_equal(&back.nonce, &slot.nonce, TENURE_NONCE_SIZE);
    assert_memory_equal(&back.prev, &slot.prev, TENURE_NONCE_SIZE);
    assert_true(back.number == 42 && back.base == slot.base && back.sum == slot.sum);
    assert_true(back.len == 14 && !back.tombstone);
    assert_true(tn_slot_verify(&back, data));
}

static void tombstone(void **state)
{
    struct tn_slot slot = sample(0), back;
    char line[TN_SLOT_HEADER + 1];

    (void)state;
    slot.tombstone = true;
    tn_slot_encode(&slot, NULL, line);
    assert_null(tn_slot_decode((unsigned char *)line, TN_SLOT_HEADER, 42, &back));
    assert_true(back.tombstone);
    slot.len = 3; /* an epoch that outlives the erasure */
    tn_slot_encode(&slot, "abc", line);
    assert_null(tn_slot_decode((unsigned char *)line, TN_SLOT_HEADER + 3, 42, &back));
    assert_true(back.tombstone && back.len == 3);
}

/* Every byte of the header, changed to every other value, is noticed: by the
 * header itself or by the sum. */
static void every_byte_counts(void **state)
{
    static const char data[] = "0123456789";
    struct tn_slot slot = sample(10), back;
    char line[TN_SLOT_HEADER + 1];

    (void)state;
    tn_slot_encode(&slot, data, line);
    for (size_t i = 0; i < TN_SLOT_HEADER; i++) {
        for (int delta = 1; delta < 256; delta++) {
            unsigned char bad[TN_SLOT_HEADER];

            memcpy(bad, line, sizeof bad);
            bad[i] = (unsigned char)(bad[i] + delta);
            memset(&back, 0x77, sizeof back);
            if (!tn_slot_decode(bad, TN_SLOT_HEADER + 10, 42, &back))
                assert_false(tn_slot_verify(&back, data));
            else
                assert_int_equal(back.len, 0x77777777); /* untouched */
        }
    }
    for (size_t i = 0; i < 10; i++) {
        char other[] = "0123456789";

        other[i] ^= 1;
        assert_null(tn_slot_decode((unsigned char *)line, TN_SLOT_HEADER + 10, 42, &back));
        assert_false(tn_slot_verify(&back, other));
    }
}

static void sizes(void **state)
{
    struct tn_slot slot = sample(10), back;
    char line[TN_SLOT_HEADER + 1];

    (void)state;
    tn_slot_encode(&slot, "0123456789", line);
    for (uint64_t size = 0; size < TN_SLOT_HEADER + 30; size++) {
        const char *wrong = tn_slot_decode((unsigned char *)line, size, 42, &back);

        assert_true((wrong == NULL) == (size == TN_SLOT_HEADER + 10));
    }
    assert_non_null(tn_slot_decode((unsigned char *)line, UINT64_MAX, 42, &back));
    assert_non_null(tn_slot_decode((unsigned char *)line, (uint64_t)TN_SLOT_SIZE + 1, 42, &back));
    /* A header that lies about its length, as far as it can. */
    slot.len = TENURE_DATA_MAX;
    char *much = calloc(1, TENURE_DATA_MAX);
    tn_slot_encode(&slot, much, line);
    free(much);
    assert_null(tn_slot_decode((unsigned char *)line, TN_SLOT_SIZE, 42, &back));
    assert_non_null(tn_slot_decode((unsigned char *)line, TN_SLOT_SIZE - 1, 42, &back));
}

static void other_name(void **state)
{
    struct tn_slot slot = sample(0), back;
    char line[TN_SLOT_HEADER + 1];

    (void)state;
    tn_slot_encode(&slot, NULL, line);
    assert_non_null(tn_slot_decode((unsigned char *)line, TN_SLOT_HEADER, 43, &back));
    memset(slot.nonce, 0, sizeof slot.nonce);
    tn_slot_encode(&slot, NULL, line);
    assert_non_null(tn_slot_decode((unsigned char *)line, TN_SLOT_HEADER, 42, &back));
}

static void names(void **state)
{
    static const char *const bad[] = {"",
                                      "@",
                                      "lease",
                                      ".seen-0123",
                                      "@000000000000001",
                                      "@00000000000000001",
                                      "@000000000000000a",
                                      "@-000000000000001",
                                      "#0000000000000001",
                                      "@0000000000000000",
                                      "@0000000000000001~"};
    char name[TN_SLOT_NAME + 1];

    (void)state;
    tn_slot_name(1, name);
    assert_string_equal(name, "@0000000000000001");
    assert_true(tn_slot_number(name) == 1);
    tn_slot_name(TN_SLOT_LIMIT, name);
    assert_true(tn_slot_number(name) == TN_SLOT_LIMIT);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_true(tn_slot_number(bad[i]) == 0);
}

static void versions(void **state)
{
    static const char *const bad[] = {"",
                                      "1",
                                      "1.",
                                      ".0123456789abcdef",
                                      "0.0123456789abcdef",
                                      "01.0123456789abcdef",
                                      "1.0123456789abcde",
                                      "1.0123456789abcdefa",
                                      "1.0123456789ABCDEF",
                                      "1.0123456789abcdeg",
                                      "-1.0123456789abcdef",
                                      " 1.0123456789abcdef",
                                      "10000000000000000.0123456789abcdef",
                                      "99999999999999999999999999999999999999.0123456789abcdef"};
    struct tn_slot slot = sample(0);
    struct tenure_token token;
    uint64_t number = 7, sum = 8;

    (void)state;
    slot.sum = UINT64_C(0xfedcba9876543210);
    tn_slot_token(&slot, &token);
    assert_string_equal(token.version, "42.fedcba9876543210");
    assert_memory_equal(token.nonce, slot.nonce, TENURE_NONCE_SIZE);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_false(tn_slot_version(bad[i], &number, &sum));
        assert_true(number == 7 && sum == 8);
    }
    assert_true(tn_slot_version(token.version, &number, &sum));
    assert_true(number == 42 && sum == slot.sum);
    slot.number = TN_SLOT_LIMIT;
    tn_slot_token(&slot, &token);
    assert_true(tn_slot_version(token.version, &number, &sum));
    assert_true(number == TN_SLOT_LIMIT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(round_trip),        cmocka_unit_test(tombstone),
        cmocka_unit_test(every_byte_counts), cmocka_unit_test(sizes),
        cmocka_unit_test(other_name),        cmocka_unit_test(names),
        cmocka_unit_test(versions),
    };

    return cmocka_run_group_tests_name("file_format", tests, NULL, NULL);
}
