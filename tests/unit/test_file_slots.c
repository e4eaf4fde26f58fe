/* Registers on the disk: their layout, and what is made of damaged and foreign files. */
#include "file_bed.h"

static int setup(void **state)
{
    struct bed *bed = calloc(1, sizeof *bed);

    bed_setup(bed, "");
    *state = bed;
    return 0;
}

static int teardown(void **state)
{
    bed_teardown(*state);
    free(*state);
    return 0;
}

static mode_t mode_of(const char *path)
{
    struct stat st;

    assert_int_equal(lstat(path, &st), 0);
    return st.st_mode & 07777;
}

static void layout(void **state)
{
    struct bed *bed = *state;
    struct tenure_token token = {0};
    char path[256], bytes[512] = "";

    must_swap(bed->store, bed, KEY, &token, "one");
    must_swap(bed->store, bed, KEY, &token, "two");
    slot_path(bed, KEY, 2, path);
    assert_int_equal(mode_of(path), 0600);
    snprintf(bytes, sizeof bytes, "%s/web", bed->root);
    assert_int_equal(mode_of(bytes), 0700);
    assert_int_equal(mode_of(bed->root), 0700);
    int fd = open(path, O_RDONLY);
    ssize_t n = read(fd, bytes, sizeof bytes - 1);
    close(fd);
    assert_int_equal(n, TN_SLOT_HEADER + 3);
    bytes[n] = '\0';
    assert_memory_equal(bytes, "tenure-slot 1 @0000000000000002 nonce=", 38);
    assert_string_equal(bytes + TN_SLOT_HEADER, "two");
    assert_int_equal(count_names(bed, KEY, "@"), 2);
    assert_int_equal(count_names(bed, ".tmp", ""), 0);
    /* One name: the temporary one is gone. */
    struct stat st;
    assert_int_equal(lstat(path, &st), 0);
    assert_int_equal(st.st_nlink, 1);
}

static void shared_mode(void **state)
{
    struct bed bed;
    struct tenure_token token = {0};
    char path[256];
    mode_t before = umask(077);

    (void)state;
    bed_setup(&bed, "?mode=2770");
    must_swap(bed.store, &bed, KEY, &token, "x");
    umask(before);
    slot_path(&bed, KEY, 1, path);
    assert_int_equal(mode_of(path), 0660);
    assert_int_equal(mode_of(bed.root), 02770);
    snprintf(path, sizeof path, "%s/web/lease", bed.root);
    assert_int_equal(mode_of(path), 02770);
    bed_teardown(&bed);
}

static void erased_goes_on(void **state)
{
    struct bed *bed = *state;
    struct tenure_token token = {0}, erased;
    uint8_t nonce[TENURE_NONCE_SIZE];

    must_swap(bed->store, bed, KEY, &token, "one");
    tenure_nonce(nonce, NULL);
    assert_int_equal(tenure_store_erase(bed->store, KEY, &token, nonce, &erased, soon(), &bed->err),
                     TENURE_OK);
    assert_true(slot_there(bed, KEY, 2));
    must_read(bed->store, bed, KEY);
    assert_true(bed->value.tombstone);
    assert_memory_equal(bed->value.prev, token.nonce, TENURE_NONCE_SIZE);
    /* A create after it finds a register, not absence. */
    assert_int_equal(swap_on(bed->store, bed, KEY, NULL, "late").status, TENURE_CONFLICT);
    must_swap(bed->store, bed, KEY, &erased, "again");
    assert_true(slot_there(bed, KEY, 3));
}

static void below_a_register(void **state)
{
    struct bed *bed = *state;
    struct tenure_token a = {0}, b = {0};

    must_swap(bed->store, bed, "x/y", &b, "lower");
    must_read(bed->store, bed, "x");
    assert_true(tenure_token_absent(&bed->value.token));
    must_swap(bed->store, bed, "x", &a, "upper");
    must_swap(bed->store, bed, "x/y", &b, "lower 2");
    must_hold(bed->store, bed, "x", "upper");
    must_hold(bed->store, bed, "x/y", "lower 2");
}

