/* What the file: store removes, when, in which order; and what it never removes. */
#include "file_faults.h"

#include "file_bed.h"

#define RETAIN (150 * S)
#define KEEP   8

static int setup(void **state)
{
    struct bed *bed = calloc(1, sizeof *bed);

    memset(&faults, 0, sizeof faults);
    bed_setup(bed, "");
    *state = bed;
    return 0;
}

static int teardown(void **state)
{
    memset(&faults, 0, sizeof faults);
    bed_teardown(*state);
    free(*state);
    return 0;
}

static void swaps(struct bed *bed, tenure_store *store, struct tenure_token *token, int n)
{
    while (n-- > 0)
        must_swap(store, bed, KEY, token, "x");
}

static uint64_t current(const struct tenure_token *token)
{
    return strtoull(token->version, NULL, 10);
}

/* The lowest slot; all from it to the current one must be there. */
static uint64_t lowest(struct bed *bed, const struct tenure_token *token)
{
    uint64_t low = 1;

    while (!slot_there(bed, KEY, low))
        low++;
    for (uint64_t i = low; i <= current(token); i++)
        assert_true(slot_there(bed, KEY, i));
    return low;
}

static void nothing_before_its_time(void **state)
{
    struct bed *bed = *state;
    struct tenure_token token = {0};

    for (int i = 0; i < 20; i++) {
        swaps(bed, bed->store, &token, 5);
        faults.clock_ns += RETAIN / 25;
    }
    assert_true(lowest(bed, &token) == 1);
}

/* What was superseded when it was first looked at goes; what came later stays. */
static void only_what_was_seen_superseded(void **state)
{
    struct bed *bed = *state;
    struct tenure_token token = {0};

    swaps(bed, bed->store, &token, 40);
    faults.clock_ns += RETAIN;
    uint64_t before = 1;
    for (int i = 0; i < 40; i++) {
        swaps(bed, bed->store, &token, 1);
        uint64_t low = lowest(bed, &token);
        assert_true(low - before <= 4); /* a few at a time: a swap stays cheap */
        before = low;
    }
    /* The note was made at the 17th slot: everything below was superseded then. */
    assert_true(before == 17);
    faults.clock_ns += RETAIN;
    swaps(bed, bed->store, &token, 40);
    assert_true(lowest(bed, &token) > 17);
}

static void keeps_eight(void **state)
{
    struct bed *bed = *state;
    struct tenure_token token = {0};

    for (int i = 0; i < 200; i++) {
        faults.clock_ns += 2 * RETAIN;
        swaps(bed, bed->store, &token, 1);
        uint64_t low = lowest(bed, &token);
        assert_true(low == 1 || current(&token) - low + 1 >= KEEP);
    }
    assert_true(current(&token) - lowest(bed, &token) < 4 * KEEP);
}

/* Never the next one before the lowest: that order is what searches rely on. */
static void stops_at_what_it_cannot_remove(void **state)
{
    struct bed *bed = *state;
    struct tenure_token token = {0};

    swaps(bed, bed->store, &token, 40);
    faults.unlink_keep = "@0000000000000003";
    faults.clock_ns += RETAIN;
    swaps(bed, bed->store, &token, 20);
    assert_true(lowest(bed, &token) == 3);
    faults.unlink_keep = NULL;
    swaps(bed, bed->store, &token, 20);
    assert_true(lowest(bed, &token) > 3);
}

/* Programs that end long before the retention clean up for each other. */
static void short_lives(void **state)
{
    struct bed *bed = *state;
    struct tenure_token token = {0};
    uint64_t most = 0;

    for (int i = 0; i < 300; i++) {
        tenure_store *brief = bed_open(bed, "");

        must_read(brief, bed, KEY);
        swaps(bed, brief, &token, 2);
        tenure_store_close(brief);
        faults.clock_ns += RETAIN / 10;
        uint64_t left = current(&token) - lowest(bed, &token) + 1;
        most = left > most ? left : most;
    }
    assert_true(most < 80); /* of 600: two retentions of slots, and those below the threshold */
}

/* A handle that only swaps and never looks cleans up as well. */
static void swaps_alone(void **state)
{
    struct bed *bed = *state;
    struct tenure_token token = {0};

    swaps(bed, bed->store, &token, 60);
    tenure_store *blind = bed_open(bed, "");
    swaps(bed, blind, &token, 1);
    faults.clock_ns += RETAIN;
    swaps(bed, blind, &token, 30);
    assert_true(lowest(bed, &token) > 10);
    tenure_store_close(blind);
}

static void two_who_clean(void **state)
{
    struct bed *bed = *state;
    struct tenure_token token = {0};
    tenure_store *other = bed_open(bed, "");

    for (int i = 0; i < 100; i++) {
        swaps(bed, bed->store, &token, 3);
        swaps(bed, other, &token, 3);
        faults.clock_ns += RETAIN / 8;
        lowest(bed, &token);
    }
    assert_true(current(&token) - lowest(bed, &token) < 200);
    tenure_store_close(other);
}

/* Another one has removed far more than this handle knows of. */
static void far_behind(void **state)
{
    struct bed *bed = *state;
    struct tenure_token token = {0};

    swaps(bed, bed->store, &token, 200);
    for (uint64_t i = 1; i <= 150; i++)
        slot_remove(bed, KEY, i);
    faults.clock_ns += RETAIN;
    faults.unlinks = 0;
    swaps(bed, bed->store, &token, 20);
    assert_true(faults.unlinks < 200);
    faults.clock_ns += RETAIN;
    swaps(bed, bed->store, &token, 40);
    assert_true(lowest(bed, &token) > 151);
}

/* ---- Notes --------------------------------------------------------------- */

