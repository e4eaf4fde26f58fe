#include "hex.h"

#include <string.h>

void tn_hex_encode(const uint8_t *bytes, size_t n, char *out)
{
    static const char digits[] = "0123456789abcdef";

    for (size_t i = 0; i < n; i++) {
        out[2 * i] = digits[bytes[i] >> 4];
        out[2 * i + 1] = digits[bytes[i] & 15];
    }
    out[2 * n] = '\0';
}

static int digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return -1;
}

bool tn_hex_decode(const char *text, uint8_t *bytes, size_t n)
{
    if (strnlen(text, 2 * n + 1) != 2 * n)
        return false;
    for (size_t i = 0; i < 2 * n; i++) {
        if (digit(text[i]) < 0)
            return false;
    }
    for (size_t i = 0; i < n; i++)
        bytes[i] = (uint8_t)(digit(text[2 * i]) << 4 | digit(text[2 * i + 1]));
    return true;
}
