/* A document of the state on hostile bytes: no crash, and what is taken survives a round trip. */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/key.h"
#include "state/document.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct tenure_value value = {0}, again = {0};
    struct tn_document doc, copy;
    struct tenure_error err;
    unsigned char *bytes = NULL;
    char text[TENURE_KEY_MAX + 1], id[TENURE_KEY_MAX + 1];
    size_t len = size < TENURE_KEY_MAX ? size : TENURE_KEY_MAX;

    if (tenure_value_set(&value, data, size, &err) != TENURE_OK)
        return 0;
    if (tn_document_decode(&value, &doc, &err) == TENURE_OK &&
        tn_document_encode(&doc, &bytes, &again.len, &err) == TENURE_OK) {
        again.data = bytes;
        assert(tn_document_decode(&again, &copy, &err) == TENURE_OK);
        assert(copy.fence.epoch == doc.fence.epoch && copy.seq == doc.seq);
        assert(copy.deleted == doc.deleted && copy.edited == doc.edited && copy.len == doc.len);
        assert(doc.len == 0 || memcmp(copy.data, doc.data, doc.len) == 0);
        free(bytes);
    }
    memcpy(text, data, len);
    text[len] = '\0';
    tn_key_document_id(text, id);
    tenure_value_free(&value);
    return 0;
}
