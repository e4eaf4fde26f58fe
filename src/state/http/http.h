/* state/http/http.h - requests about the state, and their answers. */
#ifndef TN_STATE_HTTP_HTTP_H
#define TN_STATE_HTTP_HTTP_H

#include <jansson.h>

#include "http/module.h"
#include "tenure/state.h"

/* Who answers, and for how long it may. */
struct tn_state_term {
    tenure_state *state; /* NULL: no term has begun */
    const char *name;
    uint64_t epoch;
    uint64_t turn, program; /* those in hand; see struct tn_state_request */
    int64_t left_ns;        /* 0: the term is over */
    /* OPTIONAL: a commit is durable. */
    void (*committed)(void *arg, const char *collection, const char *id, uint64_t seq);
    void *arg;
};

/* One request, as long as it is worked on.  Texts and body stay the asker's. */
struct tn_state_request {
    const char *method, *path;
    const char *epoch; /* the header Tenure-Epoch, or NULL */
    /* What was in hand when it came.  Whoever asked may be dead by the time that it is
     * worked on, and the grant in hand somebody else's. */
    uint64_t turn;
    int64_t came_ns;  /* by tenure_now() */
    bool by_program;  /* else program is nothing */
    uint64_t program; /* when its connection was made */
    const unsigned char *body;
    size_t len;
    struct tn_http_reply reply; /* the answer; the values of its headers are below */
    char values[3][24];

    /* Of http.c and batch.c. */
    char collection[TENURE_KEY_MAX + 1];
    const char *id; /* "": the collection itself */
    struct tenure_commit one, *commits;
    size_t n_commits;     /* 0: it is answered */
    json_t *batch;        /* what the commits of a batch point into */
    unsigned char *bytes; /* likewise, decoded */
};

/* The answer to a stranger. */
void tn_state_http_denied(struct tn_http_reply *reply);
/* Answers in JSON, for others too.  The first takes json over. */
void tn_http_answer_json(struct tn_http_reply *reply, unsigned status, json_t *json);
void tn_http_answer_error(struct tn_http_reply *reply, unsigned status, const char *error,
                          const char *detail);
void tn_http_answer_status(struct tn_http_reply *reply, enum tenure_status status,
                           const char *detail);

/*
 * Answer requests that were admitted.  What they commit is committed together:
 * they share one flush, and each learns the durability of its own.  Blocks.
 * true: a later leader was met, the term is over.
 */
bool tn_state_http(const struct tn_state_term *term, struct tn_state_request *const *requests,
                   size_t n);

/* ---- batch.c: POST /v1/state --------------------------------------- */

/* Take the commits out of the body.  INVALID with what is wrong with it. */
/* Of the members of a JSON object: a string without a NUL in it, or NULL; the first that is not
 * known, or NULL; "data" or "base64", decoded at bytes + *used if it must be. */
const char *tn_batch_text(const json_t *o, const char *name);
const char *tn_batch_unknown(json_t *o, const char *known);
bool tn_batch_data(const json_t *o, const void **data, size_t *len, unsigned char *bytes,
                   size_t *used);
enum tenure_status tn_state_batch_parse(struct tn_state_request *request, struct tenure_error *err);
/* They have been tried: say how each of them came out. */
void tn_state_batch_answer(struct tn_state_request *request, const char *detail);
void tn_state_batch_free(struct tn_state_request *request);

#endif
