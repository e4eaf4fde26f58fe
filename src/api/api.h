/*
 * api/api.h - the HTTP side of an agent: probes, metrics, status, requests.
 *
 * docs/reference/openapi.yaml says what is answered.  Probes (/livez, /leader, ...) are
 * answered on the server's thread from atomics; whatever may block (requests,
 * the state) runs on a worker while its connection is parked.
 *
 * WHO MAY.  Reads are open, or need the token (reads_token).  Every change
 * needs the token, or comes over a Unix socket from our own user or root.
 * Without a token file no change is taken over TCP.
 */
#ifndef TN_API_API_H
#define TN_API_API_H

#include <jansson.h>
#include <stdio.h>

#include "status/election.h"

#define TN_API_LISTENERS 4

/* What may be asked of an election, and may block. */
enum tn_request_kind {
    TN_REQUEST_NONE,
    TN_REQUEST_HANDOVER,
    TN_REQUEST_STEP_DOWN,
    TN_REQUEST_PAUSE,
    TN_REQUEST_RESUME,
    TN_REQUEST_STATE,
};

/* Elections of other processes (agent/proxy.h): who passes requests on.  None of these blocks. */
struct tn_api_upstream {
    /* Begin; NULL with an answer if that cannot be.  Its path: as if there were one election. */
    void *(*send)(void *arg, struct tn_election *election, enum tn_request_kind kind,
                  const struct tn_http_request *request, struct tn_http_reply *reply);
    /* true: it is done, and reply is its answer. */
    bool (*collect)(void *call, struct tn_http_reply *reply);
    /* Nobody waits for it any more.  Accepts NULL. */
    void (*forget)(void *call);
};

/* A group of jobs that is answered for instead of elections (work/listen.h).  None of these blocks;
 * on the server's threads. */
struct tn_api_group {
    bool (*ready)(void *arg, char *why, size_t size);
    json_t *(*view)(void *arg, uint32_t limit);                   /* NULL: out of memory */
    json_t *(*find)(void *arg, const char *text, uint32_t limit); /* likewise */
    void (*metrics)(void *arg, FILE *out, bool openmetrics);
};

struct tn_api_options {
    /* "127.0.0.1:8080", "unix:/path"; ends with NULL */
    const char *listen[TN_API_LISTENERS + 1];
    const char *token_file;   /* NULL: no changes over TCP */
    bool reads_token;         /* reads need the token too; probes never do */
    const char *const *hosts; /* further names that Host may have; ends with NULL; may be NULL */
    const char *tls_cert, *tls_key;         /* PEM files; both or none */
    const char *tls_client_ca;              /* PEM file: clients must show a certificate of it */
    const struct tn_api_upstream *upstream; /* NULL: the elections are of this process */
    void *upstream_arg;
    const struct tn_api_group *group; /* NULL: elections */
    void *group_arg;
};

struct tn_api;

/*
 * Listen and answer for these elections, which must outlive it.  All strings
 * are copied.  CONFIG for what cannot work, UNAVAILABLE for a port that is
 * taken, UNSUPPORTED without the HTTP module.
 */
enum tenure_status tn_api_start(const struct tn_api_options *options,
                                struct tn_election *const *elections, size_t n, struct tn_api **api,
                                struct tenure_error *err);
/* Other elections from now on; all of them must outlive it.  NOMEM: nothing has changed. */
enum tenure_status tn_api_set(struct tn_api *api, struct tn_election *const *elections, size_t n,
                              struct tenure_error *err);
/* Accepts NULL.  Ends open streams and requests. */
void tn_api_stop(struct tn_api *api);
/* Something has changed: streams are told.  Never blocks. */
void tn_api_notify(void *api);
/* The TCP port of a listener; 0 for a Unix socket. */
uint16_t tn_api_port(const struct tn_api *api, size_t listener);
/*
 * The URL under which others reach the page: of the first listener with an address or a name, or,
 * if it listens everywhere, with the first of the further names.  "": there is none.  api tells the
 * port that was given to port 0; it may be NULL.
 */
void tn_api_page_url(const struct tn_api_options *options, const struct tn_api *api, char *out,
                     size_t size);

#endif
