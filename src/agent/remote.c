/* An election of another process, as the listener asks for it. */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/proxy_inner.h"
#include "tenure/store.h"

/* ---- Who leads: from the page, by our own clock -------------------------- */

static bool is_alive(const struct tn_upstream *u)
{
    struct pollfd fd = {.fd = u->life_fd, .events = POLLIN};

    return poll(&fd, 1, 0) == 0;
}

/*
 * The page first, then whether its process lives, then whether it is still that one: an
 * answer "leads" was true before the process died, so that what a client was told has run
 * out when the guard releases (I8).
 */
static void read_leader(void *arg, struct tn_leader_view *v)
{
    struct tn_upstream *u = arg;
    uint64_t start = atomic_load(&u->starts);

    tn_leader_page_read(u->page, v);
    if (v->left_ns > 0 && (!is_alive(u) || start != atomic_load(&u->starts)))
        *v = (struct tn_leader_view){.stopping = v->stopping};
}

/* A process that is not there is no standby either. */
static bool is_stopping(void *arg)
{
    struct tn_leader_view v;

    read_leader(arg, &v);
    return v.stopping || !is_alive(arg);
}

/* ---- What it last said --------------------------------------------------- */

/* Somebody looks: it is pinged from now on, for a while. */
static void touch(struct tn_upstream *u)
{
    int64_t now = tenure_now(), before = atomic_exchange(&u->looked_ns, now);

    if (now - before > TN_S)
        tn_proxy_wake(u->proxy);
}

/* The question with that number is put to it, unless a later one was. */
static void want(struct tn_upstream *u, uint64_t ping)
{
    uint64_t before = atomic_load(&u->wanted);

    while (before < ping && !atomic_compare_exchange_weak(&u->wanted, &before, ping))
        continue;
    if (before < ping)
        tn_proxy_wake(u->proxy);
}

static bool is_fresh(void *arg, uint64_t *ping)
{
    struct tn_upstream *u = arg;
    struct tn_leader_view v;

    if (ping && *ping == 0)
        *ping = atomic_fetch_add(&u->proxy->pings, 1) + 1;
    touch(u);
    if (ping)
        want(u, *ping);
    read_leader(u, &v);
    pthread_mutex_lock(&u->proxy->lock);
    /* A process that has just won or lost says so in a moment. */
    bool agrees = u->answered && u->last && u->last->leads == v.leads;
    bool fresh = !u->there || u->unresponsive || (ping ? u->acked >= *ping : agrees);
    pthread_mutex_unlock(&u->proxy->lock);
    return fresh;
}

bool tn_remote_snapshot(struct tn_upstream *u, uint64_t ping,
                        const struct tn_election_snapshot *bytes, size_t len)
{
    struct tn_election_snapshot *s, *former;

    if (len > TN_SNAPSHOT_MAX)
        return false;
    if (!(s = malloc(len + !len)))
        return true; /* it is dropped; the next one says as much */
    memcpy(s, bytes, len);
    if (!tn_snapshot_check(s, len) || ping > u->pinged) {
        free(s);
        return false;
    }
    memcpy(s->driver.name, u->name, sizeof s->driver.name); /* whatever it calls itself */
    pthread_mutex_lock(&u->proxy->lock);
    former = u->last;
    u->last = s;
    u->news += u->unresponsive;
    u->unresponsive = false;
    bool first = !u->answered || ping > u->acked; /* somebody may be waiting for it */
    u->answered = u->there && u->watched;
    u->acked = ping;
    pthread_mutex_unlock(&u->proxy->lock);
    free(former);
    if (first)
        tn_api_wake(u->proxy->api);
    tn_api_notify(u->proxy->api);
    return true;
}

/* Under the lock.  Without its lists, unless they are wanted. */
static struct tn_election_snapshot *copy_last(const struct tn_upstream *u, bool lists)
{
    uint32_t n_listed = lists && u->last ? u->last->n_listed : 0;
    uint32_t n_terms = lists && u->last ? u->last->n_terms : 0;
    size_t size = tn_snapshot_size(n_listed, n_terms);
    struct tn_election_snapshot *s = calloc(1, size);

    if (s && u->last) {
        memcpy(s, u->last, size);
        s->n_listed = n_listed;
        s->n_terms = n_terms;
    }
    return s;
}

static enum tn_reach reach_of(const struct tn_upstream *u, uint64_t ping, bool leads)
{
    if (!u->there)
        return TN_REACH_ENDED;
    if (u->unresponsive || u->acked < ping)
        return TN_REACH_UNRESPONSIVE;
    if (!u->answered)
        return TN_REACH_UNKNOWN;
    return u->last->leads == leads ? TN_REACH_HERE : TN_REACH_BEHIND;
}

/* What it last said, with what we know better. */
static struct tn_election_snapshot *snapshot(void *arg, bool lists, uint64_t ping)
{
    struct tn_upstream *u = arg;
    struct tn_leader_view v;

    touch(u);
    read_leader(u, &v);
    pthread_mutex_lock(&u->proxy->lock);
    struct tn_election_snapshot *s = copy_last(u, lists);
    if (s) {
        s->reach = (uint8_t)reach_of(u, ping, v.leads);
        s->news = u->news;
        memcpy(s->fate, u->fate, sizeof s->fate);
    }
    pthread_mutex_unlock(&u->proxy->lock);
    if (!s)
        return NULL;
    memcpy(s->driver.name, u->name, sizeof s->driver.name);
    s->remote = 1;
    s->leads = v.leads;
    s->running = v.running;
    s->stopping |= v.stopping;
    s->epoch = v.epoch;
    s->grant_ns = v.grant_ns;
    s->left_ns = v.left_ns;
    s->now_ns = tenure_now();
    return s;
}

const struct tn_election_remote tn_remote_table = {
    .leader = read_leader, .stopping = is_stopping, .fresh = is_fresh, .snapshot = snapshot};
