/* The set of copies that count: every small set, every answer, every outcome of a swap. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/replica/set.h"

#define IDS 4u /* copy 0 is the primary's own */

static const uint8_t *id(unsigned i)
{
    static uint8_t ids[IDS + TN_SET_MAX][TENURE_NONCE_SIZE];

    memset(ids[i], 'a' + (int)i, sizeof ids[i]);
    return ids[i];
}

/* Bit i: copy i is a member. */
static struct tn_set made(unsigned bits, uint32_t k)
{
    struct tn_set set = {.k = k};

    for (unsigned i = 0; i < IDS; i++)
        if (bits & 1u << i)
            tn_set_add(&set, id(i));
    return set;
}

static void test_members(void **unused)
{
    struct tn_set a = made(5, 1), b = made(0, 1);

    (void)unused;
    tn_set_add(&b, id(2));
    tn_set_add(&b, id(0));
    tn_set_add(&b, id(0));
    assert_true(tn_set_equal(&a, &b)); /* in any order */
    b.k = 0;
    assert_false(tn_set_equal(&a, &b));
    b = made(6, 1);
    assert_false(tn_set_equal(&a, &b));
    tn_set_remove(&b, id(1));
    tn_set_remove(&b, id(3));
    assert_int_equal(b.count, 1);
    assert_true(tn_set_has(&b, id(2)));
    assert_false(tn_set_equal(&a, &b));
    assert_false(tn_set_established(&b));
    assert_true(tn_set_established(&a));
}

/* The rule of R12, N4 to N6, written down once more: by copy, not by set. */
static uint64_t expected(unsigned landed, unsigned wanted, bool doubt, uint32_t in_force,
                         uint32_t k, const uint64_t *has, uint64_t before)
{
    unsigned either = doubt ? landed | wanted : landed, both = doubt ? landed & wanted : landed;
    uint64_t least = has[0];
    uint32_t certain = 0, members = 0;

    for (unsigned i = 0; i < IDS; i++) {
        members += landed >> i & 1;
        certain += i > 0 && both >> i & 1;
        if (i > 0 && either >> i & 1 && has[i] < least)
            least = has[i];
    }
    return members > in_force && certain >= k && least > before ? least : before;
}

static void test_every_acknowledgement(void **unused)
{
    (void)unused;
    for (unsigned landed = 1; landed < 16; landed += 2)
        for (unsigned wanted = 1; wanted < 16; wanted += 2)
            for (unsigned rest = 0; rest < 2 * 3 * 3 * 64; rest++) {
                bool doubt = rest & 1;
                uint32_t in_force = rest / 2 % 3, k = rest / 6 % 3;
                unsigned digits = rest / 18;
                uint64_t has[IDS] = {7, 4 + digits % 4, 4 + digits / 4 % 4, 4 + digits / 16};
                struct tn_set_view view = {made(landed, in_force), made(wanted, k), doubt};
                struct tn_set_ack acks[IDS - 1];

                for (unsigned i = 1; i < IDS; i++) {
                    acks[i - 1] = (struct tn_set_ack){.n = has[i]};
                    memcpy(acks[i - 1].id, id(i), TENURE_NONCE_SIZE);
                    assert_int_equal(tn_set_waits_for(&view, id(i)),
                                     (doubt ? landed | wanted : landed) >> i & 1);
                }
                assert_int_equal(tn_set_committed(&view, id(0), has[0], k, acks, IDS - 1, 5),
                                 expected(landed, wanted, doubt, in_force, k, has, 5));
            }
}

/* A member that has said nothing has nothing. */
static void test_unheard(void **unused)
{
    struct tn_set_view view = {.landed = made(3, 1)};

    (void)unused;
    assert_int_equal(tn_set_committed(&view, id(0), 7, 1, NULL, 0, 0), 0);
}

static unsigned bits_of(const struct tn_set *set)
{
    unsigned bits = 0;

    for (unsigned i = 0; i < IDS; i++)
        bits |= (unsigned)tn_set_has(set, id(i)) << i;
    return bits;
}

/* What a change of the set must never do, for every set and everything known of the copies. */
static void test_every_proposal(void **unused)
{
    (void)unused;
    for (unsigned landed = 1; landed < 16; landed += 2)
        for (unsigned rest = 0; rest < 3 * 3 * 64; rest++) {
            uint32_t in_force = rest % 3, k = rest / 3 % 3;
            unsigned digits = rest / 9, before, after;
            struct tn_set_view view = {.landed = made(landed, in_force)};
            struct tn_set next = view.landed;
            struct tn_set_ack acks[IDS];

            memset(acks, 0, sizeof acks);
            for (unsigned i = 0; i < IDS; i++) {
                acks[i].n = i > 0 && digits >> (i - 1) & 1 ? 9 : 8; /* 9 was acknowledged */
                acks[i].lost = i == 0 || digits >> (i + 2) & 1;
                memcpy(acks[i].id, id(i), TENURE_NONCE_SIZE);
            }
            if (!tn_set_propose(&view, id(0), k, acks, IDS, 9, &next)) {
                assert_true(tn_set_equal(&next, &view.landed));
                continue;
            }
            before = bits_of(&view.landed);
            after = bits_of(&next);
            assert_true(after & 1); /* never without the primary's own */
            if (tn_set_established(&view.landed))
                assert_true(tn_set_established(&next));
            for (unsigned i = 1; i < IDS; i++) {
                if (after & ~before & 1u << i)
                    assert_true(acks[i].n == 9 && !acks[i].lost);
                if (before & ~after & 1u << i)
                    assert_true(acks[i].lost && next.count >= next.k + 1);
            }
            assert_true(next.k == in_force || next.k == k);
            if (next.count > k)
                assert_int_equal(next.k, k);
        }
}

static void test_proposals(void **unused)
{
    struct tn_set_view view = {.landed = made(3, 1)};
    struct tn_set_ack acks[2] = {{.lost = true}, {.n = 9}};
    struct tn_set next;

    (void)unused;
    memcpy(acks[0].id, id(1), TENURE_NONCE_SIZE);
    memcpy(acks[1].id, id(2), TENURE_NONCE_SIZE);
    /* A lost disk is replaced by a new one in one swap. */
    assert_true(tn_set_propose(&view, id(0), 1, acks, 2, 9, &next));
    assert_int_equal(bits_of(&next), 5);
    /* Without one it stays: blocking is the same, and it stays eligible. */
    assert_false(tn_set_propose(&view, id(0), 1, acks, 1, 9, &next));
    /* `available`: removed first, then acknowledged alone. */
    assert_true(tn_set_propose(&view, id(0), 0, acks, 1, 9, &next));
    assert_int_equal(bits_of(&next), 1);
    assert_int_equal(next.k, 0);
    /* A full set takes nobody. */
    for (unsigned i = 2; view.landed.count < TN_SET_MAX; i++)
        tn_set_add(&view.landed, id(IDS + i));
    assert_false(tn_set_propose(&view, id(0), 1, &acks[1], 1, 9, &next));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_members),   cmocka_unit_test(test_every_acknowledgement),
        cmocka_unit_test(test_unheard),   cmocka_unit_test(test_every_proposal),
        cmocka_unit_test(test_proposals),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
