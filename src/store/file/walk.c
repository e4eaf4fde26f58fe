/*
 * Walking the tree of directories in the byte order of the keys.
 *
 * "a" and "a/x" are a directory and one inside it, but "a-b" comes between
 * them: '-' sorts before '/'.  So each directory stands twice in the list of
 * its parent, as "a" (the register) and as "a/" (what is below).
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/grow.h"
#include "store/file/journal/journal.h"
#include "store/file/walk.h"

struct items {
    char **texts;
    size_t n, cap;
};

static bool push(struct items *items, const char *name, const char *end)
{
    size_t size = strlen(name) + strlen(end) + 1;

    char *text =
        tn_grow(&items->texts, &items->cap, items->n, sizeof(char *)) ? malloc(size) : NULL;
    if (!text)
        return false;
    snprintf(text, size, "%s%s", name, end);
    items->texts[items->n++] = text;
    return true;
}

static void items_free(struct items *items)
{
    for (size_t i = 0; i < items->n; i++)
        free(items->texts[i]);
    free(items->texts);
}

static int by_bytes(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static bool is_dir(int dir, const struct dirent *entry)
{
    struct stat st;

    if (entry->d_type != DT_UNKNOWN)
        return entry->d_type == DT_DIR;
    return fstatat(dir, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode);
}

/* The directories in `dir` whose names begin with leaf.  Consumes dir.  false with errno. */
static bool gather(int dir, const char *leaf, struct items *items)
{
    DIR *d = fdopendir(dir);
    const struct dirent *entry;
    bool fits = true;

    if (!d) {
        close(dir);
        return false;
    }
    errno = 0;
    while (fits && (entry = readdir(d))) {
        if (strncmp(entry->d_name, leaf, strlen(leaf)) != 0 || !tenure_key_valid(entry->d_name) ||
            !is_dir(dir, entry))
            continue;
        fits = push(items, entry->d_name, "") && push(items, entry->d_name, "/");
        errno = fits ? 0 : ENOMEM;
    }
    int saved = errno;
    closedir(d);
    errno = saved;
    return !saved;
}

/* The registers of the group that is at `below`, if there is one. */
static enum tenure_status gather_group(struct tn_file *f, const char *below, const char *leaf,
                                       int64_t deadline, struct items *items,
                                       struct tenure_error *err)
{
    char group[TENURE_KEY_MAX + 1], any[TENURE_KEY_MAX + 4];
    const char *name;
    struct tn_journal *j;
    struct tn_journal_reg *reg;

    snprintf(any, sizeof any, "%s/x", below);
    if (!deadline || strlen(any) > TENURE_KEY_MAX || !tn_journal_group(f, any, group, &name) ||
        strcmp(group, below) != 0)
        return TENURE_OK;
    enum tenure_status status = tn_journal_look(f, group, "", &j, &reg, deadline, err);
    for (size_t i = 0; !status && i < j->n_buckets; i++) {
        for (reg = j->buckets[i]; reg && !status; reg = reg->next) {
            if (reg->name_len && strncmp(reg->name, leaf, strlen(leaf)) == 0 &&
                !push(items, reg->name, ""))
                status = tenure_fail(err, TENURE_NOMEM, "out of memory");
        }
    }
    return status;
}

static void sort(struct items *items)
{
    size_t kept = 0;

    if (items->n)
        qsort(items->texts, items->n, sizeof *items->texts, by_bytes);
    for (size_t i = 0; i < items->n; i++) {
        if (kept && strcmp(items->texts[kept - 1], items->texts[i]) == 0)
            free(items->texts[i]); /* a directory, and in the journal too */
        else
            items->texts[kept++] = items->texts[i];
    }
    items->n = kept;
}

/*
 * Has the directory of a key none inside it?  A local file system counts each
 * as a link to its parent; one that does not count says 1, and is read.
 */
static bool is_leaf(const struct tn_file *f, const char *key)
{
    char path[PATH_MAX];
    struct stat st;

    return !f->network && tn_file_path(f, key, path) && stat(path, &st) == 0 && st.st_nlink == 2;
}

/* Is this prefix, which ends with a slash, that of a group? */
static bool is_group(const struct tn_file *f, const char *prefix)
{
    char key[TENURE_KEY_MAX + 4], group[TENURE_KEY_MAX + 1];
    const char *name;
    int n = snprintf(key, sizeof key, "%sx", prefix);

    return n <= TENURE_KEY_MAX && tn_journal_group(f, key, group, &name) && *name;
}

/* What is below `at`, "" or a path that ends with a slash, if it begins with leaf. */
static enum tenure_status walk_below(struct tn_file *f, const char *at, const char *leaf,
                                     bool first, const struct tn_file_visitor *v,
                                     struct tenure_error *err)
{
    char key[TENURE_KEY_MAX + 2], below[TENURE_KEY_MAX + 2];
    struct items items = {0};
    enum tenure_status status;
    int dir;

    snprintf(below, sizeof below, "%s", at);
    if (below[0])
        below[strlen(below) - 1] = '\0';
    /* Entered before it is read: what comes later is seen by those who watch. */
    status = v->enter ? v->enter(v->arg, below, err) : TENURE_OK;
    if (!status)
        status = tn_file_open_dir(f, below, &dir, err);
    if (status || dir < 0)
        return status;
    if (!gather(dir, leaf, &items))
        status = tn_file_fail(err, errno, "cannot list", f->root, below);
    if (!status)
        status = gather_group(f, below, leaf, v->deadline, &items, err);
    /* One that cannot be read was visited as such by its own name, just before. */
    if (status == TENURE_CORRUPT && !first)
        status = TENURE_OK;
    sort(&items);
    for (size_t i = 0; i < items.n && !status; i++) {
        int n = snprintf(key, sizeof key, "%s%s", at, items.texts[i]);

        if (n > TENURE_KEY_MAX)
            continue; /* no key of ours is that long, and none is below */
        if (key[n - 1] != '/')
            status = v->visit ? v->visit(v->arg, key, err) : TENURE_OK;
        else if ((!v->skip || !v->skip(v->arg, key)) && (is_group(f, key) || !is_leaf(f, key)))
            status = walk_below(f, key, "", false, v, err);
    }
    items_free(&items);
    return status;
}

enum tenure_status tn_file_walk(struct tn_file *f, const char *prefix,
                                const struct tn_file_visitor *visitor, struct tenure_error *err)
{
    const char *slash = strrchr(prefix, '/');
    char at[TENURE_KEY_MAX + 2];

    snprintf(at, sizeof at, "%.*s", slash ? (int)(slash - prefix) + 1 : 0, prefix);
    return walk_below(f, at, slash ? slash + 1 : prefix, true, visitor, err);
}
