/*
 * A server that ignores conditions lets everybody lead, and there are such: so nobody is believed
 * before it was tried.  The object PREFIX/.tenure, which no register can be, says that rivals have
 * raced there and one of them won each time.  Whoever finds it tries two conditions that do not
 * hold; whoever does not find it races.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hex.h"
#include "store/object/object.h"

#define RIVALS     TN_OBJECT_CALLS
#define ROUNDS     3
#define ROUNDS_MAX 9 /* if nobody here wins any */
#define RACED      "tenure1 raced: conditional writes were found to be kept here\n"
#define RACING     "tenure1 racing "
#define NO_TAG     "00000000000000000000000000000000"

static enum tenure_status refuse(const struct tn_object *h, const char *what, unsigned winners,
                                 struct tenure_error *err)
{
    return tenure_fail(err, TENURE_CONFIG,
                       "%s: %s does not keep conditions on writes (%u of %d rivals wrote %s): two "
                       "could lead at once; use a server that does, "
                       "see docs/reference/stores/%s.md",
                       h->vendor->scheme, h->server, winners, RIVALS, what, h->vendor->scheme);
}

static void name_mark(const struct tn_object *h, struct tn_object_exchange *x)
{
    snprintf(x->name, sizeof x->name, "%s.tenure", h->conf.base);
}

/* Write the mark, n times at once.  *winners: how many did.  tag: the last winner's. */
static enum tenure_status write_mark(struct tn_object *h, const char *condition, size_t n,
                                     char tag[TN_OBJECT_TAG_MAX + 1], unsigned *winners,
                                     int64_t deadline, struct tenure_error *err)
{
    struct tn_object_exchange xs[RIVALS] = {0};
    char texts[RIVALS][sizeof RACING + TN_NONCE_HEX];
    enum tenure_status status = TENURE_OK;

    *winners = 0;
    for (size_t i = 0; i < n && !status; i++) {
        uint8_t nonce[TENURE_NONCE_SIZE];
        char hex[TN_NONCE_HEX + 1];

        status = tenure_nonce(nonce, err);
        tn_hex_encode(nonce, sizeof nonce, hex);
        xs[i].verb = TN_OBJECT_PUT;
        xs[i].tag = condition;
        xs[i].body = texts[i];
        xs[i].len = (size_t)snprintf(texts[i], sizeof texts[i], RACING "%s", hex);
        name_mark(h, &xs[i]);
    }
    if (!status)
        tn_object_send(h, xs, n, deadline);
    for (size_t i = 0; i < n && !status; i++) {
        if (!xs[i].status && xs[i].outcome == TN_OBJECT_DONE) {
            ++*winners;
            memcpy(tag, xs[i].found, sizeof xs[i].found);
        } else if (xs[i].status && !xs[i].lost && xs[i].status != TENURE_UNAVAILABLE) {
            status = xs[i].status;
            *err = xs[i].err;
        }
    }
    tn_object_release(xs, n);
    return status;
}

static enum tenure_status read_mark(struct tn_object *h, bool *there, bool *raced,
                                    char tag[TN_OBJECT_TAG_MAX + 1], int64_t deadline,
                                    struct tenure_error *err)
{
    struct tn_object_exchange x = {.verb = TN_OBJECT_GET};

    name_mark(h, &x);
    tn_object_send(h, &x, 1, deadline);
    *there = !x.status && x.outcome == TN_OBJECT_DONE;
    *raced =
        *there && x.answer.len == strlen(RACED) && memcmp(x.answer.body, RACED, strlen(RACED)) == 0;
    memcpy(tag, x.found, sizeof x.found);
    if (x.status)
        *err = x.err;
    tn_object_release(&x, 1);
    return x.status;
}

/* What everybody agrees on from now on.  Who may not write it leaves it to others. */
static enum tenure_status sign_mark(struct tn_object *h, int64_t deadline, struct tenure_error *err)
{
    struct tn_object_exchange x = {.verb = TN_OBJECT_PUT, .body = RACED, .len = strlen(RACED)};

    name_mark(h, &x);
    tn_object_send(h, &x, 1, deadline);
    if (x.status)
        *err = x.err;
    tn_object_release(&x, 1);
    return x.status;
}

static enum tenure_status race(struct tn_object *h, bool there, char tag[TN_OBJECT_TAG_MAX + 1],
                               int64_t deadline, struct tenure_error *err)
{
    enum tenure_status status = TENURE_OK;
    unsigned winners = 0, won = 0;

    for (int round = 0; round < (won ? ROUNDS : ROUNDS_MAX) && !status; round++) {
        bool create = round == 0 && !there;

        status = write_mark(h, create ? "" : tag, RIVALS, tag, &winners, deadline, err);
        if (!status && winners > 1)
            return refuse(
                h, create ? "an object that only one may create" : "over what only one may replace",
                winners, err);
        won += winners;
        /* Others race here too, or it was too much for the server: what is there now goes on. */
        if (!status && winners == 0)
            status = read_mark(h, &there, &(bool){false}, tag, deadline, err);
    }
    if (!status && !won)
        status = tenure_fail(err, TENURE_UNAVAILABLE,
                             "%s: %s: whether it keeps conditions on writes could not be tried: "
                             "nobody could write %s.tenure",
                             h->vendor->scheme, h->server, h->conf.base);
    return status ? status : sign_mark(h, deadline, err);
}

/* Two conditions that do not hold. */
static enum tenure_status check(struct tn_object *h, int64_t deadline, struct tenure_error *err)
{
    static const char *const conditions[] = {"", NO_TAG};
    char tag[TN_OBJECT_TAG_MAX + 1];
    enum tenure_status status = TENURE_OK;
    unsigned winners = 0;

    for (size_t i = 0; i < 2 && !status; i++) {
        status = write_mark(h, conditions[i], 1, tag, &winners, deadline, err);
        if (!status && winners)
            return refuse(h, "over an object that is not as they said", winners, err);
    }
    return status;
}

enum tenure_status tn_object_probe(struct tn_object *h, int64_t deadline, struct tenure_error *err)
{
    char tag[TN_OBJECT_TAG_MAX + 1] = "";
    bool there = false, raced = false;
    enum tenure_status status = read_mark(h, &there, &raced, tag, deadline, err);

    if (!status)
        status = raced ? check(h, deadline, err) : race(h, there, tag, deadline, err);
    /* Who may only read cannot do harm, and is told when it matters. */
    return status == TENURE_DENIED && (there || raced) ? TENURE_OK : status;
}
