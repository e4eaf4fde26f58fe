#include "faultstore.h"

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "fault_late.h"

struct tn_fault {
    struct tn_fault *next;
    char *id, *url;
    tn_fault_fn hook;
    void *hook_arg;
    tn_fault_trace_fn trace;
    void *trace_arg;
    _Atomic uint64_t calls;
    _Atomic unsigned handles;
    pthread_mutex_t trace_lock;
    struct late_queue late;
};

struct handle {
    tn_fault *fault;
    tenure_store *inner;
    unsigned number;
};

static pthread_mutex_t faults_lock = PTHREAD_MUTEX_INITIALIZER;
static tn_fault *faults;
static bool registered;
static const struct tenure_store_ops fault_ops;

static const char *const call_words[] = {"open", "read", "swap", "batch", "wait", "list"};
static const char *const action_words[] = {"pass", "drop request", "drop answer", "later",
                                           "cut",  "fail",         "deaf",        "spurious"};

/* ---- Control ------------------------------------------------------------- */

static tn_fault *find(const char *id)
{
    tn_fault *f = faults;

    while (f && strcmp(f->id, id) != 0)
        f = f->next;
    return f;
}

static void destroy(tn_fault *f)
{
    if (!f)
        return;
    free(f->id);
    free(f->url);
    free(f);
}

enum tenure_status tn_fault_new(const char *id, const char *inner_url, tn_fault **fault,
                                struct tenure_error *err)
{
    enum tenure_status status = TENURE_OK;
    tn_fault *f = calloc(1, sizeof *f);

    if (!f || !(f->id = strdup(id)) || !(f->url = strdup(inner_url))) {
        destroy(f);
        return tenure_fail(err, TENURE_NOMEM, "fault: out of memory");
    }
    pthread_mutex_init(&f->trace_lock, NULL);
    late_init(&f->late);
    pthread_mutex_lock(&faults_lock);
    if (!registered)
        status = tenure_store_register(&fault_ops, err);
    registered = registered || status == TENURE_OK;
    if (!status && find(id))
        status = tenure_fail(err, TENURE_INVALID, "fault:%s is in use", id);
    if (!status) {
        f->next = faults;
        faults = *fault = f;
        f = NULL;
    }
    pthread_mutex_unlock(&faults_lock);
    destroy(f);
    return status;
}

void tn_fault_free(tn_fault *f)
{
    tn_fault **link = &faults;

    if (!f)
        return;
    pthread_mutex_lock(&faults_lock);
    while (*link != f)
        link = &(*link)->next;
    *link = f->next;
    pthread_mutex_unlock(&faults_lock);
    late_clear(&f->late);
    pthread_mutex_destroy(&f->trace_lock);
    destroy(f);
}

void tn_fault_hook(tn_fault *f, tn_fault_fn hook, void *arg)
{
    f->hook = hook;
    f->hook_arg = arg;
}

void tn_fault_trace(tn_fault *f, tn_fault_trace_fn trace, void *arg)
{
    f->trace = trace;
    f->trace_arg = arg;
}

size_t tn_fault_pending(tn_fault *f)
{
    return late_count(&f->late);
}

size_t tn_fault_flush(tn_fault *f)
{
    return late_send(&f->late, f->url, UINT64_MAX, INT64_MAX);
}

/* ---- One call ------------------------------------------------------------ */

struct call {
    struct handle *handle;
    struct tn_fault_event event;
    struct tn_fault_plan plan;
    int64_t deadline;
    struct tenure_error *err;
};

/* Sleeps, at most until the deadline; false if that came first. */
static bool pause_until(int64_t when, int64_t deadline)
{
    int64_t end = when < deadline ? when : deadline;
    struct timespec ts = {.tv_sec = (time_t)(end / 1000000000), .tv_nsec = end % 1000000000};

    if (end > 0)
        while (clock_nanosleep(CLOCK_BOOTTIME, TIMER_ABSTIME, &ts, NULL) != 0)
            continue;
    return when <= deadline;
}

static enum tenure_status give_up(struct call *c, enum tenure_status status)
{
    return tenure_fail(c->err, status, "fault: %s of %s: %s", call_words[c->event.call],
                       c->event.key ? c->event.key : "the store", action_words[c->plan.action]);
}

static void send_due(tn_fault *f)
{
    late_send(&f->late, f->url, atomic_load(&f->calls), tenure_now());
}

/* Asks the hook.  OK: send it; else the answer. */
static enum tenure_status begin(struct call *c)
{
    tn_fault *f = c->handle->fault;
    bool changes = c->event.call == TN_CALL_SWAP || c->event.call == TN_CALL_BATCH;

