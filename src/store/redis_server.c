#include "redis_server.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/redis_wait.h"

#define TRIES_MAX   3
#define OLDEST      5 /* Redis 5 made scripts replicate by their effects */
#define ARGS_BEFORE 2 /* EVALSHA sha */

/* ---- Arguments ----------------------------------------------------------- */

bool tn_redis_args_init(struct tn_redis_args *args, int cap)
{
    /* Two places are left in front, for the command itself. */
    args->argv = calloc((size_t)cap + ARGS_BEFORE, sizeof *args->argv);
    args->lens = calloc((size_t)cap + ARGS_BEFORE, sizeof *args->lens);
    args->n = ARGS_BEFORE;
    args->cap = cap + ARGS_BEFORE;
    if (args->argv && args->lens)
        return true;
    tn_redis_args_free(args);
    return false;
}

void tn_redis_args_free(struct tn_redis_args *args)
{
    free(args->argv);
    free(args->lens);
    memset(args, 0, sizeof *args);
}

void tn_redis_args_reset(struct tn_redis_args *args)
{
    args->n = ARGS_BEFORE;
}

void tn_redis_args_add(struct tn_redis_args *args, const char *text, size_t n)
{
    if (args->n == args->cap)
        abort(); /* our own arithmetic is wrong */
    args->argv[args->n] = text;
    args->lens[args->n++] = n;
}

void tn_redis_args_text(struct tn_redis_args *args, const char *text)
{
    tn_redis_args_add(args, text, strlen(text));
}

/* ---- Requests ------------------------------------------------------------ */

/* Append WAIT to a formatted request. */
static bool add_wait(const struct tn_redis *h, int64_t deadline, char **request, long *n)
{
    int64_t ms = (deadline - tenure_now()) / 1000000 * 3 / 4;
    char text[128], count[12], limit[24], *grown;

    snprintf(count, sizeof count, "%u", h->conf.replicas);
    snprintf(limit, sizeof limit, "%lld", (long long)(ms < 1 ? 1 : ms));
    int more = snprintf(text, sizeof text, "*3\r\n$4\r\nWAIT\r\n$%zu\r\n%s\r\n$%zu\r\n%s\r\n",
                        strlen(count), count, strlen(limit), limit);
    grown = realloc(*request, (size_t)(*n + more));
    if (!grown)
        return false;
    memcpy(grown + *n, text, (size_t)more);
    *request = grown;
    *n += more;
    return true;
}

static enum tenure_status gone(struct tn_redis *h, struct tenure_error *err)
{
    char text[TN_REDIS_ADDR_TEXT];

    tn_redis_addr_text(&h->at, text);
    tn_redis_drop(h);
    return tenure_fail_context(err, "redis: %s", text);
}

static enum tenure_status exchange(struct tn_redis *h, const char *request, size_t n, bool wait,
                                   int64_t deadline, struct tn_redis_answer *answer,
                                   struct tenure_error *err)
{
    redisReply *acks = NULL;
    size_t sent = 0;
    enum tenure_status status = tn_redis_link_send(h->link, request, n, deadline, &sent, err);

    answer->lost = sent > 0;
    if (!status)
        status = tn_redis_link_reply(h->link, deadline, &answer->reply, err);
    if (!status && wait)
        status = tn_redis_link_reply(h->link, deadline, &acks, err);
    if (status) {
        if (answer->reply)
            freeReplyObject(answer->reply);
        answer->reply = NULL;
        return gone(h, err);
    }
    answer->lost = false;
    if (acks) {
        answer->unconfirmed =
            acks->type != REDIS_REPLY_INTEGER || acks->integer < (long long)h->conf.replicas;
        freeReplyObject(acks);
    }
    return TENURE_OK;
}

static enum tenure_status run_once(struct tn_redis *h, enum tn_redis_script script,
                                   const struct tn_redis_args *args, int64_t deadline,
                                   struct tn_redis_answer *answer, struct tenure_error *err)
{
    bool wait = h->conf.replicas && script != TN_REDIS_PROBE && script != TN_REDIS_CHECK;
    char *request = NULL, text[TN_REDIS_ADDR_TEXT];

