/* Lengths of time as people write them: what parses formats to the shortest that parses the same.
 */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/duration.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char shown[TN_DURATION_TEXT], *text = strndup((const char *)data, size);
    int64_t ns = -7, again = -1;

    if (!text)
        return 0;
    if (tn_duration_parse(text, &ns)) {
        assert(ns >= 0 && text[0] >= '0' && text[0] <= '9');
        memset(shown, 'x', sizeof shown);
        tn_duration_format(ns, shown);
        assert(memchr(shown, '\0', sizeof shown));
        assert(tn_duration_parse(shown, &again) && again == ns);
    } else {
        assert(ns == -7);
    }
    free(text);
    return 0;
}
