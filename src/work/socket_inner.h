/*
 * work/socket_inner.h - the worker's socket, and what its files do for each other.
 *
 *   socket.c          life, and the routes
 *   socket_runs.c     the runs, and the events about them
 *   socket_commits.c  checkpoints on their way
 */
#ifndef TN_WORK_SOCKET_INNER_H
#define TN_WORK_SOCKET_INNER_H

#include <jansson.h>
#include <pthread.h>

#include "http/module.h"
#include "jobs/assigned.h"
#include "os/socket_dir.h"
#include "work/socket.h"

#define TN_WORK_VARIABLE "TENURE_SOCKET="

/* A job that runs here: struct tn_assigned has its name and its epoch. */
struct tn_work_run {
    void *checkpoint, *spec;
    size_t checkpoint_len, spec_len;
    bool given;      /* it is shown */
    const char *why; /* it is to end; a literal.  NULL: it is not */
    int64_t by_ns;
};

/* Checkpoints of one request on their way to the store. */
struct tn_work_commits;

struct tn_work_socket {
    struct tn_work_socket_options options;
    const struct tn_http_ops *http;
    struct tn_http_server *server;
    char dir[TN_SOCKET_DIR_MAX];
    char variable[sizeof TN_WORK_VARIABLE + 96];
    pthread_mutex_t waking; /* of server; taken after lock */

    pthread_mutex_t lock; /* of everything below */
    struct tn_assigned_table jobs;
    struct tn_work_commits *pending;
    uint64_t tickets;
    char *events; /* that are to be published together */
    size_t events_len;
    uint64_t event_id;  /* of the last one */
    uint64_t published; /* messages */
};

void tn_work_socket_wake(struct tn_work_socket *s);
/* malloc'ed, also for nothing; NULL: out of memory. */
void *tn_work_copy(const void *data, size_t len);

/* ---- socket_runs.c: all under the lock ----------------------------------- */

/* That run, if it is shown.  NULL: there is none. */
struct tn_assigned *tn_work_run_find(const struct tn_work_socket *s, const char *id);
void tn_work_run_drop(struct tn_work_socket *s, struct tn_assigned *job);
/* NULL: out of memory. */
json_t *tn_work_runs_json(const struct tn_work_socket *s);
/* Send what has happened to those who listen: a stream that begins after it has it in its first
 * event. */
void tn_work_runs_publish(struct tn_work_socket *s);
/* All of them as the first event of a stream: malloc'ed; NULL: out of memory. */
char *tn_work_runs_event(const struct tn_work_socket *s, size_t *len);

/* ---- socket_commits.c ---------------------------------------------------- */

/* PUT /v1/jobs/ID/checkpoint of a run that was admitted, and POST /v1/jobs. */
void tn_work_commit_one(struct tn_work_socket *s, const struct tn_http_request *request,
                        uint32_t job, uint64_t epoch, struct tn_http_reply *reply);
void tn_work_commit_many(struct tn_work_socket *s, const struct tn_http_request *request,
                         struct tn_http_reply *reply);
/* A request that waits for its commits: answered if all of them are known. */
void tn_work_commits_answer(struct tn_work_socket *s, struct tn_work_commits *c,
                            struct tn_http_reply *reply);
/* Nobody waits for the answer any more. */
void tn_work_commits_forget(struct tn_work_socket *s, struct tn_work_commits *c);
void tn_work_commits_free(struct tn_work_socket *s);

#endif
