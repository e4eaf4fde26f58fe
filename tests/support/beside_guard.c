#include "beside_guard.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static void copy_self(const char *to)
{
    int from_fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    int to_fd = open(to, O_WRONLY | O_CREAT | O_CLOEXEC, 0700);
    char buffer[65536];
    ssize_t n;

    while ((n = read(from_fd, buffer, sizeof buffer)) > 0) {
        if (write(to_fd, buffer, (size_t)n) != n)
            abort();
    }
    close(from_fd);
    close(to_fd);
}

int run_beside_the_guard(char **argv)
{
    char folder[] = "/tmp/tenure-link-XXXXXX", self[64], guard[64];
    char *const args[] = {argv[0], self, NULL};
    int status = 1;

    if (!mkdtemp(folder))
        return 1;
    snprintf(self, sizeof self, "%s/test", folder);
    snprintf(guard, sizeof guard, "%s/tenure-guard", folder);
    copy_self(self);
    if (symlink(TN_BUILD_DIR "/tenure-guard", guard) != 0)
        return 1;
    pid_t pid = fork();
    if (pid == 0) {
        execv(self, args);
        _exit(1);
    }
    waitpid(pid, &status, 0);
    unlink(self);
    unlink(guard);
    rmdir(folder);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
