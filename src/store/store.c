/*
 * Stores by URL: the table of schemes, the modules that hold them, and the
 * checks that every back end may rely on.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/options.h"
#include "os/module.h"
#include "store/batch.h"
#include "store/builtin.h"
#include "store/modules.h"
#include "store/reads.h"
#include "store/term.h"
#include "tenure/store.h"

#define SCHEME_MAX  40 /* bytes in the name of a stranger's scheme */
#define SCHEMES_MAX 32

struct tenure_store {
    const struct tenure_store_ops *ops;
    void *impl;
    struct tenure_store_info info;
    struct tn_batch_pace pace;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static const struct tenure_store_ops *schemes[SCHEMES_MAX] = {
    &tn_store_noop,
    &tn_store_memory,
    &tn_store_file,
};
static unsigned n_schemes = 3;

/* ---- Schemes ------------------------------------------------------------- */

static const struct tenure_store_ops *find(const char *scheme)
{
    for (unsigned i = 0; i < n_schemes; i++) {
        if (strcmp(schemes[i]->scheme, scheme) == 0)
            return schemes[i];
    }
    return NULL;
}

static enum tenure_status add(const struct tenure_store_ops *ops, struct tenure_error *err)
{
    if (!ops || ops->abi != TENURE_STORE_ABI)
        return tenure_fail(err, TENURE_INVALID, "store table is for another version of tenure");
    if (!ops->scheme || !ops->open || !ops->close || !ops->info || !ops->read || !ops->swap ||
        !ops->wait || !ops->list)
        return tenure_fail(err, TENURE_INVALID, "store table lacks a required function");
    if (find(ops->scheme))
        return tenure_fail(err, TENURE_INVALID, "a store '%s:' is known already", ops->scheme);
    if (n_schemes == SCHEMES_MAX)
        return tenure_fail(err, TENURE_INVALID, "more than %d store schemes", SCHEMES_MAX);
    schemes[n_schemes++] = ops;
    return TENURE_OK;
}

enum tenure_status tenure_store_register(const struct tenure_store_ops *ops,
                                         struct tenure_error *err)
{
    pthread_mutex_lock(&lock);
    enum tenure_status status = add(ops, err);
    pthread_mutex_unlock(&lock);
    return status;
}

enum tenure_status tenure_store_module_dir(const char *dir, struct tenure_error *err)
{
    return tn_module_dir(dir, err);
}

/*
 * Load the module that serves scheme.  package is what to install for it; NULL:
 * the module is a stranger's, and that there is none is not an error.
 */
static enum tenure_status load(const char *scheme, const char *module, const char *package,
                               struct tenure_error *err)
{
    char file[SCHEME_MAX + 32];
    void *symbol = NULL;
    bool missing = false;

    snprintf(file, sizeof file, "tenure-store-%s.so", module);
    enum tenure_status status = tn_module_load(file, "tenure_store_module", &symbol, &missing, err);
    if (missing && !package)
        return TENURE_OK;
    if (missing)
        return tenure_fail(err, TENURE_UNSUPPORTED,
                           "store '%s:' is not in this build: %s was not found; install %s", scheme,
                           file, package);
    /* One module may serve several schemes: a list that ends with NULL. */
    const struct tenure_store_ops *const *ops = symbol;
    for (; !status && *ops; ops++) {
        if (!find((*ops)->scheme))
            status = add(*ops, err);
    }
    if (status)
        tenure_fail_context(err, "store '%s:' needs %s", scheme, package ? package : file);
    return status;
}

static void known_schemes(char *out, size_t size)
{
    size_t used = 0;

    out[0] = '\0';
    for (unsigned i = 0; i < n_schemes && used < size; i++)
        used += (size_t)snprintf(out + used, size - used, "%s%s:", used ? ", " : "",
                                 schemes[i]->scheme);
    for (size_t i = 0; i < sizeof modules / sizeof modules[0] && used < size; i++) {
        if (!find(modules[i].scheme))
            used += (size_t)snprintf(out + used, size - used, ", %s:", modules[i].scheme);
    }
}

static enum tenure_status lookup(const char *scheme, const struct tenure_store_ops **ops,
                                 struct tenure_error *err)
{
    enum tenure_status status = TENURE_OK;
    char names[256];

