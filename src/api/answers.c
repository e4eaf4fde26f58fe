/* What is answered at once, from what this process knows. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/inner.h"
#include "core/timing.h"
#include "state/http/http.h"
#include "state/http/query.h"
#include "status/metrics.h"

/* ---- Answers ------------------------------------------------------------- */

static void literal(struct tn_http_reply *reply, unsigned status, const char *type,
                    const void *text, size_t len)
{
    reply->status = status;
    reply->type = type;
    memcpy(&reply->body, &text, sizeof reply->body); /* lives on, and is not changed */
    reply->len = len;
    reply->owned = false;
}

void tn_reply_no_store(struct tn_http_reply *reply)
{
    reply->headers[0].name = "Cache-Control";
    reply->headers[0].value = "no-store";
}

#define PLAIN "text/plain; charset=utf-8"

void tn_reply_yes(struct tn_http_reply *reply)
{
    literal(reply, 200, PLAIN, "ok\n", 3);
    tn_reply_no_store(reply);
}

void tn_reply_no(struct tn_http_reply *reply, const char *why)
{
    char *text = NULL;
    int n = asprintf(&text, "%s\n", why);

    reply->status = 503;
    reply->type = PLAIN;
    reply->body = n >= 0 ? text : NULL;
    reply->len = n >= 0 ? (size_t)n : 0;
    reply->owned = n >= 0;
    tn_reply_no_store(reply);
}

/* The reason takes a few copies; a flood of those is still no matter for the driver. */
static void no_because(struct tn_http_reply *reply, struct tn_election *e)
{
    char why[512];

    tn_election_reason(e, why, sizeof why);
    tn_reply_no(reply, why);
}

void tn_answer_livez(struct tn_api *api, struct tn_election *e,
                     const struct tn_http_request *request, struct tn_http_reply *reply)
{
    (void)api, (void)e, (void)request;
    tn_reply_yes(reply);
}

/*
 * A question for every election, if none is named: all must say yes.  Those that say no are
 * named.  Where there is one the answer is as short as it ever was.
 */
static void ask_all(struct tn_api *api, struct tn_election *e, struct tn_http_reply *reply,
                    bool (*says_yes)(const struct tn_election *e),
                    void (*refuse)(struct tn_election *e, bool whole, FILE *out), bool whole)
{
    const struct tn_api_list *list = atomic_load(&api->list);
    char *text = NULL;
    size_t len = 0;
    bool all = list->n > 0;
    FILE *out = NULL;

    if (e)
        all = says_yes(e);
    for (size_t i = 0; i < list->n; i++) {
        struct tn_election *one = list->elections[i];

        if (e ? all || e != one : says_yes(one))
            continue;
        if (!out && !(out = open_memstream(&text, &len)))
            return;
        if (!e)
            fprintf(out, "%s: ", tn_election_name(one));
        refuse(one, whole, out);
        all = false;
    }
    if (out)
        fclose(out);
    if (all) {
        tn_reply_yes(reply);
        return;
    }
    *reply = (struct tn_http_reply){
        .status = 503, .type = PLAIN, .body = text, .len = len, .owned = text != NULL};
    tn_reply_no_store(reply);
}

/* Where the leader is, as far as this candidate has seen. */
static void name_leader(struct tn_election *e, bool whole, FILE *out)
{
    struct tn_election_snapshot *s = whole ? tn_election_snapshot(e, false, 0) : NULL;
    const struct tn_lease *lease = s ? &s->driver.lease : NULL;

    fputs("not the leader", out);
    if (s && tn_snapshot_has_leader(s) && strcmp(lease->holder, s->driver.id) != 0) {
        fprintf(out, ": %s leads, epoch %" PRIu64, lease->holder, lease->epoch);
        if (lease->address[0])
            fprintf(out, ", at %s", lease->address);
    }
    fputc('\n', out);
    free(s);
}

void tn_answer_leader(struct tn_api *api, struct tn_election *e,
                      const struct tn_http_request *request, struct tn_http_reply *reply)
{
    /* Where reads need the token, strangers learn no addresses. */
    bool whole =
        !api->access.reads_token || request->socket ||
        tn_access_token(&api->access, request->header(request, "Authorization")) == TN_TOKEN_RIGHT;

    ask_all(api, e, reply, tn_election_leads, name_leader, whole);
}

