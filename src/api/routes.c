/* Which path is what, and who may ask it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/inner.h"
#include "core/timing.h"
#include "state/http/http.h"
#include "state/http/query.h"

/* How long news of other processes are waited for; then the answer is what is known. */
#define FRESH_NS (2 * TN_S)
#define PING_NS  (3 * TN_S)

enum { GET = 1, POST = 2, PUT = 4, DELETE = 8 };

enum need {
    NEED_NOTHING, /* probes, and what is the same for everybody */
    NEED_READ,    /* the token, if reads are guarded */
    NEED_CHANGE,  /* the token, or our own user on a Unix socket */
};

/* What a path is about, and so whether it is known below /v1/elections/NAME. */
enum about {
    ABOUT_AGENT,
    ABOUT_ONE, /* an election, which must be named where there are several */
    ABOUT_ALL, /* without a name it is asked of every one, and all must say yes */
};

/* What is waited for of elections in other processes. */
enum fresh {
    FRESH_ANY,  /* nothing */
    FRESH_SEEN, /* a moment, for what they push */
    FRESH_PING, /* an answer to a question of our own */
};

struct route {
    const char *path;
    unsigned methods;
    enum need need;
    bool prefix; /* and everything below */
    enum about about;
    enum fresh fresh;
    tn_answer *answer;
    enum tn_request_kind request; /* instead: it may block */
    const char *query;            /* what may stand behind the '?'; NULL: anything */
};

/* ---- Routes -------------------------------------------------------------- */

/* clang-format off */
/* The busy ones first. */
static const struct route routes[] = {
    {"/livez", GET, NEED_NOTHING, false, ABOUT_AGENT, FRESH_ANY, tn_answer_livez, TN_REQUEST_NONE, ""},
    {"/leader", GET, NEED_NOTHING, false, ABOUT_ALL, FRESH_ANY, tn_answer_leader, TN_REQUEST_NONE, "name"},
    {"/standby", GET, NEED_NOTHING, false, ABOUT_ALL, FRESH_ANY, tn_answer_standby, TN_REQUEST_NONE, "name"},
    {"/readyz", GET, NEED_NOTHING, false, ABOUT_ALL, FRESH_ANY, tn_answer_readyz, TN_REQUEST_NONE, "name"},
    {"/healthz", GET, NEED_NOTHING, false, ABOUT_ALL, FRESH_PING, tn_answer_healthz, TN_REQUEST_NONE, "name"},
    {"/metrics", GET, NEED_READ, false, ABOUT_AGENT, FRESH_PING, tn_answer_metrics, TN_REQUEST_NONE, ""},
    {"/_ha/status", GET, NEED_READ, false, ABOUT_AGENT, FRESH_SEEN, tn_answer_status, TN_REQUEST_NONE, ""},
    {"/v1/elections", GET, NEED_READ, false, ABOUT_AGENT, FRESH_SEEN, tn_answer_elections, TN_REQUEST_NONE, ""},
    {"/v1/leadership", GET, NEED_READ, false, ABOUT_ONE, FRESH_SEEN, tn_answer_leadership, TN_REQUEST_NONE, "name, wait, since, stream"},
    {"/v1/history", GET, NEED_READ, false, ABOUT_ONE, FRESH_SEEN, tn_answer_history, TN_REQUEST_NONE, "name"},
    {"/v1/candidates", GET, NEED_READ, false, ABOUT_ONE, FRESH_SEEN, tn_answer_candidates, TN_REQUEST_NONE, "name"},
    {"/v1/state/", GET | PUT | DELETE, NEED_CHANGE, true, ABOUT_ONE, FRESH_ANY, NULL, TN_REQUEST_STATE, "name"},
    {"/v1/state", POST, NEED_CHANGE, false, ABOUT_ONE, FRESH_ANY, NULL, TN_REQUEST_STATE, "name"},
    {"/v1/handover", POST, NEED_CHANGE, false, ABOUT_ONE, FRESH_ANY, NULL, TN_REQUEST_HANDOVER, "name"},
    {"/v1/step-down", POST, NEED_CHANGE, false, ABOUT_ONE, FRESH_ANY, NULL, TN_REQUEST_STEP_DOWN, "name"},
    {"/v1/pause", POST, NEED_CHANGE, false, ABOUT_ONE, FRESH_ANY, NULL, TN_REQUEST_PAUSE, "name"},
    {"/v1/pause", DELETE, NEED_CHANGE, false, ABOUT_ONE, FRESH_ANY, NULL, TN_REQUEST_RESUME, "name"},
    {"/v1/resume", POST, NEED_CHANGE, false, ABOUT_ONE, FRESH_ANY, NULL, TN_REQUEST_RESUME, "name"},
    {"/openapi.yaml", GET, NEED_NOTHING, false, ABOUT_AGENT, FRESH_ANY, tn_answer_openapi, TN_REQUEST_NONE, ""},
    /* What stands behind its '?' is for its script. */
    {"/", GET, NEED_NOTHING, false, ABOUT_AGENT, FRESH_ANY, tn_answer_page, TN_REQUEST_NONE, NULL},
};
/* Of a group of jobs, where there are no elections. */
static const struct route group_routes[] = {
    {"/livez", GET, NEED_NOTHING, false, ABOUT_AGENT, FRESH_ANY, tn_answer_livez, TN_REQUEST_NONE, ""},
    {"/readyz", GET, NEED_NOTHING, false, ABOUT_AGENT, FRESH_ANY, tn_answer_group_readyz, TN_REQUEST_NONE, ""},
    {"/metrics", GET, NEED_READ, false, ABOUT_AGENT, FRESH_ANY, tn_answer_group_metrics, TN_REQUEST_NONE, ""},
    {"/v1/jobs", GET, NEED_READ, false, ABOUT_AGENT, FRESH_ANY, tn_answer_group, TN_REQUEST_NONE, "search, limit, stream"},
    {"/", GET, NEED_NOTHING, false, ABOUT_AGENT, FRESH_ANY, tn_answer_group_page, TN_REQUEST_NONE, NULL},
};
/* /v1/elections/NAME itself. */
static const struct route one = {
    "", GET, NEED_READ, false, ABOUT_ONE, FRESH_SEEN, tn_answer_election, TN_REQUEST_NONE, "name"};