    pthread_mutex_lock(&lock);
    *ops = find(scheme);
    for (size_t i = 0; !*ops && i < sizeof modules / sizeof modules[0]; i++) {
        if (strcmp(modules[i].scheme, scheme) != 0)
            continue;
        status = load(scheme, modules[i].module, modules[i].package, err);
        if (status)
            goto done;
        *ops = find(scheme);
    }
    if (!*ops && strlen(scheme) <= SCHEME_MAX) {
        status = load(scheme, scheme, NULL, err);
        if (status)
            goto done;
        *ops = find(scheme);
    }
    if (!*ops) {
        known_schemes(names, sizeof names);
        status = tenure_fail(err, TENURE_CONFIG, "no store is called '%.40s:'; known are %s",
                             scheme, names);
    }
done:
    pthread_mutex_unlock(&lock);
    return status;
}

static enum tenure_status lookup_url(const char *url, const struct tenure_store_ops **ops,
                                     struct tenure_error *err)
{
    struct tn_url parsed = {0};
    enum tenure_status status = tn_url_parse(url, &parsed, err);

    if (!status)
        status = lookup(parsed.scheme, ops, err);
    tn_url_free(&parsed);
    return status;
}

/* ---- Handles ------------------------------------------------------------- */

enum tenure_status tenure_store_open(const char *url, int64_t deadline, tenure_store **store,
                                     struct tenure_error *err)
{
    struct tenure_error scratch;
    tenure_store *s = calloc(1, sizeof *s);
    enum tenure_status status;

    if (!err)
        err = &scratch;
    if (!s)
        return tenure_fail(err, TENURE_NOMEM, "out of memory");
    status = lookup_url(url, &s->ops, err);
    if (!status)
        status = s->ops->open(url, deadline, &s->impl, err);
    if (status) {
        free(s);
        return status;
    }
    s->info.data_max = TENURE_DATA_MAX;
    s->info.batch_max = 1;
    s->ops->info(s->impl, &s->info);
    *store = s;
    return TENURE_OK;
}

enum tenure_status tenure_store_known(const char *url, struct tenure_error *err)
{
    const struct tenure_store_ops *ops;

    return lookup_url(url, &ops, err);
}

enum tenure_status tenure_store_options(const char *url, char **text, struct tenure_error *err)
{
    const struct tenure_store_ops *ops = NULL;
    size_t size = 0;
    enum tenure_status status = lookup_url(url, &ops, err);
    FILE *to = status ? NULL : open_memstream(text, &size);

    if (!to)
        return status ? status : tenure_fail(err, TENURE_NOMEM, "out of memory");
    if (ops->options)
        tn_options_print(ops->options, ops->scheme, to);
    if (fclose(to) == 0)
        return TENURE_OK;
    free(*text);
    return tenure_fail(err, TENURE_NOMEM, "out of memory");
}

void tenure_store_close(tenure_store *store)
{
    if (!store)
        return;
    store->ops->close(store->impl);
    free(store);
}

const struct tenure_store_info *tenure_store_info(const tenure_store *store)
{
    return &store->info;
}

/* ---- Calls --------------------------------------------------------------- */

static enum tenure_status check_key(const char *key, struct tenure_error *err)
{
    if (tenure_key_valid(key))
        return TENURE_OK;
    return tenure_fail(err, TENURE_INVALID,
                       "'%.60s' is not a key: use letters, digits, '.', '_' and '-', in segments "
                       "divided by '/'",
                       key ? key : "");
}

static enum tenure_status check_swap(const tenure_store *s, const struct tenure_swap *swap,
                                     struct tenure_error *err)
{
    static const uint8_t zero[TENURE_NONCE_SIZE];
    enum tenure_status status = check_key(swap->key, err);

