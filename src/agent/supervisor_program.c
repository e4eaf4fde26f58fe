/* The program's life as the supervisor sees it: started, stopped, ended. */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/driver.h"
#include "agent/releaser.h"
#include "agent/supervisor_inner.h"
#include "core/timing.h"
#include "guard/children.h"

/* A program that lives this long has not crashed in a loop. */
#define STEADY_NS    (60 * TN_S)
#define PAUSE_MAX_NS (30 * TN_S)

/* ---- Start --------------------------------------------------------------- */

/* What the releaser must know if we crash, before the program can run. */
static bool leave_facts(struct tn_supervisor *s)
{
    struct tn_release_facts facts = {
        .store = s->options->elector.store, .name = s->options->elector.name, .id = s->id};
    char text[TN_RELEASE_FACTS_MAX];
    uint64_t epoch;

    if (!tn_driver_grant(s->elector, facts.incarnation, facts.grant, &epoch) || epoch != s->epoch)
        return false; /* that term is over already */
    size_t len = tn_release_facts_write(&facts, text, sizeof text);
    return tn_guard_link_facts(&s->link, text, len);
}

void tn_supervisor_start_program(struct tn_supervisor *s)
{
    const char *extra[] = {s->socket ? tn_state_socket_variable(s->socket) : NULL, NULL};
    struct tn_program_facts facts = {
        .name = s->options->elector.name, .id = s->id, .epoch = s->epoch, .extra = extra};
    struct tenure_error err;
    int block;

    if (s->state != TN_PROGRAM_NONE || s->leaving || s->epoch == 0)
        return;
    s->restart_at_ns = TN_NEVER;
    s->exec_error = 0;
    s->has_status = s->fired = false;
    s->pid = 0;
    if (!leave_facts(s)) {
        tn_driver_ended(s->elector, s->epoch); /* a leader without a program helps nobody */
        return;
    }
    if (tn_program_block(&s->options->program, &facts, &block, &err) != TENURE_OK) {
        tn_log("failed", "%s", err.text);
        s->exit_code = s->codes->usage;
        s->failed = true;
        tn_supervisor_leave(s);
        tn_driver_ended(s->elector, s->epoch);
        return;
    }
    if (tn_guard_link_spawn(&s->link, block)) {
        s->state = TN_PROGRAM_ASKED;
        s->started_ns = tenure_now();
    } else {
        tn_log("guard", "the guard takes no orders; ending it");
        tn_guard_link_shoot(&s->link); /* its death ends this term, and a new one is started */
    }
    close(block);
}

/* ---- Stop ---------------------------------------------------------------- */

void tn_supervisor_stop_program(struct tn_supervisor *s, int64_t by_ns)
{
    if (s->state == TN_PROGRAM_NONE)
        tn_supervisor_answer_stop(s);
    else
        tn_guard_link_stop(&s->link, s->stop_signal, by_ns);
}

void tn_supervisor_answer_stop(struct tn_supervisor *s)
{
    struct tn_mailbox *m = &s->mailbox;

    if (!s->stop_passed_on)
        return; /* not taken from the mailbox yet; then it is answered at once */
    s->stop_passed_on = false;
    s->epoch = 0;
    pthread_mutex_lock(&m->lock);
    m->stop = false;
    pthread_cond_broadcast(&m->quiet);
    pthread_mutex_unlock(&m->lock);
}

/* ---- End ----------------------------------------------------------------- */

static int code_of(const struct tn_supervisor *s)
{
    if (s->exec_error)
        return s->exec_error == ENOENT ? s->codes->not_found : s->codes->cannot_run;
    if (!s->has_status)
        return 128 + SIGKILL; /* with everything around it */
    return WIFEXITED(s->status) ? WEXITSTATUS(s->status) : 128 + WTERMSIG(s->status);
}

static void tell_end(const struct tn_supervisor *s)
{
    if (s->exec_error)
        return; /* told when it failed */
    if (!s->has_status)
        tn_log("ended", "the program was killed");
    else if (WIFEXITED(s->status))
        tn_log("ended", "the program ended with code %d", WEXITSTATUS(s->status));
    else
        tn_log("ended", "the program was ended by signal %d (%s)", WTERMSIG(s->status),
               strsignal(WTERMSIG(s->status)));
}

/* Pauses double: 100 ms, 200 ms, ... 30 s. */
static int64_t pause_after(unsigned crashes)
{
    int64_t pause = 100 * TN_MS;

    while (crashes-- > 1 && pause < PAUSE_MAX_NS)
        pause *= 2;
    return pause < PAUSE_MAX_NS ? pause : PAUSE_MAX_NS;
}

static void yield(struct tn_supervisor *s, int64_t for_ns)
{
    /* In this order: a lease that is released first is claimed again at once. */
    tenure_elector_yield(s->elector, for_ns / TN_MS);
    tn_driver_ended(s->elector, s->epoch);
    s->epoch = 0;
}

/* It ended by itself, while it was to run. */
static void ended_by_itself(struct tn_supervisor *s)
{
    s->crashes = tenure_now() - s->started_ns < STEADY_NS ? s->crashes + 1 : 1;
    tell_end(s);
    if (s->options->on_exit == TN_EXIT_EXIT || s->exec_error) {
        s->exit_code = code_of(s);
        tn_supervisor_leave(s); /* before the end is told; see yield() */
        tn_driver_ended(s->elector, s->epoch);
        s->epoch = 0;
    } else if (s->options->on_exit == TN_EXIT_RESTART &&
               s->crashes < (unsigned)s->options->crash_limit) {
        s->restart_at_ns = tenure_now() + pause_after(s->crashes);
    } else {
        tn_log("yielding", "giving leadership up: the program ended %u times in a row", s->crashes);
        yield(s, pause_after(s->crashes));
        if (s->options->on_exit == TN_EXIT_RESTART)
            s->crashes = 0;
    }
}

