#include "store/http/transfer.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "os/clock.h"
#include "tenure/store.h"

#define FIRST_LOOK_MS 20
#define HOUR_MS       3600000
#define CONNECT_MS    10000L /* who waits has a deadline of its own; who was given up has this */
#define COPY_MAX      65536  /* a larger body is not worth keeping a connection for */

/* ---- Callbacks ----------------------------------------------------------- */

static size_t on_data(char *data, size_t size, size_t n, void *arg)
{
    struct tn_transfer *t = arg;

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

/* While the answer comes: another request may be waiting for the connection. */
static size_t on_header(char *line, size_t size, size_t n, void *arg)
{
    struct tn_transfer *t = arg;
    long code = 0;

    (void)line;
    curl_easy_getinfo(t->easy, CURLINFO_RESPONSE_CODE, &code);
    if (code >= 300)
        curl_easy_setopt(t->easy, CURLOPT_FORBID_REUSE, 1L);
    return size * n;
}

/* Did a byte of the request reach the kernel? */
bool tn_transfer_sent(const struct tn_transfer *t)
{
    long bytes = 0;

    curl_easy_getinfo(t->easy, CURLINFO_REQUEST_SIZE, &bytes);
    return bytes > 0;
}

bool tn_transfer_harmless(const struct tn_transfer *t)
{
    curl_off_t gone = 0;

    curl_easy_getinfo(t->easy, CURLINFO_SIZE_UPLOAD_T, &gone);
    return t->copied && (!t->once || (tn_transfer_sent(t) && gone == t->body_len));
}

/* Connected; the request is about to leave.  libcurl repeats one that broke on
 * a kept connection; but a swap may have been carried out, and must not leave
 * twice (C3), unless nothing of it has left.  Nor does one that was given up. */
static int on_request(void *arg, char *remote, char *local, int remote_port, int local_port)
{
    struct tn_transfer *t = arg;

    (void)remote;
    (void)local;
    (void)remote_port;
    (void)local_port;
    return (t->once || t->parked) && tn_transfer_sent(t) ? CURL_PREREQFUNC_ABORT
                                                         : CURL_PREREQFUNC_OK;
}

/* ---- Setting up ---------------------------------------------------------- */

static bool set_body(struct tn_transfer *t, const struct tn_http_request *rq)
{
    CURL *e = t->easy;

    t->copied = rq->len <= COPY_MAX;
    t->body_len = (curl_off_t)rq->len;
    if (!rq->body)
        return true;
    return !curl_easy_setopt(e, CURLOPT_POST, 1L) &&
           !curl_easy_setopt(e, CURLOPT_POSTFIELDSIZE_LARGE, t->body_len) &&
           !curl_easy_setopt(e, t->copied ? CURLOPT_COPYPOSTFIELDS : CURLOPT_POSTFIELDS, rq->body);
}

static bool set_headers(struct tn_transfer *t, const struct tn_http_request *rq)
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

static bool set_blob(CURL *e, CURLoption option, const char *text)
{
    struct curl_blob blob = {.flags = CURL_BLOB_NOCOPY};

    if (!text)
        return true;
    memcpy(&blob.data, &text, sizeof text); /* libcurl only reads it */
    blob.len = strlen(text);
    return !curl_easy_setopt(e, option, &blob);
}

static bool set_tls(struct tn_transfer *t)
{
    const struct tn_http_conf *c = t->conf;
    CURL *e = t->easy;

    if (c->blind && (curl_easy_setopt(e, CURLOPT_SSL_VERIFYPEER, 0L) ||
                     curl_easy_setopt(e, CURLOPT_SSL_VERIFYHOST, 0L)))
        return false;
    /* Who names authorities trusts these, and not those of the system as well. */
    if ((c->ca_file || c->ca_data) && curl_easy_setopt(e, CURLOPT_CAPATH, NULL))
        return false;
    if (c->ca_file && curl_easy_setopt(e, CURLOPT_CAINFO, c->ca_file))
        return false;
    if (!set_blob(e, CURLOPT_CAINFO_BLOB, c->ca_data) ||
        !set_blob(e, CURLOPT_SSLCERT_BLOB, c->cert_data) ||
        !set_blob(e, CURLOPT_SSLKEY_BLOB, c->key_data))
        return false;
    /* An encrypted key is an error, not a prompt on somebody's terminal. */
    if (c->cert_file && curl_easy_setopt(e, CURLOPT_SSLCERT, c->cert_file))
        return false;
    if (c->key_file && curl_easy_setopt(e, CURLOPT_SSLKEY, c->key_file))
        return false;
    return (!c->key_file && !c->key_data) || !curl_easy_setopt(e, CURLOPT_KEYPASSWD, "");
}

bool tn_transfer_set_up(struct tn_transfer *t, const struct tn_http_request *rq)
{
    CURL *e = t->easy;

    curl_easy_reset(e);
    return !curl_easy_setopt(e, CURLOPT_URL, rq->url) &&
           !curl_easy_setopt(e, CURLOPT_PROTOCOLS_STR, "http,https") &&
           !curl_easy_setopt(e, CURLOPT_PROXY, "") && !curl_easy_setopt(e, CURLOPT_NOSIGNAL, 1L) &&
           !curl_easy_setopt(e, CURLOPT_QUICK_EXIT, 1L) &&
           !curl_easy_setopt(e, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1) &&
           !curl_easy_setopt(e, CURLOPT_TCP_KEEPALIVE, 1L) &&
           !curl_easy_setopt(e, CURLOPT_TCP_KEEPIDLE, 5L) &&
           !curl_easy_setopt(e, CURLOPT_TCP_KEEPINTVL, 3L) &&
           !curl_easy_setopt(e, CURLOPT_CONNECTTIMEOUT_MS, CONNECT_MS) &&
           !curl_easy_setopt(e, CURLOPT_ERRORBUFFER, t->why) &&
           !curl_easy_setopt(e, CURLOPT_WRITEFUNCTION, on_data) &&
           !curl_easy_setopt(e, CURLOPT_WRITEDATA, t) &&
           !curl_easy_setopt(e, CURLOPT_PREREQFUNCTION, on_request) &&
           !curl_easy_setopt(e, CURLOPT_PREREQDATA, t) &&
           !curl_easy_setopt(e, CURLOPT_FRESH_CONNECT, (long)rq->fresh) &&
           (!rq->part || (!curl_easy_setopt(e, CURLOPT_HEADERFUNCTION, on_header) &&
                          !curl_easy_setopt(e, CURLOPT_HEADERDATA, t))) &&
           !curl_easy_setopt(e, CURLOPT_PRIVATE, t) && set_body(t, rq) &&
           !curl_easy_setopt(e, CURLOPT_CUSTOMREQUEST, rq->method) && set_headers(t, rq) &&
           set_tls(t) && curl_multi_add_handle(t->multi, e) == CURLM_OK;
}

/* ---- Driving ------------------------------------------------------------- */

enum tenure_status tn_transfer_explain(const struct tn_transfer *t, struct tenure_error *err)
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
    case CURLE_COULDNT_CONNECT:
    case CURLE_COULDNT_RESOLVE_HOST:
        return tenure_fail(err, TENURE_UNAVAILABLE,
                           "%s; is the server up, and are host and port right?", why);
    case CURLE_SSL_CONNECT_ERROR:
        return tenure_fail(err, TENURE_UNAVAILABLE,
                           "%s; does this port speak TLS, and does the server want a client "
                           "certificate?",
                           why);
    case CURLE_GOT_NOTHING:
    case CURLE_UNSUPPORTED_PROTOCOL:
    case CURLE_WEIRD_SERVER_REPLY:
        return tenure_fail(err, TENURE_UNAVAILABLE,
                           "%s; does this port speak HTTP, without TLS or with it as the URL says?",
                           why);
    case CURLE_OUT_OF_MEMORY:
        return tenure_fail(err, TENURE_NOMEM, "out of memory");
    case CURLE_ABORTED_BY_CALLBACK:
        return tenure_fail(err, TENURE_UNAVAILABLE, "the connection broke before an answer came");
    default:
        return tenure_fail(err, TENURE_UNAVAILABLE, "%s", why);
    }
}

