/* The bytes of a journal: a line, frames behind it, entries in a frame. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hex.h"
#include "store/file/journal/journal.h"

#define MAGIC       "tenure-journal 1 "
#define FRAME_MAGIC UINT32_C(0x4d4a4e54)

/* ---- Numbers and sums ------------------------------------------------------ */

static void put32(unsigned char *to, uint32_t n)
{
    for (int i = 0; i < 4; i++)
        to[i] = (unsigned char)(n >> (8 * i));
}

static void put64(unsigned char *to, uint64_t n)
{
    for (int i = 0; i < 8; i++)
        to[i] = (unsigned char)(n >> (8 * i));
}

static uint32_t get32(const unsigned char *from)
{
    uint32_t n = 0;

    for (int i = 3; i >= 0; i--)
        n = n << 8 | from[i];
    return n;
}

static uint64_t get64(const unsigned char *from)
{
    return (uint64_t)get32(from + 4) << 32 | get32(from);
}

/* Eight bytes at a time.  It tells damage, not malice: who can write here leads anyway. */
static uint64_t sum_of(uint64_t sum, const void *bytes, size_t n)
{
    const unsigned char *p = bytes;

    sum ^= n * UINT64_C(0x9e3779b97f4a7c15);
    for (; n >= 8; n -= 8, p += 8) {
        sum = (sum ^ get64(p)) * UINT64_C(0xff51afd7ed558ccd);
        sum ^= sum >> 32;
    }
    for (; n > 0; n--, p++) {
        sum = (sum ^ *p) * UINT64_C(0x100000001b3);
        sum ^= sum >> 29;
    }
    sum *= UINT64_C(0xc4ceb9fe1a85ec53);
    return sum ^ sum >> 33;
}

/* ---- Names and the first block --------------------------------------------- */

void tn_journal_name(uint64_t number, char name[TN_JOURNAL_NAME + 1])
{
    snprintf(name, TN_JOURNAL_NAME + 1, "+%016" PRIu64, number % (TN_SLOT_LIMIT + 1));
}

uint64_t tn_journal_number(const char *name)
{
    uint64_t number = 0;

    if (name[0] != '+' || strlen(name) != TN_JOURNAL_NAME)
        return 0;
    for (int i = 1; i < TN_JOURNAL_NAME; i++) {
        if (name[i] < '0' || name[i] > '9')
            return 0;
        number = number * 10 + (uint64_t)(name[i] - '0');
    }
    return number;
}

void tn_journal_head_encode(const struct tn_journal_head *head,
                            unsigned char block[TN_JOURNAL_BLOCK])
{
    char name[TN_JOURNAL_NAME + 1], nonce[TN_NONCE_HEX + 1];
    char line[TN_JOURNAL_BLOCK];

    tn_journal_name(head->number, name);
    tn_hex_encode(head->nonce, TENURE_NONCE_SIZE, nonce);
    int n = snprintf(line, sizeof line, MAGIC "%s nonce=%s sum=", name, nonce);
    n +=
        snprintf(line + n, sizeof line - (size_t)n, "%016" PRIx64 "\n", sum_of(1, line, (size_t)n));
    memset(block, 0, TN_JOURNAL_BLOCK);
    memcpy(block, line, (size_t)n);
}

const char *tn_journal_head_decode(const unsigned char block[TN_JOURNAL_BLOCK], uint64_t number,
                                   struct tn_journal_head *head)
{
    struct tn_journal_head h = {.number = number};
    unsigned char again[TN_JOURNAL_BLOCK];
    char nonce[TN_NONCE_HEX + 1] = {0};
    size_t at = sizeof MAGIC - 1 + TN_JOURNAL_NAME + sizeof " nonce=" - 1;

    if (memcmp(block, MAGIC, sizeof MAGIC - 1) != 0)
        return "it does not begin like a journal of this version";
    memcpy(nonce, block + at, TN_NONCE_HEX);
    if (!tn_hex_decode(nonce, h.nonce, TENURE_NONCE_SIZE))
        return "its first line is damaged";
    /* There is one way to write it: what was read must write the same. */
    tn_journal_head_encode(&h, again);
    if (memcmp(block, again, TN_JOURNAL_BLOCK) != 0)
        return "its first line is damaged, or its name is not the one that it was written under";
    *head = h;
    return NULL;
}

/* ---- Frames ---------------------------------------------------------------- */

