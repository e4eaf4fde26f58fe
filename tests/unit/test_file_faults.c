/*
 * What the file: store answers when a call fails, lies, or takes its time, and
 * when others act at the worst moment.  Each test is one history.
 */
#include "file_faults.h"

#include "file_bed.h"

static struct bed *bed; /* of the running test, for the hooks */
static struct tenure_token base;

static int setup_with(const char *params)
{
    memset(&faults, 0, sizeof faults);
    bed = calloc(1, sizeof *bed);
    bed_setup(bed, params);
    memset(&base, 0, sizeof base);
    must_swap(bed->store, bed, KEY, &base, "1");
    return 0;
}

static int setup(void **state)
{
    (void)state;
    return setup_with("");
}

static int teardown(void **state)
{
    (void)state;
    memset(&faults, 0, sizeof faults);
    bed_teardown(bed);
    free(bed);
    return 0;
}

/* The store still works, from what is there, and has left nothing behind. */
static void goes_on(void)
{
    memset(&faults, 0, sizeof faults);
    assert_int_equal(count_names(bed, ".tmp", ""), 0);
    must_read(bed->store, bed, KEY);
    struct tenure_token token = bed->value.token;
    must_swap(bed->store, bed, KEY, &token, "on");
    must_hold(bed->store, bed, KEY, "on");
}

static const int lost_answers[] = {EIO, ESTALE, ETIMEDOUT, EINTR, ENOENT, EEXIST, EAGAIN, EBADF};
#define N_LOST (sizeof lost_answers / sizeof lost_answers[0])

/* ---- Answers that lie ---------------------------------------------------- */

/* A server did it and lost the answer: our nonce in the slot proves success. */
static void done_but_failed(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_LOST; i++) {
        faults.link_error = lost_answers[i];
        faults.link_done = true;
        struct tenure_swap swap = swap_on(bed->store, bed, KEY, &base, "mine");
        if (swap.status)
            fail_msg("%s after a link: %s", strerror(lost_answers[i]), bed->err.text);
        must_hold(bed->store, bed, KEY, "mine");
        assert_true(tenure_token_equal(&bed->value.token, &swap.token));
        base = swap.token;
    }
    goes_on();
}

/* Nothing is there, but it may still come: unknown, never a conflict (C3). */
static void not_done_and_failed(void **state)
{
    static const int errors[] = {EIO, ESTALE, ETIMEDOUT, EINTR, ENOENT, EAGAIN};

    (void)state;
    for (size_t i = 0; i < sizeof errors / sizeof errors[0]; i++) {
        faults.link_error = errors[i];
        struct tenure_swap swap = swap_on(bed->store, bed, KEY, &base, "mine");
        assert_int_equal(swap.status, TENURE_UNKNOWN);
        must_hold(bed->store, bed, KEY, "1");
        assert_false(slot_there(bed, KEY, 2));
    }
    goes_on();
}

static void refused(void **state)
{
    static const struct {
        int error;
        enum tenure_status status;
    } rows[] = {{ENOSPC, TENURE_UNAVAILABLE}, {EDQUOT, TENURE_UNAVAILABLE}, {EROFS, TENURE_DENIED},
                {EACCES, TENURE_DENIED},      {EPERM, TENURE_DENIED},       {EXDEV, TENURE_CONFIG},
                {EMLINK, TENURE_CONFIG},      {EOPNOTSUPP, TENURE_CONFIG}};

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        faults.link_error = rows[i].error;
        assert_int_equal(swap_on(bed->store, bed, KEY, &base, "mine").status, rows[i].status);
        assert_says(bed, bed->root);
        must_hold(bed->store, bed, KEY, "1");
    }
    goes_on();
}

/* ---- Others at the worst moment ------------------------------------------ */

/* Somebody else swaps until slot `last`. */
static void others_until(uint64_t last)
{
    tenure_store *other = bed_open(bed, "");
    struct tenure_token token;

    must_read(other, bed, KEY);
    token = bed->value.token;
    while (strtoull(token.version, NULL, 10) < last)
        must_swap(other, bed, KEY, &token, "theirs");
    tenure_store_close(other);
}

static void others_swap_once(void)
{
    others_until(2);
}

static void beaten(void **state)
{
    (void)state;
    faults.link_before = others_swap_once;
    assert_int_equal(swap_on(bed->store, bed, KEY, &base, "mine").status, TENURE_CONFLICT);
    must_hold(bed->store, bed, KEY, "theirs");
    goes_on();
}

static void others_build_on_it(void)
{
    others_until(6);
}

