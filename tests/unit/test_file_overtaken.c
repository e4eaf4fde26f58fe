/*
 * Journals whose writers are overtaken, fail or lose power at the worst moment
 * (J2 to J5 in src/store/file/journal/journal.h).  Each candidate is a thread; it stops
 * at the calls below until it is told to go on.
 */
#include "file_bed.h"

#include <limits.h>
#include <pthread.h>
#include <semaphore.h>
#include <sys/wait.h>

#include "store/file/journal/journal.h"

#define GROUP "web/state/jobs"
#define ONE   GROUP "/1"

/* Who runs on this thread: A has the journal and commits, X and Y take it over. */
static __thread char role;
static __thread int writes, flushes; /* of journals: what is not linked yet does not count */
static __thread int fail_opens, fail_syncs;

enum gate { A_WRITES, A_LOOKS, X_FILLS, X_FILLED, Y_FILLED, GATES };
static struct {
    sem_t reached, open;
} gates[GATES];

static enum { NOTHING, OPEN_FAILS, SYNC_FAILS, POWER_FAILS } plan; /* for Y */
static int die_at_flush, any_flushes;                              /* 0: never */
static int broken_flushes; /* so many fail from now on, of whatever file */
static int cut_write;      /* 1: the next write is short, and the one after it fails */

static void stop_at(enum gate gate)
{
    sem_post(&gates[gate].reached);
    sem_wait(&gates[gate].open);
}

static void await(enum gate gate)
{
    sem_wait(&gates[gate].reached);
}

static void let_go(enum gate gate)
{
    sem_post(&gates[gate].open);
}

/* ---- The calls ----------------------------------------------------------- */

ssize_t __real_pwrite64(int fd, const void *bytes, size_t n, off_t at);
ssize_t __wrap_pwrite64(int fd, const void *bytes, size_t n, off_t at);
int __real_fdatasync(int fd);
int __wrap_fdatasync(int fd);
int __real_fsync(int fd);
int __wrap_fsync(int fd);
int __real_open64(const char *path, int flags, ...);
int __wrap_open64(const char *path, int flags, ...);

static bool is_journal(int fd)
{
    char link[64], path[256];

    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, path, sizeof path - 1);
    path[n > 0 ? n : 0] = '\0';
    return strstr(path, "/" GROUP "/+") != NULL;
}

ssize_t __wrap_pwrite64(int fd, const void *bytes, size_t n, off_t at)
{
    if (role && !is_journal(fd))
        return __real_pwrite64(fd, bytes, n, at);
    writes++;
    if (role == 'A' && writes == 1)
        stop_at(A_WRITES);
    if (role == 'X' && writes == 1)
        stop_at(X_FILLS);
    if (cut_write == 2) {
        cut_write = 0;
        errno = ENOSPC;
        return -1;
    }
    if (cut_write == 1) {
        cut_write = 2;
        n = (size_t)(4096 - at % 4096);
    }
    return __real_pwrite64(fd, bytes, n, at);
}

static bool flush_breaks(void)
{
    if (broken_flushes == 0)
        return false;
    broken_flushes--;
    errno = EIO;
    return true;
}

int __wrap_fdatasync(int fd)
{
    if (flush_breaks())
        return -1;
    if (die_at_flush && ++any_flushes == die_at_flush)
        _exit(9);
    if (role && !is_journal(fd))
        return __real_fdatasync(fd);
    flushes++;
    if (role == 'Y' && flushes == 1 && plan == POWER_FAILS)
        stop_at(Y_FILLED);
    int rc = __real_fdatasync(fd);
    if (role == 'A' && flushes == 1)
        stop_at(A_LOOKS);
    if (role == 'X' && flushes == 1)
        stop_at(X_FILLED);
    if (role == 'Y' && flushes == 1 && plan != POWER_FAILS) {
        stop_at(Y_FILLED);
        fail_opens = plan == OPEN_FAILS;
        fail_syncs = plan == SYNC_FAILS;
    }
    return rc;
}

