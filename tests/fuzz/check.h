/* tests/fuzz/check.h - what every decoder promises of the text that it keeps. */
#ifndef TN_TESTS_FUZZ_CHECK_H
#define TN_TESTS_FUZZ_CHECK_H

#include <assert.h>
#include <string.h>

#include "base/text.h"
#include "tenure/status.h"

/* UTF-8, and nothing in it that a terminal acts upon. */
static inline void check_tame(const char *text)
{
    for (; *text; text += tn_text_char(text))
        assert(tn_text_char(text) && !tn_text_control(text));
}

/* The same in an array, which it fits. */
#define CHECK_TEXT(array)                                                                          \
    do {                                                                                           \
        assert(memchr(array, '\0', sizeof(array)));                                                \
        check_tame(array);                                                                         \
    } while (0)

/* A refusal says why, and can be shown. */
static inline void check_refusal(const struct tenure_error *err, enum tenure_status status)
{
    assert(status != TENURE_OK && err->code == status && err->text[0]);
    CHECK_TEXT(err->text);
}

#endif
