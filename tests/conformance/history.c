#include "history.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One value that the register may have held: the initial one, or a swap's. */
struct node {
    const struct cf_op *op; /* NULL: the initial value */
    uint8_t nonce[TENURE_NONCE_SIZE];
    bool applied;
    struct node *next;    /* the value that replaced it */
    bool may_have_next;   /* a swap of unknown outcome expected it */
    int64_t last_start;   /* latest start of an operation that saw or wrote it */
    int64_t first_end;    /* earliest end of such an operation */
    struct node *chained; /* hash */
};

struct graph {
    struct node *nodes;
    size_t n;
    struct node **table;
    size_t mask;
    char *why;
    size_t why_size;
};

static bool broken(struct graph *g, const char *format, ...) TENURE_PRINTF(2, 3);

static bool broken(struct graph *g, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(g->why, g->why_size, format, args);
    va_end(args);
    return false;
}

static size_t slot(const struct graph *g, const uint8_t *nonce)
{
    uint64_t h;

    memcpy(&h, nonce, sizeof h); /* nonces are random already */
    return (size_t)(h ^ h >> 29) & g->mask;
}

static struct node *find(const struct graph *g, const uint8_t *nonce)
{
    struct node *node = g->table[slot(g, nonce)];

    while (node && memcmp(node->nonce, nonce, TENURE_NONCE_SIZE) != 0)
        node = node->chained;
    return node;
}

static void add(struct graph *g, const struct cf_op *op, const uint8_t *nonce)
{
    struct node *node = &g->nodes[g->n++];
    size_t at = slot(g, nonce);

    *node = (struct node){.op = op, .last_start = INT64_MIN, .first_end = INT64_MAX};
    memcpy(node->nonce, nonce, TENURE_NONCE_SIZE);
    node->chained = g->table[at];
    g->table[at] = node;
}

static bool graph_init(struct graph *g, const struct cf_op *ops, size_t n, const uint8_t *initial)
{
    g->mask = 63;
    while (g->mask < 2 * n)
        g->mask = g->mask * 2 + 1;
    g->nodes = calloc(n + 1, sizeof *g->nodes);
    g->table = calloc(g->mask + 1, sizeof(struct node *));
    if (!g->nodes || !g->table)
        return broken(g, "the checker is out of memory");
    add(g, NULL, initial);
    g->nodes[0].applied = true;
    for (size_t i = 0; i < n; i++) {
        if (ops[i].kind == CF_OP_SWAP)
            add(g, &ops[i], ops[i].nonce);
    }
    return true;
}

static bool possible(const struct node *node)
{
    return !node->op || node->op->status == TENURE_OK || node->op->status == TENURE_UNKNOWN;
}

/* A value was seen, so it and all that led to it took effect (C3). */
static bool apply(struct graph *g, struct node *node)
{
    while (!node->applied) {
        if (!possible(node))
            return broken(g, "a swap that was answered '%s' took effect all the same (C3)",
                          tenure_status_word(node->op->status));
        node->applied = true;
        node = find(g, node->op->before);
        if (!node)
            return broken(g, "a swap took effect on a token that no swap wrote (C2)");
    }
    return true;
}

static bool apply_all(struct graph *g, const struct cf_op *ops, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const struct cf_op *op = &ops[i];

        if (op->status != TENURE_OK)
            continue;
        struct node *node = find(g, op->nonce);
        if (!node)
            return broken(g, "a read returned a value that nobody wrote (C1)");
        if (!apply(g, node))
            return false;
        if (op->kind == CF_OP_SWAP || !node->op)
            continue;
        if (memcmp(op->before, node->op->before, TENURE_NONCE_SIZE) != 0)
            return broken(g, "a read shows another predecessor than the swap replaced");
        if (node->op->status == TENURE_OK && strcmp(op->version, node->op->version) != 0)
            return broken(g, "a read shows version '%s' for what a swap wrote as version '%s'",
                          op->version, node->op->version);
    }
    return true;
}

