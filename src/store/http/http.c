#include "store/http/http.h"

#include <limits.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "store/http/transfer.h"
#include "tenure/store.h"

#define PARKED_MAX 4
#define PARKED_NS  INT64_C(10000000000)

struct tn_http {
    const struct tn_http_conf *conf;
    CURLM *multi; /* keeps the connections */
    CURL *easy;   /* of the next request */
    /* Requests that took longer than somebody could wait.  A late answer is of use to nobody, but
     * the connection is: it took round trips to make, and belongs to the next request. */
    struct tn_transfer *parked[PARKED_MAX];
};

struct tn_http_stream {
    struct tn_transfer t;
    bool joined;  /* the multi handle is somebody else's */
    size_t taken; /* bytes of the body that were given out */
};

static pthread_once_t once = PTHREAD_ONCE_INIT;

static void init_curl(void)
{
    curl_global_init(CURL_GLOBAL_DEFAULT);
}

/* ---- Requests ------------------------------------------------------------ */

static bool never(const struct tn_transfer *t, void *arg)
{
    (void)t;
    (void)arg;
    return false;
}

static long retry_after(CURL *easy)
{
    curl_off_t seconds = 0;

    curl_easy_getinfo(easy, CURLINFO_RETRY_AFTER, &seconds);
    return seconds < 0 ? 0 : seconds > INT_MAX ? INT_MAX : (long)seconds;
}

static void copy_header(CURL *easy, const char *name, char out[TN_HTTP_HEADER_MAX + 1])
{
    struct curl_header *h;

    out[0] = '\0';
    if (name && curl_easy_header(easy, name, 0, CURLH_HEADER, -1, &h) == CURLHE_OK &&
        strlen(h->value) <= TN_HTTP_HEADER_MAX)
        strcpy(out, h->value);
}

static void discard(struct tn_transfer **t)
{
    if (!*t)
        return;
    tn_transfer_clean_up(*t);
    curl_easy_cleanup((*t)->easy);
    free(*t);
    *t = NULL;
}

/* Take in what came late, so that its connection is free. */
static void clear_parked(struct tn_http *h)
{
    int running;
    bool any = false;

    for (unsigned i = 0; i < PARKED_MAX; i++)
        any = any || h->parked[i];
    if (!any)
        return;
    curl_multi_perform(h->multi, &running);
    tn_transfer_collect(h->multi);
    for (unsigned i = 0; i < PARKED_MAX; i++) {
        if (h->parked[i] && (h->parked[i]->ended || tenure_now() >= h->parked[i]->until_ns))
            discard(&h->parked[i]);
    }
}

/* In place of the one that was parked first, if there are too many. */
static void park(struct tn_http *h, struct tn_transfer *t)
{
    unsigned place = 0;

    for (unsigned i = 0; i < PARKED_MAX; i++) {
        if (!h->parked[i] ||
            (h->parked[place] && h->parked[i]->until_ns < h->parked[place]->until_ns))
            place = i;
    }
    discard(&h->parked[place]);
    h->parked[place] = t;
    t->parked = true;
    t->until_ns = tenure_now() + PARKED_NS;
    h->easy = NULL; /* the next request gets another one */
}

struct tn_http *tn_http_new(const struct tn_http_conf *conf)
{
    struct tn_http *h = calloc(1, sizeof *h);

    pthread_once(&once, init_curl);
    if (!h)
        return NULL;
    h->conf = conf;
    h->multi = curl_multi_init();
    if (h->multi) {
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
    for (unsigned i = 0; i < PARKED_MAX; i++)
        discard(&h->parked[i]);
    curl_easy_cleanup(h->easy);
    curl_multi_cleanup(h->multi);
    free(h);
}

static bool has_left(const struct tn_transfer *t, void *arg)
{
    (void)arg;
    return tn_transfer_sent(t);
}

/* Connect and send by one deadline, hear the answer by another. */
static enum tenure_status perform(struct tn_transfer *t, const struct tn_http_request *rq,
                                  int64_t deadline, struct tenure_error *err)
{
    enum tenure_status status = TENURE_OK;

    if (!tn_transfer_set_up(t, rq))
        return tenure_fail(err, TENURE_NOMEM, "out of memory for a request");
    if (rq->connect_by < deadline)
        status = tn_transfer_drive(t, has_left, NULL, rq->connect_by, err);
    if (!status && !t->ended)
        status = tn_transfer_drive(t, never, NULL, deadline, err);
    return !status && t->result ? tn_transfer_explain(t, err) : status;
}

static enum tenure_status take_answer(struct tn_transfer *t, const struct tn_http_request *rq,
                                      struct tn_http_answer *answer, struct tenure_error *err)
{
    curl_easy_getinfo(t->easy, CURLINFO_RESPONSE_CODE, &answer->code);
    answer->retry_after = retry_after(t->easy);
    copy_header(t->easy, rq->header, answer->header);
    answer->body = t->body ? t->body : calloc(1, 1);
    answer->len = t->len;
    t->body = NULL;
    return answer->body ? TENURE_OK : tenure_fail(err, TENURE_NOMEM, "out of memory for an answer");
}

enum tenure_status tn_http_call(struct tn_http *h, const struct tn_http_request *rq,
                                int64_t deadline, struct tn_http_answer *answer,
                                struct tenure_error *err)
{
    struct tn_transfer *t = calloc(1, sizeof *t);
    enum tenure_status status;

