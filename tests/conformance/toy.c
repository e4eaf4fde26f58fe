/*
 * toy:FILE - a store as somebody outside this project might write it, and the
 * carrier of planted bugs that prove the suite able to fail.
 *
 * All registers stand in one mapped file under one lock (flock); wait() polls a
 * counter of changes.  A register has two places for its value, and a swap
 * writes the unused one before it points there, so that a writer who is killed
 * leaves the old value whole.
 */
#include "toy.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define REGS_MAX 1024
#define DATA_MAX 1024

struct place {
    struct tenure_token token;
    uint8_t prev[TENURE_NONCE_SIZE];
    bool tombstone;
    uint32_t len;
    unsigned char data[DATA_MAX];
};

struct reg {
    char key[TENURE_KEY_MAX + 1]; /* "": unused */
    uint64_t number;              /* of swaps */
    _Atomic unsigned current;     /* which place holds the value */
    struct place places[2];
};

struct file {
    _Atomic uint64_t changes;
    _Atomic int stuck; /* for the bug lock_outlives */
    uint64_t opened;
    unsigned changed_last; /* index of a register */
    struct reg regs[REGS_MAX];
};

struct handle {
    int fd;
    struct file *file;
    enum toy_bug bug;
    uint64_t calls;
    uint64_t own_changes;
    struct tenure_value cached;
    char cached_key[TENURE_KEY_MAX + 1];
};

static bool has(const struct handle *h, enum toy_bug bug)
{
    return h->bug == bug;
}

static void nap(long us)
{
    nanosleep(&(struct timespec){.tv_nsec = us * 1000}, NULL);
}

static void lock(struct handle *h)
{
    int expected = 0;

    while (has(h, TOY_lock_outlives) &&
           !atomic_compare_exchange_strong(&h->file->stuck, &expected, 1)) {
        expected = 0;
        nap(100);
    }
    while (flock(h->fd, LOCK_EX) != 0 && errno == EINTR)
        continue;
}

static void unlock(struct handle *h)
{
    atomic_store(&h->file->stuck, 0);
    flock(h->fd, LOCK_UN);
}

/* ---- Opening ------------------------------------------------------------- */

static enum toy_bug parse_bug(const char *name)
{
    static const char *const names[] = {"", "often_unknown",
#define X(name, check) #name,
                                        TOY_BUGS(X)
#undef X
    };

    for (unsigned i = 1; i < sizeof names / sizeof names[0]; i++) {
        if (strcmp(names[i], name) == 0)
            return (enum toy_bug)i;
    }
    return TOY_SOUND;
}

static void toy_close(void *impl)
{
    struct handle *h = impl;

    if (h->file)
        munmap(h->file, sizeof *h->file);
    if (h->fd >= 0 && !has(h, TOY_leaks_descriptor))
        close(h->fd);
    tenure_value_free(&h->cached);
    free(h);
}

static enum tenure_status toy_open(const char *url, int64_t deadline, void **impl,
                                   struct tenure_error *err)
{
    char path[1024];
    struct handle *h = calloc(1, sizeof *h);
    const char *bug = strstr(url, "?bug=");

    (void)deadline;
    if (!h)
        return tenure_fail(err, TENURE_NOMEM, "toy: out of memory");
    snprintf(path, sizeof path, "%.*s", (int)strcspn(url + 4, "?"), url + 4);
    h->bug = bug ? parse_bug(bug + 5) : TOY_SOUND;
    h->fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (h->fd >= 0 && ftruncate(h->fd, (off_t)sizeof *h->file) == 0)
        h->file = mmap(NULL, sizeof *h->file, PROT_READ | PROT_WRITE, MAP_SHARED, h->fd, 0);
    if (h->fd < 0 || !h->file || h->file == MAP_FAILED) {
        h->file = NULL;
        tenure_fail(err, TENURE_UNAVAILABLE, "toy: %s: %s", path, strerror(errno));
        toy_close(h);
        return err->code;
    }
    if (has(h, TOY_forgets) && h->file->opened++ >= 2)
        memset(h->file->regs, 0, sizeof h->file->regs);
    *impl = h;
    return TENURE_OK;
}

