/*
 * Hostile bytes from a Redis server: registers, news, errors, the counter and INFO.
 * The first byte chooses; what decodes must encode to the same bytes.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hex.h"
#include "check.h"
#include "store/redis/greet.h"
#include "store/redis/reply.h"
#include "store/redis/wait.h"

#define TIMELINE "0123456789abcdef"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static void check_value(const char *text, size_t size)
{
    struct tenure_value value = {0};
    struct tenure_error err;
    char head[TN_REDIS_HEAD_MAX], prev[TN_NONCE_HEX + 1], again[TN_REDIS_HEAD_MAX * 2];

    if (tn_redis_decode(text, size, TIMELINE, &value, &err) == TENURE_OK) {
        if (tenure_token_absent(&value.token) || !tn_redis_same_timeline(&value.token, TIMELINE))
            abort();
        tn_redis_expect(&value.token, head);
        tn_hex_encode(value.prev, TENURE_NONCE_SIZE, prev);
        int n = snprintf(again, sizeof again, "%s%s %c\n", head, prev, value.tombstone ? 't' : 'v');
        if ((size_t)n + value.len != size || memcmp(again, text, (size_t)n) != 0 ||
            memcmp(value.data, text + n, value.len) != 0)
            abort();
    } else if (value.data) {
        abort(); /* touched on failure */
    }
    tenure_value_free(&value);
}

static void check_news(const char *text, size_t size)
{
    struct tenure_token token;
    char head[TN_REDIS_HEAD_MAX];

    if (!tn_redis_decode_news(text, size, TIMELINE, &token))
        return;
    size_t n = tn_redis_expect(&token, head);
    if (n != size + strlen(TN_REDIS_MAGIC) ||
        memcmp(head + strlen(TN_REDIS_MAGIC), text, size) != 0)
        abort();
}

static void check_error(char *text, size_t size)
{
    redisReply reply = {.type = REDIS_REPLY_ERROR, .str = text};
    struct tn_remote_addr moved = {0};
    struct tenure_error err = {.code = TENURE_OK};
    enum tn_redis_fault fault;

    reply.len = size;
    fault = tn_redis_fault(&reply, &moved, &err);
    if (fault == TN_REDIS_FAULT_NONE || err.code == TENURE_OK || err.code == TENURE_UNKNOWN ||
        err.code == TENURE_CONFLICT || strchr(err.text, '\n'))
        abort();
    if (fault == TN_REDIS_FAULT_MOVED && (!moved.host[0] || !moved.port[0]))
        abort();
}

/* What INFO says: the promise that is made of it is shown to people, and in JSON. */
static void check_info(const char *text)
{
    struct tn_redis h = {.conf = {.n_hosts = 1}};
    struct tn_redis_answer answer = {0};
    struct tenure_error err = {0};
    enum tenure_status status = tn_redis_judge(&h, text, &answer, &err);

    if (status) {
        check_refusal(&err, status);
        assert(!h.timeline[0] && !h.promise[0]);
    } else {
        assert(strspn(h.timeline, "0123456789abcdef") == TN_REDIS_TIMELINE && h.promise[0]);
        CHECK_TEXT(h.promise);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    char mark[TENURE_VERSION_MAX + 1];

    if (size == 0)
        return 0;
    /* Exactly as many bytes as may be read, and hiredis' NUL behind them. */
    char *text = malloc(size);
    memcpy(text, bytes + 1, size - 1);
    text[size - 1] = '\0';
    switch (bytes[0] % 5) {
    case 0:
        check_value(text, size - 1);
        break;
    case 1:
        check_news(text, size - 1);
        break;
    case 2:
        check_error(text, strlen(text));
        break;
    case 3:
        tn_redis_mark(text, size - 1, TIMELINE, mark);
        break;
    default:
        check_info(text);
    }
    free(text);
    return 0;
}
