/* agent/state_http.h - requests about the state, and their answers. */
#ifndef TN_AGENT_STATE_HTTP_H
#define TN_AGENT_STATE_HTTP_H

#include "agent/http.h"
#include "tenure/state.h"

/* Who answers, and for how long it may. */
struct tn_state_term {
    tenure_state *state; /* NULL: no term has begun */
    const char *name;
    uint64_t epoch;
    int64_t left_ns; /* 0: the term is over */
};

/* true: a later leader was met, the term is over. */
bool tn_state_http(const struct tn_state_term *term, const struct tn_http_request *request,
                   struct tn_http_reply *reply);

#endif
