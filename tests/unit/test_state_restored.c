/* Values that are back from a back-up: not undone blindly, not believed to be ours. */
#include "state_script.h"

/* An older value comes back under a newer version: not undone blindly, not believed to be ours. */
static void restored_value(const char *url, bool sealed_again, bool edited)
{
    tenure_state *a = lead(url, 10);
    struct tenure_value old = {0}, now = {0};
    tenure_store *store = NULL;

    assert_int_equal(put(a, "x", "1"), TENURE_OK);
    assert_int_equal(tenure_store_open(url, soon(), &store, NULL), TENURE_OK);
    assert_int_equal(tenure_store_read(store, X, &old, soon(), NULL), TENURE_OK);
    assert_int_equal(put(a, "x", "2"), TENURE_OK);
    if (edited) {
        edit_x();
        expect(a, "x", "edited");
    }
    assert_int_equal(tenure_store_read(store, X, &now, soon(), NULL), TENURE_OK);
    struct tenure_swap back = {.key = X, .expect = now.token, .data = old.data, .len = old.len};
    memcpy(back.nonce, old.token.nonce, sizeof back.nonce);
    assert_int_equal(tenure_store_swap(store, &back, soon(), NULL), TENURE_OK);
    if (sealed_again)
        seal(a);
    assert_int_equal(put(a, "x", "3"), TENURE_CONFLICT);
    assert_int_equal(put(a, "x", "3"), TENURE_CONFLICT);
    expect(a, "x", "1");
    assert_int_equal(put(a, "x", "3"), TENURE_OK);
    tenure_value_free(&old);
    tenure_value_free(&now);
    tenure_store_close(store);
    tenure_state_close(a);
}

static void restored_value_is_told(void **state)
{
    restored_value(*state, false, false);
}

/* Nor is it believed to be a late one of ours when somebody else had written since. */
static void restored_value_is_told_after_an_edit(void **state)
{
    inner_url = *state;
    restored_value(*state, false, true);
}

/* Sealing again is no look at the document. */
static void restored_value_is_told_after_a_second_seal(void **state)
{
    restored_value(*state, true, false);
}

/* A value of the leader before is back: sealing it again, with lost answers, is no look either. */
static void restored_value_of_another_is_told(void **state)
{
    tenure_state *a = lead(*state, 10), *b = lead("fault:f", 11);
    struct tenure_value old = {0}, now = {0};
    tenure_store *store = NULL;

    assert_int_equal(put(a, "x", "1"), TENURE_OK);
    assert_int_equal(tenure_store_open(*state, soon(), &store, NULL), TENURE_OK);
    assert_int_equal(tenure_store_read(store, X, &old, soon(), NULL), TENURE_OK);
    expect(b, "x", "1");
    assert_int_equal(put(b, "x", "2"), TENURE_OK);
    assert_int_equal(tenure_store_read(store, X, &now, soon(), NULL), TENURE_OK);
    struct tenure_swap back = {.key = X, .expect = now.token, .data = old.data, .len = old.len};
    memcpy(back.nonce, old.token.nonce, sizeof back.nonce);
    assert_int_equal(tenure_store_swap(store, &back, soon(), NULL), TENURE_OK);
    script = (struct script){.key = X, .swaps = {{.action = TN_FAULT_DROP_REQUEST}}};
    seal(b);
    assert_int_equal(put(b, "x", "3"), TENURE_CONFLICT);
    expect(b, "x", "1");
    assert_int_equal(put(b, "x", "3"), TENURE_OK);
    tenure_value_free(&old);
    tenure_value_free(&now);
    tenure_store_close(store);
    tenure_state_close(a);
    tenure_state_close(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(restored_value_is_told),
        T(restored_value_is_told_after_an_edit),
        T(restored_value_is_told_after_a_second_seal),
        T(restored_value_of_another_is_told),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
