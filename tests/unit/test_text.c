/* Text of anybody's: afterwards it is UTF-8, as jansson judges it, and nothing whole is lost. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "base/text.h"
#include "tenure/status.h"

static bool is_utf8(const char *text)
{
    json_t *json = json_string(text);
    bool is = json != NULL;

    json_decref(json);
    return is;
}

static void a_cut_leaves_whole_characters(void **state)
{
    static const char text[] = "a\u00e9\u20ac\U0001f512z";
    static const size_t whole[] = {0, 1, 1, 3, 3, 3, 6, 6, 6, 6, 10, 11};
    char copy[sizeof text];

    (void)state;
    for (size_t n = 0; n < sizeof text; n++) {
        memcpy(copy, text, n);
        copy[n] = '\0';
        tn_text_repair(copy, '?');
        assert_int_equal(strlen(copy), whole[n]);
        assert_int_equal(memcmp(copy, text, whole[n]), 0);
    }
}

static void what_is_no_utf8_is_replaced(void **state)
{
    static const struct {
        const char *text, *repaired;
    } cases[] = {
        {"caf\xe9 au lait", "caf? au lait"},
        {"\x80z", "?z"},
        {"\xc0\xafz", "??z"},
        {"\xe0\x80\x80z", "???z"},
        {"\xed\xa0\x80z", "???z"},
        {"\xf4\x90\x80\x80z", "????z"},
        {"\xf0\x9f\x94z", "???z"},
        {"\xff\xfe.", "??."},
        {"\xe9\xe9", "?"},
        {"", ""},
    };
    char copy[32];

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        strcpy(copy, cases[i].text);
        tn_text_repair(copy, '?');
        assert_string_equal(copy, cases[i].repaired);
    }
}

/* Every two and, behind the leads that need a third, every three bytes. */
static void jansson_agrees(void **state)
{
    (void)state;
    for (unsigned bytes = 0; bytes < 1u << 24; bytes++) {
        char text[5] = {(char)(bytes >> 16), (char)(bytes >> 8), (char)bytes};

        if ((bytes >> 16) < 0xe0 && (bytes & 0xff))
            continue;
        if ((bytes >> 16) >= 0xf0)
            text[3] = (char)0xbf;
        size_t n = strlen(text);
        assert_int_equal(is_utf8(text), n == 0 || tn_text_char(text) == n ||
                                            (tn_text_char(text) == 1 && is_utf8(text + 1)) ||
                                            (tn_text_char(text) == 2 && is_utf8(text + 2)) ||
                                            (tn_text_char(text) == 3 && is_utf8(text + 3)));
        tn_text_repair(text, '?');
        assert_true(is_utf8(text));
    }
}

/* A server's words, in whatever encoding, quoted and cut: they can be told on. */
static void every_error_is_utf8(void **state)
{
    char words[600] = "";
    struct tenure_error err;

    (void)state;
    for (size_t i = 0; i + 3 < sizeof words; i += 3)
        memcpy(words + i, "\u20ac", 3);
    for (size_t shift = 0; shift < 3; shift++) {
        tenure_fail(&err, TENURE_CONFIG, "%s'%.40s' %s", &"xxx"[shift], words, words);
        assert_true(is_utf8(err.text));
        assert_true(strlen(err.text) > TENURE_ERROR_TEXT_MAX - 3);
        tenure_fail_context(&err, "caf\xe9");
        assert_true(is_utf8(err.text));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_cut_leaves_whole_characters),
        cmocka_unit_test(what_is_no_utf8_is_replaced),
        cmocka_unit_test(jansson_agrees),
        cmocka_unit_test(every_error_is_utf8),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