void tn_transfer_collect(CURLM *multi)
{
    CURLMsg *message;
    int left;

    /* Others may share the multi handle. */
    while ((message = curl_multi_info_read(multi, &left))) {
        char *whose = NULL;

        if (message->msg != CURLMSG_DONE ||
            curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &whose) || !whose)
            continue;
        struct tn_transfer *one = (struct tn_transfer *)(void *)whose;
        one->ended = true;
        one->result = message->data.result;
    }
}

/* curl_multi_poll() until something happens; its clock stands still during a
 * suspend, so a timer that does not is among what it polls. */
static enum tenure_status pause_for(struct tn_transfer *t, int timer, int64_t deadline,
                                    struct tenure_error *err)
{
    struct curl_waitfd extra[2] = {{.fd = timer, .events = CURL_WAIT_POLLIN},
                                   {.fd = t->conf->cancel_fd, .events = CURL_WAIT_POLLIN}};
    struct curl_waitfd *from = timer < 0 ? extra + 1 : extra;
    unsigned n = (timer >= 0) + (t->conf->cancel_fd >= 0);
    int ms = tn_poll_ms(deadline), limit = timer < 0 ? FIRST_LOOK_MS : HOUR_MS;

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
enum tenure_status tn_transfer_drive(struct tn_transfer *t,
                                     bool (*ready)(const struct tn_transfer *, void *), void *arg,
                                     int64_t deadline, struct tenure_error *err)
{
    enum tenure_status status = TENURE_OK;
    int64_t began = tenure_now();
    int running, timer = -1;

    while (!status) {
        if (curl_multi_perform(t->multi, &running) != CURLM_OK) {
            status = tenure_fail(err, TENURE_NOMEM, "out of memory");
            break;
        }
        tn_transfer_collect(t->multi);
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

void tn_transfer_clean_up(struct tn_transfer *t)
{
    curl_multi_remove_handle(t->multi, t->easy);
    curl_slist_free_all(t->headers);
    free(t->body);
}
