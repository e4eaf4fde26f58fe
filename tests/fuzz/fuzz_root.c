/* The root of a collection on hostile bytes: what is taken is a list of ids, and stays the same. */
#include <stdint.h>
#include <stdlib.h>

#include "base/key.h"
#include "check.h"
#include "state/inner.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Each line is what a key may end in: else whoever seals the collection could not ask for it. */
static void check_lines(const struct tn_document *doc)
{
    const char *at = (const char *)doc->data, *end = at + doc->len;
    char segment[TENURE_KEY_MAX + 1], id[TENURE_KEY_MAX + 1];

    while (at < end) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        size_t n = (size_t)((stop ? stop : end) - at);

        assert(n > 0 && n <= TENURE_KEY_MAX);
        memcpy(segment, at, n);
        segment[n] = '\0';
        assert(tenure_key_valid(segment) && !strchr(segment, '/'));
        tn_key_document_id(segment, id);
        at += n + 1;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct tenure_value value = {0}, again = {0};
    struct tn_document doc, copy, untouched;
    struct tenure_error err = {0};
    unsigned char *bytes = NULL;

    if (tenure_value_set(&value, data, size, &err) != TENURE_OK)
        return 0;
    memset(&doc, 0x5a, sizeof doc);
    untouched = doc;
    enum tenure_status status = tn_root_decode(&value, &doc, &err);
    if (status) {
        check_refusal(&err, status);
        assert(memcmp(&doc, &untouched, sizeof doc) == 0);
    } else {
        check_lines(&doc);
        if (tn_document_encode(&doc, &bytes, &again.len, &err) == TENURE_OK) {
            again.data = bytes;
            assert(tn_root_decode(&again, &copy, &err) == TENURE_OK);
            assert(copy.fence.epoch == doc.fence.epoch && copy.seq == doc.seq);
            assert(copy.len == doc.len && memcmp(copy.data, doc.data, doc.len) == 0);
            free(bytes);
        }
    }
    tenure_value_free(&value);
    return 0;
}
