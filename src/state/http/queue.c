#include "state/http/queue.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "os/thread.h"

/* More wait for the next batch: a batch should not last. */
#define BATCH_MAX 256

/* A request in the queue.  Its body is the server's, which keeps it while it is parked. */
struct parked {
    struct parked *next;
    struct tn_state_request request;
    char *method, *path, *epoch;
    bool done;
};

/* What one thread answers. */
struct lane {
    struct tn_state_queue *queue;
    const char *name; /* of the thread */
    size_t batch_max;
    pthread_t thread;
    bool started;
    struct parked *first, **last; /* waiting */
};

struct tn_state_queue {
    struct tn_state_queue_options options;
    pthread_mutex_t lock; /* of everything below */
    pthread_cond_t changed;
    struct lane commits, reads;
    bool closing;
};

static void free_parked(struct parked *p)
{
    if (!p)
        return;
    if (p->request.reply.owned)
        free(p->request.reply.body);
    free(p->method);
    free(p->path);
    free(p->epoch);
    free(p);
}

/* ---- The threads that answer --------------------------------------------- */

/* Take those that wait, and that came at about the same time.  Under the lock. */
static size_t take_batch(struct lane *lane, struct parked *parked[BATCH_MAX],
                         struct tn_state_request *requests[BATCH_MAX])
{
    int64_t span = lane->queue->options.span_ns;
    size_t n = 0;

    for (struct parked *p; (p = lane->first) && n < lane->batch_max; n++) {
        if (n && p->request.came_ns - requests[0]->came_ns > span)
            break;
        parked[n] = p;
        requests[n] = &p->request;
        lane->first = p->next;
    }
    if (!lane->first)
        lane->last = &lane->first;
    return n;
}

static void *lane_main(void *arg)
{
    struct lane *lane = arg;
    struct tn_state_queue *q = lane->queue;
    struct parked *parked[BATCH_MAX];
    struct tn_state_request *requests[BATCH_MAX];

    tn_thread_name(lane->name);
    pthread_mutex_lock(&q->lock);
    for (;;) {
        while (!lane->first && !q->closing)
            pthread_cond_wait(&q->changed, &q->lock);
        size_t n = take_batch(lane, parked, requests);
        if (n == 0)
            break;
        pthread_mutex_unlock(&q->lock);
        q->options.answer(q->options.arg, requests, n);
        pthread_mutex_lock(&q->lock);
        for (size_t i = 0; i < n; i++)
            parked[i]->done = true;
        pthread_cond_broadcast(&q->changed); /* the server may wait for one of them to end */
        pthread_mutex_unlock(&q->lock);
        q->options.wake(q->options.arg);
        pthread_mutex_lock(&q->lock);
    }
    pthread_mutex_unlock(&q->lock);
    return NULL;
}

/* ---- Life ---------------------------------------------------------------- */

static void init_lane(struct tn_state_queue *q, struct lane *lane, const char *name, size_t max)
{
    *lane = (struct lane){.queue = q, .name = name, .batch_max = max, .last = &lane->first};
}

enum tenure_status tn_state_queue_open(const struct tn_state_queue_options *options,
                                       struct tn_state_queue **queue, struct tenure_error *err)
{
    struct tn_state_queue *q = calloc(1, sizeof *q);

    if (!q)
        return tenure_fail(err, TENURE_NOMEM, "out of memory");
    q->options = *options;
    pthread_mutex_init(&q->lock, NULL);
    pthread_cond_init(&q->changed, NULL);
    init_lane(q, &q->commits, "tenure-commit", BATCH_MAX);
    init_lane(q, &q->reads, "tenure-read", 1);
    *queue = q;
    return TENURE_OK;
}

