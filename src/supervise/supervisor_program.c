/* The program's life as the supervisor sees it: started, stopped, ended. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/timing.h"
#include "driver/driver.h"
#include "os/clock.h"
#include "supervise/environment.h"
#include "supervise/releaser.h"
#include "supervise/supervisor_inner.h"

/* A program that lives this long has not crashed in a loop. */
#define STEADY_NS    (60 * TN_S)
#define PAUSE_MAX_NS (30 * TN_S)
/* Before a warm program is started again: the grant must be over everywhere. */
#define WARM_NS      (50 * TN_MS)

/* ---- Start --------------------------------------------------------------- */

bool tn_supervisor_leave_facts(struct tn_supervisor *s)
{
    struct tn_release_facts facts = {
        .store = s->options->elector.store, .name = s->options->elector.name, .id = s->id};
    char text[TN_RELEASE_FACTS_MAX], *all = NULL;
    struct tn_snapshot now;
    size_t size = 0;

    tn_driver_snapshot(s->elector, &now);
    if (now.grant.epoch == 0 || now.grant.epoch != s->epoch)
        return false; /* that term is over already */
    memcpy(facts.incarnation, now.incarnation, sizeof facts.incarnation);
    memcpy(facts.grant, now.grant.id, sizeof facts.grant);
    FILE *to = open_memstream(&all, &size);
    if (!to)
        return false;
    fwrite(text, 1, tn_release_facts_write(&facts, text, sizeof text), to);
    tn_environment_write(to);
    bool ok = fclose(to) == 0 && tn_guard_link_facts(&s->link, all, size);
    if (all)
        explicit_bzero(all, size);
    free(all);
    return ok;
}

static void write_role(const struct tn_supervisor *s)
{
    struct tenure_error err;

    if (tn_role_file_write(&s->role_file, s->epoch, &err) != TENURE_OK)
        tn_log("failed", "%s", err.text);
}

void tn_supervisor_note_start(struct tn_supervisor *s, int64_t at_ns)
{
    tn_trace_file_program(s->trace, s->id, "running", s->epoch, at_ns);
    s->self.started_epoch = s->epoch;
    s->self.started_ns = at_ns;
    s->self.started_ms = tn_wall_ms();
    tn_log("running", "leading, epoch %" PRIu64 "; %s; %s", s->epoch,
           tn_election_cause(s->election),
           s->options->program.args ? tn_contain_text(s->link.contain) : "no program of its own");
    tn_notify(&s->notify, "STATUS=leading, epoch %" PRIu64, s->epoch);
    tn_election_contain(s->election, tn_contain_text(s->link.contain));
    tn_election_began(s->election, s->epoch);
    tn_election_running(s->election, true);
    tn_supervisor_hook(s, TN_HELPER_STARTED);
    tn_supervisor_sync(s, TN_PEER_ANNOUNCE | TN_PEER_MEMBERSHIP);
}

static enum tenure_status describe(struct tn_supervisor *s, int *block, struct tenure_error *err)
{
    struct tn_program_facts facts = {.name = s->options->elector.name,
                                     .id = s->id,
                                     .epoch = s->epoch,
                                     .store = s->options->elector.store,
                                     .state = s->options->state};
    char notify[sizeof s->notified.path + 16], watchdog[48], role[4200];
    const char *extra[6] = {0};
    size_t n = 0;

    if (s->socket)
        extra[n++] = tn_state_socket_variable(s->socket);
    if (s->notified.fd >= 0) {
        snprintf(notify, sizeof notify, "NOTIFY_SOCKET=%s", s->notified.path);
        snprintf(watchdog, sizeof watchdog, "WATCHDOG_USEC=%" PRId64,
                 s->options->probe.timeout_ns / 1000);
        extra[n++] = notify;
        extra[n++] = watchdog;
    }
    if (s->options->warm_file) {
        snprintf(role, sizeof role, "TENURE_ROLE_FILE=%s", s->options->warm_file);
        extra[n++] = role;
    }
    facts.extra = extra;
    return tn_program_block(&s->options->program, &facts, block, err);
}