static void toy_info(void *impl, struct tenure_store_info *info)
{
    (void)impl;
    info->scheme = "toy";
    info->promise = "all registers in one mapped file of this host; for tests of the tests";
    info->notifies = false;
    info->shared = true;
    info->data_max = DATA_MAX;
    info->batch_max = 10;
}

/* ---- Registers ----------------------------------------------------------- */

static struct reg *find(struct handle *h, const char *key, bool make)
{
    size_t n = has(h, TOY_key_cut) ? 200 : TENURE_KEY_MAX + 1;

    for (unsigned i = 0; i < REGS_MAX; i++) {
        struct reg *r = &h->file->regs[i];

        if (strncmp(r->key, key, n) == 0 ||
            (has(h, TOY_key_folded) && strcasecmp(r->key, key) == 0))
            return r;
        if (!r->key[0]) {
            if (make)
                strcpy(r->key, key);
            return make ? r : NULL;
        }
    }
    return NULL;
}

static const struct place *place_of(const struct reg *r)
{
    return r && r->places[r->current].token.version[0] ? &r->places[r->current] : NULL;
}

static enum tenure_status copy_out(const struct place *p, struct tenure_value *value,
                                   struct tenure_error *err)
{
    enum tenure_status status = tenure_value_set(value, p ? p->data : NULL, p ? p->len : 0, err);

    if (status)
        return status;
    memset(&value->token, 0, sizeof value->token);
    memset(value->prev, 0, sizeof value->prev);
    value->tombstone = p && p->tombstone;
    if (p) {
        value->token = p->token;
        memcpy(value->prev, p->prev, sizeof value->prev);
    }
    return TENURE_OK;
}

static enum tenure_status toy_read(void *impl, const char *key, struct tenure_value *value,
                                   int64_t deadline, struct tenure_error *err)
{
    struct handle *h = impl;
    const struct reg *r;
    const struct place *p;

    (void)deadline;
    h->calls++;
    if (has(h, TOY_absent_on_error) && h->calls % 64 == 0)
        return copy_out(NULL, value, err);
    if (!has(h, TOY_torn))
        lock(h);
    r = find(h, key, false);
    p = place_of(r);
    if (has(h, TOY_read_cached) && strcmp(h->cached_key, key) == 0)
        p = &r->places[0];
    if (has(h, TOY_read_sometimes_stale) && p && h->calls % 50 == 0 && r->number > 1)
        p = &r->places[!r->current];
    strcpy(h->cached_key, key);
    enum tenure_status status = copy_out(p, value, err);
    if (!has(h, TOY_torn))
        unlock(h);
    return status;
}

/* Three at a time: the rest is asked for again. */
static enum tenure_status toy_read_many(void *impl, struct tenure_read *reads, size_t n,
                                        size_t *done, int64_t deadline, struct tenure_error *err)
{
    struct handle *h = impl;
    enum tenure_status status = TENURE_OK;
    size_t most = n < 3 ? n : 3;

    for (*done = 0; *done < most && !status; ++*done) {
        struct tenure_read *read = &reads[*done], *to = read;

        if (has(h, TOY_reads_in_another_order))
            to = &reads[most - 1 - *done];
        if (has(h, TOY_reads_keep_the_absent) && !place_of(find(h, read->key, false)))
            read->status = TENURE_OK;
        else
            status = to->status = toy_read(impl, read->key, &to->value, deadline, err);
    }
    if (has(h, TOY_reads_stop_short) && n > 100)
        *done = n;
    return status;
}