static void note_path(struct bed *bed, char path[512])
{
    char dir[256];

    snprintf(dir, sizeof dir, "%s/%s", bed->root, KEY);
    DIR *d = opendir(dir);
    assert_non_null(d);
    path[0] = '\0';
    for (struct dirent *e; (e = readdir(d));) {
        if (strncmp(e->d_name, ".seen-", 6) == 0)
            snprintf(path, 512, "%s/%s", dir, e->d_name);
    }
    closedir(d);
}

/* A note that cannot be true, or cannot be read, is no reason to remove anything. */
static void notes_are_not_trusted_blindly(void **state)
{
    struct bed *bed = *state;
    struct tenure_token token = {0};
    static const char *const notes[] = {"",
                                        "slot 30 at 1",
                                        "slot 30 at -5\n",
                                        "slot 30 at 1\nx",
                                        "slot 0 at 1\n",
                                        "slot 99999999 at 1\n",
                                        "slot 30 at 9000000000000000000\n",
                                        "slot x at 1\n",
                                        "\xff\xff\xff\n"};
    char path[512];

    swaps(bed, bed->store, &token, 40);
    note_path(bed, path);
    assert_true(path[0]);
    for (size_t i = 0; i < sizeof notes / sizeof notes[0]; i++) {
        write_file(path, notes[i], strlen(notes[i]));
        tenure_store *fresh = bed_open(bed, "");
        must_read(fresh, bed, KEY);
        swaps(bed, fresh, &token, 2);
        tenure_store_close(fresh);
        assert_true(lowest(bed, &token) == 1);
    }
    /* The control: one that is good is used. */
    write_file(path, "slot 30 at 1\n", 13);
    tenure_store *fresh = bed_open(bed, "");
    must_read(fresh, bed, KEY);
    swaps(bed, fresh, &token, 2);
    assert_true(lowest(bed, &token) == 9);
    swaps(bed, fresh, &token, 20);
    assert_true(lowest(bed, &token) == 30);
    tenure_store_close(fresh);
}

/* Times of another boot, machine or namespace cannot be compared with ours. */
static void notes_of_other_clocks(void **state)
{
    struct bed *bed = *state;
    struct tenure_token token = {0};
    char path[512], other[600];

    swaps(bed, bed->store, &token, 40);
    note_path(bed, path);
    snprintf(other, sizeof other, "%.*s0123456789abcdef", (int)(strlen(path) - 16), path);
    unlink(path);
    write_file(other, "slot 30 at 1\n", 13);
    tenure_store *fresh = bed_open(bed, "");
    must_read(fresh, bed, KEY);
    swaps(bed, fresh, &token, 2);
    tenure_store_close(fresh);
    assert_true(lowest(bed, &token) == 1);
    /* When nothing has come from it for long, its note goes. */
    struct timespec old[2] = {{.tv_sec = 1000}, {.tv_sec = 1000}};
    assert_int_equal(utimensat(AT_FDCWD, other, old, 0), 0);
    faults.clock_ns += RETAIN;
    swaps(bed, bed->store, &token, 40);
    assert_int_equal(access(other, F_OK), -1);
}

/* ---- Temporary files ----------------------------------------------------- */

static void temps_of_the_dead(void **state)
{
    struct bed *bed = *state;
    struct tenure_token token = {0};
    struct timespec old[2] = {{.tv_nsec = UTIME_NOW}, {0}};
    char dead[160], slot_temp[160], young[160], slot[256];

    swaps(bed, bed->store, &token, 1);
    snprintf(dead, sizeof dead, "%s/.tmp/dead-1-1", bed->root);
    snprintf(young, sizeof young, "%s/.tmp/young-1-1", bed->root);
    snprintf(slot_temp, sizeof slot_temp, "%s/.tmp/linked-1-1", bed->root);
    write_file(dead, "half a sl", 9);
    write_file(young, "half a sl", 9);
    /* One that was linked, by a process that died before it removed the first name. */
    slot_path(bed, KEY, 1, slot);
    assert_int_equal(link(slot, slot_temp), 0);
    old[1].tv_sec = time(NULL) - 3600;
    assert_int_equal(utimensat(AT_FDCWD, dead, old, 0), 0);
    assert_int_equal(utimensat(AT_FDCWD, slot_temp, old, 0), 0);
    tenure_store_close(bed_open(bed, ""));
    assert_int_equal(access(dead, F_OK), -1);
    assert_int_equal(access(slot_temp, F_OK), -1);
    assert_int_equal(access(young, F_OK), 0);
    must_hold(bed->store, bed, KEY, "x");
    swaps(bed, bed->store, &token, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(nothing_before_its_time, setup, teardown),
        cmocka_unit_test_setup_teardown(only_what_was_seen_superseded, setup, teardown),
        cmocka_unit_test_setup_teardown(keeps_eight, setup, teardown),
        cmocka_unit_test_setup_teardown(stops_at_what_it_cannot_remove, setup, teardown),
        cmocka_unit_test_setup_teardown(short_lives, setup, teardown),
        cmocka_unit_test_setup_teardown(swaps_alone, setup, teardown),
        cmocka_unit_test_setup_teardown(two_who_clean, setup, teardown),
        cmocka_unit_test_setup_teardown(far_behind, setup, teardown),
        cmocka_unit_test_setup_teardown(notes_are_not_trusted_blindly, setup, teardown),
        cmocka_unit_test_setup_teardown(notes_of_other_clocks, setup, teardown),
        cmocka_unit_test_setup_teardown(temps_of_the_dead, setup, teardown),
    };

    return cmocka_run_group_tests_name("file_clean", tests, NULL, NULL);
}