    if (status)
        return status;
    if (memcmp(swap->nonce, zero, sizeof zero) == 0)
        return tenure_fail(err, TENURE_INVALID, "%s: a swap needs a nonce", swap->key);
    if (memchr(swap->expect.version, '\0', sizeof swap->expect.version) == NULL)
        return tenure_fail(err, TENURE_INVALID, "%s: the expected version does not end", swap->key);
    if (swap->len > s->info.data_max)
        return tenure_fail(err, TENURE_INVALID, "%s: %zu bytes are more than the %u that %s: holds",
                           swap->key, swap->len, s->info.data_max, s->info.scheme);
    return TENURE_OK;
}

enum tenure_status tenure_store_read(tenure_store *s, const char *key, struct tenure_value *value,
                                     int64_t deadline, struct tenure_error *err)
{
    struct tenure_error scratch;
    enum tenure_status status = check_key(key, err ? err : &scratch);

    return status ? status : s->ops->read(s->impl, key, value, deadline, err ? err : &scratch);
}

enum tenure_status tenure_store_read_many(tenure_store *s, struct tenure_read *reads, size_t n,
                                          int64_t deadline, struct tenure_error *err)
{
    struct tenure_error scratch;
    enum tenure_status status = TENURE_OK;

    if (!err)
        err = &scratch;
    for (size_t i = 0; i < n && !status; i++)
        status = check_key(reads[i].key, err);
    if (!status)
        return tn_reads_run(s->ops, s->impl, reads, n, deadline, err);
    for (size_t i = 0; i < n; i++)
        reads[i].status = status;
    return status;
}

enum tenure_status tenure_store_swap(tenure_store *s, struct tenure_swap *swap, int64_t deadline,
                                     struct tenure_error *err)
{
    struct tenure_error scratch;

    if (!err)
        err = &scratch;
    swap->status = check_swap(s, swap, err);
    if (!swap->status)
        swap->status = s->ops->swap(s->impl, swap, deadline, err);
    return swap->status;
}

static int by_key(const void *a, const void *b)
{
    return strcmp(((const struct tenure_swap *)a)->key, ((const struct tenure_swap *)b)->key);
}

/* Sorts, and refuses what makes no sense before anything is sent. */
static enum tenure_status check_batch(const tenure_store *s, struct tenure_swap *swaps, size_t n,
                                      struct tenure_error *err)
{
    bool sorted = true; /* most are, strictly: then there is nothing to do, and no key twice */

    for (size_t i = 0; i < n; i++) {
        enum tenure_status status = check_swap(s, &swaps[i], err);

        if (status)
            return status;
        sorted = sorted && (i == 0 || by_key(&swaps[i - 1], &swaps[i]) < 0);
    }
    if (sorted)
        return TENURE_OK;
    qsort(swaps, n, sizeof *swaps, by_key);
    for (size_t i = 1; i < n; i++) {
        if (strcmp(swaps[i - 1].key, swaps[i].key) == 0)
            return tenure_fail(err, TENURE_INVALID, "%s: twice in one batch", swaps[i].key);
    }
    return TENURE_OK;
}

enum tenure_status tenure_store_swap_many(tenure_store *s, struct tenure_swap *swaps, size_t n,
                                          int64_t deadline, struct tenure_error *err)
{
    struct tenure_error scratch;
    enum tenure_status status;

    if (!err)
        err = &scratch;
    status = check_batch(s, swaps, n, err);
    /* A refused batch was not sent; of the others nothing is known until they are answered. */
    for (size_t i = 0; i < n; i++)
        swaps[i].status = status ? status : TENURE_UNKNOWN;
    if (status)
        return status;
    if (s->ops->swap_many && n)
        return tn_batch_run(&s->info, &s->pace, s->ops->swap_many, s->impl, swaps, n, deadline,
                            err);
    for (size_t i = 0; i < n; i++) {
        if (tenure_now() >= deadline) {
            swaps[i].status = TENURE_TIMEOUT;
            status = tenure_fail(err, TENURE_TIMEOUT, "the deadline passed after %zu of %zu swaps",
                                 i, n);
            continue;
        }
        swaps[i].status = s->ops->swap(s->impl, &swaps[i], deadline, err);
    }
    return status;
}

enum tenure_status tenure_store_erase(tenure_store *s, const char *key,
                                      const struct tenure_token *expect,
                                      const uint8_t nonce[TENURE_NONCE_SIZE],
                                      struct tenure_token *token, int64_t deadline,
                                      struct tenure_error *err)
{
    struct tenure_swap swap = {.key = key, .expect = *expect, .tombstone = true};

