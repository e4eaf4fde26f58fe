/* The Host header and tokens on hostile bytes: no crash, and what is refused stays refused with a
 * port. */
#include <assert.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "api/inner.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static char name[] = "web.example";
    struct tn_access access = {.hosts = {name}, .n_hosts = 1};
    char host[512], longer[520];
    size_t n = size < sizeof host - 1 ? size : sizeof host - 1;

    memcpy(host, data, n);
    host[n] = '\0';
    bool ok = tn_access_host(&access, host);
    tn_access_is_loopback(host);
    assert(!tn_access_token(&access, host)); /* there is none */
    if (*host && !strchr(host, ':') && host[0] != '[') {
        snprintf(longer, sizeof longer, "%s:80", host);
        assert(tn_access_host(&access, longer) == ok);
    }
    return 0;
}
