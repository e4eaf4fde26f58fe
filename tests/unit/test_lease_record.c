/* The lease record's JSON: what is written comes back; what is hostile is refused, not misread. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "store/lease_record.h"

#define NONCE "00112233445566778899aabbccddeeff"
#define GOOD                                                                                       \
    "\"holder\":\"a\",\"incarnation\":\"" NONCE "\",\"grant\":\"" NONCE                            \
    "\",\"epoch\":7,\"ttl_ms\":15000"

static struct tn_lease sample(void)
{
    struct tn_lease l = {.epoch = 1794779320777,
                         .ttl_ms = 15000,
                         .transitions = 42,
                         .priority = -3,
                         .acquired_ms = 1794779320777,
                         .renewed_ms = 1794779325001};

    snprintf(l.holder, sizeof l.holder, "node-1");
    snprintf(l.address, sizeof l.address, "http://10.0.0.1:8080");
    snprintf(l.build, sizeof l.build, "1.2.3");
    snprintf(l.cause, sizeof l.cause, "expired");
    memset(l.incarnation, 0x5a, sizeof l.incarnation);
    memset(l.grant, 0xa5, sizeof l.grant);
    return l;
}

static void round_trip(void **state)
{
    struct tn_lease in = sample(), out;
    char *text = NULL, *extra = (char *)1;
    size_t len = 0;

    (void)state;
    assert_int_equal(tn_lease_encode(&in, NULL, &text, &len, NULL), TENURE_OK);
    assert_int_equal(len, strlen(text));
    assert_int_equal(tn_lease_decode(text, len, &out, &extra, NULL), TENURE_OK);
    assert_memory_equal(&in, &out, sizeof in);
    assert_null(extra);
    free(text);
}

static void unknown_members_are_kept(void **state)
{
    static const char record[] = "{" GOOD ",\"zone\":{\"name\":\"x\",\"n\":[1,2]},\"quorum\":3}";
    struct tn_lease lease, again;
    char *extra = NULL, *text = NULL, *more = NULL;
    size_t len = 0;

    (void)state;
    assert_int_equal(tn_lease_decode(record, strlen(record), &lease, &extra, NULL), TENURE_OK);
    assert_string_equal(extra, "{\"quorum\":3,\"zone\":{\"n\":[1,2],\"name\":\"x\"}}");
    lease.epoch = 8;
    assert_int_equal(tn_lease_encode(&lease, extra, &text, &len, NULL), TENURE_OK);
    assert_int_equal(tn_lease_decode(text, len, &again, &more, NULL), TENURE_OK);
    assert_int_equal(again.epoch, 8);
    assert_string_equal(more, extra);
    free(extra);
    free(text);
    free(more);
}

/* An unknown member cannot shadow one of ours on the way back. */
static void extra_cannot_override(void **state)
{
    struct tn_lease lease = sample(), out;
    char *text = NULL;
    size_t len = 0;

    (void)state;
    assert_int_equal(tn_lease_encode(&lease, "{\"epoch\":1,\"x\":2}", &text, &len, NULL),
                     TENURE_OK);
    assert_int_equal(tn_lease_decode(text, len, &out, NULL, NULL), TENURE_OK);
    assert_int_equal(out.epoch, lease.epoch);
    free(text);
}