/* clang-format on */

static const struct {
    const char *word;
    unsigned bit;
} method_words[] = {{"GET", GET}, {"HEAD", GET}, {"POST", POST}, {"PUT", PUT}, {"DELETE", DELETE}};

#define METHODS (sizeof method_words / sizeof method_words[0])

static unsigned method_of(const char *method)
{
    for (size_t i = 0; i < METHODS; i++) {
        if (strcmp(method_words[i].word, method) == 0)
            return method_words[i].bit;
    }
    return 0;
}

#define BELOW "/v1/elections/"

/* "/leadership" below an election is "/v1/leadership", "/leader" is "/leader". */
static bool matches(const struct route *r, const char *path, bool below)
{
    const char *own = r->path;

    if (below && r->about == ABOUT_AGENT)
        return false;
    if (below && strncmp(own, "/v1/", 4) == 0)
        own += 3;
    return r->prefix ? strncmp(path, own, strlen(own)) == 0 : strcmp(path, own) == 0;
}

/* Is it asked of an election? */
static bool is_question(const char *tail)
{
    for (size_t i = 0; i < sizeof routes / sizeof routes[0]; i++) {
        if (matches(&routes[i], tail, true))
            return true;
    }
    return false;
}

/*
 * Below /v1/elections/NAME: what follows the name, and whose it is.  NULL: another path, or no
 * such election.  A name may have slashes in it, and end like a question: /v1/elections/web/leader
 * is asked of "web", here or elsewhere, and never answered for "web/leader".
 */
