#include "http.h"

#include <curl/curl.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "os/clock.h"
#include "tenure/store.h"

#define FIRST_LOOK_MS 20
#define SLICE_MS      1000 /* without a timer: look at the clock so often */

/* One transfer in progress. */
struct transfer {
    const struct tn_http_conf *conf;
    CURLM *multi;
    CURL *easy;
    struct curl_slist *headers;
    char why[CURL_ERROR_SIZE];
    char *body;
    size_t len, cap, max;
    unsigned sent; /* how many times the request went out */
    bool once;
    bool too_long, no_memory;
    bool ended;
    CURLcode result;
};

struct tn_http {
    const struct tn_http_conf *conf;
    CURLM *multi; /* keeps the connections */
    CURL *easy;
};

struct tn_http_stream {
    struct transfer t;
    size_t taken; /* bytes of the body that were given out */
};

static pthread_once_t once = PTHREAD_ONCE_INIT;

static void init_curl(void)
{
    curl_global_init(CURL_GLOBAL_DEFAULT);
}

/* ---- Callbacks ----------------------------------------------------------- */

static size_t on_data(char *data, size_t size, size_t n, void *arg)
{
    struct transfer *t = arg;

    n *= size;
    if (n > t->max - t->len) {
        t->too_long = true;
        return 0;
    }
    if (t->len + n + 1 > t->cap) {
        size_t cap = t->cap * 2 > t->len + n + 1 ? t->cap * 2 : t->len + n + 1;
        char *grown = realloc(t->body, cap);

        if (!grown) {
            t->no_memory = true;
            return 0;
        }
        t->body = grown;
        t->cap = cap;
    }
    memcpy(t->body + t->len, data, n);
    t->len += n;
    t->body[t->len] = '\0';
    return n;
}

/* Connected; the request is about to leave.  A swap that broke on a kept
 * connection may have been carried out: it must not leave twice (C3). */
static int on_request(void *arg, char *remote, char *local, int remote_port, int local_port)
{
    struct transfer *t = arg;

    (void)remote;
    (void)local;
    (void)remote_port;
    (void)local_port;
    if (t->sent && t->once)
        return CURL_PREREQFUNC_ABORT;
    t->sent++;
    return CURL_PREREQFUNC_OK;
}

/* ---- Setting up ---------------------------------------------------------- */

static bool set_body(struct transfer *t, const struct tn_http_request *rq)
{
    CURL *e = t->easy;

    if (!rq->body)
        return true;
    return !curl_easy_setopt(e, CURLOPT_POST, 1L) &&
           !curl_easy_setopt(e, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)rq->len) &&
           !curl_easy_setopt(e, CURLOPT_POSTFIELDS, rq->body);
}

static bool set_headers(struct transfer *t, const struct tn_http_request *rq)
{
    /* No round trip to ask whether a large body is welcome. */
    t->headers = curl_slist_append(NULL, "Expect:");
    for (size_t i = 0; t->headers && rq->headers && rq->headers[i]; i++) {
        struct curl_slist *longer = curl_slist_append(t->headers, rq->headers[i]);

        if (!longer)
            return false;
        t->headers = longer;
    }
    return t->headers && !curl_easy_setopt(t->easy, CURLOPT_HTTPHEADER, t->headers);
}

static bool set_tls(struct transfer *t)
{
    const struct tn_http_conf *c = t->conf;
    CURL *e = t->easy;

    if (c->blind && (curl_easy_setopt(e, CURLOPT_SSL_VERIFYPEER, 0L) ||
                     curl_easy_setopt(e, CURLOPT_SSL_VERIFYHOST, 0L)))
        return false;
    if (c->ca_file && curl_easy_setopt(e, CURLOPT_CAINFO, c->ca_file))
        return false;
    /* An encrypted key is an error, not a prompt on somebody's terminal. */
    return !c->cert_file || (!curl_easy_setopt(e, CURLOPT_SSLCERT, c->cert_file) &&
                             !curl_easy_setopt(e, CURLOPT_SSLKEY, c->key_file) &&
                             !curl_easy_setopt(e, CURLOPT_KEYPASSWD, ""));
}

static bool set_up(struct transfer *t, const struct tn_http_request *rq)
{
    CURL *e = t->easy;
    long connect_ms = tn_poll_ms(rq->connect_by);

    curl_easy_reset(e);
    return !curl_easy_setopt(e, CURLOPT_URL, rq->url) &&
           !curl_easy_setopt(e, CURLOPT_PROTOCOLS_STR, "http,https") &&
           !curl_easy_setopt(e, CURLOPT_PROXY, "") && !curl_easy_setopt(e, CURLOPT_NOSIGNAL, 1L) &&
           !curl_easy_setopt(e, CURLOPT_QUICK_EXIT, 1L) &&
           !curl_easy_setopt(e, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1) &&
           !curl_easy_setopt(e, CURLOPT_TCP_KEEPALIVE, 1L) &&
           !curl_easy_setopt(e, CURLOPT_TCP_KEEPIDLE, 5L) &&
           !curl_easy_setopt(e, CURLOPT_TCP_KEEPINTVL, 3L) &&
           !curl_easy_setopt(e, CURLOPT_CONNECTTIMEOUT_MS, connect_ms ? connect_ms : 1L) &&
           !curl_easy_setopt(e, CURLOPT_ERRORBUFFER, t->why) &&
           !curl_easy_setopt(e, CURLOPT_WRITEFUNCTION, on_data) &&
           !curl_easy_setopt(e, CURLOPT_WRITEDATA, t) &&
           !curl_easy_setopt(e, CURLOPT_PREREQFUNCTION, on_request) &&
           !curl_easy_setopt(e, CURLOPT_PREREQDATA, t) && set_body(t, rq) &&
           !curl_easy_setopt(e, CURLOPT_CUSTOMREQUEST, rq->method) && set_headers(t, rq) &&
           set_tls(t) && curl_multi_add_handle(t->multi, e) == CURLM_OK;
}

