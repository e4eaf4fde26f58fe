/*
 * Checkpoints: copying the write-ahead log into the database, so that the log
 * can begin again from its start and stays short.
 *
 * SQLite would do it by itself every thousand pages, without the writer's
 * lock.  Up to 3.51.2 (Debian 12 has 3.40) that races with a writer who begins
 * the log again at that very moment: the checkpoint then marks frames as copied
 * that it has never seen, and commits that were answered OK are lost - the
 * "WAL-reset bug".  A lease that forgets a grant breaks I1, so the built-in
 * checkpoints are turned off, and ours run only while nobody can write: a
 * second connection holds the writer's lock meanwhile.  (The lock cannot be
 * taken by the connection that checkpoints: it may not be in a transaction.
 * The checkpoint when the last connection closes is alone by its nature.)
 */
#include "store/sqlite/sqlite.h"

#define LOG_BYTES    4194304 /* what a log may grow to */
#define RETRY_PART   5       /* of that more, until it is tried again */
#define LOCK_WAIT_NS 5000000

static int count_frames(void *arg, sqlite3 *db, const char *name, int frames)
{
    struct tn_sqlite *h = arg;

    (void)db;
    (void)name;
    h->frames = frames;
    return SQLITE_OK;
}

void tn_sqlite_checkpoint_init(struct tn_sqlite *h)
{
    h->frames = 0;
    sqlite3_wal_hook(h->db, count_frames, h); /* and no automatic checkpoint */
}

void tn_sqlite_checkpoint_page(struct tn_sqlite *h, long page)
{
    h->frames_most = LOG_BYTES / (page >= 512 ? (int)page : 512);
    h->checkpoint_due = h->frames_most;
}

void tn_sqlite_checkpoint(struct tn_sqlite *h)
{
    int64_t deadline = h->deadline, soon = tenure_now() + LOCK_WAIT_NS;
    sqlite3 *lock = NULL;

    if (h->frames < h->frames_most)
        h->checkpoint_due = h->frames_most; /* somebody else did it */
    if (h->frames < h->checkpoint_due)
        return;
    h->checkpoint_due = h->frames + h->frames_most / RETRY_PART;
    /* The commit is done and told to whoever waits; this is housekeeping, and
     * gives way to a writer in a hurry. */
    if (soon < h->deadline)
        h->deadline = soon;
    if (tn_sqlite_connect(h, &lock) == SQLITE_OK &&
        sqlite3_exec(lock, "BEGIN IMMEDIATE", NULL, NULL, NULL) == SQLITE_OK)
        sqlite3_wal_checkpoint_v2(h->db, "main", SQLITE_CHECKPOINT_PASSIVE, NULL, NULL);
    sqlite3_close(lock);
    h->deadline = deadline;
}