/* ---- Damage -------------------------------------------------------------- */

struct seen {
    unsigned n;
    struct tenure_token token;
};

static bool see(void *arg, const char *key, const struct tenure_value *value)
{
    struct seen *seen = arg;

    assert_string_equal(key, KEY);
    assert_memory_equal(value->data, "file: ", 6); /* why, and no record of anything */
    seen->token = value->token;
    seen->n++;
    return true;
}

/* A listing goes on: what is damaged is there, and is not what it was. */
static void must_be_listed(tenure_store *store, struct bed *bed, const struct tenure_token *token)
{
    struct seen seen = {0};
    char mark[TENURE_VERSION_MAX + 1], again[TENURE_VERSION_MAX + 1];

    assert_int_equal(tenure_store_list(store, "", NULL, see, &seen, mark, soon(), &bed->err),
                     TENURE_OK);
    assert_int_equal(seen.n, 1);
    assert_false(tenure_token_absent(&seen.token));
    assert_false(tenure_token_equal(&seen.token, token));
    assert_int_equal(tenure_store_list(store, "", NULL, see, &seen, again, soon(), &bed->err),
                     TENURE_OK);
    assert_string_equal(mark, again);
}

/* Everything that looks at the register says so, and nothing is touched. */
static void must_be_corrupt(struct bed *bed, const struct tenure_token *token, const char *path)
{
    struct tenure_watch watch = {.key = KEY, .seen = *token};
    struct stat before, after;
    tenure_store *fresh = bed_open(bed, "");
    tenure_store *const stores[] = {bed->store, fresh};

    assert_int_equal(lstat(path, &before), 0);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(tenure_store_read(stores[i], KEY, &bed->value, soon(), &bed->err),
                         TENURE_CORRUPT);
        assert_says(bed, path);
        assert_int_equal(swap_on(stores[i], bed, KEY, token, "new").status, TENURE_CORRUPT);
        assert_int_equal(swap_on(stores[i], bed, KEY, NULL, "new").status, TENURE_CORRUPT);
        must_be_listed(stores[i], bed, token);
        assert_int_equal(tenure_store_wait(stores[i], &watch, 1, -1, soon(), &bed->err),
                         TENURE_CORRUPT);
    }
    tenure_store_close(fresh);
    assert_int_equal(lstat(path, &after), 0);
    assert_true(before.st_ino == after.st_ino && before.st_size == after.st_size &&
                before.st_ctim.tv_nsec == after.st_ctim.tv_nsec);
}

static void damaged(void **state)
{
    struct bed *bed = *state;
    struct tenure_token token = {0};
    char path[256], good[512], bad[512];

    must_swap(bed->store, bed, KEY, &token, "one");
    must_swap(bed->store, bed, KEY, &token, "two");
    slot_path(bed, KEY, 2, path);
    int fd = open(path, O_RDONLY);
    ssize_t n = read(fd, good, sizeof good);
    close(fd);
    static const long sizes[] = {0, 1, TN_SLOT_HEADER - 1, TN_SLOT_HEADER, TN_SLOT_HEADER + 2};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        write_file(path, good, (size_t)sizes[i]);
        must_be_corrupt(bed, &token, path);
    }
    memcpy(bad, good, sizeof bad);
    bad[n] = '!';
    write_file(path, bad, (size_t)n + 1); /* longer */
    must_be_corrupt(bed, &token, path);
    bad[n - 1] ^= 1;
    write_file(path, bad, (size_t)n); /* a bit of the data */
    assert_int_equal(tenure_store_read(bed->store, KEY, &bed->value, soon(), &bed->err),
                     TENURE_CORRUPT);
    assert_says(bed, path);
    memset(bad, 0, sizeof bad);
    write_file(path, bad, (size_t)n); /* zeroes, as after a crash of a careless writer */
    must_be_corrupt(bed, &token, path);
    assert_int_equal(truncate(path, INT64_C(1) << 40), 0); /* sparse and huge */
    must_be_corrupt(bed, &token, path);
    write_file(path, good, (size_t)n);
    must_hold(bed->store, bed, KEY, "two");
}

