/*
 * base/decimal.h - numbers in versions and headers, written and read.  Not by printf and strtol:
 * this is done at each swap.
 */
#ifndef TN_BASE_DECIMAL_H
#define TN_BASE_DECIMAL_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* Both return where the next goes; the caller has seen to the room, and ends it with NUL. */
static inline char *tn_put_text(char *to, const char *text)
{
    size_t n = strlen(text);

    memcpy(to, text, n);
    return to + n;
}

static inline char *tn_put_number(char *to, uint64_t number)
{
    char digits[20];
    int n = 0;

    do
        digits[n++] = (char)('0' + number % 10);
    while (number /= 10);
    while (n)
        *to++ = digits[--n];
    return to;
}

/* A number just as it is put, and *at behind it.  On failure nothing is changed. */
static inline bool tn_take_number(const char **at, int64_t *number)
{
    const char *text = *at;
    int64_t value = 0;

    for (; *text >= '0' && *text <= '9'; text++) {
        if (__builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, *text - '0', &value))
            return false;
    }
    if (text == *at || (**at == '0' && text - *at > 1))
        return false;
    *number = value;
    *at = text;
    return true;
}

#endif
