/*
 * pair DIR COUNT MODULES - durable, fenced commits beside what they cannot do without: by turns,
 * in one process, on one file system, with rows of the same size.
 *
 * Prints, in microseconds, the mean of the faster half of COUNT commits: "sqlite" through the
 * state beside "sqlite_bare", a conditional UPDATE, WAL and synchronous = FULL; "sqlite_new" and
 * "sqlite_new_bare" likewise while the logs still grow; "file" through the state beside
 * "file_update", the same UPDATE, and "file_bare", 512 bytes in place and one flush.
 */
#include <fcntl.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <tenure/state.h>

#define ROWS 4    /* as many as the state of one collection and one document, and a lease */
#define WARM 2200 /* commits until both logs have their length, and begin anew */

static const char text[] =
    "a checkpoint: 1234567890 of source/0001, some 100 bytes as they are seen "
    "in the field.......";
/* A document is stored with the line that fences it. */
static const char row[] = "tenure-doc 1 1794800000000 0123456789abcdef0123456789abcdef 1234567 -\n"
                          "a checkpoint: 1234567890 of source/0001, some 100 bytes as they are "
                          "seen in the field.......";

static sqlite3 *db;
static sqlite3_stmt *update;
static tenure_state *in_sqlite, *in_file;
static int block_fd;

static int64_t soon(void)
{
    return tenure_now() + INT64_C(120000000000);
}

static void check(enum tenure_status status, const struct tenure_error *err)
{
    if (!status)
        return;
    fprintf(stderr, "pair: %s\n", err->text);
    exit(1);
}

static void check_sqlite(int rc, int want)
{
    if (rc == want)
        return;
    fprintf(stderr, "pair: %s\n", sqlite3_errmsg(db));
    exit(1);
}

static void check_system(bool good)
{
    if (good)
        return;
    perror("pair");
    exit(1);
}

/* ---- The bare sides ------------------------------------------------------- */