static void hostile_records_are_refused(void **state)
{
    static const char *const bad[] = {
        "",
        " ",
        "{",
        "null",
        "[]",
        "\"x\"",
        "{}",
        "{" GOOD,
        "{" GOOD "}{}",
        "{" GOOD ",\"holder\":\"b\"}",
        /* wrong types and bounds, one at a time */
        "{\"holder\":7,\"incarnation\":\"" NONCE "\",\"grant\":\"" NONCE
        "\",\"epoch\":7,\"ttl_ms\":15000}",
        "{\"holder\":\"a\\u0000b\",\"incarnation\":\"" NONCE "\",\"grant\":\"" NONCE
        "\",\"epoch\":7,\"ttl_ms\":15000}",
        "{\"holder\":\"\\u001b[2J\",\"incarnation\":\"" NONCE "\",\"grant\":\"" NONCE
        "\",\"epoch\":7,\"ttl_ms\":15000}",
        "{\"holder\":\"\\u009b2J\",\"incarnation\":\"" NONCE "\",\"grant\":\"" NONCE
        "\",\"epoch\":7,\"ttl_ms\":15000}",
        "{\"holder\":\"a\",\"incarnation\":\"zz\",\"grant\":\"" NONCE
        "\",\"epoch\":7,\"ttl_ms\":15000}",
        "{\"holder\":\"a\",\"incarnation\":\"" NONCE "\",\"grant\":\"" NONCE
        "\",\"epoch\":-1,\"ttl_ms\":15000}",
        "{\"holder\":\"a\",\"incarnation\":\"" NONCE "\",\"grant\":\"" NONCE
        "\",\"epoch\":1.5,\"ttl_ms\":15000}",
        "{\"holder\":\"a\",\"incarnation\":\"" NONCE "\",\"grant\":\"" NONCE
        "\",\"epoch\":\"7\",\"ttl_ms\":15000}",
        "{\"holder\":\"a\",\"incarnation\":\"" NONCE "\",\"grant\":\"" NONCE
        "\",\"epoch\":18446744073709551615,\"ttl_ms\":15000}",
        "{\"holder\":\"a\",\"incarnation\":\"" NONCE "\",\"grant\":\"" NONCE
        "\",\"epoch\":7,\"ttl_ms\":4294967296}",
        "{\"holder\":\"a\",\"incarnation\":\"" NONCE "\",\"grant\":\"" NONCE
        "\",\"epoch\":7,\"ttl_ms\":null}",
        "{" GOOD ",\"priority\":99999999999}",
        "{" GOOD ",\"address\":[]}",
    };

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct tn_lease lease, before;
        struct tenure_error err = {0};
        char *extra = (char *)1;

        memset(&lease, 0x77, sizeof lease);
        before = lease;
        if (tn_lease_decode(bad[i], strlen(bad[i]), &lease, &extra, &err) != TENURE_CORRUPT)
            fail_msg("taken for a lease: %s", bad[i]);
        assert_true(err.text[0] != '\0');
        assert_memory_equal(&lease, &before, sizeof lease); /* untouched on failure */
        assert_ptr_equal(extra, (char *)1);
    }
}

static void sizes_are_bounded(void **state)
{
    char *deep = malloc(TN_LEASE_RECORD_MAX + 2);
    struct tn_lease lease;
    struct tenure_error err;

    (void)state;
    memset(deep, '[', TN_LEASE_RECORD_MAX + 1);
    assert_int_equal(tn_lease_decode(deep, TN_LEASE_RECORD_MAX, &lease, NULL, &err),
                     TENURE_CORRUPT);
    assert_int_equal(tn_lease_decode(deep, TN_LEASE_RECORD_MAX + 1, &lease, NULL, &err),
                     TENURE_CORRUPT);
    free(deep);
}

/* What a damaged record may still tell: a floor for an operator's reset, or nothing. */
static void epochs_of_damaged_bytes(void **state)
{
    static const struct {
        const char *bytes;
        uint64_t epoch;
    } cases[] = {
        {"", 0},
        {"junk", 0},
        {"\"epoch\"", 0},
        {"\"epoch\":", 0},
        {"\"epoch\":7", 0}, /* perhaps cut */
        {"\"epoch\":7x,", 0},
        {"\"epoch\":7.5,", 0},
        {"\"epoch\":-7,", 0},
        {"\"epoch\":\"7\",", 0},
        {"\"epoch\":0,", 0},
        {"\"epoch\":07,", 0},
        {"\"epoch\";7,", 0},
        {"\"epoch\":7,", 7},
        {"slot nonce=\n{\"hxlder\":\"a\",\"epoch\" : 1900000000002 }", 1900000000002},
        {"{\"holder\":\"\\\"epoch\\\":9,\",\"epoch\":7,", 7}, /* within a string */
        {"\"epoch\":7,\"epoch\":9}\"epoch\":8,", 9},
        {"\"epoch\":7,\"epoch\":9", 0},
        {"\"epoch\":8998403161718784,", 0}, /* the last thousandth */
        {"\"epoch\":8998403161718783,", 8998403161718783},
        {"\"epoch\":9007199254740991,", 0},
        {"\"epoch\":18446744073709551623,", 0}, /* 2^64 + 7 */
        {"\"epoch\":000000000000000000007,", 0},
    };

    (void)state;
    assert_int_equal(tn_lease_legible_epoch(NULL, 0), 0);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        size_t len = strlen(cases[i].bytes);
        char *exact = malloc(len + !len); /* so that a byte too far is seen */

        assert_non_null(exact);
        memcpy(exact, cases[i].bytes, len);
        if (tn_lease_legible_epoch(exact, len) != cases[i].epoch)
            fail_msg("not %llu: %s", (unsigned long long)cases[i].epoch, cases[i].bytes);
        free(exact);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(round_trip),
        cmocka_unit_test(unknown_members_are_kept),
        cmocka_unit_test(extra_cannot_override),
        cmocka_unit_test(hostile_records_are_refused),
        cmocka_unit_test(sizes_are_bounded),
        cmocka_unit_test(epochs_of_damaged_bytes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
