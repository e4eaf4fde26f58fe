/* The history register on hostile bytes: no crash, in order, and a round trip changes nothing. */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "control/history.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct tenure_history one, two;
    struct tenure_term_record term = {.epoch = 1 + size, .from_ms = 5, .holder = "x"};
    struct tenure_error err;

    one = (struct tenure_history)TENURE_HISTORY;
    two = one;
    if (tn_history_decode(data, size, &one, &err) != TENURE_OK)
        return 0;
    assert(one.n <= TENURE_TERMS_MAX);
    for (uint32_t i = 0; i < one.n; i++)
        assert(one.terms[i].holder[0] && (i == 0 || one.terms[i].epoch > one.terms[i - 1].epoch));
    char *text = tn_history_encode(&one);
    assert(text && tn_history_decode(text, strlen(text), &two, &err) == TENURE_OK);
    assert(two.n == one.n && memcmp(one.terms, two.terms, one.n * sizeof one.terms[0]) == 0);
    free(text);
    tn_history_merge(&one, &term, 3);
    assert(one.n <= TENURE_TERMS_MAX);
    return 0;
}
