#include "store/frame.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAGIC    "tenure1 "
#define NONCE_AT (sizeof MAGIC - 1)
#define PREV_AT  (NONCE_AT + TN_NONCE_HEX + 1)

char *tn_frame_write(const struct tenure_swap *swap, size_t *len)
{
    char nonce[TN_NONCE_HEX + 1], prev[TN_NONCE_HEX + 1];
    char *text = malloc(TN_FRAME_HEAD + swap->len + 1);

    if (!text)
        return NULL;
    tn_hex_encode(swap->nonce, TENURE_NONCE_SIZE, nonce);
    tn_hex_encode(swap->expect.nonce, TENURE_NONCE_SIZE, prev);
    int head = snprintf(text, TN_FRAME_HEAD + 1, MAGIC "%s %s %c\n", nonce, prev,
                        swap->tombstone ? 't' : 'v');
    assert(head == TN_FRAME_HEAD);
    if (swap->len)
        memcpy(text + TN_FRAME_HEAD, swap->data, swap->len);
    *len = (size_t)head + swap->len;
    return text;
}

static bool take_nonce(const char *text, uint8_t nonce[TENURE_NONCE_SIZE])
{
    char hex[TN_NONCE_HEX + 1];

    memcpy(hex, text, TN_NONCE_HEX);
    hex[TN_NONCE_HEX] = '\0';
    return tn_hex_decode(hex, nonce, TENURE_NONCE_SIZE);
}

bool tn_frame_nonce(const char *bytes, size_t len, uint8_t nonce[TENURE_NONCE_SIZE])
{
    static const uint8_t zero[TENURE_NONCE_SIZE];
    uint8_t found[TENURE_NONCE_SIZE];

    if (len < TN_FRAME_HEAD || memcmp(bytes, MAGIC, NONCE_AT) != 0 ||
        !take_nonce(bytes + NONCE_AT, found) || memcmp(found, zero, sizeof zero) == 0)
        return false;
    memcpy(nonce, found, sizeof found);
    return true;
}

bool tn_frame_parse(const char *bytes, size_t len, struct tn_frame *frame)
{
    struct tn_frame f = {0};

    if (!tn_frame_nonce(bytes, len, f.nonce) || bytes[PREV_AT - 1] != ' ' ||
        !take_nonce(bytes + PREV_AT, f.prev) || bytes[TN_FRAME_HEAD - 3] != ' ' ||
        (bytes[TN_FRAME_HEAD - 2] != 'v' && bytes[TN_FRAME_HEAD - 2] != 't') ||
        bytes[TN_FRAME_HEAD - 1] != '\n' || len - TN_FRAME_HEAD > TENURE_DATA_MAX)
        return false;
    f.tombstone = bytes[TN_FRAME_HEAD - 2] == 't';
    f.data = bytes + TN_FRAME_HEAD;
    f.len = len - TN_FRAME_HEAD;
    *frame = f;
    return true;
}

enum tenure_status tn_frame_value(const struct tn_frame *frame, const char *version,
                                  struct tenure_value *value, struct tenure_error *err)
{
    enum tenure_status status = tenure_value_set(value, frame->data, frame->len, err);

    if (status)
        return status;
    memset(&value->token, 0, sizeof value->token);
    snprintf(value->token.version, sizeof value->token.version, "%s", version);
    memcpy(value->token.nonce, frame->nonce, sizeof frame->nonce);
    memcpy(value->prev, frame->prev, sizeof frame->prev);
    value->tombstone = frame->tombstone;
    return TENURE_OK;
}
