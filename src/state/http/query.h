/* state/http/query.h - what stands behind the '?' of a request. */
#ifndef TN_STATE_HTTP_QUERY_H
#define TN_STATE_HTTP_QUERY_H

#include "http/module.h"

/*
 * Are all parameters known, each given once, and is ?name= the election that was named otherwise
 * (may be NULL)?  What is not known would be ignored in silence, so a misspelt one is refused:
 * false, and answered 400 with what is known ("name, wait").
 */
bool tn_query_check(const struct tn_http_request *request, const char *known, const char *name,
                    struct tn_http_reply *reply);

/* How GET /v1/leadership is asked. */
struct tn_leadership_query {
    int64_t wait_ns;   /* 0: the answer is wanted at once */
    const char *since; /* the version that is known; NULL: none */
    bool stream;
};

/* From the values of ?wait=, ?since= and ?stream=, each of which may be NULL.  NULL: well; else
 * what is wrong with them. */
const char *tn_leadership_parse(const char *wait, const char *since, const char *stream,
                                struct tn_leadership_query *query);
/* The same of a request, which may ask for a stream by its Accept.  false: answered 400. */
bool tn_leadership_read(const struct tn_http_request *request, struct tn_leadership_query *query,
                        struct tn_http_reply *reply);

enum tn_leadership_then {
    TN_LEADERSHIP_NEWS,  /* answer: it is another version, or nothing was waited for */
    TN_LEADERSHIP_PARK,  /* nothing has changed, and there is time */
    TN_LEADERSHIP_NEVER, /* nothing has changed, and the time is over */
};
enum tn_leadership_then tn_leadership_waits(const struct tn_leadership_query *query,
                                            const char *version, struct tn_http_memo *memo);

#endif
