/* A state that is larger than the time for a seal: what was done is not done again, and nothing is
 * left out. */
#include "rot_store.h"
#include "state_kit.h"

#include "state/calls.h"

enum { DOCS = 300, PATIENCE = 40, TRIES = 20 };

static const char *id_of(int i)
{
    static char id[16];

    snprintf(id, sizeof id, "d%04d", i);
    return id;
}

static void fill(tenure_state *s, const char *collection, int n)
{
    struct tenure_error err = {0};

    for (int i = 0; i < n; i++) {
        struct tenure_commit c = {
            .collection = collection, .id = id_of(i), .data = "before", .len = 6};

        if (tenure_state_commit(s, &c, 1, soon(), &err))
            fail_msg("%s", err.text);
    }
}

static int set_up(void **state)
{
    static char url[24];
    static int number;

    snprintf(url, sizeof url, "rot:seal%d", ++number);
    *state = url;
    rot_key[0] = '\0';
    rot_unguarded = false;
    rot_patience = rot_swaps = 0;
    return 0;
}

/* Tries until it is sealed; *half is called after the first that was not. */
static enum tenure_status seal_slowly(tenure_state *s, void (*half)(void))
{
    enum tenure_status status = TENURE_TIMEOUT;

    rot_patience = PATIENCE;
    for (int i = 0; i < TRIES && status == TENURE_TIMEOUT; i++) {
        status = tenure_state_seal(s, "docs", soon(), NULL);
        if (status && half)
            half();
        half = NULL;
    }
    rot_patience = 0;
    return status;
}

static tenure_state *ten;

/* The last is not sealed yet. */
static void commit_the_last(void)
{
    assert_int_equal(put(ten, id_of(DOCS - 1), "later"), TENURE_OK);
}

static void it_goes_on_where_it_was(void **state)
{
    tenure_state *eleven = lead(*state, 11);

    ten = lead(*state, 10);
    fill(ten, "docs", DOCS);
    assert_int_equal(seal_slowly(eleven, commit_the_last), TENURE_OK);
    assert_int_equal(put(ten, id_of(DOCS - 1), "stale"), TENURE_FENCED);
    expect(eleven, id_of(DOCS - 1), "later");
    for (int i = 0; i < DOCS; i += 50) {
        expect(eleven, id_of(i), "before");
        assert_int_equal(put(eleven, id_of(i), "after"), TENURE_OK);
    }
    /* Whole again, from the beginning. */
    assert_int_equal(seal_slowly(eleven, NULL), TENURE_OK);
    tenure_state_close(ten);
    tenure_state_close(eleven);
}

/* The register alone tells: everything is under the later fence. */
static void nothing_is_left_out(void **state)
{
    tenure_state *first = lead(*state, 10), *eleven = lead(*state, 11), *op = lead(*state, 0);

    fill(first, "docs", DOCS);
    assert_int_equal(seal_slowly(eleven, NULL), TENURE_OK);
    for (int i = 0; i < DOCS; i++) {
        struct tenure_document d = {0};

        assert_int_equal(tenure_state_load(op, "docs", id_of(i), &d, soon(), NULL), TENURE_OK);
        assert_int_equal(d.epoch, 11);
        tenure_document_free(&d);
    }
    tenure_state_close(first);
    tenure_state_close(eleven);
    tenure_state_close(op);
}

/* What is damaged is held where it is met, or else there is no seal, however often it is tried. */
static void damage_is_not_passed_over(void **state)
{
    for (int open = 0; open < 2; open++) {
        unsigned first = 10 + 10 * (unsigned)open;
        tenure_state *a = lead(*state, first), *b = lead(*state, first + 1);

        fill(a, "docs", DOCS);
        rot_unguarded = open;
        snprintf(rot_key, sizeof rot_key, "app/state/docs/%s", id_of(5));
        if (open) {
            rot_patience = PATIENCE;
            for (int i = 0; i < TRIES; i++)
                assert_int_not_equal(tenure_state_seal(b, "docs", soon(), NULL), TENURE_OK);
            rot_patience = 0;
            assert_int_equal(tenure_state_seal(b, "docs", soon(), NULL), TENURE_CORRUPT);
        } else {
            assert_int_equal(seal_slowly(b, NULL), TENURE_OK);
        }
        /* The rest is sealed all the same. */
        assert_int_equal(put(a, id_of(DOCS - 1), "stale"), TENURE_FENCED);
        rot_key[0] = '\0';
        tenure_state_close(a);
        tenure_state_close(b);
    }
}

/* A store so slow that no try seals all that it has listed: each seals some, and tells that. */
static void each_sealed_document_is_progress(void **state)
{
    tenure_state *first = lead(*state, 10), *eleven = lead(*state, 11);
    enum tenure_status status = TENURE_TIMEOUT;

    fill(first, "docs", 10);
    for (int tries = 0; status; tries++) {
        uint64_t before = eleven->progress;

        rot_swaps = 4; /* the last of these is too late */
        status = tenure_state_seal(eleven, "docs", soon(), NULL);
        assert_true(status == TENURE_OK || status == TENURE_TIMEOUT);
        assert_true(eleven->progress > before);
        assert_true(tries < 5);
    }
    rot_swaps = 0;
    assert_int_equal(put(first, id_of(9), "stale"), TENURE_FENCED);
    tenure_state_close(first);
    tenure_state_close(eleven);
}

struct told {
    unsigned n;
    char text[200];
};

static bool note(void *arg, const char *name)
{
    struct told *told = arg;

    told->n++;
    strcat(strcat(told->text, name), " ");
    return true;
}

/* '-' and '.' sort before '/': a collection is seen by its root and, after others, by what is in
 * it. However much that is, and however often the time is up, it is told once. */
static void collections_are_told_once(void **state)
{
    static const char *const all[] = {"docs", "docs-2", "docs-2.x", "docs.y", "docs0", "other"};
    tenure_state *a = lead(*state, 10);
    struct tenure_error err;

    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        fill(a, all[i], i % 2 ? 3 : DOCS);
    for (unsigned patience = 0; patience < 200; patience += 7) {
        struct tn_collections *walk = tn_collections_new();
        enum tenure_status status = TENURE_TIMEOUT;
        struct told told = {0};
        int tries = 0;

        rot_patience = patience;
        while (status == TENURE_TIMEOUT && tries++ < 4 * DOCS)
            status = tn_state_collections(a, walk, note, &told, soon(), &err);
        assert_int_equal(status, TENURE_OK);
        assert_string_equal(told.text, "docs docs-2 docs-2.x docs.y docs0 other ");
        tn_collections_free(walk);
    }
    tenure_state_close(a);
}

#define T(name) cmocka_unit_test_setup(name, set_up)

int main(void)
{
    const struct CMUnitTest tests[] = {T(it_goes_on_where_it_was), T(nothing_is_left_out),
                                       T(each_sealed_document_is_progress),
                                       T(damage_is_not_passed_over), T(collections_are_told_once)};

    if (tenure_store_register(&rot_ops, NULL))
        return 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
