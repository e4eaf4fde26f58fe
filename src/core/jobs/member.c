/* core/jobs/member.c - joins, burials, placeholders, and who counts. */
#include "core/jobs/member.h"

#include <assert.h>
#include <string.h>

#include "core/timing.h"

bool tn_identity_equal(const struct tn_identity *a, const struct tn_identity *b)
{
    return a->number == b->number &&
           memcmp(a->incarnation, b->incarnation, sizeof a->incarnation) == 0;
}

uint64_t tn_member_number(uint64_t seen, uint64_t tried, uint64_t wall_ms)
{
    return tn_epoch_next(seen > tried ? seen : tried, wall_ms, 0);
}

/* ---- Join ---------------------------------------------------------------- */

enum tn_join tn_member_may_join(const struct tn_member *record, const struct tn_identity *own,
                                bool reaped, bool silent)
{
    if (!reaped)
        return TN_JOIN_WAIT;
    if (record == NULL)
        return TN_JOIN_NOW;
    if (record->mark == TN_MARK_EVICTED)
        return TN_JOIN_EVICTED;
    if (record->state != TN_MEMBER_ALIVE || silent)
        return TN_JOIN_NOW;
    /* Ours, with everything reaped: nothing runs under it, so a healed partition costs no W. */
    if (record->mark == TN_MARK_NONE && own != NULL && tn_identity_equal(own, &record->identity))
        return TN_JOIN_NOW;
    return TN_JOIN_WAIT;
}

bool tn_member_silent(const struct tn_member *record, int64_t seen_ns, int64_t now_ns)
{
    assert(seen_ns <= now_ns);
    /* A ttl that cannot be is hostile or a mistake: nothing is ever concluded from it. */
    return record->state == TN_MEMBER_ALIVE && record->ttl_ms >= TN_TTL_MIN_MS &&
           record->ttl_ms <= TN_TTL_MAX_MS && now_ns - seen_ns >= record->ttl_ms * TN_MS;
}

/* ---- Owners -------------------------------------------------------------- */

enum tn_owner_fate tn_owner_fate(const struct tn_identity *owner, const struct tn_member *record)
{
    bool marked;

    if (record == NULL)
        return TN_OWNER_MISSING;
    marked = record->state == TN_MEMBER_ALIVE && record->mark != TN_MARK_NONE;
    if (record->identity.number > owner->number)
        return marked ? TN_OWNER_ALIVE : TN_OWNER_GONE;
    if (!tn_identity_equal(owner, &record->identity))
        return TN_OWNER_MISSING;
    return record->state == TN_MEMBER_ALIVE ? TN_OWNER_ALIVE : TN_OWNER_GONE;
}

struct tn_member tn_member_placeholder(const struct tn_member *record,
                                       const struct tn_identity *owner,
                                       const uint8_t incarnation[TENURE_NONCE_SIZE],
                                       uint32_t ttl_ms)
{
    struct tn_member made = {
        .state = TN_MEMBER_ALIVE, .mark = TN_MARK_PLACEHOLDER, .ttl_ms = ttl_ms};
    uint64_t seen = owner->number;

    /* The holder of the lost record may have had a longer ttl than ours. */
    if (record != NULL) {
        seen = record->identity.number > seen ? record->identity.number : seen;
        made.ttl_ms = record->ttl_ms > ttl_ms ? record->ttl_ms : ttl_ms;
        made.flaps = record->flaps;
    }
    made.identity.number = tn_member_number(seen, 0, 0);
    memcpy(made.identity.incarnation, incarnation, sizeof made.identity.incarnation);
    return made;
}

/* ---- Damping ------------------------------------------------------------- */

bool tn_member_settled(const struct tn_member *member)
{
    uint32_t need = member->flaps < 6 ? 1u << member->flaps : TN_SETTLED_MAX;

    return member->renewals >= need;
}

uint32_t tn_member_flaps_joined(const struct tn_member *before)
{
    if (before == NULL)
        return 0;
    return before->flaps < 31 ? before->flaps + 1 : before->flaps;
}

uint32_t tn_member_flaps_renewed(uint32_t flaps, uint32_t renewals)
{
    return renewals % TN_FLAPS_HALVED == 0 ? flaps / 2 : flaps;
}

static bool is_present(const struct tn_member *m)
{
    return m->state == TN_MEMBER_ALIVE && m->mark == TN_MARK_NONE && !m->draining;
}

/* Those who count, standbys apart; then standbys for as long as there is room for them. */
static unsigned count_settled(const struct tn_member *members, unsigned n, unsigned active,
                              bool unsettled, bool *counts)
{
    unsigned all = 0;

    for (unsigned i = 0; i < n; i++) {
        counts[i] = is_present(&members[i]) && !members[i].standby &&
                    (unsettled || tn_member_settled(&members[i]));
        all += counts[i];
    }
    for (unsigned i = 0; i < n && all < active; i++) {
        if (!is_present(&members[i]) || !members[i].standby ||
            (!unsettled && !tn_member_settled(&members[i])))
            continue;
        counts[i] = true;
        all++;
    }
    return all;
}

unsigned tn_members_count(const struct tn_member *members, unsigned n, unsigned active,
                          bool *counts)
{
    unsigned wanted = active > 0 ? active : 1;
    unsigned all = count_settled(members, n, wanted, false, counts);

    return all > 0 ? all : count_settled(members, n, wanted, true, counts);
}
