/*
 * Real disks that are full, read-only, forbidden or in the way.  They are small
 * tmpfs mounts in a mount namespace of our own; without the right to make one,
 * those tests are skipped, and say so.
 */
#include "file_bed.h"

#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>

static bool can_mount;

static int group_setup(void **state)
{
    (void)state;
    can_mount = unshare(CLONE_NEWNS) == 0 && mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0;
    if (!can_mount)
        print_message("[ SKIPPING ] the tests with a disk of their own: not allowed to mount (%s); "
                      "run as root\n",
                      strerror(errno));
    return 0;
}

/* A store on a tmpfs of its own. */
static void bed_mount(struct bed *bed, const char *options)
{
    memset(bed, 0, sizeof *bed);
    strcpy(bed->dir, "/tmp/tenure-file-XXXXXX");
    assert_non_null(mkdtemp(bed->dir));
    if (mount("tmpfs", bed->dir, "tmpfs", 0, options) != 0)
        fail_msg("cannot mount a tmpfs: %s", strerror(errno));
    snprintf(bed->root, sizeof bed->root, "%s/store", bed->dir);
    bed->store = bed_open(bed, "");
}

static void bed_unmount(struct bed *bed)
{
    tenure_store_close(bed->store);
    tenure_value_free(&bed->value);
    umount2(bed->dir, MNT_DETACH);
    rmdir(bed->dir);
}

/* Fill the disk up to the last byte. */
static void fill(struct bed *bed, char path[128])
{
    static const char zeroes[4096];

    snprintf(path, 128, "%s/filler", bed->dir);
    int fd = open(path, O_WRONLY | O_CREAT, 0600);
    while (write(fd, zeroes, sizeof zeroes) > 0)
        continue;
    close(fd);
}

static void full(void **state)
{
    struct bed bed;
    struct tenure_token token = {0};
    char filler[128];

    (void)state;
    if (!can_mount)
        skip();
    bed_mount(&bed, "size=256k");
    must_swap(bed.store, &bed, KEY, &token, "before");
    fill(&bed, filler);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(swap_on(bed.store, &bed, KEY, &token, "x").status, TENURE_UNAVAILABLE);
        assert_says(&bed, "No space left");
        assert_says(&bed, "make room");
    }
    assert_int_equal(count_names(&bed, ".tmp", ""), 0);
    must_hold(bed.store, &bed, KEY, "before");
    tenure_store_close(bed_open(&bed, "")); /* reading still works */
    unlink(filler);
    must_swap(bed.store, &bed, KEY, &token, "after");
    bed_unmount(&bed);
}

static void no_inodes(void **state)
{
    struct bed bed;
    struct tenure_token token = {0};
    struct tenure_swap swap;
    int n = 0;

    (void)state;
    if (!can_mount)
        skip();
    bed_mount(&bed, "nr_inodes=24");
    do {
        swap = swap_on(bed.store, &bed, KEY, &token, "x");
        if (!swap.status)
            token = swap.token;
    } while (!swap.status && ++n < 100);
    assert_true(n > 5 && n < 100);
    assert_int_equal(swap.status, TENURE_UNAVAILABLE);
    must_read(bed.store, &bed, KEY);
    assert_true(tenure_token_equal(&bed.value.token, &token));
    /* Nor is there room for the directories of another one. */
    assert_int_equal(swap_on(bed.store, &bed, "other/key", NULL, "x").status, TENURE_UNAVAILABLE);
    bed_unmount(&bed);
}

static void read_only(void **state)
{
    struct bed bed;
    struct tenure_token token = {0};
    tenure_store *store = NULL;
    char url[128];

    (void)state;
    if (!can_mount)
        skip();
    bed_mount(&bed, "size=1m");
    must_swap(bed.store, &bed, KEY, &token, "before");
    assert_int_equal(mount(NULL, bed.dir, NULL, MS_REMOUNT | MS_RDONLY, NULL), 0);
    assert_int_equal(swap_on(bed.store, &bed, KEY, &token, "x").status, TENURE_DENIED);
    assert_says(&bed, "Read-only");
    assert_int_equal(swap_on(bed.store, &bed, "other", NULL, "x").status, TENURE_DENIED);
    tenure_store *other = bed_open(&bed, "");
    must_hold(other, &bed, KEY, "before");
    tenure_store_close(other);
    snprintf(url, sizeof url, "file:%s/new", bed.dir);
    assert_int_equal(tenure_store_open(url, soon(), &store, &bed.err), TENURE_DENIED);
    assert_says(&bed, "remount");
    assert_int_equal(mount(NULL, bed.dir, NULL, MS_REMOUNT, NULL), 0);
    must_swap(bed.store, &bed, KEY, &token, "after");
    bed_unmount(&bed);
}

/* Another file system inside the store: a slot cannot be linked there. */
static void two_disks(void **state)
{
    struct bed bed;
    struct tenure_token token = {0};
    char path[128];

    (void)state;
    if (!can_mount)
        skip();
    bed_mount(&bed, "size=1m");
    snprintf(path, sizeof path, "%s/inner", bed.root);
    assert_int_equal(mkdir(path, 0700), 0);
    assert_int_equal(mount("tmpfs", path, "tmpfs", 0, "size=1m"), 0);
    assert_int_equal(swap_on(bed.store, &bed, "inner", &token, "x").status, TENURE_CONFIG);
    assert_says(&bed, "one file system");
    umount2(path, MNT_DETACH);
    bed_unmount(&bed);
}

