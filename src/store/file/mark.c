#include "store/file/mark.h"

#include <inttypes.h>
#include <stdio.h>

/* Two FNV-1a sums from different starts: nonces are random, so nothing
 * stronger is needed to tell two listings apart. */
void tn_mark_begin(struct tn_mark *mark)
{
    mark->state[0] = UINT64_C(0xcbf29ce484222325);
    mark->state[1] = UINT64_C(0x84222325cbf29ce4);
}

static void feed(struct tn_mark *mark, uint8_t byte)
{
    for (int i = 0; i < 2; i++)
        mark->state[i] = (mark->state[i] ^ byte) * UINT64_C(0x100000001b3);
}

void tn_mark_add(struct tn_mark *mark, const char *key, const uint8_t nonce[TENURE_NONCE_SIZE])
{
    for (; *key; key++)
        feed(mark, (uint8_t)*key);
    feed(mark, 0);
    for (int i = 0; i < TENURE_NONCE_SIZE; i++)
        feed(mark, nonce[i]);
}

void tn_mark_end(const struct tn_mark *mark, char out[TENURE_VERSION_MAX + 1])
{
    snprintf(out, TENURE_VERSION_MAX + 1, "%016" PRIx64 "%016" PRIx64, mark->state[0],
             mark->state[1]);
}
