/*
 * agent/api.h - the HTTP side of an agent: probes, metrics, status, orders.
 *
 * docs/openapi.yaml says what is answered.  Probes (/livez, /leader, ...) are
 * answered on the server's thread from atomics; whatever may block (orders,
 * the state) runs on a worker while its connection is parked.
 *
 * WHO MAY.  Reads are open, or need the token (reads_token).  Every change
 * needs the token, or comes over a Unix socket from our own user or root.
 * Without a token file no change is taken over TCP.
 */
#ifndef TN_AGENT_API_H
#define TN_AGENT_API_H

#include "agent/election.h"

#define TN_API_LISTENERS 4

struct tn_api_options {
    const char *listen[TN_API_LISTENERS + 1]; /* "127.0.0.1:8080", "unix:/path"; ends with NULL */
    const char *token_file;                   /* NULL: no changes over TCP */
    bool reads_token;                         /* reads need the token too; probes never do */
    const char *const *hosts; /* further names that Host may have; ends with NULL; may be NULL */
    const char *tls_cert, *tls_key; /* PEM files; both or none */
    const char *tls_client_ca;      /* PEM file: clients must show a certificate of it */
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
/* Accepts NULL.  Ends open streams and orders. */
void tn_api_stop(struct tn_api *api);
/* The TCP port of a listener; 0 for a Unix socket. */
uint16_t tn_api_port(const struct tn_api *api, size_t listener);

#endif