/* ---- Driving ------------------------------------------------------------- */

static enum tenure_status explain(const struct transfer *t, struct tenure_error *err)
{
    const char *why = t->why[0] ? t->why : curl_easy_strerror(t->result);

    if (t->too_long)
        return tenure_fail(err, TENURE_UNAVAILABLE, "the answer is longer than %zu bytes", t->max);
    if (t->no_memory)
        return tenure_fail(err, TENURE_NOMEM, "out of memory for an answer");
    switch (t->result) {
    case CURLE_OPERATION_TIMEDOUT:
        return tenure_fail(err, TENURE_TIMEOUT, "%s", why);
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_ISSUER_ERROR:
        return tenure_fail(err, TENURE_DENIED, "the server's certificate is refused: %s", why);
    case CURLE_SSL_CERTPROBLEM:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_URL_MALFORMAT:
        return tenure_fail(err, TENURE_CONFIG, "%s", why);
    case CURLE_OUT_OF_MEMORY:
        return tenure_fail(err, TENURE_NOMEM, "out of memory");
    case CURLE_ABORTED_BY_CALLBACK:
        return tenure_fail(err, TENURE_UNAVAILABLE, "the connection broke before an answer came");
    default:
        return tenure_fail(err, TENURE_UNAVAILABLE, "%s", why);
    }
}

static void collect(struct transfer *t)
{
    CURLMsg *message;
    int left;

    while ((message = curl_multi_info_read(t->multi, &left))) {
        if (message->msg == CURLMSG_DONE && message->easy_handle == t->easy) {
            t->ended = true;
            t->result = message->data.result;
        }
    }
}

/* curl_multi_poll() until something happens; its clock stands still during a
 * suspend, so a timer that does not is among what it polls. */
static enum tenure_status pause_for(struct transfer *t, int timer, int64_t deadline,
                                    struct tenure_error *err)
{
    struct curl_waitfd extra[2] = {{.fd = timer, .events = CURL_WAIT_POLLIN},
                                   {.fd = t->conf->cancel_fd, .events = CURL_WAIT_POLLIN}};
    struct curl_waitfd *from = timer < 0 ? extra + 1 : extra;
    unsigned n = (timer >= 0) + (t->conf->cancel_fd >= 0);
    int ms = tn_poll_ms(deadline), limit = timer < 0 ? FIRST_LOOK_MS : SLICE_MS * 3600;

    if (tenure_now() >= deadline)
        return tenure_fail(err, TENURE_TIMEOUT, "the server did not answer in time");
    if (curl_multi_poll(t->multi, n ? from : NULL, n, ms < limit ? ms : limit, NULL) != CURLM_OK)
        return tenure_fail(err, TENURE_NOMEM, "out of memory");
    if (extra[1].revents)
        return tenure_fail(err, TENURE_CANCELLED, "cancelled by the caller");
    return TENURE_OK;
}

static int timer_until(int64_t deadline)
{
    int fd = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
    struct itimerspec when = {0};

    if (deadline < 1)
        deadline = 1;
    when.it_value.tv_sec = (time_t)(deadline / 1000000000);
    when.it_value.tv_nsec = (long)(deadline % 1000000000);
    if (fd >= 0)
        timerfd_settime(fd, TFD_TIMER_ABSTIME, &when, NULL);
    return fd;
}

/* Perform until ready() says so, or the transfer has ended. */
static enum tenure_status drive(struct transfer *t, bool (*ready)(const struct transfer *, void *),
                                void *arg, int64_t deadline, struct tenure_error *err)
{
    enum tenure_status status = TENURE_OK;
    int64_t began = tenure_now();
    int running, timer = -1;

    while (!status) {
        if (curl_multi_perform(t->multi, &running) != CURLM_OK) {
            status = tenure_fail(err, TENURE_NOMEM, "out of memory");
            break;
        }
        collect(t);
        if (t->ended || ready(t, arg))
            break;
        /* Nearly every answer is there before a timer is worth its price. */
        if (timer < 0 && tenure_now() - began > FIRST_LOOK_MS * INT64_C(1000000))
            timer = timer_until(deadline);
        status = pause_for(t, timer, deadline, err);
    }
    if (timer >= 0)
        close(timer);
    return status;
}

