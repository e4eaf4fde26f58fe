#include "state/http/leadership.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/duration.h"
#include "core/timing.h"
#include "os/poll.h"
#include "os/thread.h"
#include "state/http/http.h"
#include "state/http/query.h"
#include "tenure/store.h"

/* Long polls whose time is over are noticed so soon. */
#define PARKED_NS   (250 * TN_MS)
/* A stream is told what is left of the term at least four times in that time, within these. */
#define BEAT_MIN_NS (100 * TN_MS)
#define BEAT_MAX_NS (2 * TN_S)

#define VERSION_MAX 64

struct tn_leadership {
    struct tn_leadership_options options;
    int event_fd;
    pthread_t thread;
    bool started; /* of the server's thread, then of close() */
    _Atomic bool ending;
    _Atomic bool parks; /* somebody is about to be parked, or to be sent a stream */
};

/* ---- What is told -------------------------------------------------------- */

/* Another one for every change that somebody may wait for; the time left is none. */
static void write_version(const struct tn_leadership_view *v, char out[VERSION_MAX])
{
    snprintf(out, VERSION_MAX, "%" PRIu64 "-%" PRIu64 "-%s", v->turn, v->epoch,
             !v->leading   ? "none"
             : v->draining ? "draining"
                           : "leading");
}

static json_t *view_json(const struct tn_leadership_view *v, const char *version)
{
    return json_pack("{s:s, s:b, s:I, s:I, s:b, s:s}", "name", v->name, "leading", (int)v->leading,
                     "epoch", (json_int_t)v->epoch, "left_ms", (json_int_t)(v->left_ns / TN_MS),
                     "draining", (int)v->draining, "version", version);
}

/* Malloc'ed; NULL: out of memory. */
static char *write_event(const struct tn_leadership_view *v, const char *version, size_t *len)
{
    json_t *json = view_json(v, version);
    char *data = json ? json_dumps(json, JSON_COMPACT) : NULL, *event = NULL;
    int n = data ? asprintf(&event, "event: leadership\ndata: %s\n\n", data) : -1;

    json_decref(json);
    free(data);
    *len = n > 0 ? (size_t)n : 0;
    return n > 0 ? event : NULL;
}

static void open_stream(const struct tn_leadership_view *v, const char *version,
                        struct tn_http_reply *reply)
{
    reply->body = write_event(v, version, &reply->len);
    reply->owned = reply->body != NULL;
    reply->stream = reply->owned;
    reply->status = reply->owned ? 200 : 500;
    reply->type = "text/event-stream";
}

static void *leadership_main(void *arg);

/* Somebody waits: their time has to be kept from now on. */
static void keep_time(struct tn_leadership *l, struct tn_http_reply *reply)
{
    struct tenure_error err;

    if (!l->started && tn_thread_start(&l->thread, leadership_main, l, &err) != TENURE_OK) {
        if (reply->owned)
            free(reply->body);
        *reply = (struct tn_http_reply){0};
        tn_http_answer_error(reply, 503, "unavailable", err.text);
        return;
    }
    l->started = true;
    atomic_store(&l->parks, true);
    tn_leadership_notify(l);
}

void tn_leadership_answer(struct tn_leadership *l, const struct tn_http_request *request,
                          struct tn_http_reply *reply)
{
    static _Thread_local char etag[VERSION_MAX + 2]; /* copied by the server */
    struct tn_leadership_query query;
    struct tn_leadership_view view;
    char version[VERSION_MAX];

    if (strcmp(request->method, "GET") != 0 && strcmp(request->method, "HEAD") != 0) {
        tn_http_answer_error(reply, 405, "method", "GET");
        return;
    }
    if (!tn_leadership_read(request, &query, reply))
        return;
    l->options.view(l->options.arg, &view);
    write_version(&view, version);
    enum tn_leadership_then then = tn_leadership_waits(&query, version, request->memo);
    if (query.stream) {
        open_stream(&view, version, reply);
    } else if (then == TN_LEADERSHIP_NEWS) {
        tn_http_answer_json(reply, 200, view_json(&view, version));
    } else {
        reply->status = 304;
        reply->type = NULL;
        reply->park = then == TN_LEADERSHIP_PARK;
    }
    snprintf(etag, sizeof etag, "\"%s\"", version);
    reply->headers[0].name = "ETag";
    reply->headers[0].value = etag;
    reply->headers[1].name = "Cache-Control";
    reply->headers[1].value = "no-store";
    if (reply->stream || (reply->park && !request->memo->parked))
        keep_time(l, reply);
    request->memo->parked |= reply->park;
}

