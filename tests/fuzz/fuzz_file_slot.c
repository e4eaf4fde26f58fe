/*
 * Hostile slots.  The first byte decides how the number of the file's name is
 * chosen; the rest is the file.  What decodes must encode to the same bytes.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "store/file/format.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static void check_name(const uint8_t *bytes, size_t size)
{
    char text[TENURE_VERSION_MAX + 1] = "", again[TN_SLOT_NAME + 1];
    uint64_t number, sum;

    memcpy(text, bytes, size < TENURE_VERSION_MAX ? size : TENURE_VERSION_MAX);
    number = tn_slot_number(text);
    if (number) {
        tn_slot_name(number, again);
        if (strcmp(text, again) != 0)
            abort();
    }
    if (tn_slot_version(text, &number, &sum) && (number == 0 || number > TN_SLOT_LIMIT))
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    struct tn_slot slot;
    char line[TN_SLOT_HEADER + 1];

    if (size == 0)
        return 0;
    uint64_t number = bytes[0] < 128 ? 42 : UINT64_C(1) << (bytes[0] % 54);
    bytes++;
    size--;
    check_name(bytes, size);
    /* Exactly as many bytes as decode() may read, so that one too many is caught. */
    size_t head = size < TN_SLOT_HEADER ? size : TN_SLOT_HEADER;
    unsigned char *copy = malloc(head ? head : 1);
    if (!copy)
        return 0;
    memcpy(copy, bytes, head);
    if (!tn_slot_decode(copy, size, number, &slot)) {
        bool good = tn_slot_verify(&slot, bytes + TN_SLOT_HEADER);

        tn_slot_encode(&slot, bytes + TN_SLOT_HEADER, line);
        /* A right sum gives the same line; a wrong one differs in the sum alone. */
        if (memcmp(line, bytes, good ? TN_SLOT_HEADER : TN_SLOT_HEADER - 17) != 0)
            abort();
    }
    free(copy);
    return 0;
}
