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
#include "base/url.h"
#include "os/fs.h"
#include "os/known.h"
#include "store/file/file.h"

#define S         INT64_C(1000000000)
#define RETAIN_NS (150 * S) /* ten times the usual ttl */
#define POLL_NS   S
#define POLL_MIN  (S / 100)
#define POLL_MAX  (60 * S)
#define KNOWN     "retain, poll, mode, fs, commits, create, repair"

struct settings {
    int64_t retain_ns; /* 0: not given */
    bool create;
    const char *known; /* the identity of the store that this process has used here; or NULL */
    int network;       /* -1: find out */
    int place;         /* commits of the state in place; -1: where that can be done */
};

/* ---- The URL ------------------------------------------------------------- */

static enum tenure_status param_duration(struct tn_url *url, const char *name, int64_t low,
                                         int64_t high, int64_t *ns, struct tenure_error *err)
{
    char from[TN_DURATION_TEXT], to[TN_DURATION_TEXT];
    const char *text = tn_url_param(url, name);
    int64_t value;

    if (!text)
        return TENURE_OK;
    tn_duration_format(low, from);
    tn_duration_format(high, to);
    if (!tn_duration_parse(text, &value) || value < low || value > high)
        return tenure_fail(err, TENURE_CONFIG,
                           "file: %s=%.40s is not a time from %s to %s; write for example "
                           "%s=%s",
                           name, text, from, to, name, from);
    *ns = value;
    return TENURE_OK;
}

/* One of two words; *value stays if the parameter is not there. */
static enum tenure_status param_word(struct tn_url *url, const char *name, const char *yes,
                                     const char *no, int *value, struct tenure_error *err)
{
    const char *text = tn_url_param(url, name);

    if (!text)
        return TENURE_OK;
    if (strcmp(text, yes) != 0 && strcmp(text, no) != 0)
        return tenure_fail(err, TENURE_CONFIG, "file: %s=%.40s is neither %s nor %s", name, text,
                           yes, no);
    *value = strcmp(text, yes) == 0;
    return TENURE_OK;
}

static enum tenure_status param_mode(struct tn_url *url, struct tn_file *f,
                                     struct tenure_error *err)
{
    const char *text = tn_url_param(url, "mode");
    char *end;

    if (!text)
        return TENURE_OK;
    unsigned long mode = strtoul(text, &end, 8);
    if (text[0] < '0' || text[0] > '7' || *end || mode > 03777 || (mode & 0700) != 0700)
        return tenure_fail(err, TENURE_CONFIG,
                           "file: mode=%.40s is not the mode of a directory that its owner can "
                           "use; write for example mode=0770",
                           text);
    f->dir_mode = (mode_t)mode;
    f->file_mode = 0600 | (mode & 0066);
    f->exact_mode = true;
    return TENURE_OK;
}

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
    int create = 1, repair = 0;
    enum tenure_status status = tn_url_parse(text, &url, err);

    if (!status)
        status = param_duration(&url, "retain", TN_FILE_RETAIN_MIN, TN_FILE_RETAIN_MAX,
                                &set->retain_ns, err);
    if (!status)
        status = param_duration(&url, "poll", POLL_MIN, POLL_MAX, &f->poll_ns, err);
    if (!status)
        status = param_mode(&url, f, err);
    if (!status)
        status = param_word(&url, "fs", "network", "local", &set->network, err);
    if (!status)
        status = param_word(&url, "commits", "place", "slots", &set->place, err);
    if (!status)
        status = param_word(&url, "create", "yes", "no", &create, err);
    if (!status)
        status = param_word(&url, "repair", "yes", "no", &repair, err);
    if (!status)
        status = tn_url_check_params(&url, KNOWN, err);
    if (!status)
        status = set_root(&url, f, err);
    set->create = create;
    f->repair = repair;
    tn_url_free(&url);
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
                               "make that first",
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

    f->poll_ns = POLL_NS;
    f->dir_mode = 0700;
    f->file_mode = 0600;
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
