#include "fault_late.h"

#include <stdlib.h>
#include <string.h>

#define SEND_NS INT64_C(10000000000)

struct late {
    struct late *next;
    struct tenure_swap swap;
    char *key;
    void *data;
    uint64_t due_call; /* 0: by time */
    int64_t due_ns;
};

static void destroy(struct late *l)
{
    if (!l)
        return;
    free(l->key);
    free(l->data);
    free(l);
}

void late_init(struct late_queue *q)
{
    *q = (struct late_queue){0};
    pthread_mutex_init(&q->lock, NULL);
}

void late_clear(struct late_queue *q)
{
    while (q->first) {
        struct late *l = q->first;

        q->first = l->next;
        destroy(l);
    }
    tenure_store_close(q->sender);
    pthread_mutex_destroy(&q->lock);
}

bool late_add(struct late_queue *q, const struct tenure_swap *swap, uint64_t due_call,
              int64_t due_ns)
{
    struct late *l = calloc(1, sizeof *l);
    struct late **link = &q->first;

    if (!l || !(l->key = strdup(swap->key)) || !(l->data = malloc(swap->len + 1))) {
        destroy(l);
        return false;
    }
    if (swap->len)
        memcpy(l->data, swap->data, swap->len);
    l->swap = *swap;
    l->swap.key = l->key;
    l->swap.data = l->data;
    l->due_call = due_call;
    l->due_ns = due_ns;
    pthread_mutex_lock(&q->lock);
    while (*link)
        link = &(*link)->next;
    *link = l;
    pthread_mutex_unlock(&q->lock);
    return true;
}

size_t late_send(struct late_queue *q, const char *url, uint64_t call, int64_t now)
{
    size_t applied = 0;

    pthread_mutex_lock(&q->lock);
    for (struct late **link = &q->first, *l; (l = *link);) {
        int64_t deadline = tenure_now() + SEND_NS;

        if (l->due_call ? l->due_call > call : l->due_ns > now) {
            link = &l->next;
            continue;
        }
        if (!q->sender && tenure_store_open(url, deadline, &q->sender, NULL) != TENURE_OK)
            break;
        applied += tenure_store_swap(q->sender, &l->swap, deadline, NULL) == TENURE_OK;
        *link = l->next;
        destroy(l);
    }
    pthread_mutex_unlock(&q->lock);
    return applied;
}

size_t late_count(struct late_queue *q)
{
    size_t n = 0;

    pthread_mutex_lock(&q->lock);
    for (const struct late *l = q->first; l; l = l->next)
        n++;
    pthread_mutex_unlock(&q->lock);
    return n;
}

int64_t late_next(struct late_queue *q)
{
    int64_t next = INT64_MAX;

    pthread_mutex_lock(&q->lock);
    for (const struct late *l = q->first; l; l = l->next) {
        if (!l->due_call && l->due_ns < next)
            next = l->due_ns;
    }
    pthread_mutex_unlock(&q->lock);
    return next;
}
