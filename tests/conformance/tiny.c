/*
 * tiny:DIRECTORY - how small a store can be; the example of docs/explanation/internals/store.md.
 * A register is a file that is replaced by rename() under a lock on the directory, so readers see
 * the old value or the new one.  wait() polls.  Nothing is synced: a power cut may take it all.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/options.h"
#include "base/sum.h"
#include "store/open.h"
#include "store/sleep.h"

#define HEAD offsetof(struct file, data)

struct tiny {
    int64_t poll_ns;
    int dir;
};

struct file {
    struct tenure_token token;
    uint8_t prev[TENURE_NONCE_SIZE];
    bool tombstone;
    char data[4096]; /* as many as there are */
};

static const struct tn_option options[] = {
    TN_TIME_OPTION("poll", offsetof(struct tiny, poll_ns), 1000000, 1000000000, "5ms", NULL,
                   "how often to look for changes"),
    {0},
};

static enum tenure_status fail(struct tenure_error *err, const char *what)
{
    return tenure_fail(err, TENURE_UNAVAILABLE, "tiny: %s: %s", what, strerror(errno));
}

static enum tenure_status configure(void *impl, const char *text, struct tenure_error *err)
{
    struct tiny *h = impl;
    struct tn_url url = {0};
    enum tenure_status status = tn_url_parse(text, &url, err);

    h->dir = status ? -1 : open(url.path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (!status)
        status = h->dir < 0 ? fail(err, url.path) : tn_options_read(options, &url, h, err);
    tn_url_free(&url);
    return status;
}

static void tiny_close(void *impl)
{
    close(((struct tiny *)impl)->dir);
    free(impl);
}

static enum tenure_status tiny_open(const char *url, int64_t deadline, void **impl,
                                    struct tenure_error *err)
{
    static const struct tn_opener opener = {sizeof(struct tiny), configure, NULL, tiny_close};