static void tree_is_dead(struct tn_supervisor *s)
{
    if (s->state == TN_PROGRAM_NONE)
        return;
    s->state = TN_PROGRAM_NONE;
    if (s->leaving && !s->failed)
        s->exit_code = code_of(s);
    if (s->stop_passed_on) {
        tell_end(s);
        tn_supervisor_answer_stop(s);
    } else if (s->fired) {
        tell_end(s); /* the word to stop is on its way from the driver */
    } else if (s->leaving) {
        tell_end(s);
        tn_driver_ended(s->elector, s->epoch);
    } else {
        ended_by_itself(s);
    }
}

/* ---- Reports ------------------------------------------------------------- */

static void failed_to_start(struct tn_supervisor *s, const struct tn_guard_report *r)
{
    static const char *const stages[] = {
        [TN_STAGE_NONE] = "cannot be started",
        [TN_STAGE_WATCHDOG] = "is not started: the watchdog cannot be opened",
        [TN_STAGE_CONTAIN] = "cannot be contained",
        [TN_STAGE_FORK] = "cannot be started: no new process",
        [TN_STAGE_BLOCK] = "cannot be described",
        [TN_STAGE_USER] = "cannot be started: --user",
        [TN_STAGE_CWD] = "cannot be started: --chdir",
        [TN_STAGE_EXEC] = "cannot be executed",
    };
    unsigned stage = r->stage < sizeof stages / sizeof stages[0] ? r->stage : 0;

    s->exec_error = r->error ? r->error : EINVAL;
    /* Only a missing command is "not found". */
    if (s->exec_error == ENOENT && stage != TN_STAGE_EXEC)
        s->exec_error = EINVAL;
    tn_log("failed", "%s %s: %s", s->options->program.args[0], stages[stage], strerror(r->error));
}

static void take_report(struct tn_supervisor *s, const struct tn_guard_report *r)
{
    switch (r->kind) {
    case TN_GUARD_ACCEPTED:
        s->state = TN_PROGRAM_STARTING;
        break;
    case TN_GUARD_SPAWNED:
        s->state = TN_PROGRAM_RUNNING;
        s->pid = r->pid;
        tn_log("running", "leading, epoch %" PRIu64 "; %s", s->epoch,
               tn_contain_text((enum tn_contain)r->contain));
        tn_notify(&s->notify, "STATUS=leading, epoch %" PRIu64, s->epoch);
        break;
    case TN_GUARD_FAILED:
        failed_to_start(s, r);
        break;
    case TN_GUARD_REFUSED:
        /* Too late for this grant, which the elector is about to see itself. */
        s->state = TN_PROGRAM_NONE;
        tn_driver_ended(s->elector, s->epoch);
        tn_supervisor_answer_stop(s);
        break;
    case TN_GUARD_EXITED:
        s->status = r->status;
        s->has_status = true;
        break;
    case TN_GUARD_KILLS:
        s->state = TN_PROGRAM_ENDING;
        break;
    case TN_GUARD_FIRED:
        if (!(atomic_load(&s->link.page->word) & TN_WORD_FIRED))
            break; /* on a grant that has been given up since */
        tn_log("fired", "the guard ends the program: the deadline has come");
        s->fired = true;
        tn_driver_fired(s->elector);
        break;
    case TN_GUARD_DEAD:
        /* Before the order to start is answered it is the answer to an earlier
         * stop.  Taken for this program's, the lease would be free while it runs (I8). */
        if (s->state != TN_PROGRAM_ASKED)
            tree_is_dead(s);
        break;
    default:
        break;
    }
}

void tn_supervisor_reports(struct tn_supervisor *s)
{
    struct tn_guard_report r;

    while (s->link.alive && tn_guard_link_next(&s->link, &r))
        take_report(s, &r);
}

/* ---- Without a guard ----------------------------------------------------- */

/*
 * The kernel has killed the program already (parent-death signal, or its
 * namespace), and what it left behind has become our own children: kill until
 * there are none.  Only then may the lease be released (I8).
 */
static void end_tree_ourselves(struct tn_supervisor *s)
{
    for (;;) {
        tn_children_kill(NULL, 0);
        pid_t pid = waitpid(-1, NULL, 0);
        if (pid < 0 && errno == ECHILD)
            break;
    }
    (void)s;
}

void tn_supervisor_guard_died(struct tn_supervisor *s)
{
    struct tenure_error err;

    tn_supervisor_reports(s); /* its last words */
    tn_guard_link_mourn(&s->link);
    tn_driver_fired(s->elector);
    end_tree_ourselves(s);
    tn_log("guard", "the guard died; the program was ended");
    if (tn_guard_link_start(&s->link, &err) != TENURE_OK) {
        tn_log("failed", "%s", err.text);
        s->exit_code = s->codes->broken;
        s->failed = true;
        tn_supervisor_leave(s);
    }
    if (s->state != TN_PROGRAM_NONE) {
        if (s->leaving && !s->failed)
            s->exit_code = code_of(s);
        s->state = TN_PROGRAM_NONE;
        s->epoch = 0; /* the driver knows: the stop is on its way */
        tn_supervisor_answer_stop(s);
    }
}
