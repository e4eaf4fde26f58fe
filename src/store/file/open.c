/* Opening a file: store: what the URL says, the directory, and the marker in it. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/duration.h"
#include "base/options.h"
#include "os/fs.h"
#include "os/known.h"
#include "store/file/file.h"

#define S         INT64_C(1000000000)
#define RETAIN_NS (150 * S) /* ten times the usual ttl */

struct settings {
    int64_t retain_ns; /* 0: not given */
    int64_t poll_ns;
    unsigned mode; /* of the directory; 0: not given */
    bool create, repair;
    int network;       /* -1: find out */
    int place;         /* commits of the state in place; -1: where that can be done */
    const char *known; /* the identity of the store that this process has used here; or NULL */
};

/* ---- The URL ------------------------------------------------------------- */

static bool read_mode(const char *text, void *conf)
{
    struct settings *set = conf;
    char *end;
    unsigned long mode = strtoul(text, &end, 8);

    set->mode = (unsigned)mode;
    return text[0] >= '0' && text[0] <= '7' && !*end && mode <= 03777 && (mode & 0700) == 0700;
}

#define AT(member) offsetof(struct settings, member)
const struct tn_option tn_file_options[] = {
    TN_TIME_OPTION("retain", AT(retain_ns), TN_FILE_RETAIN_MIN, TN_FILE_RETAIN_MAX, NULL, NULL,
                   "how long replaced values are kept; all who use a store share it"),
    TN_TIME_OPTION("poll", AT(poll_ns), S / 100, 60 * S, "1s", NULL,
                   "how often to look for changes that other hosts made"),
    TN_OWN_OPTION("mode", read_mode, "the mode of a directory that its owner can use, such as 0770",
                  NULL, NULL, "of the directory, if it is made"),
    TN_WORD_OPTION("fs", AT(network), "local|network", NULL, NULL,
                   "what the file system is, where it cannot be told"),
    TN_WORD_OPTION("commits", AT(place), "slots|place", NULL, NULL,
                   "how the state is written; all who use a store share it"),
    TN_SWITCH_OPTION("create", AT(create), "no|yes", "yes", NULL,
                     "make the store if it is missing"),
    TN_REPAIR_OPTION(AT(repair)),
    {0},
};

static enum tenure_status set_root(const struct tn_url *url, struct tn_file *f,
                                   struct tenure_error *err)
{
    const char *path = url->path;
    char base[PATH_MAX] = "";
    int n;

    if (url->hosts[0] && strcmp(url->hosts, "localhost") != 0)
        return tenure_fail(err, TENURE_CONFIG,
                           "file: knows no hosts; write file:/dir for a directory of this one");
    if (!path[0])
        return tenure_fail(err, TENURE_CONFIG, "file: needs a directory, for example file:/dir");
    /* The working directory may change while the handle is in use. */
    if (path[0] != '/' && !getcwd(base, sizeof base))
        return tn_file_fail(err, errno, "cannot find out", "the working directory", "");
    n = snprintf(f->root, sizeof f->root, "%s%s%s", base, base[0] ? "/" : "", path);
    /* A key, a slot's name and the slashes must still fit behind it. */
    if (n < 0 || (size_t)n + TENURE_KEY_MAX + 32 > sizeof f->root)
        return tenure_fail(err, TENURE_CONFIG, "file: the path of the directory is too long");
    while (n > 1 && f->root[n - 1] == '/')
        f->root[--n] = '\0';
    if (n == 1 && f->root[0] == '/')
        return tenure_fail(err, TENURE_CONFIG, "file: / cannot be a store; name a directory");
    return TENURE_OK;
}

static enum tenure_status read_url(const char *text, struct tn_file *f, struct settings *set,
                                   struct tenure_error *err)
{
    struct tn_url url = {0};
    enum tenure_status status = tn_url_parse(text, &url, err);

    if (!status)
        status = tn_options_read(tn_file_options, &url, set, err);
    if (!status)
        status = set_root(&url, f, err);
    tn_url_free(&url);
    f->poll_ns = set->poll_ns;
    f->repair = set->repair;
    f->exact_mode = set->mode != 0;
    f->dir_mode = set->mode ? set->mode : 0700;
    f->file_mode = 0600 | (set->mode & 0066);
    return status;
}

/* ---- The directory and its marker ---------------------------------------- */

static enum tenure_status make_root(struct tn_file *f, const struct settings *set,
                                    struct tenure_error *err)
{
    struct stat st;

    if (stat(f->root, &st) == 0) {
        if (!S_ISDIR(st.st_mode))
            return tenure_fail(err, TENURE_CONFIG, "file: %.300s is not a directory; name one",
                               f->root);
        return TENURE_OK;
    }
    if (errno != ENOENT)
        return tn_file_fail(err, errno, "cannot open", f->root, "");
    if (set->known)
        return tn_file_gone(f, err);
    if (!set->create)
        return tenure_fail(err, TENURE_UNAVAILABLE,
                           "file: %.300s is not there, and create=no; is it mounted?", f->root);
    f->made = mkdir(f->root, f->dir_mode) == 0;
    if (!f->made && errno != EEXIST) {
        if (errno == ENOENT)
            return tenure_fail(err, TENURE_CONFIG,
                               "file: %.300s cannot be made: the directory above it is not there; "
                               "mount it, or make it first",
                               f->root);
        return tn_file_fail(err, errno, "cannot make", f->root, "");
    }
    if (f->made && f->exact_mode && chmod(f->root, f->dir_mode) != 0)
        return tn_file_fail(err, errno, "cannot set the mode of", f->root, "");
    return TENURE_OK;
}

