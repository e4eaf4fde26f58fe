/*
 * Journals of a file: store, block by block.  The first byte chooses what the
 * rest is: a journal's first block, a frame, entries, or what an entry is made
 * of.  What decodes must encode to the same, and no bit changes unseen.
 */
#include <stdint.h>
#include <stdlib.h>

#include "check.h"
#include "store/file/journal/journal.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static const uint8_t seed[TENURE_NONCE_SIZE] = "a journal's seed";

static void check_head(const uint8_t *bytes, size_t size)
{
    struct tn_journal_head head = {.number = 7};
    unsigned char block[TN_JOURNAL_BLOCK] = {0}, again[TN_JOURNAL_BLOCK];
    char text[TN_JOURNAL_NAME + 8] = "", name[TN_JOURNAL_NAME + 1];

    memcpy(block, bytes, size < sizeof block ? size : sizeof block);
    if (!tn_journal_head_decode(block, 42, &head)) {
        assert(head.number == 42);
        tn_journal_head_encode(&head, again);
        assert(memcmp(again, block, sizeof block) == 0);
    } else {
        assert(head.number == 7);
    }
    memcpy(text, bytes, size < sizeof text - 1 ? size : sizeof text - 1);
    if (tn_journal_number(text)) {
        tn_journal_name(tn_journal_number(text), name);
        assert(strcmp(name, text) == 0);
    }
}

/* bytes is as long as it says: one too many that is read is caught. */
static void check_frame(const unsigned char *bytes, size_t size)
{
    struct tn_frame frame, same;

    if (size < TN_FRAME_HEAD || !tn_frame_decode(bytes, seed, &frame))
        return;
    assert(frame.len <= TN_FRAME_MAX + TENURE_DATA_MAX + 4096);
    assert(tn_frame_size(frame.len) >= frame.len + TN_FRAME_HEAD);
    if (frame.len > size - TN_FRAME_HEAD || !tn_frame_verify(bytes, &frame))
        return;
    unsigned char *again = malloc(size);
    if (!again)
        return;
    memcpy(again, bytes, size);
    tn_frame_seal(&frame, seed, again);
    assert(tn_frame_decode(again, seed, &same) && tn_frame_verify(again, &same));
    assert(memcmp(&same, &frame, sizeof same) == 0);
    free(again);
}

static void check_same(const struct tn_journal_entry *a, const struct tn_journal_entry *b)
{
    assert(a->name_len == b->name_len && memcmp(a->name, b->name, a->name_len) == 0);
    assert(a->len == b->len && (a->len == 0 || memcmp(a->data, b->data, a->len) == 0));
    assert(a->count == b->count && a->tombstone == b->tombstone);
    assert(memcmp(a->nonce, b->nonce, TENURE_NONCE_SIZE) == 0);
    assert(memcmp(a->prev, b->prev, TENURE_NONCE_SIZE) == 0);
    assert(a->damaged == b->damaged && a->doubted == b->doubted);
}

/* Encoded, and decoded from exactly its bytes. */
static void check_again(const struct tn_journal_entry *e)
{
    size_t size = tn_entry_size(e->name_len, e->len);
    unsigned char *bytes = malloc(size);
    struct tn_journal_entry again;

    if (!bytes)
        return;
    size_t written = tn_entry_encode(e, bytes);
    assert(written == size && tn_entry_decode(bytes, size, &again) == size);
    assert(tn_entry_decode(bytes, size - 8, &again) == 0);
    check_same(e, &again);
    free(bytes);
}

static void check_entries(const unsigned char *bytes, size_t size)
{
    struct tn_journal_entry e;
    size_t at = 0, n;

    while ((n = tn_entry_decode(bytes + at, size - at, &e))) {
        assert(n % 8 == 0 && n <= size - at && e.name_len <= TENURE_KEY_MAX);
        assert((const unsigned char *)e.name == bytes + at + TN_ENTRY_HEAD);
        assert((const unsigned char *)e.data + e.len <= bytes + at + n);
        check_again(&e);
        at += n;
    }
}

/* An entry of these parts in a frame of its own; then one bit of it is another. */
static void check_whole(const unsigned char *bytes, size_t size)
{
    struct tn_journal_entry e = {.count = 3}, again;
    struct tn_frame frame = {.flags = TN_FRAME_WHOLE, .entries = 1, .number = 5}, same;

    if (size < 4)
        return;
    size_t bit = bytes[0] | (size_t)bytes[1] << 8;
    e.tombstone = bytes[2] & 1;
    e.name_len = bytes[3] < size - 4 ? bytes[3] : size - 4;
    e.name = (const char *)bytes + 4;
    e.data = bytes + 4 + e.name_len;
    e.len = size - 4 - e.name_len;
    frame.len = tn_entry_size(e.name_len, e.len);
    unsigned char *whole = calloc(1, TN_FRAME_HEAD + frame.len);
    if (!whole)
        return;
    tn_entry_encode(&e, whole + TN_FRAME_HEAD);
    tn_frame_seal(&frame, seed, whole);
    assert(tn_frame_decode(whole, seed, &same) && tn_frame_verify(whole, &same));
    assert(memcmp(&same, &frame, sizeof same) == 0);
    assert(tn_entry_decode(whole + TN_FRAME_HEAD, frame.len, &again) == frame.len);
    check_same(&e, &again);
    bit %= (TN_FRAME_HEAD + frame.len) * 8;
    whole[bit / 8] ^= (unsigned char)(1u << bit % 8);
    assert(!tn_frame_decode(whole, seed, &same) || !tn_frame_verify(whole, &same));
    free(whole);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    if (size == 0)
        return 0;
    unsigned char *copy = malloc(size); /* one byte more than the rest, and never none */
    if (!copy)
        return 0;
    memcpy(copy + 1, bytes + 1, size - 1);
    switch (bytes[0] % 4) {
    case 0:
        check_head(copy + 1, size - 1);
        break;
    case 1:
        check_frame(copy + 1, size - 1);
        break;
    case 2:
        check_entries(copy + 1, size - 1);
        break;
    default:
        check_whole(copy + 1, size - 1);
    }
    free(copy);
    return 0;
}
