/* A position in a document: it only grows, and is committed every so often. */
#include "tenure/checkpoint.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DIGITS 20 /* of the largest position */

struct tenure_checkpoint {
    tenure_state *state;
    char *collection, *id;
    uint64_t every;
    int64_t every_ns;
    uint64_t position; /* noted */
    uint64_t durable;  /* committed, and answered so */
    uint64_t notes;    /* since then */
    int64_t since_ns;
};

/* Decimal digits and nothing else, but perhaps a line's end, as an editor leaves it. */
static bool parse(const struct tenure_document *d, uint64_t *position)
{
    uint64_t n = 0;
    size_t len = d->value.len;

    if (len && d->value.data[len - 1] == '\n')
        len--;
    if (!len || len > DIGITS)
        return false;
    for (size_t i = 0; i < len; i++) {
        unsigned char c = d->value.data[i];

        if (c < '0' || c > '9' || __builtin_mul_overflow(n, 10, &n) ||
            __builtin_add_overflow(n, c - '0', &n))
            return false;
    }
    *position = n;
    return true;
}

enum tenure_status tenure_checkpoint_reload(tenure_checkpoint *c, int64_t deadline,
                                            struct tenure_error *err)
{
    struct tenure_document d = {0};
    uint64_t position = 0;
    enum tenure_status status =
        tenure_state_load(c->state, c->collection, c->id, &d, deadline, err);

    if (!status && d.exists && !parse(&d, &position))
        status = tenure_fail(err, TENURE_CORRUPT,
                             "%s/%s is not a position; it is left as it is: see 'tenure state get'",
                             c->collection, c->id);
    if (!status) {
        c->position = c->durable = position;
        c->notes = 0;
        c->since_ns = tenure_now();
    }
    tenure_document_free(&d);
    return status;
}

enum tenure_status tenure_checkpoint_open(tenure_state *state, const char *collection,
                                          const char *id,
                                          const struct tenure_checkpoint_options *options,
                                          int64_t deadline, tenure_checkpoint **checkpoint,
                                          struct tenure_error *err)
{
    tenure_checkpoint *c;
    enum tenure_status status;

    if (options && (options->version != 1 || options->every_ns < 0))
        return tenure_fail(err, TENURE_INVALID,
                           "checkpoint: begin with TENURE_CHECKPOINT_OPTIONS; times are positive");
    c = calloc(1, sizeof *c);
    if (!c || !(c->collection = strdup(collection)) || !(c->id = strdup(id))) {
        tenure_checkpoint_close(c);
        return tenure_fail(err, TENURE_NOMEM, "out of memory");
    }
    c->state = state;
    if (options) {
        c->every = options->every;
        c->every_ns = options->every_ns;
    }
    status = tenure_checkpoint_reload(c, deadline, err);
    if (status)
        tenure_checkpoint_close(c);
    else
        *checkpoint = c;
    return status;
}

void tenure_checkpoint_close(tenure_checkpoint *c)
{
    if (!c)
        return;
    free(c->collection);
    free(c->id);
    free(c);
}

uint64_t tenure_checkpoint_position(const tenure_checkpoint *c)
{
    return c->position;
}

uint64_t tenure_checkpoint_durable(const tenure_checkpoint *c)
{
    return c->durable;
}

enum tenure_status tenure_checkpoint_flush(tenure_checkpoint *c, int64_t deadline,
                                           struct tenure_error *err)
{
    char text[DIGITS + 2];
    struct tenure_commit commit = {.collection = c->collection, .id = c->id, .data = text};
    enum tenure_status status;

    if (c->notes == 0)
        return TENURE_OK;
    commit.len = (size_t)snprintf(text, sizeof text, "%" PRIu64, c->position);
    status = tenure_state_commit(c->state, &commit, 1, deadline, err);
    if (status)
        return status;
    c->durable = c->position;
    c->notes = 0;
    c->since_ns = tenure_now();
    return TENURE_OK;
}

static bool due(const tenure_checkpoint *c)
{
    if (!c->every && !c->every_ns)
        return true;
    return (c->every && c->notes >= c->every) ||
           (c->every_ns && tenure_now() - c->since_ns >= c->every_ns);
}

enum tenure_status tenure_checkpoint_note(tenure_checkpoint *c, uint64_t position, int64_t deadline,
                                          struct tenure_error *err)
{
    if (position < c->position)
        return tenure_fail(err, TENURE_INVALID,
                           "%s/%s: position %" PRIu64 " is behind %" PRIu64
                           "; a checkpoint does not go back",
                           c->collection, c->id, position, c->position);
    c->position = position;
    c->notes++;
    return due(c) ? tenure_checkpoint_flush(c, deadline, err) : TENURE_OK;
}
