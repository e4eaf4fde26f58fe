/* The judge of histories, on histories written by hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "history.h"

/* A value is named by one letter; "." is the one before any of them. */
static void name(uint8_t nonce[TENURE_NONCE_SIZE], char letter)
{
    memset(nonce, 0, TENURE_NONCE_SIZE);
    nonce[0] = (uint8_t)letter;
    nonce[15] = 1;
}

static struct cf_op op(enum cf_op_kind kind, int64_t start, int64_t end, char before, char value,
                       enum tenure_status status)
{
    struct cf_op o = {.kind = kind, .status = status, .start = start, .end = end};

    name(o.before, before);
    name(o.nonce, value);
    if (status == TENURE_OK)
        o.version[0] = value;
    return o;
}

#define SWAP(start, end, before, value, status)                                                    \
    op(CF_OP_SWAP, start, end, before, value, TENURE_##status)
#define READ(start, end, before, value) op(CF_OP_READ, start, end, before, value, TENURE_OK)

static void judge(const struct cf_op *ops, size_t n, const char *complaint)
{
    struct cf_history seen;
    uint8_t initial[TENURE_NONCE_SIZE];
    char why[300] = "";

    name(initial, '.');
    bool ok = cf_history_check(ops, n, initial, &seen, why, sizeof why);
    if (complaint && (ok || !strstr(why, complaint)))
        fail_msg("expected '%s', saw '%s'", complaint, why);
    if (!complaint && !ok)
        fail_msg("expected no complaint, saw '%s'", why);
}

#define JUDGE(complaint, ...)                                                                      \
    do {                                                                                           \
        const struct cf_op ops_[] = {__VA_ARGS__};                                                 \
        judge(ops_, sizeof ops_ / sizeof ops_[0], complaint);                                      \
    } while (0)

static void sound(void **state)
{
    (void)state;
    JUDGE(NULL, READ(1, 2, 0, '.'));
    JUDGE(NULL, SWAP(1, 2, '.', 'a', OK), READ(3, 4, '.', 'a'));
    JUDGE(NULL, SWAP(1, 9, '.', 'a', OK), READ(2, 3, 0, '.'), READ(4, 5, '.', 'a'));
    JUDGE(NULL, SWAP(5, 9, 'a', 'b', OK), SWAP(1, 6, '.', 'a', OK), READ(7, 8, '.', 'a'),
          READ(7, 8, 'a', 'b'));
    JUDGE(NULL, SWAP(1, 2, '.', 'a', OK), SWAP(1, 3, '.', 'b', CONFLICT), READ(4, 5, '.', 'a'));
}

static void unknown_outcomes(void **state)
{
    (void)state;
    /* Never happened; happened; happened long after its answer. */
    JUDGE(NULL, SWAP(1, 2, '.', 'a', UNKNOWN), READ(3, 4, 0, '.'));
    JUDGE(NULL, SWAP(1, 2, '.', 'a', UNKNOWN), READ(3, 4, '.', 'a'));
    JUDGE(NULL, SWAP(1, 2, '.', 'a', UNKNOWN), READ(5, 6, 0, '.'), READ(7, 8, '.', 'a'));
    /* Seen only through the swap that followed it. */
    JUDGE(NULL, SWAP(1, 2, '.', 'a', UNKNOWN), SWAP(3, 4, 'a', 'b', OK), READ(5, 6, 'a', 'b'));
    JUDGE("stale", SWAP(1, 2, '.', 'a', UNKNOWN), READ(3, 4, '.', 'a'), READ(5, 6, 0, '.'));
    /* It may be the cause of a conflict. */
    JUDGE(NULL, SWAP(1, 2, '.', 'a', UNKNOWN), SWAP(3, 4, '.', 'b', CONFLICT));
}

static void stale_reads(void **state)
{
    (void)state;
    JUDGE("stale", SWAP(1, 2, '.', 'a', OK), READ(3, 4, 0, '.'));
    JUDGE("stale", SWAP(1, 9, '.', 'a', OK), READ(2, 3, '.', 'a'), READ(4, 5, 0, '.'));
    JUDGE("stale", SWAP(1, 2, '.', 'a', OK), SWAP(3, 4, 'a', 'b', OK), READ(5, 6, '.', 'a'));
    JUDGE("before its swap", READ(1, 2, '.', 'a'), SWAP(3, 4, '.', 'a', OK));
    JUDGE("stale", SWAP(5, 6, '.', 'a', OK), SWAP(1, 2, 'a', 'b', OK));
}

static void false_answers(void **state)
{
    (void)state;
    JUDGE("two swaps", SWAP(1, 2, '.', 'a', OK), SWAP(1, 2, '.', 'b', OK));
    JUDGE("two swaps", SWAP(1, 2, '.', 'a', OK), SWAP(1, 2, '.', 'b', UNKNOWN),
          READ(3, 4, '.', 'b'));
    JUDGE("'conflict' took effect", SWAP(1, 2, '.', 'a', CONFLICT), READ(3, 4, '.', 'a'));
    JUDGE("'timeout' took effect", SWAP(1, 2, '.', 'a', TIMEOUT), SWAP(3, 4, 'a', 'b', OK));
    JUDGE("nobody wrote", READ(1, 2, '.', 'z'));
    JUDGE("no swap wrote", SWAP(1, 2, 'z', 'a', OK));
    JUDGE("another predecessor", SWAP(1, 2, '.', 'a', OK), READ(3, 4, 'x', 'a'));
    JUDGE("on the current token", SWAP(1, 2, '.', 'a', CONFLICT));
    JUDGE("before its token was replaced", SWAP(1, 2, '.', 'a', CONFLICT),
          SWAP(3, 4, '.', 'b', OK));
    JUDGE("not in the chain", SWAP(1, 2, 'b', 'a', OK), SWAP(1, 2, 'a', 'b', OK));
}

static void versions(void **state)
{
    struct cf_op ops[] = {SWAP(1, 2, '.', 'a', OK), READ(3, 4, '.', 'a')};

    (void)state;
    ops[1].version[0] = 'x';
    judge(ops, 2, "shows version 'x'");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sound),       cmocka_unit_test(unknown_outcomes),
        cmocka_unit_test(stale_reads), cmocka_unit_test(false_answers),
        cmocka_unit_test(versions),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