    c->event.number = atomic_fetch_add(&f->calls, 1) + 1;
    c->event.handle = c->handle->number;
    c->event.deadline = c->deadline;
    send_due(f);
    if (f->hook)
        f->hook(f->hook_arg, &c->event, &c->plan);
    if (c->plan.before_ns && !pause_until(tenure_now() + c->plan.before_ns, c->deadline))
        return give_up(c, TENURE_TIMEOUT);
    switch (c->plan.action) {
    case TN_FAULT_FAIL:
        return give_up(c, c->plan.status);
    case TN_FAULT_DROP_REQUEST:
        return give_up(c, changes ? TENURE_UNKNOWN : TENURE_TIMEOUT);
    case TN_FAULT_LATER:
        for (size_t i = 0; i < c->event.n; i++) {
            if (!late_add(&f->late, &c->event.swaps[i],
                          c->plan.calls ? c->event.number + c->plan.calls : 0,
                          tenure_now() + c->plan.later_ns))
                return tenure_fail(c->err, TENURE_NOMEM, "fault: out of memory");
        }
        return changes ? give_up(c, TENURE_UNKNOWN) : TENURE_OK;
    default:
        return TENURE_OK;
    }
}

/* What is known about one swap, for the trace: "key 3 -> ok 4". */
static void trace_swap(char *line, size_t size, const struct tenure_swap *swap)
{
    size_t used = strlen(line);

    snprintf(line + used, size - used, " %s %s%s -> %s%s%s", swap->key,
             swap->expect.version[0] ? swap->expect.version : "absent",
             swap->tombstone ? " erase" : "", tenure_status_word(swap->status),
             swap->status == TENURE_OK ? " " : "",
             swap->status == TENURE_OK ? swap->token.version : "");
}

static void trace(const struct call *c, enum tenure_status status)
{
    tn_fault *f = c->handle->fault;
    char line[1024];

    if (!f->trace)
        return;
    snprintf(line, sizeof line, "#%llu h%u %s", (unsigned long long)c->event.number,
             c->event.handle, call_words[c->event.call]);
    for (size_t i = 0; i < c->event.n; i++)
        trace_swap(line, sizeof line, &c->event.swaps[i]);
    if (!c->event.n)
        snprintf(line + strlen(line), sizeof line - strlen(line), "%s%s -> %s",
                 c->event.key ? " " : "", c->event.key ? c->event.key : "",
                 tenure_status_word(status));
    if (c->plan.action != TN_FAULT_PASS)
        snprintf(line + strlen(line), sizeof line - strlen(line), " (%s)",
                 action_words[c->plan.action]);
    pthread_mutex_lock(&f->trace_lock);
    f->trace(f->trace_arg, line);
    pthread_mutex_unlock(&f->trace_lock);
}

/* The answer as the caller gets it.  status: what the inner store said. */
static enum tenure_status end(struct call *c, enum tenure_status status)
{
    bool changes = c->event.call == TN_CALL_SWAP || c->event.call == TN_CALL_BATCH;
    bool in_time = !c->plan.after_ns || pause_until(tenure_now() + c->plan.after_ns, c->deadline);

    if (c->plan.action == TN_FAULT_DROP_ANSWER || c->plan.action == TN_FAULT_CUT || !in_time)
        status = give_up(c, changes ? TENURE_UNKNOWN : TENURE_TIMEOUT);
    return status;
}

static enum tenure_status finish(struct call *c, enum tenure_status status)
{
    trace(c, status);
    return status;
}

/* ---- The table ----------------------------------------------------------- */

static enum tenure_status fault_open(const char *url, int64_t deadline, void **impl,
                                     struct tenure_error *err)
{
    struct handle *h = calloc(1, sizeof *h);

    if (!h)
        return tenure_fail(err, TENURE_NOMEM, "fault: out of memory");
    pthread_mutex_lock(&faults_lock);
    h->fault = find(url + strlen("fault:"));
    pthread_mutex_unlock(&faults_lock);
    if (!h->fault) {
        free(h);
        return tenure_fail(err, TENURE_CONFIG, "fault: nobody made '%s'", url);
    }
    h->number = atomic_fetch_add(&h->fault->handles, 1) + 1;
    struct call c = {.handle = h, .event.call = TN_CALL_OPEN, .deadline = deadline, .err = err};
    enum tenure_status status = begin(&c);
    if (!status)
        status = end(&c, tenure_store_open(h->fault->url, deadline, &h->inner, err));
    finish(&c, status);
    if (status) {
        tenure_store_close(h->inner);
        free(h);
        return status;
    }
    *impl = h;
    return TENURE_OK;
}

static void fault_close(void *impl)
{
    struct handle *h = impl;

    tenure_store_close(h->inner);
    free(h);
}

static void fault_info(void *impl, struct tenure_store_info *info)
{
    struct handle *h = impl;

    *info = *tenure_store_info(h->inner);
    info->scheme = "fault";
}

