/* A listing in pages over a back end that is an array: a damaged value never ends it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "store/damaged.h"
#include "store/pager.h"

#define PAGE 2

enum kind { SOUND, DAMAGED, TOO_LARGE, VANISHED };

struct row {
    const char *key;
    enum kind kind;
};

static const struct row rows[] = {
    {"a", SOUND},
    {"b/1", SOUND},
    {"b/2", DAMAGED},
    {"b/3", TOO_LARGE},
    {"b/4 of others", SOUND},
    {"b/5", VANISHED},
    {"b/6", SOUND},
    {"c", SOUND},
};

struct seen {
    char text[400]; /* "KEY=DATA " of each */
    const char *stop_at;
    unsigned pages;
};

static enum tenure_status decode(struct tn_pager *p, const char *key, const void *row,
                                 struct tenure_error *err)
{
    const struct row *r = row;
    enum tenure_status status;

    if (r->kind == DAMAGED || r->kind == TOO_LARGE)
        return tenure_fail(err, TENURE_CORRUPT, "bad %s", key);
    status = r->kind == VANISHED ? tenure_value_absent(&p->value, err)
                                 : tenure_value_set(&p->value, "v", 1, err);
    if (r->kind == SOUND)
        p->value.token = (struct tenure_token){.version = "1"};
    return status;
}

static enum tenure_status take_damaged(struct tn_pager *p, const char *key, const void *row,
                                       struct tenure_error *err)
{
    const struct row *r = row;

    (void)key;
    return r->kind == TOO_LARGE ? tenure_fail(err, TENURE_CORRUPT, "too large")
                                : tn_damaged_value(&p->value, "raw", 3, err);
}

static enum tenure_status page(struct tn_pager *p, struct tenure_error *err)
{
    struct seen *seen = p->impl;
    enum tenure_status status = TENURE_OK;
    size_t i = 0, n = sizeof rows / sizeof rows[0], shown = 0;

    seen->pages++;
    if (p->mark)
        snprintf(p->mark, TENURE_VERSION_MAX + 1, "page %u", seen->pages);
    p->mark = NULL;
    while (i < n && strcmp(rows[i].key, p->last) <= 0)
        i++;
    for (; i < n && shown < PAGE && !status && !p->stop; i++, shown++)
        status = tn_pager_show(p, rows[i].key, &rows[i], err);
    if (!p->stop && i)
        snprintf(p->last, sizeof p->last, "%s", rows[i - 1].key);
    p->more = i < n;
    return status;
}

static const struct tn_pager_ops ops = {page, decode, take_damaged};

static bool visit(void *arg, const char *key, const struct tenure_value *value)
{
    struct seen *seen = arg;
    size_t n = strlen(seen->text);

    assert_false(tenure_token_absent(&value->token));
    assert_int_equal(tn_damaged(&value->token), key[2] == '2' || key[2] == '3');
    snprintf(seen->text + n, sizeof seen->text - n, "%s=%.*s ", key, (int)value->len,
             (const char *)value->data);
    return !seen->stop_at || strcmp(key, seen->stop_at) != 0;
}

static void check(bool repair, const char *after, const char *stop_at, const char *expected)
{
    struct seen seen = {.stop_at = stop_at};
    struct tn_pager p = {0};
    struct tenure_error err;
    char mark[TENURE_VERSION_MAX + 1];

    assert_int_equal(
        tn_pager_list(&p, &ops, &seen, repair, "b/", after, visit, &seen, mark, INT64_MAX, &err),
        TENURE_OK);
    assert_string_equal(seen.text, expected);
    assert_string_equal(mark, "page 1"); /* as of the beginning */
}

static void test_a_damaged_value_never_ends_a_listing(void **state)
{
    (void)state;
    check(false, NULL, NULL, "b/1=v b/2=bad b/2 b/3=bad b/3 b/6=v ");
    check(true, NULL, NULL, "b/1=v b/2=raw b/3=bad b/3 b/6=v ");
}

static void test_from_where_to_where(void **state)
{
    (void)state;
    check(false, "b/2", NULL, "b/3=bad b/3 b/6=v ");
    check(false, NULL, "b/2", "b/1=v b/2=bad b/2 ");
    check(false, "z", NULL, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_damaged_value_never_ends_a_listing),
        cmocka_unit_test(test_from_where_to_where),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
