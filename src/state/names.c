/*
 * The names of the collections.  There is no list of them: they are seen in the
 * keys, a root or a document each.  Of a large collection a few keys tell as much
 * as all, so the rest is passed over; and who has little time goes on later
 * where it was.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/key.h"
#include "state/calls.h"

#define ROW 128 /* keys of one collection that are not worth another question */

struct tn_collections {
    /* "jobs", "jobs-old/a", "jobs/a": those that the last one begins with may come again.
     * Each is longer than the one before it. */
    char open[TENURE_KEY_MAX + 1][TENURE_KEY_MAX + 1];
    size_t n_open;
    char after[TENURE_KEY_MAX + 1]; /* everything up to this was seen */
    unsigned row;                   /* keys of the same collection, one behind the other */
    bool pass;                      /* over the rest of it */
};

struct visit {
    tenure_state *s;
    struct tn_collections *walk;
    bool (*visit)(void *arg, const char *name);
    void *arg;
    size_t skip; /* length of "NAME/state/" */
};

struct tn_collections *tn_collections_new(void)
{
    return calloc(1, sizeof(struct tn_collections));
}

void tn_collections_free(struct tn_collections *walk)
{
    free(walk);
}

/* Is it the collection of a key before?  Else it is open from now on. */
static bool is_seen(struct tn_collections *w, const char *name, size_t len)
{
    for (; w->n_open; w->n_open--) {
        const char *last = w->open[w->n_open - 1];

        if (strncmp(last, name, len) == 0 && !last[len])
            return true;
        if (strncmp(last, name, strlen(last)) == 0)
            break;
    }
    snprintf(w->open[w->n_open++], sizeof w->open[0], "%.*s", (int)len, name);
    return false;
}

/* A collection is seen by its root or by any document in it. */
static bool visit_key(void *arg, const char *key, const struct tenure_value *value)
{
    struct visit *l = arg;
    struct tn_collections *w = l->walk;
    size_t len = strcspn(key + l->skip, "/");

    (void)value;
    l->s->progress++;
    snprintf(w->after, sizeof w->after, "%s", key);
    if (!is_seen(w, key + l->skip, len)) {
        w->row = 0;
        return l->visit(l->arg, w->open[w->n_open - 1]);
    }
    if (++w->row >= ROW && key[l->skip + len]) {
        tn_key_pass_below(w->after, l->skip + len);
        w->pass = true;
        w->row = 0;
    }
    return !w->pass;
}

enum tenure_status tn_state_collections(tenure_state *s, struct tn_collections *walk,
                                        bool (*visit)(void *arg, const char *name), void *arg,
                                        int64_t deadline, struct tenure_error *err)
{
    struct visit l = {.s = s, .walk = walk, .visit = visit, .arg = arg};
    char prefix[TENURE_KEY_MAX + 1];
    struct tn_reading reading;
    enum tenure_status status;

    tn_key_of(s->name, TN_KEY_STATE, prefix);
    l.skip = strlen(prefix);
    if ((status = tn_reading_begin(s, &reading, deadline, err)))
        return status;
    do {
        walk->pass = false;
        status = tenure_store_list(reading.store, prefix, walk->after[0] ? walk->after : NULL,
                                   visit_key, &l, NULL, deadline, err);
    } while (!status && walk->pass);
    tn_reading_end(&reading);
    return status;
}

enum tenure_status tenure_state_collections(tenure_state *s,
                                            bool (*visit)(void *arg, const char *name), void *arg,
                                            int64_t deadline, struct tenure_error *err)
{
    struct tn_collections *walk = tn_collections_new();
    struct tenure_error scratch;
    enum tenure_status status;

    if (!walk)
        return tenure_fail(err, TENURE_NOMEM, "out of memory");
    status = tn_state_collections(s, walk, visit, arg, deadline, err ? err : &scratch);
    tn_collections_free(walk);
    return status;
}
