/*
 * A leader that was succeeded and never gives up: none of its commits is taken.
 *
 *   test_state_stale URL COUNT
 *
 * Between its attempts it is made to forget that it is fenced, so that every
 * one of them goes to the store: changes, deletions and creates, one by one
 * and in batches.
 */
#include "state_kit.h"

#include "state/inner.h"

enum { DOCS = 8, BATCH = 5 };

static char ids[DOCS][8], fresh[BATCH][16];

static void begin(tenure_state *a)
{
    for (int i = 0; i < DOCS; i++) {
        snprintf(ids[i], sizeof ids[i], "d%d", i);
        assert_int_equal(put(a, ids[i], "first"), TENURE_OK);
    }
}

static void refuse(tenure_state *a, struct tenure_commit *c, size_t n)
{
    struct tenure_error err = {0};

    a->fenced = false;
    if (tenure_state_commit(a, c, n, soon(), &err) != TENURE_FENCED)
        fail_msg("a stale commit was answered %s: %s", tenure_status_word(err.code), err.text);
    for (size_t i = 0; i < n; i++)
        assert_int_equal(c[i].status, TENURE_FENCED);
}

/* One way of writing after the other.  Returns how many commits it was. */
static unsigned long attempt(tenure_state *a, unsigned long number)
{
    struct tenure_commit c[BATCH];
    size_t n = number % 7 == 0 ? BATCH : 1;

    for (size_t i = 0; i < n; i++) {
        bool create = number % 11 == 3;

        snprintf(fresh[i], sizeof fresh[i], "n%lu-%zu", number % 100, i);
        c[i] = (struct tenure_commit){.collection = "docs",
                                      .id = create ? fresh[i] : ids[(number + i) % DOCS],
                                      .data = "stale",
                                      .len = 5,
                                      .remove = number % 13 == 5};
    }
    refuse(a, c, n);
    return n;
}

static bool none_is_stale(void *arg, const char *id, const struct tenure_document *d,
                          const char *damage)
{
    assert_null(damage);
    assert_string_equal((char *)d->value.data, "second");
    assert_int_equal(id[0], 'd');
    ++*(int *)arg;
    return true;
}

int main(int argc, char **argv)
{
    unsigned long most = argc > 2 ? strtoul(argv[2], NULL, 10) : 1000, done = 0, number = 0;
    const char *url = argc > 1 ? argv[1] : "memory:stale";
    struct tenure_error err;
    int seen = 0;

#ifdef TN_BUILD_DIR
    if (tenure_store_module_dir(TN_BUILD_DIR, &err))
        fail_msg("%s", err.text);
#endif
    tenure_state *a = lead(url, 10), *b = lead(url, 11);
    begin(a);
    seal(b);
    for (int i = 0; i < DOCS; i++)
        assert_int_equal(put(b, ids[i], "second"), TENURE_OK);
    while (done < most)
        done += attempt(a, number++);
    assert_int_equal(tenure_state_list(b, "docs", none_is_stale, &seen, soon(), &err), TENURE_OK);
    assert_int_equal(seen, DOCS);
    printf("%lu stale commits, 0 accepted\n", done);
    tenure_state_close(a);
    tenure_state_close(b);
    return 0;
}