static bool stands_by(const struct tn_election *e)
{
    return !tn_election_leads(e) && !tn_election_is_stopping(e);
}

static void refuse_standby(struct tn_election *e, bool whole, FILE *out)
{
    (void)e, (void)whole;
    fputs("not a standby\n", out);
}

void tn_answer_standby(struct tn_api *api, struct tn_election *e,
                       const struct tn_http_request *request, struct tn_http_reply *reply)
{
    (void)request;
    ask_all(api, e, reply, stands_by, refuse_standby, false);
}

/* The reasons of those that are not ready; "" if all are. */
void tn_answer_readyz(struct tn_api *api, struct tn_election *e,
                      const struct tn_http_request *request, struct tn_http_reply *reply)
{
    const struct tn_api_list *list = atomic_load(&api->list);
    char why[512];
    char *text = NULL;
    size_t len = 0;
    FILE *out;

    (void)request;
    if (e) {
        if (tn_election_ready(e))
            tn_reply_yes(reply);
        else
            no_because(reply, e);
        return;
    }
    out = open_memstream(&text, &len);
    for (size_t i = 0; out && i < list->n; i++) {
        if (tn_election_ready(list->elections[i]))
            continue;
        tn_election_reason(list->elections[i], why, sizeof why);
        fprintf(out, "%s%s: %s", ftell(out) > 0 ? "\n" : "", tn_election_name(list->elections[i]),
                why);
    }
    if (out)
        fclose(out);
    if (out && len == 0 && list->n > 0)
        tn_reply_yes(reply);
    else
        tn_reply_no(reply, text && len ? text : "there is no election here");
    free(text);
}

/* Healthy if all are; those that are not are named. */
void tn_answer_healthz(struct tn_api *api, struct tn_election *e,
                       const struct tn_http_request *request, struct tn_http_reply *reply)
{
    const struct tn_api_list *list = atomic_load(&api->list);
    char why[512], *text = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&text, &len);

    for (size_t i = 0; out && i < list->n; i++) {
        if (e && e != list->elections[i])
            continue;
        struct tn_election_snapshot *s =
            tn_election_snapshot(list->elections[i], false, request->memo->ping);
        if (!s)
            fprintf(out, "%sout of memory", ftell(out) > 0 ? "\n" : "");
        else if (!tn_snapshot_is_healthy(s, why, sizeof why))
            fprintf(out, "%s%s", ftell(out) > 0 ? "\n" : "", why);
        free(s);
    }
    if (out && fclose(out) == 0 && len == 0)
        tn_reply_yes(reply);
    else
        tn_reply_no(reply, text ? text : "out of memory");
    free(text);
}

void tn_answer_metrics(struct tn_api *api, struct tn_election *e,
                       const struct tn_http_request *request, struct tn_http_reply *reply)
{
    const char *accept = request->header(request, "Accept");
    bool open = accept && strstr(accept, "application/openmetrics-text");
    const struct tn_api_list *list = atomic_load(&api->list);
    struct tn_election_snapshot **snapshots = calloc(list->n + 1, sizeof(void *));
    struct tn_http_counts counts;
    size_t n = 0;

    (void)e;
    tn_api_count(api, &counts);
    while (snapshots && n < list->n &&
           (snapshots[n] = tn_election_snapshot(list->elections[n], false, request->memo->ping)))
        n++;
    if (snapshots && n == list->n)
        reply->body = tn_metrics_text(snapshots, n, &counts, open, &reply->len);
    while (n > 0)
        free(snapshots[--n]);
    free(snapshots);
    reply->owned = reply->body != NULL;
    reply->status = reply->body ? 200 : 500;
    reply->type = tn_metrics_type(open);
    tn_reply_no_store(reply);
}

void tn_answer_status(struct tn_api *api, struct tn_election *e,
                      const struct tn_http_request *request, struct tn_http_reply *reply)
{
    (void)e, (void)request;
    tn_http_answer_json(reply, 200, tn_api_status(api));
    tn_reply_no_store(reply);
}

