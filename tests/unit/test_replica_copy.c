/* A copy: chains, the judgement of groups, staging, answers to a hello (R1, R4 to R10). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/replica/copy.h"

/* Links as (epoch, first), then the end: chain(9, 1, 1, 3, 5): epoch 1 from 1, epoch 3 from 5. */
static struct tn_chain chain(uint64_t n, unsigned links, const uint64_t (*link)[2])
{
    struct tn_chain made = {.n = n, .count = links};

    for (unsigned i = 0; i < links; i++) {
        made.link[i].epoch = link[i][0];
        made.link[i].first = link[i][1];
        memset(made.link[i].grant, (int)link[i][0], TENURE_NONCE_SIZE);
    }
    return made;
}
#define CHAIN(n, ...)                                                                              \
    chain(n, sizeof((uint64_t[][2]){__VA_ARGS__}) / sizeof(uint64_t[2]),                           \
          (const uint64_t[][2]){__VA_ARGS__})

static struct tn_position at(uint64_t epoch, uint64_t n)
{
    struct tn_position made = {.epoch = epoch, .n = n};

    memset(made.grant, (int)epoch, sizeof made.grant);
    return made;
}

static bool has(const struct tn_chain *c, uint64_t epoch, uint64_t n)
{
    struct tn_position position = at(epoch, n);

    return tn_chain_has(c, &position);
}

static void test_chain(void **unused)
{
    struct tn_chain a = CHAIN(9, {1, 1}, {3, 5}), b = CHAIN(7, {1, 1}, {2, 4}), none = {.n = 0};
    struct tn_chain cut;
    struct tn_position other = at(3, 6);

    (void)unused;
    assert_true(has(&a, 1, 4) && has(&a, 3, 5) && has(&a, 3, 9) && has(&a, 0, 0));
    assert_false(has(&a, 1, 5) || has(&a, 3, 4) || has(&a, 3, 10) || has(&a, 2, 5));
    other.grant[0] = 9; /* the same epoch, granted to another */
    assert_false(tn_chain_has(&a, &other));
    assert_int_equal(tn_chain_common(&a, &b), 3);
    assert_int_equal(tn_chain_common(&b, &a), 3);
    assert_int_equal(tn_chain_common(&a, &none), 0);
    assert_true(tn_chain_within(&none, &a));
    assert_false(tn_chain_within(&b, &a));
    cut = tn_chain_cut(&a, 4);
    assert_true(tn_chain_within(&cut, &a));
    assert_int_equal(tn_chain_epoch(&cut), 1);
    assert_int_equal(tn_chain_end(&cut).n, 4);
    cut = tn_chain_cut(&a, 0);
    assert_int_equal(cut.count, 0);
    assert_int_equal(tn_chain_end(&none).epoch, 0);
    /* A link of the same name that begins elsewhere is another one. */
    b = CHAIN(9, {1, 1}, {3, 6});
    assert_int_equal(tn_chain_common(&a, &b), 4);
}

static void test_chain_grows(void **unused)
{
    struct tn_chain c = {.n = 0}, old;
    uint8_t grant[TENURE_NONCE_SIZE] = {1};

    (void)unused;
    for (uint64_t epoch = 1; epoch <= TN_CHAIN_MAX; epoch++)
        tn_chain_begin(&c, epoch, grant);
    old = c;
    tn_chain_begin(&c, 100, grant);
    assert_int_equal(c.count, TN_CHAIN_MAX);
    assert_int_equal(c.n, TN_CHAIN_MAX + 1);
    assert_int_equal(c.link[0].epoch, 2);
    assert_true(tn_chain_valid(&c));
    assert_true(tn_chain_within(&old, &c));
}

