/* core/jobs/worker_view.c - plan, members and catalogue as read; burials and placeholders. */
#include "core/jobs/worker_inner.h"

uint32_t tn_worker_peer(const struct tn_worker *w, const char *id)
{
    uint32_t low = 0, high = w->peer_count;

    while (low < high) {
        uint32_t mid = (low + high) / 2;
        int order = strcmp(w->cfg.peers[mid].id, id);

        if (order == 0)
            return mid;
        if (order < 0)
            low = mid + 1;
        else
            high = mid;
    }
    return w->peer_count;
}

/* ---- Members ------------------------------------------------------------- */

/* Make room for a new id in the sorted table: slots behind it move by one. */
static uint32_t insert(struct tn_worker *w, const char *id)
{
    struct tn_worker_config *c = &w->cfg;
    uint32_t at = 0;

    while (at < w->peer_count && strcmp(c->peers[at].id, id) < 0)
        at++;
    memmove(&c->peers[at + 1], &c->peers[at], (w->peer_count - at) * sizeof *c->peers);
    memmove(&c->records[at + 1], &c->records[at], (w->peer_count - at) * sizeof *c->records);
    memset(&c->peers[at], 0, sizeof c->peers[at]);
    memset(&c->records[at], 0, sizeof c->records[at]);
    memcpy(c->peers[at].id, id, strnlen(id, TN_MEMBER_ID_MAX));
    w->peer_count++;
    for (uint32_t j = 0; j < c->jobs_max; j++) /* also those that the catalogue has not named yet */
        if (c->known[j].slot != TN_SLOT_NONE && c->known[j].slot >= at)
            c->known[j].slot++;
    w->own = tn_worker_peer(w, c->id);
    return at;
}

/* The member of this id, put into the table if there is room. */
static uint32_t find_or_insert(struct tn_worker *w, const char *id)
{
    uint32_t at = tn_worker_peer(w, id);

    if (at == w->peer_count && at < w->cfg.members_max)
        at = insert(w, id);
    return at;
}

static void set_absent(struct tn_worker *w, uint32_t at)
{
    struct tn_peer *p = &w->cfg.peers[at];

    p->present = false;
    memset(&p->token, 0, sizeof p->token);
    w->cfg.records[at].state = TN_MEMBER_DEAD; /* it does not count; its jobs are not free */
}

/* Stands for a record that cannot be read.  Its worker may be alive, so its jobs are not free.  No
 * plan counts it: workers that knew it before and those that did not must plan the same. */
static const struct tn_member unreadable = {
    .identity = {.number = UINT64_MAX}, .state = TN_MEMBER_ALIVE, .mark = TN_MARK_EVICTED};

void tn_view_members(struct tn_worker *w, const struct tn_work_event *ev)
{
    unsigned next = 0;

    for (unsigned i = 0; i < ev->n; i++) {
        const struct tn_listed *l = &ev->listed[i];
        uint32_t at = find_or_insert(w, l->id);
        struct tn_peer *p = &w->cfg.peers[at];

        if (at == w->peer_count)
            continue;
        if (!p->present || !tenure_token_equal(&p->token, &l->token))
            p->seen_ns = w->now_ns; /* after the read */
        p->present = true;
        p->token = l->token;
        p->damaged = l->record == NULL;
        w->cfg.records[at] = p->damaged ? unreadable : *l->record;
    }
    for (uint32_t at = 0; at < w->peer_count; at++) {
        while (next < ev->n && strcmp(ev->listed[next].id, w->cfg.peers[at].id) < 0)
            next++;
        if (next == ev->n || strcmp(ev->listed[next].id, w->cfg.peers[at].id) != 0)
            set_absent(w, at);
    }
}

/* ---- Plan and catalogue -------------------------------------------------- */

void tn_view_plan(struct tn_worker *w, const struct tn_work_event *ev)
{
    const struct tn_plan_record *p = ev->plan;

    if (w->planned && tenure_token_equal(&w->plan_token, &ev->token))
        return;
    w->planned = p != NULL || tenure_token_absent(&ev->token);
    w->plan_token = ev->token;
    w->needed = false;
    w->plan_cut = p != NULL && p->cut;
    w->plan_digest = p != NULL ? p->digest : 0;
    if (!w->planned)
        return; /* it cannot be read: keep what we have, claim nothing */
    w->plan_seq = p != NULL ? p->seq : 0;
    for (uint32_t i = 0; p != NULL && i < p->member_count; i++)
        find_or_insert(w, p->members[i]);
    for (uint32_t j = 0; j < w->cfg.jobs_max; j++) {
        uint16_t slot = p != NULL && j < p->job_count ? p->slots[j] : TN_SLOT_NONE;
        uint32_t at = w->peer_count;

        if (slot != TN_SLOT_NONE && slot < p->member_count)
            at = tn_worker_peer(w, p->members[slot]);
        w->cfg.known[j].slot = at < w->peer_count ? (uint16_t)at : TN_SLOT_NONE;
    }
}