    memset(answer, 0, sizeof *answer);
    args->argv[0] = "EVALSHA";
    args->lens[0] = strlen(args->argv[0]);
    args->argv[1] = h->sha[script];
    args->lens[1] = TN_REDIS_SHA;
    long n = (long)redisFormatCommandArgv(&request, args->n, args->argv, args->lens);
    if (n < 0 || (wait && !add_wait(h, deadline, &request, &n))) {
        free(request);
        return tenure_fail(err, TENURE_NOMEM, "redis: out of memory for a request");
    }
    enum tenure_status status = exchange(h, request, (size_t)n, wait, deadline, answer, err);
    free(request);
    if (status)
        return status;
    answer->fault = tn_redis_fault(answer->reply, &h->moved, err);
    if (answer->fault == TN_REDIS_FAULT_NONE)
        return TENURE_OK;
    freeReplyObject(answer->reply);
    answer->reply = NULL;
    tn_redis_addr_text(&h->at, text);
    return tenure_fail_context(err, "redis: %s", text);
}

/* ---- A fresh link -------------------------------------------------------- */

/* Load all scripts in one round trip; the server tells their digests. */
static enum tenure_status load_scripts(struct tn_redis *h, int64_t deadline,
                                       struct tenure_error *err)
{
    enum tenure_status status = TENURE_OK;

