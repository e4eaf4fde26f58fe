#include "state/http/desk.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "os/thread.h"

/* More wait for the next round: a round should not last. */
#define ROUND_MAX 256

/* A request at the desk.  Its body is the server's, which keeps it while it is parked. */
struct errand {
    struct errand *next;
    struct tn_state_ask ask;
    char *method, *path, *epoch;
    bool done;
};

struct tn_state_desk {
    struct tn_state_desk_options options;
    pthread_t thread;
    bool started;

    pthread_mutex_t lock; /* of everything below */
    pthread_cond_t word;
    struct errand *first, **last; /* waiting */
    bool closing;
};

static void free_errand(struct errand *e)
{
    if (!e)
        return;
    if (e->ask.reply.owned)
        free(e->ask.reply.body);
    free(e->method);
    free(e->path);
    free(e->epoch);
    free(e);
}

/* ---- The desk's thread --------------------------------------------------- */

/* Take those that wait, at most a round of them.  Under the lock. */
static size_t take_round(struct tn_state_desk *d, struct errand *errands[ROUND_MAX],
                         struct tn_state_ask *asks[ROUND_MAX])
{
    size_t n = 0;

    for (; d->first && n < ROUND_MAX; n++) {
        errands[n] = d->first;
        asks[n] = &d->first->ask;
        d->first = d->first->next;
    }
    if (!d->first)
        d->last = &d->first;
    return n;
}

static void *desk_main(void *arg)
{
    struct tn_state_desk *d = arg;
    struct errand *errands[ROUND_MAX];
    struct tn_state_ask *asks[ROUND_MAX];

    tn_thread_name("tenure-state");
    pthread_mutex_lock(&d->lock);
    for (;;) {
        while (!d->first && !d->closing)
            pthread_cond_wait(&d->word, &d->lock);
        size_t n = take_round(d, errands, asks);
        if (n == 0)
            break;
        pthread_mutex_unlock(&d->lock);
        d->options.work(d->options.arg, asks, n);
        pthread_mutex_lock(&d->lock);
        for (size_t i = 0; i < n; i++)
            errands[i]->done = true;
        pthread_cond_broadcast(&d->word); /* whoever waits for the end of one */
        pthread_mutex_unlock(&d->lock);
        d->options.wake(d->options.arg);
        pthread_mutex_lock(&d->lock);
    }
    pthread_mutex_unlock(&d->lock);
    return NULL;
}

/* ---- Life ---------------------------------------------------------------- */

enum tenure_status tn_state_desk_open(const struct tn_state_desk_options *options,
                                      struct tn_state_desk **desk, struct tenure_error *err)
{
    struct tn_state_desk *d = calloc(1, sizeof *d);
    enum tenure_status status;

    if (!d)
        return tenure_fail(err, TENURE_NOMEM, "out of memory");
    d->options = *options;
    d->last = &d->first;
    pthread_mutex_init(&d->lock, NULL);
    pthread_cond_init(&d->word, NULL);
    status = tn_thread_start(&d->thread, desk_main, d, err);
    d->started = status == TENURE_OK;
    if (status) {
        tn_state_desk_close(d);
        return status;
    }
    *desk = d;
    return TENURE_OK;
}

void tn_state_desk_close(struct tn_state_desk *d)
{
    if (!d)
        return;
    pthread_mutex_lock(&d->lock);
    d->closing = true;
    pthread_cond_broadcast(&d->word);
    pthread_mutex_unlock(&d->lock);
    if (d->started)
        pthread_join(d->thread, NULL);
    pthread_cond_destroy(&d->word);
    pthread_mutex_destroy(&d->lock);
    free(d);
}

/* ---- The server's thread ------------------------------------------------- */

static struct errand *new_errand(const struct tn_http_request *request)
{
    const char *epoch = request->header(request, "Tenure-Epoch");
    struct errand *e = calloc(1, sizeof *e);

    if (!e)
        return NULL;
    e->method = strdup(request->method);
    e->path = strdup(request->path);
    e->epoch = epoch ? strdup(epoch) : NULL;
    if (!e->method || !e->path || (epoch && !e->epoch)) {
        free_errand(e);
        return NULL;
    }
    e->ask.method = e->method;
    e->ask.path = e->path;
    e->ask.epoch = e->epoch;
    e->ask.body = request->body;
    e->ask.len = request->body_len;
    return e;
}

void tn_state_desk_handle(struct tn_state_desk *d, const struct tn_http_request *request,
                          struct tn_http_reply *reply)
{
    struct errand *e = request->memo->job;

    if (!e && request->full) {
        reply->park = true;
        return;
    }
    if (!e) {
        e = new_errand(request);
        if (!e) {
            tn_http_answer_error(reply, 503, "nomem", "out of memory");
            return;
        }
        e->ask.turn = d->options.turn(d->options.arg);
        e->ask.by_program = true;
        e->ask.program = request->visit;
        request->memo->job = e;
        pthread_mutex_lock(&d->lock);
        *d->last = e;
        d->last = &e->next;
        pthread_cond_broadcast(&d->word);
        pthread_mutex_unlock(&d->lock);
        reply->park = true;
        return;
    }
    pthread_mutex_lock(&d->lock);
    reply->park = !e->done;
    pthread_mutex_unlock(&d->lock);
    if (reply->park)
        return;
    *reply = e->ask.reply; /* the values of its headers live as long as the errand */
    e->ask.reply.owned = false;
}

/* The server stops, or the program has hung up: the desk's thread may be at it. */
void tn_state_desk_done(struct tn_state_desk *d, struct tn_http_memo *memo)
{
    struct errand *e = memo->job, **link;

    if (!e)
        return;
    memo->job = NULL;
    pthread_mutex_lock(&d->lock);
    for (link = &d->first; *link && *link != e; link = &(*link)->next)
        continue;
    if (*link) {
        *link = e->next;
        if (!*link)
            d->last = link;
        e->done = true;
    }
    while (!e->done)
        pthread_cond_wait(&d->word, &d->lock);
    pthread_mutex_unlock(&d->lock);
    free_errand(e);
}
