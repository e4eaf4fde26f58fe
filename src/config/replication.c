/*
 * The `replication` section of programs that copy their state to a standby.
 * tenure keeps it in a store instead, where a commit is fenced by the leader's
 * epoch: nothing lags behind, and nothing has to be merged.  So what is about
 * times, ranks and collections is taken over, and the rest is answered with
 * what to write in its place.
 */
#include <string.h>

#include "config/draft.h"

struct replication {
    bool enabled, ignored;
    int mode, role;
    int64_t ttl_ms, renew_ms;
    const struct tn_yaml *target, *collections, *conflict, *push, *pull;
};

static const char *const modes[] = {"active_passive", "active_active", NULL};
static const char *const roles[] = {"auto", "primary", "standby", NULL};

/* clang-format off */
#define R struct replication
static const struct tn_key keys[] = {
    {"enabled", NULL, TN_KEY_BOOL, offsetof(R, enabled)},
    {"mode", NULL, TN_KEY_WORD, offsetof(R, mode), .words = modes},
    {"role", NULL, TN_KEY_WORD, offsetof(R, role), .words = roles},
    {"target", "hub peer", TN_KEY_TREE, offsetof(R, target)},
    {"continuous", NULL, TN_KEY_YES, offsetof(R, ignored),
     .note = "a commit is in the store when it is acknowledged"},
    {"heartbeat_interval", NULL, TN_KEY_MS, offsetof(R, renew_ms)},
    {"failover_timeout", NULL, TN_KEY_MS, offsetof(R, ttl_ms)},
    {"collections", NULL, TN_KEY_TREE, offsetof(R, collections)},
    {"conflict_resolution", NULL, TN_KEY_TREE, offsetof(R, conflict)},
    {"push_filter", NULL, TN_KEY_TREE, offsetof(R, push)},
    {"pull_filter", NULL, TN_KEY_TREE, offsetof(R, pull)},
    {0},
};
/* clang-format on */

static bool is_null(const struct tn_yaml *node)
{
    return node->kind == TN_YAML_VALUE && !node->quoted &&
           (!node->text[0] || strcmp(node->text, "~") == 0 || tn_key_same(node->text, "null"));
}

static void no_filter(struct tn_reader *r, const struct tn_yaml *node)
{
    if (node && !is_null(node))
        tn_complain(
            r, node->key_line,
            "replication.%s: nothing is copied, so that nothing can be filtered: remove the "
            "line, and list in 'collections' what a leader loads",
            node->key);
}

/* What has no counterpart. */
static void refuse(struct tn_reader *r, const struct replication *own, unsigned mode_line)
{
    if (own->mode == 1)
        tn_complain(
            r, mode_line,
            "replication.mode: active_active is not one leader: give each share of the work "
            "an election of its own, in 'elections'");
    if (own->target && !is_null(own->target))
        tn_complain(
            r, own->target->key_line,
            "replication.%s: the state is not copied to a standby, it is kept in a store that "
            "both can reach: remove it, and name that store in coordinate.store",
            own->target->key);
    if (own->conflict && !is_null(own->conflict) &&
        !(own->conflict->kind == TN_YAML_VALUE && tn_key_same(own->conflict->text, "primary_wins")))
        tn_complain(
            r, own->conflict->key_line,
            "replication.conflict_resolution: only the leader's commits count, and the store "
            "refuses a former leader's: remove the line, or write primary_wins");
    no_filter(r, own->push);
    no_filter(r, own->pull);
}

void tn_draft_replication(struct tn_reader *r, struct tn_draft *d, const struct tn_yaml *map)
{
    struct replication own = {.enabled = true};
    struct tn_seen seen = {0};

    tn_keys_take(r, map, "replication", keys, &seen, &own);
    if (!own.enabled)
        return;
    refuse(r, &own, tn_keys_line(keys, &seen, offsetof(R, mode), map->key_line));
    if (own.ttl_ms)
        d->coordinate.ttl_ms = own.ttl_ms;
    if (own.renew_ms)
        d->coordinate.renew_ms = own.renew_ms;
    d->ttl_line = tn_keys_line(keys, &seen, offsetof(R, ttl_ms), d->ttl_line);
    d->renew_line = tn_keys_line(keys, &seen, offsetof(R, renew_ms), d->renew_line);
    /* Who is there leads, whatever it is called; the primary goes first when nobody does. */
    if (own.role == 1)
        d->coordinate.priority = 1;
    if (own.collections) {
        d->state.seal = own.collections;
        d->state.place.url = (struct tn_text){"same", "same"};
        d->state_line = own.collections->key_line;
    }
}
#undef R
