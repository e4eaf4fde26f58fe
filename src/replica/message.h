/*
 * replica/message.h - what the nodes of a replicated state say to each other, as bytes.
 *
 * docs/reference/replication-link.md has the layout.  Every message begins with a version, a kind
 * and the highest epoch that its sender has seen (R9).  Numbers are little endian.  A message may
 * carry items behind its head: names of documents (HELLO, WANTS) or documents (GROUP).
 *
 * A peer is hostile input: what tn_message_decode() takes is whole, in order and within bounds.
 * A refusal has the same layout in every version, so that both sides can say why they part.
 */
#ifndef TN_REPLICA_MESSAGE_H
#define TN_REPLICA_MESSAGE_H

#include "core/replica/replica.h"
#include "replica/transport.h"
#include "tenure/elector.h"

#define TN_MESSAGE_VERSION     1u
#define TN_MESSAGE_HEAD_MAX    4096u                     /* a head, without the items */
#define TN_DOCUMENT_MAX        (TENURE_DATA_MAX + 4096u) /* bytes of one: a value and its frame */
#define TN_DOCUMENT_NAME_MAX   255u                      /* bytes of a collection, and of an id */
#define TN_MESSAGE_TEXT_MAX    255u                      /* bytes of what a refusal tells people */
#define TN_FILTER_DIGEST_SIZE  32u
#define TN_MESSAGE_CLOCK_AHEAD INT64_C(86400000) /* ms: more is refused (R19) */

enum tn_message_kind {
    TN_MESSAGE_HELLO = 1, /* hello, names: the documents that it wants; the last of them */
    TN_MESSAGE_WANTS,     /* names: more of them, before the hello that they belong to */
    TN_MESSAGE_GROUP,     /* group, documents */
    TN_MESSAGE_STATUS,    /* group, from its end to its end: where the sender is */
    TN_MESSAGE_ACK,       /* ack: of the sender */
    TN_MESSAGE_FORWARD,   /* ack: of somebody behind the sender */
    TN_MESSAGE_REFUSAL,   /* refusal */
};

/* What a node can do beyond this version; bits that are not known are passed over. */
enum tn_message_capability { TN_CAN_NOTHING_ELSE = 0 };

enum tn_refusal_reason {
    TN_REFUSED_EPOCH = 1, /* a later one was seen: the message's (R9) */
    TN_REFUSED_VERSION,
    TN_REFUSED_ELECTION,
    TN_REFUSED_CLOCK, /* more than a day ahead (R19) */
    TN_REFUSED_MALFORMED,
    TN_REFUSED_TOO_LARGE, /* a document that this node cannot keep */
    TN_REFUSED_OTHER,     /* see the text */
};

struct tn_message_hello {
    struct tn_hello core;
    char election[TENURE_NAME_MAX + 1];
    char node[TENURE_ID_MAX + 1];
    bool observer;
    uint64_t capabilities;
    uint64_t clock_ms;                     /* its wall clock */
    uint8_t filter[TN_FILTER_DIGEST_SIZE]; /* zero: it takes everything */
    uint32_t wants; /* how many names in all: those in WANTS messages, and its own */
};

struct tn_message_refusal {
    enum tn_refusal_reason reason;
    uint32_t version; /* the highest that the sender speaks */
    char text[TN_MESSAGE_TEXT_MAX + 1];
};

enum tn_document_state {
    TN_DOCUMENT_THERE,
    TN_DOCUMENT_DELETED, /* bytes: what outlives it, or none */
    TN_DOCUMENT_ABSENT,  /* there was none, as an answer to a want: n is 0 */
};

/* The strings are not terminated, hold no NUL, and live as long as the message's bytes. */
struct tn_document_name {
    const char *collection, *id;
    uint8_t collection_len, id_len;
};

struct tn_message_document {
    struct tn_document_name name;
    enum tn_document_state state;
    uint64_t n; /* its last change: in (from, to]; of one that was wanted, at or below from */
    const uint8_t *bytes;
    uint32_t size;
};

/* Items that have been checked: walk them with tn_message_next(). */
struct tn_message_items {
    const uint8_t *at, *end;
    uint32_t count; /* that are left */
    bool documents;
};

struct tn_message {
    enum tn_message_kind kind;
    uint64_t epoch; /* = that of the hello, group or ack */
    union {
        struct tn_message_hello hello;
        struct tn_group group; /* GROUP, STATUS */
        struct tn_replica_ack ack;
        struct tn_message_refusal refusal;
    };
    uint64_t clock_ms; /* GROUP, STATUS: the sender's wall clock */
    struct tn_message_items items;
};

/*
 * The message points into bytes.  CORRUPT: these bytes are no message; UNSUPPORTED: of another
 * version.  The text says what is wrong with it; out is undefined then.
 */
enum tenure_status tn_message_decode(const uint8_t *bytes, size_t size, struct tn_message *out,
                                     struct tenure_error *err);
/* The next one; false: there is none.  Names have only their name. */
bool tn_message_next(struct tn_message_items *items, struct tn_message_document *item);

/*
 * Is this message, of a peer at a well-formed link, one to act upon?  0: yes; else the reason to
 * refuse it with, and err tells people what to do.
 */
enum tn_refusal_reason tn_message_check(const struct tn_message *message, const char *election,
                                        uint64_t now_ms, struct tenure_error *err);
/* "another election", for logs and metrics. */
const char *tn_refusal_word(enum tn_refusal_reason reason);
/* The reason that goes with what tn_message_decode() returned. */
enum tn_refusal_reason tn_refusal_of(enum tenure_status decoded);

/* ---- Writing: items first, then the head ----------------------------------- */

/* Zero it before the first use; it is used again for message after message. */
struct tn_message_writer {
    uint8_t *buffer;
    size_t cap, end;
    uint32_t count;
};

/*
 * Append.  UNAVAILABLE: the message is full: finish it, and add this one to the next.  INVALID: no
 * message can hold it (the text says why).  NOMEM.  Nothing was added then.
 */
enum tenure_status tn_message_add_name(struct tn_message_writer *w,
                                       const struct tn_document_name *name,
                                       struct tenure_error *err);
enum tenure_status tn_message_add_document(struct tn_message_writer *w,
                                           const struct tn_message_document *document,
                                           struct tenure_error *err);
/*
 * Put the head before what was added, and begin anew.  *bytes live until the next call with w.
 * The items of `message` and its epoch (but for a refusal's) are not looked at.  NOMEM.
 */
enum tenure_status tn_message_finish(struct tn_message_writer *w, const struct tn_message *message,
                                     const uint8_t **bytes, size_t *size, struct tenure_error *err);
/* Accepts a zeroed one. */
void tn_message_writer_free(struct tn_message_writer *w);

#endif