/* Mounted over: the store that others see is not the one that was opened. */
static void mounted_over(void **state)
{
    struct bed bed;
    struct tenure_token token = {0};

    (void)state;
    if (!can_mount)
        skip();
    bed_mount(&bed, "size=1m");
    must_swap(bed.store, &bed, KEY, &token, "below");
    assert_int_equal(mount("tmpfs", bed.root, "tmpfs", 0, "size=1m"), 0);
    assert_int_equal(tenure_store_read(bed.store, KEY, &bed.value, soon(), &bed.err),
                     TENURE_UNAVAILABLE);
    assert_int_equal(swap_on(bed.store, &bed, KEY, &token, "x").status, TENURE_UNAVAILABLE);
    umount2(bed.root, MNT_DETACH);
    must_hold(bed.store, &bed, KEY, "below");
    bed_unmount(&bed);
}

/* In a child without rights: what it sees is its exit status. */
static enum tenure_status as_nobody(const char *url, struct tenure_token *token, bool writes)
{
    pid_t pid = fork();
    int status;

    if (pid == 0) {
        tenure_store *store = NULL;
        struct bed bed = {0};

        if (setgid(65534) != 0 || setuid(65534) != 0)
            _exit(99);
        enum tenure_status answer = tenure_store_open(url, soon(), &store, NULL);
        if (!answer)
            answer = writes ? swap_on(store, &bed, KEY, token, "x").status
                            : tenure_store_read(store, KEY, &bed.value, soon(), NULL);
        _exit((int)answer);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    return (enum tenure_status)WEXITSTATUS(status);
}

static void forbidden(void **state)
{
    struct bed bed;
    struct tenure_token token = {0};
    char url[160];

    (void)state;
    if (geteuid() != 0) {
        print_message("[ SKIPPING ] a store of somebody else's: run as root\n");
        skip();
    }
    bed_setup(&bed, "");
    must_swap(bed.store, &bed, KEY, &token, "x");
    assert_int_equal(chmod(bed.dir, 0755), 0);
    snprintf(url, sizeof url, "file:%s", bed.root);
    assert_int_equal(as_nobody(url, &token, false), TENURE_DENIED);
    snprintf(url, sizeof url, "file:%s/own", bed.dir);
    assert_int_equal(as_nobody(url, &token, true), TENURE_DENIED);
    bed_teardown(&bed);
    /* May read, not write. */
    bed_setup(&bed, "?mode=0755");
    memset(&token, 0, sizeof token);
    must_swap(bed.store, &bed, KEY, &token, "x");
    assert_int_equal(chmod(bed.dir, 0755), 0);
    snprintf(url, sizeof url, "file:%s", bed.root);
    assert_int_equal(as_nobody(url, &token, false), TENURE_OK);
    assert_int_equal(as_nobody(url, &token, true), TENURE_DENIED);
    bed_teardown(&bed);
    /* Shared with everybody. */
    bed_setup(&bed, "?mode=0777");
    memset(&token, 0, sizeof token);
    must_swap(bed.store, &bed, KEY, &token, "x");
    assert_int_equal(chmod(bed.dir, 0755), 0);
    snprintf(url, sizeof url, "file:%s?mode=0777", bed.root);
    assert_int_equal(as_nobody(url, &token, true), TENURE_OK);
    must_hold(bed.store, &bed, KEY, "x");
    bed_teardown(&bed);
}

static void in_the_way(void **state)
{
    struct bed bed;
    char path[128];

    (void)state;
    bed_setup(&bed, "");
    snprintf(path, sizeof path, "%s/plain", bed.root);
    write_file(path, "x", 1);
    assert_int_equal(tenure_store_read(bed.store, "plain/key", &bed.value, soon(), &bed.err),
                     TENURE_CONFIG);
    assert_says(&bed, "plain/key");
    assert_int_equal(swap_on(bed.store, &bed, "plain", NULL, "x").status, TENURE_CONFIG);
    bed_teardown(&bed);
}

static void no_descriptors(void **state)
{
    struct bed bed;
    struct tenure_token token = {0};
    struct rlimit before, none;

    (void)state;
    bed_setup(&bed, "");
    must_swap(bed.store, &bed, KEY, &token, "x");
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    none = before;
    for (rlim_t left = 0; left < 3; left++) {
        int lowest = open("/dev/null", O_RDONLY);

        close(lowest);
        none.rlim_cur = (rlim_t)lowest + left;
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
        enum tenure_status read = tenure_store_read(bed.store, KEY, &bed.value, soon(), &bed.err);
        enum tenure_status swap = swap_on(bed.store, &bed, KEY, &token, "y").status;
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
        if (left < 2) {
            assert_int_equal(read, TENURE_UNAVAILABLE);
            assert_int_equal(swap, TENURE_UNAVAILABLE);
        } else {
            assert_int_equal(read, TENURE_OK); /* a directory and a slot */
            assert_int_equal(swap, TENURE_OK);
        }
    }
    bed_teardown(&bed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(full),       cmocka_unit_test(no_inodes),      cmocka_unit_test(read_only),
        cmocka_unit_test(two_disks),  cmocka_unit_test(mounted_over),   cmocka_unit_test(forbidden),
        cmocka_unit_test(in_the_way), cmocka_unit_test(no_descriptors),
    };

    return cmocka_run_group_tests_name("file_disk", tests, group_setup, NULL);
}
