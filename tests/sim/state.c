#include "state.h"

#include <assert.h>
#include <string.h>

#include "check.h"
#include "core/fence.h"
#include "net.h"
#include "node.h"
#include "term.h"

#define NO_MSG SIM_MSGS_MAX

void sim_state_clear(struct sim_world *w)
{
    struct sim_state *s = &w->state;

    memset(s->docs, 0, sizeof s->docs);
    memset(s->top_epoch, 0, sizeof s->top_epoch);
    memset(s->top_grant, 0, sizeof s->top_grant);
    memset(s->acked_epoch, 0, sizeof s->acked_epoch);
    memset(s->acked_data, 0, sizeof s->acked_data);
    for (unsigned i = 0; i < SIM_MSGS_MAX; i++)
        s->msgs[i].next = (uint16_t)(i + 1);
    s->free = 0;
    s->version = 0;
    s->n_files = 0;
}

/* ---- The store ----------------------------------------------------------- */

static struct sim_doc_msg *take(struct sim_world *w)
{
    assert(w->state.free < SIM_MSGS_MAX);
    struct sim_doc_msg *msg = &w->state.msgs[w->state.free];
    w->state.free = msg->next;
    return msg;
}

static void give(struct sim_world *w, struct sim_doc_msg *msg)
{
    msg->next = w->state.free;
    w->state.free = (uint16_t)(msg - w->state.msgs);
}

/* The shipped rule: a document accepts (epoch, grant) if nothing later was accepted (I3). */
static bool accepts(const struct sim_doc *doc, const struct sim_doc *value)
{
    struct tn_fence was = {.epoch = doc->epoch}, is = {.epoch = value->epoch};

    memcpy(was.grant, doc->grant, TENURE_NONCE_SIZE);
    memcpy(is.grant, value->grant, TENURE_NONCE_SIZE);
    enum tn_verdict verdict = tn_fence_judge(&was, &is);
    return verdict == TN_VERDICT_RAISE || verdict == TN_VERDICT_SAME;
}

static enum tenure_status swap_doc(struct sim_world *w, const struct sim_doc_msg *msg)
{
    struct sim_doc *doc = &w->state.docs[msg->doc];

    if (doc->version != msg->expect_version || doc->nonce != msg->expect_nonce)
        return TENURE_CONFLICT;
    if (!accepts(doc, &msg->value))
        return TENURE_FENCED;
    sim_check_doc(w, msg->doc, &msg->value, doc, msg->expect_version, msg->expect_nonce);
    *doc = msg->value;
    doc->version = ++w->state.version;
    sim_hash(w, (uint64_t)msg->doc << 8 | msg->node, doc->data ^ doc->epoch << 20);
    return TENURE_OK;
}

void sim_state_arrive(struct sim_world *w, uint32_t index)
{
    struct sim_doc_msg *msg = &w->state.msgs[index];

    msg->status = msg->read ? TENURE_OK : swap_doc(w, msg);
    msg->value = w->state.docs[msg->doc];
    if (msg->back_ns < 0)
        give(w, msg);
    else
        sim_at(w, w->now_ns + msg->back_ns, SIM_Q_SAVED, msg->node, msg->no, index);
}

void sim_state_rogue(struct sim_world *w, uint64_t pick)
{
    unsigned doc = (unsigned)(pick % SIM_DOCS);
    struct sim_doc_msg msg = {.doc = (uint8_t)doc, .node = SIM_NODES_MAX};

    msg.value = w->state.docs[doc];
    msg.expect_version = msg.value.version;
    msg.expect_nonce = msg.value.nonce;
    msg.value.epoch = 0;
    msg.value.nonce = sim_mix(pick);
    msg.value.data += 100;
    enum tenure_status status = swap_doc(w, &msg);
    sim_say(w, -1, "a writer with epoch 0 is answered: %s", tenure_status_word(status));
}

void sim_state_fence(struct sim_world *w, uint64_t pick)
{
    unsigned doc = (unsigned)(pick % SIM_DOCS);
    struct sim_doc_msg msg = {.doc = (uint8_t)doc, .node = SIM_NODES_MAX};

    if (w->plan.files) {
        sim_files_fence(w, pick);
        return;
    }
    uint64_t grant[2] = {sim_mix(pick), pick | 1};

    msg.value = w->state.docs[doc];
    msg.expect_version = msg.value.version;
    msg.expect_nonce = msg.value.nonce;
    msg.value.epoch += 1 + pick % 100000;
    msg.value.nonce = sim_mix(pick + 1);
    memcpy(msg.value.grant, grant, sizeof grant);
    swap_doc(w, &msg);
    sim_say(w, -1, "document %u is sealed by a stranger, epoch %llu", doc,
            (unsigned long long)msg.value.epoch);
}

