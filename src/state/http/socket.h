/*
 * state/http/socket.h - TENURE_SOCKET: the supervised program's way to the state.
 *
 * An HTTP server on a Unix socket in a directory of its own (0700).  Commits
 * carry the grant in hand, which the program need not know; those that arrive
 * while others are being written share the next flush.  docs/reference/openapi.yaml
 * describes what it answers.
 */
#ifndef TN_STATE_HTTP_SOCKET_H
#define TN_STATE_HTTP_SOCKET_H

#include <stdint.h>
#include <sys/types.h>

#include "http/module.h"
#include "tenure/state.h"

struct tn_state_socket;

struct tn_state_socket_options {
    const char *store; /* URL of the state; not copied */
    const char *name;
    const char *const *seal; /* collections to seal whole at a take-over; ends with NULL */
    uid_t user;              /* who may use it, besides root and ourselves; 0: nobody */
    /* A commit was refused: the term is over.  On the thread that answers. */
    void (*fenced)(void *arg, uint64_t floor);
    /* OPTIONAL: a commit is durable.  On the thread that answers. */
    void (*committed)(void *arg, const char *collection, const char *id, uint64_t seq);
    /* Nanoseconds that the current term may still last; 0: it is over. */
    int64_t (*time_left)(void *arg);
    /* The epoch of the term in which the program works: its state is sealed.  0: there is none.
     * *draining: the program is to stop.  Any thread. */
    uint64_t (*term)(void *arg, bool *draining);
    /* How long a stop may last: a seal that is under way must have noticed it by then. */
    int64_t (*grace)(void *arg);
    void *arg;
};

/* Listens.  UNSUPPORTED without the HTTP module; CONFIG if no directory can be made. */
enum tenure_status tn_state_socket_open(const struct tn_state_socket_options *options,
                                        struct tn_state_socket **socket, struct tenure_error *err);
/* Answers no more.  Accepts NULL. */
void tn_state_socket_mute(struct tn_state_socket *socket);
/* Remove it from the file system alone, for who exits with its threads at work.  Accepts NULL. */
void tn_state_socket_remove(const struct tn_state_socket *socket);
/* Accepts NULL. */
void tn_state_socket_close(struct tn_state_socket *socket);

/* Answer a request that came another way, and was admitted there.  Blocks. */
void tn_state_socket_answer(struct tn_state_socket *socket, const struct tn_http_request *request,
                            struct tn_http_reply *reply);

/* Leadership may have changed: those who wait for that are told.  Never blocks; arg is the socket.
 */
void tn_state_socket_notify(void *arg);

/* The program is dead, or the next one is about to start: nothing that comes over connections made
 * until now is begun any more; what is being done ends before anything newer.  Never blocks;
 * accepts NULL. */
void tn_state_socket_next_program(struct tn_state_socket *socket);

/* "TENURE_SOCKET=/path". */
const char *tn_state_socket_variable(const struct tn_state_socket *socket);

/*
 * The seal hook (driver/driver.h): from now on commits carry (epoch, grant).
 * Seals the root of every collection there is, and those that were named
 * whole.  Blocks.  *gained is set if less is left to do, or the next try may
 * last longer.
 */
enum tenure_status tn_state_socket_seal(struct tn_state_socket *socket, uint64_t epoch,
                                        const uint8_t grant[TENURE_NONCE_SIZE], uint64_t *floor,
                                        bool *gained, struct tenure_error *err);

#endif
