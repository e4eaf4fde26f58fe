#include "agent/releaser.h"

#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "agent/driver.h"
#include "base/hex.h"
#include "core/timing.h"
#include "store/control.h"

/* After this the lease has mostly run out by itself. */
#define LIMIT_NS   (10 * TN_S)
#define REQUEST_NS (2 * TN_S)

size_t tn_release_facts_write(const struct tn_release_facts *f, char *text, size_t size)
{
    char incarnation[TN_NONCE_HEX + 1], grant[TN_NONCE_HEX + 1];

    tn_hex_encode(f->incarnation, TENURE_NONCE_SIZE, incarnation);
    tn_hex_encode(f->grant, TENURE_NONCE_SIZE, grant);
    int n = snprintf(text, size, "%s\n%s\n%s\n%s\n%s\n", f->store ? f->store : "noop:", f->name,
                     f->id, incarnation, grant);
    return n > 0 && (size_t)n < size ? (size_t)n : 0;
}

bool tn_release_facts_read(struct tn_release_facts *f, char *text)
{
    char *parts[5];

    for (int i = 0; i < 5; i++) {
        char *end = strchr(text, '\n');

        if (!end)
            return false; /* tenure died while it wrote them */
        *end = '\0';
        parts[i] = text;
        text = end + 1;
    }
    f->store = parts[0];
    f->name = parts[1];
    f->id = parts[2];
    return tn_hex_decode(parts[3], f->incarnation, TENURE_NONCE_SIZE) &&
           tn_hex_decode(parts[4], f->grant, TENURE_NONCE_SIZE);
}

/* One try: open, read, swap (I8: tn_driver_release_grant() compares all three). */
static enum tenure_status try_once(const struct tn_release_facts *f, struct tenure_error *err)
{
    tenure_store *store = NULL;
    enum tenure_status status = tenure_store_open(f->store, tenure_now() + REQUEST_NS, &store, err);

    if (!status)
        status = tn_driver_release_grant(store, f->name, f->id, f->incarnation, f->grant,
                                         tenure_now() + REQUEST_NS, err);
    if (!status) {
        usleep(20 * 1000); /* the next leader first */
        tn_candidate_withdraw(store, f->name, f->id, tenure_now() + REQUEST_NS, NULL);
    }
    tenure_store_close(store);
    return status;
}

enum tenure_status tn_release_from(int fd, struct tenure_error *err)
{
    int64_t limit = tenure_now() + LIMIT_NS;
    char text[TN_RELEASE_FACTS_MAX];
    struct tn_release_facts facts;
    enum tenure_status status;
    ssize_t n = pread(fd, text, sizeof text - 1, 0);

    text[n > 0 ? n : 0] = '\0';
    if (!tn_release_facts_read(&facts, text))
        return tenure_fail(err, TENURE_INVALID, "this verb is for the guard alone");
    do {
        status = try_once(&facts, err);
        enum tenure_class class = tenure_status_class(status);
        /* A swap of unknown outcome is settled by the next read. */
        if (class != TENURE_CLASS_TRANSIENT && class != TENURE_CLASS_AMBIGUOUS)
            break;
        nanosleep(&(struct timespec){.tv_nsec = 50 * 1000 * 1000}, NULL);
    } while (tenure_now() < limit);
    return status;
}