/* ---- The thread ---------------------------------------------------------- */

void tn_leadership_notify(struct tn_leadership *l)
{
    uint64_t one = 1;

    while (write(l->event_fd, &one, sizeof one) < 0 && errno == EINTR)
        continue;
}

static int64_t beat(int64_t left_ns)
{
    int64_t quarter = left_ns / 4;

    return quarter < BEAT_MIN_NS ? BEAT_MIN_NS : quarter > BEAT_MAX_NS ? BEAT_MAX_NS : quarter;
}

/* The streams hear of a change at once, and of the time left now and then. */
static void publish(struct tn_leadership *l, char told[VERSION_MAX], int64_t *published)
{
    struct tn_leadership_view view;
    char version[VERSION_MAX], *event;
    int64_t now = tenure_now();
    size_t len;

    l->options.view(l->options.arg, &view);
    write_version(&view, version);
    if (strcmp(version, told) == 0 && now - *published < beat(view.left_ns))
        return;
    if ((event = write_event(&view, version, &len)))
        l->options.publish(l->options.arg, event, len);
    free(event);
    memcpy(told, version, VERSION_MAX);
    *published = now;
}

/* When to look again without being notified. */
static int64_t next_look(struct tn_leadership *l, const struct tn_http_counts *load)
{
    struct tn_leadership_view view;

    if (!atomic_exchange(&l->parks, false) && load->parked == 0 && load->streams == 0)
        return TN_NEVER;
    l->options.view(l->options.arg, &view);
    int64_t span = load->streams > 0 ? beat(view.left_ns) : PARKED_NS;
    if (load->parked > 0 && PARKED_NS < span)
        span = PARKED_NS;
    if (view.left_ns > 0 && view.left_ns < span)
        span = view.left_ns;
    return tenure_now() + span;
}

static void *leadership_main(void *arg)
{
    struct tn_leadership *l = arg;
    struct pollfd fd = {.fd = l->event_fd, .events = POLLIN};
    char told[VERSION_MAX] = "";
    int64_t published = 0;

    tn_thread_name("tenure-leading");
    while (!atomic_load(&l->ending)) {
        struct tn_http_counts load = {0};
        uint64_t count;

        l->options.count(l->options.arg, &load);
        tn_poll(&fd, 1, next_look(l, &load));
        if (read(l->event_fd, &count, sizeof count) < 0)
            count = 0; /* time alone */
        if (atomic_load(&l->ending))
            break;
        l->options.count(l->options.arg, &load);
        if (load.parked > 0)
            l->options.wake(l->options.arg);
        if (load.streams > 0)
            publish(l, told, &published);
        /* Whoever was woken and goes on waiting is parked again in a moment. */
        if (load.parked > 0)
            atomic_store(&l->parks, true);
    }
    return NULL;
}

enum tenure_status tn_leadership_open(const struct tn_leadership_options *options,
                                      struct tn_leadership **leadership, struct tenure_error *err)
{
    struct tn_leadership *l = calloc(1, sizeof *l);

    if (!l)
        return tenure_fail(err, TENURE_NOMEM, "out of memory");
    l->options = *options;
    l->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (l->event_fd < 0) {
        free(l);
        return tenure_fail(err, TENURE_UNAVAILABLE, "cannot make an event descriptor: %s",
                           strerror(errno));
    }
    *leadership = l;
    return TENURE_OK;
}

void tn_leadership_end(struct tn_leadership *l)
{
    if (!l)
        return;
    atomic_store(&l->ending, true);
    if (!l->started)
        return;
    tn_leadership_notify(l);
    pthread_join(l->thread, NULL);
    l->started = false;
}

void tn_leadership_close(struct tn_leadership *l)
{
    if (!l)
        return;
    tn_leadership_end(l);
    close(l->event_fd);
    free(l);
}
