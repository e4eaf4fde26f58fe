/*
 * Every allocation fails in turn, once and from then on: each call answers
 * NOMEM (or does without), leaves the register true to what it said, and the
 * handle as good as before.  Leaks show under the address sanitizer.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <jansson.h>

#include "oom_kit.h"
#include "store/lease_record.h"
#include "tenure/lease.h"
#include "tenure/state.h"

#define ALLOCATIONS_MAX 2000 /* in one call; more looks like a loop */

static char dir[] = "/tmp/tenure-oom-XXXXXX";

static int64_t soon(void)
{
    return tenure_now() + INT64_C(10000000000);
}

/* ---- One call, again and again --------------------------------------------- */

struct trial {
    const char *url;
    tenure_store *store;    /* open and idle */
    char key[40];           /* fresh for each try */
    struct tenure_token at; /* what `key` holds, if the call needs something there */
    struct tenure_error err;
};

struct call {
    const char *name;
    bool needs_value; /* key holds something before the call */
    bool changes;     /* UNKNOWN is an honest answer too */
    enum tenure_status normal;
    enum tenure_status (*run)(struct trial *t);
};

static struct tenure_token make(tenure_store *store, const char *key)
{
    struct tenure_swap swap = {.key = key, .data = "value", .len = 5};

    assert_int_equal(tenure_nonce(swap.nonce, NULL), TENURE_OK);
    assert_int_equal(tenure_store_swap(store, &swap, soon(), NULL), TENURE_OK);
    return swap.token;
}

/* One try with the nth allocation failing; false if there were not so many. */
static bool once(struct trial *t, const struct call *call, unsigned long n, bool sticky)
{
    static unsigned fresh;

    snprintf(t->key, sizeof t->key, "%s/%u", call->name, fresh++);
    memset(&t->at, 0, sizeof t->at);
    memset(&t->err, 0, sizeof t->err);
    if (call->needs_value)
        t->at = make(t->store, t->key);
    tn_oom_arm(n, sticky);
    enum tenure_status status = call->run(t);
    bool struck = tn_oom_disarm();

    if (status != call->normal && !(struck && status == TENURE_NOMEM) &&
        !(struck && call->changes && status == TENURE_UNKNOWN))
        fail_msg("%s %s, allocation %lu%s: '%s': %s", t->url, call->name, n,
                 sticky ? " and all after" : "", tenure_status_word(status), t->err.text);
    if (status == TENURE_NOMEM && !t->err.text[0])
        fail_msg("%s %s, allocation %lu: nomem without a word", t->url, call->name, n);
    return struck;
}

static unsigned long each(struct trial *t, const struct call *call)
{
    unsigned long failures = 0;

    for (int sticky = 0; sticky < 2; sticky++) {
        unsigned long n = 1;

        while (once(t, call, n, sticky))
            assert_true(++n < ALLOCATIONS_MAX);
        failures += n - 1;
    }
    return failures;
}

/* ---- The calls of a store -------------------------------------------------- */

static enum tenure_status call_open(struct trial *t)
{
    tenure_store *store = NULL;
    enum tenure_status status = tenure_store_open(t->url, soon(), &store, &t->err);

    assert_true((status == TENURE_OK) == (store != NULL));
    tenure_store_close(store);
    return status;
}

static enum tenure_status call_read(struct trial *t)
{
    struct tenure_value value = {0};
    enum tenure_status status = tenure_store_read(t->store, t->key, &value, soon(), &t->err);

    if (status == TENURE_OK) {
        assert_true(tenure_token_equal(&value.token, &t->at));
        assert_int_equal(value.len, tenure_token_absent(&t->at) ? 0 : 5);
    } else {
        assert_true(tenure_token_absent(&value.token));
    }
    tenure_value_free(&value);
    return status;
}

/* What was said about the swap is what is there. */
static void check(struct trial *t, const struct tenure_swap *swap)
{
    struct tenure_value value = {0};

    tn_oom_disarm();
    assert_int_equal(tenure_store_read(t->store, swap->key, &value, soon(), NULL), TENURE_OK);
    bool applied = memcmp(value.token.nonce, swap->nonce, TENURE_NONCE_SIZE) == 0;
    if (swap->status != TENURE_UNKNOWN)
        assert_int_equal(applied, swap->status == TENURE_OK);
    if (!applied)
        assert_true(tenure_token_equal(&value.token, &swap->expect));
    tenure_value_free(&value);
}

