#include "term.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "check_docs.h"
#include "state.h"
#include "tenure/checkpoint.h"

enum { SAYS_NOTHING, SAYS_SEALED, SAYS_FENCED };

static const char *const ids[] = {"a", "b", "c"};
#define N_IDS (sizeof ids / sizeof ids[0])

/* ---- Calls --------------------------------------------------------------- */

static int64_t deadline(struct sim_client *c)
{
    const struct tn_timing *t = c->w->nodes[c->node].timing;

    /* Shorter than one request, or enough for several: both have to end well. */
    if (c->w->quiet)
        return sim_client_by(c, 8 * t->request_ns);
    switch (sim_client_draw(c) % 4) {
    case 0:
        return sim_client_by(c, t->request_ns / 2);
    case 1:
        return sim_client_by(c, 2 * t->request_ns);
    default:
        return sim_client_by(c, 6 * t->request_ns);
    }
}

enum tenure_status sim_client_open(struct sim_client *c, const struct tenure_grant *grant)
{
    c->granted = grant;
    if (grant)
        c->grant = *grant;
    return tenure_state_open(sim_docs_url(c->w), "sim", grant, deadline(c), &c->state, NULL);
}

enum tenure_status sim_client_seal(struct sim_client *c, const char *collection)
{
    sim_check_call(c);
    enum tenure_status status = tenure_state_seal(c->state, collection, deadline(c), NULL);
    sim_check_told(c, status);
    if (status == TENURE_OK)
        sim_check_collection_sealed(c, collection);
    sim_say(c->w, c->node, "state: seals %s: %s", collection, tenure_status_word(status));
    return status;
}

enum tenure_status sim_client_load(struct sim_client *c, const char *collection, const char *id,
                                   struct tenure_document *doc)
{
    uint32_t foreign = sim_check_foreign(c, collection, id);

    sim_check_call(c);
    enum tenure_status status = tenure_state_load(c->state, collection, id, doc, deadline(c), NULL);
    if (c->granted)
        sim_check_told(c, status);
    if (status == TENURE_OK)
        sim_check_doc_loaded(c, collection, id, doc, foreign);
    sim_say(c->w, c->node, "state: loads %s/%s: %s%s", collection, id, tenure_status_word(status),
            status == TENURE_OK && doc->edited ? ", edited" : "");
    return status;
}

enum tenure_status sim_client_commit(struct sim_client *c, const char *const *which, unsigned n,
                                     bool remove)
{
    struct tenure_commit commits[N_IDS];
    char text[N_IDS][SIM_TEXT];

    sim_check_call(c);
    for (unsigned i = 0; i < n; i++) {
        snprintf(text[i], SIM_TEXT, "%u", ++c->w->docs.texts);
        commits[i] = (struct tenure_commit){.collection = "docs",
                                            .id = which[i],
                                            .data = text[i],
                                            .len = strlen(text[i]),
                                            .remove = remove};
        sim_check_try(c, "docs", which[i], remove ? NULL : text[i]);
    }
    bool over = c->fenced;
    enum tenure_status status = tenure_state_commit(c->state, commits, n, deadline(c), NULL);
    for (unsigned i = 0; i < n; i++) {
        /* Of one batch some may be there, and some come too late. */
        if (over || commits[i].status == TENURE_FENCED)
            sim_check_told(c, commits[i].status);
        sim_check_tried(c, i, commits[i].status, commits[i].seq);
    }
    return c->fenced ? TENURE_FENCED : status;
}

/* Load what the last answer has left in doubt. */
static enum tenure_status load(struct sim_client *c, const char *id)
{
    struct tenure_document doc = {0};
    enum tenure_status status = sim_client_load(c, "docs", id, &doc);

    tenure_document_free(&doc);
    return status;
}

/* ---- The checkpoint ------------------------------------------------------ */

