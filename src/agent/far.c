/* An election of another process, as the listener asks for it. */
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "agent/hub_inner.h"
#include "base/text.h"
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

/* Who is not there is no standby either. */
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
    struct tn_facts_view v;

    look(f);
    view_of(f, &v);
    pthread_mutex_lock(&f->hub->lock);
    /* Who has just won or lost tells so in a moment. */
    bool agrees = json_is_true(json_object_get(f->last, "leading")) == v.leads;
    bool is = !f->there || (f->told && agrees) || f->silent;
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

/* A copy: counted references are not for several threads.  brief: without the long lists. */
static json_t *copy_of(const json_t *last, bool brief)
{
    static const char *const members[] = {"name",   "id",      "role",  "leading",
                                          "reason", "version", "leader"};
    json_t *copy;

    if (!last || !brief)
        return last ? json_deep_copy(last) : NULL;
    copy = json_object();
    for (size_t i = 0; i < sizeof members / sizeof members[0]; i++)
        json_object_set_new(copy, members[i], json_deep_copy(json_object_get(last, members[i])));
    return copy;
}

static void recall(struct tn_far *f, struct told *t, bool brief)
{
    look(f);
    view_of(f, &t->v);
    int64_t now = tenure_now();
    pthread_mutex_lock(&f->hub->lock);
    t->last = copy_of(f->last, brief);
    t->gone = !f->there;
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
    tn_text_repair(out, '?');
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
    json_t *leader = json_object_get(t->last, "leader");

    if (!json_is_object(leader) ||
        (t->gone && strcmp(text_of(leader, "id"), text_of(t->last, "id")) == 0))
        return json_null();
    json_int_t seen_ms = json_integer_value(json_object_get(leader, "seen_ms"));
    if (__builtin_add_overflow(seen_ms, t->age_ms, &seen_ms))
        seen_ms = INT64_MAX;
    json_object_set_new(leader, "seen_ms", json_integer(seen_ms));
    return json_incref(leader);
}

static json_t *nothing_known(const char *name)
{
    return json_pack(
        "{s:s, s:s, s:i, s:i, s:n, s:[], s:[], s:{s:i, s:{}, s:i, s:i, s:[]}, s:n, s:n}", "name",
        name, "id", "", "ttl_ms", 0, "renew_ms", 0, "paused", "candidates", "history", "renewals",
        "ok", 0, "failed", "p50_ms", 0, "p99_ms", 0, "recent_ms", "state", "guard");
}

/* What it told, with what we know better. */
static json_t *tell(struct tn_far *f, bool brief)
{
    struct told t;
    char reason[512];

    recall(f, &t, brief);
    describe(&t, reason, sizeof reason);
    json_t *o = t.last ? t.last : nothing_known(f->name);
    /* All of them before the first is replaced. */
    json_t *version = version_of(&t), *leader = leader_of(&t), *role = json_string(role_of(&t));
    json_object_set_new(o, "role", role);
    json_object_set_new(o, "leading", json_boolean(t.v.leads));
    json_object_set_new(o, "reason", json_string(reason));
    json_object_set_new(o, "epoch", json_integer((json_int_t)t.v.epoch));
    json_object_set_new(o, "left_ms", json_integer(t.v.left_ns / TN_MS));
    json_object_set_new(o, "version", version);
    json_object_set_new(o, "leader", leader);
    return o;
}

static json_t *whole(void *arg)
{
    return tell(arg, false);
}

static json_t *leadership(void *arg)
{
    json_t *e = tell(arg, true), *leader = json_object_get(e, "leader"), *o = json_object();
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

    recall(f, &t, true);
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