/* Applied, and superseded before we looked: it took effect all the same. */
static void superseded_at_once(void **state)
{
    (void)state;
    faults.link_after = others_build_on_it;
    struct tenure_swap swap = swap_on(bed->store, bed, KEY, &base, "mine");
    assert_int_equal(swap.status, TENURE_OK);
    must_hold(bed->store, bed, KEY, "theirs");
    assert_int_equal(swap_on(bed->store, bed, KEY, &swap.token, "x").status, TENURE_CONFLICT);
    goes_on();
}

static void superseded_and_answer_lost(void **state)
{
    (void)state;
    faults.link_after = others_build_on_it;
    faults.link_error = EIO;
    faults.link_done = true;
    assert_int_equal(swap_on(bed->store, bed, KEY, &base, "mine").status, TENURE_OK);
    goes_on();
}

static void others_go_far(void)
{
    others_until(30);
    for (uint64_t i = 1; i <= 20; i++)
        slot_remove(bed, KEY, i);
}

/* We slept between looking and linking; slot 2 came, was superseded, and was
 * cleaned up.  The link succeeds, and means nothing. */
static void fills_a_cleaned_slot(void **state)
{
    (void)state;
    faults.link_before = others_go_far;
    struct tenure_swap swap = swap_on(bed->store, bed, KEY, &base, "mine");
    assert_true(slot_there(bed, KEY, 2));
    assert_int_equal(swap.status, TENURE_UNKNOWN);
    must_hold(bed->store, bed, KEY, "theirs");
    goes_on();
    tenure_store *fresh = bed_open(bed, "");
    must_hold(fresh, bed, KEY, "on");
    tenure_store_close(fresh);
}

static uint64_t forged_at;

static void others_go_far_and_fill(void)
{
    others_go_far();
    slot_forge(bed, KEY, forged_at, "stale");
}

/* The same, with another sleeper's slot in the place of our predecessor: its number alone
 * would fit. */
static void fills_behind_another_sleeper(void **state)
{
    (void)state;
    forged_at = 1;
    faults.link_before = others_go_far_and_fill;
    assert_int_equal(swap_on(bed->store, bed, KEY, &base, "mine").status, TENURE_UNKNOWN);
    goes_on();
}

/* Applied in time, but everything was cleaned up before we looked: not a conflict either. */
static void cleaned_before_looking(void **state)
{
    (void)state;
    faults.link_after = others_go_far;
    assert_int_equal(swap_on(bed->store, bed, KEY, &base, "mine").status, TENURE_UNKNOWN);
    goes_on();
}

static void somebody_moves_it(void)
{
    char from[256], to[256];

    slot_path(bed, KEY, 2, from);
    snprintf(to, sizeof to, "%s/elsewhere", bed->dir);
    assert_int_equal(rename(from, to), 0);
}

/* "There is one already", says the server about our own, which is gone when we look: it has a
 * second name somewhere. */
static void told_of_itself(void **state)
{
    static const int errors[] = {EEXIST, ENOSPC, EACCES};

    (void)state;
    for (size_t i = 0; i < sizeof errors / sizeof errors[0]; i++) {
        faults.link_error = errors[i];
        faults.link_done = true;
        faults.link_after = somebody_moves_it;
        assert_int_equal(swap_on(bed->store, bed, KEY, &base, "mine").status, TENURE_UNKNOWN);
    }
    goes_on();
}

/* The same, and it was superseded and cleaned up, so that not even that is left. */
static void told_of_itself_and_cleaned(void **state)
{
    (void)state;
    faults.link_error = EEXIST;
    faults.link_done = true;
    faults.link_after = others_go_far;
    assert_int_equal(swap_on(bed->store, bed, KEY, &base, "mine").status, TENURE_UNKNOWN);
    goes_on();
}

static void others_go_far_and_fill_ours(void)
{
    forged_at = 2;
    others_go_far_and_fill();
    faults.clock_ns += 150 * S;
}

/* The same, and somebody who slept has filled the slot: only the time tells. */
static void told_of_itself_and_filled(void **state)
{
    (void)state;
    faults.link_error = EEXIST;
    faults.link_done = true;
    faults.link_after = others_go_far_and_fill_ours;
    assert_int_equal(swap_on(bed->store, bed, KEY, &base, "mine").status, TENURE_UNKNOWN);
    goes_on();
}

/* The next slot is there, but was not built on ours. */
static void others_forge_next(void)
{
    slot_forge(bed, KEY, 3, "stale");
}

static void next_is_not_built_on_it(void **state)
{
    (void)state;
    faults.link_after = others_forge_next;
    assert_int_equal(swap_on(bed->store, bed, KEY, &base, "mine").status, TENURE_UNKNOWN);
    goes_on();
}

static void others_create_and_go_far(void)
{
    tenure_store *other = bed_open(bed, "");
    struct tenure_token token = {0};

    for (int i = 0; i < 20; i++)
        must_swap(other, bed, "new", &token, "theirs");
    tenure_store_close(other);
    for (uint64_t i = 1; i <= 10; i++)
        slot_remove(bed, "new", i);
}