static void test_chain_of_a_peer(void **unused)
{
    struct tn_chain good = CHAIN(9, {1, 1}, {3, 5}), bad;

    (void)unused;
    assert_true(tn_chain_valid(&good));
    bad = good;
    bad.count = TN_CHAIN_MAX + 1;
    assert_false(tn_chain_valid(&bad));
    bad = good;
    bad.n = 0;
    assert_false(tn_chain_valid(&bad));
    bad = good;
    bad.count = 0;
    assert_false(tn_chain_valid(&bad));
    bad.n = 0;
    assert_true(tn_chain_valid(&bad));
    bad = good;
    bad.link[1].epoch = 1;
    assert_false(tn_chain_valid(&bad));
    bad.link[1].epoch = TN_EPOCH_MAX;
    assert_false(tn_chain_valid(&bad));
    bad = good;
    bad.link[1].first = 1;
    assert_false(tn_chain_valid(&bad));
    bad.link[1].first = 10;
    assert_false(tn_chain_valid(&bad));
    bad = good;
    bad.n = TN_EPOCH_MAX + 1;
    assert_false(tn_chain_valid(&bad));
}

/* ---- Groups ------------------------------------------------------------------ */

static struct tn_copy_head head;
static struct tn_copy_head after;
static struct tn_take take;

static struct tn_group group(struct tn_chain c, uint64_t from, uint64_t to)
{
    return (struct tn_group){.epoch = 5, .chain = c, .from = from, .to = to};
}

static enum tn_judgement judge(const struct tn_group *g)
{
    assert_true(tn_group_valid(g));
    return tn_copy_judge(&head, head.epoch, g, &after, &take);
}

static int set_up(void **unused)
{
    (void)unused;
    memset(&head, 0, sizeof head);
    head.epoch = 3;
    head.chain = CHAIN(4, {1, 1});
    return 0;
}

static void test_plain(void **unused)
{
    struct tn_group g = group(CHAIN(9, {1, 1}, {3, 5}), 4, 9);

    (void)unused;
    g.committed = at(3, 6);
    assert_int_equal(judge(&g), TN_GROUP_APPLY);
    assert_int_equal(take.taking, TN_TAKE_PLAIN);
    assert_int_equal(after.chain.n, 9);
    assert_int_equal(after.epoch, 5);
    assert_int_equal(after.committed.n, 6);
    g.from = 2; /* An overlap is harmless. */
    assert_int_equal(judge(&g), TN_GROUP_APPLY);
    g.from = 5; /* R6 */
    assert_int_equal(judge(&g), TN_GROUP_MISFIT);
    g.from = 2;
    g.to = 4;
    assert_int_equal(judge(&g), TN_GROUP_KNOWN);
    g = group(CHAIN(4, {1, 1}), 4, 4);
    assert_int_equal(judge(&g), TN_GROUP_KNOWN);
    g.epoch = 2; /* R9 */
    assert_int_equal(judge(&g), TN_GROUP_STALE);
    g = group(CHAIN(9, {1, 1}, {3, 5}), 4, 9);
    g.floor = 6; /* R8 */
    assert_int_equal(judge(&g), TN_GROUP_MISFIT);
    g.from = 0;
    g.floor = 0;
    head.floor = 1;
    assert_int_equal(judge(&g), TN_GROUP_APPLY);
    assert_int_equal(after.floor, 1);
}

static void test_staging(void **unused)
{
    struct tn_group g = group(CHAIN(9, {1, 1}, {3, 5}), 4, 6);

    (void)unused;
    assert_int_equal(judge(&g), TN_GROUP_STAGE);
    assert_true(take.fresh);
    assert_int_equal(after.chain.n, 4); /* R5: nothing has changed yet */
    assert_int_equal(after.staging.to, 6);
    assert_int_equal(after.staging.far.n, 9);
    head = after;
    assert_int_equal(judge(&g), TN_GROUP_KNOWN);
    /* One that is behind the farthest sender ends nothing (R7); it does not fit either. */
    g = group(CHAIN(8, {1, 1}, {3, 5}), 6, 8);
    assert_int_equal(judge(&g), TN_GROUP_MISFIT);
    g = group(CHAIN(8, {1, 1}, {3, 5}), 4, 8);
    assert_int_equal(judge(&g), TN_GROUP_APPLY); /* ... but starts again */
    assert_true(take.fresh);
    /* Another chain, whatever its number. */
    g = group(CHAIN(20, {1, 1}, {4, 7}), 6, 20);
    assert_int_equal(judge(&g), TN_GROUP_MISFIT);
    /* A gap. */
    g = group(CHAIN(12, {1, 1}, {3, 5}), 7, 12);
    assert_int_equal(judge(&g), TN_GROUP_MISFIT);
    /* Deletions between what is staged and the rest may be missing. */
    g = group(CHAIN(12, {1, 1}, {3, 5}), 6, 12);
    g.floor = 7;
    assert_int_equal(judge(&g), TN_GROUP_MISFIT);
    g.floor = 5;
    assert_int_equal(judge(&g), TN_GROUP_APPLY);
    assert_false(take.fresh);
    assert_int_equal(after.staging.taking, TN_TAKE_NOTHING);
    assert_int_equal(after.floor, 5);
    g.to = 11;
    assert_int_equal(judge(&g), TN_GROUP_STAGE);
    assert_int_equal(after.staging.far.n, 12);
}

