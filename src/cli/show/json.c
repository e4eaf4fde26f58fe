/* Elections, candidates and terms as JSON.  Members are only ever added. */
#include "cli/show/show.h"

json_t *cli_lease_json(const char *name, const struct tenure_lease_view *v,
                       const struct tenure_control *control)
{
    json_t *object =
        json_pack("{s:s, s:s, s:s, s:I, s:I, s:I, s:s, s:s, s:s, s:s, s:s, s:s, s:i, s:s, s:s, "
                  "s:s, s:s, s:s}",
                  "name", name, "state", tenure_lease_state_word(v->state), "holder", v->holder,
                  "epoch", (json_int_t)v->epoch, "ttl_ms", (json_int_t)v->ttl_ms, "transitions",
                  (json_int_t)v->transitions, "version", v->token.version, "cause", v->cause,
                  "acquired_at", v->acquired_at, "renewed_at", v->renewed_at, "address", v->address,
                  "build", v->build, "priority", (int)v->priority, "incarnation", v->incarnation,
                  "grant", v->grant, "nonce", v->nonce, "prev", v->prev, "trouble", v->trouble);

    if (object && control) {
        int64_t left = cli_left_ms(v, 0);

        json_object_set_new(object, "paused", json_boolean(control->paused));
        json_object_set_new(object, "paused_by", json_string(control->paused_by));
        json_object_set_new(object, "paused_at", json_string(control->paused_at));
        json_object_set_new(object, "reason", json_string(control->reason));
        json_object_set_new(object, "left_ms",
                            left == CLI_LEFT_UNKNOWN ? json_null() : json_integer(left));
    }
    return object;
}

json_t *cli_candidate_json(const struct tenure_candidate *c, const struct tenure_lease_view *lease)
{
    return json_pack("{s:s, s:s, s:b, s:i, s:s, s:s, s:s, s:s, s:s}", "id", c->id, "state",
                     cli_role(c, lease), "healthy", (int)c->healthy, "priority", (int)c->priority,
                     "build", c->build, "address", c->address, "contain", c->contain, "since",
                     c->since, "trouble", c->trouble);
}

json_t *cli_term_json(const struct tenure_term_record *t, uint64_t current)
{
    return json_pack("{s:I, s:s, s:I, s:o, s:b, s:s, s:s, s:o, s:b}", "epoch", (json_int_t)t->epoch,
                     "holder", t->holder, "from_ms", (json_int_t)t->from_ms, "to_ms",
                     t->to_ms ? json_integer((json_int_t)t->to_ms) : json_null(), "estimated",
                     (int)t->estimated, "cause", t->cause, "end", t->end, "gap_ms",
                     t->gap_ms >= 0 ? json_integer(t->gap_ms) : json_null(), "current",
                     (int)(t->to_ms == 0 && t->epoch == current));
}

int cli_print_json(json_t *object)
{
    int failed = !object || json_dumpf(object, stdout, JSON_COMPACT) != 0;

    json_decref(object);
    putchar('\n');
    return failed || fflush(stdout) != 0 ? CLI_FAILED : CLI_OK;
}
