#include "os/inherited.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

void tn_inherited_name(const char *variable, int fd)
{
    char text[64];
    struct stat st;

    if (fstat(fd, &st) != 0)
        return;
    snprintf(text, sizeof text, "%d:%" PRIuMAX ":%" PRIuMAX, fd, (uintmax_t)st.st_dev,
             (uintmax_t)st.st_ino);
    setenv(variable, text, 1);
}

int tn_inherited_find(const char *variable)
{
    const char *text = getenv(variable);
    uintmax_t dev, ino;
    struct stat st;
    int fd;

    if (!text || sscanf(text, "%d:%" SCNuMAX ":%" SCNuMAX, &fd, &dev, &ino) != 3)
        return -1;
    return fstat(fd, &st) == 0 && st.st_dev == dev && st.st_ino == ino ? fd : -1;
}
