#include "http/stream.h"

#include <stdlib.h>
#include <string.h>

/* Copy what comes next into buffer; 0 if there is nothing, -1 if the stream must end.  Under the
 * lock. */
static size_t copy_next(struct tn_stream *s, char *buffer, size_t max)
{
    struct tn_channel *c = s->channel;

    if (s->head_sent < s->head_len) {
        size_t n = s->head_len - s->head_sent < max ? s->head_len - s->head_sent : max;

        memcpy(buffer, s->head + s->head_sent, n);
        s->head_sent += n;
        return n;
    }
    /* Fallen behind: what is left of a message half sent is gone with it, so
     * only whole messages are skipped, between two of them. */
    if (s->sent == 0 && !s->each && c->count > TN_STREAM_RING && s->at < c->count - TN_STREAM_RING)
        s->at = c->count - TN_STREAM_RING;
    while (s->sent == 0 && s->at < c->count && !s->each && !c->ring[s->at % TN_STREAM_RING].text)
        s->at++; /* there was no memory for it, and the next one says it again */
    if (s->at >= c->count)
        return 0;
    if (c->count - s->at > TN_STREAM_RING)
        return (size_t)-1; /* one that is needed, or half sent, was overwritten */
    if (!c->ring[s->at % TN_STREAM_RING].text)
        return (size_t)-1; /* a message that the reader needs is gone: it must start again */
    const struct tn_message *m = &c->ring[s->at % TN_STREAM_RING];
    size_t n = m->len - s->sent < max ? m->len - s->sent : max;
    memcpy(buffer, m->text + s->sent, n);
    s->sent += n;
    if (s->sent == m->len) {
        s->at++;
        s->sent = 0;
    }
    return n;
}

static ssize_t next_bytes(void *cls, uint64_t position, char *buffer, size_t max)
{
    struct tn_stream *s = cls;
    ssize_t result;

    (void)position;
    pthread_mutex_lock(s->channel->lock);
    size_t n = copy_next(s, buffer, max);
    if (n == (size_t)-1 || (n == 0 && s->channel->closed)) {
        result = MHD_CONTENT_READER_END_OF_STREAM;
    } else {
        if (n == 0) {
            s->suspended = true;
            MHD_suspend_connection(s->connection);
        }
        result = (ssize_t)n;
    }
    pthread_mutex_unlock(s->channel->lock);
    return result;
}

static void end_stream(void *cls)
{
    struct tn_stream *s = cls;
    struct tn_channel *c = s->channel;

    pthread_mutex_lock(c->lock);
    if (s->prev)
        s->prev->next = s->next;
    else
        c->streams = s->next;
    if (s->next)
        s->next->prev = s->prev;
    c->n_streams--;
    pthread_mutex_unlock(c->lock);
    free(s->head);
    free(s);
}

struct MHD_Response *tn_stream_response(struct tn_channel *c, struct MHD_Connection *connection,
                                        char *head, size_t len, const uint64_t *from)
{
    struct tn_stream *s = calloc(1, sizeof *s);
    struct MHD_Response *response;

    if (!s)
        return NULL;
    s->channel = c;
    s->connection = connection;
    s->head = head;
    s->head_len = len;
    response = MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, 1024, next_bytes, s, end_stream);
    if (!response) {
        free(s);
        return NULL;
    }
    pthread_mutex_lock(c->lock);
    s->at = from ? *from : c->count;
    s->each = from != NULL;
    s->next = c->streams;
    if (s->next)
        s->next->prev = s;
    c->streams = s;
    c->n_streams++;
    pthread_mutex_unlock(c->lock);
    return response;
}

static void resume_all(struct tn_channel *c)
{
    for (struct tn_stream *s = c->streams; s; s = s->next) {
        if (s->suspended) {
            s->suspended = false;
            MHD_resume_connection(s->connection);
        }
    }
}

void tn_channel_publish(struct tn_channel *c, const char *text, size_t len)
{
    char *copy = malloc(len);

    if (copy)
        memcpy(copy, text, len);
    pthread_mutex_lock(c->lock);
    struct tn_message *m = &c->ring[c->count++ % TN_STREAM_RING];
    free(m->text);
    m->text = copy; /* NULL: it counts, so that those who need each notice that one is gone */
    m->len = copy ? len : 0;
    resume_all(c);
    pthread_mutex_unlock(c->lock);
}

void tn_channel_close(struct tn_channel *c)
{
    pthread_mutex_lock(c->lock);
    c->closed = true;
    resume_all(c);
    pthread_mutex_unlock(c->lock);
}

void tn_channel_free(struct tn_channel *c)
{
    for (int i = 0; i < TN_STREAM_RING; i++)
        free(c->ring[i].text);
}
