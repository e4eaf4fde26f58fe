#include "cli/lock/places.h"

#include <string.h>
#include <sys/random.h>
#include <time.h>

#define S        INT64_C(1000000000)
/* How often they are all read again: silence makes no noise, and not all of many are watched. */
#define AGAIN_NS S

void cli_places_init(struct cli_places *p, const char *name, unsigned n)
{
    memset(p, 0, sizeof *p);
    p->n = n;
    for (unsigned i = 0; i < n; i++)
        tn_key_holder(name, i + 1, p->place[i].election);
}

static unsigned random_below(unsigned n)
{
    uint32_t r = 0;

    if (getrandom(&r, sizeof r, GRND_NONBLOCK) != (ssize_t)sizeof r)
        r = (uint32_t)tenure_now();
    return r % n;
}

static enum tenure_status read_place(const struct cli_places *p, struct cli_place *place,
                                     int64_t deadline, struct tenure_error *err)
{
    struct tenure_lease_view view = TENURE_LEASE_VIEW;
    enum tenure_status status = tenure_lease_look(p->store, place->election, &view, deadline, err);

    if (status)
        return status;
    if (place->since_ns == 0 || !tenure_token_equal(&view.token, &place->view.token))
        place->since_ns = tenure_now();
    place->view = view;
    return TENURE_OK;
}

/* Longer than every candidate waits for it: nobody contends for this one yet, or it would be gone.
 */
static bool is_silent(const struct cli_place *place)
{
    return place->view.state == TENURE_LEASE_HELD &&
           tenure_now() - place->since_ns > place->view.ttl_ms * (S / 1000) * 5 / 4;
}

static bool is_free(const struct cli_place *place)
{
    return place->view.state == TENURE_LEASE_FREE || place->view.state == TENURE_LEASE_ABSENT;
}

enum tenure_status cli_places_choose(struct cli_places *p, unsigned *found, bool *silent,
                                     int64_t deadline, struct tenure_error *err)
{
    unsigned first = random_below(p->n);

    *found = 0;
    *silent = false;
    for (unsigned i = 0; i < p->n; i++) {
        struct cli_place *place = &p->place[(first + i) % p->n];
        enum tenure_status status = read_place(p, place, deadline, err);

        if (status) {
            *found = 0;
            return status;
        }
        bool free = is_free(place);
        if (free || (is_silent(place) && *found == 0)) {
            *found = (first + i) % p->n + 1;
            *silent = !free;
        }
        if (free)
            break;
    }
    return TENURE_OK;
}

void cli_places_wait(const struct cli_places *p, int64_t until_ns)
{
    struct tenure_watch watches[TENURE_WATCH_MAX];
    char keys[TENURE_WATCH_MAX][TENURE_KEY_MAX + 1];
    int64_t now = tenure_now(), again = now + AGAIN_NS;
    unsigned n = p->n < TENURE_WATCH_MAX ? p->n : TENURE_WATCH_MAX, first = random_below(p->n);

    memset(watches, 0, sizeof watches);
    for (unsigned i = 0; i < n; i++) {
        const struct cli_place *place = &p->place[(first + i) % p->n];

        tn_key_of(place->election, TN_KEY_LEASE, keys[i]);
        watches[i].key = keys[i];
        watches[i].seen = place->view.token;
    }
    enum tenure_status status =
        tenure_store_wait(p->store, watches, n, -1, until_ns < again ? until_ns : again, NULL);
    if (status && status != TENURE_TIMEOUT) { /* a store that refuses to wait is asked less often */
        struct timespec pause = {.tv_nsec = 100 * 1000 * 1000};
        nanosleep(&pause, NULL);
    }
}