static const char *tail_of(const struct tn_api_list *list, const char *path,
                           struct tn_election **election)
{
    const char *rest = path + strlen(BELOW), *tail = NULL;
    bool asks = false;

    if (strncmp(path, BELOW, strlen(BELOW)) != 0)
        return NULL;
    for (const char *p = strchr(rest, '/'); p && !asks; p = strchr(p + 1, '/'))
        asks = is_question(p);
    for (size_t i = 0; i < list->n; i++) {
        const char *name = tn_election_name(list->elections[i]);
        size_t n = strlen(name);

        if (strncmp(rest, name, n) == 0 && (asks ? is_question(rest + n) : !rest[n]) &&
            (!tail || rest + n > tail)) {
            tail = rest + n;
            *election = list->elections[i];
        }
    }
    return tail;
}

/* The route of a path, and the methods that are known there: perhaps not the one that was asked
 * for.  NULL: there is no such path. */
static const struct route *find(const struct tn_api *api, const char *path, bool below,
                                unsigned bit, unsigned *methods)
{
    const struct route *table = api->group ? group_routes : routes, *found = NULL;
    size_t n = api->group ? sizeof group_routes / sizeof group_routes[0]
                          : sizeof routes / sizeof routes[0];

    *methods = 0;
    if (below && !*path) {
        *methods = one.methods;
        return &one;
    }
    for (size_t i = 0; i < n; i++) {
        const struct route *r = &table[i];

        if (!matches(r, path, below))
            continue;
        *methods |= r->methods;
        if (!found || (r->methods & bit))
            found = r;
        if (r->methods & bit)
            return r;
    }
    return found;
}

/* false: it must be named, or is not here; answered. */
static bool election_of(const struct tn_api_list *list, const struct route *r,
                        const struct tn_http_request *request, struct tn_election **election,
                        struct tn_http_reply *reply)
{
    const char *name = request->query(request, "name");

    if (r->about == ABOUT_AGENT || *election)
        return true;
    if (!name && list->n == 1)
        *election = list->elections[0];
    for (size_t i = 0; name && i < list->n; i++) {
        if (strcmp(tn_election_name(list->elections[i]), name) == 0)
            *election = list->elections[i];
    }
    struct tn_leadership_query query = {0};
    if (r->answer == tn_answer_leadership && !tn_leadership_read(request, &query, reply))
        return false;
    bool all = r->about == ABOUT_ALL || query.stream;
    if (*election || (!name && all))
        return true;
    tn_http_answer_error(reply, 404, "not-found",
                         name ? "no such election here"
                              : "which election? give ?name=NAME, or ask /v1/elections/NAME/...");
    return false;
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
    return tn_access_check(&api->access, request, reply);
}

static void answer_method(struct tn_http_reply *reply, const char *method, unsigned methods)
{
    static _Thread_local char allowed[48]; /* copied by the server */
    char detail[128];
    size_t n = 0;

    for (size_t i = 0; i < METHODS; i++) {
        if (methods & method_words[i].bit)
            n += (size_t)snprintf(allowed + n, sizeof allowed - n, "%s%s", n ? ", " : "",
                                  method_words[i].word);
    }
    snprintf(detail, sizeof detail, "%.16s is not known here; known: %s", method, allowed);
    tn_http_answer_error(reply, 405, "method", detail);
    reply->headers[0].name = "Allow";
    reply->headers[0].value = allowed;
}

