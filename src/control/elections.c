/*
 * Every election of a store, sorted by what the keys end with.  A listing ends at the first
 * document of a state, and another one goes on behind all of them: there may be any number.
 */
#include "tenure/elections.h"
#include "base/grow.h"
#include "base/key.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "control/control.h"
#include "lease/lease.h"

struct found {
    struct tenure_election *rows; /* in the order in which they turned up */
    size_t n, room;
    bool no_memory;
    bool pass;                      /* over documents */
    char after[TENURE_KEY_MAX + 1]; /* everything up to this was seen, or is passed over */
};

/* Keys of one election stand together, so the newest row is mostly the right one. */
static struct tenure_election *row_of(struct found *f, const char *name, size_t len)
{
    for (size_t i = f->n; i > 0; i--) {
        struct tenure_election *e = &f->rows[i - 1];

        if (strncmp(e->name, name, len) == 0 && !e->name[len])
            return e;
    }
    if (!tn_grow(&f->rows, &f->room, f->n, sizeof *f->rows)) {
        f->no_memory = true;
        return NULL;
    }
    struct tenure_election *e = &f->rows[f->n++];
    memset(e, 0, sizeof *e);
    e->size = sizeof *e;
    e->lease.size = sizeof e->lease;
    e->control.size = sizeof e->control;
    memcpy(e->name, name, len);
    return e;
}

static void count_candidate(struct tenure_election *e, const struct tenure_value *value)
{
    struct tenure_candidate c = TENURE_CANDIDATE;

    if (value->tombstone || tn_candidate_decode(value->data, value->len, &c, NULL))
        return; /* nobody's: passed over, as tenure_candidates() does */
    e->candidates++;
    e->healthy += c.healthy;
    if (c.trouble[0] && e->troubled++ == 0) {
        memcpy(e->trouble_of, c.id, sizeof e->trouble_of);
        memcpy(e->trouble, c.trouble, sizeof e->trouble);
    }
}

static bool visit_key(void *arg, const char *key, const struct tenure_value *value)
{
    size_t candidate = tn_key_below(key, TN_KEY_CANDIDATES), len;
    struct found *f = arg;
    struct tenure_election *e;

    if ((len = tn_key_below(key, TN_KEY_STATE))) { /* documents have what names they like */
        len += strlen(TN_KEY_STATE) - 1;
        memcpy(f->after, key, len);
        tn_key_pass_below(f->after, len);
        f->pass = true;
        return false;
    }
    if (candidate) {
        if (!strchr(key + candidate + strlen(TN_KEY_CANDIDATES), '/') &&
            (e = row_of(f, key, candidate)))
            count_candidate(e, value);
    } else if (tn_key_is(key, TN_KEY_LEASE, &len)) {
        if ((e = row_of(f, key, len)) && tn_lease_view_fill(value, &e->lease, NULL) == TENURE_NOMEM)
            f->no_memory = true;
    } else if (tn_key_is(key, TN_KEY_CONTROL, &len)) {
        if ((e = row_of(f, key, len)))
            tn_control_decode(value, &e->control, NULL);
    }
    return !f->no_memory;
}

/* What a listing shows of a register that the store cannot read is not a record of anything: read()
 * tells why. */
static void ask_why(tenure_store *store, struct tenure_election *e, int64_t deadline)
{
    struct tenure_lease_view again = {.size = sizeof again};
    struct tenure_error why;
    enum tenure_status status = tenure_lease_look(store, e->name, &again, deadline, &why);

    if (status == TENURE_CORRUPT) {
        again.state = TENURE_LEASE_REFUSED;
        snprintf(again.trouble, sizeof again.trouble, "%.*s", (int)sizeof again.trouble - 1,
                 why.text);
        tn_text_repair(again.trouble, '?');
    }
    if (!status || status == TENURE_CORRUPT)
        e->lease = again;
}

static int by_name(const void *a, const void *b)
{
    const struct tenure_election *x = a, *y = b;

    return strcmp(x->name, y->name);
}

enum tenure_status tenure_elections(tenure_store *store, tenure_election_fn visit, void *arg,
                                    char mark[TENURE_VERSION_MAX + 1], int64_t deadline,
                                    struct tenure_error *err)
{
    struct found f = {0};
    enum tenure_status status;

    do {
        f.pass = false;
        status = tenure_store_list(store, "", f.after[0] ? f.after : NULL, visit_key, &f, mark,
                                   deadline, err);
        mark = NULL; /* the first one knows of all changes since it began */
    } while (!status && f.pass);
    if (!status && f.no_memory)
        status = tenure_fail(err, TENURE_NOMEM, "out of memory");
    if (f.n > 1)
        qsort(f.rows, f.n, sizeof *f.rows, by_name);
    for (size_t i = 0; !status && i < f.n; i++) {
        struct tenure_election *e = &f.rows[i];
        /* A removed one has a tombstone in place of its lease. */
        bool counts = e->candidates || e->lease.state != TENURE_LEASE_ABSENT;

        if (e->lease.state == TENURE_LEASE_REFUSED)
            ask_why(store, e, deadline);
        if (counts && !visit(arg, e))
            break;
    }
    free(f.rows);
    return status;
}