    for (int i = 0; i < TN_REDIS_SCRIPTS && !status; i++) {
        const char *argv[] = {"SCRIPT", "LOAD", tn_redis_script_text[i]};
        char *request = NULL;
        long n = (long)redisFormatCommandArgv(&request, 3, argv, NULL);

        status = n < 0 ? tenure_fail(err, TENURE_NOMEM, "redis: out of memory")
                       : tn_redis_link_send(h->link, request, (size_t)n, deadline, NULL, err);
        free(request);
    }
    for (int i = 0; i < TN_REDIS_SCRIPTS && !status; i++) {
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
}

static enum tenure_status judge(struct tn_redis *h, const char *info, struct tn_redis_answer *a,
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

static enum tenure_status probe(struct tn_redis *h, int64_t deadline, struct tn_redis_answer *a,
                                struct tenure_error *err)
{
    struct tn_redis_args args;
    enum tenure_status status;

    if (!tn_redis_args_init(&args, 2))
        return tenure_fail(err, TENURE_NOMEM, "redis: out of memory");
    tn_redis_args_text(&args, "1");
    tn_redis_args_text(&args, h->seq);
    status = run_once(h, TN_REDIS_PROBE, &args, deadline, a, err);
    tn_redis_args_free(&args);
    if (status)
        return status;
    status = a->reply->type == REDIS_REPLY_STRING
                 ? judge(h, a->reply->str, a, err)
                 : tenure_fail(err, TENURE_UNAVAILABLE, "INFO gave no text");
    freeReplyObject(a->reply);
    a->reply = NULL;
    return status;
}

/* Connect, log in, load, probe.  On failure there is no link. */
static enum tenure_status establish(struct tn_redis *h, const struct tn_redis_addr *to,
                                    int64_t deadline, struct tn_redis_answer *a,
                                    struct tenure_error *err)
{
    char text[TN_REDIS_ADDR_TEXT];
    enum tenure_status status;

    memset(a, 0, sizeof *a);
    h->at = *to;
    status = tn_redis_link_open(&h->conf, to, deadline, &h->link, err);
    if (status)
        return status;
    status =
        tn_redis_link_login(h->link, h->conf.user, &h->conf.password, h->conf.db, deadline, err);
    if (!status)
        status = load_scripts(h, deadline, err);
    if (status) {
        tn_redis_addr_text(to, text);
        tenure_fail_context(err, "redis: %s", text);
    } else {
        status = probe(h, deadline, a, err);
    }
    if (status)
        tn_redis_drop(h);
    return status;
}

/* Follow MOVED from one node of a cluster to the one that has our slot. */
static enum tenure_status reach(struct tn_redis *h, const struct tn_redis_addr *to,
                                int64_t deadline, struct tenure_error *err)
{
    struct tn_redis_answer a;
    struct tn_redis_addr next = *to;
    enum tenure_status status = TENURE_OK;

    for (unsigned hops = 0; hops < TRIES_MAX; hops++) {
        status = establish(h, &next, deadline, &a, err);
        if (a.fault != TN_REDIS_FAULT_MOVED)
            return status;
        next = h->moved;
    }
    return status;
}

static enum tenure_status connect_any(struct tn_redis *h, int64_t deadline,
                                      struct tenure_error *err)
{
    struct tn_redis_addr moved = h->moved;
    enum tenure_status status = TENURE_UNAVAILABLE;
    int64_t now = tenure_now();

    if (h->conf.kind == TN_REDIS_SENTINEL) {
        struct tn_redis_addr master;

        status = tn_redis_sentinels_ask(&h->sentinels, deadline, &master, err);
        return status ? status : reach(h, &master, deadline, err);
    }
    memset(&h->moved, 0, sizeof h->moved);
    if (moved.host[0]) {
        /* The node may be the very one that is down: ask the others then. */
        status = reach(h, &moved, now + (deadline - now) / 2, err);
        if (!status)
            h->moved = moved;
        if (!status || status == TENURE_CANCELLED)
            return status;
    }
    for (unsigned i = 0, left = h->conf.n_hosts; i < h->conf.n_hosts; i++, left--) {
        now = tenure_now();
        status = reach(h, &h->conf.hosts[i], now + (deadline - now) / left, err);
        if (tenure_status_class(status) != TENURE_CLASS_TRANSIENT || status == TENURE_CANCELLED)
            break;
    }
    return status;
}

void tn_redis_drop(struct tn_redis *h)
{
    tn_redis_link_close(h->link);
    h->link = NULL;
    /* The next link may lead elsewhere: a subscription here would be deaf. */
    tn_redis_news_drop(h);
}

enum tenure_status tn_redis_ready(struct tn_redis *h, int64_t deadline, struct tenure_error *err)
{
    if (tenure_now() >= deadline)
        return tenure_fail(err, TENURE_TIMEOUT, "redis: no time was left");
    if (h->link && !tn_redis_link_idle(h->link))
        tn_redis_drop(h);
    if (h->link && h->conf.check) {
        struct tn_redis_addr master;
        enum tenure_status status = tn_redis_sentinels_ask(&h->sentinels, deadline, &master, err);

        if (status)
            return status;
        if (strcmp(master.host, h->at.host) == 0 && strcmp(master.port, h->at.port) == 0)
            return TENURE_OK;
        tn_redis_drop(h);
    }
    return h->link ? TENURE_OK : connect_any(h, deadline, err);
}

/* ---- Running ------------------------------------------------------------- */

enum tenure_status tn_redis_run(struct tn_redis *h, enum tn_redis_script script,
                                const struct tn_redis_args *args, int64_t deadline,
                                struct tn_redis_answer *answer, struct tenure_error *err)
{
    enum tenure_status status = run_once(h, script, args, deadline, answer, err);

    if (answer->fault != TN_REDIS_FAULT_NOSCRIPT)
        return status;
    /* SCRIPT FLUSH: nothing was run, so it may be sent again. */
    status = load_scripts(h, deadline, err);
    answer->fault = TN_REDIS_FAULT_FINAL;
    if (status)
        return gone(h, err);
    return run_once(h, script, args, deadline, answer, err);
}

bool tn_redis_try_again(struct tn_redis *h, const struct tn_redis_answer *answer, unsigned *tries)
{
    if (answer->fault != TN_REDIS_FAULT_MOVED && answer->fault != TN_REDIS_FAULT_ROUTE)
        return false;
    tn_redis_drop(h);
    return ++*tries < TRIES_MAX;
}

bool tn_redis_read_again(struct tn_redis *h, enum tenure_status status,
                         const struct tn_redis_answer *answer, unsigned *tries)
{
    if (status == TENURE_UNAVAILABLE && answer->lost)
        return ++*tries < 2;
    return tn_redis_try_again(h, answer, tries);
}

enum tenure_status tn_redis_confirmed(struct tn_redis *h, const struct tn_redis_answer *answer,
                                      struct tenure_error *err)
{
    if (!answer->unconfirmed)
        return TENURE_OK;
    return tenure_fail(err, TENURE_UNAVAILABLE,
                       "redis: fewer than %u replicas have confirmed what the master holds",
                       h->conf.replicas);
}