bool tn_api_admit(void *arg, const struct tn_http_request *request, struct tn_http_reply *reply)
{
    struct tn_api *api = arg;
    const struct tn_api_list *list = atomic_load(&api->list);
    struct tn_election *election = NULL;
    unsigned methods, bit = method_of(request->method);

    if (!request->socket && !tn_access_host(&api->access, request->header(request, "Host"))) {
        tn_http_answer_error(reply, 421, "host",
                             "this Host is not known here; name it with --listen-host");
        return false;
    }
    const char *tail = tail_of(list, request->path, &election);
    const struct route *r = find(api, tail ? tail : request->path, tail != NULL, bit, &methods);
    if (!r) {
        tn_http_answer_error(reply, 404, "not-found",
                             api->group ? "see tenure-work(1)" : "see /openapi.yaml");
        return false;
    }
    if (!may(api, r, request, reply))
        return false;
    if (!(methods & bit)) {
        answer_method(reply, request->method, methods);
        return false;
    }
    if ((r->query &&
         !tn_query_check(request, r->query, election ? tn_election_name(election) : NULL, reply)) ||
        !election_of(list, r, request, &election, reply))
        return false;
    request->memo->route = r;
    request->memo->subject = election;
    return true;
}

/* ---- Answering ----------------------------------------------------------- */

/* True: what other processes say is under way, and there is time to wait for it. */
static bool waits_for_news(struct tn_api *api, const struct route *r, struct tn_http_memo *memo)
{
    const struct tn_api_list *list = atomic_load(&api->list);
    uint64_t *ping = r->fresh == FRESH_PING ? &memo->ping : NULL;
    bool fresh = true;

    for (size_t i = 0; i < list->n; i++) {
        if (!memo->subject || memo->subject == list->elections[i])
            fresh &= tn_election_is_fresh(list->elections[i], ping);
    }
    if (fresh)
        return false;
    if (memo->fresh_by_ns == 0)
        memo->fresh_by_ns = tenure_now() + (ping ? PING_NS : FRESH_NS);
    return tenure_now() < memo->fresh_by_ns;
}

/* The path as if there were one election; malloc'ed. */
static char *plain_path(const struct tn_http_request *request)
{
    const struct tn_election *e = request->memo->subject;
    char *path = NULL;

    if (strncmp(request->path, BELOW, strlen(BELOW)) != 0)
        return strdup(request->path);
    const char *tail = request->path + strlen(BELOW) + strlen(tn_election_name(e));
    return asprintf(&path, "%s%s", strcmp(tail, "/healthz") == 0 ? "" : "/v1", tail) < 0 ? NULL
                                                                                         : path;
}

/* What may block is done elsewhere: on a thread, or by the election's own process. */
static void begin(struct tn_api *api, const struct route *r, const struct tn_http_request *request,
                  struct tn_http_reply *reply)
{
    struct tn_http_memo *memo = request->memo;
    struct tn_http_request plain = *request;
    char *path = plain_path(request);

    if (!path) {
        tn_http_answer_error(reply, 503, "busy", "out of memory");
        return;
    }
    plain.path = path;
    if (api->upstream)
        memo->job =
            api->upstream->send(api->upstream_arg, memo->subject, r->request, &plain, reply);
    else
        memo->job = tn_job_start(api->jobs, r->request, memo->subject, &plain, reply);
    free(path);
    reply->park = memo->job != NULL;
}

void tn_api_answer(void *arg, const struct tn_http_request *request, struct tn_http_reply *reply)
{
    struct tn_api *api = arg;
    struct tn_http_memo *memo = request->memo;
    const struct route *r = memo->route;

    if (r->request && !memo->job && request->full)
        reply->park = true;
    else if (r->request && !memo->job)
        begin(api, r, request, reply);
    else if (r->request && api->upstream)
        reply->park = !api->upstream->collect(memo->job, reply);
    else if (r->request)
        reply->park = !tn_job_collect(memo->job, reply);
    else if (r->fresh != FRESH_ANY && api->upstream && waits_for_news(api, r, memo))
        reply->park = true;
    else
        r->answer(api, memo->subject, request, reply);
    if (reply->park && !memo->parked) { /* somebody waits: its time has to be kept */
        memo->parked = true;
        atomic_store(&api->parks, true);
        tn_api_notify(api);
    }
}

void tn_api_done(void *arg, struct tn_http_memo *memo)
{
    struct tn_api *api = arg;

    if (api->upstream)
        api->upstream->forget(memo->job);
    else
        tn_job_forget(memo->job);
    memo->job = NULL;
}