/* ---- The saver ----------------------------------------------------------- */

static void send(struct sim_world *w, struct sim_node *n, bool read, const struct sim_doc *value)
{
    struct sim_saver *s = &n->saver;
    struct sim_doc_msg *msg = take(w);

    s->no++;
    s->reading = read;
    s->waiting = true;
    *msg = (struct sim_doc_msg){.node = n->index, .doc = s->doc, .read = read, .no = s->no};
    if (!read) {
        msg->expect_version = s->version[s->doc];
        msg->expect_nonce = s->nonce[s->doc];
        msg->value = *value;
        msg->value.nonce = sim_key(w->plan.seed, SIM_RND_STATE, n->index | 0x80u, s->no);
        s->tried = msg->value.nonce;
        s->tried_data = value->data;
    }
    struct sim_fate f = sim_net_fate(w, SIM_RND_STATE, n, s->no);
    msg->back_ns = f.cut_ns >= 0 ? -1 : f.back_ns;
    if (f.refused || f.out_ns < 0 || msg->back_ns < 0 || f.out_ns > n->timing->request_ns)
        sim_at(w, w->now_ns + n->timing->request_ns, SIM_Q_SAVED, n->index, s->no, NO_MSG);
    if (f.out_ns < 0)
        give(w, msg);
    else
        sim_at(w, w->now_ns + f.out_ns, SIM_Q_DOC, n->index, 0, (uint32_t)(msg - w->state.msgs));
}

static void seal_doc(struct sim_world *w, struct sim_node *n)
{
    struct sim_saver *s = &n->saver;
    struct sim_doc value = {.epoch = s->epoch, .data = s->data[s->doc]};

    memcpy(value.grant, s->grant, TENURE_NONCE_SIZE);
    send(w, n, false, &value);
}

static void try_seal(struct sim_world *w, struct sim_node *n)
{
    if (!w->plan.commits)
        sim_saver_sealed(w, n);
    else if (w->now_ns < n->saver.unsealed_until_ns)
        sim_at(w, w->now_ns + n->timing->request_ns / 4, SIM_Q_UNSEALED, n->index, n->saver.gen, 0);
    else if (w->plan.product)
        sim_term_seal(w, n);
    else if (w->plan.files)
        sim_files_seal(w, n);
    else
        send(w, n, true, NULL);
}

void sim_saver_seal(struct sim_world *w, struct sim_node *n)
{
    struct sim_saver *s = &n->saver;

    if (w->plan.product)
        sim_term_end(w, n);
    s->gen++;
    s->active = s->sealing = true;
    s->waiting = false;
    s->doc = 0;
    s->epoch = n->out.epoch;
    s->tried = 0;
    memcpy(s->grant, n->out.grant, TENURE_NONCE_SIZE);
    try_seal(w, n);
}

/* It tells of every try that failed. */
void sim_saver_seal_again(struct sim_world *w, struct sim_node *n, uint32_t gen)
{
    if (!n->saver.active || n->saver.gen != gen)
        return;
    if (sim_saver_asleep(w, n)) {
        sim_at(w, n->resume_ns, SIM_Q_UNSEALED, n->index, gen, 0);
        return;
    }
    if (w->now_ns < n->saver.unsealed_until_ns) {
        struct sim_mail mail = {
            .kind = TN_EV_UNSEALED, .tag = gen, .final = n->saver.unsealed_final};

        memcpy(mail.grant, n->saver.grant, TENURE_NONCE_SIZE);
        sim_node_post(w, n, &mail);
    }
    if (n->saver.active && n->saver.gen == gen && n->elector.phase == TN_PHASE_SEALING)
        try_seal(w, n);
}

void sim_saver_sealed(struct sim_world *w, struct sim_node *n)
{
    struct sim_mail mail = {.kind = TN_EV_SEALED};

    n->saver.sealing = false;
    n->saver.doc = 0;
    memcpy(mail.grant, n->saver.grant, TENURE_NONCE_SIZE);
    sim_node_post(w, n, &mail);
}

void sim_saver_acked(struct sim_world *w, struct sim_node *n)
{
    struct sim_saver *s = &n->saver;

    w->state.acked_epoch[s->doc] = s->epoch;
    w->state.acked_data[s->doc] = s->data[s->doc];
    w->counts.commits++;
    sim_at(w, w->now_ns + sim_saver_pace(w, n), SIM_Q_SAVE, n->index, s->gen, 0);
}

int64_t sim_saver_pace(const struct sim_world *w, const struct sim_node *n)
{
    uint64_t r = sim_key(w->plan.seed, SIM_RND_STATE, n->index | 0x40u, n->saver.no);

    return w->plan.commit_ns / 2 + (int64_t)(r % (uint64_t)w->plan.commit_ns);
}

