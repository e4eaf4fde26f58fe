/* Waiting on a file: store: it sees everything, and it sleeps when there is nothing. */
#include "file_faults.h"

#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>

#include "file_bed.h"

/* Every sleep of the store passes here. */
int poll(struct pollfd *fds, nfds_t n, int timeout)
{
    faults.polls++;
    struct timespec ts = {.tv_sec = timeout / 1000, .tv_nsec = timeout % 1000 * 1000000L};
    return (int)syscall(SYS_ppoll, fds, n, timeout < 0 ? NULL : &ts, NULL, 0);
}

static int setup(void **state)
{
    struct bed *bed = calloc(1, sizeof *bed);

    memset(&faults, 0, sizeof faults);
    bed_setup(bed, "?poll=20ms");
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

/* Somebody else, who acts once the store under test sleeps. */
struct actor {
    struct bed *bed;
    void (*act)(struct actor *actor, tenure_store *store);
    struct tenure_token token;
    pthread_t thread;
};

static void *act(void *arg)
{
    struct actor *actor = arg;
    tenure_store *store = bed_open(actor->bed, "?poll=20ms");

    while (faults.polls == 0)
        usleep(1000);
    usleep(20000);
    actor->act(actor, store);
    tenure_store_close(store);
    return NULL;
}

static void start(struct actor *actor)
{
    faults.polls = 0;
    assert_int_equal(pthread_create(&actor->thread, NULL, act, actor), 0);
}

static void swap_key(struct actor *actor, tenure_store *store)
{
    struct bed scratch = {0};

    must_swap(store, &scratch, KEY, &actor->token, "theirs");
}

static void swap_below(struct actor *actor, tenure_store *store)
{
    struct bed scratch = {0};
    struct tenure_token token = {0};

    (void)actor;
    must_swap(store, &scratch, "web/new/deep", &token, "theirs");
}

static int wait_for(struct bed *bed, struct tenure_watch *watch, int64_t ns)
{
    return tenure_store_wait(bed->store, watch, 1, -1, tenure_now() + ns, &bed->err);
}

/* One sleep, from the beginning to the deadline. */
static void sleeps_once(void **state)
{
    struct bed *bed = *state;
    struct tenure_watch watch = {.key = KEY};

    faults.polls = 0;
    assert_int_equal(wait_for(bed, &watch, S / 5), TENURE_TIMEOUT);
    assert_int_equal(faults.polls, 1);
    must_swap(bed->store, bed, KEY, &watch.seen, "x");
    faults.polls = 0;
    assert_int_equal(wait_for(bed, &watch, S / 5), TENURE_TIMEOUT);
    assert_int_equal(faults.polls, 1);
    /* What we do ourselves does not wake us, nor what happens to other keys. */
    struct tenure_token other = {0};
    must_swap(bed->store, bed, KEY, &watch.seen, "y");
    must_swap(bed->store, bed, "web/other", &other, "y");
    must_swap(bed->store, bed, "web/lease/below", &(struct tenure_token){0}, "y");
    faults.polls = 0;
    assert_int_equal(wait_for(bed, &watch, S / 5), TENURE_TIMEOUT);
    assert_int_equal(faults.polls, 1);
}

static void other_keys_do_not_wake(void **state)
{
    struct bed *bed = *state;
    struct tenure_watch watch = {.key = KEY};
    struct actor actor = {.bed = bed, .act = swap_below};

    must_swap(bed->store, bed, KEY, &watch.seen, "x");
    start(&actor);
    assert_int_equal(wait_for(bed, &watch, S), TENURE_TIMEOUT);
    pthread_join(actor.thread, NULL);
    assert_int_equal(faults.polls, 1);
}

static void a_change_wakes(void **state)
{
    struct bed *bed = *state;
    struct tenure_watch watch = {.key = KEY};
    struct actor actor = {.bed = bed, .act = swap_key};

    must_swap(bed->store, bed, KEY, &watch.seen, "x");
    actor.token = watch.seen;
    start(&actor);
    assert_int_equal(wait_for(bed, &watch, 60 * S), TENURE_OK);
    pthread_join(actor.thread, NULL);
    assert_in_range(faults.polls, 1, 2);
    must_hold(bed->store, bed, KEY, "theirs");
}

/* Nothing of the register's path is there yet. */
static void the_first_slot_wakes(void **state)
{
    struct bed *bed = *state;
    struct tenure_watch watch = {.key = KEY};
    struct actor actor = {.bed = bed, .act = swap_key};

    start(&actor);
    assert_int_equal(wait_for(bed, &watch, 60 * S), TENURE_OK);
    pthread_join(actor.thread, NULL);
}

static char made[2][128];

static void directories_appear(void)
{
    for (int i = 0; i < 2; i++)
        assert_int_equal(mkdir(made[i], 0700), 0);
}

/* The directories come between the subscription and the look at them, the slot much later. */
static void directories_in_between(void **state)
{
    struct bed *bed = *state;
    struct tenure_watch watch = {.key = KEY};
    struct actor actor = {.bed = bed, .act = swap_key};

    snprintf(made[0], sizeof made[0], "%s/web", bed->root);
    snprintf(made[1], sizeof made[1], "%s/web/lease", bed->root);
    start(&actor);
    /* The register, the directory above, the root; and once more the one that was missing. */
    faults.watch_skip = 3;
    faults.watch_after = directories_appear;
    assert_int_equal(wait_for(bed, &watch, 60 * S), TENURE_OK);
    pthread_join(actor.thread, NULL);
}

static void a_prefix_wakes(void **state)
{
    struct bed *bed = *state;
    static const char *const prefixes[] = {"", "w", "web", "web/", "web/n", "web/new/"};

    for (size_t i = 0; i < sizeof prefixes / sizeof prefixes[0]; i++) {
        struct tenure_watch watch = {.key = prefixes[i], .prefix = true};
        struct bed own;
        struct actor actor = {.bed = &own, .act = swap_below};

        bed_setup(&own, "?poll=20ms");
        assert_int_equal(tenure_store_list(own.store, prefixes[i], NULL, NULL, NULL, watch.mark,
                                           soon(), &own.err),
                         TENURE_OK);
        start(&actor);
        assert_int_equal(wait_for(&own, &watch, 60 * S), TENURE_OK);
        pthread_join(actor.thread, NULL);
        bed_teardown(&own);
    }
    (void)bed;
}

static void a_prefix_sleeps(void **state)
{
    struct bed *bed = *state;
    struct tenure_watch watch = {.key = "web/", .prefix = true};

    must_swap(bed->store, bed, KEY, &(struct tenure_token){0}, "x");
    must_swap(bed->store, bed, "else", &(struct tenure_token){0}, "x");
    assert_int_equal(
        tenure_store_list(bed->store, "web/", NULL, NULL, NULL, watch.mark, soon(), &bed->err),
        TENURE_OK);
    faults.polls = 0;
    assert_int_equal(wait_for(bed, &watch, S / 5), TENURE_TIMEOUT);
    assert_int_equal(faults.polls, 1);
}

/* Without inotify, or without watches, it looks from time to time. */
static void polls_if_it_must(void **state)
{
    struct bed *bed = *state;

    for (int i = 0; i < 2; i++) {
        struct tenure_watch watch = {.key = KEY};
        struct bed own;
        struct actor actor = {.bed = &own, .act = swap_key};

        bed_setup(&own, "?poll=20ms");
        faults.inotify_error = i == 0 ? EMFILE : 0;
        faults.watch_error = i == 1 ? ENOSPC : 0;
        start(&actor);
        assert_int_equal(wait_for(&own, &watch, 60 * S), TENURE_OK);
        pthread_join(actor.thread, NULL);
        faults.inotify_error = faults.watch_error = 0;
        bed_teardown(&own);
    }
    (void)bed;
}

static void network_is_polled(void **state)
{
    struct bed bed;
    struct tenure_watch watch = {.key = KEY};
    struct tenure_store_info info;

    (void)state;
    bed_setup(&bed, "?poll=10ms&fs=network");
    info = *tenure_store_info(bed.store);
    assert_false(info.notifies);
    faults.polls = 0;
    assert_int_equal(wait_for(&bed, &watch, S / 2), TENURE_TIMEOUT);
    assert_true(faults.polls > 1);
    bed_teardown(&bed);
}

static void cancelled(void **state)
{
    struct bed *bed = *state;
    struct tenure_watch watch = {.key = KEY};
    int fd = eventfd(1, EFD_CLOEXEC);
    uint64_t count;

    assert_int_equal(tenure_store_wait(bed->store, &watch, 1, fd, soon(), &bed->err),
                     TENURE_CANCELLED);
    assert_int_equal(read(fd, &count, sizeof count), sizeof count); /* not drained */
    close(fd);
}

/* Watches on keys that are not waited for any more are given back. */
static void watches_do_not_pile_up(void **state)
{
    struct bed *bed = *state;
    char key[16], path[64], line[256];
    int watches = 0;

    for (int i = 0; i < 50; i++) {
        struct tenure_watch watch = {.key = key};

        snprintf(key, sizeof key, "k%d", i);
        must_swap(bed->store, bed, key, &watch.seen, "x");
        assert_int_equal(wait_for(bed, &watch, S / 1000), TENURE_TIMEOUT);
    }
    for (int fd = 3; fd < 64; fd++) {
        snprintf(path, sizeof path, "/proc/self/fdinfo/%d", fd);
        FILE *file = fopen(path, "r");
        while (file && fgets(line, sizeof line, file))
            watches += strncmp(line, "inotify ", 8) == 0;
        if (file)
            fclose(file);
    }
    assert_int_equal(watches, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(sleeps_once, setup, teardown),
        cmocka_unit_test_setup_teardown(other_keys_do_not_wake, setup, teardown),
        cmocka_unit_test_setup_teardown(a_change_wakes, setup, teardown),
        cmocka_unit_test_setup_teardown(the_first_slot_wakes, setup, teardown),
        cmocka_unit_test_setup_teardown(directories_in_between, setup, teardown),
        cmocka_unit_test_setup_teardown(a_prefix_wakes, setup, teardown),
        cmocka_unit_test_setup_teardown(a_prefix_sleeps, setup, teardown),
        cmocka_unit_test_setup_teardown(polls_if_it_must, setup, teardown),
        cmocka_unit_test(network_is_polled),
        cmocka_unit_test_setup_teardown(cancelled, setup, teardown),
        cmocka_unit_test_setup_teardown(watches_do_not_pile_up, setup, teardown),
    };

    return cmocka_run_group_tests_name("file_wait", tests, NULL, NULL);
}
