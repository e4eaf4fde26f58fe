/* core/replica/replica_term.c - promotion, the set, acknowledging: see replica.h. */
#include <assert.h>
#include <string.h>

#include "core/replica/replica_inner.h"

uint64_t tn_replica_lag(const struct tn_copy_head *head, const struct tn_replica_set *set)
{
    return set->committed.n - tn_chain_common(&head->chain, &set->committed);
}

/* ---- The beginning and the end --------------------------------------------- */

void tn_replica_term_end(struct tn_replica *r, struct tn_replica_actions *out)
{
    if (r->phase == TN_REPLICA_STANDBY)
        return;
    r->phase = TN_REPLICA_STANDBY;
    r->ack_count = 0;
    r->outdated = r->request != TN_REPLICA_NO_REQUEST;
    out->demoted = true;
}

static void release(struct tn_replica *r, enum tn_replica_release why,
                    struct tn_replica_actions *out)
{
    tn_replica_term_end(r, out);
    out->release = why;
}

/* R15: the epoch is flushed and what is staged dropped before the register is touched. */
void tn_replica_term_won(struct tn_replica *r, const struct tn_replica_event *ev,
                         struct tn_replica_actions *out)
{
    assert(r->phase == TN_REPLICA_STANDBY && r->writing == TN_WRITE_NOTHING);
    if (ev->n <= r->heard) {
        out->release = TN_RELEASE_SEALED;
        return;
    }
    r->heard = r->epoch = ev->n;
    memcpy(r->grant, ev->id, sizeof r->grant);
    r->force = ev->force;
    r->acknowledged = 0;
    r->ack_count = 0;
    r->doubt = r->sealed = r->pause = false;
    r->must_read = true;
    r->phase = TN_REPLICA_RAISING;
    r->draft = r->head;
    r->draft.staging = (struct tn_staging){.taking = TN_TAKE_NOTHING};
    tn_replica_write(r, TN_WRITE_DROP, out);
}

void tn_replica_term_flushed(struct tn_replica *r, enum tn_write write,
                             struct tn_replica_actions *out)
{
    if (write == TN_WRITE_DROP && r->phase == TN_REPLICA_RAISING)
        r->phase = TN_REPLICA_SEALING;
    if (write == TN_WRITE_BEGIN && r->phase == TN_REPLICA_OPENING) {
        r->phase = TN_REPLICA_PRIMARY;
        out->lead = true;
    }
}

/* ---- The register ---------------------------------------------------------- */

/* What keeps this copy from leading, given what was sealed (R15). */
static enum tn_replica_release objection(const struct tn_replica *r,
                                         const struct tn_replica_set *sealed)
{
    uint64_t lag = tn_replica_lag(&r->head, sealed);

    if (r->force)
        return TN_RELEASE_NOT;
    if (!r->cfg.async && tn_set_established(&sealed->set) &&
        !tn_set_has(&sealed->set, r->head.database))
        return TN_RELEASE_NO_MEMBER;
    return lag > (r->cfg.async ? r->cfg.max_lag : 0) ? TN_RELEASE_BEHIND : TN_RELEASE_NOT;
}

/* r->landed is what was read: the swap that seals it changes its version in any case. */
static void seal(struct tn_replica *r)
{
    struct tn_set *set = &r->wanted.set;

    r->wanted = r->landed;
    r->wanted.epoch = r->epoch;
    r->wanted.serial = 1;
    memcpy(r->wanted.grant, r->grant, sizeof r->grant);
    r->doubt = true;
    if (objection(r, &r->landed) != TN_RELEASE_NOT)
        return;
    if (r->cfg.async) {
        memset(set, 0, sizeof *set);
    } else if (r->force || !tn_set_established(set)) {
        /* Nothing was acknowledged that others have, or an operator gives it up. */
        memset(set, 0, sizeof *set);
        set->k = r->force ? 0 : r->cfg.k;
        tn_set_add(set, r->head.database);
    }
}

/* `wanted` is in the register. */
static void landed(struct tn_replica *r, const struct tenure_token *token,
                   struct tn_replica_actions *out)
{
    enum tn_replica_release why = TN_RELEASE_NOT;
    uint64_t lag = 0;

    if (r->phase == TN_REPLICA_SEALING) {
        why = objection(r, &r->landed);
        lag = tn_replica_lag(&r->head, &r->landed);
    }
    r->landed = r->wanted;
    r->token = *token;
    r->doubt = false;
    r->sealed = true;
    if (why == TN_RELEASE_NOT)
        return;
    release(r, why, out);
    out->lag = lag;
}

static bool is_ours(const struct tn_replica *r, const struct tn_replica_set *set)
{
    return set->epoch == r->epoch && memcmp(set->grant, r->grant, sizeof r->grant) == 0;
}

static void read_done(struct tn_replica *r, const struct tn_replica_event *ev,
                      struct tn_replica_actions *out)
{
    static const struct tn_replica_set absent;
    const struct tn_replica_set *set = ev->set != NULL ? ev->set : &absent;

    if (ev->status != TENURE_OK) {
        r->pause = true;
        return;
    }
    r->must_read = false;
    if (is_ours(r, set) && set->serial == r->wanted.serial) {
        landed(r, &ev->token, out);
    } else if (is_ours(r, set)) {
        r->token = ev->token; /* The swap has not landed yet: it is sent again. */
    } else if (r->phase == TN_REPLICA_SEALING && set->epoch < r->epoch) {
        r->landed = *set;
        r->token = ev->token;
        seal(r);
    } else {
        release(r, TN_RELEASE_SEALED, out); /* By another; or the register was lost (R17). */
    }
}

