#include "base64.h"

#include <stdint.h>
#include <string.h>

static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

void tn_base64_encode(const void *bytes, size_t n, char *out)
{
    const uint8_t *in = bytes;

    for (; n > 0; in += 3, out += 4) {
        size_t some = n < 3 ? n : 3;
        uint32_t word =
            (uint32_t)in[0] << 16 | (some > 1 ? (uint32_t)in[1] << 8 : 0) | (some > 2 ? in[2] : 0);

        out[0] = digits[word >> 18];
        out[1] = digits[word >> 12 & 63];
        out[2] = some > 1 ? digits[word >> 6 & 63] : '=';
        out[3] = some > 2 ? digits[word & 63] : '=';
        n -= some;
    }
    *out = '\0';
}

static int value(char c)
{
    const char *at = c ? strchr(digits, c) : NULL;

    return at ? (int)(at - digits) : -1;
}

bool tn_base64_decode(const char *text, size_t len, void *out, size_t *n)
{
    uint8_t *to = out;

    if (len % 4 != 0)
        return false;
    for (size_t i = 0; i < len; i += 4) {
        bool last = i + 4 == len;
        int pad = last ? (text[i + 3] == '=') + (text[i + 3] == '=' && text[i + 2] == '=') : 0;
        int a = value(text[i]), b = value(text[i + 1]);
        int c = pad > 1 ? 0 : value(text[i + 2]), d = pad > 0 ? 0 : value(text[i + 3]);

        /* Bits behind the end must be zero: one value has one text. */
        if (a < 0 || b < 0 || c < 0 || d < 0 || (pad == 2 && (b & 15)) || (pad == 1 && (c & 3)))
            return false;
        *to++ = (uint8_t)(a << 2 | b >> 4);
        if (pad < 2)
            *to++ = (uint8_t)(b << 4 | c >> 2);
        if (pad < 1)
            *to++ = (uint8_t)(c << 6 | d);
    }
    *n = (size_t)(to - (uint8_t *)out);
    return true;
}
