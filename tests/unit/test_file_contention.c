/*
 * Journals that are read and written by several, and deadlines that pass meanwhile:
 * readers link nothing while a writer gets on, one that is stopped is overcome, and
 * a copy that does not fit into a call goes on in the next.
 */
#include "file_bed.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>

#include "store/file/journal/journal.h"

#define GROUP "web/state/jobs"
#define LARGE 700000 /* two of these do not fit into one part */
#define MS    INT64_C(1000000)

static atomic_int flush_ms;         /* how long each flush takes */
static atomic_int flushes;          /* so far */
static atomic_bool stop_at_journal; /* the next flush of a journal stops its thread */
static atomic_bool fail_at_journal; /* the next flush of a journal fails */
static atomic_int read_ms;          /* how long it takes to read a large document */
static sem_t stopped, woken;

int __real_fdatasync(int fd);
int __wrap_fdatasync(int fd);

static bool is_journal(int fd)
{
    char link[64], path[256];

    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, path, sizeof path - 1);
    path[n > 0 ? n : 0] = '\0';
    return strstr(path, "/" GROUP "/+") != NULL;
}

int __wrap_fdatasync(int fd)
{
    flushes++;
    if (flush_ms)
        usleep((useconds_t)flush_ms * 1000);
    return __real_fdatasync(fd);
}

ssize_t __real_pwrite64(int fd, const void *bytes, size_t n, off_t at);
ssize_t __wrap_pwrite64(int fd, const void *bytes, size_t n, off_t at);

ssize_t __wrap_pwrite64(int fd, const void *bytes, size_t n, off_t at)
{
    if (is_journal(fd) && atomic_exchange(&stop_at_journal, false)) {
        sem_post(&stopped);
        sem_wait(&woken);
    }
    if (is_journal(fd) && atomic_exchange(&fail_at_journal, false)) {
        errno = EIO;
        return -1;
    }
    return __real_pwrite64(fd, bytes, n, at);
}

ssize_t __real_pread64(int fd, void *bytes, size_t n, off_t at);
ssize_t __wrap_pread64(int fd, void *bytes, size_t n, off_t at);

ssize_t __wrap_pread64(int fd, void *bytes, size_t n, off_t at)
{
    if (read_ms && n >= LARGE)
        usleep((useconds_t)read_ms * 1000);
    return __real_pread64(fd, bytes, n, at);
}

/* ---- Help ------------------------------------------------------------------ */

static char *large;

static int setup(void **state)
{
    struct bed *bed = calloc(1, sizeof *bed);

    bed_setup(bed, "?commits=place");
    *state = bed;
    return 0;
}

static int teardown(void **state)
{
    bed_teardown(*state);
    free(*state);
    return 0;
}

/* The group's root and that many large documents. */
static void fill_group(struct bed *bed, int documents)
{
    struct tenure_token token = {0};
    char key[32];

    must_swap(bed->store, bed, GROUP, &token, "root");
    for (int i = 0; i < documents; i++) {
        snprintf(key, sizeof key, GROUP "/%d", i);
        token = (struct tenure_token){0};
        must_swap(bed->store, bed, key, &token, large);
    }
}

/* The highest number of a journal; and how many files are being written. */
static uint64_t highest(const struct bed *bed)
{
    uint64_t most = 0;
    char path[256];
    const struct dirent *entry;

    snprintf(path, sizeof path, "%s/" GROUP, bed->root);
    DIR *d = opendir(path);
    assert_non_null(d);
    while ((entry = readdir(d))) {
        uint64_t number = tn_journal_number(entry->d_name);

        most = number > most ? number : most;
    }
    closedir(d);
    return most;
}

static int drafts(const struct bed *bed)
{
    const struct dirent *entry;
    char path[256];
    int n = 0;

    snprintf(path, sizeof path, "%s/.tmp", bed->root);
    DIR *d = opendir(path);
    assert_non_null(d);
    while ((entry = readdir(d)))
        n += entry->d_name[0] != '.';
    closedir(d);
    return n;
}

/* A swap that creates key within ms. */
static enum tenure_status create_within(tenure_store *store, const char *key, int64_t ms)
{
    struct tenure_swap swap = {.key = key, .data = "new", .len = 3};
    struct tenure_error err;

    assert_int_equal(tenure_nonce(swap.nonce, NULL), TENURE_OK);
    tenure_store_swap(store, &swap, tenure_now() + ms * MS, &err);
    return swap.status;
}

static enum tenure_status read_within(tenure_store *store, struct bed *bed, const char *key,
                                      int64_t ms)
{
    return tenure_store_read(store, key, &bed->value, tenure_now() + ms * MS, &bed->err);
}

/* ---- One that has linked and not filled -------------------------------------- */

struct writer {
    pthread_t thread;
    tenure_store *store;
    enum tenure_status status;
};