static enum tenure_status fault_read(void *impl, const char *key, struct tenure_value *value,
                                     int64_t deadline, struct tenure_error *err)
{
    struct handle *h = impl;
    struct call c = {.handle = h, .event = {.call = TN_CALL_READ, .key = key}};
    struct tenure_value found = {0};

    c.deadline = deadline;
    c.err = err;
    enum tenure_status status = begin(&c);
    if (!status)
        status = end(&c, tenure_store_read(h->inner, key, &found, deadline, err));
    /* Into a value of our own first: an answer that is dropped leaves no trace. */
    if (!status)
        status = tenure_value_set(value, found.data, found.len, err);
    if (!status) {
        value->token = found.token;
        value->tombstone = found.tombstone;
        memcpy(value->prev, found.prev, sizeof value->prev);
    }
    tenure_value_free(&found);
    return finish(&c, status);
}

static enum tenure_status fault_swap(void *impl, struct tenure_swap *swap, int64_t deadline,
                                     struct tenure_error *err)
{
    struct handle *h = impl;
    struct call c = {.handle = h, .deadline = deadline, .err = err};

    c.event =
        (struct tn_fault_event){.call = TN_CALL_SWAP, .key = swap->key, .swaps = swap, .n = 1};
    swap->status = begin(&c);
    if (!swap->status)
        swap->status = end(&c, tenure_store_swap(h->inner, swap, deadline, err));
    if (swap->status)
        memset(&swap->token, 0, sizeof swap->token);
    return finish(&c, swap->status);
}

static enum tenure_status fault_swap_many(void *impl, struct tenure_swap *swaps, size_t n,
                                          int64_t deadline, struct tenure_error *err)
{
    struct handle *h = impl;
    struct call c = {.handle = h, .deadline = deadline, .err = err};

    c.event = (struct tn_fault_event){.call = TN_CALL_BATCH, .swaps = swaps, .n = n};
    c.event.key = swaps[0].key;
    enum tenure_status status = begin(&c);
    bool sent = status == TENURE_OK;
    size_t part = c.plan.action == TN_FAULT_CUT && c.plan.calls < n ? c.plan.calls : n;

    if (sent)
        status = end(&c, tenure_store_swap_many(h->inner, swaps, part, deadline, err));
    /* Without an answer nothing is known about any member. */
    for (size_t i = 0; i < n && (!sent || status == TENURE_UNKNOWN); i++) {
        swaps[i].status = status;
        memset(&swaps[i].token, 0, sizeof swaps[i].token);
    }
    return finish(&c, status);
}

/* Hears nothing but the caller's own wake-up. */
static enum tenure_status deaf(int wake_fd, int64_t deadline, struct tenure_error *err)
{
    for (int64_t left; (left = deadline - tenure_now()) > 0;) {
        struct pollfd wake = {.fd = wake_fd, .events = POLLIN};

        if (poll(&wake, 1, (int)(left / 1000000 < 1000 ? left / 1000000 + 1 : 1000)) > 0)
            return tenure_fail(err, TENURE_CANCELLED, "fault: the wait was cancelled");
    }
    return tenure_fail(err, TENURE_TIMEOUT, "fault: nothing was heard");
}

static enum tenure_status fault_wait(void *impl, const struct tenure_watch *watches, size_t n,
                                     int wake_fd, int64_t deadline, struct tenure_error *err)
{
    struct handle *h = impl;
    struct call c = {.handle = h, .deadline = deadline, .err = err};

    c.event = (struct tn_fault_event){.call = TN_CALL_WAIT, .key = n ? watches[0].key : NULL};
    enum tenure_status status = begin(&c);
    if (status || c.plan.action == TN_FAULT_SPURIOUS)
        return finish(&c, status);
    if (c.plan.action == TN_FAULT_DEAF)
        return finish(&c, deaf(wake_fd, deadline, err));
    /* What is late may be what we wait for: get up to send it. */
    do {
        int64_t until = late_next(&h->fault->late);

        send_due(h->fault);
        until = until < deadline ? until : deadline;
        status = tenure_store_wait(h->inner, watches, n, wake_fd, until, err);
    } while (status == TENURE_TIMEOUT && tenure_now() < deadline);
    return finish(&c, end(&c, status));
}

static enum tenure_status fault_list(void *impl, const char *prefix, const char *after,
                                     tenure_visit_fn visit, void *arg,
                                     char mark[TENURE_VERSION_MAX + 1], int64_t deadline,
                                     struct tenure_error *err)
{
    struct handle *h = impl;
    struct call c = {.handle = h, .deadline = deadline, .err = err};

    c.event = (struct tn_fault_event){.call = TN_CALL_LIST, .key = prefix};
    enum tenure_status status = begin(&c);
    if (!status)
        status =
            end(&c, tenure_store_list(h->inner, prefix, after, visit, arg, mark, deadline, err));
    return finish(&c, status);
}

static const struct tenure_store_ops fault_ops = {
    .abi = TENURE_STORE_ABI,
    .scheme = "fault",
    .open = fault_open,
    .close = fault_close,
    .info = fault_info,
    .read = fault_read,
    .swap = fault_swap,
    .swap_many = fault_swap_many,
    .wait = fault_wait,
    .list = fault_list,
};
