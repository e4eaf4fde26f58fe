/* Signals to tenure: what is meant for it, what is passed on, whom it reaps. */
#include <signal.h>
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
            tn_supervisor_happened(s, TN_ON_RELOAD);
        } else if (signal == SIGTERM || signal == SIGINT || signal == SIGQUIT ||
                   (signal == SIGHUP && s->has_terminal)) {
            tn_supervisor_step(
                s, &(struct tn_machine_event){.kind = TN_ON_ASKED_TO_GO, .signal = signal});
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