static void not_a_file(void **state)
{
    struct bed *bed = *state;
    struct tenure_token token = {0};
    char path[256], other[256], good[256];

    must_swap(bed->store, bed, KEY, &token, "one");
    slot_path(bed, KEY, 1, other);
    slot_path(bed, KEY, 2, path);
    /* A good slot behind a symbolic link: nobody knows who may change it. */
    must_swap(bed->store, bed, KEY, &token, "two");
    snprintf(good, sizeof good, "%s/good", bed->dir);
    assert_int_equal(rename(path, good), 0);
    assert_int_equal(symlink(good, path), 0);
    must_be_corrupt(bed, &token, path);
    unlink(path);
    assert_int_equal(mkfifo(path, 0600), 0);
    must_be_corrupt(bed, &token, path);
    unlink(path);
    assert_int_equal(mkdir(path, 0700), 0);
    must_be_corrupt(bed, &token, path);
    rmdir(path);
    /* A slot under another's number. */
    assert_int_equal(link(other, path), 0);
    must_be_corrupt(bed, &token, path);
    unlink(path);
    must_hold(bed->store, bed, KEY, "one");
}

/* The value that a caller passes is untouched when the read fails. */
static void value_untouched(void **state)
{
    struct bed *bed = *state;
    struct tenure_token token = {0};
    char path[256];

    must_swap(bed->store, bed, KEY, &token, "one");
    must_hold(bed->store, bed, KEY, "one");
    slot_path(bed, KEY, 1, path);
    int fd = open(path, O_WRONLY);
    assert_int_equal(pwrite(fd, "xxx", 3, TN_SLOT_HEADER), 3);
    close(fd);
    assert_int_equal(tenure_store_read(bed->store, KEY, &bed->value, soon(), &bed->err),
                     TENURE_CORRUPT);
    assert_string_equal((char *)bed->value.data, "one");
    assert_true(tenure_token_equal(&bed->value.token, &token));
}

/* An old slot may rot: the current one counts. */
static void old_slot_rots(void **state)
{
    struct bed *bed = *state;
    struct tenure_token token = {0};
    tenure_store *other = bed_open(bed, "");
    char path[256];

    must_swap(bed->store, bed, KEY, &token, "one");
    must_hold(other, bed, KEY, "one"); /* remembers slot 1 */
    must_swap(bed->store, bed, KEY, &token, "two");
    must_swap(bed->store, bed, KEY, &token, "three");
    slot_path(bed, KEY, 1, path);
    write_file(path, "rotten", 6);
    must_hold(other, bed, KEY, "three");
    tenure_store_close(other);
}

static void foreign_names(void **state)
{
    struct bed *bed = *state;
    struct tenure_token token = {0};
    static const char *const names[] = {
        "@",        "@x",     "@0000000000000000",  "@00000000000000009",
        ".nfs0001", "README", "@0000000000000009~", ".@9"};

    must_swap(bed->store, bed, KEY, &token, "one");
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char path[256];

        snprintf(path, sizeof path, "%s/%s/%s", bed->root, KEY, names[i]);
        write_file(path, "?", 1);
    }
    tenure_store *other = bed_open(bed, "");
    must_hold(other, bed, KEY, "one");
    tenure_store_close(other);
    must_swap(bed->store, bed, KEY, &token, "two");
    assert_true(slot_there(bed, KEY, 2));
}

