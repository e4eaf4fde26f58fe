/*
 * supervise/guard/link.h - tenure's side of the guard: starts it, tells it the
 * deadline, gives it orders.  The other side is src/guard/.
 *
 * THREADS.  publish() is the driver's, busy() each requester's; the rest belongs to
 * the supervisor's loop.  Nothing here blocks but start() and quit().
 */
#ifndef TN_SUPERVISE_GUARD_LINK_H
#define TN_SUPERVISE_GUARD_LINK_H

#include <limits.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "guard/protocol.h"
#include "tenure/status.h"

struct tn_guard_wish {
    enum tn_contain contain;
    int64_t grace_ns;         /* TERM this long before the deadline */
    int64_t kill_ns;          /* K: the margins are parts of it */
    int64_t orphan_grace_ns;  /* from a crash of tenure to KILL */
    int64_t release_delay_ns; /* from the tree's death to the release after such a crash */
    int stop_signal;
    const char *watchdog; /* NULL: none */
    uint32_t watchdog_s;
};

/* Whose store requests are watched, each on a thread of its own. */
enum tn_busy { TN_BUSY_DRIVER, TN_BUSY_PEERS, TN_BUSY_END };

struct tn_guard_link {
    pthread_mutex_t lock; /* for alive and socket, which the driver's thread uses too */
    bool alive;
    int socket; /* readable when there is a report, or when the guard is dead */
    int pidfd;  /* readable when the guard is dead */
    pid_t pid;
    enum tn_contain contain; /* as HELLO told */

    struct tn_guard_page *page;
    int64_t busy[TN_BUSY_END]; /* by requester; under the lock */
    int page_fd, timer_fd, busy_fd, ticket_fd, exe_fd, self_fd;
};
/* Before it is opened. */
#define TN_GUARD_LINK_NONE                                                                         \
    (struct tn_guard_link)                                                                         \
    {                                                                                              \
        .lock = PTHREAD_MUTEX_INITIALIZER, .socket = -1, .pidfd = -1, .page_fd = -1,               \
        .timer_fd = -1, .busy_fd = -1, .ticket_fd = -1, .exe_fd = -1, .self_fd = -1                \
    }

/* Where tenure-guard is: beside our own executable (a build folder), or where it was installed. */
bool tn_guard_link_path(char out[PATH_MAX]);

/* Make what is shared.  Needs tn_guard_link_close(), also after a failure. */
enum tenure_status tn_guard_link_open(struct tn_guard_link *l, const struct tn_guard_wish *wish,
                                      struct tenure_error *err);
/* Start a guard.  May be called again when a guard has died. */
enum tenure_status tn_guard_link_start(struct tn_guard_link *l, struct tenure_error *err);
/*
 * Wait until it is there, before anything is started under it; blocks for five
 * seconds at most.  CONFIG if it cannot do what was wished (containment, watchdog).
 */
enum tenure_status tn_guard_link_wait_ready(struct tn_guard_link *l, struct tenure_error *err);
/* Tell the guard to go, wait for its end.  What still runs is killed. */
void tn_guard_link_quit(struct tn_guard_link *l);
void tn_guard_link_close(struct tn_guard_link *l);

/* It does not act (somebody stopped it): with it the kernel ends the program. */
void tn_guard_link_kill(struct tn_guard_link *l);
/* The guard is dead: from now on no deadline can be published but 0. */
void tn_guard_link_mark_dead(struct tn_guard_link *l);

/* The hook of the driver.  false: it has fired on this grant, or there is no guard. */
bool tn_guard_link_publish(struct tn_guard_link *l, int64_t deadline_ns);
/* A store request of a standby is on, and must end by until_ns; 0: it has ended. */
void tn_guard_link_busy(struct tn_guard_link *l, enum tn_busy who, int64_t until_ns);
/* A grant that has fired is kept until then, on purpose: tenure is not to be taken for hung. */
void tn_guard_link_keep(struct tn_guard_link *l, int64_t until_ns);

/* What the releaser needs; replaces what was there.  false: it could not be written. */
bool tn_guard_link_ticket(struct tn_guard_link *l, const void *ticket, size_t len);

/* Orders.  What they pass on stays the caller's. */
/* Run a program; pass_fd is its descriptor 3, or -1. */
bool tn_guard_link_spawn(struct tn_guard_link *l, int block_fd, int pass_fd);
/* A releaser is prepared at the other end of socket. */
bool tn_guard_link_prepared(struct tn_guard_link *l, int socket);
/* Run a hook, and kill it at by_ns. */
bool tn_guard_link_hook(struct tn_guard_link *l, int block_fd, int64_t by_ns);
void tn_guard_link_signal(struct tn_guard_link *l, int signal);
void tn_guard_link_stop(struct tn_guard_link *l, int signal, int64_t by_ns);
/* The next report, if there is one. */
bool tn_guard_link_next(struct tn_guard_link *l, struct tn_guard_report *report);

/* "PID namespace", ... */
const char *tn_contain_text(enum tn_contain contain);

#endif
