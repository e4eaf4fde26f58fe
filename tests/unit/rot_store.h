/*
 * rot_store.h - "rot:ID" is "memory:ID", but for a register that is said to be rotten: the store
 * finds it damaged, refuses to read and to replace it, and lists it as junk.  Who repairs
 * ("rot:ID?repair=yes") reads junk, and what it writes is sound again.  Its listings can be slow.
 */
#ifndef ROT_STORE_H
#define ROT_STORE_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tenure/store.h"

#define ROT_JUNK "what is left of it"

static char rot_key[TENURE_KEY_MAX + 1]; /* the one that is rotten; "": none */
static void (*rot_ahead)(void);          /* called before it is replaced, once */
static bool rot_unguarded;               /* who replaces it is told of a conflict, not of the rot */
static unsigned rot_patience;            /* registers that a listing tells in its time; 0: all */
static unsigned rot_swaps;   /* the last of so many is too late, as are all after it; 0: none */
static int64_t rot_lists_ns; /* what one lasts that tells everything or nothing */

struct rot {
    tenure_store *inner;
    bool repairs;
};

struct rot_list {
    tenure_visit_fn visit;
    void *arg;
    unsigned told;
    bool late;
};

static bool rot_is(const char *key)
{
    return rot_key[0] && strcmp(rot_key, key) == 0;
}

static enum tenure_status rot_open(const char *url, int64_t deadline, void **impl,
                                   struct tenure_error *err)
{
    struct rot *h = calloc(1, sizeof *h);
    char inner[200];

    if (!h)
        return tenure_fail(err, TENURE_NOMEM, "out of memory");
    h->repairs = strchr(url, '?') != NULL;
    snprintf(inner, sizeof inner, "memory:%.*s", (int)strcspn(url + 4, "?"), url + 4);
    enum tenure_status status = tenure_store_open(inner, deadline, &h->inner, err);
    if (status)
        free(h);
    else
        *impl = h;
    return status;
}

static void rot_close(void *impl)
{
    struct rot *h = impl;

    tenure_store_close(h->inner);
    free(h);
}

static void rot_info(void *impl, struct tenure_store_info *info)
{
    *info = *tenure_store_info(((struct rot *)impl)->inner);
}

static enum tenure_status rot_read(void *impl, const char *key, struct tenure_value *value,
                                   int64_t deadline, struct tenure_error *err)
{
    struct rot *h = impl;

    if (rot_is(key) && !h->repairs)
        return tenure_fail(err, TENURE_CORRUPT, "%s is rotten", key);
    enum tenure_status status = tenure_store_read(h->inner, key, value, deadline, err);
    if (!status && rot_is(key))
        status = tenure_value_set(value, ROT_JUNK, strlen(ROT_JUNK), err);
    return status;
}

static enum tenure_status rot_swap(void *impl, struct tenure_swap *swap, int64_t deadline,
                                   struct tenure_error *err)
{
    struct rot *h = impl;
    bool rotten = rot_is(swap->key);
    void (*ahead)(void) = rot_ahead;

    if (rotten && !h->repairs)
        return swap->status = tenure_fail(err, rot_unguarded ? TENURE_CONFLICT : TENURE_CORRUPT,
                                          "%s is rotten", swap->key);
    if (rotten && ahead) {
        rot_ahead = NULL;
        ahead();
    }
    if (rot_swaps == 1)
        return swap->status = tenure_fail(err, TENURE_TIMEOUT, "%s came too late", swap->key);
    rot_swaps -= rot_swaps > 0;
    tenure_store_swap(h->inner, swap, deadline, err);
    if (rotten && swap->status == TENURE_OK)
        rot_key[0] = '\0';
    return swap->status;
}

static enum tenure_status rot_wait(void *impl, const struct tenure_watch *watches, size_t n,
                                   int wake_fd, int64_t deadline, struct tenure_error *err)
{
    return tenure_store_wait(((struct rot *)impl)->inner, watches, n, wake_fd, deadline, err);
}

static bool rot_visit(void *arg, const char *key, const struct tenure_value *value)
{
    struct rot_list *l = arg;
    static unsigned char bytes[] = ROT_JUNK;
    struct tenure_value junk = {.data = bytes, .len = sizeof bytes - 1};

    l->late = rot_patience && l->told++ == rot_patience;
    if (l->late)
        return false;
    junk.token = value->token;
    return l->visit(l->arg, key, rot_is(key) ? &junk : value);
}

static enum tenure_status rot_list(void *impl, const char *prefix, const char *after,
                                   tenure_visit_fn visit, void *arg,
                                   char mark[TENURE_VERSION_MAX + 1], int64_t deadline,
                                   struct tenure_error *err)
{
    struct rot_list l = {.visit = visit, .arg = arg};

    if (deadline - tenure_now() < rot_lists_ns) /* nobody need wait for that */
        return tenure_fail(err, TENURE_TIMEOUT, "%s has many", prefix);
    enum tenure_status status = tenure_store_list(((struct rot *)impl)->inner, prefix, after,
                                                  rot_visit, &l, mark, deadline, err);

    return l.late ? tenure_fail(err, TENURE_TIMEOUT, "%s has many", prefix) : status;
}

static const struct tenure_store_ops rot_ops = {.abi = TENURE_STORE_ABI,
                                                .scheme = "rot",
                                                .open = rot_open,
                                                .close = rot_close,
                                                .info = rot_info,
                                                .read = rot_read,
                                                .swap = rot_swap,
                                                .wait = rot_wait,
                                                .list = rot_list};

#endif
