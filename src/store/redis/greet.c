#include "store/redis/greet.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "store/redis/bundle.h"

#define OLDEST 5 /* Redis 5 made scripts replicate by their effects */

/* ---- Scripts ------------------------------------------------------------- */

static unsigned script_count(const struct tn_redis *h)
{
    return h->conf.repair ? TN_REDIS_SCRIPTS : TN_REDIS_PLAIN;
}

static void add_scripts(const struct tn_redis *h, struct tn_redis_bundle *bundle)
{
    for (unsigned i = 0; i < script_count(h); i++)
        tn_redis_bundle_add(bundle, 3, (const char *[]){"SCRIPT", "LOAD", tn_redis_script_text[i]},
                            NULL);
}

static enum tenure_status take_digest(struct tn_redis *h, unsigned script, const redisReply *r,
                                      struct tenure_error *err)
{
    if (tn_redis_fault(r, NULL, err))
        return err->code;
    if (r->type != REDIS_REPLY_STRING || (size_t)r->len != TN_REDIS_SHA)
        return tenure_fail(err, TENURE_UNAVAILABLE, "SCRIPT LOAD gave no digest");
    memcpy(h->sha[script], r->str, TN_REDIS_SHA + 1);
    return TENURE_OK;
}

enum tenure_status tn_redis_load_scripts(struct tn_redis *h, int64_t deadline,
                                         struct tenure_error *err)
{
    struct tn_redis_bundle bundle = {0};

    add_scripts(h, &bundle);
    enum tenure_status status = tn_redis_bundle_send(&bundle, h->link, deadline, err);
    for (unsigned i = 0; i < script_count(h) && !status; i++) {
        redisReply *r = NULL;

        status = tn_redis_link_reply(h->link, deadline, &r, err);
        if (status)
            break;
        status = take_digest(h, i, r, err);
        freeReplyObject(r);
    }
    return status;
}

/* ---- The greeting -------------------------------------------------------- */

/* A server that hangs up on a new client (maxclients) has said why before. */
static enum tenure_status last_words(struct tn_redis_link *link, enum tenure_status status,
                                     struct tenure_error *err)
{
    struct tenure_error none;
    redisReply *r = NULL;

    if (status != TENURE_UNAVAILABLE || tn_redis_link_try_reply(link, &r, &none) || !r)
        return status;
    if (tn_redis_fault(r, NULL, err))
        status = err->code;
    freeReplyObject(r);
    return status;
}

static void add_probe(struct tn_redis *h, struct tn_redis_bundle *bundle)
{
    tn_redis_bundle_add(bundle, 4, (const char *[]){"EVALSHA", h->sha[TN_REDIS_PROBE], "1", h->seq},
                        NULL);
    h->setup.probed = true;
}

/* What is not asked yet.  The digests are those of every server: who has seen them once asks for
 * everything at once. */
static enum tenure_status ask_next(struct tn_redis *h, int64_t deadline, struct tenure_error *err)
{
    struct tn_redis_setup *s = &h->setup;
    struct tn_redis_bundle bundle = {0};
    enum tenure_status status = TENURE_OK;

    if (s->asked == 0) {
        status = tn_redis_bundle_login(&bundle, h->conf.remote.user, &h->conf.remote.password,
                                       h->conf.db, err);
        s->logins = bundle.count;
        add_scripts(h, &bundle);
    }
    if (s->asked > 0 || h->sha[TN_REDIS_PROBE][0])
        add_probe(h, &bundle);
    s->asked += bundle.count;
    if (status) {
        tn_redis_bundle_clear(&bundle);
        return status;
    }
    return last_words(s->link, tn_redis_bundle_send(&bundle, s->link, deadline, err), err);
}

static enum tenure_status take_probe(struct tn_redis *h, const redisReply *r,
                                     struct tn_redis_answer *answer, struct tenure_error *err)
{
    answer->fault = tn_redis_fault(r, &h->moved, err);
    if (answer->fault != TN_REDIS_FAULT_NONE)
        return err->code;
    return r->type == REDIS_REPLY_STRING
               ? tn_redis_judge(h, r->str, answer, err)
               : tenure_fail(err, TENURE_UNAVAILABLE, "INFO gave no text");
}

static enum tenure_status take_next(struct tn_redis *h, int64_t deadline,
                                    struct tn_redis_answer *answer, struct tenure_error *err)
{
    struct tn_redis_setup *s = &h->setup;
    redisReply *r = NULL;
    enum tenure_status status = tn_redis_link_reply(s->link, deadline, &r, err);

