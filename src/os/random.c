#include <errno.h>
#include <string.h>
#include <sys/random.h>

#include "tenure/store.h"

enum tenure_status tenure_nonce(uint8_t nonce[TENURE_NONCE_SIZE], struct tenure_error *err)
{
    static const uint8_t zero[TENURE_NONCE_SIZE];
    uint8_t fresh[TENURE_NONCE_SIZE] = {0};

    /* All zero means "absent", so it is drawn again. */
    while (memcmp(fresh, zero, sizeof fresh) == 0) {
        ssize_t n = getrandom(fresh, sizeof fresh, 0);

        if (n == (ssize_t)sizeof fresh)
            continue;
        if (n >= 0 || errno != EINTR)
            return tenure_fail(err, TENURE_UNAVAILABLE, "no random numbers from the system: %s",
                               strerror(errno));
        memset(fresh, 0, sizeof fresh);
    }
    memcpy(nonce, fresh, sizeof fresh);
    return TENURE_OK;
}
