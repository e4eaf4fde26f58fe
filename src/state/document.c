#include "state/document.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/decimal.h"
#include "base/hex.h"
#include "base/text.h"

/* ---- The line before the data -------------------------------------------- */

/* A decimal number followed by one space.  Advances *text. */
static bool take_number(const char **text, uint64_t *out)
{
    const char *p = *text;
    uint64_t n = 0;

    if (*p < '0' || *p > '9')
        return false;
    for (; *p >= '0' && *p <= '9'; p++) {
        if (n > (UINT64_MAX - 9) / 10)
            return false;
        n = n * 10 + (uint64_t)(*p - '0');
    }
    if (*p != ' ')
        return false;
    *out = n;
    *text = p + 1;
    return true;
}

static bool take_grant(const char **text, uint8_t grant[TENURE_NONCE_SIZE])
{
    char hex[TN_NONCE_HEX + 1];

    if (strnlen(*text, TN_NONCE_HEX + 1) <= TN_NONCE_HEX || (*text)[TN_NONCE_HEX] != ' ')
        return false;
    memcpy(hex, *text, TN_NONCE_HEX);
    hex[TN_NONCE_HEX] = '\0';
    *text += TN_NONCE_HEX + 1;
    return tn_hex_decode(hex, grant, TENURE_NONCE_SIZE);
}

static bool take_flags(const char *text, struct tn_document *doc)
{
    if (strcmp(text, "-") == 0)
        return true;
    for (; *text; text++) {
        if (*text == 'd')
            doc->deleted = true;
        else if (*text == 'o')
            doc->edited = true;
        else
            return false;
    }
    return true;
}

enum tenure_status tn_document_decode(const struct tenure_value *value, struct tn_document *doc,
                                      struct tenure_error *err)
{
    static const char magic[] = "tenure-doc 1 ";
    char line[TN_DOCUMENT_HEADER_MAX + 1];
    struct tn_document d = {0};
    size_t most = value->len < TN_DOCUMENT_HEADER_MAX ? value->len : TN_DOCUMENT_HEADER_MAX;
    const unsigned char *end = most ? memchr(value->data, '\n', most) : NULL;
    const char *text = line + sizeof magic - 1;

    if (!end)
        return tenure_fail(err, TENURE_CORRUPT, "not a document: it has no header line");
    size_t n = (size_t)(end - value->data);
    memcpy(line, value->data, n);
    line[n] = '\0';
    if (strlen(line) != n || strncmp(line, magic, sizeof magic - 1) != 0 ||
        !take_number(&text, &d.fence.epoch) || !take_grant(&text, d.fence.grant) ||
        !take_number(&text, &d.seq) || !take_flags(text, &d))
        return tenure_fail(err, TENURE_CORRUPT, "not a document: its header line is damaged");
    if (d.fence.epoch == 0 || d.fence.epoch > TN_EPOCH_MAX)
        return tenure_fail(err, TENURE_CORRUPT, "document: epoch %" PRIu64 " is out of bounds",
                           d.fence.epoch);
    if (d.seq > TN_SEQ_MAX)
        return tenure_fail(err, TENURE_CORRUPT, "document: commit %" PRIu64 " is out of bounds",
                           d.seq);
    d.data = end + 1;
    d.len = value->len - n - 1;
    *doc = d;
    return TENURE_OK;
}

size_t tn_document_put(const struct tn_document *doc, unsigned char *out)
{
    char *line = (char *)out, *end = line;

    end = tn_put_number(tn_put_text(end, "tenure-doc 1 "), doc->fence.epoch);
    *end++ = ' ';
    tn_hex_encode(doc->fence.grant, TENURE_NONCE_SIZE, end);
    end = tn_put_text(end + TN_NONCE_HEX, " ");
    end = tn_put_number(end, doc->seq < TN_SEQ_MAX ? doc->seq : TN_SEQ_MAX);
    *end++ = ' ';
    if (doc->deleted)
        *end++ = 'd';
    if (doc->edited)
        *end++ = 'o';
    if (!doc->deleted && !doc->edited)
        *end++ = '-';
    *end++ = '\n';
    if (doc->len)
        memcpy(end, doc->data, doc->len);
    return (size_t)(end - line) + doc->len;
}

enum tenure_status tn_document_encode(const struct tn_document *doc, unsigned char **out,
                                      size_t *len, struct tenure_error *err)
{
    unsigned char *bytes = malloc(TN_DOCUMENT_HEADER_MAX + doc->len);

    if (!bytes)
        return tenure_fail(err, TENURE_NOMEM, "out of memory for a document");
    *len = tn_document_put(doc, bytes);
    *out = bytes;
    return TENURE_OK;
}

enum tenure_status tn_document_check_id(const char *id, struct tenure_error *err)
{
    return tn_text_is_utf8(id)
               ? TENURE_OK
               : tenure_fail(err, TENURE_INVALID, "the id of a document must be UTF-8");
}
