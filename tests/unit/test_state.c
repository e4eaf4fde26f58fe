/* Fenced state: the rules, on memory:. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tenure/state.h"

static int64_t soon(void)
{
    return tenure_now() + INT64_C(10000000000);
}

static tenure_state *lead(const char *url, uint64_t epoch)
{
    struct tenure_grant grant = {.epoch = epoch};
    struct tenure_error err;
    tenure_state *s = NULL;

    memset(grant.id, (int)(epoch & 0xff), sizeof grant.id);
    if (tenure_state_open(url, "app", epoch ? &grant : NULL, soon(), &s, &err))
        fail_msg("%s", err.text);
    return s;
}

static enum tenure_status put(tenure_state *s, const char *id, const char *text)
{
    struct tenure_commit c = {.collection = "docs", .id = id, .data = text, .len = strlen(text)};

    return tenure_state_commit(s, &c, 1, soon(), NULL);
}

static void expect(tenure_state *s, const char *id, const char *text)
{
    struct tenure_document d = {0};
    struct tenure_error err = {0};

    if (tenure_state_load(s, "docs", id, &d, soon(), &err))
        fail_msg("%s", err.text);
    assert_int_equal(d.exists, text != NULL);
    if (text)
        assert_string_equal((char *)d.value.data, text);
    tenure_document_free(&d);
}

static void what_is_committed_is_loaded(void **state)
{
    tenure_state *a = lead("memory:s1", 10);

    (void)state;
    expect(a, "job::1", NULL);
    assert_int_equal(put(a, "job::1", "one"), TENURE_OK);
    assert_int_equal(put(a, "job::1", "two"), TENURE_OK);
    expect(a, "job::1", "two");
    tenure_state *b = lead("memory:s1", 11);
    expect(b, "job::1", "two");
    assert_int_equal(tenure_state_floor(b), 10);
    tenure_state_close(a);
    tenure_state_close(b);
}

/* A leader that was succeeded can neither change, create nor delete, and learns the floor. */
static void stale_leader_is_fenced(void **state)
{
    tenure_state *a = lead("memory:s2", 10), *c = lead("memory:s2", 10);
    tenure_state *b;
    struct tenure_commit gone = {.collection = "docs", .id = "x", .remove = true};

    (void)state;
    assert_int_equal(put(a, "x", "1"), TENURE_OK);
    expect(c, "y", NULL);
    b = lead("memory:s2", 12);
    assert_int_equal(tenure_state_seal(b, "docs", soon(), NULL), TENURE_OK);
    assert_int_equal(put(a, "x", "2"), TENURE_FENCED);
    assert_int_equal(put(c, "new", "3"), TENURE_FENCED); /* absence is fenced by the root */
    assert_int_equal(tenure_state_floor(a), 12);
    assert_int_equal(tenure_state_commit(a, &gone, 1, soon(), NULL), TENURE_FENCED);
    expect(b, "x", "1");
    expect(b, "new", NULL);
    assert_int_equal(put(b, "new", "4"), TENURE_OK);
    tenure_state_close(a);
    tenure_state_close(b);
    tenure_state_close(c);
}

/* Equal epochs under different grants are two leaders: the first one sealed wins. */
static void equal_epoch_of_another_grant_is_stale(void **state)
{
    tenure_state *a = lead("memory:s3", 20), *b = NULL;
    struct tenure_grant other = {.epoch = 20, .id = "somebody else"};

    (void)state;
    assert_int_equal(put(a, "x", "1"), TENURE_OK);
    assert_int_equal(tenure_state_open("memory:s3", "app", &other, soon(), &b, NULL), TENURE_OK);
    assert_int_equal(put(b, "x", "2"), TENURE_FENCED);
    expect(a, "x", "1");
    tenure_state_close(a);
    tenure_state_close(b);
}

static void epoch_zero_is_no_bypass(void **state)
{
    struct tenure_grant zero = {0}, huge = {.epoch = UINT64_MAX};
    tenure_state *s = NULL;

    (void)state;
    assert_int_equal(tenure_state_open("memory:s4", "app", &zero, soon(), &s, NULL),
                     TENURE_INVALID);
    assert_int_equal(tenure_state_open("memory:s4", "app", &huge, soon(), &s, NULL),
                     TENURE_INVALID);
}

static void deletion_keeps_the_epoch(void **state)
{
    tenure_state *a = lead("memory:s5", 30), *old;
    struct tenure_commit gone = {.collection = "docs", .id = "x", .remove = true};

    (void)state;
    assert_int_equal(put(a, "x", "1"), TENURE_OK);
    assert_int_equal(tenure_state_commit(a, &gone, 1, soon(), NULL), TENURE_OK);
    expect(a, "x", NULL);
    old = lead("memory:s5", 29);
    assert_int_equal(put(old, "x", "zombie"), TENURE_FENCED);
    assert_int_equal(put(a, "x", "again"), TENURE_OK);
    tenure_state_close(a);
    tenure_state_close(old);
}