    memcpy(swap.nonce, nonce, TENURE_NONCE_SIZE);
    enum tenure_status status = tenure_store_swap(s, &swap, deadline, err);
    if (status == TENURE_OK && token)
        *token = swap.token;
    return status;
}

/* A token names one value for ever (C2), so who has read it knows; a back end need not ask. */
static enum tenure_status refuse_living(tenure_store *s, const struct tenure_swap *swap,
                                        int64_t deadline, struct tenure_error *err)
{
    struct tenure_value value = {0};
    enum tenure_status status = tenure_store_read(s, swap->key, &value, deadline, err);

    if (!status && !value.tombstone && tenure_token_equal(&value.token, &swap->expect))
        status = tenure_fail(err, TENURE_CONFLICT, "%s is no tombstone", swap->key);
    tenure_value_free(&value);
    return status;
}

bool tenure_store_purges(const tenure_store *s)
{
    return s->ops->purge != NULL;
}

enum tenure_status tenure_store_purge(tenure_store *s, const char *key,
                                      const struct tenure_token *tombstone, int64_t deadline,
                                      struct tenure_error *err)
{
    struct tenure_error scratch;

    if (!err)
        err = &scratch;
    /* The nonce is never written; a back end may still ask for one. */
    struct tenure_swap swap = {.key = key, .expect = *tombstone, .nonce = {1}, .tombstone = true};
    enum tenure_status status = check_swap(s, &swap, err);

    if (!status && !s->ops->purge)
        status = tenure_fail(err, TENURE_UNSUPPORTED, "%s: keeps tombstones", s->info.scheme);
    if (!status && tenure_token_absent(tombstone))
        status = tenure_fail(err, TENURE_INVALID, "%s: absence cannot be deleted", key);
    if (!status)
        status = refuse_living(s, &swap, deadline, err);
    return status ? status : s->ops->purge(s->impl, &swap, deadline, err);
}

enum tenure_status tn_store_begin(tenure_store *s, const struct tenure_grant *grant,
                                  uint64_t *floor, int64_t deadline, struct tenure_error *err)
{
    if (strcmp(s->ops->scheme, TN_TERM_SCHEME) != 0)
        return tenure_fail(err, TENURE_UNSUPPORTED, "%s: has no terms of its own", s->info.scheme);
    return ((const struct tn_term_ops *)s->ops)->begin(s->impl, grant, floor, deadline, err);
}

enum tenure_status tenure_store_wait(tenure_store *s, const struct tenure_watch *watches, size_t n,
                                     int wake_fd, int64_t deadline, struct tenure_error *err)
{
    struct tenure_error scratch;

    if (!err)
        err = &scratch;
    if (n > TENURE_WATCH_MAX)
        return tenure_fail(err, TENURE_INVALID, "%zu watches; at most %d", n, TENURE_WATCH_MAX);
    for (size_t i = 0; i < n; i++) {
        if (watches[i].prefix ? !tenure_prefix_valid(watches[i].key)
                              : !tenure_key_valid(watches[i].key))
            return tenure_fail(err, TENURE_INVALID, "'%.60s' cannot be watched: not a %s",
                               watches[i].key ? watches[i].key : "",
                               watches[i].prefix ? "prefix" : "key");
    }
    return s->ops->wait(s->impl, watches, n, wake_fd, deadline, err);
}

enum tenure_status tenure_store_list(tenure_store *s, const char *prefix, const char *after,
                                     tenure_visit_fn visit, void *arg,
                                     char mark[TENURE_VERSION_MAX + 1], int64_t deadline,
                                     struct tenure_error *err)
{
    struct tenure_error scratch;

    if (!err)
        err = &scratch;
    if (!tenure_prefix_valid(prefix))
        return tenure_fail(err, TENURE_INVALID, "'%.60s' is not a prefix", prefix ? prefix : "");
    return s->ops->list(s->impl, prefix, after, visit, arg, mark, deadline, err);
}
