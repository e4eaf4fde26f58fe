/* api/inner.h - the listener's state; api.c and its sisters share it. */
#ifndef TN_API_INNER_H
#define TN_API_INNER_H

#include <pthread.h>
#include <stdatomic.h>

#include "api/api.h"
#include "api/wire.h"
#include "os/log.h"

#define TN_TOKEN_MAX 256
#define TN_HOSTS_MAX 32

/* ---- Who may: access.c --------------------------------------------------- */

struct tn_access {
    char *token_file; /* NULL: none */
    bool reads_token;
    char *hosts[TN_HOSTS_MAX + 1];
    size_t n_hosts;

    pthread_mutex_t lock; /* of the token */
    char token[TN_TOKEN_MAX + 1];
    int64_t checked_ns;
    struct {
        int64_t s, ns;
        uint64_t inode, size;
    } mark; /* of the file, when it was read */
    bool complained;
    struct tn_log_gate wrong; /* tokens */
};

/* What a header Authorization holds. */
enum tn_token { TN_TOKEN_NONE, TN_TOKEN_WRONG, TN_TOKEN_RIGHT };

enum tenure_status tn_access_open(struct tn_access *a, const struct tn_api_options *options,
                                  struct tenure_error *err);
void tn_access_close(struct tn_access *a);
/* Is that the token?  authorization is a header's value, or NULL. */
enum tn_token tn_access_token(struct tn_access *a, const char *authorization);
/* May this request change something, or is it refused: answered, and a wrong token logged. */
bool tn_access_check(struct tn_access *a, const struct tn_http_request *request,
                     struct tn_http_reply *reply);
/* May Host be that?  A name that is not ours is how a page of elsewhere asks (rebinding). */
bool tn_access_host(const struct tn_access *a, const char *host);
/* "127.0.0.1:80", "[::1]:80", "localhost:80", "unix:/x": not to be reached from elsewhere. */
bool tn_access_is_loopback(const char *listen);
/* A Unix socket. */
bool tn_access_is_local(const char *listen);
/* Under which URL others reach a listener that has this port.  false: under none. */
bool tn_access_url(const struct tn_api_options *options, size_t listener, unsigned port, char *out,
                   size_t size);

/* ---- What may block: jobs.c ---------------------------------------------- */

struct tn_jobs; /* counted references: a request may outlive the listener */
struct tn_job;

/* event_fd is written to whenever one is done. */
struct tn_jobs *tn_jobs_new(int event_fd);
/* Waits for what uses an election, and a moment for the rest.  Accepts NULL. */
void tn_jobs_close(struct tn_jobs *jobs);
/* Start what this request asks for.  NULL with an answer if that cannot be. */
typedef void (*tn_job_fn)(struct tn_job *job);
struct tn_job *tn_job_start(struct tn_jobs *jobs, enum tn_request_kind kind,
                            struct tn_election *election, const struct tn_http_request *request,
                            struct tn_http_reply *reply);
/* The answer, once it is done; else NULL.  Its body is the job's. */
const struct tn_http_reply *tn_job_reply(struct tn_job *job);
/* true: it is done, and reply is its answer, with its body. */
bool tn_job_collect(struct tn_job *job, struct tn_http_reply *reply);
/* Nobody waits for it any more.  Accepts NULL. */
void tn_job_forget(struct tn_job *job);

/* requests.c: what they do. */
extern const tn_job_fn tn_request_fns[TN_REQUEST_STATE + 1];

/* ---- Certificates: tls.c ------------------------------------------------- */

/* Which files the certificate and its key were read from. */
struct tn_tls_watch {
    const char *cert_file, *key_file, *ca_file;
    pthread_mutex_t lock; /* of cert, key and client_ca */
    int64_t checked_ns;
    struct {
        int64_t s, ns;
        uint64_t inode, size;
    } mark[3]; /* of the files, when they were read */
    bool complained, ca_complained;
};

struct tn_api;
enum tenure_status tn_api_tls_open(struct tn_api *api, const struct tn_api_options *options,
                                   struct tenure_error *err);
void tn_api_tls_close(struct tn_api *api);
/* A client is about to be shown the certificate: have the files been replaced? */
void tn_api_tls_due(void *api, struct tn_http_server *server);

/* ---- The listener -------------------------------------------------------- */

/* The elections, in order.  Never changed: another one takes its place. */
struct tn_api_list {
    struct tn_api_list *former; /* kept to the end: somebody may be reading it */
    size_t n;
    struct tn_election *elections[];
};

struct tn_api {
    struct tn_access access;
    _Atomic(struct tn_api_list *) list;
    const struct tn_api_upstream *upstream; /* NULL: all is here */
    void *upstream_arg;
    const struct tn_api_group *group; /* NULL: it answers for elections */
    void *group_arg;
    char host[256];
    uint64_t started_ms;

    const struct tn_http_ops *http;
    struct tn_http_server *servers[TN_API_LISTENERS];
    size_t n_servers;
    char *cert, *key, *client_ca; /* PEM */
    struct tn_tls_watch tls_watch;

    struct tn_jobs *jobs;
    int event_fd;       /* something changed, a request is done, or somebody waits */
    _Atomic bool parks; /* somebody is about to be parked: not counted yet, but soon */
    pthread_t thread;
    bool thread_started;
    _Atomic bool ending;
};

/* answers.c: e is the election that was named, or the only one; else NULL. */
typedef void tn_answer(struct tn_api *api, struct tn_election *e,
                       const struct tn_http_request *request, struct tn_http_reply *reply);
tn_answer tn_answer_livez, tn_answer_leader, tn_answer_standby, tn_answer_readyz, tn_answer_healthz,
    tn_answer_page, tn_answer_openapi, tn_answer_metrics, tn_answer_status, tn_answer_elections,
    tn_answer_election, tn_answer_history, tn_answer_candidates, tn_answer_leadership;

/* group.c: of a group of jobs.  A worker's own ones that are named, unless more are asked for. */
#define TN_GROUP_JOBS 1000u
tn_answer tn_answer_group_readyz, tn_answer_group_metrics, tn_answer_group, tn_answer_group_page;

/* Parts of answers. */
void tn_reply_yes(struct tn_http_reply *reply);
void tn_reply_no(struct tn_http_reply *reply, const char *why); /* 503 */
void tn_reply_no_store(struct tn_http_reply *reply);
/* What is answered stays open, and hears events. */
void tn_reply_stream(struct tn_api *api, struct tn_http_reply *reply);

/* routes.c */
bool tn_api_admit(void *api, const struct tn_http_request *request, struct tn_http_reply *reply);
void tn_api_answer(void *api, const struct tn_http_request *request, struct tn_http_reply *reply);
void tn_api_done(void *api, struct tn_http_memo *memo);

/* events.c */
/* What is parked is asked again at once.  Never blocks. */
void tn_api_wake(struct tn_api *api);
enum tenure_status tn_api_events_start(struct tn_api *api, struct tenure_error *err);
void tn_api_events_stop(struct tn_api *api);
/* What /_ha/status answers, or /v1/jobs; NULL: out of memory. */
json_t *tn_api_status(struct tn_api *api);
json_t *tn_api_group_view(struct tn_api *api, uint32_t limit);
/* It as a server-sent event; malloc'ed, NULL likewise. */
char *tn_api_event(struct tn_api *api, size_t *len);
void tn_api_count(struct tn_api *api, struct tn_http_counts *counts);

#endif
