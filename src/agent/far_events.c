/* The event stream of an election's process: what it tells, event by event. */
#include <string.h>

#include "agent/hub_inner.h"
#include "tenure/store.h"

/* `data: ` of one event: the status of an agent with one election. */
static void learn(struct tn_far *f, const char *data, size_t len)
{
    json_t *status = json_loadb(data, len, 0, NULL), *former;
    json_t *election = json_array_get(json_object_get(status, "elections"), 0);
    bool first;

    if (json_is_object(election)) {
        pthread_mutex_lock(&f->hub->lock);
        former = f->last;
        f->last = json_incref(election);
        f->heard_ns = tenure_now();
        f->news += f->silent;
        f->silent = false;
        /* A process that has ended meanwhile is not brought back by its last words. */
        first = !f->told;
        f->told = f->there && f->link_start == atomic_load(&f->starts);
        pthread_mutex_unlock(&f->hub->lock);
        json_decref(former);
        if (first)
            tn_api_wake(f->hub->api); /* somebody may be waiting for it */
        tn_api_poke(f->hub->api);
    }
    json_decref(status);
}

static void take_event(struct tn_far *f, const char *text, size_t len)
{
    static const char word[] = "data: ";
    const char *at = memmem(text, len, word, sizeof word - 1), *end;

    if (!at)
        return;
    at += sizeof word - 1;
    end = memchr(at, '\n', (size_t)(text + len - at));
    learn(f, at, (size_t)((end ? end : text + len) - at));
}

bool tn_far_take(struct tn_far *f)
{
    size_t done = 0;
    char *end;

    if (f->in.len == 0)
        return true;
    if (!f->body) {
        end = memmem(f->in.data, f->in.len, "\r\n\r\n", 4);
        if (!end)
            return f->in.len < 16384;
        if (f->in.len < 12 || memcmp(f->in.data + 8, " 200", 4) != 0)
            return false;
        f->body = true;
        done = (size_t)(end + 4 - f->in.data);
    }
    while ((end = memmem(f->in.data + done, f->in.len - done, "\n\n", 2))) {
        take_event(f, f->in.data + done, (size_t)(end - f->in.data) - done);
        done = (size_t)(end + 2 - f->in.data);
    }
    memmove(f->in.data, f->in.data + done, f->in.len - done);
    f->in.len -= done;
    return true;
}
