/* Who else comes to the state: operators, strangers, writers whose time is over. */
#include <stdio.h>
#include <string.h>

#include "check_docs.h"
#include "term.h"

static const char *const ids[] = {"a", "b", "c"};

/* ---- Errands ------------------------------------------------------------- */

static void edit(struct sim_client *c)
{
    const char *id = ids[(c->pick >> 8) % 3];
    bool remove = (c->pick >> 16) % 4 == 0;
    struct tenure_document seen = {0};
    char text[SIM_TEXT];

    if (sim_client_open(c, NULL) || sim_client_load(c, "docs", id, &seen))
        goto done;
    if (c->pick >> 24 & 1) /* people think before they write */
        sim_client_sleep(c, (int64_t)(c->pick >> 25) % c->w->nodes[c->node].timing->ttl_ns);
    snprintf(text, sizeof text, "%u", ++c->w->docs.texts);
    sim_check_call(c);
    sim_check_try(c, "docs", id, remove ? NULL : text);
    enum tenure_status status =
        tenure_state_edit(c->state, "docs", id, &seen, remove ? NULL : text, strlen(text),
                          sim_client_by(c, 4 * c->w->nodes[c->node].timing->request_ns), NULL);
    sim_check_tried(c, 0, status, 0);
done:
    tenure_document_free(&seen);
    tenure_state_close(c->state);
}

/* A leader's whole business, under a grant that is not that of any candidate. */
static void lead(struct sim_client *c, const struct tenure_grant *grant)
{
    struct tenure_document doc = {0};
    enum tenure_status status = sim_client_open(c, grant);

    if (grant->epoch == 0) {
        if (!status)
            sim_fail(c->w, "I3", "a writer with epoch 0 is let in");
        tenure_state_close(c->state);
        return;
    }
    if (!status && c->errand == SIM_SEALS_AHEAD)
        status = sim_client_seal(c, "docs");
    if (!status)
        status = sim_client_load(c, "docs", ids[(c->pick >> 8) % 3], &doc);
    if (!status)
        sim_client_commit(c, &ids[(c->pick >> 8) % 3], 1, false);
    tenure_document_free(&doc);
    tenure_state_close(c->state);
}

static void visit(void *arg)
{
    struct sim_client *c = arg;
    uint64_t ever = c->w->docs.ever.epoch, id[2] = {sim_mix(c->pick), c->pick | 1};
    struct tenure_grant grant = {.epoch = ever + 1 + c->pick % 100000};

    memcpy(grant.id, id, sizeof id);
    if (c->errand == SIM_WRITES_STALE) {
        grant.epoch = c->pick % 3 == 0 ? 0 : c->pick % 3 == 1 ? ever : ever - 1;
        if (ever < 2)
            grant.epoch = 0;
    }
    if (c->errand == SIM_EDITS)
        edit(c);
    else
        lead(c, &grant);
}

/* ---- From outside -------------------------------------------------------- */

void sim_visit(struct sim_world *w, unsigned node, enum sim_errand errand, uint64_t pick)
{
    for (unsigned i = SIM_NODES_MAX; i < SIM_CLIENTS; i++) {
        struct sim_client *c = &w->docs.clients[i];

        if (c->fiber.alive)
            continue;
        c->node = (uint8_t)node;
        c->sealing = true;
        c->errand = (uint8_t)errand;
        c->pick = pick;
        memset(&c->grant, 0, sizeof c->grant);
        sim_client_start(w, c, visit);
        return;
    }
}

void sim_visitors_leave(struct sim_world *w, unsigned node)
{
    for (unsigned i = SIM_NODES_MAX; i < SIM_CLIENTS; i++) {
        if (w->docs.clients[i].node == node)
            sim_client_kill(&w->docs.clients[i]);
    }
}

void sim_visitors_leave_all(struct sim_world *w)
{
    for (unsigned i = SIM_NODES_MAX; i < SIM_CLIENTS; i++)
        sim_client_kill(&w->docs.clients[i]);
}
