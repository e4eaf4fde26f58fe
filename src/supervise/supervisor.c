/* The supervisor's loop, and its life. */
#include "supervise/supervisor.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/url.h"
#include "core/timing.h"
#include "driver/driver.h"
#include "os/trim.h"
#include "supervise/supervisor_inner.h"

/* ---- The program's state ------------------------------------------------- */

static enum tenure_status on_seal(void *arg, uint64_t epoch, const uint8_t grant[TENURE_NONCE_SIZE],
                                  uint64_t *floor, bool *gained, struct tenure_error *err)
{
    struct tn_supervisor *s = arg;
    enum tenure_status status = tn_state_socket_seal(s->socket, epoch, grant, floor, gained, err);

    if (status == TENURE_FENCED)
        return status; /* the next epoch will do */
    /* Tried again many times a second: once a grant is enough to know. */
    if (status && s->unsealed_epoch != epoch)
        tn_supervisor_unsealed(s, err->text);
    else if (!status && s->unsealed_epoch)
        tn_election_unsealed(s->election, "");
    s->unsealed_epoch = status ? epoch : 0;
    return status;
}

static void on_fenced(void *arg, uint64_t floor)
{
    struct tn_supervisor *s = arg;

    tn_election_fenced(s->election);
    tenure_elector_fenced(s->elector, floor);
}

static void on_committed(void *arg, const char *collection, const char *id, uint64_t seq)
{
    tn_election_committed(((struct tn_supervisor *)arg)->election, collection, id, seq);
}

static int64_t time_left(void *arg)
{
    struct tn_supervisor *s = arg;

    tenure_elector *elector = s->elector;

    return elector ? tenure_elector_time_left(elector) : 0;
}

static uint64_t term_in_hand(void *arg, bool *draining)
{
    struct tn_supervisor *s = arg;
    tenure_elector *elector = s->elector;
    struct tn_snapshot now = {0};

    if (elector)
        tn_driver_snapshot(elector, &now);
    *draining = now.phase == TN_PHASE_STOPPING;
    return *draining || now.phase == TN_PHASE_LEADING ? now.grant.epoch : 0;
}

static int64_t grace(void *arg)
{
    return tn_supervisor_grace(arg);
}

/* Only a process's first open of a store in files may make it, and the state's would be its first
 * seal: on a standby whose share has gone meanwhile that would be an empty one under the mount
 * point.  So it is opened once at the start.  What is wrong with it is for the seal to say. */
struct first_open {
    struct tn_task task;
    const char *url;
};

static void open_once(struct tn_task *task)
{
    tenure_store *store = NULL;

    if (tenure_store_open(((struct first_open *)task)->url, tenure_now() + 2 * TN_S, &store,
                          NULL) == TENURE_OK)
        tenure_store_close(store);
}

static void opened_once(struct tn_task *task)
{
    (void)task;
}

static void free_first_open(struct tn_task *task)
{
    free(task);
}

static enum tenure_status open_state_once(struct tn_supervisor *s, struct tenure_error *err)
{
    const char *url = s->options->state;

    if (strcmp(url, s->options->elector.store) == 0 || !(tn_url_traits(url) & TN_URL_IN_FILES))
        return TENURE_OK;
    struct first_open *first = malloc(sizeof *first);
    if (!first)
        return tenure_fail(err, TENURE_NOMEM, "out of memory");
    *first = (struct first_open){
        .task = {.run = open_once, .done = opened_once, .free = free_first_open}, .url = url};
    return tn_worker_post(s->peer_worker, &first->task, err);
}

static enum tenure_status open_socket(struct tn_supervisor *s, struct tn_driver_hooks *hooks,
                                      struct tenure_error *err)
{
    struct tn_state_socket_options o = {.store = s->options->state,
                                        .name = s->options->elector.name,
                                        .seal = s->options->seal,
                                        .fenced = on_fenced,
                                        .committed = on_committed,
                                        .time_left = time_left,
                                        .term = term_in_hand,
                                        .grace = grace,
                                        .arg = s};
    enum tenure_status status = tn_program_user(&s->options->program, &o.user, err);

