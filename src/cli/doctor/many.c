/* The promises about several registers: batches, and listing by prefix. */
#include <stdio.h>
#include <string.h>

#include "cli/doctor/doctor.h"

/* ---- Batches ------------------------------------------------------------- */

#define BATCH 5

static bool fill(struct doctor *d, struct tenure_swap *s, const char *key,
                 const struct tenure_token *expect)
{
    *s = (struct tenure_swap){.key = key, .expect = *expect, .data = "batch", .len = 5};
    s->status = TENURE_CORRUPT; /* so that an answer that was forgotten shows */
    return tenure_nonce(s->nonce, &d->err) == TENURE_OK;
}

/* Does each answer say what a read shows? */
static bool told_truly(struct doctor *d, const struct tenure_swap *s)
{
    enum tenure_status status = doctor_read(d, s->key);

    if (status) {
        doctor_say_error(d, "read", status);
        return false;
    }
    bool landed = memcmp(d->value.token.nonce, s->nonce, sizeof s->nonce) == 0;
    if (s->status != TENURE_UNKNOWN && landed != (s->status == TENURE_OK))
        doctor_say(d, DOCTOR_BROKEN, "a swap of a batch was answered '%s', but it %s",
                   tenure_status_word(s->status), landed ? "took effect" : "did not take effect");
    return doctor_well(d);
}

void doctor_check_batch(struct doctor *d)
{
    static const char *const names[BATCH] = {"batch/a", "batch/b", "batch/c", "batch/d", "batch/e"};
    struct tenure_token old = {0}, tokens[BATCH] = {0};
    struct tenure_swap swaps[BATCH];
    enum tenure_status status = TENURE_OK;
    bool drawn = true;

    /* a and e are new; b exists; c has moved on; d exists and is created again. */
    for (unsigned i = 1; i < 4 && !status; i++) {
        status = doctor_put(d, doctor_key(d, names[i]), &tokens[i], "one", false);
        if (i == 2)
            old = tokens[i];
        if (i == 2 && !status)
            status = doctor_put(d, doctor_key(d, names[i]), &tokens[i], "two", false);
    }
    tokens[2] = old;
    memset(&tokens[3], 0, sizeof tokens[3]);
    for (unsigned i = 0; i < BATCH; i++)
        drawn = drawn && fill(d, &swaps[i], doctor_key(d, names[i]), &tokens[i]);
    if (!status && drawn)
        status = tenure_store_swap_many(d->store, swaps, BATCH, doctor_by(d), &d->err);
    if (status || !drawn) {
        doctor_say_error(d, "a batch", status);
        return;
    }
    for (unsigned i = 0; i < BATCH; i++) {
        bool good = i < 2 || i == 4;

        if (!told_truly(d, &swaps[i]))
            return;
        if (swaps[i].status == TENURE_OK && !good)
            doctor_say(d, DOCTOR_BROKEN, "a stale member of a batch was accepted");
        if (swaps[i].status == TENURE_CONFLICT && good && !d->info.atomic_batch)
            doctor_say(d, DOCTOR_BROKEN, "a good member of a batch was refused");
        if (swaps[i].status == TENURE_OK && d->info.atomic_batch)
            doctor_say(d, DOCTOR_BROKEN, "half of an atomic batch took effect");
    }
    doctor_say(d, DOCTOR_OK,
               "five swaps in one batch, two of them stale: each answered correctly%s",
               d->info.atomic_batch ? " (all or none)" : "");
}

/* ---- Listing ------------------------------------------------------------- */

#define LISTED 4

struct listing {
    char keys[LISTED + 1][96];
    unsigned n;
    unsigned stop; /* after so many; 0: never */
    bool tombstone;
};

static bool list_key(void *arg, const char *key, const struct tenure_value *value)
{
    struct listing *l = arg;

    if (l->n > LISTED)
        return false;
    snprintf(l->keys[l->n++], sizeof l->keys[0], "%s", key);
    l->tombstone = l->tombstone || value->tombstone;
    return l->n != l->stop;
}

static bool list(struct doctor *d, const char *prefix, const char *after, struct listing *l,
                 char mark[TENURE_VERSION_MAX + 1])
{
    enum tenure_status status =
        tenure_store_list(d->store, prefix, after, list_key, l, mark, doctor_by(d), &d->err);

    if (status)
        doctor_say_error(d, "list", status);
    return !status;
}

static bool same(struct doctor *d, const struct listing *l, const char *const *names, unsigned from,
                 unsigned to)
{
    bool well = l->n == to - from;

    for (unsigned i = from; well && i < to; i++)
        well = strcmp(l->keys[i - from], doctor_key(d, names[i])) == 0;
    return well;
}

void doctor_check_list(struct doctor *d)
{
    /* In byte order; the last one is beside the prefix "list/". */
    static const char *const names[] = {"list/B", "list/a", "list/a.b", "list/c", "list-e"};
    struct listing all = {0}, first = {.stop = 2}, rest = {0}, wide = {0};
    char prefix[96], mark[TENURE_VERSION_MAX + 1];

    for (unsigned i = 5; i-- > 0;) { /* the last one first */
        struct tenure_token token = {0};
        enum tenure_status status = doctor_put(d, doctor_key(d, names[i]), &token, "x", false);

        if (!status && i == 2) /* a tombstone is listed too */
            status = doctor_put(d, doctor_key(d, names[i]), &token, "", true);
        if (status) {
            doctor_say_error(d, "a plain swap", status);
            return;
        }
    }
    snprintf(prefix, sizeof prefix, "%slist/", d->prefix);
    if (!list(d, prefix, NULL, &all, mark) || !list(d, prefix, NULL, &first, NULL) ||
        !list(d, prefix, doctor_key(d, names[1]), &rest, NULL))
        return;
    prefix[strlen(prefix) - 1] = '\0'; /* a prefix of bytes, not of segments */
    if (!list(d, prefix, NULL, &wide, NULL))
        return;
    if (!same(d, &all, names, 0, 4))
        doctor_say(d, DOCTOR_BROKEN, "a prefix of 4 registers lists %u, or not in order", all.n);
    else if (!all.tombstone)
        doctor_say(d, DOCTOR_BROKEN, "a tombstone is not listed as one");
    else if (!same(d, &first, names, 0, 2) || !same(d, &rest, names, 2, 4))
        doctor_say(d, DOCTOR_BROKEN, "a listing does not stop or resume at the requested key");
    else if (wide.n != 5)
        doctor_say(d, DOCTOR_BROKEN, "a prefix that ends within a segment lists %u of 5", wide.n);
    else
        doctor_say(d, DOCTOR_OK, "by prefix, in order, with tombstones; stops and resumes");
}