static void *write_one(void *arg)
{
    struct writer *w = arg;

    w->status = create_within(w->store, GROUP "/new", 60000);
    return NULL;
}

/* It has linked the next number, and is stopped before it has filled it. */
static void stop_writer(struct bed *bed, struct writer *w)
{
    w->store = bed_open(bed, "");
    stop_at_journal = true;
    assert_int_equal(pthread_create(&w->thread, NULL, write_one, w), 0);
    sem_wait(&stopped);
}

static void wake_writer(struct writer *w)
{
    sem_post(&woken);
    pthread_join(w->thread, NULL);
    assert_int_equal(w->status, TENURE_OK);
    tenure_store_close(w->store);
}

/* Who reads waits for a writer that lives, until its own deadline, and links nothing. */
static void a_live_writer_is_waited_for(void **state)
{
    struct bed *bed = *state;
    struct writer w;

    fill_group(bed, 1);
    uint64_t before = highest(bed);
    stop_writer(bed, &w);
    tenure_store *reader = bed_open(bed, "");
    assert_int_equal(read_within(reader, bed, GROUP, 200), TENURE_TIMEOUT);
    assert_int_equal(highest(bed), before + 1);
    wake_writer(&w);
    must_hold(reader, bed, GROUP, "root");
    must_hold(reader, bed, GROUP "/new", "new");
    assert_int_equal(highest(bed), before + 1);
    tenure_store_close(reader);
}

/* One that gets no further is overcome, also by those who have little time each: it is counted
 * from call to call.  What it was about to write is then written by its own next try. */
static void a_stopped_writer_is_overcome(void **state)
{
    struct bed *bed = *state;
    struct writer w;
    enum tenure_status status;

    fill_group(bed, 3);
    uint64_t before = highest(bed);
    stop_writer(bed, &w);
    tenure_store *reader = bed_open(bed, "");
    int64_t limit = soon();
    do {
        status = read_within(reader, bed, GROUP "/2", 50);
    } while (status == TENURE_TIMEOUT && tenure_now() < limit);
    assert_int_equal(status, TENURE_OK);
    assert_string_equal((char *)bed->value.data, large);
    assert_true(highest(bed) >= before + 2);
    wake_writer(&w);
    must_hold(reader, bed, GROUP "/new", "new");
    must_hold(reader, bed, GROUP "/2", large);
    tenure_store_close(reader);
}

/* ---- Readers beside take-overs ------------------------------------------------ */

static atomic_bool done;

static void *read_on(void *arg)
{
    struct bed bed = *(const struct bed *)arg;
    tenure_store *store = bed_open(&bed, "");
    uintptr_t failed = 0;

    memset(&bed.value, 0, sizeof bed.value);
    while (!done) {
        failed += read_within(store, &bed, GROUP "/0", 60000) != TENURE_OK;
        usleep(1000);
    }
    tenure_value_free(&bed.value);
    tenure_store_close(store);
    return (void *)failed;
}

/* Each take-over is one journal, and nobody who only reads links any. */
static void readers_write_nothing(void **state)
{
    struct bed *bed = *state;
    pthread_t readers[2];
    void *failed;
    char key[32];

    fill_group(bed, 12);
    uint64_t before = highest(bed);
    flush_ms = 10; /* to copy it takes longer than anybody waits */
    done = false;
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&readers[i], NULL, read_on, bed), 0);
    for (int i = 0; i < 4; i++) {
        tenure_store *writer = bed_open(bed, "");

        snprintf(key, sizeof key, GROUP "/by-%d", i);
        assert_int_equal(create_within(writer, key, 60000), TENURE_OK);
        tenure_store_close(writer);
    }
    done = true;
    flush_ms = 0;
    for (int i = 0; i < 2; i++) {
        pthread_join(readers[i], &failed);
        assert_null(failed);
    }
    assert_int_equal(highest(bed), before + 4);
}

/* ---- Deadlines ---------------------------------------------------------------- */

/* A take-over that takes longer than a call may: each copies a little, in its time, and in the end
 * it is one journal, with everything in it. */
static void a_take_over_goes_on(void **state)
{
    struct bed *bed = *state;
    enum tenure_status status;
    char key[32];
    int calls = 0;

    fill_group(bed, 12);
    uint64_t before = highest(bed);
    tenure_store *writer = bed_open(bed, "");
    flush_ms = 20;
    do {
        int so_far = flushes;

        status = create_within(writer, GROUP "/new", 30);
        assert_true(status == TENURE_OK || status == TENURE_TIMEOUT);
        assert_true(flushes - so_far <= 4);
        assert_true(highest(bed) <= before + 1);
        /* What comes meanwhile is not lost. */
        if (++calls == 3) {
            flush_ms = 0;
            must_read(bed->store, bed, GROUP "/0");
            struct tenure_token token = bed->value.token;
            must_swap(bed->store, bed, GROUP "/0", &token, "changed");
            flush_ms = 20;
        }
    } while (status && calls < 1000);
    assert_int_equal(status, TENURE_OK);
    assert_true(calls > 3);
    flush_ms = 0;
    assert_int_equal(highest(bed), before + 1);
    assert_int_equal(drafts(bed), 0);
    tenure_store *later = bed_open(bed, "");
    must_hold(later, bed, GROUP "/0", "changed");
    must_hold(later, bed, GROUP "/new", "new");
    for (int i = 1; i < 12; i++) {
        snprintf(key, sizeof key, GROUP "/%d", i);
        must_hold(later, bed, key, large);
    }
    tenure_store_close(later);
    tenure_store_close(writer);
}