static void numbers_end(void **state)
{
    struct bed *bed = *state;
    struct tenure_token token = {0};

    must_swap(bed->store, bed, KEY, &token, "one");
    slot_forge(bed, KEY, TN_SLOT_LIMIT, "last");
    tenure_store *other = bed_open(bed, "");
    must_hold(other, bed, KEY, "last");
    token = bed->value.token;
    assert_int_equal(swap_on(other, bed, KEY, &token, "more").status, TENURE_CORRUPT);
    assert_says(bed, "used up");
    tenure_store_close(other);
}

/* ---- Slots that nothing leads to ----------------------------------------- */

/* Slots 1..last by another handle, then the lowest are gone as if cleaned up. */
static void grow_and_clean(struct bed *bed, struct tenure_token *token, int last, int removed)
{
    tenure_store *other = bed_open(bed, "");
    char text[16];

    for (int i = (int)strtol(token->version, NULL, 10) + 1; i <= last; i++) {
        snprintf(text, sizeof text, "%d", i);
        must_swap(other, bed, KEY, token, text);
    }
    for (int i = 1; i <= removed; i++)
        slot_remove(bed, KEY, (uint64_t)i);
    tenure_store_close(other);
}

static void stale_slot_is_not_current(void **state)
{
    struct bed *bed = *state;
    struct tenure_token token = {0}, old;

    must_swap(bed->store, bed, KEY, &token, "1");
    must_swap(bed->store, bed, KEY, &token, "2");
    old = token; /* this handle knows slot 2 as the current one */
    grow_and_clean(bed, &token, 30, 20);
    slot_forge(bed, KEY, 3, "stale"); /* behind what it knows */
    must_hold(bed->store, bed, KEY, "30");
    assert_int_equal(swap_on(bed->store, bed, KEY, &old, "x").status, TENURE_CONFLICT);
}

static void stale_slot_in_place(void **state)
{
    struct bed *bed = *state;
    struct tenure_token token = {0}, old;

    must_swap(bed->store, bed, KEY, &token, "1");
    must_swap(bed->store, bed, KEY, &token, "2");
    old = token;
    grow_and_clean(bed, &token, 30, 20);
    slot_forge(bed, KEY, 2, "stale"); /* in the place of what it knows */
    must_hold(bed->store, bed, KEY, "30");
    assert_int_equal(swap_on(bed->store, bed, KEY, &old, "x").status, TENURE_CONFLICT);
    must_swap(bed->store, bed, KEY, &token, "31");
}

/* Far behind: the search does not count one by one, and does not get lost. */
static void far_behind(void **state)
{
    struct bed *bed = *state;

    for (int last = 2; last < 60; last++) {
        struct tenure_token token = {0};
        struct bed own;
        char text[16];

        bed_setup(&own, "");
        must_swap(own.store, &own, KEY, &token, "1");
        grow_and_clean(&own, &token, last, 0);
        snprintf(text, sizeof text, "%d", last);
        must_hold(own.store, &own, KEY, text);
        must_swap(own.store, &own, KEY, &token, "more");
        bed_teardown(&own);
        last += last / 4;
    }
    (void)bed;
}

/* The same numbers with other contents are another register: number and nonce must both fit (C2).
 */
static void replaced_register(void **state)
{
    struct bed *bed = *state;
    struct tenure_token token = {0}, fresh = {0};
    char from[256], to[256];

    must_swap(bed->store, bed, KEY, &token, "old 1");
    must_swap(bed->store, bed, KEY, &token, "old 2");
    snprintf(from, sizeof from, "%s/%s", bed->root, KEY);
    snprintf(to, sizeof to, "%s/moved", bed->dir);
    assert_int_equal(rename(from, to), 0);
    /* Gone: absent, and nothing to swap on. */
    must_read(bed->store, bed, KEY);
    assert_true(tenure_token_absent(&bed->value.token));
    assert_int_equal(swap_on(bed->store, bed, KEY, &token, "x").status, TENURE_CONFLICT);
    tenure_store *other = bed_open(bed, "");
    must_swap(other, bed, KEY, &fresh, "new 1");
    must_swap(other, bed, KEY, &fresh, "new 2");
    tenure_store_close(other);
    assert_int_equal(swap_on(bed->store, bed, KEY, &token, "x").status, TENURE_CONFLICT);
    must_hold(bed->store, bed, KEY, "new 2");
    struct tenure_token mixed = fresh; /* the right version with another nonce */
    memcpy(mixed.nonce, token.nonce, TENURE_NONCE_SIZE);
    assert_int_equal(swap_on(bed->store, bed, KEY, &mixed, "x").status, TENURE_CONFLICT);
    mixed = token; /* and the other way round */
    memcpy(mixed.nonce, fresh.nonce, TENURE_NONCE_SIZE);
    assert_int_equal(swap_on(bed->store, bed, KEY, &mixed, "x").status, TENURE_CONFLICT);
    must_swap(bed->store, bed, KEY, &fresh, "new 3");
}

