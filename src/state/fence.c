/* The persistent fence: one small file, replaced as a whole when the epoch rises. */
#include "tenure/fence.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <libgen.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/hex.h"
#include "core/fence.h"

#define LINE_MAX_BYTES 128

struct tenure_fence {
    pthread_mutex_t lock;
    struct tn_fence accepted;
    int dir;     /* the directory, to flush and to rename in */
    int lock_fd; /* NAME.lock, held exclusively */
    char name[NAME_MAX + 1];
    char next[NAME_MAX + 1]; /* NAME.new */
};

/* ---- The file ------------------------------------------------------------ */

static unsigned sum(const char *text, size_t n)
{
    unsigned h = 2166136261u;

    for (size_t i = 0; i < n; i++)
        h = (h ^ (unsigned char)text[i]) * 16777619u;
    return h;
}

static void compose(const struct tn_fence *f, char line[LINE_MAX_BYTES])
{
    char grant[TN_NONCE_HEX + 1];
    int n;

    tn_hex_encode(f->grant, TENURE_NONCE_SIZE, grant);
    n = snprintf(line, LINE_MAX_BYTES, "tenure-fence 1 %" PRIu64 " %s", f->epoch, grant);
    snprintf(line + n, LINE_MAX_BYTES - (size_t)n, " %08x\n", sum(line, (size_t)n));
}

/* What compose() wrote, to the byte, or nothing. */
static bool parse(const char *line, struct tn_fence *out)
{
    struct tn_fence f = {0};
    char grant[TN_NONCE_HEX + 1], again[LINE_MAX_BYTES];

    if (sscanf(line, "tenure-fence 1 %" SCNu64 " %32[0-9a-f]", &f.epoch, grant) != 2 ||
        !tn_hex_decode(grant, f.grant, TENURE_NONCE_SIZE) || f.epoch > TN_EPOCH_MAX)
        return false;
    compose(&f, again);
    if (strcmp(line, again) != 0)
        return false;
    *out = f;
    return true;
}

static enum tenure_status load(tenure_fence *f, const char *path, struct tenure_error *err)
{
    char line[LINE_MAX_BYTES + 1];
    int fd = openat(f->dir, f->name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);

    if (fd < 0 && errno == ENOENT)
        return TENURE_OK; /* nothing accepted yet */
    ssize_t n = fd < 0 ? -1 : read(fd, line, LINE_MAX_BYTES);
    int saved = errno;
    if (fd >= 0)
        close(fd);
    if (n < 0)
        return tenure_fail(err, TENURE_UNAVAILABLE, "fence %s: %s", path, strerror(saved));
    line[n] = '\0';
    if (!parse(line, &f->accepted))
        return tenure_fail(err, TENURE_CORRUPT,
                           "fence %s cannot be read; look at it, and write the highest epoch that "
                           "you know before you start again",
                           path);
    return TENURE_OK;
}

/* Durable before it is acted on: file, then name, then directory. */
static enum tenure_status store(tenure_fence *f, const struct tn_fence *value,
                                struct tenure_error *err)
{
    char line[LINE_MAX_BYTES];
    int fd = openat(f->dir, f->next, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    bool done;

    compose(value, line);
    done = fd >= 0 && write(fd, line, strlen(line)) == (ssize_t)strlen(line) && fsync(fd) == 0;
    if (fd >= 0)
        done = close(fd) == 0 && done;
    done = done && renameat(f->dir, f->next, f->dir, f->name) == 0 && fsync(f->dir) == 0;
    if (!done)
        return tenure_fail(err, TENURE_UNAVAILABLE,
                           "fence %s: epoch %" PRIu64 " cannot be remembered, so it is refused: %s",
                           f->name, value->epoch, strerror(errno));
    return TENURE_OK;
}

/* ---- Life ---------------------------------------------------------------- */

static enum tenure_status open_place(tenure_fence *f, const char *path, struct tenure_error *err)
{
    char copy[PATH_MAX], other[PATH_MAX], lock_name[NAME_MAX + 1];

