#include "work/fleet.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/timing.h"
#include "guard/protocol.h"
#include "os/log.h"
#include "os/pass.h"

/* A program that lives this long has not crashed in a loop. */
#define STEADY_NS    (60 * TN_S)
#define PAUSE_MAX_NS (30 * TN_S)
/* The launcher's socket is full: so long until the next try. */
#define RETRY_NS     (20 * TN_MS)
/* From so many failures in a row on it is worth a warning of its own. */
#define LOOPING      5

void tn_fleet_init(struct tn_fleet *f, const struct tn_fleet_options *options)
{
    *f = (struct tn_fleet){.options = *options, .socket = -1};
}

void tn_fleet_free(struct tn_fleet *f)
{
    tn_fleet_table_free(&f->table);
}

static struct tn_fleet_program *find_number(const struct tn_fleet *f, uint32_t number)
{
    for (uint32_t i = 0; i < f->table.count; i++) {
        if (f->table.programs[i]->used && f->table.programs[i]->number == number)
            return f->table.programs[i];
    }
    return NULL;
}

uint32_t tn_fleet_alive(const struct tn_fleet *f)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < f->table.count; i++)
        n += f->table.programs[i]->used && f->table.programs[i]->state != TN_FLEET_RESTING;
    return n;
}

int64_t tn_fleet_pause(unsigned failures)
{
    int64_t pause = 100 * TN_MS;

    if (failures == 0)
        return 0;
    while (failures-- > 1 && pause < PAUSE_MAX_NS)
        pause *= 2;
    return pause < PAUSE_MAX_NS ? pause : PAUSE_MAX_NS;
}

/* ---- Its specification --------------------------------------------------- */

static void spec_path(const struct tn_fleet *f, const struct tn_fleet_program *p, char *out,
                      size_t size)
{
    snprintf(out, size, "%s/spec-%" PRIu32, f->options.dir, p->job);
}

/* Its user may have put anything there meanwhile: nothing is followed, nothing is overwritten. */
static bool write_spec(const struct tn_fleet *f, const struct tn_fleet_program *p)
{
    char path[160];
    size_t done = 0;

    spec_path(f, p, path, sizeof path);
    unlink(path);
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return false;
    while (done < p->spec_len) {
        ssize_t n = write(fd, (const char *)p->spec + done, p->spec_len - done);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            break;
        done += (size_t)n;
    }
    bool ok = done == p->spec_len &&
              (f->options.user == 0 || fchown(fd, f->options.user, (gid_t)-1) == 0);
    return close(fd) == 0 && ok;
}

static void remove_spec(const struct tn_fleet *f, const struct tn_fleet_program *p)
{
    char path[160];

    if (!p->spec)
        return;
    spec_path(f, p, path, sizeof path);
    unlink(path);
}

/* ---- Start and stop ------------------------------------------------------ */

bool tn_fleet_start(struct tn_fleet *f, uint32_t job, const char *id, uint64_t epoch, void *spec,
                    size_t spec_len, int64_t now_ns)
{
    struct tn_fleet_program *p = tn_fleet_table_find(&f->table, job);
    unsigned failures = 0;
    int64_t start_ns = now_ns;

    if (p) {
        assert(p->state == TN_FLEET_RESTING); /* a job has one program at a time (J1) */
        if (now_ns - p->started_ns < STEADY_NS)
            failures = p->failures;
        start_ns = p->start_ns;
        tn_fleet_table_remove(&f->table, p);
    }
    p = tn_fleet_table_add(&f->table, job);
    if (!p) {
        free(spec);
        return false;
    }
    p->number = f->next_number++;
    p->state = TN_FLEET_WAITING;
    p->by_ns = TN_NEVER;
    p->epoch = epoch;
    p->start_ns = start_ns > now_ns ? start_ns : now_ns;
    p->failures = failures;
    p->spec = spec;
    p->spec_len = spec_len;
    snprintf(p->id, sizeof p->id, "%s", id);
    return true;
}

