#include "os/known.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

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

const char *tn_known_identity(const char *path)
{
    pthread_mutex_lock(&lock);
    const struct known *k = find(path);
    pthread_mutex_unlock(&lock);
    return k ? k->identity : NULL;
}

static struct known *make(const char *path, const char *identity)
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
    return k;
}

bool tn_known_add(const char *path, const char *identity)
{
    struct known *k = NULL;

    pthread_mutex_lock(&lock);
    bool there = find(path) != NULL;
    if (!there)
        k = make(path, identity);
    if (k) {
        k->next = all;
        all = k;
    }
    pthread_mutex_unlock(&lock);
    return there || k;
}
