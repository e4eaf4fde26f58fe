/* Signals to tenure: what is meant for it, what is passed on, whom it reaps. */
#include <signal.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "supervise/supervisor_inner.h"

/* Everything that is passed on or means something to us; the rest stays as it was. */
static void handled_signals(sigset_t *set)
{
    static const int plain[] = {SIGTERM, SIGINT,   SIGQUIT, SIGHUP,  SIGUSR1, SIGUSR2,
                                SIGALRM, SIGWINCH, SIGCHLD, SIGPIPE, SIGIO};

    sigemptyset(set);
    for (size_t i = 0; i < sizeof plain / sizeof plain[0]; i++)
        sigaddset(set, plain[i]);
    for (int i = SIGRTMIN; i <= SIGRTMAX; i++)
        sigaddset(set, i);
}

/* The first time: drain.  The second time: at once; see_to_the_end() does the rest. */
static void asked_to_go(struct tn_supervisor *s, int signal)
{
    if (++s->signals_seen > 1) {
        tn_log("hastening", "asked again: %s",
               s->state == TN_PROGRAM_NONE ? "not waiting for the store" : "killing the program");
        tn_guard_link_stop(&s->link, SIGKILL, 1);
        return;
    }
    tn_log("leaving", "asked to stop (%s)", strsignal(signal));
    s->drain_by_ns = tenure_now() + tn_supervisor_grace(s);
    if (signal != SIGTERM)
        s->stop_signal = signal; /* as the terminal would have */
    /* Before the driver knows, who may be waiting for a slow store. */
    if (s->state != TN_PROGRAM_NONE)
        tn_guard_link_stop(&s->link, s->stop_signal, s->drain_by_ns);
    tn_supervisor_leave(s);
}

static void reap(struct tn_supervisor *s)
{
    int status;
    pid_t pid;

    while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
        tn_supervisor_reaped(s, pid, status);
}

void tn_supervisor_take_signals(void *arg, short events)
{
    struct tn_supervisor *s = arg;
    struct signalfd_siginfo info;

    (void)events;
    while (read(s->signal.fd, &info, sizeof info) == (ssize_t)sizeof info) {
        int signal = (int)info.ssi_signo;

        if (signal == SIGHUP && s->options->reload) {
            tn_supervisor_reload(s);
        } else if (signal == SIGTERM || signal == SIGINT || signal == SIGQUIT ||
                   (signal == SIGHUP && s->has_terminal)) {
            asked_to_go(s, signal);
        } else if (signal == SIGCHLD) {
            reap(s);
        } else if (signal != SIGPIPE && signal != SIGIO) {
            tn_guard_link_signal(&s->link, signal);
        }
    }
}

int tn_supervisor_signals_open(void)
{
    sigset_t set;

    handled_signals(&set);
    sigprocmask(SIG_BLOCK, &set, NULL);
    return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}
