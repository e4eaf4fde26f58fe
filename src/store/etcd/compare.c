/* Is what the caller last saw still there?  One linearizable transaction of reads. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/etcd/news.h"

/* A register: is it still at that revision, with that nonce? */
static json_t *ask_register(struct tn_etcd *h, const char *key)
{
    return json_pack("[{s:{s:o, s:b}}, {s:{s:o}}]", "request_range", "key", tn_etcd_key(h, key, ""),
                     "keys_only", true, "request_range", "key", tn_etcd_key(h, key, "#nonce"));
}

/* A prefix: has anything a later revision than the listing? */
static json_t *ask_prefix(struct tn_etcd *h, const char *prefix, const char *mark)
{
    char next[24];

    snprintf(next, sizeof next, "%llu", strtoull(mark, NULL, 10) + 1);
    return json_pack("[{s:{s:o, s:o, s:s, s:s, s:b}}]", "request_range", "key",
                     tn_etcd_key(h, prefix, ""), "range_end", tn_etcd_key(h, prefix, "\x7f"),
                     "min_mod_revision", next, "limit", "1", "keys_only", true);
}

static const json_t *pairs_of(const json_t *answer, size_t number)
{
    const json_t *one = json_array_get(json_object_get(answer, "responses"), number);

    return json_object_get(json_object_get(one, "response_range"), "kvs");
}

static bool same_register(const json_t *answer, size_t number, const struct tenure_watch *watch)
{
    const json_t *data = json_array_get(pairs_of(answer, number), 0);
    const json_t *mate = json_array_get(pairs_of(answer, number + 1), 0);
    const char *revision = tn_etcd_number(data, "mod_revision");
    bool same;

    if (!revision || tenure_token_absent(&watch->seen))
        return !data && tenure_token_absent(&watch->seen);
    json_t *nonce = tn_etcd_nonce(watch->seen.nonce);
    same = strcmp(revision, watch->seen.version) == 0 &&
           json_equal(nonce, json_object_get(mate, "value"));
    json_decref(nonce);
    return same;
}

/* The history that the mark belongs to has not been left: no restore, no other cluster. */
static bool same_history(const json_t *answer, const char *mark)
{
    char now[TENURE_VERSION_MAX + 1];
    unsigned long long revision[2], term[2], cluster[2];

    return tn_etcd_mark(answer, now) &&
           sscanf(mark, "%19llu.%19llu.%20llu", &revision[0], &term[0], &cluster[0]) == 3 &&
           sscanf(now, "%19llu.%19llu.%20llu", &revision[1], &term[1], &cluster[1]) == 3 &&
           revision[1] >= revision[0] && term[1] >= term[0] && cluster[1] == cluster[0];
}

static json_t *compose_question(struct tn_etcd *h, const struct tenure_watch *const *watches,
                                size_t n)
{
    json_t *all = json_array();

    for (size_t i = 0; all && i < n; i++) {
        json_t *one = watches[i]->prefix ? ask_prefix(h, watches[i]->key, watches[i]->mark)
                                         : ask_register(h, watches[i]->key);
        if (!one || json_array_extend(all, one)) {
            json_decref(all);
            all = NULL;
        }
        json_decref(one);
    }
    return json_pack("{s:o}", "success", all);
}

static bool differs(const struct tenure_watch *const *watches, size_t n, const json_t *answer)
{
    size_t number = 0;

    for (size_t i = 0; i < n; i++) {
        if (watches[i]->prefix) {
            if (!same_history(answer, watches[i]->mark) ||
                json_array_size(pairs_of(answer, number)))
                return true;
            number++;
        } else {
            if (!same_register(answer, number, watches[i]))
                return true;
            number += 2;
        }
    }
    return false;
}

enum tenure_status tn_etcd_compare(struct tn_watcher *w, const struct tenure_watch *const *watches,
                                   size_t n, int64_t by, bool *changed, struct tenure_error *err)
{
    struct tn_etcd *h = w->impl;
    json_t *request = compose_question(h, watches, n), *answer = NULL;
    enum tenure_status status =
        tn_etcd_call(h, "/v3/kv/txn", request, false, by, &answer, NULL, err);

    json_decref(request);
    if (!status)
        *changed = differs(watches, n, answer);
    json_decref(answer);
    return status;
}
