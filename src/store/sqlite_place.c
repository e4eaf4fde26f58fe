/*
 * Where the file is, and whether a lease may live there: all that can be said
 * before SQLite touches it.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/url.h"
#include "os/fs.h"
#include "store/sqlite.h"

#define PATH_LONGEST 480 /* SQLite's own limit is 512, with its suffixes */

static enum tenure_status absolute(const char *path, char **out, struct tenure_error *err)
{
    char *cwd = NULL, *full = NULL;

    if (path[0] != '/' && !(cwd = getcwd(NULL, 0)))
        return tenure_fail(err, TENURE_CONFIG,
                           "sqlite: the current directory cannot be told (%s); name the file by "
                           "its absolute path",
                           strerror(errno));
    if (asprintf(&full, "%s%s%s", cwd ? cwd : "", cwd ? "/" : "", path) < 0)
        full = NULL;
    free(cwd);
    if (!full)
        return tenure_fail(err, TENURE_NOMEM, "sqlite: out of memory");
    if (strlen(full) > PATH_LONGEST) {
        free(full);
        return tenure_fail(err, TENURE_CONFIG, "sqlite: the path is longer than %d bytes",
                           PATH_LONGEST);
    }
    *out = full;
    return TENURE_OK;
}

enum tenure_status tn_sqlite_path(const char *text, char **path, bool *mend,
                                  struct tenure_error *err)
{
    struct tn_url url = {0};
    enum tenure_status status = tn_url_parse(text, &url, err);
    const char *word;

    if (status)
        return status;
    word = tn_url_param(&url, "mend");
    *mend = word && strcmp(word, "yes") == 0;
    if (word && !*mend && strcmp(word, "no") != 0)
        status = tenure_fail(err, TENURE_CONFIG, "sqlite: mend=%.40s is neither yes nor no", word);
    if (!status)
        status = tn_url_check_params(&url, "mend", err);
    if (!status && (url.hosts[0] || url.user))
        status = tenure_fail(err, TENURE_CONFIG,
                             "sqlite: has no host; write sqlite:/absolute/path or sqlite:name");
    if (!status && (!url.path[0] || url.path[strlen(url.path) - 1] == '/'))
        status = tenure_fail(err, TENURE_CONFIG,
                             "sqlite: needs the name of a file, as in sqlite:/var/lib/tenure.db");
    if (!status)
        status = absolute(url.path, path, err);
    tn_url_free(&url);
    return status;
}

static enum tenure_status refuse_network(const char *path, const char *where,
                                         struct tenure_error *err)
{
    const char *name;

    if (tn_fs_network(where, &name) != 1)
        return TENURE_OK; /* what cannot be asked cannot be opened either */
    return tenure_fail(err, TENURE_CONFIG,
                       "sqlite: %s: is on a network file system (%s), where its locks do not "
                       "exclude other hosts; use file:, or a local disk",
                       path, name);
}

/* Make an empty file that only its owner may read.  mknod(), because closing a
 * descriptor of a database drops every lock that this process has on it. */
static enum tenure_status make_file(const char *path, struct tenure_error *err)
{
    char dir[PATH_LONGEST + 1];
    struct stat st;

    snprintf(dir, sizeof dir, "%s", path);
    char *slash = strrchr(dir, '/');
    slash[slash == dir] = '\0';
    enum tenure_status status = refuse_network(path, dir, err);
    if (status)
        return status;
    if (mknod(path, S_IFREG | 0600, 0) == 0 || errno == EEXIST)
        return TENURE_OK;
    int code = errno;
    if (code == ENOENT && stat(dir, &st) != 0)
        return tenure_fail(err, TENURE_CONFIG,
                           "sqlite: the directory %s does not exist; make it: mkdir -p -m 700 %s",
                           dir, dir);
    return tn_sqlite_fail_errno(path, code, err);
}

/* A log without its database: SQLite would throw it away, and the registers
 * that stand only there with it. */
static enum tenure_status refuse_orphan(const char *path, const char *wal, struct tenure_error *err)
{
    return tenure_fail(err, TENURE_CORRUPT,
                       "sqlite: %s is missing or empty but %s is not; restore both from a backup, "
                       "or move both away to begin anew",
                       path, wal);
}

enum tenure_status tn_sqlite_place(const char *path, bool create, struct tenure_error *err)
{
    char wal[PATH_LONGEST + 8];
    struct stat st, log;

    /* In this order: a database that is being made has pages before its log does. */
    snprintf(wal, sizeof wal, "%s-wal", path);
    bool logged = stat(wal, &log) == 0 && log.st_size > 0;
    if (stat(path, &st) != 0) {
        if (errno != ENOENT)
            return tn_sqlite_fail_errno(path, errno, err);
        if (!create)
            return tenure_fail(err, TENURE_UNAVAILABLE,
                               "sqlite: %s was removed while in use; put it back, or restart to "
                               "begin with an empty one",
                               path);
        return logged ? refuse_orphan(path, wal, err) : make_file(path, err);
    }
    if (S_ISDIR(st.st_mode))
        return tenure_fail(err, TENURE_CONFIG,
                           "sqlite: %s is a directory; name a file in it, or use file:", path);
    if (!S_ISREG(st.st_mode))
        return tenure_fail(err, TENURE_CONFIG, "sqlite: %s is not a regular file", path);
    if (st.st_size == 0 && logged)
        return refuse_orphan(path, wal, err);
    if (st.st_nlink > 1 || tn_fs_mounted(path))
        return tenure_fail(err, TENURE_CONFIG,
                           "sqlite: %s has a second name, or is mounted by itself: whoever uses it "
                           "from the other place has another log; mount its directory instead",
                           path);
    return refuse_network(path, path, err);
}
