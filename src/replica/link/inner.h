/*
 * replica/link/inner.h - connections: from the socket to whole messages.
 *
 *   open.c       the configuration, opening and closing
 *   transport.c  the thread: the listener, and what is due
 *   target.c     a node to connect to, and its back-off
 *   peer.c       one connection: its states, its bytes in and out, its times
 *   frames.c     messages as frames (wslay), and the queue of those to send
 *   handshake.c  the HTTP request that a connection begins with, and its answer
 *   tls.c        certificates (GnuTLS)
 *
 * Everything belongs to the transport's thread but for what `lock` guards.  A peer is hostile: each
 * of its states has a deadline and a bound on what is kept for it.
 */
#ifndef TN_REPLICA_LINK_INNER_H
#define TN_REPLICA_LINK_INNER_H

#include <gnutls/gnutls.h>
#include <wslay/wslay.h>

#include "http/listen.h"
#include "os/loop.h"
#include "os/resolve.h"
#include "os/worker.h"
#include "replica/link/module.h"
#include "tenure/store.h"

#define TN_LINK_PATH          "/v1/replicate/"
#define TN_LINK_SUBPROTOCOL   "tenure.1"
#define TN_LINK_OPEN_MAX      64u   /* connections from outside */
#define TN_LINK_STRANGERS_MAX 16u   /* ... that have not said who they are */
#define TN_LINK_HEADERS_MAX   8192u /* bytes of a request or an answer */
#define TN_LINK_HANDSHAKE_NS  INT64_C(5000000000)
#define TN_LINK_GOODBYE_NS    INT64_C(1000000000) /* to send what is left */
#define TN_LINK_BUFFER        65536u
#define TN_LINK_TURN_BYTES    (256u << 10) /* of one peer, before others have their turn */
#define TN_LINK_WHY_MAX       300

struct tn_credentials;

enum tn_peer_state {
    TN_PEER_CONNECTING,
    TN_PEER_TLS,
    TN_PEER_REQUEST, /* the head of the request or of its answer is awaited */
    TN_PEER_OPEN,
    TN_PEER_LINGERING, /* the last word is on its way: it ends when the peer has read it */
    TN_PEER_DEAD,      /* freed at the end of the turn */
};

struct tn_queued {
    struct tn_queued *next;
    size_t size;
    uint8_t bytes[];
};

struct tn_target {
    struct tn_transport *transport;
    char *host, *port;
    char *address; /* as it was given */
    struct tn_addresses found;
    unsigned next;        /* of them */
    struct tn_peer *peer; /* that connects, or is open */
    bool resolving;
    int64_t at_ns, wait_ns; /* when to try again; how long that took the last time */
    char told[TN_LINK_WHY_MAX];
};

struct tn_peer {
    struct tn_transport *transport;
    struct tn_peer *next;
    struct tn_target *target; /* NULL: it came from outside */
    enum tn_peer_state state;
    int fd;
    uint32_t events; /* that are waited for */
    struct tn_peer_identity who;
    int64_t deadline_ns; /* of the state; TN_NEVER: none */
    int64_t heard_ns, ping_ns, opened_ns;
    bool more; /* there may be more to read than poll knows of */

    struct tn_credentials *credentials;
    gnutls_session_t tls;
    bool tls_retry;                 /* what was given to GnuTLS is not sent yet */
    char key[29];                   /* outbound: what the answer must hold */
    uint8_t *in, *out;              /* TN_LINK_BUFFER each */
    size_t in_at, in_end;           /* unread */
    size_t out_at, out_end;         /* unsent */
    size_t turn;                    /* bytes that may still be read in this turn */
    wslay_event_context_ptr frames; /* once it is open */
    size_t under_way;               /* bytes of the message that frames has */
    bool goodbye;                   /* the closing frame is queued */
    bool shut;                      /* lingering: nothing more is sent */
    char why[TN_LINK_WHY_MAX];      /* it ended */

    /* Guarded by the transport's lock. */
    struct tn_queued *queue, **queue_end;
    size_t queued;
    bool full; /* something was refused: drained() is due */
    bool ended, closing;
    char closing_why[TN_LINK_WHY_MAX];
};

struct tn_transport {
    struct tn_transport_conf conf; /* the strings are copies */
    char *strings[16];
    unsigned n_strings;
    const struct tn_transport_events *events;
    void *ctx;

