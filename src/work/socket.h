/*
 * work/socket.h - TENURE_SOCKET of a worker: its programs read and store the checkpoints of their
 * jobs over HTTP on a Unix socket, and a program that has many jobs learns of them there.
 *
 *   GET  /v1/jobs                 the jobs that run here
 *   GET  /v1/jobs?stream=1        ... and what becomes of them, as server-sent events
 *   POST /v1/jobs                 store the checkpoints of many; answered when all are durable
 *   GET  /v1/jobs/ID/checkpoint   what was stored last
 *   PUT  /v1/jobs/ID/checkpoint   store another one; answered when it is durable
 *   POST /v1/jobs/ID/stopped      that run has ended: with --one-program
 *
 * The header Tenure-Epoch names the run: a program of a run that is over gets 409, and nothing is
 * written (J3), nothing ended.  PUT and POST require it.
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
    /* A program says that this run has ended.  NULL: no program can.  Likewise. */
    void (*stopped)(void *arg, uint32_t job, uint64_t epoch);
};

/* Listens.  UNSUPPORTED without the HTTP module; CONFIG if no directory can be made. */
enum tenure_status tn_work_socket_open(const struct tn_work_socket_options *options,
                                       struct tn_work_socket **socket, struct tenure_error *err);
/* Accepts NULL. */
void tn_work_socket_close(struct tn_work_socket *socket);

/* "TENURE_SOCKET=/path", and the directory in which it is. */
const char *tn_work_socket_variable(const struct tn_work_socket *socket);
const char *tn_work_socket_dir(const struct tn_work_socket *socket);

/* A run begins, with the checkpoint of the last one (copied).  It is not shown yet.  false: out of
 * memory. */
bool tn_work_socket_begin(struct tn_work_socket *socket, uint32_t job, const char *id,
                          uint64_t epoch, const void *checkpoint, size_t len);
/* It is shown, with its specification (copied; may be NULL).  false: out of memory. */
bool tn_work_socket_give(struct tn_work_socket *socket, uint32_t job, const void *spec, size_t len);
/* Its program is to end it by then; why is a literal. */
void tn_work_socket_revoke(struct tn_work_socket *socket, uint32_t job, int64_t by_ns,
                           const char *why);
/* The membership is lost, or the worker leaves: everything is to end by then. */
void tn_work_socket_ending(struct tn_work_socket *socket, bool lost, int64_t by_ns,
                           const char *why);
/* Send the events of all that to those who listen, together. */
void tn_work_socket_publish(struct tn_work_socket *socket);
/* That run is over. */
void tn_work_socket_end(struct tn_work_socket *socket, uint32_t job);
/* What came of a commit. */
void tn_work_socket_committed(struct tn_work_socket *socket, uint64_t ticket,
                              enum tenure_status status, const char *detail);

#endif
