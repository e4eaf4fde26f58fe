#include "module.h"

#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tn_version.h"

#define DIRS_MAX 8

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char *dirs[DIRS_MAX];
static unsigned n_dirs;

enum tenure_status tn_module_dir(const char *dir, struct tenure_error *err)
{
    enum tenure_status status = TENURE_OK;
    char *copy = strdup(dir);

    if (!copy)
        return tenure_fail(err, TENURE_NOMEM, "out of memory");
    pthread_mutex_lock(&lock);
    if (n_dirs < DIRS_MAX) {
        dirs[n_dirs++] = copy;
    } else {
        free(copy);
        status = tenure_fail(err, TENURE_INVALID, "more than %d module directories", DIRS_MAX);
    }
    pthread_mutex_unlock(&lock);
    return status;
}

/* Where this library, or the program that carries it, was loaded from; "" if nobody knows. */
static void own_dir(char out[PATH_MAX])
{
    char path[PATH_MAX];
    Dl_info self;
    ssize_t n;

    out[0] = '\0';
    if (!dladdr((void *)&dirs, &self) || !self.dli_fname)
        return;
    /* Of a program dladdr knows only argv[0]. */
    snprintf(path, sizeof path, "%s", self.dli_fname);
    if (path[0] != '/') {
        n = readlink("/proc/self/exe", path, sizeof path - 1);
        path[n > 0 ? n : 0] = '\0';
    }
    char *slash = strrchr(path, '/');
    if (slash)
        *slash = '\0';
    snprintf(out, PATH_MAX, "%s", slash ? path : "");
}

static bool there(const char *dir, const char *below, const char *file, char out[PATH_MAX])
{
    return *dir && snprintf(out, PATH_MAX, "%s%s/%s", dir, below, file) < PATH_MAX &&
           access(out, F_OK) == 0;
}

static bool find(const char *file, char out[PATH_MAX])
{
    char own[PATH_MAX];
    bool found = false;

    pthread_mutex_lock(&lock);
    for (unsigned i = 0; i < n_dirs && !found; i++)
        found = there(dirs[i], "", file, out);
    pthread_mutex_unlock(&lock);
    own_dir(own);
    return found || there(own, "", file, out) || there(own, "/tenure", file, out) ||
           there(TN_MODULE_DIR, "", file, out);
}

enum tenure_status tn_module_load(const char *file, const char *symbol, void **out, bool *missing,
                                  struct tenure_error *err)
{
    char path[PATH_MAX];
    void *handle, *found;

    if (missing)
        *missing = false;
    if (!find(file, path)) {
        if (missing)
            *missing = true;
        return tenure_fail(err, TENURE_UNSUPPORTED, "%s was not found", file);
    }
    handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!handle)
        return tenure_fail(err, TENURE_UNSUPPORTED, "cannot load a module: %s", dlerror());
    found = dlsym(handle, symbol);
    if (!found) {
        dlclose(handle);
        return tenure_fail(err, TENURE_UNSUPPORTED, "%s is not a module of tenure", path);
    }
    *out = found;
    return TENURE_OK;
}

bool tn_module_is_installed(const char *file)
{
    char path[PATH_MAX];

    return find(file, path);
}