void tn_view_catalogue(struct tn_worker *w, const struct tn_work_event *ev)
{
    w->catalogue = ev->revision;
    w->active = ev->active;
    w->job_count = ev->job_count < w->cfg.jobs_max ? ev->job_count : w->cfg.jobs_max;
    for (unsigned i = 0; i < ev->n; i++) {
        const struct tn_entry *e = &ev->entries[i];
        struct tn_known *k;

        if (e->number >= w->job_count)
            continue;
        k = &w->cfg.known[e->number];
        k->listed = true;
        k->weight = e->weight;
        k->requirements = e->requirements;
        k->wanted = (uint8_t)e->wanted;
    }
}

/* ---- Burials and placeholders -------------------------------------------- */

static void swap_member(struct tn_worker *w, const struct tn_work_event *ev, const char *id,
                        const struct tenure_token *expect, struct tn_work_actions *out)
{
    out->request = TN_WORK_SWAP_MEMBER;
    out->expect = *expect;
    memcpy(out->nonce, ev->entropy, TENURE_NONCE_SIZE);
    memset(out->member_id, 0, sizeof out->member_id);
    memcpy(out->member_id, id, strnlen(id, TN_MEMBER_ID_MAX));
    out->request_by_ns = w->now_ns + w->cfg.timing.request_ns;
}

/* Its record, unchanged for W, or left for longer than its jobs are to linger. */
static bool is_over(const struct tn_worker *w, uint32_t at)
{
    const struct tn_member *r = &w->cfg.records[at];
    int64_t seen_ns = w->cfg.peers[at].seen_ns;

    if (!w->cfg.peers[at].present || w->cfg.peers[at].damaged)
        return false;
    if (r->state == TN_MEMBER_LEFT)
        return r->linger_ms > 0 && w->now_ns - seen_ns >= r->linger_ms * TN_MS;
    return tn_member_silent(r, seen_ns, w->now_ns);
}

int64_t tn_view_silent_at(const struct tn_worker *w)
{
    uint32_t own = tn_worker_peer(w, w->cfg.id);
    int64_t first_ns = INT64_MAX;

    for (uint32_t at = 0; at < w->peer_count; at++) {
        int64_t at_ns = w->cfg.peers[at].seen_ns + w->cfg.records[at].ttl_ms * TN_MS;

        if (at != own && w->cfg.peers[at].present && at_ns > w->now_ns && at_ns < first_ns &&
            w->cfg.records[at].state == TN_MEMBER_ALIVE)
            first_ns = at_ns;
    }
    return first_ns;
}

static bool put_placeholder(struct tn_worker *w, const struct tn_work_event *ev,
                            struct tn_work_actions *out)
{
    uint64_t incarnation[2] = {ev->entropy[1] * UINT64_C(0x9e3779b97f4a7c15), ev->entropy[0]};
    struct tenure_token absent = {.version = ""};
    uint32_t at = tn_worker_peer(w, w->orphan.id);
    bool present = at < w->peer_count && w->cfg.peers[at].present;
    uint32_t ttl_ms = w->orphan_ttl_ms > w->cfg.ttl_ms ? w->orphan_ttl_ms : w->cfg.ttl_ms;

    if (!w->orphaned)
        return false;
    w->orphaned = false;
    out->member = tn_member_placeholder(present ? &w->cfg.records[at] : NULL, &w->orphan.identity,
                                        (const uint8_t *)incarnation, ttl_ms);
    if (out->member.identity.number == 0)
        return false;
    swap_member(w, ev, w->orphan.id, present ? &w->cfg.peers[at].token : &absent, out);
    return true;
}

bool tn_view_bury(struct tn_worker *w, const struct tn_work_event *ev, struct tn_work_actions *out)
{
    uint32_t own = tn_worker_peer(w, w->cfg.id);

    for (uint32_t at = 0; at < w->peer_count; at++) {
        if (at == own || !is_over(w, at))
            continue;
        out->member = w->cfg.records[at];
        out->member.state = TN_MEMBER_DEAD;
        swap_member(w, ev, w->cfg.peers[at].id, &w->cfg.peers[at].token, out);
        return true;
    }
    return put_placeholder(w, ev, out);
}
