/* base/base64.h - bytes as text, RFC 4648 with padding. */
#ifndef TN_BASE_BASE64_H
#define TN_BASE_BASE64_H

#include <stdbool.h>
#include <stddef.h>

/* Characters for n bytes, without the NUL. */
#define TN_BASE64_LEN(n) (((n) + 2) / 3 * 4)

/* Writes TN_BASE64_LEN(n) characters and a NUL. */
void tn_base64_encode(const void *bytes, size_t n, char *out);
/* Decodes len characters into out (len / 4 * 3 bytes are enough).  false if it is not base64. */
bool tn_base64_decode(const char *text, size_t len, void *out, size_t *n);

#endif
