/*
 * The thread that answers those who wait: event streams, long polls, finished
 * requests.  It sleeps while nobody does.
 */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/inner.h"
#include "core/timing.h"
#include "os/clock.h"
#include "os/poll.h"
#include "os/thread.h"

/* Streams hear something at least so often; what happens at once is told at once, and what comes
 * in a bunch as one: so long after it. */
#define BEAT_NS   (2 * TN_S)
#define SPACE_NS  (50 * TN_MS)
/* Long polls whose time is over are noticed so soon. */
#define PARKED_NS (250 * TN_MS)
/* Who takes longer to send a request is hung up on; sooner when it gets crowded. */
#define SLOW_NS   (30 * TN_S)
#define CROWD     256u
#define CROWD_NS  (5 * TN_S)

void tn_api_notify(void *api)
{
    uint64_t one = 1;

    while (write(((struct tn_api *)api)->event_fd, &one, sizeof one) < 0 && errno == EINTR)
        continue;
}

/* ---- What is told -------------------------------------------------------- */

json_t *tn_api_group_view(struct tn_api *api, uint32_t limit)
{
    json_t *view = api->group->view(api->group_arg, limit);

    if (view) {
        json_object_set_new(view, "version", json_string(tenure_version()));
        json_object_set_new(view, "host", json_string(api->host));
    }
    return view;
}

json_t *tn_api_status(struct tn_api *api)
{
    json_t *elections = json_array();
    const struct tn_api_list *list = atomic_load(&api->list);

    for (size_t i = 0; i < list->n; i++) {
        struct tn_election_snapshot *s = tn_election_snapshot(list->elections[i], true, 0);

        if (s)
            json_array_append_new(elections, tn_snapshot_json(s));
        free(s);
    }
    return json_pack("{s:{s:s, s:s, s:i, s:I, s:I}, s:o}", "agent", "version", tenure_version(),
                     "host", api->host, "pid", (int)getpid(), "started_ms",
                     (json_int_t)api->started_ms, "now_ms", (json_int_t)tn_wall_ms(), "elections",
                     elections);
}

char *tn_api_event(struct tn_api *api, size_t *len)
{
    static const char before[] = "event: status\ndata: ", after[] = "\n\n";
    json_t *status = api->group ? tn_api_group_view(api, TN_GROUP_JOBS) : tn_api_status(api);
    char *text = status ? json_dumps(status, JSON_COMPACT | JSON_REAL_PRECISION(9)) : NULL,
         *event = NULL;

    json_decref(status);
    if (text && (event = malloc(sizeof before + strlen(text) + sizeof after))) {
        *len = (size_t)(stpcpy(stpcpy(stpcpy(event, before), text), after) - event);
    }
    free(text);
    return event;
}

void tn_api_count(struct tn_api *api, struct tn_http_counts *sum)
{
    memset(sum, 0, sizeof *sum);
    for (size_t i = 0; i < api->n_servers; i++) {
        struct tn_http_counts one;

        api->http->count(api->servers[i], &one);
        sum->connections += one.connections;
        sum->streams += one.streams;
        sum->parked += one.parked;
        sum->requests += one.requests;
    }
}

/* ---- The thread ---------------------------------------------------------- */

static void publish(struct tn_api *api)
{
    size_t len = 0;
    char *event = tn_api_event(api, &len);

    for (size_t i = 0; event && i < api->n_servers; i++)
        api->http->publish(api->servers[i], 0, event, len);
    free(event);
}

void tn_api_wake(struct tn_api *api)
{
    for (size_t i = 0; i < api->n_servers; i++)
        api->http->wake(api->servers[i]);
}

static void sweep(struct tn_api *api, const struct tn_http_counts *load)
{
    for (size_t i = 0; i < api->n_servers; i++)
        api->http->sweep(api->servers[i], load->connections > CROWD ? CROWD_NS : SLOW_NS);
}

static void refresh(struct tn_api *api)
{
    const struct tn_api_list *list = atomic_load(&api->list);

    for (size_t i = 0; i < list->n; i++) {
        if (tn_election_wants_refresh(list->elections[i]))
            tn_election_refresh(list->elections[i]);
    }
}

/* When to look again without being notified.  Connections that send nothing notify nobody.
 * publish_at: when the streams are to hear something. */
static int64_t next_look(struct tn_api *api, const struct tn_http_counts *load, int64_t now,
                         int64_t publish_at)
{
    int64_t next = now + SLOW_NS / 2;

    if (load->connections > CROWD)
        next = now + TN_S;
    if (load->streams > 0 && publish_at < next)
        next = publish_at;
    if ((atomic_exchange(&api->parks, false) || load->parked > 0) && now + PARKED_NS < next)
        next = now + PARKED_NS;
    return next;
}

static void *events_main(void *arg)
{
    struct tn_api *api = arg;
    struct pollfd fd = {.fd = api->event_fd, .events = POLLIN};
    int64_t published = 0, swept = 0;
    bool news = false; /* the streams have not heard of it */

    tn_thread_name("tenure-events");
    while (!atomic_load(&api->ending)) {
        struct tn_http_counts load;
        uint64_t count;

        tn_api_count(api, &load);
        int64_t now = tenure_now();
        tn_poll(&fd, 1, next_look(api, &load, now, published + (news ? SPACE_NS : BEAT_NS)));
        news |= read(api->event_fd, &count, sizeof count) > 0;
        if (atomic_load(&api->ending))
            break;
        now = tenure_now();
        tn_api_count(api, &load);
        refresh(api);
        if (load.parked > 0) {
            tn_api_wake(api);
            atomic_store(&api->parks, true); /* most of them again, in a moment */
        }
        /* Never slept for here: finished requests are answered by this thread. */
        if (load.streams > 0 && now - published >= (news ? SPACE_NS : BEAT_NS)) {
            publish(api);
            published = now;
            news = false;
        }
        if (load.connections > 0 && now - swept >= TN_S) {
            swept = now;
            sweep(api, &load);
        }
    }
    return NULL;
}

enum tenure_status tn_api_events_start(struct tn_api *api, struct tenure_error *err)
{
    enum tenure_status status = tn_thread_start(&api->thread, events_main, api, err);

    api->thread_started = status == TENURE_OK;
    return status;
}

void tn_api_events_stop(struct tn_api *api)
{
    if (!api->thread_started)
        return;
    atomic_store(&api->ending, true);
    tn_api_notify(api);
    pthread_join(api->thread, NULL);
    api->thread_started = false;
}