/* Nothing of it is left. */
static void died(struct tn_fleet *f, struct tn_fleet_program *p, int64_t now_ns)
{
    uint32_t job = p->job;
    uint64_t epoch = p->epoch;

    remove_spec(f, p);
    free(p->spec);
    p->spec = NULL;
    p->stop_due = false;
    if (p->by_itself && p->failures > 0) {
        p->state = TN_FLEET_RESTING;
        p->started_ns = now_ns;
    } else {
        tn_fleet_table_remove(&f->table, p);
    }
    f->options.stopped(f->options.arg, job, epoch);
}

static void order_stop(struct tn_fleet *f, struct tn_fleet_program *p, int64_t by_ns,
                       const char *why, int64_t now_ns)
{
    if (p->state == TN_FLEET_WAITING) {
        died(f, p, now_ns);
        return;
    }
    if (p->state == TN_FLEET_RESTING || p->by_ns <= by_ns)
        return;
    p->state = TN_FLEET_STOPPING;
    p->by_ns = by_ns;
    p->why = why;
    p->stop_due = true;
}

void tn_fleet_stop(struct tn_fleet *f, uint32_t job, int64_t by_ns, const char *why, int64_t now_ns)
{
    struct tn_fleet_program *p = tn_fleet_table_find(&f->table, job);

    if (p)
        order_stop(f, p, by_ns, why, now_ns);
}

void tn_fleet_stop_all(struct tn_fleet *f, int64_t by_ns, const char *why, int64_t now_ns)
{
    for (uint32_t i = 0; i < f->table.count; i++) {
        if (f->table.programs[i]->used)
            order_stop(f, f->table.programs[i], by_ns, why, now_ns);
    }
}

void tn_fleet_signal(struct tn_fleet *f, int signal)
{
    for (uint32_t i = 0; i < f->table.count && f->attached; i++) {
        struct tn_launcher_command c = {
            .kind = TN_GUARD_SIGNAL, .number = f->table.programs[i]->number, .signal = signal};

        if (f->table.programs[i]->used && f->table.programs[i]->state == TN_FLEET_RUNNING)
            send(f->socket, &c, sizeof c, MSG_NOSIGNAL | MSG_DONTWAIT);
    }
}

/* ---- Words --------------------------------------------------------------- */

/* "job NAME", or the one that has them all. */
static const char *subject(const struct tn_fleet_program *p, char out[140])
{
    if (!p->id[0])
        return "the program";
    snprintf(out, 140, "job %s", p->id);
    return out;
}

static const char *epoch_text(const struct tn_fleet_program *p, char out[40])
{
    if (!p->epoch)
        return "";
    snprintf(out, 40, " (epoch %" PRIu64 ")", p->epoch);
    return out;
}

static void describe_end(const struct tn_fleet *f, const struct tn_fleet_program *p, char *out,
                         size_t size)
{
    if (f->options.host)
        snprintf(out, size, "the program has ended it");
    else if (p->error)
        snprintf(out, size, "could not be started: %s", strerror(p->error));
    else if (WIFEXITED(p->status))
        snprintf(out, size, "exited with code %d", WEXITSTATUS(p->status));
    else
        snprintf(out, size, "was ended by signal %d", WTERMSIG(p->status));
}

/* The program has ended, and nobody had asked for that. */
static void ended_by_itself(struct tn_fleet *f, struct tn_fleet_program *p, int64_t now_ns)
{
    char how[96], pause[TN_DURATION_TEXT], name[140], epoch[40];

    p->failures = now_ns - p->started_ns < STEADY_NS ? p->failures + 1 : 1;
    p->start_ns = now_ns + tn_fleet_pause(p->failures);
    p->by_itself = true;
    describe_end(f, p, how, sizeof how);
    tn_duration_format(tn_fleet_pause(p->failures), pause);
    if (p->failures >= LOOPING)
        tn_log("restarting", "%s: %s, %u times in a row; next try in %s", subject(p, name), how,
               p->failures, pause);
    else
        tn_log("ended", "%s: %s%s; restart in %s", subject(p, name), how, epoch_text(p, epoch),
               pause);
}