    hooks->seal = on_seal;
    if (!status)
        status = open_state_once(s, err);
    return status ? status : tn_state_socket_open(&o, &s->socket, err);
}

int64_t tn_supervisor_grace(const struct tn_supervisor *s)
{
    return (s->options->elector.grace_ms ? s->options->elector.grace_ms : 8000) * TN_MS;
}

int tn_supervisor_code_for(const struct tn_supervisor *s, enum tenure_status status)
{
    switch (status) {
    case TENURE_CONFIG:
    case TENURE_INVALID:
        return s->codes->usage;
    default:
        return s->broken || (s->link.page && !s->link.alive) ? s->codes->broken : s->codes->failed;
    }
}

/* ---- The loop ------------------------------------------------------------ */

/* What follows from whatever happened in this turn. */
static void settle(struct tn_supervisor *s)
{
    int64_t now = tenure_now();

    tn_supervisor_guard_check(s, now);
    tn_supervisor_health_judge(s);
    tn_supervisor_step(s, &(struct tn_machine_event){.kind = TN_ON_TIMER,
                                                     .owes = s->machine.life != TN_LIFE_ACTIVE &&
                                                             tn_driver_owes(s->elector)});
    /* By the time from before: what has become due meanwhile is not passed over. */
    s->machine_timer.at_ns = tn_machine_next(&s->machine, now);
}

static void trim_now(void *arg, int64_t now)
{
    (void)arg;
    (void)now;
    tn_trim(); /* news are rare; between them there is little to do */
}

static void ping_watchdog(void *arg, int64_t now)
{
    struct tn_supervisor *s = arg;

    tn_notify(&s->notify, "WATCHDOG=1");
    s->ping.at_ns = now + s->notify.watchdog_ns;
}

static void on_late(void *arg, short events)
{
    const struct tn_supervisor *s = arg;
    uint64_t count;

    (void)events;
    if (read(s->late.fd, &count, sizeof count) < 0)
        return; /* it was moved on meanwhile */
}

/* May close_all() return?  Else it abandons what waits for the store, and ends the process. */
static bool may_return(const struct tn_supervisor *s)
{
    return s->machine.life == TN_LIFE_HALTED && tn_peer_sync_idle(&s->peers);
}

static bool is_over(const struct tn_supervisor *s)
{
    const struct tn_once *once = s->options->once;

    if (!tn_machine_is_over(&s->machine, tenure_now(),
                            s->peer_jobs == 0 && tn_peer_sync_idle(&s->peers)))
        return false;
    if (s->machine.life == TN_LIFE_HALTED && s->seals)
        return false;
    return !once || !once->must_return || s->machine.asked > 0 || may_return(s);
}

static void loop(struct tn_supervisor *s)
{
    do {
        tn_loop_turn(&s->loop);
        settle(s);
    } while (!is_over(s));
}

/* ---- Life ---------------------------------------------------------------- */

static int64_t open_by(const struct tn_run_options *o)
{
    return o->start_timeout_ns > 0 ? tenure_now() + o->start_timeout_ns : TN_NEVER;
}

/* In the order in which a turn deals with them. */
static enum tenure_status open_loop(struct tn_supervisor *s, struct tenure_error *err)
{
    struct tn_loop *l = &s->loop;
    enum tenure_status status = tn_loop_open(l, err);

    tn_loop_watch(l, &s->guard_report, -1, tn_supervisor_on_report, s);
    tn_loop_watch(l, &s->guard_end, -1, tn_supervisor_guard_died, s);
    tn_loop_watch(l, &s->signal, tn_supervisor_signals_open(), tn_supervisor_take_signals, s);
    tn_loop_watch(l, &s->late, timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK), on_late,
                  s);
    s->drain.run = tn_supervisor_inbox_drain;
    bool callbacks = tn_supervisor_callbacks_open(s);
    tn_helpers_open(&s->helpers, l, &s->options->program.mask);
    tn_supervisor_health_init(s);
    s->peer_worker = tn_worker_new("tenure-peers", l);
    s->name_worker = tn_worker_new("tenure-names", l);
    tn_supervisor_control_open(s);
    tn_loop_timer(l, &s->trim, trim_now, s);
    tn_loop_timer(l, &s->ping, ping_watchdog, s);
    tn_supervisor_once_open(s);
    tn_loop_timer(l, &s->machine_timer, NULL, NULL); /* settle() steps it */
    tn_prepared_open(&s->prepared, l, &s->link);
    if (!status && (!s->peer_worker || !s->name_worker || !callbacks))
        return tenure_fail(err, TENURE_NOMEM, "out of memory");
    if (!status && (s->signal.fd < 0 || s->late.fd < 0))
        return tenure_fail(err, TENURE_UNAVAILABLE, "cannot make descriptors: %s", strerror(errno));
    return status;
}

