/* An election of another process, as the listener asks for it. */
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "agent/hub_inner.h"
#include "tenure/store.h"

/* ---- Who leads: from the page, by our own clock -------------------------- */

static bool alive(const struct tn_far *f)
{
    struct pollfd fd = {.fd = f->life_fd, .events = POLLIN};

    return poll(&fd, 1, 0) == 0;
}

/*
 * The page first, then whether its process lives, then whether it is still that one: an
 * answer "leads" was true before the process died, so that what a client was told has run
 * out when the guard releases (I8).
 */
static void view_of(struct tn_far *f, struct tn_facts_view *v)
{
    uint64_t start = atomic_load(&f->starts);

    tn_facts_read(f->facts, v);
    if (v->left_ns > 0 && (!alive(f) || start != atomic_load(&f->starts)))
        *v = (struct tn_facts_view){.stopping = v->stopping};
}

static bool leads(void *arg)
{
    struct tn_facts_view v;

    view_of(arg, &v);
    return v.leads;
}

static bool ready(void *arg)
{
    struct tn_facts_view v;

    view_of(arg, &v);
    return v.leads && v.running;
}

/* Who is not there is no stand-by either. */
static bool stopping(void *arg)
{
    struct tn_facts_view v;

    view_of(arg, &v);
    return v.stopping || !alive(arg);
}

/* ---- What it told -------------------------------------------------------- */

/* Somebody looks: from now on it is listened to, for a while. */
static void look(struct tn_far *f)
{
    int64_t now = tenure_now(), before = atomic_exchange(&f->looked_ns, now);

    if (now - before > TN_S)
        tn_hub_wake(f->hub);
}

static bool fresh(void *arg)
{
    struct tn_far *f = arg;

    look(f);
    pthread_mutex_lock(&f->hub->lock);
    bool is = f->address_len == 0 || f->told || f->silent;
    pthread_mutex_unlock(&f->hub->lock);
    return is;
}

struct told {
    struct tn_facts_view v;
    json_t *last; /* ours; may be NULL */
    bool gone, silent;
    int64_t age_ms;
    uint64_t news;
    char fate[200];
};

static void recall(struct tn_far *f, struct told *t)
{
    look(f);
    view_of(f, &t->v);
    int64_t now = tenure_now();
    pthread_mutex_lock(&f->hub->lock);
    t->last = json_incref(f->last);
    t->gone = f->address_len == 0;
    t->silent = !f->told;
    t->age_ms = f->last ? (now - f->heard_ns) / TN_MS : 0;
    t->news = f->news;
    snprintf(t->fate, sizeof t->fate, "%s", f->fate);
    pthread_mutex_unlock(&f->hub->lock);
}

static const char *text_of(const json_t *object, const char *member)
{
    const char *text = json_string_value(json_object_get(object, member));

    return text ? text : "";
}

static const char *role_of(const struct told *t)
{
    const char *role = text_of(t->last, "role");

    if (t->v.leads)
        return "leader";
    if (t->gone)
        return "ended";
    if (t->silent || !t->last)
        return "silent";
    return strcmp(role, "leader") == 0 ? "stopping" : role;
}

static void describe(const struct told *t, char *out, size_t size)
{
    const char *said = text_of(t->last, "reason");
    bool led = json_is_true(json_object_get(t->last, "leading"));

    if (t->gone)
        snprintf(out, size, "%s", t->fate);
    else if (t->silent && t->v.leads)
        snprintf(out, size, "leads, epoch %" PRIu64 "; its process does not answer", t->v.epoch);
    else if (t->silent)
        snprintf(out, size, "its process does not answer");
    else if (t->v.leads != led && t->v.leads)
        snprintf(out, size, "leads, epoch %" PRIu64, t->v.epoch);
    else if (t->v.leads != led)
        snprintf(out, size, "does not lead any more");
    else
        snprintf(out, size, "%s", said);
}

/* Changes whenever an answer does that somebody may wait for. */
static json_t *version_of(const struct told *t)
{
    return json_sprintf("%s.%" PRIu64 "%s", text_of(t->last, "version"), t->news,
                        t->v.leads ? "l" : "");
}

/* As it was last seen: so much longer ago.  A process that is gone does not lead. */
static json_t *leader_of(const struct told *t)
{
    json_t *leader = json_object_get(t->last, "leader"), *copy;

    if (!json_is_object(leader) ||
        (t->gone && strcmp(text_of(leader, "id"), text_of(t->last, "id")) == 0))
        return json_null();
    copy = json_copy(leader);
    json_object_set_new(
        copy, "seen_ms",
        json_integer(json_integer_value(json_object_get(leader, "seen_ms")) + t->age_ms));
    return copy;
}

static json_t *nothing_known(const char *name)
{
    return json_pack(
        "{s:s, s:s, s:i, s:i, s:n, s:[], s:[], s:{s:i, s:{}, s:i, s:i, s:[]}, s:n, s:n}", "name",
        name, "id", "", "ttl_ms", 0, "renew_ms", 0, "paused", "candidates", "history", "renewals",
        "ok", 0, "failed", "p50_ms", 0, "p99_ms", 0, "recent_ms", "state", "guard");
}

/* Shallow: what it told is shared, and never changed. */
static json_t *whole(void *arg)
{
    struct tn_far *f = arg;
    struct told t;
    char reason[512];

    recall(f, &t);
    describe(&t, reason, sizeof reason);
    json_t *o = t.last ? json_copy(t.last) : nothing_known(f->name);
    json_object_set_new(o, "role", json_string(role_of(&t)));
    json_object_set_new(o, "leading", json_boolean(t.v.leads));
    json_object_set_new(o, "reason", json_string(reason));
    json_object_set_new(o, "epoch", json_integer((json_int_t)t.v.epoch));
    json_object_set_new(o, "left_ms", json_integer(t.v.left_ns / TN_MS));
    json_object_set_new(o, "version", version_of(&t));
    json_object_set_new(o, "leader", leader_of(&t));
    json_decref(t.last);
    return o;
}

static json_t *leadership(void *arg)
{
    json_t *e = whole(arg), *leader = json_object_get(e, "leader"), *o = json_object();
    static const char *const same[] = {"name",   "id",    "leading", "role",
                                       "reason", "epoch", "left_ms", "version"};

    for (size_t i = 0; i < sizeof same / sizeof same[0]; i++)
        json_object_set(o, same[i], json_object_get(e, same[i]));
    json_object_set_new(o, "leader",
                        json_is_object(leader) ? json_string(text_of(leader, "id")) : json_null());
    json_object_set_new(o, "leader_epoch",
                        json_integer(json_integer_value(json_object_get(leader, "epoch"))));
    json_object_set_new(o, "leader_address", json_string(text_of(leader, "address")));
    json_decref(e);
    return o;
}

static void reason(void *arg, char *out, size_t size)
{
    struct tn_far *f = arg;
    struct told t;

    recall(f, &t);
    if (t.v.leads && !t.v.running)
        snprintf(out, size, "leads, epoch %" PRIu64 "; its program does not run yet", t.v.epoch);
    else if (!t.v.leads && !t.gone && t.silent)
        snprintf(out, size, "does not lead"); /* nobody has listened to it, until now */
    else
        describe(&t, out, size);
    json_decref(t.last);
}

const struct tn_election_far tn_far_table = {.leads = leads,
                                             .ready = ready,
                                             .stopping = stopping,
                                             .fresh = fresh,
                                             .reason = reason,
                                             .json = whole,
                                             .leadership = leadership};