static bool expected(const struct handle *h, const struct place *p, const struct tenure_swap *swap)
{
    bool version = strcmp(p ? p->token.version : "", swap->expect.version) == 0;
    static const uint8_t zero[TENURE_NONCE_SIZE];
    bool nonce = memcmp(p ? p->token.nonce : zero, swap->expect.nonce, sizeof zero) == 0;
    bool create = tenure_token_absent(&swap->expect);

    if (has(h, TOY_no_compare) ||
        (create && (has(h, TOY_create_overwrites) ||
                    (has(h, TOY_create_over_tombstone) && p && p->tombstone))))
        return true;
    return (version || has(h, TOY_no_version)) && (nonce || has(h, TOY_no_nonce));
}

static void write_place(struct handle *h, struct reg *r, struct tenure_swap *swap)
{
    const struct place *before = place_of(r);
    struct place *p = &r->places[has(h, TOY_torn) ? r->current : !r->current];
    uint64_t number = has(h, TOY_version_repeats) ? ++r->number % 1000 : ++r->number;

    memset(p->prev, 0, sizeof p->prev);
    if (before && !has(h, TOY_no_prev))
        memcpy(p->prev, before->token.nonce, sizeof p->prev);
    snprintf(p->token.version, sizeof p->token.version, "%llu", (unsigned long long)number);
    memcpy(p->token.nonce, swap->nonce, sizeof p->token.nonce);
    p->tombstone = swap->tombstone;
    p->len = (uint32_t)swap->len;
    if (has(h, TOY_data_is_text) && swap->len)
        p->len = (uint32_t)strnlen(swap->data, swap->len);
    if (has(h, TOY_tombstone_loses_data) && swap->tombstone)
        p->len = 0;
    if (has(h, TOY_torn))
        nap(20);
    if (p->len)
        memcpy(p->data, swap->data, p->len);
    if (has(h, TOY_erase_removes) && swap->tombstone)
        memset(p, 0, sizeof *p);
    swap->token = p->token;
    r->current = (unsigned)(p - r->places);
    h->own_changes++;
    h->file->changed_last = (unsigned)(r - h->file->regs);
    atomic_fetch_add(&h->file->changes, 1);
}

/* A lie about the outcome, now and then, if one was asked for. */
static enum tenure_status outcome(struct handle *h, int64_t deadline, enum tenure_status status,
                                  struct tenure_error *err)
{
    if (has(h, TOY_conflict_applied) && h->calls % 50 == 0)
        return tenure_fail(err, TENURE_CONFLICT, "toy: a lie");
    if (has(h, TOY_timeout_applied) && tenure_now() > deadline)
        return tenure_fail(err, TENURE_TIMEOUT, "toy: a lie");
    return status;
}

/* An honest loss: the answer will be UNKNOWN. */
static bool lost_request(const struct handle *h)
{
    return has(h, TOY_often_unknown) && h->calls % 14 == 0;
}

static enum tenure_status toy_swap(void *impl, struct tenure_swap *swap, int64_t deadline,
                                   struct tenure_error *err)
{
    struct handle *h = impl;

    h->calls++;
    while (has(h, TOY_hangs) && tenure_now() > deadline)
        nap(1000);
    if (has(h, TOY_conflict_invented) && h->calls % 50 == 0)
        return tenure_fail(err, TENURE_CONFLICT, "toy: a lie");
    lock(h);
    bool well = expected(h, place_of(find(h, swap->key, false)), swap);
    if (has(h, TOY_late_compare) || has(h, TOY_late_compare_threads)) {
        unlock(h);
        nap(50);
        lock(h);
    }
    if (has(h, TOY_lock_outlives))
        nap(200);
    struct reg *r = well ? find(h, swap->key, true) : NULL;
    if (r && !(has(h, TOY_ok_not_applied) && h->calls % 50 == 0) && !lost_request(h))
        write_place(h, r, swap);
    unlock(h);
    if (has(h, TOY_often_unknown) && h->calls % 7 == 0)
        return tenure_fail(err, TENURE_UNKNOWN, "toy: no answer");
    if (well && !r)
        return tenure_fail(err, TENURE_UNAVAILABLE, "toy: full");
    if (!well)
        return tenure_fail(err, TENURE_CONFLICT, "toy: %s has changed", swap->key);
    return outcome(h, deadline, TENURE_OK, err);
}