int __wrap_fsync(int fd)
{
    if (flush_breaks())
        return -1;
    if (fail_syncs == 0)
        return __real_fsync(fd);
    fail_syncs--;
    errno = EIO;
    return -1;
}

int __wrap_open64(const char *path, int flags, ...)
{
    va_list rest;

    va_start(rest, flags);
    mode_t mode = flags & O_CREAT ? va_arg(rest, mode_t) : 0;
    va_end(rest);
    if (fail_opens == 0)
        return __real_open64(path, flags, mode);
    fail_opens--;
    errno = EMFILE;
    return -1;
}

/* ---- The candidates ------------------------------------------------------ */

struct candidate {
    pthread_t thread;
    char role;
    struct bed bed; /* for its own errors; the root is the others' too */
    tenure_store *store;
    const char *key;
    struct tenure_token expect;
    enum tenure_status status;
};

static void *run(void *arg)
{
    struct candidate *c = arg;

    role = c->role;
    c->status = swap_on(c->store, &c->bed, c->key, &c->expect, "theirs").status;
    return NULL;
}

static void begin(struct candidate *c, char as, const struct bed *bed, tenure_store *store,
                  const char *key)
{
    c->role = as;
    c->bed = *bed;
    memset(&c->bed.value, 0, sizeof c->bed.value);
    c->store = store;
    c->key = key;
    assert_int_equal(pthread_create(&c->thread, NULL, run, c), 0);
}

static void journal_path(const struct bed *bed, uint64_t number, char path[256])
{
    char name[TN_JOURNAL_NAME + 1];

    tn_journal_name(number, name);
    snprintf(path, 256, "%s/" GROUP "/%s", bed->root, name);
}

/* What was not on the disk is zeroes after a power failure. */
static void zero(const struct bed *bed, uint64_t number, off_t from, size_t n)
{
    char path[256], *zeroes = calloc(1, n);

    journal_path(bed, number, path);
    int fd = open(path, O_WRONLY);
    assert_true(fd >= 0 && zeroes);
    assert_int_equal(pwrite(fd, zeroes, n, from), n);
    close(fd);
    free(zeroes);
}

/*
 * X links +2 and reads +1, and is stopped.  A, the owner of +1, commits there, and
 * is stopped before it looks.  Y overtakes X with +3, which has A's commit, and
 * then fails, or dies.  X fills +2, without that commit.
 */
static void overtaken_by(int y_plan)
{
    struct candidate a = {0}, x = {0}, y = {0};
    struct tenure_token before = {0};
    struct bed bed;
    char path[256];

    plan = y_plan;
    for (int i = 0; i < GATES; i++) {
        sem_init(&gates[i].reached, 0, 0);
        sem_init(&gates[i].open, 0, 0);
    }
    bed_setup(&bed, "?commits=place");
    must_swap(bed.store, &bed, ONE, &before, "before");
    a.expect = before;
    begin(&a, 'A', &bed, bed.store, ONE);
    await(A_WRITES);
    begin(&x, 'X', &bed, bed_open(&bed, ""), GROUP "/x");
    await(X_FILLS);
    let_go(A_WRITES);
    await(A_LOOKS);
    begin(&y, 'Y', &bed, bed_open(&bed, ""), GROUP "/y");
    await(Y_FILLED);
    let_go(A_LOOKS);
    pthread_join(a.thread, NULL);
    assert_int_equal(a.status, TENURE_OK);
    let_go(X_FILLS);
    await(X_FILLED);
    if (y_plan == POWER_FAILS) {
        struct stat st;

        journal_path(&bed, 3, path);
        assert_int_equal(stat(path, &st), 0);
        zero(&bed, 3, TN_JOURNAL_BLOCK, (size_t)st.st_size - TN_JOURNAL_BLOCK);
    } else {
        let_go(Y_FILLED);
        pthread_join(y.thread, NULL);
        assert_int_not_equal(y.status, TENURE_OK);
    }
    /* What A was told stands, and what it replaced is replaced. */
    tenure_store *later = bed_open(&bed, "");
    must_hold(later, &bed, ONE, "theirs");
    assert_int_equal(swap_on(later, &bed, ONE, &before, "stale").status, TENURE_CONFLICT);
    tenure_store_close(later);
    let_go(X_FILLED);
    pthread_join(x.thread, NULL);
    if (y_plan == POWER_FAILS) {
        let_go(Y_FILLED);
        pthread_join(y.thread, NULL);
    }
    tenure_store_close(x.store);
    tenure_store_close(y.store);
    bed_teardown(&bed);
    plan = NOTHING;
}