/* A directory without a marker must be empty: keys would mix with what is there. */
static enum tenure_status check_empty(struct tn_file *f, struct tenure_error *err)
{
    DIR *d = opendir(f->root);
    const struct dirent *entry;
    enum tenure_status status = TENURE_OK;

    if (!d)
        return tn_file_fail(err, errno, "cannot list", f->root, "");
    while (!status && (entry = readdir(d))) {
        if (entry->d_name[0] != '.' && strcmp(entry->d_name, "lost+found") != 0)
            status =
                tenure_fail(err, TENURE_CONFIG,
                            "file: %.200s is not a store: it holds '%.60s' and no " TN_FILE_MARKER
                            "; name a new or an empty directory (of a store copy that, too)",
                            f->root, entry->d_name);
    }
    closedir(d);
    return status;
}

/* The marker that is there, or is made. */
static enum tenure_status find_marker(struct tn_file *f, int dir, const struct settings *set,
                                      struct tenure_error *err)
{
    bool place = set->place < 0 ? !f->network : set->place;
    struct tn_file_marker *marker = &f->marker;
    struct tenure_error ignored;
    enum tenure_status status = tn_file_marker_read(f, dir, marker, err);

    if (status || marker->retain_ns)
        return status;
    if (set->known)
        return tn_file_gone(f, err);
    if (!set->create)
        return tenure_fail(err, TENURE_UNAVAILABLE,
                           "file: %.300s holds no store, and create=no; is it mounted?", f->root);
    status = check_empty(f, err);
    if (!status)
        status = tn_file_marker_write(f, place, set->retain_ns ? set->retain_ns : RETAIN_NS, err);
    /* Others open it too: what is there by now may be theirs, the marker first. */
    enum tenure_status again = tn_file_marker_read(f, dir, marker, status ? &ignored : err);
    if (!status || (!again && marker->retain_ns))
        status = again;
    if (!status && !marker->retain_ns)
        status = tenure_fail(err, TENURE_UNAVAILABLE, "file: %.300s was removed just now", f->root);
    return status;
}

/*
 * All who use a store must agree on the retention: one who removes slots early
 * breaks what the others rely on.  So the first one writes it down.
 */
static enum tenure_status compare_settings(const struct tn_file *f, const struct settings *set,
                                           struct tenure_error *err)
{
    const struct tn_file_marker *marker = &f->marker;
    char is[TN_DURATION_TEXT];

    tn_duration_format(marker->retain_ns, is);
    if (set->retain_ns && set->retain_ns != marker->retain_ns)
        return tenure_fail(err, TENURE_CONFIG,
                           "file: %.200s was made with retain=%s, which all who use it share; say "
                           "that or nothing",
                           f->root, is);
    if (set->place >= 0 && set->place != marker->place)
        return tenure_fail(err, TENURE_CONFIG,
                           "file: %.200s was made with commits=%s, which all who use it share; say "
                           "that or nothing",
                           f->root, marker->place ? "place" : "slots");
    return TENURE_OK;
}

/* Two threads may come here at once, each for the first time: the identity tells. */
static enum tenure_status compare_identity(const struct tn_file *f, struct tenure_error *err)
{
    if (!tn_known_add(f->root, f->marker.identity))
        return tenure_fail(err, TENURE_NOMEM, "out of memory");
    return strcmp(tn_known_identity(f->root), f->marker.identity) == 0 ? TENURE_OK
                                                                       : tn_file_other(f, err);
}

static enum tenure_status settle_marker(struct tn_file *f, const struct settings *set,
                                        struct tenure_error *err)
{
    int dir = open(f->root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    enum tenure_status status;

    if (dir < 0)
        return tn_file_fail(err, errno, "cannot open", f->root, "");
    status = find_marker(f, dir, set, err);
    close(dir);
    if (!status && set->known && strcmp(set->known, f->marker.identity) != 0)
        status = tn_file_other(f, err);
    if (!status)
        status = compare_settings(f, set, err);
    return status;
}

enum tenure_status tn_file_setup(struct tn_file *f, const char *url, struct tenure_error *err)
{
    struct settings set = {.network = -1, .place = -1};
    enum tenure_status status;

    status = read_url(url, f, &set, err);
    set.known = status ? NULL : tn_known_identity(f->root);
    if (!status)
        status = make_root(f, &set, err);
    if (status)
        return status;
    int network = set.network >= 0 ? set.network : tn_fs_network(f->root, NULL);
    if (network < 0)
        return tn_file_fail(err, errno, "cannot look at", f->root, "");
    f->network = network;
    if (!network || set.place <= 0)
        status = settle_marker(f, &set, err);
    /* Who asks over a network may be shown old bytes of a file that another host writes. */
    if (!status && f->network && (f->marker.place || set.place > 0))
        status =
            tenure_fail(err, TENURE_CONFIG,
                        "file: %.200s commits the state in place, which is for one host alone; "
                        "make a store with ?commits=slots for this",
                        f->root);
    return status ? status : compare_identity(f, err);
}