static void log_stopped(const struct tn_fleet_program *p)
{
    char name[140], epoch[40];

    tn_log("stopped", "%s: stopped%s", subject(p, name), epoch_text(p, epoch));
}

void tn_fleet_confirm(struct tn_fleet *f, uint32_t job, uint64_t epoch, int64_t now_ns)
{
    struct tn_fleet_program *p = tn_fleet_table_find(&f->table, job);

    if (!p || p->epoch != epoch || p->state == TN_FLEET_WAITING || p->state == TN_FLEET_RESTING)
        return;
    if (p->state == TN_FLEET_STOPPING)
        log_stopped(p);
    else
        ended_by_itself(f, p, now_ns);
    died(f, p, now_ns);
}

/* ---- The launcher -------------------------------------------------------- */

void tn_fleet_attach(struct tn_fleet *f, int socket)
{
    f->socket = socket;
    f->attached = true;
}

void tn_fleet_hang_up(struct tn_fleet *f)
{
    f->socket = -1;
    f->attached = false;
}

void tn_fleet_detach(struct tn_fleet *f, int64_t now_ns)
{
    tn_fleet_hang_up(f);
    for (uint32_t i = 0; i < f->table.count; i++) {
        struct tn_fleet_program *p = f->table.programs[i];

        if (p->used && p->state != TN_FLEET_RESTING && p->state != TN_FLEET_WAITING)
            died(f, p, now_ns);
    }
}

static void take_report(struct tn_fleet *f, const struct tn_launcher_report *r, int64_t now_ns)
{
    struct tn_fleet_program *p = find_number(f, r->number);
    char name[140], epoch[40];

    if (!p || p->state == TN_FLEET_WAITING || p->state == TN_FLEET_RESTING)
        return;
    switch (r->kind) {
    case TN_GUARD_SPAWNED:
        p->pid = r->pid;
        if (p->state == TN_FLEET_STARTING)
            p->state = TN_FLEET_RUNNING;
        tn_log("started", "%s: started%s", subject(p, name), epoch_text(p, epoch));
        if (f->options.started)
            f->options.started(f->options.arg, p->job);
        break;
    case TN_GUARD_FAILED:
        p->error = r->error ? r->error : EINVAL;
        p->stage = r->stage;
        break;
    case TN_GUARD_EXITED:
        p->status = r->status;
        if (p->state != TN_FLEET_STOPPING)
            ended_by_itself(f, p, now_ns);
        p->state = TN_FLEET_STOPPING;
        break;
    case TN_GUARD_DEAD:
        if (p->error && p->state == TN_FLEET_STARTING)
            ended_by_itself(f, p, now_ns);
        else if (p->state == TN_FLEET_STOPPING && !p->by_itself)
            log_stopped(p);
        died(f, p, now_ns);
        break;
    default:
        break;
    }
}

bool tn_fleet_read(struct tn_fleet *f, int64_t now_ns)
{
    struct tn_launcher_report r;
    ssize_t n;

    while ((n = recv(f->socket, &r, sizeof r, MSG_DONTWAIT)) != 0) {
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return errno == EAGAIN;
        if (n == (ssize_t)sizeof r)
            take_report(f, &r, now_ns);
    }
    return false;
}

/* ---- What is due --------------------------------------------------------- */

static bool send_stop(const struct tn_fleet *f, const struct tn_fleet_program *p)
{
    struct tn_launcher_command c = {.kind = TN_GUARD_STOP,
                                    .number = p->number,
                                    .signal = f->options.stop_signal,
                                    .by_ns = p->by_ns};

    if (f->options.host) {
        f->options.host->revoke(f->options.arg, p);
        return true;
    }
    return send(f->socket, &c, sizeof c, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)sizeof c;
}