void tn_supervisor_start_program(struct tn_supervisor *s)
{
    struct tenure_error err;
    int block;

    if (s->state != TN_PROGRAM_NONE || s->leaving || (s->epoch == 0 && !s->options->warm) ||
        !s->options->program.args)
        return;
    s->restart.at_ns = s->orphaned ? tenure_now() + WARM_NS : TN_NEVER;
    if (s->orphaned)
        return; /* there is no guard yet */
    if (s->fired && s->fired_epoch == s->epoch && s->epoch != 0)
        return; /* that grant is over; the word to stop is on its way */
    s->exec_error = 0;
    s->has_status = s->fired = s->restart_wanted = s->unwell = false;
    if (s->epoch != 0 && !tn_supervisor_leave_facts(s)) {
        tn_driver_ended(s->elector, s->epoch); /* a leader without a program helps nobody */
        return;
    }
    if (describe(s, &block, &err) != TENURE_OK) {
        tn_log("failed", "%s", err.text);
        s->exit_code = s->codes->usage;
        s->failed = true;
        tn_supervisor_leave(s);
        tn_driver_ended(s->elector, s->epoch);
        return;
    }
    write_role(s);
    tn_state_socket_next_program(s->socket);
    if (tn_guard_link_spawn(&s->link, block)) {
        s->state = TN_PROGRAM_ASKED;
        s->started_ns = tenure_now();
        s->answer_by.at_ns = s->started_ns + TN_GUARD_ANSWER_NS;
    } else {
        tn_log("guard", "the guard takes no orders; ending it");
        tn_guard_link_shoot(&s->link); /* its death ends this term, and a new one is started */
    }
    close(block);
}

void tn_supervisor_restart_time(void *arg, int64_t now)
{
    (void)now;
    tn_supervisor_start_program(arg);
}

/* A running program leads from now on.  It reads the file after it has prepared
 * for the signal, so it cannot miss both. */
void tn_supervisor_promote(struct tn_supervisor *s, int64_t at_ns)
{
    if (s->options->warm && s->options->warm_signal)
        tn_guard_link_signal(&s->link, s->options->warm_signal);
    tn_supervisor_note_start(s, at_ns);
}

void tn_supervisor_lead(struct tn_supervisor *s, uint64_t epoch)
{
    bool runs = s->state == TN_PROGRAM_ASKED || s->state == TN_PROGRAM_STARTING ||
                s->state == TN_PROGRAM_RUNNING;

    s->epoch = epoch;
    s->unsealed = false;
    s->self.trouble[0] = '\0';
    if (!s->options->program.args) {
        tn_supervisor_lead_clients(s);
        return;
    }
    if (!s->options->warm || !runs) {
        tn_supervisor_start_program(s);
        return;
    }
    if (!tn_supervisor_leave_facts(s))
        return;
    write_role(s);
    if (s->state == TN_PROGRAM_RUNNING)
        tn_supervisor_promote(s, tenure_now()); /* else when it is itself */
}

/* ---- Stop ---------------------------------------------------------------- */

/* Nothing of it is left: written into the history, if it had begun. */
static void end_term(struct tn_supervisor *s, const char *why)
{
    if (s->epoch != 0)
        tn_election_ended(s->election, s->epoch, why);
}

static void answer_stop(struct tn_supervisor *s)
{
    struct tn_mailbox *m = &s->mailbox;

    if (!s->stop_passed_on)
        return; /* not taken from the mailbox yet; then it is answered at once */
    end_term(s, s->why);
    s->stop_passed_on = false;
    s->epoch = 0;
    s->why[0] = '\0';
    pthread_mutex_lock(&m->lock);
    m->stop = false;
    pthread_cond_broadcast(&m->quiet);
    pthread_mutex_unlock(&m->lock);
}

void tn_supervisor_stop_program(struct tn_supervisor *s, int64_t by_ns)
{
    if (!s->options->program.args)
        tn_supervisor_stop_clients(s);
    else if (s->state == TN_PROGRAM_NONE)
        tn_supervisor_finish_death(s);
    else if (s->state != TN_PROGRAM_HOOK)
        tn_guard_link_stop(&s->link, s->stop_signal, by_ns);
}

