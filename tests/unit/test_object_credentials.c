/* Credentials that somebody gives out for a while: kept as long as they last. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "store/object/aws.h"
#include "store/object/xml.h"

#define S INT64_C(1000000000)

static struct tn_aws_keys old_keys(int64_t renew, int64_t end)
{
    return (struct tn_aws_keys){.id = strdup("old"),
                                .secret = strdup("secret"),
                                .life = {.renew_ns = renew, .end_ns = end}};
}

/* Nobody listens where keys are given out. */
static void nobody_gives(void)
{
    unsetenv("AWS_ACCESS_KEY_ID");
    unsetenv("AWS_WEB_IDENTITY_TOKEN_FILE");
    unsetenv("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI");
    setenv("HOME", "/nonexistent", 1);
    setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://127.0.0.1:1/", 1);
}

static void test_keys_that_last_outlive_their_giver(void **state)
{
    const struct tn_aws_choice choice = {.region = "us-east-1", .cancel_fd = -1};
    int64_t now = tenure_now(), tried;
    struct tn_aws_keys keys = old_keys(now - S, now + 3600 * S);
    struct tenure_error err = {0};

    (void)state;
    nobody_gives();
    assert_int_equal(tn_aws_keys_load(&choice, &keys, now + 600 * S, &err), TENURE_OK);
    assert_string_equal(keys.id, "old");
    tried = keys.life.tried_ns;
    assert_true(tried >= now);
    /* Not asked for at every request; and again some time later. */
    keys.life.tried_ns = tenure_now() + 600 * S;
    assert_int_equal(tn_aws_keys_load(&choice, &keys, now + 600 * S, &err), TENURE_OK);
    assert_true(keys.life.tried_ns > now + 300 * S);
    keys.life.tried_ns = now - 60 * S;
    assert_int_equal(tn_aws_keys_load(&choice, &keys, now + 600 * S, &err), TENURE_OK);
    assert_true(keys.life.tried_ns >= now);
    tn_aws_keys_free(&keys);
}

static void test_keys_that_have_ended_are_not_used(void **state)
{
    const struct tn_aws_choice choice = {.region = "us-east-1", .cancel_fd = -1};
    int64_t now = tenure_now();
    struct tn_aws_keys keys = old_keys(now - 2 * S, now - S);
    struct tenure_error err = {0};

    (void)state;
    nobody_gives();
    assert_int_equal(tn_aws_keys_load(&choice, &keys, now + 600 * S, &err), TENURE_UNAVAILABLE);
    tn_aws_keys_free(&keys);
}

static void test_a_spare_one_costs_a_request_little(void **state)
{
    int64_t now = tenure_now(), deadline = now + 600 * S;
    struct tn_object_lifetime life = {.renew_ns = now - S, .end_ns = now + 3600 * S};

    (void)state;
    assert_false(tn_object_lifetime_good(&life));
    assert_true(tn_object_lifetime_spare(&life, &deadline));
    assert_true(deadline < now + 600 * S);
    tn_object_lifetime_set(&life, INT64_MAX); /* for ever */
    assert_true(tn_object_lifetime_good(&life) && life.renew_ns < life.end_ns);
    tn_object_lifetime_set(&life, -5);
    assert_false(tn_object_lifetime_good(&life));
}

static void test_a_text_that_does_not_fit_is_terminated(void **state)
{
    static const char page[] = "<Message>0123456789</Message>";
    struct tn_xml all = {page, page + sizeof page - 1};
    char out[9] = "xxxxxxxx";

    (void)state;
    assert_false(tn_xml_text(all, "Message", out, 5));
    assert_string_equal(out, "0123");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_keys_that_last_outlive_their_giver),
        cmocka_unit_test(test_keys_that_have_ended_are_not_used),
        cmocka_unit_test(test_a_spare_one_costs_a_request_little),
        cmocka_unit_test(test_a_text_that_does_not_fit_is_terminated),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