/* A create that lands after all that it would have conflicted with is gone (Absence). */
static void late_create(void **state)
{
    (void)state;
    faults.link_before = others_create_and_go_far;
    assert_int_equal(swap_on(bed->store, bed, "new", NULL, "mine").status, TENURE_UNKNOWN);
    must_hold(bed->store, bed, "new", "theirs");
}

static void register_moves_away(void)
{
    char from[256], to[256];

    snprintf(from, sizeof from, "%s/%s", bed->root, KEY);
    snprintf(to, sizeof to, "%s/moved", bed->dir);
    assert_int_equal(rename(from, to), 0);
    assert_int_equal(mkdir(from, 0700), 0);
    slot_forge(bed, KEY, 1, "other");
}

/* ---- Time ---------------------------------------------------------------- */

static void a_quarter_passes(void)
{
    faults.clock_ns += 150 * S / 4;
}

static void late_link_claims_nothing(void **state)
{
    (void)state;
    faults.link_before = a_quarter_passes;
    struct tenure_swap swap = swap_on(bed->store, bed, KEY, &base, "mine");
    assert_int_equal(swap.status, TENURE_UNKNOWN);
    assert_says(bed, "too long");
    must_hold(bed->store, bed, KEY, "mine"); /* it did count, as reading shows */
    assert_memory_equal(bed->value.token.nonce, swap.nonce, TENURE_NONCE_SIZE);
    goes_on();
}

/* The deadline passes while the disk is busy, before anything can have happened. */
static void slow_flush(void **state)
{
    (void)state;
    faults.sync_ns = 61 * S;
    assert_int_equal(swap_on(bed->store, bed, KEY, &base, "mine").status, TENURE_TIMEOUT);
    assert_int_equal(faults.links, 1); /* the one of setup() */
    must_hold(bed->store, bed, KEY, "1");
    faults.sync_ns = 0;
    goes_on();
}

static void slow_listing(void **state)
{
    tenure_store *fresh = bed_open(bed, "");

    (void)state;
    faults.list_ns = 38 * S; /* each takes more than a quarter of the retention */
    assert_int_equal(tenure_store_read(fresh, KEY, &bed->value, tenure_now() + 1000 * S, &bed->err),
                     TENURE_TIMEOUT);
    assert_int_equal(
        tenure_store_read(fresh, KEY, &bed->value, tenure_now() + 1000000 * S, &bed->err),
        TENURE_UNAVAILABLE);
    /* Nor is that an absent register: "web" is only the directory of another. */
    assert_int_equal(
        tenure_store_read(fresh, "web", &bed->value, tenure_now() + 1000000 * S, &bed->err),
        TENURE_UNAVAILABLE);
    faults.list_ns = 0;
    must_hold(fresh, bed, KEY, "1");
    must_read(fresh, bed, "web");
    assert_true(tenure_token_absent(&bed->value.token));
    tenure_store_close(fresh);
}

/* ---- Listings that lie --------------------------------------------------- */

/* One listing that shows nothing is not absence. */
static void hidden_once(void **state)
{
    tenure_store *fresh = bed_open(bed, "");

    (void)state;
    faults.hide = 1;
    must_hold(fresh, bed, KEY, "1");
    assert_int_equal(faults.hide, 0);
    tenure_store_close(fresh);
    fresh = bed_open(bed, "");
    faults.hide = 1;
    assert_int_equal(swap_on(fresh, bed, KEY, NULL, "new").status, TENURE_CONFLICT);
    tenure_store_close(fresh);
}

/* A listing from a cache shows what is long gone, again and again: not absence either. */
static void ghosts(void **state)
{
    tenure_store *fresh = bed_open(bed, "");

    (void)state;
    faults.ghosts = 3;
    must_hold(fresh, bed, KEY, "1");
    assert_int_equal(faults.ghosts, 0);
    faults.ghosts = 1000000;
    tenure_store_close(fresh);
    fresh = bed_open(bed, "");
    assert_int_equal(tenure_store_read(fresh, KEY, &bed->value, soon(), &bed->err),
                     TENURE_UNAVAILABLE);
    tenure_store_close(fresh);
}

/* ---- Flushing ------------------------------------------------------------ */

static void flush_fails(void **state)
{
    static const struct {
        int error;
        enum tenure_status status;
    } rows[] = {
        {EIO, TENURE_UNAVAILABLE}, {ENOSPC, TENURE_UNAVAILABLE}, {EDQUOT, TENURE_UNAVAILABLE}};

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        faults.sync_error = rows[i].error; /* of the slot: nothing has happened yet */
        assert_int_equal(swap_on(bed->store, bed, KEY, &base, "mine").status, rows[i].status);
        assert_false(slot_there(bed, KEY, 2));
    }
    goes_on();
}

