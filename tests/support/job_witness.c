/*
 * The program of a job, for the tests of `tenure work`:  job_witness FOLDER
 *
 * While it lives it holds a lock on FOLDER/JOB, so that no two can live at once without being seen.
 * In that file stand its epoch and how far it has counted: the number that the store has
 * acknowledged as its checkpoint.  What is wrong goes into FOLDER/violations:
 *
 *   twice     another program of this job lives
 *   epoch     a run before this one had this epoch, or a higher one
 *   lost      the checkpoint is older than what was acknowledged, or of nobody
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

static const char *folder, *job, *epoch, *path;

static void violated(const char *what, unsigned long long seen, unsigned long long known)
{
    char file[300], line[300];

    snprintf(file, sizeof file, "%s/violations", folder);
    int n = snprintf(line, sizeof line, "%s %s epoch %s: %llu against %llu\n", what, job, epoch,
                     seen, known);
    int fd = open(file, O_WRONLY | O_CREAT | O_APPEND, 0666);
    if (fd < 0 || write(fd, line, (size_t)n) != n)
        abort();
    close(fd);
}

/* One request; the status, and the answer's body in out.  0: no answer. */
static int ask(const char *method, const char *body, char out[256])
{
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    char text[2048];
    size_t got = 0;
    ssize_t n;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    snprintf(to.sun_path, sizeof to.sun_path, "%s", path);
    int len = snprintf(text, sizeof text,
                       "%s /v1/jobs/%s/checkpoint HTTP/1.1\r\nHost: tenure\r\nTenure-Epoch: %s\r\n"
                       "Content-Length: %zu\r\nConnection: close\r\n\r\n%s",
                       method, job, epoch, strlen(body), body);
    if (fd < 0 || connect(fd, (struct sockaddr *)&to, sizeof to) != 0 ||
        write(fd, text, (size_t)len) != len) {
        close(fd);
        return 0;
    }
    while (got < sizeof text - 1 && (n = read(fd, text + got, sizeof text - 1 - got)) > 0)
        got += (size_t)n;
    close(fd);
    text[got] = '\0';
    char *end = strstr(text, "\r\n\r\n");
    if (strncmp(text, "HTTP/1.1 ", 9) != 0 || !end)
        return 0;
    snprintf(out, 256, "%s", end + 4);
    return atoi(text + 9);
}

/* What the store has; false: it does not say. */
static int read_counter(unsigned long long *counter)
{
    char body[256];
    int status = ask("GET", "", body);

    *counter = status == 200 ? strtoull(body, NULL, 10) : 0;
    return status;
}

static void note(int fd, unsigned long long counter)
{
    char line[64];
    int n = snprintf(line, sizeof line, "%20s %20llu\n", epoch, counter);

    if (pwrite(fd, line, (size_t)n, 0) != n)
        abort();
}

int main(int argc, char **argv)
{
    const struct timespec pause = {.tv_nsec = 200000000};
    unsigned long long before = 0, acked = 0, counter = 0;
    char file[300], text[64] = "";
    int status;

    job = getenv("TENURE_JOB");
    epoch = getenv("TENURE_EPOCH");
    path = getenv("TENURE_SOCKET");
    if (argc != 2 || !job || !epoch || !path || !getenv("TENURE_GROUP"))
        return 2;
    folder = argv[1];
    snprintf(file, sizeof file, "%s/%s", folder, job);
    int fd = open(file, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (fd < 0)
        return 2;
    if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
        violated("twice", 0, 0);
        return 1;
    }
    if (pread(fd, text, sizeof text - 1, 0) > 0)
        sscanf(text, "%llu %llu", &before, &acked);
    if (strtoull(epoch, NULL, 10) <= before)
        violated("epoch", strtoull(epoch, NULL, 10), before);
    while ((status = read_counter(&counter)) != 200 && status != 404)
        nanosleep(&pause, NULL);
    /* The one after that may have been stored without an answer that arrived. */
    if (counter != acked && counter != acked + 1)
        violated("lost", counter, acked);
    note(fd, counter);
    for (;;) {
        char body[32], answer[256];

        snprintf(body, sizeof body, "%llu", counter + 1);
        status = ask("PUT", body, answer);
        if (status == 200)
            note(fd, ++counter);
        else if (status == 409)
            return 3;
        nanosleep(&pause, NULL);
    }
}
