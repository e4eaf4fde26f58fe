/*
 * A page of a listing, from a server that nobody vouches for.  What is taken is terminated and
 * bounded.
 */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "store/object/object.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void list(const struct tn_object_vendor *vendor, const char *text, size_t size)
{
    struct tn_object_page page = {0};
    struct tenure_error err = {0};
    enum tenure_status status = vendor->page(text, size, &page, &err);

    assert(!status || (status == err.code && err.text[0]));
    assert(page.n <= size && page.n <= page.cap);
    for (size_t i = 0; i < page.n; i++) {
        assert(strlen(page.rows[i].name) <= TN_OBJECT_NAME_MAX);
        assert(page.rows[i].tag[0] && strlen(page.rows[i].tag) <= TN_OBJECT_TAG_MAX);
    }
    tn_object_page_free(&page);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);

    assert(text);
    memcpy(text, data, size);
    text[size] = '\0';
    list(&tn_s3, text, size);
    list(&tn_azure, text, size);
    free(text);
    return 0;
}