static void directory_flush_fails(void **state)
{
    (void)state;
    faults.sync_skip = 1;
    faults.sync_error = EIO; /* of the directory: the link may be lost in a power failure */
    struct tenure_swap swap = swap_on(bed->store, bed, KEY, &base, "mine");
    assert_int_equal(swap.status, TENURE_UNKNOWN);
    goes_on();
}

/* A file system that cannot flush a directory: nothing more can be done. */
static void directory_flush_unknown(void **state)
{
    (void)state;
    faults.sync_skip = 1;
    faults.sync_error = EINVAL;
    assert_int_equal(swap_on(bed->store, bed, KEY, &base, "mine").status, TENURE_OK);
    goes_on();
}

/* The slot's bytes, then the link, then its directory; for a first one those above before
 * the link: the store's own and the one that is in, too. */
static void what_is_flushed(void **state)
{
    (void)state;
    faults.syncs = 0;
    must_swap(bed->store, bed, KEY, &base, "2");
    assert_int_equal(faults.syncs, 2);
    faults.syncs = 0;
    struct tenure_token token = {0};
    must_swap(bed->store, bed, "a/b/c", &token, "1");
    assert_int_equal(faults.syncs, 2 + 4);
}

static void above_flush_fails(void **state)
{
    (void)state;
    for (int i = 1; i <= 5; i++) {
        char key[16];

        snprintf(key, sizeof key, "k%d/b/c", i);
        faults.sync_skip = i;
        faults.sync_error = EIO;
        assert_int_equal(swap_on(bed->store, bed, key, NULL, "1").status,
                         i < 5 ? TENURE_UNAVAILABLE : TENURE_UNKNOWN);
        assert_int_equal(slot_there(bed, key, 1), i == 5);
    }
    goes_on();
}

/* In a moved directory the link succeeds where nobody looks. */
static void moved_before_linking(void **state)
{
    (void)state;
    faults.link_before = register_moves_away;
    assert_int_equal(swap_on(bed->store, bed, KEY, &base, "mine").status, TENURE_UNKNOWN);
    must_hold(bed->store, bed, KEY, "other");
}

/* ---- Batches ------------------------------------------------------------- */

/* One of three has its own fate; the others do not care. */
static void batch_with_faults(void **state)
{
    struct tenure_swap swaps[3] = {{.key = "b/1"}, {.key = "b/2"}, {.key = "b/3"}};

    (void)state;
    for (int i = 0; i < 3; i++) {
        swaps[i].data = "x";
        swaps[i].len = 1;
        tenure_nonce(swaps[i].nonce, NULL);
    }
    faults.link_error = EIO; /* the first link */
    assert_int_equal(tenure_store_swap_many(bed->store, swaps, 3, soon(), &bed->err), TENURE_OK);
    assert_int_equal(swaps[0].status, TENURE_UNKNOWN);
    assert_int_equal(swaps[1].status, TENURE_OK);
    assert_int_equal(swaps[2].status, TENURE_OK);
    assert_says(bed, "b/1");
    must_hold(bed->store, bed, "b/2", "x");
    must_read(bed->store, bed, "b/1");
    assert_true(tenure_token_absent(&bed->value.token));
    assert_int_equal(count_names(bed, ".tmp", ""), 0);
}

static int setup_network(void **state)
{
    (void)state;
    return setup_with("?fs=network");
}

#define BOTH(test)                                                                                 \
    cmocka_unit_test_setup_teardown(test, setup, teardown),                                        \
        cmocka_unit_test_setup_teardown(test, setup_network, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        BOTH(done_but_failed),
        BOTH(not_done_and_failed),
        BOTH(refused),
        BOTH(beaten),
        BOTH(superseded_at_once),
        BOTH(superseded_and_answer_lost),
        BOTH(fills_a_cleaned_slot),
        BOTH(fills_behind_another_sleeper),
        BOTH(cleaned_before_looking),
        BOTH(next_is_not_built_on_it),
        BOTH(told_of_itself),
        BOTH(told_of_itself_and_cleaned),
        BOTH(told_of_itself_and_filled),
        BOTH(late_create),
        BOTH(late_link_claims_nothing),
        BOTH(slow_flush),
        BOTH(slow_listing),
        BOTH(hidden_once),
        BOTH(ghosts),
        BOTH(flush_fails),
        BOTH(directory_flush_fails),
        BOTH(directory_flush_unknown),
        BOTH(what_is_flushed),
        BOTH(above_flush_fails),
        BOTH(moved_before_linking),
        BOTH(batch_with_faults),
    };

    return cmocka_run_group_tests_name("file_faults", tests, NULL, NULL);
}