static void test_rewind(void **unused)
{
    struct tn_group g = group(CHAIN(9, {1, 1}, {4, 3}), 2, 9);
    uint64_t point = 0;

    (void)unused;
    assert_int_equal(judge(&g), TN_GROUP_MISFIT); /* It does not answer a hello of ours. */
    assert_true(tn_copy_rewinds(&head, &g.chain, &point));
    assert_int_equal(point, 2);
    g.rewinds = true;
    g.rewinder = at(1, 4);
    assert_int_equal(judge(&g), TN_GROUP_APPLY);
    assert_int_equal(take.taking, TN_TAKE_REWIND);
    g.rewinder = at(1, 3); /* We have moved since. */
    assert_int_equal(judge(&g), TN_GROUP_MISFIT);
    g.rewinder = at(2, 4);
    assert_int_equal(judge(&g), TN_GROUP_MISFIT);
    g.rewinder = at(1, 4);
    g.rewinder.grant[3] = 9;
    assert_int_equal(judge(&g), TN_GROUP_MISFIT);
    g.rewinder = at(1, 4);
    g.from = 1;
    assert_int_equal(judge(&g), TN_GROUP_MISFIT);
    g.from = 2;
    head.floor = 3; /* Below it we do not know what we deleted. */
    assert_int_equal(judge(&g), TN_GROUP_MISFIT);
    g.snapshot = true;
    g.rewinds = false;
    g.from = 0;
    assert_int_equal(judge(&g), TN_GROUP_APPLY);
    assert_int_equal(take.taking, TN_TAKE_SNAPSHOT);
    assert_int_equal(after.floor, 0);
    assert_false(tn_copy_rewinds(&head, &head.chain, &point));
    /* Nobody rewinds to an epoch that is not above its own. */
    head.chain = CHAIN(4, {1, 1}, {5, 4});
    assert_int_equal(judge(&g), TN_GROUP_MISFIT);
    assert_false(tn_copy_rewinds(&head, &g.chain, &point));
}

static void test_snapshot(void **unused)
{
    struct tn_group g = group(CHAIN(9, {1, 1}, {3, 5}), 0, 2);

    (void)unused;
    g.snapshot = true;
    g.floor = 6;
    assert_int_equal(judge(&g), TN_GROUP_STAGE);
    assert_int_equal(take.taking, TN_TAKE_SNAPSHOT);
    head = after;
    /* Everything below 9 was deleted before it was begun: a floor there hides nothing. */
    g = group(CHAIN(9, {1, 1}, {3, 5}), 2, 3);
    g.floor = 6;
    assert_int_equal(judge(&g), TN_GROUP_STAGE);
    assert_false(take.fresh);
    /* Ended by one that has forgotten less: the first sent no deletions up to 6. */
    g = group(CHAIN(12, {1, 1}, {3, 5}), 2, 12);
    assert_int_equal(judge(&g), TN_GROUP_APPLY);
    assert_int_equal(after.floor, 6);
    /* Beyond where it was begun it hides something. */
    g.floor = 10;
    assert_int_equal(judge(&g), TN_GROUP_MISFIT);
    head.staging.to = 11;
    assert_int_equal(judge(&g), TN_GROUP_APPLY);
}