static void by_one_without_descriptors(void **state)
{
    (void)state;
    overtaken_by(OPEN_FAILS);
}

static void by_one_whose_flush_fails(void **state)
{
    (void)state;
    overtaken_by(SYNC_FAILS);
}

static void by_one_that_was_not_on_the_disk(void **state)
{
    (void)state;
    overtaken_by(POWER_FAILS);
}

/* ---- Several frames ------------------------------------------------------ */

#define LARGE 700000

#define PARTS 4 /* of one document each */

/* A take-over of several parts is cut by a power failure at each of its flushes: before the link
 * nothing is seen of it, after it what is being flushed is there or is not, and nothing that was
 * answered is lost. */
static void snapshot_cut(void **state)
{
    char *data = malloc(LARGE + 1);

    (void)state;
    assert_non_null(data);
    memset(data, 'd', LARGE);
    data[LARGE] = '\0';
    for (int at = 1, died = 1; died; at++) {
        for (int lost = 0; died && lost < 2; lost++) {
            off_t last = TN_JOURNAL_BLOCK;
            struct bed bed;
            char path[256];
            int status;

            bed_setup(&bed, "?commits=place");
            for (int i = 0; i < PARTS; i++) {
                struct tenure_token token = {0};
                char key[32];

                last += (off_t)tn_frame_size(tn_entry_size(i > 0, LARGE));

                snprintf(key, sizeof key, i ? GROUP "/%d" : GROUP, i);
                must_swap(bed.store, &bed, key, &token, data);
            }
            pid_t pid = fork();
            if (pid == 0) {
                any_flushes = 0;
                die_at_flush = at;
                _exit(swap_on(bed_open(&bed, ""), &bed, GROUP "/9", NULL, "x").status ? 1 : 0);
            }
            waitpid(pid, &status, 0);
            died = WEXITSTATUS(status) == 9;
            assert_true(died || WEXITSTATUS(status) == 0);
            journal_path(&bed, 2, path);
            assert_int_equal(access(path, F_OK), died && at <= PARTS ? -1 : 0);
            /* The frame that says that it is whole, and then that of the swap. */
            if (died && at > PARTS && lost)
                zero(&bed, 2, last + (at - PARTS - 1) * TN_JOURNAL_BLOCK, TN_JOURNAL_BLOCK);
            tenure_store *later = bed_open(&bed, "");
            for (int i = 0; i < PARTS; i++) {
                char key[32];

                snprintf(key, sizeof key, i ? GROUP "/%d" : GROUP, i);
                must_hold(later, &bed, key, data);
            }
            struct tenure_token token = {0};
            must_swap(later, &bed, GROUP "/8", &token, "y");
            tenure_store_close(later);
            bed_teardown(&bed);
        }
    }
    free(data);
}

/* A write that is cut where only zeroes follow has written everything: others see it. */
static void write_cut_before_zeroes(void **state)
{
    static const char zeroes[9000] = "new";
    struct tenure_swap swap = {.key = ONE, .data = zeroes, .len = sizeof zeroes};
    struct tenure_token token = {0};
    struct bed bed;

    (void)state;
    bed_setup(&bed, "?commits=place");
    must_swap(bed.store, &bed, ONE, &token, "old");
    swap.expect = token;
    tenure_nonce(swap.nonce, NULL);
    cut_write = 1;
    tenure_store_swap(bed.store, &swap, soon(), &bed.err);
    assert_int_equal(swap.status, TENURE_UNKNOWN);
    bed_teardown(&bed);
}

