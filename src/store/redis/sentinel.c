#include "store/redis/sentinel.h"

#include <string.h>

#include "store/redis/bundle.h"
#include "store/redis/reply.h"
#include "tenure/store.h"

/* What the Sentinels said so far. */
struct poll_state {
    struct tn_remote_addr named[TN_REMOTE_HOSTS];
    unsigned votes[TN_REMOTE_HOSTS];
    unsigned n_named;
    unsigned ignorant; /* do not know the name */
};

void tn_redis_sentinels_init(struct tn_redis_sentinels *s, const struct tn_redis_conf *conf)
{
    memset(s, 0, sizeof *s);
    s->conf = conf;
    for (unsigned i = 0; i < TN_REMOTE_HOSTS; i++)
        s->order[i] = i;
}

void tn_redis_sentinels_close(struct tn_redis_sentinels *s)
{
    for (unsigned i = 0; i < TN_REMOTE_HOSTS; i++) {
        tn_redis_link_close(s->links[i]);
        s->links[i] = NULL;
    }
}

static enum tenure_status log_in(const struct tn_redis_conf *conf, struct tn_redis_link *link,
                                 int64_t deadline, struct tenure_error *err)
{
    struct tn_redis_bundle login = {0};
    redisReply *reply = NULL;
    enum tenure_status status =
        tn_redis_bundle_login(&login, conf->sentinel_user, &conf->sentinel_password, 0, err);

    if (status || login.count == 0)
        return status;
    status = tn_redis_bundle_send(&login, link, deadline, err);
    if (!status)
        status = tn_redis_link_reply(link, deadline, &reply, err);
    if (!status && tn_redis_fault(reply, NULL, err))
        status = err->code;
    if (reply)
        freeReplyObject(reply);
    return status;
}

static enum tenure_status open_link(struct tn_redis_sentinels *s, unsigned who, int64_t deadline,
                                    struct tenure_error *err)
{
    struct tn_redis_link *link = NULL;
    enum tenure_status status;

    if (s->links[who] && tn_redis_link_idle(s->links[who]))
        return TENURE_OK;
    tn_redis_link_close(s->links[who]);
    s->links[who] = NULL;
    status = tn_redis_link_open(s->conf, &s->conf->hosts[who], deadline, &link, err);
    if (status)
        return status;
    status = log_in(s->conf, link, deadline, err);
    if (status)
        tn_redis_link_close(link);
    else
        s->links[who] = link;
    return status;
}

/* Ask one.  OK with an empty host: it does not know the name. */
static enum tenure_status ask_one(struct tn_redis_sentinels *s, unsigned who, int64_t deadline,
                                  struct tn_remote_addr *addr, struct tenure_error *err)
{
    const char *const question[] = {"SENTINEL", "get-master-addr-by-name", s->conf->master, NULL};
    enum tenure_status status = open_link(s, who, deadline, err);
    redisReply *r = NULL;

    if (!status)
        status = tn_redis_link_ask(s->links[who], question, deadline, &r, err);
    if (status)
        goto done;
    memset(addr, 0, sizeof *addr);
    if (tn_redis_fault(r, NULL, err))
        status = err->code;
    else if (r->type == REDIS_REPLY_NIL)
        goto done;
    else if (r->type != REDIS_REPLY_ARRAY || r->elements != 2 ||
             r->element[0]->type != REDIS_REPLY_STRING ||
             r->element[1]->type != REDIS_REPLY_STRING ||
             !tn_remote_addr_set(addr, r->element[0]->str, (size_t)r->element[0]->len,
                                 r->element[1]->str, (size_t)r->element[1]->len))
        status = tenure_fail(err, TENURE_UNAVAILABLE, "this is not a Sentinel's answer");
done:
    if (r)
        freeReplyObject(r);
    if (status) {
        tn_redis_link_close(s->links[who]);
        s->links[who] = NULL;
    }
    return status;
}

/* Count a vote; returns how many now say the same. */
static unsigned count(struct poll_state *p, const struct tn_remote_addr *addr, unsigned *which)
{
    unsigned i = 0;

    if (!addr->host[0])
        return ++p->ignorant;
    while (i < p->n_named &&
           (strcmp(p->named[i].host, addr->host) != 0 || strcmp(p->named[i].port, addr->port) != 0))
        i++;
    if (i == p->n_named)
        p->named[p->n_named++] = *addr;
    *which = i;
    return ++p->votes[i];
}

/* Who did not answer is asked last from now on. */
static void ask_last(struct tn_redis_sentinels *s, unsigned place)
{
    unsigned who = s->order[place], n = s->conf->n_hosts;

    memmove(&s->order[place], &s->order[place + 1], (n - place - 1) * sizeof s->order[0]);
    s->order[n - 1] = who;
}

enum tenure_status tn_redis_sentinels_ask(struct tn_redis_sentinels *s, int64_t deadline,
                                          struct tn_remote_addr *master, struct tenure_error *err)
{
    unsigned n = s->conf->n_hosts, majority = n / 2 + 1, place = 0, which = 0, answered = 0;
    enum tenure_status status = TENURE_OK;
    struct poll_state p = {0};

    for (unsigned left = n; left; left--) {
        struct tn_remote_addr addr;
        int64_t now = tenure_now();
        enum tenure_status one =
            ask_one(s, s->order[place], now + (deadline - now) / (left + 1), &addr, err);

        if (one == TENURE_CANCELLED)
            return one;
        if (one) {
            status = one;
            ask_last(s, place);
            continue;
        }
        place++;
        answered++;
        if (count(&p, &addr, &which) < majority)
            continue;
        if (!addr.host[0])
            return tenure_fail(err, TENURE_CONFIG, "redis: the Sentinels know no master called %s",
                               s->conf->master);
        *master = p.named[which];
        return TENURE_OK;
    }
    if (status == TENURE_DENIED)
        return tenure_fail_context(err, "redis: Sentinel");
    if (tenure_now() >= deadline)
        status = TENURE_TIMEOUT;
    else
        status = TENURE_UNAVAILABLE;
    return tenure_fail(err, status,
                       "redis: no majority of the %u Sentinels agrees on the master %s (%u "
                       "answered); is a fail-over going on, or are they down?",
                       n, s->conf->master, answered);
}
