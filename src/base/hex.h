/* base/hex.h - nonces and digests as text. */
#ifndef TN_BASE_HEX_H
#define TN_BASE_HEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TN_NONCE_HEX 32 /* characters of a nonce in hex */

/* Writes 2 * n lower-case digits and a NUL. */
void tn_hex_encode(const uint8_t *bytes, size_t n, char *out);
/* Reads exactly 2 * n digits followed by NUL.  On failure bytes is untouched. */
bool tn_hex_decode(const char *text, uint8_t *bytes, size_t n);

#endif
