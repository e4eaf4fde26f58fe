/* file: as an operator sees it who repairs: what is damaged is read as it is, and just that
 * replaced.
 */
#include "file_bed.h"

static void repaired(void **state)
{
    static const char text[] = "tenure-slot 1 and no more of it";
    struct bed *bed = *state;
    struct tenure_token token = {0}, first;
    tenure_store *repairer = bed_open(bed, "?repair=yes");
    struct tenure_swap swap;
    char path[256];

    must_swap(bed->store, bed, KEY, &token, "one");
    must_swap(bed->store, bed, KEY, &token, "two");
    slot_path(bed, KEY, 2, path);
    write_file(path, text, sizeof text - 1);
    must_read(repairer, bed, KEY);
    first = bed->value.token;
    assert_int_equal(bed->value.len, sizeof text - 1);
    assert_memory_equal(bed->value.data, text, sizeof text - 1);
    /* Neither what was there before, nor by anybody else. */
    assert_int_equal(swap_on(repairer, bed, KEY, &token, "new").status, TENURE_CONFLICT);
    assert_int_equal(swap_on(repairer, bed, KEY, NULL, "new").status, TENURE_CONFLICT);
    assert_int_equal(swap_on(bed->store, bed, KEY, &first, "new").status, TENURE_CORRUPT);
    /* Other damage is not what was seen. */
    write_file(path, text, sizeof text - 2);
    assert_int_equal(swap_on(repairer, bed, KEY, &first, "new").status, TENURE_CONFLICT);
    must_read(repairer, bed, KEY);
    token = bed->value.token;
    swap = swap_on(repairer, bed, KEY, &token, "three");
    assert_int_equal(swap.status, TENURE_OK);
    must_hold(bed->store, bed, KEY, "three");
    assert_memory_equal(bed->value.prev, token.nonce, TENURE_NONCE_SIZE);
    assert_int_equal(swap_on(repairer, bed, KEY, &token, "again").status, TENURE_CONFLICT);
    must_swap(bed->store, bed, KEY, &swap.token, "four");
    tenure_store_close(repairer);
}

/* A sound line in front of rotten data: all of it is read, and the line says what it replaces. */
static void rotten_data(void **state)
{
    struct bed *bed = *state;
    struct tenure_token token = {0};
    tenure_store *repairer = bed_open(bed, "?repair=yes");
    char path[256], bad[512];

    must_swap(bed->store, bed, KEY, &token, "one");
    slot_path(bed, KEY, 1, path);
    int fd = open(path, O_RDONLY);
    ssize_t n = read(fd, bad, sizeof bad);
    close(fd);
    bad[n - 1] ^= 1;
    write_file(path, bad, (size_t)n);
    assert_int_equal(tenure_store_read(bed->store, KEY, &bed->value, soon(), &bed->err),
                     TENURE_CORRUPT);
    must_read(repairer, bed, KEY);
    assert_int_equal(bed->value.len, n);
    assert_memory_equal(bed->value.data, bad, n);
    token = bed->value.token;
    must_swap(repairer, bed, KEY, &token, "two");
    must_hold(bed->store, bed, KEY, "two");
    tenure_store_close(repairer);
}

/* What is larger than anything of ours is not read into memory, and said so. */
static void far_too_large(void **state)
{
    struct bed *bed = *state;
    struct tenure_token token = {0};
    tenure_store *repairer = bed_open(bed, "?repair=yes");
    char path[256];

    must_swap(bed->store, bed, KEY, &token, "one");
    slot_path(bed, KEY, 1, path);
    assert_int_equal(truncate(path, INT64_C(1) << 40), 0);
    assert_int_equal(tenure_store_read(repairer, KEY, &bed->value, soon(), &bed->err),
                     TENURE_CORRUPT);
    assert_non_null(strstr(bed->err.text, "8 MiB"));
    assert_int_equal(truncate(path, 8 << 20), 0); /* as it says */
    must_read(repairer, bed, KEY);
    token = bed->value.token;
    must_swap(repairer, bed, KEY, &token, "two");
    must_hold(bed->store, bed, KEY, "two");
    tenure_store_close(repairer);
}

static int setup(void **state)
{
    static struct bed bed;

    bed_setup(&bed, "");
    *state = &bed;
    return 0;
}

static int teardown(void **state)
{
    bed_teardown(*state);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(repaired, setup, teardown),
        cmocka_unit_test_setup_teardown(rotten_data, setup, teardown),
        cmocka_unit_test_setup_teardown(far_too_large, setup, teardown),
    };

    return cmocka_run_group_tests_name("file_repair", tests, NULL, NULL);
}
