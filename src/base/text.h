/* base/text.h - text from elsewhere, which ends up on terminals and in logs. */
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

/* One line, and nothing in it that a terminal acts upon: those become `instead`. */
static inline void tn_text_tame(char *text, char instead)
{
    for (; *text; text++) {
        for (size_t n = tn_text_control(text); n; n--)
            text[n - 1] = instead;
    }
}

#endif
