/* Which path is what, who may ask it, and what is answered at once. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/api_inner.h"
#include "agent/metrics.h"
#include "agent/page.h"
#include "agent/state_http.h"
#include "core/timing.h"

#define WAIT_MAX_S 300.0

enum { GET = 1, POST = 2, PUT = 4, DELETE = 8 };

enum need {
    NEED_NOTHING, /* probes, and what is the same for everybody */
    NEED_READ,    /* the token, if reads are guarded */
    NEED_CHANGE,  /* the token, or our own user on a Unix socket */
};

struct route {
    const char *path;
    unsigned methods;
    enum need need;
    bool prefix;   /* and everything below */
    bool election; /* of one election */
    void (*answer)(struct tn_api *api, struct tn_election *e, const struct tn_http_request *request,
                   struct tn_http_reply *reply);
    tn_job_fn job; /* instead: it may block */
};

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

static void no_store(struct tn_http_reply *reply)
{
    reply->headers[0].name = "Cache-Control";
    reply->headers[0].value = "no-store";
}

#define PLAIN "text/plain; charset=utf-8"

static void yes(struct tn_http_reply *reply)
{
    literal(reply, 200, PLAIN, "ok\n", 3);
    no_store(reply);
}

static void no(struct tn_http_reply *reply, const char *why)
{
    char *text = NULL;
    int n = asprintf(&text, "%s\n", why);

    reply->status = 503;
    reply->type = PLAIN;
    reply->body = n >= 0 ? text : NULL;
    reply->len = n >= 0 ? (size_t)n : 0;
    reply->owned = n >= 0;
    no_store(reply);
}

/* The reason takes a few copies; a flood of those is still no matter for the driver. */
static void no_because(struct tn_http_reply *reply, struct tn_election *e)
{
    char why[512];

    tn_election_reason(e, why, sizeof why);
    no(reply, why);
}

static void livez(struct tn_api *api, struct tn_election *e, const struct tn_http_request *request,
                  struct tn_http_reply *reply)
{
    (void)api, (void)e, (void)request;
    yes(reply);
}

static void leader(struct tn_api *api, struct tn_election *e, const struct tn_http_request *request,
                   struct tn_http_reply *reply)
{
    (void)api, (void)request;
    if (tn_election_leads(e)) {
        yes(reply);
    } else {
        literal(reply, 503, PLAIN, "not the leader\n", 15);
        no_store(reply);
    }
}

static void standby(struct tn_api *api, struct tn_election *e,
                    const struct tn_http_request *request, struct tn_http_reply *reply)
{
    (void)api, (void)request;
    if (!tn_election_leads(e) && !tn_election_is_stopping(e)) {
        yes(reply);
    } else {
        literal(reply, 503, PLAIN, "not a stand-by\n", 15);
        no_store(reply);
    }
}

static void readyz(struct tn_api *api, struct tn_election *e, const struct tn_http_request *request,
                   struct tn_http_reply *reply)
{
    (void)api, (void)request;
    if (tn_election_ready(e))
        yes(reply);
    else
        no_because(reply, e);
}

static void healthz(struct tn_api *api, struct tn_election *e,
                    const struct tn_http_request *request, struct tn_http_reply *reply)
{
    char why[512];

    (void)e, (void)request;
    for (size_t i = 0; i < api->n; i++) {
        if (!tn_election_is_well(api->elections[i], why, sizeof why)) {
            no(reply, why);
            return;
        }
    }
    yes(reply);
}

static void page(struct tn_api *api, struct tn_election *e, const struct tn_http_request *request,
                 struct tn_http_reply *reply)
{
    (void)api, (void)e, (void)request;
    literal(reply, 200, "text/html; charset=utf-8", tn_page_html, tn_page_html_len);
    reply->headers[0].name = "Cache-Control";
    reply->headers[0].value = "no-cache";
    reply->headers[1].name = "Content-Security-Policy";
    reply->headers[1].value = tn_page_policy;
    reply->headers[2].name = "X-Content-Type-Options";
    reply->headers[2].value = "nosniff";
    reply->headers[3].name = "Referrer-Policy";
    reply->headers[3].value = "no-referrer";
    reply->headers[4].name = "X-Frame-Options";
    reply->headers[4].value = "DENY";
}

static void openapi(struct tn_api *api, struct tn_election *e,
                    const struct tn_http_request *request, struct tn_http_reply *reply)
{
    (void)api, (void)e, (void)request;
    literal(reply, 200, "application/yaml", tn_page_openapi, tn_page_openapi_len);
}