static enum tenure_status open_all(struct tn_supervisor *s, struct tenure_error *err)
{
    struct tenure_elector_options o = s->options->elector;
    struct tn_driver_hooks hooks = {.arg = s};
    tenure_elector *elector = NULL;
    enum tenure_status status;

    s->broken = true;
    if ((status = open_loop(s, err)))
        return status;
    s->broken = false;
    if ((status = tn_role_file_open(&s->role_file, s->options->warm_file, err)) ||
        (status = tn_supervisor_health_open(s, err)))
        return status;
    tn_supervisor_inbox_connect(s, &o, &hooks);
    tn_supervisor_guard_hooks(s, &hooks);
    tn_supervisor_once_hooks(s, &hooks);
    if (s->options->state && (status = open_socket(s, &hooks, err)))
        return status;
    /* Nobody else sees what is in these. */
    s->controlled = !(tn_url_traits(o.store) & TN_URL_PRIVATE);
    if (s->controlled)
        hooks.control = tn_supervisor_on_control;
    else
        tn_log("alone", "%.*s: is seen by this process alone: another copy leads as well",
               (int)strcspn(o.store, ":"), o.store);
    tn_supervisor_proof_hooks(s, &hooks);
    s->election = tn_supervisor_election(s);
    if (!s->election)
        return tenure_fail(err, TENURE_NOMEM, "out of memory");
    /* A port that is taken is told before anybody contends. */
    if ((status = tn_supervisor_listen(s, err)))
        return status;
    s->broken = true;
    status = tn_driver_prepare(&o, open_by(s->options), &elector, err);
    s->elector = elector;
    if (status || (status = tn_supervisor_guard_open(s, err))) /* while the store is opened */
        return status;
    s->broken = false;
    if ((status = tn_supervisor_replica_start(s, err)))
        return status;
    status = tn_driver_start(s->elector, &hooks, err);
    if (!status)
        tn_election_attach(s->election, s->elector);
    /* It came up meanwhile.  Nothing is started before it is there. */
    if (!status && s->link.contain == TN_CONTAIN_AUTO)
        status = tn_guard_link_wait_ready(&s->link, err);
    if (!status)
        tn_election_contain(s->election, tn_contain_text(s->link.contain));
    return status;
}

/*
 * Threads of ours wait for a store that does not answer, and end with us.  A lease that they were
 * to release is left to the guard, who takes this for a crash; if nothing is owed, it goes with us.
 */
static _Noreturn void abandon(struct tn_supervisor *s)
{
    tn_helpers_kill_all(&s->helpers);
    tn_state_socket_remove(s->socket);
    tn_supervisor_health_close(s);
    if (s->machine.life == TN_LIFE_HALTED || !tn_driver_owes(s->elector)) {
        tn_prepared_end(&s->prepared);
        tn_guard_link_quit(&s->link);
    }
    _exit(s->machine.exit_code);
}