    if (status)
        return status;
    unsigned number = s->answered++;
    h->loading = tn_redis_is_loading(r);
    if (number < s->logins)
        status = tn_redis_fault(r, NULL, err) ? err->code : TENURE_OK;
    else if (number < s->logins + script_count(h))
        status = take_digest(h, number - s->logins, r, err);
    else
        status = take_probe(h, r, answer, err);
    freeReplyObject(r);
    return status;
}

enum tenure_status tn_redis_greet(struct tn_redis *h, int64_t deadline,
                                  struct tn_redis_answer *answer, struct tenure_error *err)
{
    struct tn_redis_setup *s = &h->setup;
    char text[TN_REMOTE_ADDR_TEXT];
    enum tenure_status status = tn_redis_link_advance(s->link, deadline, err);

    if (status)
        return status;
    while (!status && (s->answered < s->asked || !s->probed))
        status = s->answered == s->asked ? ask_next(h, deadline, err)
                                         : take_next(h, deadline, answer, err);
    if (!status)
        return TENURE_OK;
    tn_remote_addr_text(&s->to, text);
    return tenure_fail_context(err, "redis: %s", text);
}

/* ---- What the server says of itself -------------------------------------- */

/* Copy the value of "name:value\r\n" from INFO's text; "" if it is not there. */
static void info_field(const char *info, const char *name, char *out, size_t size)
{
    size_t n = strlen(name);

    out[0] = '\0';
    for (const char *p = info; p && *p; p = strchr(p, '\n'), p = p ? p + 1 : NULL) {
        if (strncmp(p, name, n) == 0 && p[n] == ':') {
            snprintf(out, size, "%.*s", (int)strcspn(p + n + 1, "\r\n"), p + n + 1);
            return;
        }
    }
}

/* One sentence for people, with what this very server is set up to lose. */
static void write_promise(struct tn_redis *h, const char *info)
{
    char version[32], policy[32], memory[24], aof[8], confirm[64] = "";

    info_field(info, "redis_version", version, sizeof version);
    info_field(info, "maxmemory_policy", policy, sizeof policy);
    info_field(info, "maxmemory", memory, sizeof memory);
    info_field(info, "aof_enabled", aof, sizeof aof);
    h->no_log = aof[0] == '0';
    bool evicts = strcmp(memory, "0") != 0 && memory[0] && strncmp(policy, "noev", 4) != 0 &&
                  strncmp(policy, "volatile", 8) != 0;
    if (h->conf.replicas)
        snprintf(confirm, sizeof confirm, "; OK waits for %u replica%s", h->conf.replicas,
                 h->conf.replicas == 1 ? "" : "s");
    snprintf(h->promise, sizeof h->promise,
             "Redis %s: one script per change; a fail-over or a crash of Redis can lose the "
             "latest changes, which fencing makes harmless%s%s%s%s%s%s",
             version, confirm,
             h->no_log ? "; WARNING: no append-only file, a restart may forget everything" : "",
             evicts ? "; WARNING: maxmemory-policy " : "", evicts ? policy : "",
             evicts ? " may evict leases, set noeviction" : "",
             h->conf.remote.blind ? "; WARNING: verify=none, anybody may pose as the server" : "");
    tn_text_tame(h->promise, '?'); /* a server's words are in it */
}

enum tenure_status tn_redis_judge(struct tn_redis *h, const char *info, struct tn_redis_answer *a,
                                  struct tenure_error *err)
{
    char role[16], version[32], cluster[4], replid[64];

    info_field(info, "role", role, sizeof role);
    info_field(info, "redis_version", version, sizeof version);
    info_field(info, "cluster_enabled", cluster, sizeof cluster);
    info_field(info, "master_replid", replid, sizeof replid);
    if (atoi(version) < OLDEST)
        return tenure_fail(err, TENURE_UNSUPPORTED, "Redis %s is too old; %d or later is needed",
                           version[0] ? version : "(of unknown version)", OLDEST);
    if (strcmp(role, "master") != 0) {
        a->fault = TN_REDIS_FAULT_ROUTE;
        return tenure_fail(err, TENURE_UNAVAILABLE,
                           "this is a replica, which tenure never uses; name the master, or use "
                           "redis+sentinel:");
    }
    if (strspn(replid, "0123456789abcdef") != 40)
        return tenure_fail(err, TENURE_UNSUPPORTED, "the server tells no replication id");
    if (h->conf.kind == TN_REDIS_DIRECT && h->conf.n_hosts > 1 && strcmp(cluster, "1") != 0)
        return tenure_fail(err, TENURE_CONFIG,
                           "several hosts are only for a cluster, which this is not; name the "
                           "one master, or use redis+sentinel:");
    memcpy(h->timeline, replid, TN_REDIS_TIMELINE);
    h->timeline[TN_REDIS_TIMELINE] = '\0';
    if (!h->promise[0])
        write_promise(h, info);
    return TENURE_OK;
}
