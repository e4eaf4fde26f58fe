/*
 * A pipe stands between whoever tells and the disk: its buffer is the queue,
 * and a thread of its own writes.  So a disk that hangs costs lines, and not a
 * renewal (I12).
 */
#include "supervise/trace_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "os/thread.h"

struct tn_trace_file {
    const char *name;
    struct tn_timing timing;
    int file;
    int ends[2]; /* of the pipe */
    pthread_t thread;
    _Atomic unsigned lost;
};

static const char *const words[] = {
    [TENURE_TRACE_LEADER] = "leader",     [TENURE_TRACE_GRANTED] = "granted",
    [TENURE_TRACE_STARTED] = "started",   [TENURE_TRACE_RENEWED] = "renewed",
    [TENURE_TRACE_STOPPING] = "stopping", [TENURE_TRACE_STOPPED] = "stopped",
    [TENURE_TRACE_RELEASED] = "released", [TENURE_TRACE_TROUBLE] = "trouble",
    [TENURE_TRACE_REFUSED] = "refused",   [TENURE_TRACE_HALTED] = "halted",
};

/* ---- The writer ---------------------------------------------------------- */

static bool put(int fd, const char *data, size_t len)
{
    while (len > 0) {
        ssize_t n = write(fd, data, len);

        if (n < 0 && errno != EINTR)
            return false;
        data += n > 0 ? n : 0;
        len -= n > 0 ? (size_t)n : 0;
    }
    return true;
}

/* Takes the line.  A line is one write below PIPE_BUF: it is queued whole or not at all. */
static void write_line(struct tn_trace_file *f, json_t *line)
{
    unsigned lost = atomic_exchange(&f->lost, 0);
    char text[PIPE_BUF];
    size_t len;

    if (line && lost)
        json_object_set_new(line, "lost", json_integer(lost));
    len = line ? json_dumpb(line, text, sizeof text - 1, JSON_COMPACT) : 0;
    json_decref(line);
    if (len > 0 && len < sizeof text) {
        text[len++] = '\n';
        if (write(f->ends[1], text, len) == (ssize_t)len)
            return;
    }
    atomic_fetch_add(&f->lost, lost + 1);
}

/* ---- The header ---------------------------------------------------------- */

/* How far our CLOCK_BOOTTIME is ahead of the machine's: not 0 in a time namespace. */
static int64_t boot_offset_ns(void)
{
    FILE *f = fopen("/proc/self/timens_offsets", "re");
    char line[128];
    int64_t s, ns, offset = 0;

    while (f && fgets(line, sizeof line, f)) {
        if (sscanf(line, "boottime %" SCNd64 " %" SCNd64, &s, &ns) == 2)
            offset = s * TN_S + ns;
    }
    if (f)
        fclose(f);
    return offset;
}

/* By the writer, which has the time: what is told waits behind it.  false: it is cut short. */
static bool write_header(const struct tn_trace_file *f)
{
    const struct tn_timing *t = &f->timing;
    json_t *line = json_pack("{s:i, s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "tenure_trace",
                             TN_TRACE_VERSION, "name", f->name, "pid", (json_int_t)getpid(),
                             "boot_offset_ns", (json_int_t)boot_offset_ns(), "ttl_ns",
                             (json_int_t)t->ttl_ns, "hold_ns", (json_int_t)t->hold_ns, "kill_ns",
                             (json_int_t)t->kill_ns, "grace_ns", (json_int_t)t->grace_ns, "poll_ns",
                             (json_int_t)t->poll_ns, "rho_ppm", (json_int_t)t->rho_ppm);
    char text[PIPE_BUF];
    size_t len = line ? json_dumpb(line, text, sizeof text - 1, JSON_COMPACT) : 0;

    json_decref(line);
    if (len == 0 || len >= sizeof text)
        return true; /* out of memory: none */
    text[len++] = '\n';
    return put(f->file, text, len);
}

/* Until the other end is closed.  Whatever cannot be written is gone: a line
 * that was cut short ends here, so that the next one is whole again. */