static bool never(const struct transfer *t, void *arg)
{
    (void)t;
    (void)arg;
    return false;
}

static void clean_up(struct transfer *t)
{
    curl_multi_remove_handle(t->multi, t->easy);
    curl_slist_free_all(t->headers);
    free(t->body);
}

/* ---- Requests ------------------------------------------------------------ */

struct tn_http *tn_http_new(const struct tn_http_conf *conf)
{
    struct tn_http *h = calloc(1, sizeof *h);

    pthread_once(&once, init_curl);
    if (!h)
        return NULL;
    h->conf = conf;
    h->multi = curl_multi_init();
    h->easy = curl_easy_init();
    if (h->multi && h->easy) {
        curl_multi_setopt(h->multi, CURLMOPT_MAXCONNECTS, 8L);
        return h;
    }
    tn_http_free(h);
    return NULL;
}

void tn_http_free(struct tn_http *h)
{
    if (!h)
        return;
    curl_easy_cleanup(h->easy);
    curl_multi_cleanup(h->multi);
    free(h);
}

enum tenure_status tn_http_call(struct tn_http *h, const struct tn_http_request *rq,
                                int64_t deadline, struct tn_http_answer *answer,
                                struct tenure_error *err)
{
    struct transfer t = {.conf = h->conf,
                         .multi = h->multi,
                         .easy = h->easy,
                         .max = rq->answer_max,
                         .once = rq->once};
    enum tenure_status status;

    memset(answer, 0, sizeof *answer);
    status = set_up(&t, rq) ? drive(&t, never, NULL, deadline, err)
                            : tenure_fail(err, TENURE_NOMEM, "out of memory for a request");
    if (!status && t.result)
        status = explain(&t, err);
    answer->sent = t.sent > 0;
    if (!status) {
        curl_easy_getinfo(t.easy, CURLINFO_RESPONSE_CODE, &answer->code);
        answer->body = t.body ? t.body : calloc(1, 1);
        answer->len = t.len;
        t.body = NULL;
        if (!answer->body)
            status = tenure_fail(err, TENURE_NOMEM, "out of memory for an answer");
    }
    clean_up(&t);
    return status;
}

/* ---- Streams ------------------------------------------------------------- */

static bool has_line(const struct transfer *t, void *arg)
{
    const size_t *from = arg;

    return t->len > *from && memchr(t->body + *from, '\n', t->len - *from);
}

static bool has_head(const struct transfer *t, void *arg)
{
    long code = 0;

    (void)arg;
    curl_easy_getinfo(t->easy, CURLINFO_RESPONSE_CODE, &code);
    return code >= 200;
}

void tn_http_stream_close(struct tn_http_stream *s)
{
    if (!s)
        return;
    if (s->t.multi && s->t.easy)
        clean_up(&s->t);
    curl_easy_cleanup(s->t.easy);
    curl_multi_cleanup(s->t.multi);
    free(s);
}

enum tenure_status tn_http_stream_open(const struct tn_http_conf *conf,
                                       const struct tn_http_request *rq, int64_t deadline,
                                       struct tn_http_stream **stream, long *code,
                                       struct tenure_error *err)
{
    struct tn_http_stream *s = calloc(1, sizeof *s);
    enum tenure_status status;

    pthread_once(&once, init_curl);
    if (s) {
        s->t = (struct transfer){.conf = conf, .max = rq->answer_max};
        s->t.multi = curl_multi_init();
        s->t.easy = curl_easy_init();
    }
    if (!s || !s->t.multi || !s->t.easy || !set_up(&s->t, rq)) {
        tn_http_stream_close(s);
        return tenure_fail(err, TENURE_NOMEM, "out of memory for a request");
    }
    status = drive(&s->t, has_head, NULL, deadline, err);
    if (!status && s->t.ended && s->t.result)
        status = explain(&s->t, err);
    if (status) {
        tn_http_stream_close(s);
        return status;
    }
    curl_easy_getinfo(s->t.easy, CURLINFO_RESPONSE_CODE, code);
    *stream = s;
    return TENURE_OK;
}

enum tenure_status tn_http_stream_line(struct tn_http_stream *s, int64_t deadline, char **line,
                                       struct tenure_error *err)
{
    struct transfer *t = &s->t;
    enum tenure_status status = TENURE_OK;

    if (s->taken) {
        memmove(t->body, t->body + s->taken, t->len - s->taken);
        t->len -= s->taken;
        s->taken = 0;
    }
    if (!has_line(t, &s->taken) && !t->ended)
        status = drive(t, has_line, &s->taken, deadline, err);
    if (status)
        return status;
    char *end = t->len ? memchr(t->body, '\n', t->len) : NULL;
    if (!end && t->ended && t->len) {
        end = t->body + t->len; /* the last one has no line break */
        t->len++;
    }
    if (!end)
        return t->result ? explain(t, err)
                         : tenure_fail(err, TENURE_UNAVAILABLE, "the server ended the stream");
    *end = '\0';
    *line = t->body;
    s->taken = (size_t)(end - t->body) + 1;
    return TENURE_OK;
}