/* A checkpoint shows its position, and nothing else of its document. */
static enum tenure_status open_mark(struct sim_client *c, tenure_checkpoint **mark)
{
    struct tenure_checkpoint_options options = TENURE_CHECKPOINT_OPTIONS;
    uint32_t foreign = sim_check_foreign(c, "marks", "pos");
    unsigned char text[SIM_TEXT];
    struct tenure_document doc = {.seq = SIM_ANY_SEQ, .value.data = text};
    enum tenure_status status;

    options.every = 1 + sim_client_draw(c) % 2;
    sim_check_call(c);
    status =
        *mark ? tenure_checkpoint_reload(*mark, deadline(c), NULL)
              : tenure_checkpoint_open(c->state, "marks", "pos", &options, deadline(c), mark, NULL);
    sim_check_told(c, status);
    sim_say(c->w, c->node, "state: opens the checkpoint: %s", tenure_status_word(status));
    if (status)
        return status;
    doc.exists = tenure_checkpoint_position(*mark) > 0;
    doc.value.len = (size_t)snprintf((char *)text, sizeof text, "%llu",
                                     (unsigned long long)tenure_checkpoint_position(*mark));
    sim_check_doc_loaded(c, "marks", "pos", &doc, foreign);
    return status;
}

static enum tenure_status note(struct sim_client *c, tenure_checkpoint *mark)
{
    uint64_t position = tenure_checkpoint_position(mark) + 1 + sim_client_draw(c) % 5;
    uint64_t before = tenure_checkpoint_durable(mark);
    char text[SIM_TEXT];

    snprintf(text, sizeof text, "%llu", (unsigned long long)position);
    sim_check_call(c);
    sim_check_try(c, "marks", "pos", text);
    enum tenure_status status = tenure_checkpoint_note(mark, position, deadline(c), NULL);
    sim_check_told(c, status);
    if (c->gone)
        return status;
    bool durable = tenure_checkpoint_durable(mark) == position;
    if (status || durable) /* else it is only noted */
        sim_check_tried(c, 0, status, c->tries[0].seq);
    else if (c->tries[0].applied || tenure_checkpoint_durable(mark) != before)
        sim_fail(c->w, "I6", "n%u: a checkpoint was written, and its owner not told", c->node);
    return status;
}

/* ---- Sealing ------------------------------------------------------------- */

static enum tenure_status load_all(struct sim_client *c, tenure_checkpoint **mark)
{
    enum tenure_status status = TENURE_OK;

    if (sim_client_draw(c) % 4) /* else one by one, by their loads */
        status = sim_client_seal(c, "docs");
    for (unsigned i = 0; i < N_IDS && !status; i++)
        status = load(c, ids[i]);
    return status ? status : open_mark(c, mark);
}

static void say(struct sim_client *c, uint8_t what)
{
    struct sim_world *w = c->w;

    c->says = what;
    c->floor = tenure_state_floor(c->state);
    sim_at(w, w->now_ns, SIM_Q_SAYS, c->node, c->uid, c->index);
}

/* As tenure does it: again and again, until it is sealed, fenced, or over. */
static bool seal(struct sim_client *c, tenure_checkpoint **mark)
{
    enum tenure_status status;

    while ((status = load_all(c, mark)) && status != TENURE_FENCED && !c->gone)
        usleep(50 * 1000);
    if (c->gone || c->w->failed)
        return false;
    c->loaded = status == TENURE_OK;
    return c->loaded;
}

/* ---- Working ------------------------------------------------------------- */

/* FENCED is final for the handle, whatever it is asked. */
static void insist(struct sim_client *c)
{
    if (c->gone || c->w->failed)
        return;
    load(c, ids[sim_client_draw(c) % N_IDS]);
    sim_client_commit(c, ids, N_IDS, false);
    sim_client_seal(c, "docs");
    if (tenure_state_floor(c->state) < c->grant.epoch)
        sim_fail(c->w, "I4", "n%u is fenced by epoch %llu, which is below its own", c->node,
                 (unsigned long long)tenure_state_floor(c->state));
}

static enum tenure_status work_once(struct sim_client *c, tenure_checkpoint **mark)
{
    uint64_t r = sim_client_draw(c);
    const char *const *from = &ids[(r >> 8) % N_IDS];
    enum tenure_status status;