static void open_rows(const char *path)
{
    check_sqlite(sqlite3_open(path, &db), SQLITE_OK);
    check_sqlite(sqlite3_exec(db,
                              "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;"
                              "CREATE TABLE document (key TEXT PRIMARY KEY NOT NULL,"
                              " version INTEGER NOT NULL, data BLOB NOT NULL);",
                              NULL, NULL, NULL),
                 SQLITE_OK);
    for (int i = 0; i < ROWS; i++) {
        char *sql =
            sqlite3_mprintf("INSERT INTO document VALUES ('bench/state/one/%d', 1, %Q)", i, row);

        check_sqlite(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
        sqlite3_free(sql);
    }
    check_sqlite(sqlite3_prepare_v2(db,
                                    "UPDATE document SET version = ?2 + 1, data = ?3"
                                    " WHERE key = ?1 AND version = ?2",
                                    -1, &update, NULL),
                 SQLITE_OK);
}

static void commit_row(void)
{
    static sqlite3_int64 version = 1;

    sqlite3_bind_text(update, 1, "bench/state/one/2", -1, SQLITE_STATIC);
    sqlite3_bind_int64(update, 2, version);
    sqlite3_bind_blob(update, 3, row, sizeof row - 1, SQLITE_STATIC);
    check_sqlite(sqlite3_step(update), SQLITE_DONE);
    check_sqlite(sqlite3_changes(db), 1);
    sqlite3_reset(update);
    version++;
}

static void open_block(const char *path)
{
    static char zeroes[1 << 20];

    block_fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    check_system(block_fd >= 0 && write(block_fd, zeroes, sizeof zeroes) == sizeof zeroes &&
                 fsync(block_fd) == 0);
}

static void commit_block(void)
{
    static char block[512];
    static unsigned i;

    memset(block, (int)++i, sizeof block);
    check_system(pwrite(block_fd, block, sizeof block, (off_t)(i % 2048) * 512) == sizeof block &&
                 fdatasync(block_fd) == 0);
}

/* ---- The state's side ---------------------------------------------------- */

static tenure_state *open_state(const char *scheme, const char *dir, const char *name)
{
    struct tenure_grant grant = {.epoch = UINT64_C(1794800000000), .id = "bench"};
    struct tenure_error err = {0};
    tenure_state *state = NULL;
    char url[4096];

    snprintf(url, sizeof url, "%s:%s/%s", scheme, dir, name);
    check(tenure_state_open(url, "bench", &grant, soon(), &state, &err), &err);
    return state;
}

static void commit_to(tenure_state *state)
{
    struct tenure_commit c = {
        .collection = "one", .id = "checkpoint", .data = text, .len = sizeof text - 1};
    struct tenure_error err = {0};

    check(tenure_state_commit(state, &c, 1, soon(), &err), &err);
}

static void commit_sqlite(void)
{
    commit_to(in_sqlite);
}

static void commit_file(void)
{
    commit_to(in_file);
}

/* ---- By turns ------------------------------------------------------------ */

struct contender {
    const char *name;
    void (*commit)(void);
    int64_t *took;
};

static int by_size(const void *a, const void *b)
{
    const int64_t *left = a, *right = b;

    return (*left > *right) - (*left < *right);
}

/* Others use the machine too, and hit one side or the other: the mean of the faster half. */
static double faster_half(const int64_t *took, unsigned count)
{
    int64_t sum = 0;
    unsigned half = (count + 1) / 2;

    for (unsigned i = 0; i < half; i++)
        sum += took[i];
    return (double)sum / half / 1e3;
}

static void measure(struct contender *c, unsigned n, unsigned count)
{
    for (unsigned k = 0; k < n; k++)
        check_system((c[k].took = calloc(count, sizeof *c[k].took)) != NULL);
    for (unsigned i = 0; i < count; i++) {
        for (unsigned k = 0; k < n; k++) {
            struct contender *now = &c[(i + k) % n]; /* nobody is always the first */
            int64_t from = tenure_now();

            now->commit();
            now->took[i] = tenure_now() - from;
        }
    }
    for (unsigned k = 0; k < n; k++) {
        qsort(c[k].took, count, sizeof *c[k].took, by_size);
        printf("%s %.2f\n", c[k].name, faster_half(c[k].took, count));
        free(c[k].took);
    }
}

int main(int argc, char **argv)
{
    struct contender young[] = {{.name = "sqlite_new", .commit = commit_sqlite},
                                {.name = "sqlite_new_bare", .commit = commit_row}};
    struct contender grown[] = {{.name = "sqlite", .commit = commit_sqlite},
                                {.name = "sqlite_bare", .commit = commit_row}};
    struct contender files[] = {{.name = "file", .commit = commit_file},
                                {.name = "file_update", .commit = commit_row},
                                {.name = "file_bare", .commit = commit_block}};
    struct tenure_error err = {0};
    char path[4096];
    unsigned count;

    if (argc != 4 || (count = (unsigned)atoi(argv[2])) == 0)
        return 2;
    check(tenure_store_module_dir(argv[3], &err), &err);
    snprintf(path, sizeof path, "%s/bare.db", argv[1]);
    open_rows(path);
    snprintf(path, sizeof path, "%s/block", argv[1]);
    open_block(path);
    in_sqlite = open_state("sqlite", argv[1], "ours.db");
    in_file = open_state("file", argv[1], "ours");
    commit_sqlite();
    commit_file();
    measure(young, 2, count < 400 ? count : 400);
    for (unsigned i = 0; i < WARM; i++) {
        commit_sqlite();
        commit_row();
    }
    measure(grown, 2, count);
    measure(files, 3, count);
    tenure_state_close(in_sqlite);
    tenure_state_close(in_file);
    close(block_fd);
    sqlite3_finalize(update);
    sqlite3_close(db);
    return 0;
}