    if (strlen(path) >= PATH_MAX - 8)
        return tenure_fail(err, TENURE_CONFIG, "fence: the path is too long");
    snprintf(copy, sizeof copy, "%s", path);
    snprintf(other, sizeof other, "%s", path);
    const char *name = basename(other);
    if (strlen(name) > NAME_MAX - 8)
        return tenure_fail(err, TENURE_CONFIG, "fence: the file's name is too long");
    snprintf(f->name, sizeof f->name, "%s", name);
    snprintf(f->next, sizeof f->next, "%.240s.new", name);
    snprintf(lock_name, sizeof lock_name, "%.240s.lock", name);
    f->dir = open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (f->dir < 0)
        return tenure_fail(err, TENURE_CONFIG,
                           "fence: cannot open the directory %s: %s; make it first", copy,
                           strerror(errno));
    f->lock_fd = openat(f->dir, lock_name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (f->lock_fd < 0)
        return tenure_fail(err, TENURE_DENIED, "fence %s: cannot make %s: %s", path, lock_name,
                           strerror(errno));
    if (flock(f->lock_fd, LOCK_EX | LOCK_NB) != 0)
        return tenure_fail(err, TENURE_UNAVAILABLE, "fence %s is in use by another process", path);
    return load(f, path, err);
}

enum tenure_status tenure_fence_open(const char *path, tenure_fence **fence,
                                     struct tenure_error *err)
{
    tenure_fence *f = calloc(1, sizeof *f);
    enum tenure_status status;

    if (!f)
        return tenure_fail(err, TENURE_NOMEM, "out of memory");
    pthread_mutex_init(&f->lock, NULL);
    f->dir = f->lock_fd = -1;
    status = open_place(f, path, err);
    if (status)
        tenure_fence_close(f);
    else
        *fence = f;
    return status;
}

void tenure_fence_close(tenure_fence *f)
{
    if (!f)
        return;
    if (f->lock_fd >= 0)
        close(f->lock_fd);
    if (f->dir >= 0)
        close(f->dir);
    pthread_mutex_destroy(&f->lock);
    free(f);
}

/* ---- The question -------------------------------------------------------- */

static enum tenure_status judge(tenure_fence *f, struct tn_fence *writer, bool named,
                                struct tenure_error *err)
{
    enum tenure_status status;

    /* Without a grant an equal epoch is taken for the same leader's. */
    if (!named && writer->epoch == f->accepted.epoch)
        memcpy(writer->grant, f->accepted.grant, TENURE_NONCE_SIZE);
    switch (tn_fence_judge(&f->accepted, writer)) {
    case TN_VERDICT_SAME:
        return TENURE_OK;
    case TN_VERDICT_RAISE:
        status = store(f, writer, err);
        if (!status)
            f->accepted = *writer;
        return status;
    case TN_VERDICT_STALE:
        return tenure_fail(err, TENURE_FENCED, "epoch %" PRIu64 " is over: %" PRIu64 " was here",
                           writer->epoch, f->accepted.epoch);
    case TN_VERDICT_INVALID:
        break;
    }
    return tenure_fail(err, TENURE_INVALID, "epoch %" PRIu64 " is out of range", writer->epoch);
}

enum tenure_status tenure_fence_check(tenure_fence *f, uint64_t epoch, const uint8_t *grant,
                                      struct tenure_error *err)
{
    struct tn_fence writer = {.epoch = epoch};

    if (grant)
        memcpy(writer.grant, grant, TENURE_NONCE_SIZE);
    pthread_mutex_lock(&f->lock);
    enum tenure_status status = judge(f, &writer, grant != NULL, err);
    pthread_mutex_unlock(&f->lock);
    return status;
}

enum tenure_status tenure_fence_check_text(tenure_fence *f, const char *text,
                                           struct tenure_error *err)
{
    uint8_t grant[TENURE_NONCE_SIZE];
    uint64_t epoch = 0;
    const char *p = text;

    if (!p || *p < '0' || *p > '9')
        goto bad;
    for (; *p >= '0' && *p <= '9'; p++) {
        if (epoch > TN_EPOCH_MAX)
            goto bad;
        epoch = epoch * 10 + (uint64_t)(*p - '0');
    }
    if (!*p)
        return tenure_fence_check(f, epoch, NULL, err);
    if (*p == ' ' && tn_hex_decode(p + 1, grant, TENURE_NONCE_SIZE))
        return tenure_fence_check(f, epoch, grant, err);
bad:
    return tenure_fail(err, TENURE_INVALID, "Tenure-Epoch must read EPOCH or EPOCH GRANT");
}

uint64_t tenure_fence_highest(tenure_fence *f)
{
    pthread_mutex_lock(&f->lock);
    uint64_t epoch = f->accepted.epoch;
    pthread_mutex_unlock(&f->lock);
    return epoch;
}