/* What was written and not flushed is read by who wrote it only when a copy of it is on the disk:
 * else it would take for done what a power failure takes back. */
static void flush_fails(void **state)
{
    struct tenure_token token = {0};
    struct bed bed;
    struct stat st;
    char path[256];

    (void)state;
    bed_setup(&bed, "?commits=place");
    must_swap(bed.store, &bed, ONE, &token, "old");
    broken_flushes = 1;
    struct tenure_swap swap = swap_on(bed.store, &bed, ONE, &token, "new");
    assert_int_equal(swap.status, TENURE_UNKNOWN);
    broken_flushes = INT_MAX;
    for (int i = 0; i < 3; i++)
        assert_int_equal(tenure_store_read(bed.store, ONE, &bed.value, soon(), &bed.err),
                         TENURE_UNAVAILABLE);
    broken_flushes = 0;
    must_hold(bed.store, &bed, ONE, "new");
    assert_memory_equal(bed.value.token.nonce, swap.nonce, TENURE_NONCE_SIZE);
    /* The power fails. */
    journal_path(&bed, 1, path);
    assert_int_equal(stat(path, &st), 0);
    zero(&bed, 1, TN_JOURNAL_BLOCK, (size_t)st.st_size - TN_JOURNAL_BLOCK);
    tenure_store *later = bed_open(&bed, "");
    must_hold(later, &bed, ONE, "new");
    tenure_store_close(later);
    bed_teardown(&bed);
}

/* ---- Rot ----------------------------------------------------------------- */

/* Data that changes on the disk after it was read first is told, and stays damaged. */
static void rots_after_it_was_read(void **state)
{
    struct tenure_token token = {0};
    struct bed bed;
    char path[256], bytes[16384];

    (void)state;
    bed_setup(&bed, "?commits=place");
    must_swap(bed.store, &bed, ONE, &token, "what was written");
    struct tenure_token behind = {0}; /* the last frame could also be torn */
    must_swap(bed.store, &bed, GROUP "/0", &behind, "more");
    tenure_store *reader = bed_open(&bed, "");
    must_hold(reader, &bed, ONE, "what was written");
    journal_path(&bed, 1, path);
    int fd = open(path, O_RDWR);
    ssize_t n = pread(fd, bytes, sizeof bytes, 0);
    char *at = memmem(bytes, (size_t)n, "what was", 8);
    assert_non_null(at);
    assert_int_equal(pwrite(fd, "w", 1, at - bytes + 2), 1);
    close(fd);
    for (tenure_store **s = (tenure_store *[]){reader, bed.store, NULL}; *s; s++) {
        assert_int_equal(tenure_store_read(*s, ONE, &bed.value, soon(), &bed.err), TENURE_CORRUPT);
        assert_says(&bed, path);
    }
    struct tenure_token other = {0};
    must_swap(reader, &bed, GROUP "/2", &other, "a take-over");
    assert_int_equal(tenure_store_read(reader, ONE, &bed.value, soon(), &bed.err), TENURE_CORRUPT);
    tenure_store_close(reader);
    reader = bed_open(&bed, "");
    assert_int_equal(tenure_store_read(reader, ONE, &bed.value, soon(), &bed.err), TENURE_CORRUPT);
    tenure_store_close(reader);
    bed_teardown(&bed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(by_one_without_descriptors),
        cmocka_unit_test(by_one_whose_flush_fails),
        cmocka_unit_test(by_one_that_was_not_on_the_disk),
        cmocka_unit_test(snapshot_cut),
        cmocka_unit_test(write_cut_before_zeroes),
        cmocka_unit_test(flush_fails),
        cmocka_unit_test(rots_after_it_was_read),
    };

    return cmocka_run_group_tests_name("file_overtaken", tests, NULL, NULL);
}
