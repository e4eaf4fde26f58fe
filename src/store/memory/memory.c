/*
 * memory:NAME - registers in this process; handles with one NAME share them.
 * noop:       - the same, but private to the handle: whoever asks, leads.
 *
 * The contract's plainest reading, and the model that other stores are
 * compared with.  Nothing outlives the process.
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/grow.h"
#include "store/builtin.h"
#include "store/sleep.h"

struct reg {
    char *key;
    struct tenure_value value;
    uint64_t number;
};

struct space {
    struct space *next;
    char *name; /* NULL: private (noop:) */
    unsigned users;
    pthread_mutex_t lock;
    struct reg **regs; /* sorted by key */
    size_t n_regs, cap_regs;
    struct handle *handles; /* to wake on a change */
    uint64_t changes;
};

struct handle {
    struct space *space;
    struct handle *next;
    int fd; /* eventfd, readable after a change */
    bool noop;
};

static pthread_mutex_t spaces_lock = PTHREAD_MUTEX_INITIALIZER;
static struct space *spaces;

static struct space *space_new(const char *name)
{
    struct space *s = calloc(1, sizeof *s);

    if (!s)
        return NULL;
    if (name && !(s->name = strdup(name))) {
        free(s);
        return NULL;
    }
    pthread_mutex_init(&s->lock, NULL);
    return s;
}

static void space_free(struct space *s)
{
    for (size_t i = 0; i < s->n_regs; i++) {
        tenure_value_free(&s->regs[i]->value);
        free(s->regs[i]->key);
        free(s->regs[i]);
    }
    free(s->regs);
    pthread_mutex_destroy(&s->lock);
    free(s->name);
    free(s);
}

/* The named space, made if need be; one more user of it. */
static struct space *space_get(const char *name)
{
    struct space *s;

    pthread_mutex_lock(&spaces_lock);
    for (s = spaces; s && strcmp(s->name, name) != 0; s = s->next)
        continue;
    if (!s && (s = space_new(name))) {
        s->next = spaces;
        spaces = s;
    }
    if (s)
        s->users++;
    pthread_mutex_unlock(&spaces_lock);
    return s;
}

static void space_put(struct space *s)
{
    struct space **link = &spaces;

    if (!s->name) {
        space_free(s);
        return;
    }
    pthread_mutex_lock(&spaces_lock);
    if (--s->users == 0) {
        while (*link != s)
            link = &(*link)->next;
        *link = s->next;
        space_free(s);
    }
    pthread_mutex_unlock(&spaces_lock);
}

static enum tenure_status open_space(struct space *space, bool noop, void **impl,
                                     struct tenure_error *err)
{
    struct handle *h = calloc(1, sizeof *h);
    int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);

    if (!space || !h || fd < 0) {
        if (space)
            space_put(space);
        free(h);
        if (fd >= 0)
            close(fd);
        return tenure_fail(err, TENURE_NOMEM, "memory: out of memory or descriptors");
    }
    h->space = space;
    h->fd = fd;
    h->noop = noop;
    pthread_mutex_lock(&space->lock);
    h->next = space->handles;
    space->handles = h;
    pthread_mutex_unlock(&space->lock);
    *impl = h;
    return TENURE_OK;
}

static enum tenure_status memory_open(const char *url, int64_t deadline, void **impl,
                                      struct tenure_error *err)
{
    (void)deadline;
    return open_space(space_get(url + strlen("memory:")), false, impl, err);
}

static enum tenure_status noop_open(const char *url, int64_t deadline, void **impl,
                                    struct tenure_error *err)
{
    (void)deadline;
    if (strcmp(url, "noop:") != 0)
        return tenure_fail(err, TENURE_CONFIG, "noop: takes no path and no parameters");
    return open_space(space_new(NULL), true, impl, err);
}

static void memory_close(void *impl)
{
    struct handle *h = impl;
    struct handle **link = &h->space->handles;

    pthread_mutex_lock(&h->space->lock);
    while (*link != h)
        link = &(*link)->next;
    *link = h->next;
    pthread_mutex_unlock(&h->space->lock);
    space_put(h->space);
    close(h->fd);
    free(h);
}

static void memory_info(void *impl, struct tenure_store_info *info)
{
    struct handle *h = impl;

    info->scheme = h->noop ? "noop" : "memory";
    info->promise = h->noop ? "always leader: nothing is shared and nothing excludes anybody"
                            : "lives in one process and ends with it; for tests and threads";
    info->notifies = true;
    info->batch_max = 1000;
}