void sim_saver_begin(struct sim_world *w, struct sim_node *n, int64_t after_ns)
{
    if (w->plan.product)
        sim_term_begin(w, n, w->now_ns + after_ns);
    else if (w->plan.commits)
        sim_at(w, w->now_ns + after_ns + sim_saver_pace(w, n), SIM_Q_SAVE, n->index, n->saver.gen,
               0);
}

void sim_saver_end(struct sim_world *w, struct sim_node *n)
{
    if (w->plan.product)
        sim_term_end(w, n);
    n->saver.active = false;
    n->saver.gen++;
    n->saver.no++; /* whatever is out is nobody's */
}

void sim_saver_fenced(struct sim_world *w, struct sim_node *n, uint64_t floor)
{
    struct sim_mail mail = {.kind = TN_EV_FENCED, .floor = floor};

    memcpy(mail.grant, n->saver.grant, TENURE_NONCE_SIZE);
    n->saver.active = false;
    sim_say(w, n->index, "is fenced by its state: %llu", (unsigned long long)floor);
    sim_node_post(w, n, &mail);
}

/* Whoever saves is stopped with its process: tenure while it seals, the
 * program later, which is a process of its own only under a guard. */
bool sim_saver_asleep(const struct sim_world *w, const struct sim_node *n)
{
    if (n->run != SIM_PAUSED)
        return false;
    return n->saver.sealing || !w->plan.guarded || n->suspended || n->frozen;
}

static void took_effect(struct sim_world *w, struct sim_node *n, const struct sim_doc *doc)
{
    struct sim_saver *s = &n->saver;

    s->version[s->doc] = doc->version;
    s->nonce[s->doc] = doc->nonce;
    s->data[s->doc] = doc->data;
    s->tried = 0;
    if (!s->sealing) {
        sim_saver_acked(w, n);
    } else if (++s->doc < SIM_DOCS) {
        send(w, n, true, NULL);
    } else {
        sim_saver_sealed(w, n);
    }
}

static void was_read(struct sim_world *w, struct sim_node *n, const struct sim_doc *doc)
{
    struct sim_saver *s = &n->saver;

    if (s->tried != 0 && doc->nonce == s->tried) {
        took_effect(w, n, doc);
        return;
    }
    if (doc->epoch > s->epoch ||
        (doc->epoch == s->epoch && memcmp(doc->grant, s->grant, TENURE_NONCE_SIZE) != 0)) {
        sim_saver_fenced(w, n, doc->epoch);
        return;
    }
    s->version[s->doc] = doc->version;
    s->nonce[s->doc] = doc->nonce;
    s->data[s->doc] = doc->data;
    if (s->sealing)
        seal_doc(w, n);
    else
        sim_at(w, w->now_ns + sim_saver_pace(w, n), SIM_Q_SAVE, n->index, s->gen, 0);
}

void sim_saver_answer(struct sim_world *w, struct sim_node *n, uint32_t index, uint32_t no)
{
    struct sim_saver *s = &n->saver;
    struct sim_doc_msg *msg = index == NO_MSG ? NULL : &w->state.msgs[index];

    if (s->active && s->no == no && s->waiting && sim_saver_asleep(w, n)) {
        sim_at(w, n->resume_ns, SIM_Q_SAVED, n->index, no, index);
        return;
    }
    if (s->active && s->no == no && s->waiting) {
        s->waiting = false;
        if (!msg)
            send(w, n, true, NULL); /* unknown, or no answer: look */
        else if (s->reading)
            was_read(w, n, &msg->value);
        else if (msg->status == TENURE_OK)
            took_effect(w, n, &msg->value);
        else
            send(w, n, true, NULL); /* a conflict, or fenced: look why */
    }
    if (msg)
        give(w, msg);
}

void sim_saver_save(struct sim_world *w, struct sim_node *n, uint32_t gen)
{
    struct sim_saver *s = &n->saver;

    if (!s->active || s->gen != gen || s->waiting)
        return;
    if (sim_saver_asleep(w, n)) {
        sim_at(w, n->resume_ns, SIM_Q_SAVE, n->index, gen, 0);
        return;
    }
    if (!w->plan.guarded && !tn_elector_leads(&n->elector, sim_local(w, n)))
        return;
    if (w->plan.files) {
        sim_files_save(w, n);
        return;
    }
    s->doc = (uint8_t)((s->doc + 1) % SIM_DOCS);
    struct sim_doc value = {
        .epoch = s->epoch,
        .data = s->data[s->doc] + 1,
        .tombstone = s->no % 8 == 0,
    };
    memcpy(value.grant, s->grant, TENURE_NONCE_SIZE);
    send(w, n, false, &value);
}
