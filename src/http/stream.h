/*
 * http/stream.h - messages to many open answers (server-sent events).
 *
 * A channel keeps its last messages in a ring; each stream has its place in
 * it.  A stream that has sent everything is suspended, which costs nothing,
 * until the next message.
 */
#ifndef TN_HTTP_STREAM_H
#define TN_HTTP_STREAM_H

#include <microhttpd.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Messages are whole states of some kilobytes: who has missed so many misses nothing. */
#define TN_STREAM_RING 16

struct tn_message {
    char *text;
    size_t len;
};

struct tn_stream {
    struct tn_stream *prev, *next;
    struct tn_channel *channel;
    struct MHD_Connection *connection;
    char *head; /* what the handler said first; sent before any message */
    size_t head_len, head_sent;
    uint64_t at; /* number of the message being sent */
    size_t sent; /* bytes of it that are out */
    bool suspended;
    bool each; /* a message that is gone ends it */
};

struct tn_channel {
    pthread_mutex_t *lock; /* the server's */
    struct tn_message ring[TN_STREAM_RING];
    uint64_t count; /* messages so far; the newest is count - 1 */
    struct tn_stream *streams;
    unsigned n_streams;
    bool closed;
};

/* An answer that stays open.  head (malloc'ed) is taken over.  from: NULL, or the first message
 * that it needs, and then each after that.  NULL: out of memory. */
struct MHD_Response *tn_stream_response(struct tn_channel *channel,
                                        struct MHD_Connection *connection, char *head, size_t len,
                                        const uint64_t *from);
/* Under no lock. */
void tn_channel_publish(struct tn_channel *channel, const char *text, size_t len);
/* End all streams; before the server stops. */
void tn_channel_close(struct tn_channel *channel);
/* After the server has stopped. */
void tn_channel_free(struct tn_channel *channel);

#endif
