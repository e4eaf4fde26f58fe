/*
 * work/socket.h - TENURE_SOCKET of a worker: its programs read and store the checkpoints of their
 * jobs over HTTP on a Unix socket.
 *
 *   GET /v1/jobs                  the jobs that run here
 *   GET /v1/jobs/ID/checkpoint    what was stored last
 *   PUT /v1/jobs/ID/checkpoint    store another one; answered when it is durable
 *
 * The header Tenure-Epoch names the run: a program of a run that is over gets 409, and nothing is
 * written (J3).  PUT requires it.
 *
 * THREADS.  Every function may be called from any thread; none blocks but open and close.
 */
#ifndef TN_WORK_SOCKET_H
#define TN_WORK_SOCKET_H

#include <stdint.h>
#include <sys/types.h>

#include "tenure/store.h"

struct tn_work_socket;

struct tn_work_socket_options {
    const char *group, *id; /* not copied */
    uid_t user;             /* who may use it, besides root and ourselves; 0: nobody */
    void *arg;
    /* Hand a checkpoint to the driver; tn_work_socket_committed() follows if that is OK.  On the
     * server's thread; must not block. */
    enum tenure_status (*commit)(void *arg, uint32_t job, uint64_t epoch, const void *data,
                                 size_t len, uint64_t ticket, struct tenure_error *err);
};

/* Listens.  UNSUPPORTED without the HTTP module; CONFIG if no directory can be made. */
enum tenure_status tn_work_socket_open(const struct tn_work_socket_options *options,
                                       struct tn_work_socket **socket, struct tenure_error *err);
/* Accepts NULL. */
void tn_work_socket_close(struct tn_work_socket *socket);

/* "TENURE_SOCKET=/path", and the directory in which it is. */
const char *tn_work_socket_variable(const struct tn_work_socket *socket);
const char *tn_work_socket_dir(const struct tn_work_socket *socket);

/* A run begins, with the checkpoint of the last one (copied).  false: out of memory. */
bool tn_work_socket_begin(struct tn_work_socket *socket, uint32_t job, const char *id,
                          uint64_t epoch, const void *checkpoint, size_t len);
/* That run is over. */
void tn_work_socket_end(struct tn_work_socket *socket, uint32_t job);
/* What came of a commit. */
void tn_work_socket_committed(struct tn_work_socket *socket, uint64_t ticket,
                              enum tenure_status status, const char *detail);

#endif