/* The place of the first register whose key is not below this one. */
static size_t place(const struct space *s, const char *key)
{
    size_t low = 0, high = s->n_regs;

    while (low < high) {
        size_t middle = (low + high) / 2;

        if (strcmp(s->regs[middle]->key, key) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static struct reg *lookup(const struct space *s, const char *key)
{
    size_t at = place(s, key);

    return at < s->n_regs && strcmp(s->regs[at]->key, key) == 0 ? s->regs[at] : NULL;
}

static enum tenure_status copy_out(const struct reg *r, struct tenure_value *value,
                                   struct tenure_error *err)
{
    static const struct tenure_token absent;
    enum tenure_status status =
        tenure_value_set(value, r ? r->value.data : NULL, r ? r->value.len : 0, err);

    if (status)
        return status;
    value->token = r ? r->value.token : absent;
    value->tombstone = r && r->value.tombstone;
    if (r)
        memcpy(value->prev, r->value.prev, TENURE_NONCE_SIZE);
    else
        memset(value->prev, 0, TENURE_NONCE_SIZE);
    return TENURE_OK;
}

static enum tenure_status memory_read(void *impl, const char *key, struct tenure_value *value,
                                      int64_t deadline, struct tenure_error *err)
{
    struct handle *h = impl;

    (void)deadline;
    pthread_mutex_lock(&h->space->lock);
    enum tenure_status status = copy_out(lookup(h->space, key), value, err);
    pthread_mutex_unlock(&h->space->lock);
    return status;
}

static enum tenure_status memory_read_many(void *impl, struct tenure_read *reads, size_t n,
                                           size_t *done, int64_t deadline, struct tenure_error *err)
{
    struct handle *h = impl;
    enum tenure_status status = TENURE_OK;

    (void)deadline;
    pthread_mutex_lock(&h->space->lock);
    for (*done = 0; *done < n && *done < 1000 && !status; ++*done)
        status = reads[*done].status =
            copy_out(lookup(h->space, reads[*done].key), &reads[*done].value, err);
    pthread_mutex_unlock(&h->space->lock);
    return status;
}

/* A new register at its place in the order; its value is still absent. */
static struct reg *insert(struct space *s, const char *key)
{
    struct reg *r = calloc(1, sizeof *r);
    size_t at = place(s, key);

    if (!r || !tn_grow(&s->regs, &s->cap_regs, s->n_regs, sizeof(struct reg *)) ||
        !(r->key = strdup(key))) {
        free(r);
        return NULL;
    }
    memmove(s->regs + at + 1, s->regs + at, (s->n_regs - at) * sizeof *s->regs);
    s->regs[at] = r;
    s->n_regs++;
    return r;
}

static void remove_reg(struct space *s, struct reg *r)
{
    size_t at = place(s, r->key);

    s->n_regs--;
    memmove(s->regs + at, s->regs + at + 1, (s->n_regs - at) * sizeof *s->regs);
    free(r->key);
    free(r);
}

static void wake_all(struct space *s)
{
    uint64_t one = 1;

    s->changes++;
    for (struct handle *h = s->handles; h; h = h->next) {
        if (write(h->fd, &one, sizeof one) < 0) /* full: readable all the same */
            continue;
    }
}

static enum tenure_status swap_locked(struct space *s, struct tenure_swap *swap,
                                      struct tenure_error *err)
{
    static const struct tenure_token absent;
    struct reg *r = lookup(s, swap->key);
    bool created = !r;

    if (!tenure_token_equal(r ? &r->value.token : &absent, &swap->expect))
        return tenure_fail(err, TENURE_CONFLICT, "memory: %s has changed", swap->key);
    if (created && !(r = insert(s, swap->key)))
        return tenure_fail(err, TENURE_NOMEM, "memory: out of memory");
    enum tenure_status status = tenure_value_set(&r->value, swap->data, swap->len, err);
    if (status) {
        if (created)
            remove_reg(s, r);
        return status;
    }
    memcpy(r->value.prev, r->value.token.nonce, TENURE_NONCE_SIZE);
    memcpy(r->value.token.nonce, swap->nonce, TENURE_NONCE_SIZE);
    snprintf(r->value.token.version, sizeof r->value.token.version, "%llu",
             (unsigned long long)++r->number);
    r->value.tombstone = swap->tombstone;
    swap->token = r->value.token;
    wake_all(s);
    return TENURE_OK;
}

static enum tenure_status memory_swap(void *impl, struct tenure_swap *swap, int64_t deadline,
                                      struct tenure_error *err)
{
    struct handle *h = impl;

    (void)deadline;
    pthread_mutex_lock(&h->space->lock);
    swap->status = swap_locked(h->space, swap, err);
    pthread_mutex_unlock(&h->space->lock);
    return swap->status;
}

static enum tenure_status memory_purge(void *impl, struct tenure_swap *swap, int64_t deadline,
                                       struct tenure_error *err)
{
    struct handle *h = impl;

    (void)deadline;
    pthread_mutex_lock(&h->space->lock);
    struct reg *r = lookup(h->space, swap->key);
    swap->status = TENURE_OK;
    if (r && r->value.tombstone && tenure_token_equal(&r->value.token, &swap->expect)) {
        tenure_value_free(&r->value);
        remove_reg(h->space, r);
        wake_all(h->space);
    } else {
        swap->status = tenure_fail(err, TENURE_CONFLICT, "memory: %s has changed", swap->key);
    }
    pthread_mutex_unlock(&h->space->lock);
    return swap->status;
}

/* The mark of a prefix is the count of all changes: a spurious return is allowed. */
static bool changed(struct space *s, const struct tenure_watch *watches, size_t n)
{
    static const struct tenure_token absent;
    char mark[TENURE_VERSION_MAX + 1];
    bool any = false;

    pthread_mutex_lock(&s->lock);
    snprintf(mark, sizeof mark, "%llu", (unsigned long long)s->changes);
    for (size_t i = 0; i < n && !any; i++) {
        if (watches[i].prefix) {
            any = strcmp(watches[i].mark, mark) != 0;
        } else {
            struct reg *r = lookup(s, watches[i].key);
            any = !tenure_token_equal(r ? &r->value.token : &absent, &watches[i].seen);
        }
    }
    pthread_mutex_unlock(&s->lock);
    return any;
}

static enum tenure_status memory_wait(void *impl, const struct tenure_watch *watches, size_t n,
                                      int wake_fd, int64_t deadline, struct tenure_error *err)
{
    struct handle *h = impl;
    uint64_t count;

    for (;;) {
        /* Empty the event first, compare second: a change between the two
         * leaves it readable again (C6). */
        if (read(h->fd, &count, sizeof count) < 0 && errno != EAGAIN)
            return tenure_fail(err, TENURE_UNAVAILABLE, "memory: %s", strerror(errno));
        if (changed(h->space, watches, n))
            return TENURE_OK;
        enum tenure_status status =
            tn_store_sleep("memory", h->fd, wake_fd, deadline, deadline, err);
        if (status)
            return status;
    }
}

/* Copies one register at a time, so that visit() runs without the lock. */
static enum tenure_status memory_list(void *impl, const char *prefix, const char *after,
                                      tenure_visit_fn visit, void *arg,
                                      char mark[TENURE_VERSION_MAX + 1], int64_t deadline,
                                      struct tenure_error *err)
{
    struct handle *h = impl;
    struct tenure_value value = {0};
    char key[TENURE_KEY_MAX + 1] = "";
    enum tenure_status status = TENURE_OK;
    bool more = true;

    (void)deadline;
    if (after)
        snprintf(key, sizeof key, "%s", after);
    pthread_mutex_lock(&h->space->lock);
    if (mark)
        snprintf(mark, TENURE_VERSION_MAX + 1, "%llu", (unsigned long long)h->space->changes);
    while (more && status == TENURE_OK) {
        size_t at = place(h->space, strcmp(key, prefix) < 0 ? prefix : key);

        if (at < h->space->n_regs && strcmp(h->space->regs[at]->key, key) == 0)
            at++; /* strictly behind the last one */
        if (at == h->space->n_regs || strncmp(h->space->regs[at]->key, prefix, strlen(prefix)) != 0)
            break;
        snprintf(key, sizeof key, "%s", h->space->regs[at]->key);
        status = copy_out(h->space->regs[at], &value, err);
        pthread_mutex_unlock(&h->space->lock);
        more = status == TENURE_OK && visit(arg, key, &value);
        pthread_mutex_lock(&h->space->lock);
    }
    pthread_mutex_unlock(&h->space->lock);
    tenure_value_free(&value);
    return status;
}

#define TABLE(symbol, name, how)                                                                   \
    const struct tenure_store_ops symbol = {                                                       \
        .abi = TENURE_STORE_ABI,                                                                   \
        .scheme = name,                                                                            \
        .open = how,                                                                               \
        .close = memory_close,                                                                     \
        .info = memory_info,                                                                       \
        .read = memory_read,                                                                       \
        .swap = memory_swap,                                                                       \
        .wait = memory_wait,                                                                       \
        .list = memory_list,                                                                       \
        .read_many = memory_read_many,                                                             \
        .purge = memory_purge,                                                                     \
    }

TABLE(tn_store_memory, "memory", memory_open);
TABLE(tn_store_noop, "noop", noop_open);