static enum tenure_status describe(const struct tn_fleet *f, const struct tn_fleet_program *p,
                                   int *block, struct tenure_error *err)
{
    char job[160], group[300], file[200];
    const char *extra[] = {group, f->options.socket, p->id[0] ? job : NULL, p->spec ? file : NULL,
                           NULL};
    struct tn_program_env_spec spec = {
        .id = f->options.id, .epoch = p->epoch, .extra = extra, .store = f->options.store};

    snprintf(job, sizeof job, "TENURE_JOB=%s", p->id);
    snprintf(group, sizeof group, "TENURE_GROUP=%s", f->options.group);
    int n = snprintf(file, sizeof file, "TENURE_SPEC=");
    spec_path(f, p, file + n, sizeof file - (size_t)n);
    if (p->spec && !write_spec(f, p))
        return tenure_fail(err, TENURE_UNAVAILABLE, "%s cannot be written: %s", file + n,
                           strerror(errno));
    return tn_program_block(f->options.program, &spec, block, err);
}

/* false: the launcher takes nothing now. */
static bool spawn(struct tn_fleet *f, struct tn_fleet_program *p, int64_t now_ns)
{
    struct tn_launcher_command c = {.kind = TN_GUARD_SPAWN, .number = p->number};
    struct tenure_error err;
    char name[140];
    int block = -1;

    p->started_ns = now_ns;
    if (f->options.host) {
        p->state = TN_FLEET_RUNNING;
        f->options.host->give(f->options.arg, p);
        return true;
    }
    if (describe(f, p, &block, &err)) {
        p->failures++;
        p->by_itself = true;
        p->start_ns = now_ns + tn_fleet_pause(p->failures);
        tn_log("failed", "%s: could not be started: %s", subject(p, name), err.text);
        died(f, p, now_ns);
        return true;
    }
    bool sent = tn_pass_fds(f->socket, &c, sizeof c, &block, 1);
    close(block);
    if (sent)
        p->state = TN_FLEET_STARTING;
    return sent;
}

static int64_t min64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* The launcher kills by itself; a program with many jobs is killed for one that it keeps. */
static int64_t check_overdue(const struct tn_fleet *f, struct tn_fleet_program *p, int64_t now_ns)
{
    if (p->by_ns > now_ns)
        return p->by_ns;
    if (!p->overdue)
        f->options.host->overdue(f->options.arg, p);
    p->overdue = true;
    return TN_NEVER;
}

int64_t tn_fleet_act(struct tn_fleet *f, int64_t now_ns)
{
    int64_t next = TN_NEVER;

    if (!f->attached)
        return TN_NEVER; /* its coming is an event */
    for (uint32_t i = 0; i < f->table.count; i++) {
        struct tn_fleet_program *p = f->table.programs[i];

        if (p->stop_due && send_stop(f, p))
            p->stop_due = false;
        if (p->stop_due)
            next = min64(next, now_ns + RETRY_NS);
        if (f->options.host && p->used && p->state == TN_FLEET_STOPPING)
            next = min64(next, check_overdue(f, p, now_ns));
    }
    for (uint32_t i = 0; i < f->table.count; i++) {
        struct tn_fleet_program *p = f->table.programs[i];

        if (!p->used || p->state != TN_FLEET_WAITING)
            continue;
        if (p->start_ns > now_ns || f->next_start_ns > now_ns) {
            next = min64(next, p->start_ns > f->next_start_ns ? p->start_ns : f->next_start_ns);
            continue;
        }
        if (!spawn(f, p, now_ns))
            return min64(next, now_ns + RETRY_NS);
        if (f->options.rate)
            f->next_start_ns = now_ns + TN_S / f->options.rate;
    }
    return next;
}
