/*
 * What sqlite: answers when a commit fails on the way to the disk, and whether
 * that was the truth: the process then dies, so that whoever opens the file
 * next has only what was written to go by.
 *
 * The faults come from a VFS that wraps SQLite's own, under the same name.  It
 * also sees who holds which lock when pages go from the log to the database.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <sys/wait.h>

#include "sqlite_kit.h"

static const struct tenure_token absent;

/* ---- The wrapping VFS ------------------------------------------------------ */

static struct {
    int writes;  /* the n-th write to a log from now fails, half done; 0: none does */
    int syncs;   /* likewise */
    int code;    /* with this */
    int counted; /* faults that were made */
} fault;

/* What the checkpoints did. */
static struct {
    bool writer;     /* somebody in this process holds the writer's lock */
    unsigned copied; /* pages written to the database while there is a log */
    unsigned alone;  /* of them, while nobody else could write */
} seen;

struct wrapped {
    sqlite3_file base;
    sqlite3_file *real;
    bool log, database;
    bool mapped; /* shared memory: in WAL mode */
    int level;   /* of its file lock */
};

static sqlite3_vfs *real_vfs, our_vfs;

#define REAL(file)   (((struct wrapped *)(file))->real)
#define CALL(f, ...) REAL(file)->pMethods->f(REAL(file), ##__VA_ARGS__)

static bool due(sqlite3_file *file, int *countdown)
{
    if (!((struct wrapped *)file)->log || *countdown == 0 || --*countdown > 0)
        return false;
    fault.counted++;
    return true;
}

static int w_close(sqlite3_file *file)
{
    return CALL(xClose);
}
static int w_read(sqlite3_file *file, void *to, int n, sqlite3_int64 at)
{
    return CALL(xRead, to, n, at);
}
static int w_write(sqlite3_file *file, const void *from, int n, sqlite3_int64 at)
{
    const struct wrapped *w = (struct wrapped *)file;

    if (w->database && w->mapped) {
        seen.copied++;
        seen.alone += seen.writer || w->level == SQLITE_LOCK_EXCLUSIVE;
    }
    if (!due(file, &fault.writes))
        return CALL(xWrite, from, n, at);
    CALL(xWrite, from, n / 2, at);
    return fault.code;
}
static int w_truncate(sqlite3_file *file, sqlite3_int64 size)
{
    return CALL(xTruncate, size);
}
static int w_sync(sqlite3_file *file, int flags)
{
    return due(file, &fault.syncs) ? fault.code : CALL(xSync, flags);
}
static int w_size(sqlite3_file *file, sqlite3_int64 *size)
{
    return CALL(xFileSize, size);
}
static int w_lock(sqlite3_file *file, int level)
{
    int rc = CALL(xLock, level);

    if (rc == SQLITE_OK)
        ((struct wrapped *)file)->level = level;
    return rc;
}
static int w_unlock(sqlite3_file *file, int level)
{
    return CALL(xUnlock, level);
}
static int w_reserved(sqlite3_file *file, int *out)
{
    return CALL(xCheckReservedLock, out);
}
static int w_control(sqlite3_file *file, int op, void *arg)
{
    return CALL(xFileControl, op, arg);
}
static int w_sector(sqlite3_file *file)
{
    return CALL(xSectorSize);
}
static int w_device(sqlite3_file *file)
{
    return CALL(xDeviceCharacteristics);
}
static int w_shm_map(sqlite3_file *file, int page, int size, int extend, void volatile **out)
{
    ((struct wrapped *)file)->mapped = true;
    return CALL(xShmMap, page, size, extend, out);
}
static int w_shm_lock(sqlite3_file *file, int offset, int n, int flags)
{
    int rc = CALL(xShmLock, offset, n, flags);

    /* The first of the eight locks is the writer's. */
    if (rc == SQLITE_OK && offset == 0 && (flags & SQLITE_SHM_EXCLUSIVE))
        seen.writer = (flags & SQLITE_SHM_LOCK) != 0;
    return rc;
}
static void w_shm_barrier(sqlite3_file *file)
{
    CALL(xShmBarrier);
}
static int w_shm_unmap(sqlite3_file *file, int remove_it)
{
    return CALL(xShmUnmap, remove_it);
}