static void *writer(void *arg)
{
    struct tn_trace_file *f = arg;
    char data[PIPE_BUF];
    ssize_t n;

    tn_thread_name("tenure-trace");
    bool cut = !write_header(f);
    while ((n = read(f->ends[0], data, sizeof data)) != 0) {
        if (n < 0)
            continue;
        if (cut && !put(f->file, "\n", 1))
            continue;
        cut = !put(f->file, data, (size_t)n);
    }
    return NULL;
}

/* ---- Lines --------------------------------------------------------------- */

void tn_trace_file_event(struct tn_trace_file *f, const struct tenure_trace *t)
{
    json_t *line;

    if (!f || t->kind == TENURE_TRACE_RECOVERED) /* no rule judges it */
        return;
    line = json_pack("{s:I, s:s, s:s}", "at_ns", (json_int_t)t->at_ns, "id", t->id, "event",
                     words[t->kind]);
    if (line && t->epoch)
        json_object_set_new(line, "epoch", json_integer((json_int_t)t->epoch));
    if (line && t->deadline_ns)
        json_object_set_new(line, "deadline_ns", json_integer(t->deadline_ns));
    if (line && t->took_ns)
        json_object_set_new(line, "took_ns", json_integer(t->took_ns));
    if (line && t->kind == TENURE_TRACE_LEADER)
        json_object_set_new(line, "leader", json_string(t->leader));
    if (line && t->status)
        json_object_set_new(line, "status", json_string(tenure_status_word(t->status)));
    if (line && t->text[0])
        json_object_set_new(line, "text", json_string(t->text));
    write_line(f, line);
}

void tn_trace_file_program(struct tn_trace_file *f, const char *id, const char *event,
                           uint64_t epoch, int64_t at_ns)
{
    if (f)
        write_line(f, json_pack("{s:I, s:s, s:s, s:I}", "at_ns", (json_int_t)at_ns, "id", id,
                                "event", event, "epoch", (json_int_t)epoch));
}

/* ---- Life ---------------------------------------------------------------- */

/* Tenure may be root, and the folder somebody else's: neither a link nor a second name of some
 * other file is written to. */
static enum tenure_status open_file(const char *path, int *out, struct tenure_error *err)
{
    struct stat st;
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC | O_NOCTTY, 0644);

    *out = fd;
    if (fd < 0 && errno == ELOOP)
        return tenure_fail(err, TENURE_CONFIG,
                           "the trace %s is a symbolic link; give the file itself", path);
    if (fd < 0 || fstat(fd, &st) != 0)
        return tenure_fail(err, TENURE_CONFIG, "cannot write the trace %s: %s", path,
                           strerror(errno));
    if (S_ISREG(st.st_mode) && st.st_nlink > 1)
        return tenure_fail(err, TENURE_CONFIG,
                           "the trace %s has several names (hard links); give another file", path);
    return TENURE_OK;
}

enum tenure_status tn_trace_file_open(const char *path, const char *name,
                                      const struct tn_timing *timing, struct tn_trace_file **out,
                                      struct tenure_error *err)
{
    struct tn_trace_file *f = calloc(1, sizeof *f);

    if (!f)
        return tenure_fail(err, TENURE_NOMEM, "out of memory");
    f->name = name;
    f->timing = *timing;
    f->ends[0] = f->ends[1] = -1;
    enum tenure_status status = open_file(path, &f->file, err);
    if (!status && (pipe2(f->ends, O_CLOEXEC) != 0 || fcntl(f->ends[1], F_SETFL, O_NONBLOCK) != 0))
        status = tenure_fail(err, TENURE_UNAVAILABLE, "cannot make a pipe: %s", strerror(errno));
    if (!status)
        status = tn_thread_start(&f->thread, writer, f, err);
    if (!status) {
        *out = f;
        return TENURE_OK;
    }
    for (unsigned i = 0; i < 2; i++) {
        if (f->ends[i] >= 0)
            close(f->ends[i]);
    }
    if (f->file >= 0)
        close(f->file);
    free(f);
    return status;
}

void tn_trace_file_close(struct tn_trace_file *f)
{
    if (!f)
        return;
    close(f->ends[1]);
    pthread_join(f->thread, NULL);
    close(f->ends[0]);
    close(f->file);
    free(f);
}