static void test_peers_are_hostile(void **unused)
{
    struct tn_group good = group(CHAIN(9, {1, 1}, {3, 5}), 4, 9), bad;
    struct tn_hello hello = {.epoch = 3, .chain = good.chain}, odd;

    (void)unused;
    assert_true(tn_group_valid(&good));
#define BAD(change)                                                                                \
    bad = good;                                                                                    \
    change;                                                                                        \
    assert_false(tn_group_valid(&bad))
    BAD(bad.chain.n = 0);
    BAD(bad.epoch = 2);
    BAD(bad.from = 10);
    BAD(bad.to = 10);
    BAD(bad.floor = 10);
    BAD(bad.committed = at(2, 3));
    BAD(bad.snapshot = true);
    assert_true(tn_hello_valid(&hello));
#define ODD(change)                                                                                \
    odd = hello;                                                                                   \
    change;                                                                                        \
    assert_false(tn_hello_valid(&odd))
    ODD(odd.chain.n = 0);
    ODD(odd.epoch = 2);
    ODD(odd.floor = 10);
    ODD(odd.staging.taking = TN_TAKE_SNAPSHOT + 1);
    ODD(odd.staging.to = 1);
}

/* ---- Answers ----------------------------------------------------------------- */

static struct tn_answer answer(const struct tn_hello *hello)
{
    assert_true(tn_hello_valid(hello));
    return tn_copy_answer(&head, hello);
}

static void test_answers(void **unused)
{
    struct tn_hello h = {.epoch = 4, .chain = CHAIN(4, {1, 1})};

    (void)unused;
    head.chain = CHAIN(9, {1, 1}, {3, 5});
    assert_true(answer(&h).send);
    assert_int_equal(answer(&h).from, 4);
    head.floor = 4;
    assert_false(answer(&h).snapshot);
    head.floor = 5;
    assert_true(answer(&h).send && answer(&h).snapshot);
    head.floor = 0;
    /* What is staged goes on, here and from anywhere. */
    h.staging = (struct tn_staging){.taking = TN_TAKE_PLAIN, .to = 6, .far = at(3, 8)};
    assert_int_equal(answer(&h).from, 6);
    h.staging.far = at(3, 12);
    assert_int_equal(answer(&h).from, 4);
    h.staging.taking = TN_TAKE_NOTHING;
    /* At our end, or beyond it: nothing. */
    h.chain = head.chain;
    assert_false(answer(&h).send);
    h.chain.n++;
    assert_false(answer(&h).send);
    h.chain = CHAIN(9, {1, 1}, {4, 5}); /* It has to lead us, not we it. */
    assert_false(answer(&h).send);
}

static void test_answers_to_a_rewind(void **unused)
{
    struct tn_hello h = {.epoch = 4, .chain = CHAIN(7, {1, 1}, {2, 4})};

    (void)unused;
    head.chain = CHAIN(9, {1, 1}, {3, 5});
    assert_false(answer(&h).send); /* It has to name what it wants, from there. */
    h.rewinds = true;
    h.wants_from = 2;
    assert_false(answer(&h).send);
    h.wants_from = 3;
    assert_true(answer(&h).send && answer(&h).rewinds && !answer(&h).snapshot);
    assert_int_equal(answer(&h).from, 3);
    h.floor = 4;
    assert_true(answer(&h).send && answer(&h).snapshot && !answer(&h).rewinds);
    h.floor = 0;
    head.floor = 4;
    assert_true(answer(&h).send && answer(&h).snapshot);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_chain),
        cmocka_unit_test(test_chain_grows),
        cmocka_unit_test(test_chain_of_a_peer),
        cmocka_unit_test_setup(test_plain, set_up),
        cmocka_unit_test_setup(test_staging, set_up),
        cmocka_unit_test_setup(test_rewind, set_up),
        cmocka_unit_test_setup(test_snapshot, set_up),
        cmocka_unit_test_setup(test_peers_are_hostile, set_up),
        cmocka_unit_test_setup(test_answers, set_up),
        cmocka_unit_test_setup(test_answers_to_a_rewind, set_up),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
