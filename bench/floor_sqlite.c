/*
 * floor_sqlite - how many commits a second SQLite itself makes here: one small
 * row, WAL, synchronous = FULL, prepared statements, nothing else.  An acquire
 * and a release are two commits, so half of it is the floor of a cycle.
 *
 *   floor_sqlite DIR [N]      prints commits a second over N (default 2000)
 *   floor_sqlite DIR N MS     pauses MS after each; prints the CPU they took, in ms
 *   floor_sqlite DIR turns    two at each line of standard input (turns.h)
 */
#include <sqlite3.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "turns.h"

static sqlite3 *db;
static sqlite3_stmt *begin, *update, *commit;

static void check(int rc, int want)
{
    if (rc == want)
        return;
    fprintf(stderr, "floor_sqlite: %s\n", sqlite3_errmsg(db));
    exit(1);
}

static sqlite3_stmt *prepare(const char *sql)
{
    sqlite3_stmt *stmt;

    check(sqlite3_prepare_v2(db, sql, -1, &stmt, NULL), SQLITE_OK);
    return stmt;
}

static void run(sqlite3_stmt *stmt)
{
    check(sqlite3_step(stmt), SQLITE_DONE);
    sqlite3_reset(stmt);
}

static double now(clockid_t clock)
{
    struct timespec ts;

    clock_gettime(clock, &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static void change(void *arg)
{
    static char data[500];
    static int i;

    (void)arg;
    data[i++ % 500]++;
    sqlite3_bind_blob(update, 1, data, sizeof data, SQLITE_STATIC);
    run(begin);
    run(update);
    run(commit);
}

int main(int argc, char **argv)
{
    bool by_turns = argc == 3 && strcmp(argv[2], "turns") == 0;
    int n = by_turns ? 1 : argc > 2 ? atoi(argv[2]) : 2000;
    int pause_ms = argc > 3 ? atoi(argv[3]) : 0;
    char path[4096];

    if (argc < 2 || n < 1) {
        fprintf(stderr, "usage: floor_sqlite DIR [N [MS] | turns]\n");
        return 2;
    }
    snprintf(path, sizeof path, "%s/floor-%d.db", argv[1], (int)getpid());
    check(sqlite3_open(path, &db), SQLITE_OK);
    check(sqlite3_exec(db,
                       "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;"
                       "CREATE TABLE lease (key TEXT PRIMARY KEY, version INTEGER, data BLOB);"
                       "INSERT INTO lease VALUES ('lease/floor', 0, randomblob(500))",
                       NULL, NULL, NULL),
          SQLITE_OK);
    begin = prepare("BEGIN IMMEDIATE");
    commit = prepare("COMMIT");
    update = prepare("UPDATE lease SET version = version + 1, data = ?1"
                     " WHERE key = 'lease/floor'");
    if (by_turns)
        turns(change, NULL);
    double start = now(CLOCK_MONOTONIC), cpu = now(CLOCK_PROCESS_CPUTIME_ID);
    for (int i = 0; i < n && !by_turns; i++) {
        change(NULL);
        if (pause_ms)
            usleep((useconds_t)pause_ms * 1000);
    }
    if (by_turns)
        ;
    else if (pause_ms)
        printf("%.2f\n", 1e3 * (now(CLOCK_PROCESS_CPUTIME_ID) - cpu));
    else
        printf("%.0f\n", n / (now(CLOCK_MONOTONIC) - start));
    sqlite3_finalize(begin);
    sqlite3_finalize(commit);
    sqlite3_finalize(update);
    sqlite3_close(db);
    unlink(path);
    return 0;
}