    return tn_open(&opener, url, deadline, impl, err);
}

static void tiny_info(void *impl, struct tenure_store_info *info)
{
    (void)impl;
    info->scheme = "tiny";
    info->promise = "files in one directory, for the tests";
    info->shared = true;
    info->data_max = sizeof((struct file *)0)->data;
}

/* A key as the name of a file, and back: "+,-" stands for "-./", so that names sort as keys do. */
static void translate(const char *from, char *to, char first, int by)
{
    do
        *to++ = (char)(*from >= first && *from < first + 3 ? *from + by : *from);
    while (*from++);
}

static enum tenure_status tiny_read(void *impl, const char *key, struct tenure_value *value,
                                    int64_t deadline, struct tenure_error *err)
{
    struct file f;
    char name[TENURE_KEY_MAX + 1];

    (void)deadline;
    translate(key, name, '-', -2);
    int fd = openat(((struct tiny *)impl)->dir, name, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return errno == ENOENT ? tenure_value_absent(value, err) : fail(err, key);
    ssize_t n = read(fd, &f, sizeof f);
    close(fd);
    if (n < (ssize_t)HEAD)
        return tenure_fail(err, TENURE_CORRUPT, "tiny: %s is damaged", key);
    value->token = f.token;
    value->tombstone = f.tombstone;
    memcpy(value->prev, f.prev, sizeof f.prev);
    return tenure_value_set(value, f.data, (size_t)n - HEAD, err);
}

static enum tenure_status tiny_swap(void *impl, struct tenure_swap *swap, int64_t deadline,
                                    struct tenure_error *err)
{
    int dir = ((struct tiny *)impl)->dir, lock = openat(dir, ".", O_RDONLY | O_CLOEXEC), fd = -1;
    struct tenure_value now = {0};
    struct file f = {.tombstone = swap->tombstone};
    ssize_t size = (ssize_t)(HEAD + swap->len);
    char name[TENURE_KEY_MAX + 1];
    enum tenure_status status = flock(lock, LOCK_EX) != 0
                                    ? fail(err, "lock")
                                    : tiny_read(impl, swap->key, &now, deadline, err);

    if (!status && !tenure_token_equal(&now.token, &swap->expect))
        status = tenure_fail(err, TENURE_CONFLICT, "tiny: %s has changed", swap->key);
    snprintf(f.token.version, sizeof f.token.version, "%d", atoi(now.token.version) + 1);
    memcpy(f.token.nonce, swap->nonce, sizeof f.token.nonce);
    memcpy(f.prev, now.token.nonce, sizeof f.prev);
    memcpy(f.data, swap->len ? swap->data : "", swap->len);
    translate(swap->key, name, '-', -2);
    if (!status &&
        ((fd = openat(dir, ".new", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600)) < 0 ||
         write(fd, &f, (size_t)size) != size || renameat(dir, ".new", dir, name) != 0))
        status = fail(err, swap->key);
    swap->token = f.token;
    close(fd);
    close(lock);
    tenure_value_free(&now);
    return swap->status = status;
}

/* The mark is a sum of all keys and tokens under the prefix.  visit may be NULL. */
static enum tenure_status tiny_list(void *impl, const char *prefix, const char *after,
                                    tenure_visit_fn visit, void *arg,
                                    char mark[TENURE_VERSION_MAX + 1], int64_t deadline,
                                    struct tenure_error *err)
{
    struct dirent **names = NULL;
    struct tenure_value value = {0};
    uint64_t sum = TN_SUM_START;
    int n = scandirat(((struct tiny *)impl)->dir, ".", &names, NULL, alphasort);
    enum tenure_status status = n < 0 ? fail(err, "list") : TENURE_OK;

    for (int i = 0; i < n; free(names[i++])) {
        char key[TENURE_KEY_MAX + 1];

        translate(names[i]->d_name, key, '+', 2);
        if (status || key[0] == '.' || strncmp(key, prefix, strlen(prefix)) != 0 ||
            (status = tiny_read(impl, key, &value, deadline, err)))
            continue;
        sum = tn_sum(tn_sum(sum, key, strlen(key)), &value.token, sizeof value.token);
        if (visit && (!after || strcmp(key, after) > 0) && !visit(arg, key, &value))
            visit = NULL;
    }
    free(names);
    tenure_value_free(&value);
    if (mark)
        snprintf(mark, TENURE_VERSION_MAX + 1, "%016llx", (unsigned long long)sum);
    return status;
}

static enum tenure_status tiny_wait(void *impl, const struct tenure_watch *watches, size_t n,
                                    int wake_fd, int64_t deadline, struct tenure_error *err)
{
    struct tenure_value value = {0};
    char mark[TENURE_VERSION_MAX + 1];
    enum tenure_status status = TENURE_OK;
    bool same = true;

    for (size_t i = 0; !status && same; i = i < n ? i + 1 : 0) {
        if (i == n)
            status = tn_store_sleep("tiny", -1, wake_fd,
                                    tenure_now() + ((struct tiny *)impl)->poll_ns, deadline, err);
        else if (watches[i].prefix)
            same = !(status =
                         tiny_list(impl, watches[i].key, NULL, NULL, NULL, mark, deadline, err)) &&
                   strcmp(mark, watches[i].mark) == 0;
        else
            same = !(status = tiny_read(impl, watches[i].key, &value, deadline, err)) &&
                   tenure_token_equal(&value.token, &watches[i].seen);
    }
    tenure_value_free(&value);
    return status;
}

static const struct tenure_store_ops tiny = {TENURE_STORE_ABI, "tiny",    tiny_open, tiny_close,
                                             tiny_info,        tiny_read, tiny_swap, NULL,
                                             tiny_wait,        tiny_list, options};

TENURE_API extern const struct tenure_store_ops *const tenure_store_module[];
const struct tenure_store_ops *const tenure_store_module[] = {&tiny, NULL};