/* Its snapshot in one of its forms; NULL: out of memory. */
static json_t *json_of(struct tn_election *e, json_t *(*form)(struct tn_election_snapshot *s))
{
    struct tn_election_snapshot *s = tn_election_snapshot(e, true, 0);
    json_t *json = s ? form(s) : NULL;

    free(s);
    return json;
}

static json_t *leadership_of(struct tn_election *e)
{
    struct tn_election_snapshot *s = tn_election_snapshot(e, false, 0);
    json_t *json = s ? tn_snapshot_json_leadership(s) : NULL;

    free(s);
    return json;
}

void tn_answer_elections(struct tn_api *api, struct tn_election *e,
                         const struct tn_http_request *request, struct tn_http_reply *reply)
{
    const struct tn_api_list *list = atomic_load(&api->list);
    json_t *all = json_array();

    (void)e, (void)request;
    for (size_t i = 0; i < list->n; i++)
        json_array_append_new(all, leadership_of(list->elections[i]));
    tn_http_answer_json(reply, 200, json_pack("{s:o}", "elections", all));
    tn_reply_no_store(reply);
}

void tn_answer_election(struct tn_api *api, struct tn_election *e,
                        const struct tn_http_request *request, struct tn_http_reply *reply)
{
    (void)api, (void)request;
    tn_http_answer_json(reply, 200, json_of(e, tn_snapshot_json));
    tn_reply_no_store(reply);
}

/* {"name": ..., member: ...} */
static void answer_part(struct tn_election *e, const char *member,
                        json_t *(*form)(struct tn_election_snapshot *s),
                        struct tn_http_reply *reply)
{
    tn_http_answer_json(
        reply, 200, json_pack("{s:s, s:o}", "name", tn_election_name(e), member, json_of(e, form)));
    tn_reply_no_store(reply);
}

void tn_answer_history(struct tn_api *api, struct tn_election *e,
                       const struct tn_http_request *request, struct tn_http_reply *reply)
{
    (void)api, (void)request;
    answer_part(e, "history", tn_snapshot_json_history, reply);
}

void tn_answer_candidates(struct tn_api *api, struct tn_election *e,
                          const struct tn_http_request *request, struct tn_http_reply *reply)
{
    (void)api, (void)request;
    answer_part(e, "candidates", tn_snapshot_json_candidates, reply);
}

/* ---- Leadership ---------------------------------------------------------- */

void tn_reply_stream(struct tn_api *api, struct tn_http_reply *reply)
{
    reply->status = 200;
    reply->type = "text/event-stream";
    reply->body = tn_api_event(api, &reply->len);
    reply->owned = reply->body != NULL;
    reply->stream = true;
    reply->channel = 0;
    tn_reply_no_store(reply);
    reply->headers[1].name = "X-Accel-Buffering"; /* proxies: do not keep it back */
    reply->headers[1].value = "no";
    if (!reply->body)
        reply->stream = false, reply->status = 500;
    tn_api_notify(api); /* from now on events are due */
}

void tn_answer_leadership(struct tn_api *api, struct tn_election *e,
                          const struct tn_http_request *request, struct tn_http_reply *reply)
{
    static _Thread_local char etag[64];
    struct tn_leadership_query query;

    if (!tn_leadership_read(request, &query, reply))
        return;
    if (query.stream) {
        tn_reply_stream(api, reply);
        return;
    }
    json_t *answer = leadership_of(e);
    const char *version = json_string_value(json_object_get(answer, "version"));
    snprintf(etag, sizeof etag, "\"%s\"", version ? version : "");
    enum tn_leadership_then then =
        version ? tn_leadership_waits(&query, version, request->memo) : TN_LEADERSHIP_NEWS;
    if (then == TN_LEADERSHIP_NEWS) {
        tn_http_answer_json(reply, 200, answer);
    } else {
        json_decref(answer);
        reply->park = then == TN_LEADERSHIP_PARK;
        literal(reply, 304, NULL, "", 0);
    }
    tn_reply_no_store(reply);
    reply->headers[1].name = "ETag";
    reply->headers[1].value = etag;
}
