/*
 * Waiting for a change: inotify on the directories, and no wake-up without one.
 *
 * Each round subscribes, drains the events, compares, and then sleeps (C6).
 * Whatever happens after the draining leaves an event that ends the sleep;
 * whatever happened before it is seen by the comparison.  One kind of event may
 * not just be thrown away: a directory has come or gone, and what is in it is
 * not watched yet.  Then the round subscribes once more.
 *
 * inotify knows nothing about other hosts, and may run out of watches: then the
 * comparison is repeated every poll_ns.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <unistd.h>

#include "base/grow.h"
#include "store/file/journal/journal.h"
#include "store/file/walk.h"
#include "store/sleep.h"

/* A slot is linked, a directory made or moved here; or the directory itself goes. */
#define MASK (IN_CREATE | IN_MOVED_TO | IN_DELETE_SELF | IN_MOVE_SELF | IN_ONLYDIR)

/* The watches that one round needs. */
struct round {
    struct tn_file *f;
    int *wds;
    size_t n, cap;
    bool poll; /* something cannot be watched */
};

/* What the events of a queue say. */
struct news {
    bool slots; /* a slot was linked somewhere */
    bool dirs;  /* a directory has come or gone: the subscription may not fit any more */
};

/* Empty the queue. */
static struct news drain(int fd)
{
    _Alignas(struct inotify_event) char buffer[4096];
    struct news news = {false, false};
    ssize_t n;

    while (fd >= 0 && (n = read(fd, buffer, sizeof buffer)) > 0) {
        for (ssize_t at = 0; at < n;) {
            const struct inotify_event *event = (const void *)(buffer + at);

            news.slots |= event->len && (event->name[0] == '@' || event->name[0] == '+');
            news.dirs |= (event->mask & (IN_ISDIR | IN_DELETE_SELF | IN_MOVE_SELF | IN_UNMOUNT |
                                         IN_Q_OVERFLOW)) != 0;
            at += (ssize_t)(sizeof *event + event->len);
        }
    }
    return news;
}

static bool add_watch(struct round *r, int wd)
{
    if (!tn_grow(&r->wds, &r->cap, r->n, sizeof *r->wds))
        return false;
    r->wds[r->n++] = wd;
    return true;
}

/* Registers in journals change without a new name. */
static uint32_t mask_of(const struct tn_file *f, const char *below)
{
    char key[TENURE_KEY_MAX + 4], group[TENURE_KEY_MAX + 1];
    const char *name;
    int n = snprintf(key, sizeof key, "%.*s/x", TENURE_KEY_MAX, below);

    return n <= TENURE_KEY_MAX && tn_journal_group(f, key, group, &name) && *name ? MASK | IN_MODIFY
                                                                                  : MASK;
}

/* Watch one directory.  false: there is none. */
static bool watch(struct round *r, const char *below)
{
    char path[PATH_MAX];

    if (!tn_file_path(r->f, below, path)) {
        r->poll = true;
        return true;
    }
    int wd = inotify_add_watch(r->f->watches.fd, path, mask_of(r->f, below));
    if (wd < 0 && errno == ENOENT)
        return false;
    if (wd < 0 || !add_watch(r, wd))
        r->poll = true;
    return true;
}

/* One step up: "a/b" becomes "a", "a" becomes "".  false at the top. */
static bool up(char *below)
{
    char *slash = strrchr(below, '/');

    if (!below[0])
        return false;
    *(slash ? slash : below) = '\0';
    return true;
}

/*
 * Watch the directory, or else the nearest one above it that is there.  One
 * that was missing is tried again once the one above it is watched: if it is
 * made later than that, there is an event.
 */
static void watch_nearest(struct round *r, const char *below)
{
    char at[TENURE_KEY_MAX + 2];
    size_t depth;

    do {
        snprintf(at, sizeof at, "%s", below);
        while (!watch(r, at)) {
            if (!up(at)) {
                r->poll = true; /* not even the root */
                return;
            }
        }
        depth = strlen(at);
        if (depth == strlen(below))
            return;
        snprintf(at, sizeof at, "%.*s",
                 (int)(depth + (depth > 0) + strcspn(below + depth + (depth > 0), "/")), below);
    } while (watch(r, at));
}