static enum tenure_status toy_swap_many(void *impl, struct tenure_swap *swaps, size_t n,
                                        int64_t deadline, struct tenure_error *err)
{
    struct handle *h = impl;

    for (size_t i = 0; i < n; i++) {
        swaps[i].status = TENURE_OK;
        if (has(h, TOY_batch_claims_the_rest) && i >= 8)
            continue;
        swaps[i].status = toy_swap(impl, &swaps[i], deadline, err);
        if (has(h, TOY_batch_all_ok))
            swaps[i].status = TENURE_OK;
    }
    return TENURE_OK;
}

/* ---- Waiting ------------------------------------------------------------- */

static bool changed(struct handle *h, const struct tenure_watch *watches, size_t n)
{
    static const struct tenure_token absent;
    char mark[TENURE_VERSION_MAX + 1];
    bool any = false;

    lock(h);
    snprintf(mark, sizeof mark, "%llu", (unsigned long long)atomic_load(&h->file->changes));
    for (size_t i = 0; i < n && !any; i++) {
        const struct place *p;

        if (has(h, TOY_wait_first_only) && i > 0)
            break;
        if (watches[i].prefix) {
            any = strcmp(mark, watches[i].mark) != 0 && !has(h, TOY_wait_no_prefix);
            continue;
        }
        p = place_of(find(h, watches[i].key, false));
        any = !tenure_token_equal(p ? &p->token : &absent, &watches[i].seen);
    }
    unlock(h);
    return any;
}

static bool late_to_subscribe(const struct handle *h)
{
    return has(h, TOY_wait_late_subscribe) || has(h, TOY_wait_late_in_processes) ||
           has(h, TOY_wait_late_ping);
}

/* Whether wait() compares at this turn: a sound one does so at every turn. */
static bool compares(struct handle *h, uint64_t subscribed, unsigned turn)
{
    if (has(h, TOY_wait_no_compare))
        return false;
    if (has(h, TOY_wait_own_process))
        return turn == 0 || h->own_changes;
    if (late_to_subscribe(h))
        return turn == 0 || atomic_load(&h->file->changes) != subscribed;
    return true;
}

static enum tenure_status toy_wait(void *impl, const struct tenure_watch *watches, size_t n,
                                   int wake_fd, int64_t deadline, struct tenure_error *err)
{
    struct handle *h = impl;
    uint64_t subscribed = 0;

    for (unsigned turn = 0;; turn++) {
        struct pollfd wake = {.fd = wake_fd, .events = POLLIN};
        char byte;

        if (has(h, TOY_wait_never_sleeps))
            return TENURE_OK;
        if (compares(h, subscribed, turn) && changed(h, watches, n))
            return TENURE_OK;
        if (turn == 0) {
            if (late_to_subscribe(h))
                nap(300);
            subscribed = atomic_load(&h->file->changes);
        }
        if (tenure_now() >= deadline || (has(h, TOY_wait_times_out_early) && turn == 3))
            return tenure_fail(err, TENURE_TIMEOUT, "toy: nothing changed");
        if (poll(&wake, 1, 0) == 1 && !has(h, TOY_wait_not_cancelled)) {
            if (has(h, TOY_wait_drains) && read(wake_fd, &byte, 1) < 0)
                return tenure_fail(err, TENURE_UNAVAILABLE, "toy: read");
            return tenure_fail(err, TENURE_CANCELLED, "toy: cancelled");
        }
        nap(200);
    }
}

/* ---- Listing ------------------------------------------------------------- */

static int by_key(const void *a, const void *b)
{
    return strcmp((*(struct reg *const *)a)->key, (*(struct reg *const *)b)->key);
}

static bool under(const struct handle *h, const char *key, const char *prefix)
{
    size_t n = strlen(prefix);

    if (strncmp(key, prefix, n) != 0)
        return false;
    return !has(h, TOY_list_by_segment) || n == 0 || prefix[n - 1] == '/' || key[n] == '/' ||
           key[n] == '\0';
}