void tn_state_queue_close(struct tn_state_queue *q)
{
    if (!q)
        return;
    pthread_mutex_lock(&q->lock);
    q->closing = true;
    pthread_cond_broadcast(&q->changed);
    pthread_mutex_unlock(&q->lock);
    if (q->commits.started)
        pthread_join(q->commits.thread, NULL);
    if (q->reads.started)
        pthread_join(q->reads.thread, NULL);
    assert(!q->commits.first && !q->reads.first);
    pthread_cond_destroy(&q->changed);
    pthread_mutex_destroy(&q->lock);
    free(q);
}

/* ---- The server's thread ------------------------------------------------- */

static struct parked *new_parked(const struct tn_http_request *request)
{
    const char *epoch = request->header(request, "Tenure-Epoch");
    struct parked *p = calloc(1, sizeof *p);

    if (!p)
        return NULL;
    p->method = strdup(request->method);
    p->path = strdup(request->path);
    p->epoch = epoch ? strdup(epoch) : NULL;
    if (!p->method || !p->path || (epoch && !p->epoch)) {
        free_parked(p);
        return NULL;
    }
    p->request = (struct tn_state_request){.method = p->method,
                                           .path = p->path,
                                           .epoch = p->epoch,
                                           .came_ns = tenure_now(),
                                           .by_program = true,
                                           .program = request->connection_id,
                                           .body = request->body,
                                           .len = request->body_len};
    return p;
}

/* Only the server's thread starts threads. */
static enum tenure_status push(struct lane *lane, struct parked *p, struct tenure_error *err)
{
    enum tenure_status status =
        lane->started ? TENURE_OK : tn_thread_start(&lane->thread, lane_main, lane, err);

    if (status)
        return status;
    lane->started = true;
    pthread_mutex_lock(&lane->queue->lock);
    *lane->last = p;
    lane->last = &p->next;
    pthread_cond_broadcast(&lane->queue->changed);
    pthread_mutex_unlock(&lane->queue->lock);
    return TENURE_OK;
}

static void enqueue(struct tn_state_queue *q, const struct tn_http_request *request,
                    struct tn_http_reply *reply)
{
    struct parked *p = new_parked(request);
    struct tenure_error err;

    if (!p) {
        tn_http_answer_error(reply, 503, "nomem", "out of memory");
        return;
    }
    p->request.turn = q->options.turn(q->options.arg);
    if (push(strcmp(p->method, "GET") == 0 ? &q->reads : &q->commits, p, &err)) {
        free_parked(p);
        tn_http_answer_error(reply, 503, "unavailable", err.text);
        return;
    }
    request->memo->job = p;
    reply->park = true;
}

void tn_state_queue_handle(struct tn_state_queue *q, const struct tn_http_request *request,
                           struct tn_http_reply *reply)
{
    struct parked *p = request->memo->job;

    if (!p && request->full) {
        reply->park = true;
        return;
    }
    if (!p) {
        enqueue(q, request, reply);
        return;
    }
    pthread_mutex_lock(&q->lock);
    reply->park = !p->done;
    pthread_mutex_unlock(&q->lock);
    if (reply->park)
        return;
    *reply = p->request.reply; /* the values of its headers live as long as it is parked */
    p->request.reply.owned = false;
}

/* Leave the lane that it waits in, if it does. */
static bool withdraw(struct lane *lane, struct parked *p)
{
    struct parked **link = &lane->first;

    while (*link && *link != p)
        link = &(*link)->next;
    if (!*link)
        return false;
    *link = p->next;
    if (!*link)
        lane->last = link;
    return true;
}

/* The server stops, or the program has hung up: a thread may be at it. */
void tn_state_queue_done(struct tn_state_queue *q, struct tn_http_memo *memo)
{
    struct parked *p = memo->job;

    if (!p)
        return;
    memo->job = NULL;
    pthread_mutex_lock(&q->lock);
    if (!withdraw(&q->commits, p) && !withdraw(&q->reads, p)) {
        while (!p->done)
            pthread_cond_wait(&q->changed, &q->lock);
    }
    pthread_mutex_unlock(&q->lock);
    free_parked(p);
}
