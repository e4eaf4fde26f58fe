/* agent/state_http.h - requests about the state, and their answers. */
#ifndef TN_AGENT_STATE_HTTP_H
#define TN_AGENT_STATE_HTTP_H

#include <jansson.h>

#include "agent/http.h"
#include "tenure/state.h"

/* Who answers, and for how long it may. */
struct tn_state_term {
    tenure_state *state; /* NULL: no term has begun */
    const char *name;
    uint64_t epoch;
    int64_t left_ns; /* 0: the term is over */
    /* OPTIONAL: a commit is durable. */
    void (*committed)(void *arg, const char *collection, const char *id, uint64_t seq);
    void *arg;
};

/* The answer to a stranger. */
void tn_state_http_denied(struct tn_http_reply *reply);
/* Answers in JSON, for others too.  The first takes json over. */
void tn_http_answer_json(struct tn_http_reply *reply, unsigned status, json_t *json);
void tn_http_answer_error(struct tn_http_reply *reply, unsigned status, const char *error,
                          const char *detail);
void tn_http_answer_status(struct tn_http_reply *reply, enum tenure_status status,
                           const char *detail);

/* true: a later leader was met, the term is over. */
bool tn_state_http(const struct tn_state_term *term, const struct tn_http_request *request,
                   struct tn_http_reply *reply);

#endif