static size_t gather(struct handle *h, const char *prefix, const char *after, struct reg **found)
{
    size_t n = 0;

    for (unsigned i = 0; i < REGS_MAX && h->file->regs[i].key[0]; i++) {
        struct reg *r = &h->file->regs[i];
        int order = after ? strcmp(r->key, after) : 1;

        if (!under(h, r->key, prefix) || order < (has(h, TOY_list_inclusive) ? 0 : 1))
            continue;
        if (!place_of(r) || (has(h, TOY_list_no_tombstones) && place_of(r)->tombstone) ||
            (has(h, TOY_list_one_page) && n == 100) ||
            (has(h, TOY_list_skips_changed) && i == h->file->changed_last))
            continue;
        found[n++] = r;
    }
    if (!has(h, TOY_list_unsorted))
        qsort(found, n, sizeof(struct reg *), by_key);
    return n;
}

static enum tenure_status toy_list(void *impl, const char *prefix, const char *after,
                                   tenure_visit_fn visit, void *arg,
                                   char mark[TENURE_VERSION_MAX + 1], int64_t deadline,
                                   struct tenure_error *err)
{
    struct handle *h = impl;
    struct reg **found = calloc(REGS_MAX, sizeof(struct reg *));
    struct tenure_value value = {0};
    enum tenure_status status = TENURE_OK;
    bool more = true;

    (void)deadline;
    if (!found)
        return tenure_fail(err, TENURE_NOMEM, "toy: out of memory");
    lock(h);
    if (mark)
        snprintf(mark, TENURE_VERSION_MAX + 1, "%llu",
                 (unsigned long long)atomic_load(&h->file->changes));
    size_t n = gather(h, prefix, after, found);
    for (size_t i = 0; i < n && more && !status; i++) {
        status = copy_out(place_of(found[i]), &value, err);
        if (!status)
            more = visit(arg, found[i]->key, &value) || has(h, TOY_list_never_stops);
    }
    unlock(h);
    tenure_value_free(&value);
    free(found);
    return status;
}

/* Numbers begin again, as they do where a row or a node is made anew; nonces do not. */
static void clear(struct handle *h, struct reg *r)
{
    memset(r->places, 0, sizeof r->places);
    r->number = 0;
    atomic_fetch_add(&h->file->changes, 1);
}

static enum tenure_status toy_purge(void *impl, struct tenure_swap *swap, int64_t deadline,
                                    struct tenure_error *err)
{
    struct handle *h = impl;

    (void)deadline;
    lock(h);
    struct reg *r = find(h, swap->key, false);
    const struct place *p = place_of(r);
    bool matches =
        p && (has(h, TOY_purge_by_version) ? strcmp(p->token.version, swap->expect.version) == 0
                                           : tenure_token_equal(&p->token, &swap->expect));
    swap->status = TENURE_OK;
    if (!matches)
        swap->status = tenure_fail(err, TENURE_CONFLICT, "toy: %s has changed", swap->key);
    else if (!has(h, TOY_purge_not_applied))
        clear(h, r);
    for (unsigned i = 0; matches && has(h, TOY_purge_neighbours) && i < REGS_MAX; i++) {
        if (strncmp(h->file->regs[i].key, swap->key, strlen(swap->key)) == 0)
            clear(h, &h->file->regs[i]);
    }
    unlock(h);
    return swap->status;
}

const struct tenure_store_ops toy_store = {
    .abi = TENURE_STORE_ABI,
    .scheme = "toy",
    .open = toy_open,
    .close = toy_close,
    .info = toy_info,
    .read = toy_read,
    .swap = toy_swap,
    .swap_many = toy_swap_many,
    .wait = toy_wait,
    .list = toy_list,
    .read_many = toy_read_many,
    .purge = toy_purge,
};

/* As a module, tenure-store-toy.so, this is what tenure looks for. */
extern const struct tenure_store_ops *const tenure_store_module[];
TENURE_API const struct tenure_store_ops *const tenure_store_module[] = {&toy_store, NULL};