static const sqlite3_io_methods methods = {
    2,          w_close,       w_read,      w_write,   w_truncate, w_sync,   w_size,
    w_lock,     w_unlock,      w_reserved,  w_control, w_sector,   w_device, w_shm_map,
    w_shm_lock, w_shm_barrier, w_shm_unmap, NULL,      NULL,
};

static int w_open(sqlite3_vfs *vfs, const char *name, sqlite3_file *file, int flags, int *out)
{
    struct wrapped *w = (struct wrapped *)file;

    (void)vfs;
    w->real = (sqlite3_file *)(w + 1);
    w->log = (flags & SQLITE_OPEN_WAL) != 0;
    w->database = (flags & SQLITE_OPEN_MAIN_DB) != 0;
    w->mapped = false;
    w->level = SQLITE_LOCK_NONE;
    int rc = real_vfs->xOpen(real_vfs, name, w->real, flags, out);
    w->base.pMethods = rc == SQLITE_OK ? &methods : NULL;
    return rc;
}

static int wrap(void **state)
{
    (void)state;
    real_vfs = sqlite3_vfs_find("unix");
    if (!real_vfs)
        return -1;
    our_vfs = *real_vfs;
    our_vfs.szOsFile += (int)sizeof(struct wrapped);
    our_vfs.xOpen = w_open;
    /* Registered last and as the default, it is found first. */
    if (sqlite3_vfs_register(&our_vfs, 1) != SQLITE_OK || sqlite3_vfs_find("unix") != &our_vfs)
        return -1;
    return 0;
}

/* ---- One swap that fails, in a process that dies of it ----------------------- */

struct answer {
    enum tenure_status status, after; /* of the swap; of one more on the same token */
    bool seen;                        /* by the process itself */
    bool landed;                      /* as whoever came next found it */
};

struct plan {
    int writes, syncs, code;
    bool again; /* swap once more before dying */
};

static struct answer try_commit(struct plan plan)
{
    struct tenure_token token = absent, before;
    struct tenure_value value = {0};
    struct answer answer = {0};
    int fds[2];

    kit_renew();
    tenure_store *store = kit_open();
    for (int i = 0; i < 5; i++)
        assert_int_equal(kit_put(store, "k", &token, "old", 3), TENURE_OK);
    before = token;
    tenure_store_close(store);
    assert_int_equal(pipe(fds), 0);
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        store = NULL;
        if (tenure_store_open(kit_url, kit_soon(), &store, &kit_err))
            _exit(1);
        /* The log has a header by then: what fails is the commit itself. */
        if (kit_put(store, "other", &(struct tenure_token){0}, "x", 1))
            _exit(2);
        fault.writes = plan.writes;
        fault.syncs = plan.syncs;
        fault.code = plan.code;
        answer.status = kit_put(store, "k", &token, "new", 3);
        if (fault.counted != 1)
            _exit(3);
        if (kit_read(store, "k", &value))
            _exit(4);
        answer.seen = !tenure_token_equal(&value.token, &before);
        if (plan.again)
            answer.after = kit_put(store, "k", &token, "more", 4);
        _exit(write(fds[1], &answer, sizeof answer) != sizeof answer);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    assert_int_equal(read(fds[0], &answer, sizeof answer), sizeof answer);
    close(fds[0]);
    close(fds[1]);
    store = kit_open();
    assert_int_equal(kit_read(store, "k", &value), TENURE_OK);
    answer.landed = value.len == 3 && memcmp(value.data, "new", 3) == 0;
    if (plan.again && answer.after == TENURE_OK)
        assert_memory_equal(value.data, "more", 4);
    tenure_value_free(&value);
    tenure_store_close(store);
    return answer;
}

/* The sync fails: not visible, but in the file.  It lands when the log is
 * recovered, which is why the answer must be UNKNOWN (C3). */
static void sync_fails(void **state)
{
    (void)state;
    struct answer answer = try_commit((struct plan){.syncs = 1, .code = SQLITE_IOERR_FSYNC});
    assert_int_equal(answer.status, TENURE_UNKNOWN);
    assert_false(answer.seen);
    assert_true(answer.landed);
}