void tn_replica_term_answered(struct tn_replica *r, const struct tn_replica_event *ev,
                              struct tn_replica_actions *out)
{
    bool outdated = r->outdated;

    assert(r->request == (ev->kind == TN_REPLICA_READ ? TN_REPLICA_READ_SET : TN_REPLICA_SWAP_SET));
    r->request = TN_REPLICA_NO_REQUEST;
    r->outdated = false;
    if (outdated)
        return;
    if (ev->kind == TN_REPLICA_READ)
        read_done(r, ev, out);
    else if (ev->status == TENURE_OK)
        landed(r, &ev->token, out);
    else
        r->must_read = true; /* Unknown, or an earlier one of ours has landed (I6, I9). */
}

/* ---- Who has what ---------------------------------------------------------- */

static struct tn_set_ack *entry(struct tn_replica *r, const uint8_t *id)
{
    struct tn_set_ack *made = NULL;

    for (unsigned i = 0; i < r->ack_count; i++)
        if (memcmp(r->acks[i].id, id, TENURE_NONCE_SIZE) == 0)
            return &r->acks[i];
    if (r->ack_count < TN_REPLICA_ACKS)
        made = &r->acks[r->ack_count++];
    for (unsigned i = 0; made == NULL && i < TN_REPLICA_ACKS; i++)
        if (r->acks[i].lost && !tn_set_has(&r->landed.set, r->acks[i].id))
            made = &r->acks[i];
    if (made != NULL) {
        memset(made, 0, sizeof *made);
        memcpy(made->id, id, TENURE_NONCE_SIZE);
    }
    return made;
}

/* An answer counts if it was given under this term's epoch, for a position on this chain. */
bool tn_replica_term_ack(struct tn_replica *r, const struct tn_replica_ack *ack)
{
    struct tn_set_ack *made;

    if (r->phase != TN_REPLICA_STANDBY &&
        (ack->observer || !tn_chain_has(&r->head.chain, &ack->position)))
        return false;
    made = entry(r, ack->database);
    if (made == NULL)
        return false;
    made->lost = false;
    if (ack->position.n <= made->n)
        return false;
    made->n = ack->position.n;
    return true;
}

void tn_replica_term_lost(struct tn_replica *r, const uint8_t *id)
{
    struct tn_set_ack *made = r->phase == TN_REPLICA_PRIMARY ? entry(r, id) : NULL;

    if (made != NULL)
        made->lost = true;
}

/* ---- What is next ---------------------------------------------------------- */

static void acknowledge(struct tn_replica *r)
{
    struct tn_set_view view = {r->landed.set, r->wanted.set, r->doubt};
    uint64_t most = r->landed.committed.n + r->cfg.unpublished;

    if (!r->cfg.async) {
        r->acknowledged = tn_set_committed(&view, r->head.database, r->head.chain.n, r->cfg.k,
                                           r->acks, r->ack_count, r->acknowledged);
    } else if (tn_chain_epoch(&r->landed.committed) == r->epoch) {
        if (most > r->head.chain.n)
            most = r->head.chain.n;
        if (most > r->acknowledged)
            r->acknowledged = most;
    }
}

struct tn_position tn_replica_term_committed(const struct tn_replica *r)
{
    uint64_t n = r->acknowledged;
    struct tn_chain chain;

    if (r->cfg.async)
        n = tn_chain_epoch(&r->landed.committed) == r->epoch ? r->landed.committed.n : 0;
    if (n <= r->head.committed.n)
        return r->head.committed;
    chain = tn_chain_cut(&r->head.chain, n);
    return tn_chain_end(&chain);
}

/* A better record: another set, or in async a later commit point. */
static void propose(struct tn_replica *r)
{
    struct tn_set_view view = {.landed = r->landed.set, .doubt = false};
    struct tn_replica_set next = r->landed;
    uint64_t has = r->acknowledged > r->first ? r->acknowledged : r->first;

    if (r->cfg.async) {
        if (tn_chain_epoch(&next.committed) == r->epoch &&
            r->head.chain.n <= next.committed.n + r->cfg.unpublished / 2)
            return;
        next.committed = r->head.chain;
    } else {
        if (!tn_set_propose(&view, r->head.database, r->cfg.k, r->acks, r->ack_count, has,
                            &next.set))
            return;
        if (r->acknowledged > next.committed.n)
            next.committed = tn_chain_cut(&r->head.chain, r->acknowledged);
    }
    next.serial++;
    r->wanted = next;
    r->doubt = true;
}

void tn_replica_term_plan(struct tn_replica *r, struct tn_replica_actions *out)
{
    if (r->phase == TN_REPLICA_SEALING && r->sealed && r->writing == TN_WRITE_NOTHING) {
        r->draft = r->head;
        tn_chain_begin(&r->draft.chain, r->epoch, r->grant);
        r->first = r->draft.chain.n;
        r->phase = TN_REPLICA_OPENING;
        tn_replica_write(r, TN_WRITE_BEGIN, out);
    }
    if (r->phase == TN_REPLICA_PRIMARY) {
        acknowledge(r);
        out->acknowledged = r->acknowledged;
    }
    if (r->request != TN_REPLICA_NO_REQUEST || r->pause ||
        (r->phase != TN_REPLICA_SEALING && r->phase != TN_REPLICA_PRIMARY))
        return;
    if (r->phase == TN_REPLICA_PRIMARY && !r->doubt)
        propose(r);
    if (r->must_read) {
        r->request = out->request = TN_REPLICA_READ_SET;
    } else if (r->doubt) {
        r->request = out->request = TN_REPLICA_SWAP_SET;
        out->expect = r->token;
        out->set = r->wanted;
    }
}