void tn_supervisor_restart_program(struct tn_supervisor *s, const char *why)
{
    if (s->state != TN_PROGRAM_RUNNING || s->leaving || s->restart_wanted)
        return;
    tn_log("restarting", "restarting the program: %s", why);
    s->restart_wanted = true;
    tn_guard_link_stop(&s->link, s->options->stop_signal, tenure_now() + tn_supervisor_grace(s));
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

static void give_up(struct tn_supervisor *s)
{
    snprintf(s->self.trouble, sizeof s->self.trouble,
             "gave leadership up: the program ended %u times in a row", s->crashes);
    tn_log("yielding", "giving leadership up: the program ended %u times in a row", s->crashes);
    /* In this order: a lease that is released first is claimed again at once. */
    tenure_elector_yield(s->elector, pause_after(s->crashes) / TN_MS);
    tn_driver_ended(s->elector, s->epoch);
    end_term(s, s->self.trouble);
    s->epoch = 0;
    if (s->options->on_exit == TN_EXIT_RESTART)
        s->crashes = 0;
}

/* It ended by itself, while it was to run. */
static void ended_by_itself(struct tn_supervisor *s)
{
    enum tn_on_exit then = s->options->on_exit;
    bool hopeless = s->exec_error && !s->passing;

    s->crashes = tenure_now() - s->started_ns < STEADY_NS ? s->crashes + 1 : 1;
    if (s->restart_wanted || (s->epoch == 0 && then != TN_EXIT_EXIT && !hopeless)) {
        s->restart.at_ns = tenure_now() + pause_after(s->crashes);
    } else if (then == TN_EXIT_EXIT || hopeless) {
        s->exit_code = code_of(s);
        tn_supervisor_leave(s); /* before the end is told; see give_up() */
        if (s->epoch != 0)
            tn_driver_ended(s->elector, s->epoch);
        end_term(s, tn_stop_text(TN_STOP_PROGRAM));
        s->epoch = 0;
    } else if (then == TN_EXIT_RESTART && s->crashes < (unsigned)s->options->crash_limit) {
        s->restart.at_ns = tenure_now() + pause_after(s->crashes);
    } else {
        give_up(s);
    }
}

static void leave_term(struct tn_supervisor *s)
{
    end_term(s, tn_stop_text(TN_STOP_SHUTDOWN));
    tn_driver_ended(s->elector, s->epoch);
}

void tn_supervisor_finish_death(struct tn_supervisor *s)
{
    s->state = TN_PROGRAM_NONE;
    if (s->stop_passed_on)
        answer_stop(s);
    else if (s->leaving)
        leave_term(s);
    else if (!s->fired) /* else the word to stop is on its way from the driver */
        ended_by_itself(s);
    if (s->options->warm && !s->leaving && s->epoch == 0 && s->restart.at_ns == TN_NEVER)
        s->restart.at_ns = tenure_now() + WARM_NS;
    tn_supervisor_sync(s, TN_PEER_ANNOUNCE | TN_PEER_MEMBERSHIP);
}

void tn_supervisor_tree_dead(struct tn_supervisor *s, int64_t at_ns)
{
    if (s->state == TN_PROGRAM_NONE || s->state == TN_PROGRAM_HOOK)
        return;
    tell_end(s);
    /* Before the lease is released: what it asked for is not of the next term. */
    tn_state_socket_next_program(s->socket);
    tn_election_running(s->election, false);
    tn_supervisor_health_program(s, false);
    if (s->leaving && !s->failed)
        s->exit_code = code_of(s);
    if (s->epoch != 0) {
        s->self.ended_epoch = s->epoch;
        s->self.ended_ns = at_ns;
        s->self.ended_ms = tn_wall_ms();
        tn_trace_file_program(s->trace, s->id, "dead", s->epoch, at_ns);
    }
    /* The release waits for this hook, and the hook has no more time than the lease. */
    s->state = TN_PROGRAM_HOOK;
    tn_supervisor_hooks_end(s);
}

/* Too late for this grant, which the elector is about to see itself; or, warm,
 * too early after the last one. */
void tn_supervisor_refused(struct tn_supervisor *s)
{
    s->state = TN_PROGRAM_NONE;
    if (s->epoch != 0)
        tn_driver_ended(s->elector, s->epoch);
    else
        s->restart.at_ns = tenure_now() + WARM_NS;
    answer_stop(s);
}
