/* Health: probes of the program and of this machine, and what follows from them. */
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "agent/supervisor_inner.h"
#include "core/timing.h"

/* ---- The program's own word ---------------------------------------------- */

/* A socket with a name that the kernel chooses, and no file. */
static enum tenure_status open_notify(struct tn_supervisor *s, struct tenure_error *err)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    socklen_t len = sizeof name;
    int on = 1;
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (fd < 0 || bind(fd, (struct sockaddr *)&name, sizeof name.sun_family) != 0 ||
        getsockname(fd, (struct sockaddr *)&name, &len) != 0 ||
        setsockopt(fd, SOL_SOCKET, SO_PASSCRED, &on, sizeof on) != 0) {
        if (fd >= 0)
            close(fd);
        return tenure_fail(err, TENURE_UNAVAILABLE, "cannot listen to the program: %s",
                           strerror(errno));
    }
    snprintf(s->program_notify_name, sizeof s->program_notify_name, "@%.*s",
             (int)(len - offsetof(struct sockaddr_un, sun_path) - 1), name.sun_path + 1);
    s->program_notify = fd;
    return TENURE_OK;
}

/* Anybody on this machine can write to such a socket: only who runs as the
 * program, or as us, is believed. */
static bool believed(struct msghdr *m)
{
    struct cmsghdr *c = CMSG_FIRSTHDR(m);
    struct ucred who;

    if (!c || c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_CREDENTIALS)
        return false;
    memcpy(&who, CMSG_DATA(c), sizeof who);
    return who.uid == geteuid() || geteuid() == 0;
}

void tn_supervisor_health_notified(struct tn_supervisor *s)
{
    char text[1024];
    union {
        struct cmsghdr header;
        char space[CMSG_SPACE(sizeof(struct ucred))];
    } control;
    struct iovec part = {.iov_base = text, .iov_len = sizeof text - 1};
    struct msghdr m = {.msg_iov = &part,
                       .msg_iovlen = 1,
                       .msg_control = &control,
                       .msg_controllen = sizeof control};
    ssize_t n;

    while ((n = recvmsg(s->program_notify, &m, MSG_DONTWAIT | MSG_CMSG_CLOEXEC)) >= 0) {
        text[n] = '\0';
        if (believed(&m) && (strstr(text, "WATCHDOG=1") || strstr(text, "READY=1")))
            tn_supervisor_health_result(s, TN_HELPER_PROBE, true);
        m.msg_controllen = sizeof control;
    }
}

/* ---- What follows -------------------------------------------------------- */

/* The leader's program is ill: somebody else's turn, if there is somebody. */
static void program_is_ill(struct tn_supervisor *s)
{
    if (s->unwell || s->restart_wanted || s->leaving || s->state != TN_PROGRAM_RUNNING)
        return;
    s->unwell = true;
    snprintf(s->self.trouble, sizeof s->self.trouble, "the probe failed %d times in a row",
             s->probe.failures);
    tn_log("unhealthy", "the program is not well: the probe failed %d times in a row",
           s->probe.failures);
    if (s->epoch != 0 && s->controlled && !s->paused)
        tn_supervisor_paper_now(s, TN_CLERK_ASIDE);
    else
        tn_supervisor_aside_done(s, false);
}

void tn_supervisor_aside_done(struct tn_supervisor *s, bool found)
{
    if (!s->unwell)
        return;
    if (found)
        tn_log("yielding", "another candidate is healthy: handing over");
    else
        tn_supervisor_restart_program(s, "nobody healthy is waiting");
}

/* May this machine lead?  Not before a probe has answered well. */
static void judge(struct tn_supervisor *s)
{
    const struct tn_probe *c = &s->candidate_probe, *p = &s->probe;
    bool well = true;

    if (c->kind != TN_PROBE_NONE)
        well = c->trusted && !c->failed;
    if (s->options->warm && p->kind != TN_PROBE_NONE)
        well = well && p->on && p->trusted && !p->failed;
    tn_supervisor_healthy(s, well);
}

void tn_supervisor_health_result(struct tn_supervisor *s, enum tn_helper_kind kind, bool well)
{
    struct tn_probe *p = kind == TN_HELPER_PROBE ? &s->probe : &s->candidate_probe;

    tn_probe_result(p, well, tenure_now());
}

/* ---- The loop's side ----------------------------------------------------- */

enum tenure_status tn_supervisor_health_open(struct tn_supervisor *s, struct tenure_error *err)
{
    enum tenure_status status = tn_probe_open(&s->probe, &s->options->probe, err);

    if (!status)
        status = tn_probe_open(&s->candidate_probe, &s->options->candidate_probe, err);
    if (!status && s->candidate_probe.kind == TN_PROBE_NOTIFY)
        status = tenure_fail(err, TENURE_CONFIG,
                             "--candidate-probe: notify needs a program; give another probe");
    if (!status && s->probe.kind == TN_PROBE_NOTIFY)
        status = open_notify(s, err);
    if (!status) {
        tn_probe_switch(&s->candidate_probe, true, tenure_now());
        /* Not healthy before the first answer; nothing has been started yet. */
        s->mailbox.unhealthy = s->candidate_probe.kind != TN_PROBE_NONE ||
                               (s->options->warm && s->probe.kind != TN_PROBE_NONE);
    }
    return status;
}

void tn_supervisor_health_close(struct tn_supervisor *s)
{
    tn_probe_switch(&s->probe, false, 0);
    tn_probe_switch(&s->candidate_probe, false, 0);
    if (s->program_notify >= 0)
        close(s->program_notify);
    s->program_notify = -1;
}

void tn_supervisor_health_program(struct tn_supervisor *s, bool runs)
{
    tn_probe_switch(&s->probe, runs, tenure_now());
}

static void ask(struct tn_supervisor *s, struct tn_probe *p, enum tn_helper_kind kind, int64_t now)
{
    struct tn_program_facts facts = {.name = s->options->elector.name,
                                     .id = s->id,
                                     .epoch = s->epoch,
                                     .store = s->options->elector.store,
                                     .state = s->options->state};

    if (!tn_probe_time(p, now))
        return;
    char **env = tn_program_env(s->options->program.env, &facts);
    if (!env || !tn_helpers_run(&s->helpers, kind, p->command, env, p->o.timeout_ns))
        tn_probe_result(p, false, now);
    tn_program_env_free(env);
}

/* Results come from several sides; they are counted where all of them pass. */
static void tell(struct tn_supervisor *s, struct tn_probe *p, enum tn_probe_of which)
{
    const char *whose = which == TN_PROBE_OF_PROGRAM ? "program" : "candidate";

    for (; p->told_good < p->good; p->told_good++) {
        tn_election_probed(s->election, which, true);
        tn_log("probed", "the %s's probe: well", whose);
    }
    for (; p->told_bad < p->bad; p->told_bad++) {
        tn_election_probed(s->election, which, false);
        tn_log("probed", "the %s's probe: failed", whose);
    }
}

void tn_supervisor_health_time(struct tn_supervisor *s, int64_t now)
{
    tell(s, &s->probe, TN_PROBE_OF_PROGRAM);
    tell(s, &s->candidate_probe, TN_PROBE_OF_CANDIDATE);
    ask(s, &s->probe, TN_HELPER_PROBE, now);
    ask(s, &s->candidate_probe, TN_HELPER_CANDIDATE_PROBE, now);
    judge(s);
    if (s->probe.failed)
        program_is_ill(s);
}
