#include "os/known.h"

#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "os/inherited.h"

/* The descriptor, where every module of the process finds it. */
#define SHARED "TENURE_KNOWN_STORES"

/* Never freed: a handle that is closed and opened again is what this is for. */
struct known {
    struct known *next;
    char *identity;
    char path[];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct known *all;

static const struct known *find(const char *path)
{
    const struct known *k = all;

    while (k && strcmp(k->path, path) != 0)
        k = k->next;
    return k;
}

static struct known *insert(const char *path, const char *identity)
{
    struct known *k = malloc(sizeof *k + strlen(path) + 1);

    if (!k)
        return NULL;
    k->identity = strdup(identity);
    if (!k->identity) {
        free(k);
        return NULL;
    }
    strcpy(k->path, path);
    k->next = all;
    all = k;
    return k;
}

/* A path and its identity, each with its NUL, as remember() has appended them. */
static const struct known *find_shared(const char *path)
{
    char line[PATH_MAX + 128];
    off_t at = 0;
    ssize_t n;
    int fd = tn_inherited_find(SHARED);

    while (fd >= 0 && (n = pread(fd, line, sizeof line - 1, at)) > 0) {
        line[n] = '\0';
        size_t name = strlen(line) + 1;
        if (name >= (size_t)n)
            break;
        if (strcmp(line, path) == 0)
            return insert(path, line + name);
        at += (off_t)(name + strlen(line + name) + 1);
    }
    return NULL;
}

static void remember(const char *path, const char *identity)
{
    char line[PATH_MAX + 128];
    int fd = tn_inherited_find(SHARED);
    int n = snprintf(line, sizeof line, "%s%c%s", path, '\0', identity);

    if (fd >= 0 && n > 0 && (size_t)n < sizeof line && write(fd, line, (size_t)n + 1) < 0)
        return; /* this process knows it all the same */
}

const char *tn_known_identity(const char *path)
{
    pthread_mutex_lock(&lock);
    const struct known *k = find(path);
    if (!k)
        k = find_shared(path);
    pthread_mutex_unlock(&lock);
    return k ? k->identity : NULL;
}

bool tn_known_add(const char *path, const char *identity)
{
    pthread_mutex_lock(&lock);
    bool there = find(path) != NULL;
    bool added = !there && insert(path, identity);
    if (added)
        remember(path, identity);
    pthread_mutex_unlock(&lock);
    return there || added;
}

void tn_known_share(int fd)
{
    fcntl(fd, F_SETFD, FD_CLOEXEC);
    tn_inherited_name(SHARED, fd);
}