/* The same below a journal whose writer has died between link and fill.  Every call gets further,
 * although each of the two takes longer to read than a call may. */
static void a_take_over_from_the_dead_goes_on(void **state)
{
    struct bed *bed = *state;
    enum tenure_status status;
    int calls = 0;

    fill_group(bed, 12);
    uint64_t before = highest(bed);
    tenure_store *dead = bed_open(bed, "");
    fail_at_journal = true;
    assert_int_not_equal(create_within(dead, GROUP "/dead", 60000), TENURE_OK);
    tenure_store_close(dead);
    assert_int_equal(highest(bed), before + 1);
    tenure_store *writer = bed_open(bed, "");
    read_ms = 40;
    do {
        status = create_within(writer, GROUP "/new", 60);
        assert_true(status == TENURE_OK || status == TENURE_TIMEOUT);
    } while (status && ++calls < 200);
    assert_int_equal(status, TENURE_OK);
    assert_int_equal(highest(bed), before + 2);
    assert_int_equal(drafts(bed), 0);
    read_ms = 0;
    must_hold(writer, bed, GROUP "/11", large);
    must_hold(writer, bed, GROUP "/new", "new");
    tenure_store_close(writer);
}

/* One that is given up leaves nothing behind. */
static void a_draft_goes_with_its_handle(void **state)
{
    struct bed *bed = *state;

    fill_group(bed, 12);
    tenure_store *writer = bed_open(bed, "");
    flush_ms = 20;
    assert_int_equal(create_within(writer, GROUP "/new", 30), TENURE_TIMEOUT);
    assert_int_equal(create_within(writer, GROUP "/new", 30), TENURE_TIMEOUT);
    flush_ms = 0;
    tenure_store_close(writer);
    assert_int_equal(drafts(bed), 0);
    must_hold(bed->store, bed, GROUP "/0", large);
}

/* A journal that is long is begun anew beside the commits, none of which waits for all of it. */
static void a_long_journal_is_renewed_beside(void **state)
{
    struct bed *bed = *state;
    struct tenure_token token = {0};

    fill_group(bed, 12);
    uint64_t before = highest(bed);
    for (int i = 0; i < 37; i++) /* almost four times what counts */
        must_swap(bed->store, bed, GROUP "/12", &token, large);
    assert_int_equal(highest(bed), before);
    flush_ms = 200;
    for (int i = 0; i < 20 && highest(bed) == before; i++) {
        struct tenure_swap swap = {
            .key = GROUP "/12", .expect = token, .data = large, .len = LARGE};
        int so_far = flushes;

        assert_int_equal(tenure_nonce(swap.nonce, NULL), TENURE_OK);
        tenure_store_swap(bed->store, &swap, tenure_now() + 2000 * MS, &bed->err);
        assert_int_equal(swap.status, TENURE_OK);
        assert_true(flushes - so_far < 10);
        token = swap.token;
    }
    flush_ms = 0;
    assert_int_equal(highest(bed), before + 1);
    tenure_store *later = bed_open(bed, "");
    must_hold(later, bed, GROUP "/12", large);
    assert_true(tenure_token_equal(&bed->value.token, &token));
    must_hold(later, bed, GROUP "/11", large);
    tenure_store_close(later);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_live_writer_is_waited_for, setup, teardown),
        cmocka_unit_test_setup_teardown(a_stopped_writer_is_overcome, setup, teardown),
        cmocka_unit_test_setup_teardown(readers_write_nothing, setup, teardown),
        cmocka_unit_test_setup_teardown(a_take_over_goes_on, setup, teardown),
        cmocka_unit_test_setup_teardown(a_take_over_from_the_dead_goes_on, setup, teardown),
        cmocka_unit_test_setup_teardown(a_draft_goes_with_its_handle, setup, teardown),
        cmocka_unit_test_setup_teardown(a_long_journal_is_renewed_beside, setup, teardown),
    };

    sem_init(&stopped, 0, 0);
    sem_init(&woken, 0, 0);
    large = malloc(LARGE + 1);
    if (!large)
        return 1;
    memset(large, 'd', LARGE);
    large[LARGE] = '\0';
    int failed = cmocka_run_group_tests_name("file_contention", tests, NULL, NULL);
    free(large);
    return failed;
}