    pthread_t thread;
    struct tn_loop loop;
    struct tn_call wake;
    struct tn_watch poll_watch;
    struct tn_timer timer;
    struct tn_worker *worker; /* names to addresses */
    int poll_fd;
    struct tn_listener listener; /* fd -1: none */
    int64_t listen_ns;           /* no descriptor was left: accept again at this time */
    bool woken;                  /* other threads have left something */

    struct tn_peer *peers; /* the newest first */
    struct tn_target *targets;
    size_t target_count;
    struct tn_credentials *credentials;
    int64_t told_ns;
    unsigned untold; /* refusals since */

    pthread_mutex_t lock;
    bool stop;
};

/* ---- transport.c ----------------------------------------------------------- */

void tn_transport_wake(struct tn_transport *t);
/* The thread, and what its loop calls. */
void *tn_transport_run(void *arg);
void tn_transport_ready(void *arg, short events);
void tn_transport_woken(struct tn_call *call);
void tn_transport_listen_again(struct tn_transport *t);
/* Free the peers that have ended. */
void tn_transport_sweep(struct tn_transport *t);
/* A connection did not come about. */
void tn_transport_failed(struct tn_transport *t, struct tn_target *target, const char *address,
                         const char *why);

/* ---- target.c -------------------------------------------------------------- */

void tn_target_begin(struct tn_target *target);
/* Its connection is over. */
void tn_target_lost(struct tn_target *target, const struct tn_peer *p);

/* ---- peer.c ---------------------------------------------------------------- */

/* Takes fd, also on failure (NULL). */
struct tn_peer *tn_peer_new(struct tn_transport *t, int fd, struct tn_target *target,
                            const char *address);
void tn_peer_free(struct tn_peer *p);
void tn_peer_ready(struct tn_peer *p, uint32_t events);
/* Its deadlines, and what other threads have left for it. */
void tn_peer_turn(struct tn_peer *p, int64_t now);
int64_t tn_peer_next(const struct tn_peer *p);
/* The connection is over; why stays if there is one already. */
void tn_peer_end(struct tn_peer *p, const char *format, ...) TENURE_PRINTF(2, 3);
/* Send what is in p->out, wait for the peer to read it, then end. */
void tn_peer_linger(struct tn_peer *p);
/* The handshake is done. */
void tn_peer_opened(struct tn_peer *p);
/* More bytes into p->in, which has room.  > 0: so many; 0: not now; -1: it has ended. */
ssize_t tn_peer_fill(struct tn_peer *p);
/* Send p->out.  false: not all of it, or it has ended. */
bool tn_peer_flush(struct tn_peer *p);
/* Append to p->out; how many bytes were taken. */
size_t tn_peer_put(struct tn_peer *p, const void *bytes, size_t n);

/* ---- frames.c -------------------------------------------------------------- */

/* Also after it has failed, with tn_frames_free(). */
bool tn_frames_begin(struct tn_peer *p);
void tn_frames_free(struct tn_peer *p);
void tn_frames_read(struct tn_peer *p);
void tn_frames_write(struct tn_peer *p);
void tn_frames_ping(struct tn_peer *p);
bool tn_frames_want_read(const struct tn_peer *p);
bool tn_frames_want_write(struct tn_peer *p);
enum tenure_status tn_frames_send(struct tn_peer *p, const void *bytes, size_t size);

/* ---- handshake.c ----------------------------------------------------------- */

/* The token or the password can be read now. */
enum tenure_status tn_handshake_check(const struct tn_transport_conf *conf,
                                      struct tenure_error *err);
/* Outbound: put the request into p->out. */
void tn_handshake_ask(struct tn_peer *p);
/* There is something in p->in.  The state is another one when the handshake is over. */
void tn_handshake_read(struct tn_peer *p);

/* ---- tls.c ----------------------------------------------------------------- */

/* The configured files make sense.  Does nothing without TLS. */
enum tenure_status tn_tls_open(struct tn_transport *t, struct tenure_error *err);
void tn_tls_close(struct tn_transport *t);
/* A session for the peer, which ends if there can be none. */
void tn_tls_begin(struct tn_peer *p);
void tn_tls_end(struct tn_peer *p);
/* Why the handshake failed, for people. */
void tn_tls_fault(struct tn_peer *p, int code, char out[TN_LINK_WHY_MAX]);
static inline bool tn_tls_inbound(const struct tn_transport_conf *conf)
{
    return conf->tls_cert != NULL;
}
static inline bool tn_tls_outbound(const struct tn_transport_conf *conf)
{
    return conf->tls_cert != NULL || conf->tls_ca != NULL;
}

#endif
