/*
 * Waiting for somebody else's commit, with inotify on the -wal file.
 *
 * A commit writes the log, syncs it, and only then becomes visible, in shared
 * memory: so the kernel's IN_MODIFY comes BEFORE there is anything to see, and
 * nothing comes after.  Whoever looks on IN_MODIFY would find the old value and
 * sleep over the new one (C6).  So a writer rings a bell after its commit: it
 * opens the log for reading and closes it again, which the waiters see as
 * IN_CLOSE_NOWRITE.  It costs two system calls and no disk write.
 *
 * A writer that is killed between commit and bell rings too: the kernel closes
 * its log (IN_CLOSE_WRITE).  So does an operator's sqlite3 shell when it ends.
 * Reading opens and closes nothing, so waiters do not wake each other.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include "store/sleep.h"
#include "store/sqlite/sqlite.h"

#define LOOK_NS 50000000 /* between two looks if there is no inotify left */
#define GONE    (IN_ATTRIB | IN_MOVE_SELF | IN_DELETE_SELF) /* renamed, unlinked, or both */

void tn_sqlite_ring(struct tn_sqlite *h)
{
    int fd = open(h->wal, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);

    if (fd >= 0)
        close(fd);
    else /* no descriptor left: they also watch for IN_ATTRIB */
        utimensat(AT_FDCWD, h->wal, NULL, AT_SYMLINK_NOFOLLOW);
}

void tn_sqlite_unsubscribe(struct tn_sqlite *h)
{
    if (h->notify_fd >= 0)
        close(h->notify_fd);
    h->notify_fd = -1;
    h->deaf = false;
}

/* The -wal file lives as long as our connection: only the last one removes it. */
static void subscribe(struct tn_sqlite *h)
{
    if (h->notify_fd >= 0 || h->deaf)
        return;
    h->notify_fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    if (h->notify_fd >= 0 && inotify_add_watch(h->notify_fd, h->wal, IN_CLOSE | GONE) >= 0 &&
        inotify_add_watch(h->notify_fd, h->path, GONE) >= 0)
        return;
    tn_sqlite_unsubscribe(h);
    h->deaf = true;
}

/* What is in the queue, our own bells too, happened before the look that follows. */
static void drain(const struct tn_sqlite *h)
{
    char events[4096];

    while (h->notify_fd >= 0 && read(h->notify_fd, events, sizeof events) > 0)
        continue;
}

static int register_changed(struct tn_sqlite *h, const struct tenure_watch *watch, bool *changed)
{
    struct tenure_token token = {0};
    int rc;
    sqlite3_stmt *stmt = tn_sqlite_stmt(h, TN_SQL_TOKEN, &rc);

    if (!stmt)
        return rc;
    rc = sqlite3_bind_text(stmt, 1, watch->key, -1, SQLITE_STATIC);
    if (rc == SQLITE_OK)
        rc = sqlite3_step(stmt);
    if (rc == SQLITE_ROW) {
        snprintf(token.version, sizeof token.version, "%lld", sqlite3_column_int64(stmt, 0));
        if (sqlite3_column_bytes(stmt, 1) == TENURE_NONCE_SIZE)
            memcpy(token.nonce, sqlite3_column_blob(stmt, 1), TENURE_NONCE_SIZE);
    }
    sqlite3_reset(stmt);
    *changed = !tenure_token_equal(&token, &watch->seen);
    return rc == SQLITE_ROW || rc == SQLITE_DONE ? SQLITE_OK : rc;
}

/* Any version above the mark, under the prefix?  Versions are never used twice. */
static int prefix_changed(struct tn_sqlite *h, const struct tenure_watch *watch, bool *changed)
{
    char end[TENURE_KEY_MAX + 2];
    sqlite3_int64 mark, newest = 0;
    int rc = tn_sqlite_newest(h, &newest);

    /* A mark from the future: the database was restored, so all of it is news. */
    *changed = !tn_sqlite_version(watch->mark, &mark) || newest < mark;
    if (rc != SQLITE_OK || *changed || newest == mark)
        return rc;
    sqlite3_stmt *stmt = tn_sqlite_stmt(h, TN_SQL_SINCE, &rc);
    if (!stmt)
        return rc;
    snprintf(end, sizeof end, "%s\x7f", watch->key);
    rc = sqlite3_bind_text(stmt, 1, watch->key, -1, SQLITE_STATIC);
    if (rc == SQLITE_OK)
        rc = sqlite3_bind_text(stmt, 2, end, -1, SQLITE_STATIC);
    if (rc == SQLITE_OK)
        rc = sqlite3_bind_int64(stmt, 3, mark);
    if (rc == SQLITE_OK)
        rc = sqlite3_step(stmt);
    sqlite3_reset(stmt);
    *changed = rc == SQLITE_ROW;
    return rc == SQLITE_ROW || rc == SQLITE_DONE ? SQLITE_OK : rc;
}

static int any_changed(struct tn_sqlite *h, const struct tenure_watch *watches, size_t n,
                       bool *changed)
{
    int rc = SQLITE_OK;

    for (size_t i = 0; i < n && rc == SQLITE_OK && !*changed; i++)
        rc = watches[i].prefix ? prefix_changed(h, &watches[i], changed)
                               : register_changed(h, &watches[i], changed);
    return rc;
}

/* Subscribe, then compare (C6): what comes between the two wakes whoever sleeps then. */
static enum tenure_status compare(struct tn_sqlite *h, const struct tenure_watch *watches, size_t n,
                                  bool *changed, int64_t deadline, struct tenure_error *err)
{
    enum tenure_status status = tn_sqlite_ready(h, deadline, err);

    if (status)
        return status;
    subscribe(h);
    drain(h);
    int rc = any_changed(h, watches, n, changed);
    return rc == SQLITE_OK ? TENURE_OK : tn_sqlite_fail(h, rc, err);
}

enum tenure_status tn_sqlite_wait(void *impl, const struct tenure_watch *watches, size_t n,
                                  int wake_fd, int64_t deadline, struct tenure_error *err)
{
    struct tn_sqlite *h = impl;

    for (bool woken = false;; woken = true) {
        bool changed = false;
        enum tenure_status status = compare(h, watches, n, &changed, deadline, err);

        /* Woken in time, but stopped or locked out until the deadline: TIMEOUT would say that
         * nothing has changed, which nobody has compared.  The caller reads again (C6). */
        if (woken && status == TENURE_TIMEOUT)
            return TENURE_OK;
        if (status || changed)
            return status;
        int64_t until = h->deaf ? tenure_now() + LOOK_NS : deadline;
        tn_sqlite_give_room(h);
        status = tn_store_sleep("sqlite", h->notify_fd, wake_fd, until, deadline, err);
        if (status)
            return status;
    }
}
