/* base/text.h - text from elsewhere, which ends up on terminals, in logs and in JSON. */
#ifndef TN_BASE_TEXT_H
#define TN_BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>

/* The bytes of the control character at p: C0, DEL, or C1 in UTF-8, each of which may begin a
 * sequence that a terminal acts upon.  0: it is none, or the end. */
static inline size_t tn_text_control(const char *p)
{
    unsigned char c = (unsigned char)p[0];

    if (c == 0xc2 && (unsigned char)p[1] >= 0x80 && (unsigned char)p[1] < 0xa0)
        return 2;
    return c && (c < 0x20 || c == 0x7f);
}

/* The bytes of the character at p, as RFC 3629 wants them.  0: it is no UTF-8, or the end. */
static inline size_t tn_text_char(const char *p)
{
    const unsigned char *c = (const unsigned char *)p;
    size_t n = c[0] < 0x80                  ? c[0] != 0
               : c[0] < 0xc2 || c[0] > 0xf4 ? 0
               : c[0] < 0xe0                ? 2
               : c[0] < 0xf0                ? 3
                                            : 4;

    for (size_t i = 1; i < n; i++) {
        if ((c[i] & 0xc0) != 0x80)
            return 0;
    }
    /* Longer than need be, half of a UTF-16 pair, or beyond U+10FFFF. */
    if ((c[0] == 0xe0 && c[1] < 0xa0) || (c[0] == 0xed && c[1] > 0x9f) ||
        (c[0] == 0xf0 && c[1] < 0x90) || (c[0] == 0xf4 && c[1] > 0x8f))
        return 0;
    return n;
}

/* Nothing else in it. */
static inline bool tn_text_is_utf8(const char *text)
{
    for (size_t n = 1; *text && n; text += n)
        n = tn_text_char(text);
    return !*text;
}

/* Is this the first part of a character, and then the text ends? */
static inline bool tn_text_is_cut(const char *p)
{
    size_t n = 1;

    while (n < 3 && ((unsigned char)p[n] & 0xc0) == 0x80)
        n++;
    return (unsigned char)p[0] >= 0xc2 && !p[n];
}

/*
 * UTF-8, whatever it was: JSON is refused as a whole for a byte that is none.  A character that
 * was cut at the end, because the text had to fit, goes; other bytes become `instead`.
 */
static inline void tn_text_repair(char *text, char instead)
{
    while (*text) {
        size_t n = tn_text_char(text);

        if (n == 0 && tn_text_is_cut(text))
            *text = '\0';
        else if (n == 0)
            *text++ = instead;
        text += n;
    }
}

/* One line of UTF-8, and nothing in it that a terminal acts upon: those become `instead`. */
static inline void tn_text_tame(char *text, char instead)
{
    tn_text_repair(text, instead);
    for (; *text; text++) {
        for (size_t n = tn_text_control(text); n; n--)
            text[n - 1] = instead;
    }
}

#endif
