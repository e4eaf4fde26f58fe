/* An operator's repair, over a store that loses, fails and changes under it: nothing is dropped,
 * and nothing older gets in. */
#include "state_script.h"

#define JUNK "what is not a document"

static void spoil(const char *key, const char *junk)
{
    write_raw(key, junk, strlen(junk));
}

static enum tenure_status repair(tenure_state *op, const char *id, const char *text, char *kept)
{
    struct tenure_error err;

    return tenure_state_repair(op, "docs", id, text, strlen(text), NULL, kept, soon(), &err);
}

/* What is kept under "docs.damaged/...", or nothing at all. */
static void expect_kept(tenure_state *op, const char *kept, const char *text)
{
    struct tenure_document d = {0};

    assert_memory_equal(kept, "docs.damaged/", 13);
    assert_int_equal(tenure_state_load(op, "docs.damaged", kept + 13, &d, soon(), NULL), TENURE_OK);
    assert_int_equal(d.exists, true);
    assert_string_equal((char *)d.value.data, text);
    tenure_document_free(&d);
}

/* The fence of what is lost is not: a leader of before stays out, the one that leads goes on. */
static void stale_leaders_stay_out(void **state)
{
    char kept[TENURE_KEEP_MAX + 1] = "";

    inner_url = *state;
    tenure_state *a = lead(inner_url, 10), *b, *op = lead(inner_url, 0);
    assert_int_equal(put(a, "x", "1"), TENURE_OK);
    b = lead(inner_url, 11);
    seal(b);
    spoil(X, JUNK);
    assert_int_equal(repair(op, "x", "new", kept), TENURE_OK);
    expect_kept(op, kept, JUNK);
    assert_int_equal(put(a, "x", "stale"), TENURE_FENCED);
    expect(b, "x", "new");
    assert_int_equal(put(b, "x", "2"), TENURE_OK);
    tenure_state_close(a);
    tenure_state_close(b);
    tenure_state_close(op);
}

/* A leader has sealed the root and nothing else, and the root is damaged: what the lease tells of
 * it is the floor, or what the damaged bytes still say, or the root of another collection. */
static void the_root_keeps_the_floor(void **state)
{
    struct tenure_grant last = {.epoch = 21, .id = {21}};
    char kept[TENURE_KEEP_MAX + 1] = "";
    struct tenure_error err;

    memset(last.id, 21, sizeof last.id);
    for (int how = 0; how < 3; how++) {
        struct tenure_document d = {0};
        char url[64];

        snprintf(url, sizeof url, "%s-%d", (char *)*state, how);
        inner_url = url;
        tenure_state *a = lead(url, 20), *b = lead(url, 21), *op = lead(url, 0);
        assert_int_equal(put(a, "x", "1"), TENURE_OK);
        assert_int_equal(tenure_state_load(b, "docs", "other", &d, soon(), NULL), TENURE_OK);
        if (how == 2)
            assert_int_equal(tenure_state_load(b, "more", "other", &d, soon(), NULL), TENURE_OK);
        spoil("app/state/docs", how == 1 ? "tenure-slot ...\n"
                                           "tenure-doc 1 21 15151515151515151515151515151515 7 -\n"
                                           "\n"
                                         : JUNK);
        assert_int_equal(
            tenure_state_repair(op, "docs", "", NULL, 0, how ? NULL : &last, kept, soon(), &err),
            TENURE_OK);
        assert_int_equal(put(a, "y", "stale"), TENURE_FENCED);
        assert_int_equal(put(b, "y", "2"), TENURE_OK);
        tenure_document_free(&d);
        tenure_state_close(a);
        tenure_state_close(b);
        tenure_state_close(op);
    }
}

/* A root that announces what is no id is damaged, and told as such; one that announces an id which
 * no key can hold keeps nobody from leading. */