/* ---- A store that is not there ------------------------------------------- */

static void store_gone(void **state)
{
    struct bed *bed = *state;
    struct tenure_token token = {0};
    struct tenure_watch watch = {.key = KEY};
    char away[128];

    must_swap(bed->store, bed, KEY, &token, "one");
    snprintf(away, sizeof away, "%s/away", bed->dir);
    for (int empty = 0; empty < 2; empty++) {
        /* Not there at all; or an empty directory, as when it is not mounted. */
        assert_int_equal(rename(bed->root, away), 0);
        if (empty)
            assert_int_equal(mkdir(bed->root, 0700), 0);
        assert_int_equal(tenure_store_read(bed->store, KEY, &bed->value, soon(), &bed->err),
                         TENURE_UNAVAILABLE);
        assert_says(bed, bed->root);
        assert_int_equal(swap_on(bed->store, bed, KEY, NULL, "x").status, TENURE_UNAVAILABLE);
        assert_int_equal(swap_on(bed->store, bed, KEY, &token, "x").status, TENURE_UNAVAILABLE);
        assert_int_equal(tenure_store_wait(bed->store, &watch, 1, -1, soon(), &bed->err),
                         TENURE_UNAVAILABLE);
        if (empty)
            assert_int_equal(rmdir(bed->root), 0);
        assert_int_equal(rename(away, bed->root), 0);
        must_hold(bed->store, bed, KEY, "one");
    }
}

static void tmp_gone(void **state)
{
    struct bed *bed = *state;
    struct tenure_token token = {0};
    char path[128];

    must_swap(bed->store, bed, KEY, &token, "one");
    snprintf(path, sizeof path, "%s/.tmp", bed->root);
    assert_int_equal(rmdir(path), 0);
    must_swap(bed->store, bed, KEY, &token, "two");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(layout, setup, teardown),
        cmocka_unit_test(shared_mode),
        cmocka_unit_test_setup_teardown(erased_goes_on, setup, teardown),
        cmocka_unit_test_setup_teardown(below_a_register, setup, teardown),
        cmocka_unit_test_setup_teardown(damaged, setup, teardown),
        cmocka_unit_test_setup_teardown(not_a_file, setup, teardown),
        cmocka_unit_test_setup_teardown(value_untouched, setup, teardown),
        cmocka_unit_test_setup_teardown(old_slot_rots, setup, teardown),
        cmocka_unit_test_setup_teardown(foreign_names, setup, teardown),
        cmocka_unit_test_setup_teardown(numbers_end, setup, teardown),
        cmocka_unit_test_setup_teardown(stale_slot_is_not_current, setup, teardown),
        cmocka_unit_test_setup_teardown(stale_slot_in_place, setup, teardown),
        cmocka_unit_test_setup_teardown(far_behind, setup, teardown),
        cmocka_unit_test_setup_teardown(replaced_register, setup, teardown),
        cmocka_unit_test_setup_teardown(store_gone, setup, teardown),
        cmocka_unit_test_setup_teardown(tmp_gone, setup, teardown),
    };

    return cmocka_run_group_tests_name("file_slots", tests, NULL, NULL);
}
