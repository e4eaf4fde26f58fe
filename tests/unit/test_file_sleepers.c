/*
 * Those who sleep for longer than the retention, and wake up in the middle of a
 * look (S2 in src/store/file/slots.c): the world is changed just before one call.
 */
#include "file_bed.h"

#define FOUND 3  /* the slot that is the highest when the look begins */
#define LATER 20 /* and when it goes on */

static struct {
    struct bed *bed;
    tenure_store *other;
    struct tenure_token token; /* of the current slot */
    char vain[256];            /* a slot of number FOUND that nothing leads to */
    bool armed, anchored;
} world;

int __real_openat64(int dir, const char *path, int flags, ...);
int __wrap_openat64(int dir, const char *path, int flags, ...);

/* Others go on, clean up, and a sleeper links what it had prepared. */
static void pass_time(void)
{
    char path[256];

    world.armed = false;
    for (int i = FOUND; i < LATER; i++)
        must_swap(world.other, world.bed, KEY, &world.token, "newer");
    for (int i = 1; i < LATER - 8; i++)
        slot_remove(world.bed, KEY, (uint64_t)i);
    slot_path(world.bed, KEY, FOUND, path);
    assert_int_equal(link(world.vain, path), 0);
}

/* Before the last slot is read, after the anchor was: that is where the look falls asleep. */
int __wrap_openat64(int dir, const char *path, int flags, ...)
{
    va_list rest;

    va_start(rest, flags);
    mode_t mode = flags & O_CREAT ? va_arg(rest, mode_t) : 0;
    va_end(rest);
    if (world.armed && world.anchored && tn_slot_number(path) == FOUND)
        pass_time();
    world.anchored |= world.armed && tn_slot_number(path) == 1;
    return __real_openat64(dir, path, flags, mode);
}

static void vain_slot_is_not_read(void **state)
{
    struct bed bed, elsewhere;
    struct tenure_token theirs = {0};

    (void)state;
    memset(&world, 0, sizeof world);
    bed_setup(&bed, "");
    bed_setup(&elsewhere, "");
    for (int i = 0; i < FOUND; i++)
        must_swap(elsewhere.store, &elsewhere, KEY, &theirs, "vain");
    world.bed = &bed;
    world.other = bed_open(&bed, "");
    must_swap(world.other, &bed, KEY, &world.token, "first");
    must_hold(bed.store, &bed, KEY, "first"); /* the anchor */
    for (int i = 1; i < FOUND; i++)
        must_swap(world.other, &bed, KEY, &world.token, "old");
    slot_path(&elsewhere, KEY, FOUND, world.vain);

    world.armed = true;
    must_hold(bed.store, &bed, KEY, "newer");
    assert_false(world.armed); /* it did fall asleep */
    assert_true(tenure_token_equal(&bed.value.token, &world.token));
    must_swap(bed.store, &bed, KEY, &world.token, "newest");
    must_hold(world.other, &bed, KEY, "newest");
    tenure_store_close(world.other);
    bed_teardown(&elsewhere);
    bed_teardown(&bed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(vain_slot_is_not_read),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
