/*
 * store_cycles URL N [batch] - how fast a store's registers are, on any URL.
 * store_cycles URL turns - a cycle at each line of standard input (turns.h).
 *
 *   cycles   acquire + release: two swaps on one register, each on the token
 *            that the one before left; N of them
 *   renewals swaps on one register; N of them
 *   reads    of that register; N of them
 *   batch    one swap_many over `batch` registers (default 10,000; 0: none),
 *            after a first one that creates them; the median of five
 *
 * Values are 300 bytes, about what a lease record takes.  One line a figure,
 * "name value unit", for scripts to read.  Public headers only.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tenure/store.h"
#include "turns.h"

#define RECORD  300
#define LIMIT   INT64_C(10000000000) /* one request may take so long, in nanoseconds */
#define REPEATS 5

static char record[RECORD];
/* kube: writes the fields of a record where Kubernetes has them. */
static const char lease[] =
    "{\"holder\":\"bench\",\"epoch\":1794795325090,\"ttl_ms\":15000,\"incarnation\":"
    "\"0123456789abcdef0123456789abcdef\",\"grant\":\"0123456789abcdef0123456789abcdef\"}";

static void die(const char *doing, enum tenure_status status, const struct tenure_error *err)
{
    fprintf(stderr, "store_cycles: %s: %s: %s\n", doing, tenure_status_word(status), err->text);
    exit(1);
}

static void fresh(uint8_t nonce[TENURE_NONCE_SIZE])
{
    struct tenure_error err;
    enum tenure_status status = tenure_nonce(nonce, &err);

    if (status)
        die("nonce", status, &err);
}

static void swap_once(tenure_store *store, const char *key, struct tenure_token *token)
{
    struct tenure_swap swap = {.key = key, .expect = *token, .data = record, .len = sizeof record};
    struct tenure_error err = {0};

    fresh(swap.nonce);
    enum tenure_status status = tenure_store_swap(store, &swap, tenure_now() + LIMIT, &err);
    if (status)
        die("swap", status, &err);
    *token = swap.token;
}

struct turn {
    tenure_store *store;
    const char *key;
    struct tenure_token token;
};

static void swap_turn(void *arg)
{
    struct turn *t = arg;

    swap_once(t->store, t->key, &t->token);
}

static void tell_rate(const char *name, long n, int64_t from)
{
    printf("%s %.0f per_second\n", name, (double)n * 1e9 / (double)(tenure_now() - from));
}

static void singles(tenure_store *store, const char *key, long n)
{
    struct tenure_token token = {0};
    struct tenure_value value = {0};
    struct tenure_error err = {0};

    swap_once(store, key, &token);
    int64_t from = tenure_now();
    for (long i = 0; i < n; i++) {
        swap_once(store, key, &token);
        swap_once(store, key, &token);
    }
    tell_rate("cycles", n, from);
    from = tenure_now();
    for (long i = 0; i < n; i++)
        swap_once(store, key, &token);
    tell_rate("renewals", n, from);
    from = tenure_now();
    for (long i = 0; i < n; i++) {
        enum tenure_status status =
            tenure_store_read(store, key, &value, tenure_now() + LIMIT, &err);
        if (status)
            die("read", status, &err);
    }
    tell_rate("reads", n, from);
    tenure_value_free(&value);
}

static int64_t batch_once(tenure_store *store, struct tenure_swap *swaps, size_t n)
{
    struct tenure_error err = {0};

    for (size_t i = 0; i < n; i++) {
        swaps[i].expect = swaps[i].token;
        fresh(swaps[i].nonce);
    }
    int64_t from = tenure_now();
    enum tenure_status status =
        tenure_store_swap_many(store, swaps, n, tenure_now() + 6 * LIMIT, &err);
    int64_t took = tenure_now() - from;
    if (status)
        die("batch", status, &err);
    for (size_t i = 0; i < n; i++) {
        if (swaps[i].status)
            die(swaps[i].key, swaps[i].status, &err);
    }
    return took;
}

static int by_size(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return (x > y) - (x < y);
}

static void batches(tenure_store *store, const char *prefix, size_t n)
{
    struct tenure_swap *swaps = calloc(n, sizeof *swaps);
    char(*keys)[64] = calloc(n, sizeof *keys);
    int64_t took[REPEATS];

    if (!swaps || !keys) {
        fputs("store_cycles: out of memory\n", stderr);
        exit(1);
    }
    for (size_t i = 0; i < n; i++) {
        snprintf(keys[i], sizeof keys[i], "%s/batch/%06zu", prefix, i);
        swaps[i].key = keys[i];
        swaps[i].data = record;
        swaps[i].len = sizeof record;
    }
    printf("batch_create %.2f ms\n", (double)batch_once(store, swaps, n) / 1e6);
    for (int i = 0; i < REPEATS; i++)
        took[i] = batch_once(store, swaps, n);
    qsort(took, REPEATS, sizeof *took, by_size);
    printf("batch_swap %.2f ms\n", (double)took[REPEATS / 2] / 1e6);
    free(swaps);
    free(keys);
}

int main(int argc, char **argv)
{
    struct tenure_error err = {0};
    tenure_store *store = NULL;
    uint8_t nonce[TENURE_NONCE_SIZE];
    char prefix[32], key[64];

    bool by_turns = argc == 3 && strcmp(argv[2], "turns") == 0;
    if (argc < 3 || argc > 4 || (!by_turns && atol(argv[2]) < 1)) {
        fputs("usage: store_cycles URL N [batch] | URL turns\n", stderr);
        return 2;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    memset(record, ' ', sizeof record);
    memcpy(record, lease, strlen(lease));
    enum tenure_status status = tenure_store_open(argv[1], tenure_now() + LIMIT, &store, &err);
    if (status)
        die("open", status, &err);
    fresh(nonce); /* registers of its own in every run */
    snprintf(prefix, sizeof prefix, "bench-%02x%02x%02x%02x", nonce[0], nonce[1], nonce[2],
             nonce[3]);
    snprintf(key, sizeof key, "%s/lease", prefix);
    if (by_turns) {
        struct turn turn = {.store = store, .key = key};

        swap_turn(&turn);
        turns(swap_turn, &turn);
    } else {
        singles(store, key, atol(argv[2]));
        size_t batch = argc == 4 ? strtoul(argv[3], NULL, 10) : 10000;
        if (batch)
            batches(store, prefix, batch);
    }
    tenure_store_close(store);
    return 0;
}