static uint64_t head_sum(const unsigned char *bytes, const uint8_t seed[TENURE_NONCE_SIZE])
{
    return sum_of(sum_of(2, seed, TENURE_NONCE_SIZE), bytes, 32);
}

void tn_frame_seal(const struct tn_frame *frame, const uint8_t seed[TENURE_NONCE_SIZE],
                   unsigned char *bytes)
{
    put32(bytes, FRAME_MAGIC);
    put32(bytes + 4, frame->flags);
    put64(bytes + 8, frame->number);
    put64(bytes + 16, frame->len);
    put32(bytes + 24, frame->entries);
    put32(bytes + 28, 0);
    put64(bytes + 32, head_sum(bytes, seed));
    put64(bytes + 40, sum_of(get64(bytes + 32), bytes + TN_FRAME_HEAD, frame->len));
}

bool tn_frame_decode(const unsigned char bytes[TN_FRAME_HEAD],
                     const uint8_t seed[TENURE_NONCE_SIZE], struct tn_frame *frame)
{
    if (get32(bytes) != FRAME_MAGIC || get64(bytes + 32) != head_sum(bytes, seed))
        return false;
    frame->flags = get32(bytes + 4);
    frame->number = get64(bytes + 8);
    frame->len = get64(bytes + 16);
    frame->entries = get32(bytes + 24);
    return frame->len <= TN_FRAME_MAX + TENURE_DATA_MAX + 4096;
}

bool tn_frame_verify(const unsigned char *bytes, const struct tn_frame *frame)
{
    return get64(bytes + 40) == sum_of(get64(bytes + 32), bytes + TN_FRAME_HEAD, frame->len);
}

/* ---- Entries --------------------------------------------------------------- */

size_t tn_entry_size(size_t name_len, size_t len)
{
    return (TN_ENTRY_HEAD + name_len + len + 7) / 8 * 8;
}

uint64_t tn_data_sum(const void *data, size_t len)
{
    return sum_of(3, data, len);
}

size_t tn_entry_encode(const struct tn_journal_entry *e, unsigned char *bytes)
{
    size_t size = tn_entry_size(e->name_len, e->len);
    unsigned char *name = bytes + TN_ENTRY_HEAD, *data = name + e->name_len;

    put32(bytes, (uint32_t)e->name_len);
    put32(bytes + 4, (uint32_t)e->len);
    put64(bytes + 8, e->count);
    memcpy(bytes + 16, e->nonce, TENURE_NONCE_SIZE);
    memcpy(bytes + 32, e->prev, TENURE_NONCE_SIZE);
    put64(bytes + 48, e->tombstone);
    memcpy(name, e->name, e->name_len);
    if (e->len && e->data != data) /* it may stand there already */
        memcpy(data, e->data, e->len);
    memset(data + e->len, 0, size - TN_ENTRY_HEAD - e->name_len - e->len);
    put64(bytes + 56, e->damaged ? e->data_sum : tn_data_sum(data, e->len));
    put64(bytes + 64, sum_of(sum_of(4, bytes, 64), name, e->name_len));
    return size;
}

size_t tn_entry_decode(const unsigned char *bytes, size_t room, struct tn_journal_entry *e)
{
    struct tn_journal_entry d = {0};

    if (room < TN_ENTRY_HEAD)
        return 0;
    d.name_len = get32(bytes);
    d.len = get32(bytes + 4);
    if (d.name_len > TENURE_KEY_MAX || d.len > TENURE_DATA_MAX ||
        tn_entry_size(d.name_len, d.len) > room)
        return 0;
    d.name = (const char *)bytes + TN_ENTRY_HEAD;
    d.data = bytes + TN_ENTRY_HEAD + d.name_len;
    if (get64(bytes + 64) != sum_of(sum_of(4, bytes, 64), d.name, d.name_len))
        return 0;
    d.count = get64(bytes + 8);
    memcpy(d.nonce, bytes + 16, TENURE_NONCE_SIZE);
    memcpy(d.prev, bytes + 32, TENURE_NONCE_SIZE);
    d.tombstone = get64(bytes + 48) != 0;
    d.data_sum = get64(bytes + 56);
    uint64_t sum = tn_data_sum(d.data, d.len);
    d.damaged = d.data_sum != sum;
    d.doubted = d.data_sum == ~sum;
    *e = d;
    return tn_entry_size(d.name_len, d.len);
}