static void metrics(struct tn_api *api, struct tn_election *e,
                    const struct tn_http_request *request, struct tn_http_reply *reply)
{
    const char *accept = request->header(request, "Accept");
    bool open = accept && strstr(accept, "application/openmetrics-text");
    struct tn_http_counts counts;

    (void)e;
    tn_api_count(api, &counts);
    reply->body = tn_metrics_text(api->elections, api->n, &counts, open, &reply->len);
    reply->owned = reply->body != NULL;
    reply->status = reply->body ? 200 : 500;
    reply->type = open ? "application/openmetrics-text; version=1.0.0; charset=utf-8"
                       : "text/plain; version=0.0.4; charset=utf-8";
    no_store(reply);
}

static void status(struct tn_api *api, struct tn_election *e, const struct tn_http_request *request,
                   struct tn_http_reply *reply)
{
    (void)e, (void)request;
    tn_http_answer_json(reply, 200, tn_api_status(api));
    no_store(reply);
}

static void history(struct tn_api *api, struct tn_election *e,
                    const struct tn_http_request *request, struct tn_http_reply *reply)
{
    (void)api, (void)request;
    tn_http_answer_json(reply, 200,
                        json_pack("{s:s, s:o}", "name", tn_election_name(e), "history",
                                  tn_election_json_history(e)));
    no_store(reply);
}

static void candidates(struct tn_api *api, struct tn_election *e,
                       const struct tn_http_request *request, struct tn_http_reply *reply)
{
    (void)api, (void)request;
    tn_http_answer_json(reply, 200,
                        json_pack("{s:s, s:o}", "name", tn_election_name(e), "candidates",
                                  tn_election_json_candidates(e)));
    no_store(reply);
}

/* ---- Leadership ---------------------------------------------------------- */

static bool wants_stream(const struct tn_http_request *request)
{
    const char *accept = request->header(request, "Accept");

    return request->query(request, "stream") || (accept && strstr(accept, "text/event-stream"));
}

static void stream(struct tn_api *api, struct tn_http_reply *reply)
{
    reply->status = 200;
    reply->type = "text/event-stream";
    reply->body = tn_api_event(api, &reply->len);
    reply->owned = reply->body != NULL;
    reply->stream = true;
    reply->channel = 0;
    no_store(reply);
    reply->headers[1].name = "X-Accel-Buffering"; /* proxies: do not keep it back */
    reply->headers[1].value = "no";
    if (!reply->body)
        reply->stream = false, reply->status = 500;
    tn_api_poke(api); /* from now on there is a beat */
}

/* True: nothing has changed since the asker's last answer, and he has time. */
static bool keep_waiting(const struct tn_http_request *request, const char *version, bool *over)
{
    const char *wait = request->query(request, "wait"), *since = request->query(request, "since");
    int64_t *until = &request->memo->until_ns;
    double seconds = wait ? strtod(wait, NULL) : 0;

    if (!since || !(seconds > 0))
        return false;
    if (*since == '"')
        since++;
    if (strncmp(since, version, strlen(version)) != 0 || since[strlen(version)] > '"')
        return false;
    if (*until == 0)
        *until = tenure_now() + (int64_t)((seconds < WAIT_MAX_S ? seconds : WAIT_MAX_S) * 1e9);
    *over = tenure_now() >= *until;
    return !*over;
}

static void leadership(struct tn_api *api, struct tn_election *e,
                       const struct tn_http_request *request, struct tn_http_reply *reply)
{
    static _Thread_local char etag[64];
    bool over = false;

    if (wants_stream(request)) {
        stream(api, reply);
        return;
    }
    json_t *answer = tn_election_json_leadership(e);
    const char *version = json_string_value(json_object_get(answer, "version"));
    snprintf(etag, sizeof etag, "\"%s\"", version ? version : "");
    if (answer && keep_waiting(request, version, &over)) {
        reply->park = true;
        json_decref(answer);
        return;
    }
    if (over) {
        json_decref(answer);
        literal(reply, 304, NULL, "", 0);
    } else {
        tn_http_answer_json(reply, 200, answer);
    }
    no_store(reply);
    reply->headers[1].name = "ETag";
    reply->headers[1].value = etag;
}

/* ---- Routes -------------------------------------------------------------- */

/* The busy ones first. */
static const struct route routes[] = {
    {"/livez", GET, NEED_NOTHING, false, false, livez, NULL},
    {"/leader", GET, NEED_NOTHING, false, true, leader, NULL},
    {"/standby", GET, NEED_NOTHING, false, true, standby, NULL},
    {"/readyz", GET, NEED_NOTHING, false, true, readyz, NULL},
    {"/healthz", GET, NEED_NOTHING, false, false, healthz, NULL},
    {"/metrics", GET, NEED_READ, false, false, metrics, NULL},
    {"/_ha/status", GET, NEED_READ, false, false, status, NULL},
    {"/v1/leadership", GET, NEED_READ, false, true, leadership, NULL},
    {"/v1/history", GET, NEED_READ, false, true, history, NULL},
    {"/v1/candidates", GET, NEED_READ, false, true, candidates, NULL},
    {"/v1/state/", GET | PUT | DELETE, NEED_CHANGE, true, true, NULL, tn_order_state},
    {"/v1/state", POST, NEED_CHANGE, false, true, NULL, tn_order_state},
    {"/v1/handover", POST, NEED_CHANGE, false, true, NULL, tn_order_handover},
    {"/v1/step-down", POST, NEED_CHANGE, false, true, NULL, tn_order_step_down},
    {"/v1/pause", POST, NEED_CHANGE, false, true, NULL, tn_order_pause},
    {"/v1/pause", DELETE, NEED_CHANGE, false, true, NULL, tn_order_resume},
    {"/v1/resume", POST, NEED_CHANGE, false, true, NULL, tn_order_resume},
    {"/openapi.yaml", GET, NEED_NOTHING, false, false, openapi, NULL},
    {"/", GET, NEED_NOTHING, false, false, page, NULL},
};