    switch (r % 8) {
    case 0:
        status = sim_client_commit(c, ids, N_IDS, false);
        from = ids;
        break;
    case 1:
        status = sim_client_commit(c, from, 1, true);
        break;
    case 2:
        return load(c, *from);
    case 3:
    case 4:
        status = note(c, *mark);
        return status == TENURE_CONFLICT || status == TENURE_UNKNOWN ? open_mark(c, mark) : status;
    case 5:
        return sim_client_seal(c, "docs");
    default:
        status = sim_client_commit(c, from, 1, false);
        break;
    }
    if (status == TENURE_CONFLICT || (status == TENURE_UNKNOWN && (r >> 16 & 1))) {
        for (unsigned i = 0; i < N_IDS && status != TENURE_FENCED; i++)
            status = load(c, ids[i]);
    }
    return status;
}

static void work(struct sim_client *c, tenure_checkpoint **mark)
{
    struct sim_world *w = c->w;
    const struct sim_node *n = &w->nodes[c->node];

    while (!c->gone && !w->failed) {
        int64_t pace =
            w->plan.commit_ns / 2 + (int64_t)(sim_client_draw(c) % (uint64_t)w->plan.commit_ns);

        sim_client_sleep(c, pace);
        if (c->gone || (!w->plan.guarded && !tn_elector_leads(&n->elector, sim_local(w, n))))
            return;
        if (work_once(c, mark) == TENURE_FENCED)
            return;
    }
}

/* Until its program runs, however long that takes. */
static void await_begin(struct sim_client *c)
{
    c->sealing = false;
    while (!c->begun && !c->gone) {
        c->left = 1; /* nothing else wakes it */
        c->call++;
        sim_client_wait(c);
    }
    if (!c->gone && c->begin_ns > c->w->now_ns)
        sim_client_sleep(c, c->begin_ns - c->w->now_ns);
}

static void term(void *arg)
{
    struct sim_client *c = arg;
    tenure_checkpoint *mark = NULL;
    struct tenure_grant grant = c->grant;
    enum tenure_status status = sim_client_open(c, &grant);

    if (status)
        sim_fail(c->w, "I4", "n%u cannot open its state: %s", c->node, tenure_status_word(status));
    if (!status && seal(c, &mark)) {
        say(c, SAYS_SEALED);
        await_begin(c);
        work(c, &mark);
    }
    if (c->fenced)
        insist(c);
    if (c->fenced && !c->gone)
        say(c, SAYS_FENCED);
    tenure_checkpoint_close(mark);
    tenure_state_close(c->state);
}

/* ---- From outside -------------------------------------------------------- */

void sim_term_seal(struct sim_world *w, struct sim_node *n)
{
    struct sim_client *c = &w->docs.clients[n->index];

    sim_client_kill(c);
    c->node = n->index;
    c->sealing = true;
    c->grant.epoch = n->saver.epoch;
    memcpy(c->grant.id, n->saver.grant, TENURE_NONCE_SIZE);
    sim_client_start(w, c, term);
}

void sim_term_begin(struct sim_world *w, struct sim_node *n, int64_t at_ns)
{
    struct sim_client *c = &w->docs.clients[n->index];

    if (!c->fiber.alive || !c->loaded)
        return;
    c->begun = true;
    c->begin_ns = at_ns;
    sim_client_ready(c);
}

void sim_term_end(struct sim_world *w, struct sim_node *n)
{
    sim_client_kill(&w->docs.clients[n->index]);
}

void sim_term_says(struct sim_world *w, uint32_t index, uint32_t uid)
{
    struct sim_client *c = &w->docs.clients[index];
    struct sim_node *n = &w->nodes[c->node];

    if (c->uid != uid || c->gone || !n->saver.active)
        return;
    if (c->says == SAYS_SEALED)
        sim_saver_sealed(w, n);
    else if (c->says == SAYS_FENCED)
        sim_saver_fenced(w, n, c->floor);
}
