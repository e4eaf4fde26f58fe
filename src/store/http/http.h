/*
 * store/http/http.h - HTTP for stores that speak JSON: libcurl, with deadlines that
 * count suspended time, a descriptor that cancels, and the knowledge whether a
 * request may have left.
 *
 * Nothing is taken from the environment: no proxies, no netrc.
 */
#ifndef TN_STORE_HTTP_HTTP_H
#define TN_STORE_HTTP_HTTP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "store/remote.h"
#include "tenure/status.h"

/* The strings must outlive what is made with them. */
struct tn_http_conf {
    const char *ca_file; /* NULL: the system's; else nobody's but these */
    const char *cert_file, *key_file;
    const char *ca_data, *cert_data, *key_data; /* the same as PEM text, instead of a file */
    bool blind;                                 /* do not verify the server */
    int cancel_fd; /* readable: whatever is being awaited ends with CANCELLED; -1 for none */
};

/* TLS as the URL of a server asks for it. */
static inline struct tn_http_conf tn_http_conf_of(const struct tn_remote *remote)
{
    return (struct tn_http_conf){
        .ca_file = remote->ca_file,
        .cert_file = remote->cert_file,
        .key_file = remote->key_file,
        .blind = remote->blind,
        .cancel_fd = -1,
    };
}

struct tn_http_request {
    const char *method; /* "POST" */
    const char *url;
    const char *const *headers; /* "Name: value", ended by NULL; may be NULL */
    const void *body;           /* may be NULL */
    size_t len;
    size_t answer_max; /* bytes; more is hostile */
    int64_t connect_by;
    bool once;  /* never sent twice: libcurl repeats what broke on a kept connection */
    bool fresh; /* on a connection that was not used before: the others stay free for calls */
    bool part;  /* the connection of a refusal (300 and above) is not used again: some servers
                 * close it without a word */
    const char *header; /* the name of a header of the answer that is wanted; may be NULL */
};

#define TN_HTTP_HEADER_MAX 127

struct tn_http_answer {
    long code;
    char *body; /* malloc'ed, terminated; the caller frees it */
    size_t len;
    long retry_after; /* seconds that the server wants to be left alone; 0: it does not say */
    bool sent;        /* the request may have reached the server; valid on failure too */
    char header[TN_HTTP_HEADER_MAX + 1]; /* the one that was wanted; "": missing, or too long */
};

struct tn_http;

/* NULL if there is no memory.  conf must outlive it.  Thread-safe. */
struct tn_http *tn_http_new(const struct tn_http_conf *conf);
/* Accepts NULL. */
void tn_http_free(struct tn_http *http);

/*
 * One request and its answer, whatever its code.  TIMEOUT, CANCELLED,
 * UNAVAILABLE, DENIED (certificates), CONFIG (their files), NOMEM; then
 * answer->body is NULL.  What is not answered in time goes on without anybody
 * who waits, for a while, so that its connection is there for the next request;
 * a change that has not left is not sent any more.
 */
enum tenure_status tn_http_call(struct tn_http *http, const struct tn_http_request *request,
                                int64_t deadline, struct tn_http_answer *answer,
                                struct tenure_error *err);

/* One of several requests; see tn_http_call_all(). */
struct tn_http_exchange {
    struct tn_http_request request;
    struct tn_http_answer answer;
    enum tenure_status status;
    struct tenure_error err; /* if status is not OK */
};

/*
 * The same for several at once, each on a connection of its own, which is kept; connect_by is the
 * deadline.  What is not answered in time ends with it.
 */
void tn_http_call_all(struct tn_http *http, struct tn_http_exchange *exchanges, size_t n,
                      int64_t deadline);

/* A request whose answer does not end: lines that come when they come. */
struct tn_http_stream;

/*
 * Begin to send it; NULL: no memory.  Then wait for the answer's head: after TIMEOUT and CANCELLED
 * a later call goes on, anything else but OK is the end of it.
 */
struct tn_http_stream *tn_http_stream_begin(const struct tn_http_conf *conf,
                                            const struct tn_http_request *request);
enum tenure_status tn_http_stream_head(struct tn_http_stream *stream, int64_t deadline, long *code,
                                       struct tenure_error *err);
/*
 * Both in one, driven together with everything else of http, which must outlive
 * it: while one of them is waited for, the others take in what comes.  *code is
 * not 200 if the server refused; the lines are its reasons then.
 */
enum tenure_status tn_http_stream_join(struct tn_http *http, const struct tn_http_request *request,
                                       int64_t deadline, struct tn_http_stream **stream, long *code,
                                       struct tenure_error *err);
/* As tn_http_stream_begin(), driven as by tn_http_stream_join(), whose code is then for
 * tn_http_stream_head() to tell: a long poll has no head until something happens. */
struct tn_http_stream *tn_http_stream_add(struct tn_http *http,
                                          const struct tn_http_request *request);
/* As in an answer. */
long tn_http_stream_retry_after(const struct tn_http_stream *stream);
/* A header of the answer, once its head has come; "": missing, or too long. */
void tn_http_stream_header(const struct tn_http_stream *stream, const char *name,
                           char out[TN_HTTP_HEADER_MAX + 1]);
/* The answer is complete, or will never be. */
bool tn_http_stream_ended(const struct tn_http_stream *stream);
/* Accepts NULL. */
void tn_http_stream_close(struct tn_http_stream *stream);
/*
 * Wait until one of the joined streams has a line, or has ended.  TIMEOUT,
 * CANCELLED.
 */
enum tenure_status tn_http_streams_wait(struct tn_http_stream *const *streams, size_t n,
                                        int64_t deadline, struct tenure_error *err);
/*
 * The next line, terminated, without its line break; valid until the next
 * call.  TIMEOUT; CANCELLED if conf's cancel_fd became readable; UNAVAILABLE
 * when the stream has ended, which is all that it is good for then.  A deadline
 * in the past only looks at what is there.
 */
enum tenure_status tn_http_stream_line(struct tn_http_stream *stream, int64_t deadline, char **line,
                                       struct tenure_error *err);

#endif
