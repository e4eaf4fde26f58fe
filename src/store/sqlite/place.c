/*
 * Where the file is, and whether a lease may live there: all that can be said
 * before SQLite touches it.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/options.h"
#include "os/fs.h"
#include "store/sqlite/sqlite.h"

#define PATH_LONGEST 480 /* SQLite's own limit is 512, with its suffixes */

static enum tenure_status absolute(const char *path, char **out, struct tenure_error *err)
{
    char *cwd = NULL, *full = NULL;

    if (path[0] != '/' && !(cwd = getcwd(NULL, 0)))
        return tenure_fail(err, TENURE_CONFIG,
                           "sqlite: the current directory cannot be read (%s); name the file by "
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

struct settings {
    bool create, repair;
};

const struct tn_option tn_sqlite_options[] = {
    TN_SWITCH_OPTION("create", offsetof(struct settings, create), "no|yes", "yes", NULL,
                     "make the file if it is missing"),
    TN_REPAIR_OPTION(offsetof(struct settings, repair)),
    {0},
};

enum tenure_status tn_sqlite_path(const char *text, char **path, bool *repair, bool *create,
                                  struct tenure_error *err)
{
    struct settings set = {0};
    struct tn_url url = {0};
    enum tenure_status status = tn_url_parse(text, &url, err);

    if (!status)
        status = tn_options_read(tn_sqlite_options, &url, &set, err);
    *repair = set.repair;
    *create = set.create;
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

/*
 * A new database: whole, on the disk and closed before it has its name, so that nobody ever builds
 * on a part of it (C3).  Closed, because to close a file drops every lock that this process has on
 * it.  false, and an empty file will do, where that cannot be, or somebody else is just doing it.
 * Nor is it one of the three standard descriptors, where other threads may write: whose they are
 * at this moment, they cannot know.
 */
static bool make_whole(const char *path)
{
    char fresh[PATH_LONGEST + 8];

    snprintf(fresh, sizeof fresh, "%s-new", path);
    int fd = open(fresh, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return false;
    bool whole =
        fd > STDERR_FILENO &&
        write(fd, tn_sqlite_image, tn_sqlite_image_size) == (ssize_t)tn_sqlite_image_size &&
        fdatasync(fd) == 0;
    whole = close(fd) == 0 && whole &&
            renameat2(AT_FDCWD, fresh, AT_FDCWD, path, RENAME_NOREPLACE) == 0;
    if (!whole)
        unlink(fresh);
    return whole;
}

/*
 * Make a file that only its owner may read: a database, or else an empty file, of which SQLite
 * makes one, and which tells what is wrong if anything is.  By mknod(), which opens nothing.
 */
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
    if (make_whole(path) || mknod(path, S_IFREG | 0600, 0) == 0 || errno == EEXIST)
        return TENURE_OK;
    int code = errno;
    if (code == ENOENT && stat(dir, &st) != 0)
        return tenure_fail(
            err, TENURE_CONFIG,
            "sqlite: the directory %s does not exist; mount it, or make it: mkdir -p "
            "-m 700 %s",
            dir, dir);
    return tn_sqlite_fail_errno(path, code, err);
}

/* A log without its database: SQLite would throw it away, and the registers that stand only there
 * with it; or, if it is that of a database in another mode, put its pages into ours. */
static enum tenure_status refuse_orphan(const char *path, const char *log, struct tenure_error *err)
{
    return tenure_fail(err, TENURE_CORRUPT,
                       "sqlite: %s is missing or empty but %s is not; restore both from a backup, "
                       "or move both away to start with an empty store",
                       path, log);
}

static bool has_bytes(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0 && st.st_size > 0;
}

enum tenure_status tn_sqlite_there(const char *path, struct tenure_error *err)
{
    struct stat st;

    if (stat(path, &st) == 0 ? st.st_size > 0 : errno != ENOENT)
        return TENURE_OK; /* what is wrong with it, if anything is, is told by who opens it */
    return tenure_fail(err, TENURE_UNAVAILABLE,
                       "sqlite: %s is not there, or empty, and create=no; is its disk mounted?",
                       path);
}

enum tenure_status tn_sqlite_place(const char *path, bool create, struct tenure_error *err)
{
    char real[PATH_MAX], wal[PATH_MAX + 8], journal[PATH_MAX + 12];
    struct stat st;

    /* Beside the file itself, if path is a symbolic link.  Logs first: one that somebody makes has
     * its database before it has a log or a journal, so a log that was there before the database
     * is missed has none. */
    const char *itself = realpath(path, real) ? real : path;
    snprintf(wal, sizeof wal, "%s-wal", itself);
    snprintf(journal, sizeof journal, "%s-journal", itself);
    bool logged = has_bytes(wal), journaled = has_bytes(journal);
    if (stat(path, &st) != 0) {
        if (errno != ENOENT)
            return tn_sqlite_fail_errno(path, errno, err);
        if (!create)
            return tenure_fail(err, TENURE_UNAVAILABLE,
                               "sqlite: %s was removed while in use; put it back, or restart to "
                               "begin with an empty one",
                               path);
        if (logged || journaled)
            return refuse_orphan(path, logged ? wal : journal, err);
        return make_file(path, err);
    }
    if (S_ISDIR(st.st_mode))
        return tenure_fail(err, TENURE_CONFIG,
                           "sqlite: %s is a directory; name a file in it, or use file:", path);
    if (!S_ISREG(st.st_mode))
        return tenure_fail(err, TENURE_CONFIG, "sqlite: %s is not a regular file", path);
    if (st.st_size == 0 && logged)
        return refuse_orphan(path, wal, err);
    if (st.st_nlink > 1 || tn_fs_mounted(path))
        return tenure_fail(
            err, TENURE_CONFIG,
            "sqlite: %s has a second name, or is mounted by itself: those who use it "
            "from the other place have another log; mount its directory instead",
            path);
    return refuse_network(path, path, err);
}
