/* core/replica/copy.c - see copy.h. */
#include "core/replica/copy.h"

#include <string.h>

bool tn_hello_valid(const struct tn_hello *hello)
{
    return tn_chain_valid(&hello->chain) && hello->epoch >= tn_chain_epoch(&hello->chain) &&
           hello->floor <= hello->chain.n && hello->staging.taking <= TN_TAKE_SNAPSHOT &&
           hello->staging.to <= hello->staging.far.n;
}

bool tn_group_valid(const struct tn_group *group)
{
    return tn_chain_valid(&group->chain) && group->epoch >= tn_chain_epoch(&group->chain) &&
           group->from <= group->to && group->to <= group->chain.n &&
           group->floor <= group->chain.n && tn_chain_has(&group->chain, &group->committed) &&
           (!group->snapshot || group->from == 0);
}

/* Its chain goes on in an epoch above ours, and we are not on it: our end has to go (R10). */
static bool diverged(const struct tn_chain *own, const struct tn_chain *chain)
{
    return !tn_chain_within(own, chain) && tn_chain_epoch(chain) > tn_chain_epoch(own);
}

bool tn_copy_rewinds(const struct tn_copy_head *head, const struct tn_chain *chain, uint64_t *to)
{
    uint64_t common = tn_chain_common(&head->chain, chain);

    /* Below the own floor it does not know what it has deleted since: a snapshot (R8). */
    if (!diverged(&head->chain, chain) || common < head->floor)
        return false;
    *to = common;
    return true;
}

/* How high a floor may be so that no deletion is missing between what is staged and the rest.  A
   snapshot holds nothing that was deleted before it was begun. */
static uint64_t reach(const struct tn_staging *staging)
{
    bool above = staging->taking == TN_TAKE_SNAPSHOT && staging->begun > staging->to;

    return above ? staging->begun : staging->to;
}

/* A sender with this chain and floor can go on with what is staged.  One that is not as far as the
   farthest sender seen may lack a document that was left out because it had moved on (R7). */
static bool goes_on(const struct tn_staging *staging, const struct tn_chain *chain, uint64_t floor)
{
    return staging->taking != TN_TAKE_NOTHING && tn_chain_has(chain, &staging->far) &&
           floor <= reach(staging);
}

static bool is_at(const struct tn_chain *chain, const struct tn_position *position)
{
    struct tn_position end = tn_chain_end(chain);

    return position->n == end.n && position->epoch == end.epoch &&
           memcmp(position->grant, end.grant, sizeof end.grant) == 0;
}

/* How a first chunk is taken. */
static enum tn_taking begins(const struct tn_copy_head *head, const struct tn_group *group)
{
    bool within = tn_chain_within(&head->chain, &group->chain);
    uint64_t point;

    if (group->snapshot)
        return within || diverged(&head->chain, &group->chain) ? TN_TAKE_SNAPSHOT : TN_TAKE_NOTHING;
    if (group->floor > group->from)
        return TN_TAKE_NOTHING;
    if (within)
        return group->from <= head->chain.n ? TN_TAKE_PLAIN : TN_TAKE_NOTHING;
    if (group->rewinds && is_at(&head->chain, &group->rewinder) &&
        tn_copy_rewinds(head, &group->chain, &point) && group->from == point)
        return TN_TAKE_REWIND;
    return TN_TAKE_NOTHING;
}

static bool is_known(const struct tn_copy_head *head, const struct tn_group *group)
{
    bool within = tn_chain_within(&head->chain, &group->chain);

    if (within && group->chain.n <= head->chain.n)
        return true;
    if (goes_on(&head->staging, &group->chain, group->floor))
        return group->to <= head->staging.to;
    return within && group->to <= head->chain.n && !group->snapshot;
}

enum tn_judgement tn_copy_judge(const struct tn_copy_head *head, uint64_t epoch,
                                const struct tn_group *group, struct tn_copy_head *after,
                                struct tn_take *take)
{
    struct tn_staging *staging = &after->staging;

    if (group->epoch < epoch)
        return TN_GROUP_STALE;
    if (is_known(head, group))
        return TN_GROUP_KNOWN;
    *after = *head;
    after->epoch = group->epoch;
    take->fresh = group->from > staging->to || !goes_on(staging, &group->chain, group->floor);
    if (take->fresh)
        *staging = (struct tn_staging){.taking = begins(head, group), .begun = group->chain.n};
    take->taking = staging->taking;
    if (take->taking == TN_TAKE_NOTHING)
        return TN_GROUP_MISFIT;
    staging->to = group->to;
    staging->far = tn_chain_end(&group->chain);
    if (group->floor > staging->floor)
        staging->floor = group->floor;
    if (group->to < group->chain.n)
        return TN_GROUP_STAGE;
    if (take->taking == TN_TAKE_SNAPSHOT || staging->floor > after->floor)
        after->floor = staging->floor;
    *staging = (struct tn_staging){.taking = TN_TAKE_NOTHING};
    after->chain = group->chain;
    after->committed = group->committed;
    return TN_GROUP_APPLY;
}

struct tn_answer tn_copy_answer(const struct tn_copy_head *head, const struct tn_hello *hello)
{
    const struct tn_chain *chain = &head->chain;
    uint64_t common = tn_chain_common(&hello->chain, chain);
    bool within = common == hello->chain.n;
    struct tn_answer answer = {.send = false};

    if ((!within && !diverged(&hello->chain, chain)) || (within && common == chain->n))
        return answer;
    if (goes_on(&hello->staging, chain, head->floor)) {
        answer.send = true;
        answer.from = hello->staging.to;
    } else if (common < head->floor || (!within && common < hello->floor)) {
        answer.send = answer.snapshot = true;
    } else {
        answer.from = common;
        answer.rewinds = !within;
        answer.send = within || (hello->rewinds && hello->wants_from == common);
    }
    return answer;
}
