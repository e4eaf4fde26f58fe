/* core/replica/chain.c - see chain.h. */
#include "core/replica/chain.h"

#include <assert.h>
#include <string.h>

bool tn_chain_valid(const struct tn_chain *chain)
{
    uint64_t epoch = 0, first = 0;

    if (chain->count > TN_CHAIN_MAX || (chain->count == 0) != (chain->n == 0))
        return false;
    for (uint32_t i = 0; i < chain->count; i++) {
        const struct tn_link *link = &chain->link[i];

        if (link->epoch <= epoch || link->epoch >= TN_EPOCH_MAX || link->first <= first)
            return false;
        epoch = link->epoch;
        first = link->first;
    }
    return first <= chain->n && chain->n <= TN_EPOCH_MAX;
}

uint64_t tn_chain_epoch(const struct tn_chain *chain)
{
    return chain->count > 0 ? chain->link[chain->count - 1].epoch : 0;
}

struct tn_position tn_chain_end(const struct tn_chain *chain)
{
    struct tn_position end = {.n = chain->n, .epoch = tn_chain_epoch(chain)};

    if (chain->count > 0)
        memcpy(end.grant, chain->link[chain->count - 1].grant, sizeof end.grant);
    return end;
}

/* The last change of this link. */
static uint64_t end_of(const struct tn_chain *chain, uint32_t i)
{
    return i + 1 < chain->count ? chain->link[i + 1].first - 1 : chain->n;
}

static bool is_by(const struct tn_link *link, uint64_t epoch, const uint8_t *grant)
{
    return link->epoch == epoch && memcmp(link->grant, grant, TENURE_NONCE_SIZE) == 0;
}

bool tn_chain_has(const struct tn_chain *chain, const struct tn_position *position)
{
    if (position->n == 0)
        return true;
    for (uint32_t i = 0; i < chain->count; i++)
        if (is_by(&chain->link[i], position->epoch, position->grant))
            return chain->link[i].first <= position->n && position->n <= end_of(chain, i);
    return false;
}

uint64_t tn_chain_common(const struct tn_chain *a, const struct tn_chain *b)
{
    for (uint32_t i = a->count; i-- > 0;)
        for (uint32_t j = b->count; j-- > 0;) {
            const struct tn_link *link = &a->link[i];
            uint64_t ends[] = {end_of(a, i), end_of(b, j)};

            if (is_by(&b->link[j], link->epoch, link->grant) && b->link[j].first == link->first)
                return ends[0] < ends[1] ? ends[0] : ends[1];
        }
    return 0;
}

struct tn_chain tn_chain_cut(const struct tn_chain *chain, uint64_t n)
{
    struct tn_chain cut = *chain;

    assert(n <= chain->n);
    cut.n = n;
    while (cut.count > 0 && cut.link[cut.count - 1].first > n)
        cut.count--;
    return cut;
}

void tn_chain_begin(struct tn_chain *chain, uint64_t epoch, const uint8_t grant[TENURE_NONCE_SIZE])
{
    struct tn_link link = {.epoch = epoch, .first = chain->n + 1};

    assert(epoch > tn_chain_epoch(chain));
    memcpy(link.grant, grant, sizeof link.grant);
    if (chain->count == TN_CHAIN_MAX) {
        chain->count--;
        memmove(&chain->link[0], &chain->link[1], chain->count * sizeof link);
    }
    chain->link[chain->count++] = link;
    chain->n++;
}