static void operators_edit_is_adopted(void **state)
{
    tenure_state *a = lead("memory:s6", 40), *op = lead("memory:s6", 0);
    struct tenure_document d = {0};
    struct tenure_error err = {0};
    struct tenure_commit c = {.collection = "docs", .id = "x", .data = "3", .len = 1};

    (void)state;
    assert_int_equal(put(a, "x", "1"), TENURE_OK);
    assert_int_equal(put(op, "x", "?"), TENURE_NOT_LEADER);
    assert_int_equal(tenure_state_load(op, "docs", "x", &d, soon(), &err), TENURE_OK);
    assert_int_equal(tenure_state_edit(op, "docs", "x", &d, "edited", 6, soon(), &err), TENURE_OK);
    assert_int_equal(tenure_state_edit(op, "docs", "x", &d, "twice", 5, soon(), &err),
                     TENURE_CONFLICT);
    assert_int_equal(tenure_state_commit(a, &c, 1, soon(), &err), TENURE_CONFLICT);
    assert_non_null(strstr(err.text, "operator"));
    assert_int_equal(tenure_state_load(a, "docs", "x", &d, soon(), &err), TENURE_OK);
    assert_string_equal((char *)d.value.data, "edited");
    assert_true(d.edited);
    assert_int_equal(tenure_state_commit(a, &c, 1, soon(), &err), TENURE_OK);
    tenure_document_free(&d);
    tenure_state_close(a);
    tenure_state_close(op);
}

static bool count(void *arg, const char *id, const struct tenure_document *d, const char *damage)
{
    (void)id;
    assert_null(damage);
    assert_true(d->exists);
    ++*(int *)arg;
    return true;
}

static void many_at_once(void **state)
{
    enum { N = 3000 };
    struct tenure_commit *c = calloc(N, sizeof *c);
    char(*ids)[16] = calloc(N, sizeof *ids);
    tenure_state *a = lead("memory:s7", 50), *b;
    int seen = 0;

    (void)state;
    assert_int_equal(tenure_state_seal(a, "docs", soon(), NULL), TENURE_OK);
    for (int i = 0; i < N; i++) {
        snprintf(ids[i], sizeof ids[i], "id/%d", i);
        c[i] = (struct tenure_commit){.collection = "docs", .id = ids[i], .data = "v", .len = 1};
    }
    assert_int_equal(tenure_state_commit(a, c, N, soon(), NULL), TENURE_OK);
    for (int i = 0; i < N; i++)
        assert_int_equal(c[i].seq, 1);
    assert_int_equal(tenure_state_list(a, "docs", count, &seen, soon(), NULL), TENURE_OK);
    assert_int_equal(seen, N);
    b = lead("memory:s7", 51);
    assert_int_equal(tenure_state_seal(b, "docs", soon(), NULL), TENURE_OK);
    assert_int_equal(tenure_state_commit(a, c, N, soon(), NULL), TENURE_FENCED);
    for (int i = 0; i < N; i++)
        assert_int_equal(c[i].status, TENURE_FENCED);
    tenure_state_close(a);
    tenure_state_close(b);
    free(c);
    free(ids);
}

static void damage_is_told_and_left_alone(void **state)
{
    tenure_state *a = lead("memory:s8", 60);
    struct tenure_swap swap = {.key = "app/state/docs/bad", .data = "garbage", .len = 7};
    struct tenure_document d = {0};
    struct tenure_error err = {0};
    tenure_store *store = NULL;

    (void)state;
    assert_int_equal(put(a, "good", "1"), TENURE_OK);
    assert_int_equal(tenure_store_open("memory:s8", soon(), &store, &err), TENURE_OK);
    tenure_nonce(swap.nonce, NULL);
    assert_int_equal(tenure_store_swap(store, &swap, soon(), &err), TENURE_OK);
    assert_int_equal(tenure_state_load(a, "docs", "bad", &d, soon(), &err), TENURE_CORRUPT);
    assert_non_null(strstr(err.text, "app/state/docs/bad"));
    assert_int_equal(put(a, "bad", "overwritten?"), TENURE_CORRUPT);
    tenure_state *b = lead("memory:s8", 61);
    assert_int_equal(tenure_state_seal(b, "docs", soon(), &err), TENURE_OK);
    expect(b, "good", "1");
    tenure_store_close(store);
    tenure_state_close(a);
    tenure_state_close(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_committed_is_loaded),
        cmocka_unit_test(stale_leader_is_fenced),
        cmocka_unit_test(equal_epoch_of_another_grant_is_stale),
        cmocka_unit_test(epoch_zero_is_no_bypass),
        cmocka_unit_test(deletion_keeps_the_epoch),
        cmocka_unit_test(operators_edit_is_adopted),
        cmocka_unit_test(many_at_once),
        cmocka_unit_test(damage_is_told_and_left_alone),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