static void what_a_root_announces(void **state)
{
    static const char head[] = "tenure-doc 1 10 0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a 7 -\n";
    static const char *const bad[] = {"a/b", "a\n\nb", "x y", ".hidden", "\xff"};
    char kept[TENURE_KEEP_MAX + 1] = "", text[400];
    struct tenure_error err;

    inner_url = *state;
    tenure_state *a = lead(inner_url, 10), *op = lead(inner_url, 0), *b;
    assert_int_equal(put(a, "x", "1"), TENURE_OK);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        snprintf(text, sizeof text, "%s%s\n", head, bad[i]);
        spoil("app/state/docs", text);
        b = lead(inner_url, 11 + i);
        assert_int_equal(tenure_state_seal(b, "docs", soon(), &err), TENURE_CORRUPT);
        assert_int_equal(tenure_state_repair(op, "docs", "", NULL, 0, NULL, kept, soon(), &err),
                         TENURE_OK);
        assert_int_equal(tenure_state_seal(b, "docs", soon(), &err), TENURE_OK);
        tenure_state_close(b);
    }
    snprintf(text, sizeof text, "%s%0250d\n", head, 1);
    spoil("app/state/docs", text);
    b = lead(inner_url, 20);
    assert_int_equal(tenure_state_seal(b, "docs", soon(), &err), TENURE_OK);
    assert_int_equal(put(b, "new", "2"), TENURE_OK);
    tenure_state_close(a);
    tenure_state_close(b);
    tenure_state_close(op);
}

/* An epoch that nobody can have had does not keep everybody out for good. */
static void absurd_claims_are_not_believed(void **state)
{
    char kept[TENURE_KEEP_MAX + 1] = "";

    inner_url = *state;
    tenure_state *a = lead(inner_url, 10), *op = lead(inner_url, 0);
    assert_int_equal(put(a, "x", "1"), TENURE_OK);
    spoil(X, "?tenure-doc 1 9007199254740991 15151515151515151515151515151515 7 -\n");
    assert_int_equal(repair(op, "x", "new", kept), TENURE_OK);
    expect(a, "x", "new");
    assert_int_equal(put(a, "x", "2"), TENURE_OK);
    tenure_state_close(a);
    tenure_state_close(op);
}

/* A number of commits that nobody can have made is damage; the highest one stays what it is, and
 * what is written beside it can be read. */
static void commits_without_end(void **state)
{
    struct tenure_document d = {0};

    inner_url = *state;
    tenure_state *a = lead(inner_url, 10), *op = lead(inner_url, 0);
    assert_int_equal(put(a, "x", "1"), TENURE_OK);
    spoil(X, "tenure-doc 1 10 0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a 18446744073709551609 -\n2");
    assert_int_equal(tenure_state_load(a, "docs", "x", &d, soon(), NULL), TENURE_CORRUPT);
    spoil(X, "tenure-doc 1 10 0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a 9007199254740991 -\n2");
    expect(a, "x", "2");
    for (int i = 0; i < 3; i++)
        assert_int_equal(put(a, "x", "3"), TENURE_OK);
    expect(a, "x", "3");
    assert_int_equal(edit(op, "x", "4"), TENURE_OK);
    expect(a, "x", "4");
    tenure_document_free(&d);
    tenure_state_close(a);
    tenure_state_close(op);
}

static void corrupt_once(void *arg, const struct tn_fault_event *event, struct tn_fault_plan *plan)
{
    unsigned *times = arg;

    if (event->call == TN_CALL_READ && strcmp(event->key, X) == 0 && (*times)++ == 0)
        *plan = (struct tn_fault_plan){.action = TN_FAULT_FAIL, .status = TENURE_CORRUPT};
}

/* Damaged when it was looked at, and sound when the repairer read it: somebody else has repaired
 * it, and perhaps a leader has committed since. */
static void repaired_by_somebody_else(void **state)
{
    char kept[TENURE_KEEP_MAX + 1] = "untouched";
    tn_fault *repairer = NULL;
    unsigned times = 0;
    tenure_state *op;

    assert_int_equal(tn_fault_new("f?repair=yes", *state, &repairer, NULL), TENURE_OK);
    tn_fault_hook(fault, corrupt_once, &times);
    op = lead("fault:f", 0);
    times = 1;
    assert_int_equal(edit(op, "x", "sound"), TENURE_OK);
    times = 0;
    assert_int_equal(repair(op, "x", "over it", kept), TENURE_INVALID);
    assert_int_equal(times, 2);
    assert_string_equal(kept, "untouched");
    expect(op, "x", "sound");
    tenure_state_close(op);
    tn_fault_free(repairer);
}

/* A commit of unknown outcome whose place holds junk now: it may have been there. */
static void spoil_x(void)
{
    spoil(X, JUNK);
}

static void unknown_stays_unknown(void **state)
{
    tenure_state *a = lead("fault:f", 10);

    inner_url = *state;
    assert_int_equal(put(a, "x", "1"), TENURE_OK);
    script =
        (struct script){.key = X, .swaps = {{.action = TN_FAULT_DROP_ANSWER}}, .between = spoil_x};
    assert_int_equal(put(a, "x", "2"), TENURE_UNKNOWN);
    script = (struct script){.key = X};
    assert_int_equal(put(a, "x", "3"), TENURE_CORRUPT); /* and this one for certain not */
    tenure_state_close(a);
}

