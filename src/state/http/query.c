#include "state/http/query.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/words.h"
#include "core/timing.h"
#include "state/http/http.h"
#include "tenure/store.h"

#define WAIT_MAX_S 300.0

/* ---- Known parameters ---------------------------------------------------- */

struct check {
    const char *known, *name;
    uint64_t seen;   /* of the known words, by their place in the list */
    char fault[200]; /* "": none */
};

static bool check_one(void *arg, const char *name, const char *value)
{
    struct check *c = arg;

    if (!*name)
        return true; /* "?" or "&" alone */
    if (!tn_words_have(c->known, name)) {
        snprintf(c->fault, sizeof c->fault, "unknown parameter '%.60s'; %s%s", name,
                 *c->known ? "known: " : "none is known here", c->known);
        return false;
    }
    uint64_t place = UINT64_C(1) << ((strstr(c->known, name) - c->known) % 64);
    if (c->seen & place)
        snprintf(c->fault, sizeof c->fault, "the parameter '%s' is given twice", name);
    else if (c->name && strcmp(name, "name") == 0 && strcmp(value ? value : "", c->name) != 0)
        snprintf(c->fault, sizeof c->fault, "'name' names another election");
    c->seen |= place;
    return !c->fault[0];
}

bool tn_query_check(const struct tn_http_request *request, const char *known, const char *name,
                    struct tn_http_reply *reply)
{
    struct check c = {.known = known, .name = name};

    request->queries(request, check_one, &c);
    if (!c.fault[0])
        return true;
    tn_http_answer_error(reply, 400, "invalid", c.fault);
    return false;
}

/* ---- Leadership ---------------------------------------------------------- */

const char *tn_leadership_parse(const char *wait, const char *since, const char *stream,
                                struct tn_leadership_query *query)
{
    char *end = NULL;
    double seconds = wait ? strtod(wait, &end) : 0;

    *query = (struct tn_leadership_query){.since = since};
    if (wait && (end == wait || *end))
        return "'wait' must be a number of seconds, such as 60";
    if (seconds > 0)
        query->wait_ns = (int64_t)((seconds < WAIT_MAX_S ? seconds : WAIT_MAX_S) * (double)TN_S);
    if (stream && !tn_words_have("1, true, 0, false", stream) && *stream)
        return "'stream' must be 1 or 0";
    query->stream = stream && !tn_words_have("0, false", stream);
    return NULL;
}

bool tn_leadership_read(const struct tn_http_request *request, struct tn_leadership_query *query,
                        struct tn_http_reply *reply)
{
    const char *accept = request->header(request, "Accept");
    const char *fault =
        tn_leadership_parse(request->query(request, "wait"), request->query(request, "since"),
                            request->query(request, "stream"), query);

    if (fault) {
        tn_http_answer_error(reply, 400, "invalid", fault);
        return false;
    }
    query->stream |= accept && strstr(accept, "text/event-stream");
    if (strcmp(request->method, "HEAD") == 0)
        query->stream = false; /* its answer ends with the headers */
    return true;
}

/* An ETag is quoted; what an answer calls "version" is not. */
static bool is_version(const char *since, const char *version)
{
    size_t n = strlen(version);

    since += *since == '"';
    return strncmp(since, version, n) == 0 && (!since[n] || strcmp(since + n, "\"") == 0);
}

enum tn_leadership_then tn_leadership_waits(const struct tn_leadership_query *query,
                                            const char *version, struct tn_http_memo *memo)
{
    if (!query->since || query->wait_ns == 0 || !is_version(query->since, version))
        return TN_LEADERSHIP_NEWS;
    if (memo->until_ns == 0)
        memo->until_ns = tenure_now() + query->wait_ns;
    return tenure_now() < memo->until_ns ? TN_LEADERSHIP_PARK : TN_LEADERSHIP_NEVER;
}