static enum tenure_status swap_with(struct trial *t, const void *data, size_t len, bool tombstone)
{
    struct tenure_swap swap = {.key = t->key, .expect = t->at, .data = data, .len = len};

    swap.tombstone = tombstone;
    assert_int_equal(tenure_nonce(swap.nonce, NULL), TENURE_OK);
    tenure_store_swap(t->store, &swap, soon(), &t->err);
    check(t, &swap);
    return swap.status;
}

static enum tenure_status call_swap(struct trial *t)
{
    static char data[20000];

    return swap_with(t, data, sizeof data, false);
}

static enum tenure_status call_erase(struct trial *t)
{
    return swap_with(t, NULL, 0, true);
}

static enum tenure_status call_batch(struct trial *t)
{
    struct tenure_swap swaps[4];
    char keys[4][60];
    enum tenure_status worst = TENURE_OK;

    for (unsigned i = 0; i < 4; i++) {
        snprintf(keys[i], sizeof keys[i], "%s/%u", t->key, 9 - i);
        swaps[i] = (struct tenure_swap){.key = keys[i], .data = "x", .len = 1};
        assert_int_equal(tenure_nonce(swaps[i].nonce, NULL), TENURE_OK);
    }
    enum tenure_status status = tenure_store_swap_many(t->store, swaps, 4, soon(), &t->err);
    for (unsigned i = 0; i < 4; i++) {
        check(t, &swaps[i]);
        worst = worst ? worst : swaps[i].status;
    }
    return status ? status : worst;
}

static bool count(void *arg, const char *key, const struct tenure_value *value)
{
    (void)key;
    (void)value;
    ++*(unsigned *)arg;
    return true;
}

static enum tenure_status call_list(struct trial *t)
{
    char mark[TENURE_VERSION_MAX + 1];
    unsigned n = 0;
    enum tenure_status status =
        tenure_store_list(t->store, "fixed/", NULL, count, &n, mark, soon(), &t->err);

    tn_oom_disarm();
    assert_true(status != TENURE_OK || n == 3);
    return status;
}

static enum tenure_status call_wait(struct trial *t)
{
    struct tenure_watch watches[2] = {{.key = t->key, .seen = t->at}, {.key = "never/written"}};

    return tenure_store_wait(t->store, watches, 2, -1, tenure_now() + 2000000, &t->err);
}

static enum tenure_status call_wait_changed(struct trial *t)
{
    struct tenure_watch watch = {.key = t->key};

    return tenure_store_wait(t->store, &watch, 1, -1, soon(), &t->err);
}

static enum tenure_status call_wait_prefix(struct trial *t)
{
    struct tenure_watch watch = {.key = "fixed/", .prefix = true, .mark = "stale"};

    return tenure_store_wait(t->store, &watch, 1, -1, soon(), &t->err);
}

static const struct call store_calls[] = {
    {"open", false, false, TENURE_OK, call_open},
    {"read", true, false, TENURE_OK, call_read},
    {"read-absent", false, false, TENURE_OK, call_read},
    {"create", false, true, TENURE_OK, call_swap},
    {"swap", true, true, TENURE_OK, call_swap},
    {"erase", true, true, TENURE_OK, call_erase},
    {"batch", false, true, TENURE_OK, call_batch},
    {"list", false, false, TENURE_OK, call_list},
    {"wait", true, false, TENURE_TIMEOUT, call_wait},
    {"wait-changed", true, false, TENURE_OK, call_wait_changed},
    {"wait-prefix", false, false, TENURE_OK, call_wait_prefix},
};

/* ---- What is built on stores ------------------------------------------------ */

/* A record as a leader writes it: all of it comes back, or nothing does. */
static enum tenure_status call_codec(struct trial *t)
{
    struct tn_lease lease = {.epoch = TN_EPOCH_MAX, .ttl_ms = 15000}, again = {0};
    char *text = NULL, *extra = NULL;
    size_t len = 0;

    memset(lease.holder, 'h', TN_HOLDER_MAX);
    memset(lease.grant, 0xab, sizeof lease.grant);
    enum tenure_status status = tn_lease_encode(&lease, "{\"later\":[1,2]}", &text, &len, &t->err);