/* Each value has at most one successor, and all that took effect is in one chain. */
static bool link_all(struct graph *g)
{
    size_t applied = 0, reached = 0;

    for (size_t i = 0; i < g->n; i++) {
        struct node *node = &g->nodes[i];
        struct node *before = node->op ? find(g, node->op->before) : NULL;

        if (!node->applied) {
            if (before && possible(node))
                before->may_have_next = true;
            continue;
        }
        applied++;
        if (!node->op)
            continue;
        if (before->next)
            return broken(g, "two swaps took effect on one token (C2)");
        before->next = node;
    }
    for (const struct node *node = g->nodes; node; node = node->next) {
        if (++reached > applied)
            return broken(g, "the swaps run in a circle");
    }
    if (reached != applied)
        return broken(g, "%zu of %zu swaps that took effect are not in the chain",
                      applied - reached, applied);
    return true;
}

static void widen(struct node *node, const struct cf_op *op)
{
    if (op->start > node->last_start)
        node->last_start = op->start;
    /* An unknown outcome may take effect long after its answer: it has no end. */
    if (op->status == TENURE_OK && op->end < node->first_end)
        node->first_end = op->end;
}

/*
 * The order of the values is known.  Real time agrees with it iff no operation
 * on a later value ended before an operation on an earlier value began, and no
 * read of a value ended before its swap began.
 */
static bool times_agree(struct graph *g, const struct cf_op *ops, size_t n)
{
    int64_t latest = INT64_MIN;

    for (size_t i = 0; i < n; i++) {
        struct node *node = find(g, ops[i].nonce);

        if (!node || !node->applied || (ops[i].kind == CF_OP_READ && ops[i].status != TENURE_OK))
            continue;
        if (ops[i].kind == CF_OP_READ && node->op && ops[i].end < node->op->start)
            return broken(g, "a read returned a value before its swap was sent (C1)");
        widen(node, &ops[i]);
    }
    for (const struct node *node = g->nodes; node; node = node->next) {
        if (node->first_end < latest)
            return broken(g,
                          "stale: an operation that began %lld us after a later value had been "
                          "seen or written still worked on the earlier one (C1)",
                          (long long)((latest - node->first_end) / 1000));
        if (node->last_start > latest)
            latest = node->last_start;
    }
    return true;
}

/* A conflict needs a cause: some swap had replaced what was expected, or might have. */
static bool conflicts_have_causes(struct graph *g, const struct cf_op *ops, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (ops[i].kind != CF_OP_SWAP || ops[i].status != TENURE_CONFLICT)
            continue;
        const struct node *expected = find(g, ops[i].before);
        if (!expected || !expected->applied)
            continue;
        if (!expected->next && !expected->may_have_next)
            return broken(g, "a swap was told 'conflict' on the current token");
        if (expected->next && expected->next->op->start > ops[i].end && !expected->may_have_next)
            return broken(g, "a swap was told 'conflict' before its token was replaced");
    }
    return true;
}

static void count(struct cf_history *seen, const struct graph *g, const struct cf_op *ops, size_t n)
{
    *seen = (struct cf_history){0};
    for (size_t i = 0; i < n; i++) {
        seen->reads += ops[i].kind == CF_OP_READ && ops[i].status == TENURE_OK;
        seen->swaps += ops[i].kind == CF_OP_SWAP;
        seen->conflicts += ops[i].kind == CF_OP_SWAP && ops[i].status == TENURE_CONFLICT;
        seen->unknown += ops[i].kind == CF_OP_SWAP && ops[i].status == TENURE_UNKNOWN;
    }
    for (size_t i = 1; i < g->n; i++)
        seen->applied += g->nodes[i].applied;
}

bool cf_history_check(const struct cf_op *ops, size_t n, const uint8_t initial[TENURE_NONCE_SIZE],
                      struct cf_history *seen, char *why, size_t why_size)
{
    struct graph g = {.why = why, .why_size = why_size};
    bool ok = graph_init(&g, ops, n, initial) && apply_all(&g, ops, n) && link_all(&g) &&
              times_agree(&g, ops, n) && conflicts_have_causes(&g, ops, n);

    if (ok && seen)
        count(seen, &g, ops, n);
    free(g.nodes);
    free(g.table);
    return ok;
}