static void close_all(struct tn_supervisor *s)
{
    if (s->began && s->machine.life != TN_LIFE_HALTED)
        abandon(s);
    tn_helpers_kill_all(&s->helpers);
    tn_link_close(s->agent);
    tn_api_stop(s->api); /* its answers ask the elector, and the state */
    if (s->election) {
        tn_election_state(s->election, NULL, NULL);
        tn_election_on_change(s->election, TN_WATCHER_SOCKET, NULL, NULL);
        tn_election_attach(s->election, NULL);
    }
    tn_state_socket_mute(s->socket); /* likewise */
    tenure_elector_stop(s->elector); /* which may still be sealing */
    tn_trace_file_close(s->trace);
    tn_state_socket_close(s->socket);
    s->socket = NULL;
    tn_supervisor_replica_stop(s);
    if (!tn_peer_sync_idle(&s->peers))
        abandon(s);
    tn_worker_free(s->peer_worker);
    tn_worker_free(s->name_worker);
    tn_worker_free(s->seal_worker);
    tn_election_free(s->election);
    tn_supervisor_health_close(s);
    tn_prepared_end(&s->prepared);
    tn_guard_link_quit(&s->link);
    tn_guard_link_close(&s->link);
    tn_notify_close(&s->notify);
    tn_role_file_close(&s->role_file);
    if (s->signal.fd >= 0)
        close(s->signal.fd);
    if (s->late.fd >= 0)
        close(s->late.fd);
    tn_loop_close(&s->loop);
}

/* What was closed when we were started would otherwise become something of ours,
 * and the program would read and write that. */
static void fill_standard_descriptors(void)
{
    int fd;

    do
        fd = open("/dev/null", O_RDWR);
    while (fd >= 0 && fd <= STDERR_FILENO);
    if (fd > STDERR_FILENO)
        close(fd);
}

/* A hang-up is for us if there is a terminal; but not for who was started by nohup(1). */
static bool has_terminal(void)
{
    struct sigaction hang_up = {0};
    int terminal = open("/dev/tty", O_RDONLY | O_CLOEXEC);

    if (terminal < 0)
        return false;
    close(terminal);
    return sigaction(SIGHUP, NULL, &hang_up) != 0 || hang_up.sa_handler != SIG_IGN;
}

static void configure_machine(struct tn_supervisor *s)
{
    const struct tn_run_options *o = s->options;
    struct tn_machine_config cfg = {
        .has_program = o->program.args != NULL,
        .warm = o->warm,
        .once = o->once != NULL,
        .stop_signal = o->stop_signal,
        .warm_signal = o->warm_signal,
        .grace_ns = tn_supervisor_grace(s),
        .answer_ns = o->answer_ns,
        .code_usage = s->codes->usage,
        .code_lost = s->codes->lost,
        .code_broken = s->codes->broken,
        .code_cannot_run = s->codes->cannot_run,
        .code_not_found = s->codes->not_found,
    };

    tn_machine_init(&s->machine, &cfg);
    tn_supervisor_set_policy(s);
}

int tn_run(const struct tn_run_options *options, const struct tn_run_codes *codes)
{
    struct tn_supervisor s = {.options = options,
                              .leader_page = options->leader_page,
                              .codes = codes,
                              .notified = TN_NOTIFIED_NONE,
                              .role_file = TN_ROLE_FILE_NONE};
    struct tenure_error err = {0};

    fill_standard_descriptors();
    signal(SIGCHLD, SIG_DFL); /* ignored, it would take our children's ends away */
    pthread_mutex_init(&s.inbox.lock, NULL);
    s.link = TN_GUARD_LINK_NONE;
    tn_log_setup(options->log, options->elector.name,
                 options->elector.id ? options->elector.id : "");
    tn_notify_open(&s.notify, getenv("NOTIFY_SOCKET"), getenv("WATCHDOG_USEC"));
    s.has_terminal = has_terminal();
    /* If the guard dies, what it guarded becomes ours. */
    prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);

    configure_machine(&s);
    enum tenure_status status = open_all(&s, &err);
    if (status) {
        tn_log("failed", "%s", err.text);
        s.machine.exit_code = tn_supervisor_code_for(&s, status);
    } else {
        tn_supervisor_register(&s);
        tn_notify(&s.notify, "READY=1\nSTATUS=standby");
        if (s.notify.watchdog_ns > 0)
            s.ping.at_ns = 0;
        s.machine.cfg.margin_ns = s.link.page->margin_ns;
        s.began = true;
        tn_supervisor_callbacks_begin(&s);
        settle(&s);
        loop(&s);
    }
    if (options->once) {
        options->once->asked = s.machine.asked > 0;
        options->once->ran = s.machine.ran;
    }
    close_all(&s);
    return s.machine.exit_code;
}
