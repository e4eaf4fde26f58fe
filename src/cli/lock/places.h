/*
 * cli/lock/places.h - the places of a lock that several may hold.
 *
 * Each place is an election of its own (base/key.h).  Who wants one reads them all, writes to none,
 * and contends only for one that looks free, or whose holder has been silent for longer than its
 * ttl: docs/adr/0018-locks.md.
 */
#ifndef TN_CLI_LOCK_PLACES_H
#define TN_CLI_LOCK_PLACES_H

#include "base/key.h"
#include "tenure/lease.h"

struct cli_place {
    char election[TENURE_KEY_MAX + 1];
    struct tenure_lease_view view; /* as last read */
    int64_t since_ns;              /* of that version: first seen */
};

struct cli_places {
    tenure_store *store; /* the caller's */
    unsigned n;
    struct cli_place place[TN_KEY_HOLDERS_MAX];
};

/* n places of name, nothing read yet. */
void cli_places_init(struct cli_places *p, const char *name, unsigned n);

/*
 * Read them all and choose: *found, from 1, is one that is free, at random among those, or silent
 * (*silent); 0: all are held.
 */
TENURE_CHECKED enum tenure_status cli_places_choose(struct cli_places *p, unsigned *found,
                                                    bool *silent, int64_t deadline,
                                                    struct tenure_error *err);
/* Wait until one may have changed, or become silent, or it is until_ns. */
void cli_places_wait(const struct cli_places *p, int64_t until_ns);

#endif