    memset(answer, 0, sizeof *answer);
    clear_parked(h);
    if (!h->easy)
        h->easy = curl_easy_init();
    if (!t || !h->easy) {
        free(t);
        return tenure_fail(err, TENURE_NOMEM, "out of memory for a request");
    }
    *t = (struct tn_transfer){.conf = h->conf,
                              .multi = h->multi,
                              .easy = h->easy,
                              .max = rq->answer_max,
                              .once = rq->once};
    status = perform(t, rq, deadline, err);
    answer->sent = tn_transfer_sent(t);
    if (!status)
        status = take_answer(t, rq, answer, err);
    if ((status == TENURE_TIMEOUT || status == TENURE_CANCELLED) && !t->ended &&
        tn_transfer_harmless(t)) {
        park(h, t);
        return status;
    }
    tn_transfer_clean_up(t);
    free(t);
    return status;
}

/* ---- Several at once ----------------------------------------------------- */

struct crowd {
    struct tn_transfer *all;
    size_t n;
};

static bool all_ended(const struct tn_transfer *t, void *arg)
{
    const struct crowd *crowd = arg;

    (void)t;
    for (size_t i = 0; i < crowd->n; i++) {
        if (!crowd->all[i].ended)
            return false;
    }
    return true;
}

/* One that never began has ended, for lack of memory. */
static void begin_one(struct tn_http *h, struct tn_transfer *t, const struct tn_http_request *rq)
{
    *t = (struct tn_transfer){.conf = h->conf,
                              .multi = h->multi,
                              .easy = curl_easy_init(),
                              .max = rq->answer_max,
                              .once = rq->once};
    t->no_memory = t->ended = !t->easy || !tn_transfer_set_up(t, rq);
}

static void end_one(struct tn_transfer *t, struct tn_http_exchange *x, enum tenure_status status)
{
    if (t->easy && t->ended && !t->no_memory)
        status = t->result ? tn_transfer_explain(t, &x->err) : TENURE_OK;
    else if (t->no_memory)
        status = tenure_fail(&x->err, TENURE_NOMEM, "out of memory for a request");
    x->answer.sent = t->easy && tn_transfer_sent(t);
    x->status = status ? status : take_answer(t, &x->request, &x->answer, &x->err);
    if (t->easy)
        tn_transfer_clean_up(t);
    curl_easy_cleanup(t->easy);
}

void tn_http_call_all(struct tn_http *h, struct tn_http_exchange *exchanges, size_t n,
                      int64_t deadline)
{
    struct crowd crowd = {calloc(n, sizeof *crowd.all), n};
    struct tenure_error err = {0};
    enum tenure_status status = TENURE_OK;

    clear_parked(h);
    for (size_t i = 0; i < n; i++) {
        memset(&exchanges[i].answer, 0, sizeof exchanges[i].answer);
        if (crowd.all)
            begin_one(h, &crowd.all[i], &exchanges[i].request);
        else
            exchanges[i].status =
                tenure_fail(&exchanges[i].err, TENURE_NOMEM, "out of memory for a request");
    }
    /* The one that is driven may end before the others: any of them drives all. */
    while (crowd.all && !status && !all_ended(NULL, &crowd)) {
        size_t i = 0;

        while (crowd.all[i].ended)
            i++;
        status = tn_transfer_drive(&crowd.all[i], all_ended, &crowd, deadline, &err);
    }
    for (size_t i = 0; crowd.all && i < n; i++) {
        exchanges[i].err = err;
        end_one(&crowd.all[i], &exchanges[i], status);
    }
    free(crowd.all);
}

/* ---- Streams ------------------------------------------------------------- */

static bool has_line(const struct tn_transfer *t, void *arg)
{
    const size_t *from = arg;

    return t->len > *from && memchr(t->body + *from, '\n', t->len - *from);
}

static bool has_head(const struct tn_transfer *t, void *arg)
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
        tn_transfer_clean_up(&s->t);
    curl_easy_cleanup(s->t.easy);
    if (!s->joined)
        curl_multi_cleanup(s->t.multi);
    free(s);
}

