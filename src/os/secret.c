#include "secret.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool is_private(int fd)
{
    struct stat st;

    return fstat(fd, &st) == 0 && !(st.st_mode & (S_IRWXO | S_IWGRP));
}

static char *load_file(const struct tn_secret *secret, struct tenure_error *err)
{
    const char *path = secret->file;
    char *text = calloc(1, TN_SECRET_MAX + 2);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 || !text ? -1 : read(fd, text, TN_SECRET_MAX + 1);
    int saved = errno;
    bool exposed = n >= 0 && secret->own && !is_private(fd);

    if (fd >= 0)
        close(fd);
    if (n < 0) {
        tenure_fail(err, text ? TENURE_DENIED : TENURE_NOMEM, "secret file %s: %s", path,
                    text ? strerror(saved) : "out of memory");
    } else if (exposed) {
        tenure_fail(err, TENURE_CONFIG,
                    "secret file %s can be read or changed by others than its owner and its "
                    "group: chmod 640 it, or 600",
                    path);
    } else if (n > TN_SECRET_MAX) {
        tenure_fail(err, TENURE_CONFIG, "secret file %s is longer than %d bytes", path,
                    TN_SECRET_MAX);
    } else {
        text[strcspn(text, "\r\n")] = '\0';
        if (*text)
            return text;
        tenure_fail(err, TENURE_CONFIG, "secret file %s is empty", path);
    }
    tn_secret_free(text);
    return NULL;
}

char *tn_secret_load(const struct tn_secret *secret, struct tenure_error *err)
{
    const char *text = secret->text ? secret->text : "";

    if (secret->file)
        return load_file(secret, err);
    /* The one place where the environment is read, because the URL says so. */
    if (secret->env && !(text = getenv(secret->env))) {
        tenure_fail(err, TENURE_CONFIG,
                    "the variable %s, which should hold the password, "
                    "is not set",
                    secret->env);
        return NULL;
    }
    char *copy = strdup(text);
    if (!copy)
        tenure_fail(err, TENURE_NOMEM, "out of memory");
    return copy;
}

void tn_secret_free(char *text)
{
    if (text)
        explicit_bzero(text, strlen(text));
    free(text);
}
