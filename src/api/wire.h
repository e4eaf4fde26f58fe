/*
 * api/wire.h - what an agent and the process of an election say to each other.
 *
 * One packet of a SOCK_SEQPACKET pair is one message: a head, and what its kind has behind it.
 * A body travels beside it, in a sealed memfd.  Neither end trusts the other:
 * whatever is received is of the size and within the bounds given here, or it is refused.
 * docs/adr/0017-agent-protocol.md.
 */
#ifndef TN_API_WIRE_H
#define TN_API_WIRE_H

#include "api/api.h"
#include "status/snapshot.h"

#define TN_WIRE_MAGIC    0x74656e75u
#define TN_WIRE_VERSION  3 /* rises with every change of a struct that is sent */
#define TN_WIRE_BODY_MAX (4u << 20)
#define TN_WIRE_PATH_MAX 16384
#define TN_WIRE_EPOCH    65 /* bytes of a header Tenure-Epoch, with its NUL */
#define TN_WIRE_OPEN_MAX 16 /* requests of one election without an answer */

enum tn_wire_kind {
    TN_WIRE_PING = 1, /* to the election; answered by SNAPSHOT with its number */
    TN_WIRE_SNAPSHOT, /* to the agent; a struct tn_election_snapshot and its lists */
    TN_WIRE_REQUEST,  /* to the election; answered by ANSWER with its number */
    TN_WIRE_ANSWER,   /* to the agent */
};

struct tn_wire_head {
    uint32_t magic;
    uint16_t version, kind;
    uint64_t number;
};

/* The path follows, without a NUL. */
struct tn_wire_request {
    uint32_t kind; /* enum tn_request_kind */
    uint32_t body_len;
    char method[8];
    char epoch[TN_WIRE_EPOCH]; /* the header Tenure-Epoch; "": none */
    char peer[TN_PEER_MAX];    /* who asked the agent */
};

#define TN_WIRE_HEADERS 4
/* Headers of an answer that are passed on. */
extern const char *const tn_wire_headers[TN_WIRE_HEADERS];

struct tn_wire_answer {
    uint32_t status, body_len;
    char type[64];                     /* "": none */
    char headers[TN_WIRE_HEADERS][64]; /* "": not there */
};

#define TN_WIRE_MAX (sizeof(struct tn_wire_head) + TN_SNAPSHOT_MAX)

/* A message as it is received. */
union tn_wire_buffer {
    struct tn_wire_head head;
    _Alignas(16) unsigned char bytes[TN_WIRE_MAX];
};

/* Send a message: its head, what is behind it in one or two parts, and a body.  Never blocks.
 * false: the other end takes no more for now (errno EAGAIN), it is gone, or there is no memory or
 * descriptor for it. */
struct tn_wire_part {
    const void *bytes;
    size_t len;
};
bool tn_wire_send(int socket, enum tn_wire_kind kind, uint64_t number, struct tn_wire_part first,
                  struct tn_wire_part second, struct tn_wire_part body);

/* A body came, but we had no descriptor left for it. */
#define TN_WIRE_BODY_LOST (-2)

/* Receive one.  1: it is in buffer, len is what follows its head, *body a descriptor, which is the
 * caller's, or -1, or TN_WIRE_BODY_LOST; 0: nothing is there; -1: the other end is gone, or speaks
 * another language. */
int tn_wire_receive(int socket, union tn_wire_buffer *buffer, size_t *len, int *body);

/* May a header have this value, within size bytes?  Nothing that would end its line. */
bool tn_wire_is_header(const char *text, size_t size);

/* What follows a head, taken apart; false: it is none (errno EPROTO), or there is no memory
 * (ENOMEM).  path is malloc'ed. */
bool tn_wire_read_request(const void *bytes, size_t len, struct tn_wire_request *request,
                          char **path);
bool tn_wire_read_answer(const void *bytes, size_t len, struct tn_wire_answer *answer);
/* The body behind a descriptor, which is closed; malloc'ed, with a NUL behind it.  NULL: it is not
 * sealed, not of that length, or too long (errno EPROTO), or it was lost or there is no memory
 * (ENOMEM).  fd -1: an empty one. */
unsigned char *tn_wire_read_body(int fd, size_t len);

#endif