    if (!status) {
        status = tn_lease_decode(text, len, &again, &extra, &t->err);
        assert_true((status == TENURE_OK) == (extra != NULL));
        assert_true(status || memcmp(&again, &lease, sizeof lease) == 0);
    } else {
        assert_null(text);
    }
    free(text);
    free(extra);
    return status;
}

static enum tenure_status call_lease(struct trial *t)
{
    struct tenure_lease_view view = TENURE_LEASE_VIEW;
    enum tenure_status status = tenure_lease_look(t->store, "web", &view, soon(), &t->err);

    if (!status)
        status = tenure_lease_reset(t->store, "web", &view, 5, NULL, soon(), &t->err);
    return status;
}

static enum tenure_status call_state(struct trial *t)
{
    static uint64_t epoch = 100;
    struct tenure_grant grant = {.epoch = ++epoch, .id = {1}};
    struct tenure_document document = {0};
    struct tenure_commit commit = {.collection = "docs", .id = "x", .data = "y", .len = 1};
    tenure_state *state = NULL;
    enum tenure_status status = tenure_state_open(t->url, "oom", &grant, soon(), &state, &t->err);

    if (!status)
        status = tenure_state_seal(state, "docs", soon(), &t->err);
    if (!status)
        status = tenure_state_load(state, "docs", "x", &document, soon(), &t->err);
    if (!status)
        status = tenure_state_commit(state, &commit, 1, soon(), &t->err);
    if (!status)
        status = commit.status;
    tenure_document_free(&document);
    tenure_state_close(state);
    return status;
}

static const struct call built_calls[] = {
    {"codec", false, false, TENURE_OK, call_codec},
    {"lease", false, true, TENURE_OK, call_lease},
    {"state", false, true, TENURE_OK, call_state},
};

/* ---- The tests -------------------------------------------------------------- */

static void run_all(const char *url, const struct call *calls, size_t n)
{
    struct trial t = {.url = url};
    tenure_store *first = NULL; /* keeps what is in memory */
    unsigned long failures = 0;

    assert_int_equal(tenure_store_open(url, soon(), &first, &t.err), TENURE_OK);
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(tenure_store_open(url, soon(), &t.store, &t.err), TENURE_OK);
        for (unsigned k = 0; k < 3 && strcmp(calls[i].name, "list") == 0; k++) {
            snprintf(t.key, sizeof t.key, "fixed/%u", k);
            make(t.store, t.key);
        }
        failures += each(&t, &calls[i]);
        /* The same handle, after all that. */
        snprintf(t.key, sizeof t.key, "after/%s", calls[i].name);
        t.at = make(t.store, t.key);
        assert_int_equal(call_read(&t), TENURE_OK);
        tenure_store_close(t.store);
    }
    tenure_store_close(first);
    print_message("%s: %lu allocations failed\n", url, failures);
}

static void store_at(const char *format, void (*test)(const char *url))
{
    char url[100];

    snprintf(url, sizeof url, "%s", format);
    char *at = strchr(url, '@');
    if (at)
        snprintf(at, sizeof url - (size_t)(at - url), "%s%s", dir, strchr(format, '@') + 1);
    test(url);
}

static void test_store(const char *url)
{
    run_all(url, store_calls, sizeof store_calls / sizeof store_calls[0]);
}

static void test_built(const char *url)
{
    run_all(url, built_calls, sizeof built_calls / sizeof built_calls[0]);
}

static void memory_store(void **state)
{
    (void)state;
    store_at("memory:oom", test_store);
}

static void noop_store(void **state)
{
    (void)state;
    store_at("noop:", test_store);
}

static void file_store(void **state)
{
    (void)state;
    store_at("file:@/file", test_store);
}

static void sqlite_store(void **state)
{
    (void)state;
    store_at("sqlite:@/registers.db", test_store);
}

static void built_on_memory(void **state)
{
    (void)state;
    store_at("memory:built", test_built);
}

static void built_on_file(void **state)
{
    (void)state;
    store_at("file:@/built", test_built);
}

/* ---- Other libraries' allocators -------------------------------------------- */

static int setup(void **state)
{
    (void)state;
    json_set_alloc_funcs(tn_oom_malloc, free);
    return kit_begin(dir);
}

static int teardown(void **state)
{
    (void)state;
    return kit_end(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_store),    cmocka_unit_test(noop_store),
        cmocka_unit_test(file_store),      cmocka_unit_test(sqlite_store),
        cmocka_unit_test(built_on_memory), cmocka_unit_test(built_on_file),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
