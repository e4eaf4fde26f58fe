#include "supervise/program/environment.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

void tn_environment_bare(char *out[TN_ENVIRONMENT_BARE])
{
    size_t n = 0;

    for (char **at = environ; at && *at && n + 1 < TN_ENVIRONMENT_BARE; at++) {
        if (strncmp(*at, "LD_", 3) == 0)
            out[n++] = *at;
    }
    out[n] = NULL;
}

void tn_environment_write(FILE *to)
{
    for (char **at = environ; at && *at; at++)
        fwrite(*at, 1, strlen(*at) + 1, to);
}

bool tn_environment_read(int fd, off_t from)
{
    struct stat st;

    if (fstat(fd, &st) != 0 || st.st_size < from)
        return false;
    size_t len = (size_t)(st.st_size - from);
    char *text = malloc(len + 1); /* for good: it becomes the environment */
    if (!text || pread(fd, text, len, from) != (ssize_t)len) {
        free(text);
        return false;
    }
    text[len] = '\0';
    for (char *at = text; at < text + len; at += strlen(at) + 1) {
        if (strchr(at, '='))
            putenv(at);
    }
    return true;
}
