#include "redis_greet.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

#define OLDEST 5 /* Redis 5 made scripts replicate by their effects */

/* A server that hangs up on a new client (maxclients) has said why before. */
static enum tenure_status last_words(struct tn_redis *h, enum tenure_status status,
                                     struct tenure_error *err)
{
    struct tenure_error none;
    redisReply *r = NULL;

    if (status != TENURE_UNAVAILABLE || tn_redis_link_try_reply(h->link, &r, &none) || !r)
        return status;
    if (tn_redis_fault(r, NULL, err))
        status = err->code;
    freeReplyObject(r);
    return status;
}

enum tenure_status tn_redis_load_scripts(struct tn_redis *h, int64_t deadline,
                                         struct tenure_error *err)
{
    const int scripts = h->conf.mend ? TN_REDIS_SCRIPTS : TN_REDIS_PLAIN;
    enum tenure_status status = TENURE_OK;

    for (int i = 0; i < scripts && !status; i++) {
        const char *argv[] = {"SCRIPT", "LOAD", tn_redis_script_text[i]};
        char *request = NULL;
        long n = (long)redisFormatCommandArgv(&request, 3, argv, NULL);

        status = n < 0 ? tenure_fail(err, TENURE_NOMEM, "redis: out of memory")
                       : tn_redis_link_send(h->link, request, (size_t)n, deadline, NULL, err);
        free(request);
    }
    status = last_words(h, status, err);
    for (int i = 0; i < scripts && !status; i++) {
        redisReply *r = NULL;

        status = tn_redis_link_reply(h->link, deadline, &r, err);
        if (status)
            break;
        if (tn_redis_fault(r, NULL, err))
            status = err->code;
        else if (r->type != REDIS_REPLY_STRING || (size_t)r->len != TN_REDIS_SHA)
            status = tenure_fail(err, TENURE_UNAVAILABLE, "SCRIPT LOAD gave no digest");
        else
            memcpy(h->sha[i], r->str, TN_REDIS_SHA + 1);
        freeReplyObject(r);
    }
    return status;
}

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
    bool evicts = strcmp(memory, "0") != 0 && memory[0] && strncmp(policy, "noev", 4) != 0 &&
                  strncmp(policy, "volatile", 8) != 0;
    if (h->conf.replicas)
        snprintf(confirm, sizeof confirm, "; OK waits for %u replica%s", h->conf.replicas,
                 h->conf.replicas == 1 ? "" : "s");
    snprintf(h->promise, sizeof h->promise,
             "Redis %s: one script per change; a fail-over or a crash of Redis can lose the "
             "latest changes, which fencing makes harmless%s%s%s%s%s%s",
             version, confirm,
             aof[0] == '0' ? "; no append-only file: a restart may forget all" : "",
             evicts ? "; WARNING: maxmemory-policy " : "", evicts ? policy : "",
             evicts ? " may evict leases, set noeviction" : "",
             h->conf.blind ? "; WARNING: verify=none, anybody may pose as the server" : "");
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