static unsigned method_of(const char *method)
{
    static const struct {
        const char *word;
        unsigned bit;
    } words[] = {{"GET", GET}, {"HEAD", GET}, {"POST", POST}, {"PUT", PUT}, {"DELETE", DELETE}};

    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (strcmp(words[i].word, method) == 0)
            return words[i].bit;
    }
    return 0;
}

/* *known: there is such a path, perhaps for another method. */
static const struct route *find(const char *path, const char *method, bool *known)
{
    unsigned bit = method_of(method);

    *known = false;
    for (size_t i = 0; i < sizeof routes / sizeof routes[0]; i++) {
        const struct route *r = &routes[i];

        if (r->prefix ? strncmp(path, r->path, strlen(r->path)) != 0 : strcmp(path, r->path) != 0)
            continue;
        *known = true;
        if (r->methods & bit)
            return r;
    }
    return NULL;
}

static struct tn_election *election_of(const struct tn_api *api,
                                       const struct tn_http_request *request)
{
    const char *name = request->query(request, "name");

    if (!name)
        return api->n == 1 ? api->elections[0] : NULL;
    for (size_t i = 0; i < api->n; i++) {
        if (strcmp(tn_election_name(api->elections[i]), name) == 0)
            return api->elections[i];
    }
    return NULL;
}

/* ---- Admission: before a byte of a body is kept -------------------------- */

static bool may(struct tn_api *api, const struct route *r, const struct tn_http_request *request,
                struct tn_http_reply *reply)
{
    bool guarded = r->need == NEED_CHANGE || (r->need == NEED_READ && api->access.reads_token);

    if (!guarded || request->local)
        return true;
    if (request->socket && r->need == NEED_READ)
        return true; /* the socket's directory says who may read */
    if (!api->access.token_file) {
        tn_http_answer_error(reply, 403, "denied",
                             "changes need a token (--token-file), or the Unix socket");
        return false;
    }
    if (tn_access_token(&api->access, request->header(request, "Authorization")))
        return true;
    tn_http_answer_error(reply, 401, "token", "give Authorization: Bearer TOKEN");
    reply->headers[0].name = "WWW-Authenticate";
    reply->headers[0].value = "Bearer realm=\"tenure\"";
    return false;
}

bool tn_api_admit(void *arg, const struct tn_http_request *request, struct tn_http_reply *reply)
{
    struct tn_api *api = arg;
    bool known;
    const struct route *r;

    if (!request->socket && !tn_access_host(&api->access, request->header(request, "Host"))) {
        tn_http_answer_error(reply, 421, "host",
                             "this Host is not known here; name it with --listen-host");
        return false;
    }
    r = find(request->path, request->method, &known);
    if (!r) {
        tn_http_answer_error(reply, known ? 405 : 404, known ? "method" : "not-found",
                             known ? "not with this method" : "see /openapi.yaml");
        return false;
    }
    if (!may(api, r, request, reply))
        return false;
    request->memo->route = r;
    request->memo->subject = r->election ? election_of(api, request) : NULL;
    if (r->election && !request->memo->subject) {
        tn_http_answer_error(reply, 404, "not-found",
                             request->query(request, "name") ? "no such election here"
                                                             : "which election? give ?name=NAME");
        return false;
    }
    return true;
}

void tn_api_answer(void *arg, const struct tn_http_request *request, struct tn_http_reply *reply)
{
    struct tn_api *api = arg;
    const struct route *r = request->memo->route;

    if (!r->job) {
        r->answer(api, request->memo->subject, request, reply);
    } else if (!request->memo->job) {
        request->memo->job =
            tn_job_start(api->jobs, r->job, request->memo->subject, request, reply);
        reply->park = request->memo->job != NULL;
    } else {
        reply->park = !tn_job_collect(request->memo->job, reply);
    }
    if (reply->park)
        tn_api_poke(api); /* somebody waits: its time has to be kept */
}

void tn_api_done(void *api, struct tn_http_memo *memo)
{
    (void)api;
    tn_job_forget(memo->job);
    memo->job = NULL;
}