static enum tenure_status watch_dir(void *arg, const char *below, struct tenure_error *err)
{
    (void)err;
    watch_nearest(arg, below);
    return TENURE_OK;
}

static int by_number(const void *a, const void *b)
{
    int x = *(const int *)a, y = *(const int *)b;

    return (x > y) - (x < y);
}

/* Drop what the round before watched and this one does not. */
static void replace_watches(struct tn_file_watches *old, struct round *r)
{
    if (r->n)
        qsort(r->wds, r->n, sizeof *r->wds, by_number);
    for (size_t i = 0; i < old->n; i++) {
        if (!r->n || !bsearch(&old->wds[i], r->wds, r->n, sizeof *r->wds, by_number))
            inotify_rm_watch(old->fd, old->wds[i]);
    }
    free(old->wds);
    old->wds = r->wds;
    old->n = r->n;
}

/* Subscribe to everything.  *poll: there may be changes that no event tells of. */
static enum tenure_status subscribe(struct tn_file *f, const struct tenure_watch *watches, size_t n,
                                    bool *poll, struct tenure_error *err)
{
    struct round r = {.f = f, .poll = f->network};
    struct tn_file_visitor visitor = {.enter = watch_dir, .visit = watch_dir, .arg = &r};
    enum tenure_status status = TENURE_OK;

    if (f->watches.fd < 0)
        f->watches.fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    *poll = true;
    if (f->watches.fd < 0)
        return TENURE_OK;
    for (size_t i = 0; i < n && !status; i++) {
        if (watches[i].prefix)
            status = tn_file_walk(f, watches[i].key, &visitor, err);
        else
            watch_nearest(&r, watches[i].key);
    }
    replace_watches(&f->watches, &r);
    *poll = r.poll;
    return status;
}

static enum tenure_status compare(struct tn_file *f, const struct tenure_watch *watch,
                                  bool *changed, int64_t deadline, struct tenure_error *err)
{
    char mark[TENURE_VERSION_MAX + 1];
    struct tenure_token token = {0};
    struct tn_slot slot;
    struct tn_journal *j;
    struct tn_journal_reg *reg;
    char group[TENURE_KEY_MAX + 1];
    const char *name;
    enum tenure_status status;

    if (watch->prefix) {
        status = tn_file_list(f, watch->key, NULL, NULL, NULL, mark, deadline, err);
        *changed = !status && strcmp(mark, watch->mark) != 0;
        return status;
    }
    if (tn_journal_group(f, watch->key, group, &name)) {
        status = tn_journal_look(f, group, name, &j, &reg, deadline, err);
        if (!status)
            tn_journal_token(reg, &token);
    } else {
        status = tn_file_find(f, watch->key, false, &slot, deadline, err);
        if (!status && slot.number)
            tn_slot_token(&slot, &token);
    }
    *changed = !status && !tenure_token_equal(&token, &watch->seen);
    return status;
}

enum tenure_status tn_file_wait(void *impl, const struct tenure_watch *watches, size_t n,
                                int wake_fd, int64_t deadline, struct tenure_error *err)
{
    struct tn_file *f = impl;

    for (;;) {
        bool poll, changed = false;

        enum tenure_status status = subscribe(f, watches, n, &poll, err);
        if (!status && drain(f->watches.fd).dirs)
            status = subscribe(f, watches, n, &poll, err);
        for (size_t i = 0; i < n && !status && !changed; i++)
            status = compare(f, &watches[i], &changed, deadline, err);
        if (status || changed)
            return status;
        int64_t now = tenure_now();
        int64_t until = poll && deadline - now > f->poll_ns ? now + f->poll_ns : deadline;
        status = tn_store_sleep("file", f->watches.fd, wake_fd, until, deadline, err);
        if (status)
            return status;
        /* A new slot: to look at it is the caller's next step, so it is not done twice. */
        if (drain(f->watches.fd).slots)
            return TENURE_OK;
    }
}

void tn_file_wait_end(struct tn_file *f)
{
    if (f->watches.fd >= 0)
        close(f->watches.fd);
    free(f->watches.wds);
}
