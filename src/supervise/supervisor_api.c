/* What the supervisor tells those who ask over HTTP. */
#include <string.h>

#include "supervise/supervisor_inner.h"

struct tn_election *tn_supervisor_election(const struct tn_supervisor *s)
{
    const struct tenure_elector_options *o = &s->options->elector;
    struct tn_election_options e = {.name = o->name,
                                    .store = o->store,
                                    .address = o->address,
                                    .build = o->build,
                                    .priority = o->priority,
                                    .answer_ns = s->options->answer_ns,
                                    .ttl_ms = o->ttl_ms,
                                    .renew_ms = o->renew_ms,
                                    .leader_page = s->options->leader_page,
                                    .shared = s->controlled};

    return tn_election_new(&e);
}

static void answer_state(void *arg, const struct tn_http_request *request,
                         struct tn_http_reply *reply)
{
    tn_state_socket_answer(((struct tn_supervisor *)arg)->socket, request, reply);
}

enum tenure_status tn_supervisor_listen(struct tn_supervisor *s, struct tenure_error *err)
{
    if (s->socket) {
        tn_election_state(s->election, answer_state, s);
        tn_election_on_change(s->election, TN_WATCHER_SOCKET, tn_state_socket_notify, s->socket);
    }
    if (s->options->agent_socket) {
        enum tenure_status status =
            tn_link_open(&s->loop, s->options->agent_socket, s->election, &s->agent, err);
        if (status)
            return status;
    }
    if (!s->options->api.listen[0])
        return TENURE_OK;
    return tn_api_start(&s->options->api, &s->election, 1, &s->api, err);
}