/* It ends at any swap of its own: what was damaged is there, kept or in its place; again, and it
 * is done. */
static void cut_short_anywhere(void **state)
{
    static const enum tn_fault_action actions[] = {TN_FAULT_DROP_REQUEST, TN_FAULT_DROP_ANSWER,
                                                   TN_FAULT_FAIL};
    static const char *const keys[] = {"app/state/docs.damaged", NULL, X};
    tenure_state *op;
    char kept[TENURE_KEEP_MAX + 1] = "";

    inner_url = *state;
    op = lead("fault:f", 0);
    for (unsigned i = 0; i < 9; i++) {
        char junk[40], key[80] = "";

        assert_int_equal(edit(op, "x", "good"), TENURE_OK);
        snprintf(junk, sizeof junk, JUNK " %u", i);
        spoil(X, junk);
        if (!keys[i / 3]) { /* the document that it is kept as: by its version, which is known */
            tenure_store *store = NULL;
            struct tenure_value value = {0};

            assert_int_equal(tenure_store_open(inner_url, soon(), &store, NULL), TENURE_OK);
            assert_int_equal(tenure_store_read(store, X, &value, soon(), NULL), TENURE_OK);
            snprintf(key, sizeof key, "app/state/docs.damaged/x_40%s", value.token.version);
            tenure_value_free(&value);
            tenure_store_close(store);
        }
        script = (struct script){.key = keys[i / 3] ? keys[i / 3] : key,
                                 .swaps = {{.action = actions[i % 3], .status = TENURE_DENIED}}};
        strcpy(kept, "untouched");
        enum tenure_status status = repair(op, "x", "new", kept);
        assert_true(script.n > 0);
        script = (struct script){0};
        if (status) {
            assert_string_equal(kept, "untouched");
            status = repair(op, "x", "new", kept);
        }
        assert_int_equal(status, TENURE_OK);
        expect(op, "x", "new");
        expect_kept(op, kept, junk);
    }
    tenure_state_close(op);
}

static void spoil_again(void)
{
    spoil(X, "other junk");
}

/* It changes after it was kept: what is there now is not replaced. */
static void changed_meanwhile(void **state)
{
    char kept[TENURE_KEEP_MAX + 1] = "";
    tenure_state *op;

    inner_url = *state;
    op = lead("fault:f", 0);
    assert_int_equal(edit(op, "x", "good"), TENURE_OK);
    spoil(X, JUNK);
    script = (struct script){.key = X, .ahead = spoil_again};
    assert_int_equal(repair(op, "x", "new", kept), TENURE_CONFLICT);
    assert_int_equal(repair(op, "x", "new", kept), TENURE_OK);
    expect_kept(op, kept, "other junk");
    expect(op, "x", "new");
    assert_int_equal(repair(op, "x", "new", kept), TENURE_INVALID);
    assert_int_equal(repair(op, "never", "new", kept), TENURE_INVALID);
    tenure_state_close(op);
}

struct names {
    unsigned n;
    char text[200];
};

static bool note(void *arg, const char *name)
{
    struct names *names = arg;

    names->n++;
    strcat(strcat(names->text, name), " ");
    return true;
}

/* '-' and '.' sort before '/': a collection is seen by its root and, after others, by what is in
 * it, and is told once. */
static void collections_are_told_once(void **state)
{
    static const char *const all[] = {"docs", "docs-2", "docs-2.x", "docs.y", "docs0", "other"};
    struct names names = {0};
    tenure_state *op = lead(*state, 0);

    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        struct tenure_document none = {0};

        assert_int_equal(tenure_state_edit(op, all[i], "a", &none, "1", 1, soon(), NULL),
                         TENURE_OK);
    }
    assert_int_equal(tenure_state_collections(op, note, &names, soon(), NULL), TENURE_OK);
    assert_string_equal(names.text, "docs docs-2 docs-2.x docs.y docs0 other ");
    tenure_state_close(op);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(commits_without_end),   T(repaired_by_somebody_else), T(absurd_claims_are_not_believed),
        T(unknown_stays_unknown), T(stale_leaders_stay_out),    T(the_root_keeps_the_floor),
        T(cut_short_anywhere),    T(changed_meanwhile),         T(collections_are_told_once),
        T(what_a_root_announces),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