/* A later swap on the same token decides: then the first never lands. */
static void sync_fails_then_swap(void **state)
{
    (void)state;
    struct answer answer =
        try_commit((struct plan){.syncs = 1, .code = SQLITE_IOERR_FSYNC, .again = true});
    assert_int_equal(answer.status, TENURE_UNKNOWN);
    assert_int_equal(answer.after, TENURE_OK);
    assert_false(answer.landed);
}

/* No space for one of the writes that make up a commit (two frames, each a head
 * and a page).  It does not land here, but that is not promised. */
static void no_space(void **state)
{
    (void)state;
    for (int n = 1; n <= 4; n++) {
        struct answer answer = try_commit((struct plan){.writes = n, .code = SQLITE_FULL});

        assert_int_equal(answer.status, TENURE_UNKNOWN);
        assert_false(answer.seen);
        assert_false(answer.landed);
    }
}

static void no_space_then_swap(void **state)
{
    (void)state;
    for (int n = 1; n <= 4; n++) {
        struct answer answer =
            try_commit((struct plan){.writes = n, .code = SQLITE_FULL, .again = true});

        assert_int_equal(answer.status, TENURE_UNKNOWN);
        assert_int_equal(answer.after, TENURE_OK);
        assert_false(answer.landed);
    }
}

static void write_fails(void **state)
{
    (void)state;
    for (int n = 1; n <= 4; n++) {
        struct answer answer = try_commit((struct plan){.writes = n, .code = SQLITE_IOERR_WRITE});

        assert_int_equal(answer.status, TENURE_UNKNOWN);
        assert_false(answer.seen);
    }
}

/* In a batch the members that were written are unknown; a conflict stays one. */
static void batch_sync_fails(void **state)
{
    struct tenure_token token = absent;
    struct tenure_swap swaps[2] = {{.key = "a", .data = "x", .len = 1},
                                   {.key = "k", .data = "x", .len = 1}};

    (void)state;
    tenure_store *store = kit_open();
    assert_int_equal(kit_put(store, "k", &token, "old", 3), TENURE_OK);
    memset(swaps[0].nonce, 1, TENURE_NONCE_SIZE);
    memset(swaps[1].nonce, 2, TENURE_NONCE_SIZE);
    fault.syncs = 1;
    fault.code = SQLITE_IOERR_FSYNC;
    assert_int_equal(tenure_store_swap_many(store, swaps, 2, kit_soon(), &kit_err), TENURE_UNKNOWN);
    assert_int_equal(swaps[0].status, TENURE_UNKNOWN);
    assert_int_equal(swaps[1].status, TENURE_CONFLICT);
    assert_int_equal(tenure_store_swap_many(store, swaps, 1, kit_soon(), &kit_err), TENURE_OK);
    assert_int_equal(swaps[0].status, TENURE_OK);
    tenure_store_close(store);
}

/* ---- Checkpoints -------------------------------------------------------------- */

/* Nobody may begin the log anew while it is copied: see sqlite_checkpoint.c. */
static void checkpoint_alone(void **state)
{
    struct tenure_token token = absent;
    tenure_store *store = kit_open(), *other = kit_open();
    static char pages[4000];

    (void)state;
    memset(&seen, 0, sizeof seen);
    for (int i = 0; i < 1200; i++) {
        memset(pages, i, sizeof pages); /* a page that is as it was is not written */
        assert_int_equal(kit_put(i % 3 ? store : other, "k", &token, pages, sizeof pages),
                         TENURE_OK);
    }
    assert_true(seen.copied > 0);
    assert_int_equal(seen.alone, seen.copied);
    /* The last one to close copies what is left, alone with the file. */
    unsigned before = seen.copied;
    tenure_store_close(other);
    tenure_store_close(store);
    assert_true(seen.copied > before);
    assert_int_equal(seen.alone, seen.copied);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        KIT_TEST(sync_fails),         KIT_TEST(sync_fails_then_swap), KIT_TEST(no_space),
        KIT_TEST(no_space_then_swap), KIT_TEST(write_fails),          KIT_TEST(batch_sync_fails),
        KIT_TEST(checkpoint_alone),
    };

    return cmocka_run_group_tests_name("sqlite_commit", tests, wrap, NULL);
}
