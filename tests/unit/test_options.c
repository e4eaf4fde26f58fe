/* The table of URL options: kinds, bounds, defaults, schemes, and the words of a refusal. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/options.h"

struct conf {
    const char *text;
    bool on;
    int word;
    unsigned number;
    int64_t ns;
    char own[8];
};

static bool read_own(const char *text, void *conf)
{
    strncpy(((struct conf *)conf)->own, text, 7);
    return strlen(text) < 8;
}

#define AT(member) offsetof(struct conf, member)
static const struct tn_option rows[] = {
    TN_TEXT_OPTION("text", AT(text), "a name", NULL, "help of text"),
    TN_SWITCH_OPTION("on", AT(on), "no|yes", "yes", NULL, "help of on"),
    TN_WORD_OPTION("word", AT(word), "one|two|three", NULL, NULL, "help of word"),
    TN_NUMBER_OPTION("number", AT(number), 2, 100, "7", NULL, "help of number"),
    TN_TIME_OPTION("ns", AT(ns), 1000, 1000000000, "1ms", "xs", "help of ns"),
    TN_OWN_OPTION("own", read_own, "short", NULL, NULL, "help of own"),
    {0},
};

static enum tenure_status read(const char *text, struct conf *conf, struct tenure_error *err)
{
    struct tn_url url = {0};
    enum tenure_status status = tn_url_parse(text, &url, err);

    if (!status)
        status = tn_options_read(rows, &url, conf, err);
    tn_url_free(&url);
    return status;
}

static void defaults(void **state)
{
    struct conf c = {.word = -1};
    struct tenure_error err;

    (void)state;
    assert_int_equal(read("x:", &c, &err), TENURE_OK);
    assert_true(!c.text && c.on && c.word == -1 && c.number == 7 && c.ns == 1000000 && !c.own[0]);
}

static void values(void **state)
{
    struct conf c = {0};
    struct tenure_error err;

    (void)state;
    assert_int_equal(read("xs:?on=no&word=three&number=100&ns=1s&own=abc", &c, &err), TENURE_OK);
    assert_true(!c.on && c.word == 2 && c.number == 100 && c.ns == 1000000000);
    assert_string_equal(c.own, "abc");
}

static void refusals(void **state)
{
    static const char *const wrong[][2] = {
        {"x:?on=maybe", "x: on must be no or yes; the URL says on=maybe"},
        {"x:?on=", "x: on must be no or yes; the URL says on="},
        {"x:?word=four", "x: word must be one, two or three; the URL says word=four"},
        {"x:?number=1", "x: number must be a number from 2 to 100; the URL says number=1"},
        {"x:?number=101", "x: number must be a number from 2 to 100; the URL says number=101"},
        {"x:?number=7x", "x: number must be a number from 2 to 100; the URL says number=7x"},
        {"x:?number=99999999999999999999",
         "x: number must be a number from 2 to 100; the URL says number=99999999999999999999"},
        {"xs:?ns=2s", "xs: ns must be a time from 1us to 1s; the URL says ns=2s"},
        {"x:?own=abcdefgh", "x: own must be short; the URL says own=abcdefgh"},
        {"x:?ns=1ms", "x: does not know the parameter 'ns'; it knows: text, on, word, number, own; "
                      "with xs: ns"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct conf c = {0};
        struct tenure_error err;

        assert_int_equal(read(wrong[i][0], &c, &err), TENURE_CONFIG);
        assert_string_equal(err.text, wrong[i][1]);
    }
}

static void printed(void **state)
{
    char *text = NULL;
    size_t size = 0;
    FILE *to = open_memstream(&text, &size);

    (void)state;
    assert_non_null(to);
    tn_options_print(rows, "x", to);
    assert_int_equal(fclose(to), 0);
    assert_non_null(strstr(text, "number from 2 to 100; default: 7\n"));
    assert_non_null(strstr(text, "help of own\n"));
    assert_null(strstr(text, "help of ns"));
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults),
        cmocka_unit_test(values),
        cmocka_unit_test(refusals),
        cmocka_unit_test(printed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