static struct tn_http_stream *begin_stream(const struct tn_http_conf *conf, CURLM *multi,
                                           const struct tn_http_request *rq)
{
    struct tn_http_stream *s = calloc(1, sizeof *s);

    pthread_once(&once, init_curl);
    if (s) {
        s->joined = multi != NULL;
        s->t = (struct tn_transfer){.conf = conf, .max = rq->answer_max};
        s->t.multi = multi ? multi : curl_multi_init();
        s->t.easy = curl_easy_init();
    }
    if (s && s->t.multi && s->t.easy && tn_transfer_set_up(&s->t, rq))
        return s;
    tn_http_stream_close(s);
    return NULL;
}

struct tn_http_stream *tn_http_stream_begin(const struct tn_http_conf *conf,
                                            const struct tn_http_request *rq)
{
    return begin_stream(conf, NULL, rq);
}

enum tenure_status tn_http_stream_head(struct tn_http_stream *s, int64_t deadline, long *code,
                                       struct tenure_error *err)
{
    enum tenure_status status = tn_transfer_drive(&s->t, has_head, NULL, deadline, err);

    if (!status && s->t.ended && s->t.result)
        status = tn_transfer_explain(&s->t, err);
    if (!status)
        curl_easy_getinfo(s->t.easy, CURLINFO_RESPONSE_CODE, code);
    return status;
}

enum tenure_status tn_http_stream_join(struct tn_http *http, const struct tn_http_request *rq,
                                       int64_t deadline, struct tn_http_stream **stream, long *code,
                                       struct tenure_error *err)
{
    struct tn_http_stream *s = begin_stream(http->conf, http->multi, rq);
    enum tenure_status status = s ? tn_http_stream_head(s, deadline, code, err)
                                  : tenure_fail(err, TENURE_NOMEM, "out of memory for a request");

    if (status)
        tn_http_stream_close(s);
    else
        *stream = s;
    return status;
}

struct tn_http_stream *tn_http_stream_add(struct tn_http *http, const struct tn_http_request *rq)
{
    return begin_stream(http->conf, http->multi, rq);
}

long tn_http_stream_retry_after(const struct tn_http_stream *s)
{
    return retry_after(s->t.easy);
}

void tn_http_stream_header(const struct tn_http_stream *s, const char *name,
                           char out[TN_HTTP_HEADER_MAX + 1])
{
    copy_header(s->t.easy, name, out);
}

bool tn_http_stream_ended(const struct tn_http_stream *s)
{
    return s->t.ended;
}

struct set {
    struct tn_http_stream *const *streams;
    size_t n;
};

static bool any_has_line(const struct tn_transfer *t, void *arg)
{
    const struct set *set = arg;

    (void)t;
    for (size_t i = 0; i < set->n; i++) {
        struct tn_http_stream *s = set->streams[i];

        if (s->t.ended || has_line(&s->t, &s->taken))
            return true;
    }
    return false;
}

enum tenure_status tn_http_streams_wait(struct tn_http_stream *const *streams, size_t n,
                                        int64_t deadline, struct tenure_error *err)
{
    struct set set = {streams, n};

    return any_has_line(NULL, &set)
               ? TENURE_OK
               : tn_transfer_drive(&streams[0]->t, any_has_line, &set, deadline, err);
}

enum tenure_status tn_http_stream_line(struct tn_http_stream *s, int64_t deadline, char **line,
                                       struct tenure_error *err)
{
    struct tn_transfer *t = &s->t;
    enum tenure_status status = TENURE_OK;

    if (s->taken) {
        memmove(t->body, t->body + s->taken, t->len - s->taken);
        t->len -= s->taken;
        s->taken = 0;
    }
    if (!has_line(t, &s->taken) && !t->ended)
        status = tn_transfer_drive(t, has_line, &s->taken, deadline, err);
    if (status)
        return status;
    char *end = t->len ? memchr(t->body, '\n', t->len) : NULL;
    if (!end && t->ended && t->len) {
        end = t->body + t->len; /* the last one has no line break */
        t->len++;
    }
    if (!end)
        return t->result ? tn_transfer_explain(t, err)
                         : tenure_fail(err, TENURE_UNAVAILABLE, "the server ended the stream");
    *end = '\0';
    *line = t->body;
    s->taken = (size_t)(end - t->body) + 1;
    return TENURE_OK;
}
