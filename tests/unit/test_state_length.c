/* Documents as long as can be: every later leader can seal them, and what is longer does no harm.
 */
#include "core/fence.h"
#include "state_script.h"

#define ROOT "app/state/docs"

static char much[TENURE_DATA_MAX + 1]; /* zeroes */

static enum tenure_status put_much(tenure_state *s, const char *id, size_t len)
{
    struct tenure_commit c = {.collection = "docs", .id = id, .data = much, .len = len};

    return tenure_state_commit(s, &c, 1, soon(), NULL);
}

static enum tenure_status edit_much(tenure_state *op, const char *id, size_t len)
{
    struct tenure_document d = {0};

    assert_int_equal(tenure_state_load(op, "docs", id, &d, soon(), NULL), TENURE_OK);
    enum tenure_status status = tenure_state_edit(op, "docs", id, &d, much, len, soon(), NULL);
    tenure_document_free(&d);
    return status;
}

static enum tenure_status repair_much(tenure_state *op, const char *id, size_t len)
{
    char key[64], kept[TENURE_KEEP_MAX + 1];

    snprintf(key, sizeof key, ROOT "/%s", id);
    write_raw(key, "junk", 4);
    return tenure_state_repair(op, "docs", id, much, len, NULL, kept, soon(), NULL);
}

/* The longest that is accepted, under the shortest epoch there is, from a leader and from an
 * operator: the longest epoch seals, shows and deletes it. */
static void longest_is_sealed_under_the_longest_epoch(void **state)
{
    enum tenure_status (*const ways[])(tenure_state *, const char *, size_t) = {put_much, edit_much,
                                                                                repair_much};
    static const char *const ids[] = {"a", "b", "c"};
    tenure_state *a, *op, *b;
    size_t longest[3];

    inner_url = *state;
    a = lead(inner_url, 1);
    op = lead(inner_url, 0);
    for (int i = 0; i < 3; i++) {
        enum tenure_status status = TENURE_INVALID;

        longest[i] = TENURE_DATA_MAX;
        while ((status = ways[i](i ? op : a, ids[i], longest[i])) == TENURE_INVALID)
            longest[i]--;
        assert_int_equal(status, TENURE_OK);
        assert_true(longest[i] > TENURE_DATA_MAX - 200);
    }
    b = lead(inner_url, TN_EPOCH_MAX);
    seal(b);
    for (int i = 0; i < 3; i++) {
        struct tenure_commit gone = {.collection = "docs", .id = ids[i], .remove = true};
        struct tenure_document d = {0};

        assert_int_equal(tenure_state_load(b, "docs", ids[i], &d, soon(), NULL), TENURE_OK);
        assert_int_equal(d.value.len, longest[i]);
        assert_int_equal(tenure_state_commit(b, &gone, 1, soon(), NULL), TENURE_OK);
        tenure_document_free(&d);
    }
    tenure_state_close(a);
    tenure_state_close(b);
    tenure_state_close(op);
}

static void too_long_harms_nobody_in_its_batch(void **state)
{
    tenure_state *a = lead(*state, 10);
    struct tenure_commit c[] = {
        {.collection = "docs", .id = "a", .data = "1", .len = 1},
        {.collection = "docs", .id = "b", .data = much, .len = TENURE_DATA_MAX},
        {.collection = "docs", .id = "c", .data = "1", .len = 1},
    };

    assert_int_equal(tenure_state_commit(a, c, 3, soon(), NULL), TENURE_INVALID);
    assert_int_equal(c[0].status, TENURE_OK);
    assert_int_equal(c[1].status, TENURE_INVALID);
    assert_int_equal(c[2].status, TENURE_OK);
    expect(a, "a", "1");
    expect(a, "b", NULL);
    expect(a, "c", "1");
    tenure_state_close(a);
}

/* What is refused is not announced: enough of it would fill the root. */
static void too_long_is_not_announced(void **state)
{
    tenure_state *a = lead(*state, 10), *op = lead(*state, 0);
    struct tenure_value before = {0}, after = {0};
    tenure_store *store = NULL;

    seal(a);
    assert_int_equal(tenure_store_open(*state, soon(), &store, NULL), TENURE_OK);
    assert_int_equal(tenure_store_read(store, ROOT, &before, soon(), NULL), TENURE_OK);
    assert_int_equal(put_much(a, "x", TENURE_DATA_MAX), TENURE_INVALID);
    assert_int_equal(edit_much(op, "y", TENURE_DATA_MAX), TENURE_INVALID);
    assert_int_equal(tenure_store_read(store, ROOT, &after, soon(), NULL), TENURE_OK);
    assert_true(tenure_token_equal(&before.token, &after.token));
    tenure_value_free(&before);
    tenure_value_free(&after);
    tenure_store_close(store);
    tenure_state_close(a);
    tenure_state_close(op);
}

/* The same goes for the root, whoever announces: one line more than fits is refused, and then the
 * next leader can seal it. */
static void fullest_root_is_sealed_under_the_longest_epoch(void **state)
{
    char *text = malloc(TENURE_DATA_MAX), url[64], id[200];

    for (int by_operator = 0; by_operator < 2; by_operator++) {
        size_t header = (size_t)sprintf(text, "tenure-doc 1 1 %032d 1 -\n", 0), n = header, room;
        enum tenure_status status = TENURE_INVALID;
        tenure_state *a, *b;

        for (int i = 0; (room = TENURE_DATA_MAX - (n - header)) >= 300; i++)
            n += (size_t)sprintf(text + n, "%0200d\n", i);
        n += (size_t)sprintf(text + n, "%0*d\n", (int)room - 121, 1);
        snprintf(url, sizeof url, "%s-%d", (char *)*state, by_operator);
        inner_url = url;
        a = lead(url, by_operator ? 0 : 2);
        write_raw(ROOT, text, n);
        for (int len = 119; len > 0 && status == TENURE_INVALID; len--) { /* the first fills it */
            snprintf(id, sizeof id, "%0*d", len, 2);
            status = by_operator ? edit(a, id, "1") : put(a, id, "1");
        }
        assert_int_equal(status, TENURE_OK);
        b = lead(url, TN_EPOCH_MAX);
        expect(b, "none", NULL);
        tenure_state_close(a);
        tenure_state_close(b);
    }
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(longest_is_sealed_under_the_longest_epoch),
        T(too_long_harms_nobody_in_its_batch),
        T(too_long_is_not_announced),
        T(fullest_root_is_sealed_under_the_longest_epoch),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
