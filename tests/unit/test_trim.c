#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "os/trim.h"

static long resident_pages(void)
{
    long total = 0, resident = 0;
    FILE *f = fopen("/proc/self/statm", "r");

    assert_non_null(f);
    assert_int_equal(fscanf(f, "%ld %ld", &total, &resident), 2);
    fclose(f);
    return resident;
}

/* Data in every kind of segment survives, and code goes on running. */
static const char constant[] = "constant";
static const char *relocated = constant;
static char writable[] = "writable";

static void shrinks(void **state)
{
    char *heap = strdup("heap");
    long before = resident_pages();

    (void)state;
    tn_trim();
    long after = resident_pages();
    if (after >= before)
        fail_msg("%ld pages before, %ld after", before, after);
    assert_string_equal(relocated, "constant");
    assert_string_equal(writable, "writable");
    assert_string_equal(heap, "heap");
    free(heap);
    tn_trim();
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(shrinks)};

    return cmocka_run_group_tests_name("trim", tests, NULL, NULL);
}
