/* The public look at a lease: what `tenure status` and the page show. */
#include "base/key.h"
#include "tenure/lease.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/hex.h"
#include "base/name.h"
#include "base/rfc3339.h"
#include "base/sized.h"
#include "base/text.h"
#include "lease/lease.h"
#include "lease/read.h"
#include "os/clock.h"
#include "store/lease_record.h"

const char *tenure_lease_state_word(enum tenure_lease_state state)
{
    static const char *const words[] = {"absent", "free", "held", "refused"};

    return (unsigned)state < sizeof words / sizeof words[0] ? words[state] : "?";
}

/* The key of its lease.  INVALID if there can be none. */
static enum tenure_status name_key(const char *name, char key[TENURE_KEY_MAX + 1],
                                   struct tenure_error *err)
{
    const char *fault = tn_name_fault(name);

    if (fault)
        return tenure_fail(err, TENURE_INVALID, "'%.60s' cannot be the name of an election: %s",
                           name ? name : "", fault);
    tn_key_of(name, TN_KEY_LEASE, key);
    return TENURE_OK;
}

/* The record says how the register was found; people are told what had happened, in the words of
 * the history. */
static const char *cause_word(const struct tn_lease *l)
{
    if (!tn_lease_held(l))
        return l->cause;
    if (strcmp(l->cause, "absent") == 0)
        return "first";
    return strcmp(l->cause, "free") == 0 ? "released" : l->cause;
}

static void show_record(struct tenure_lease_view *v, const struct tn_lease *l)
{
    snprintf(v->holder, sizeof v->holder, "%s", l->holder);
    snprintf(v->address, sizeof v->address, "%s", l->address);
    snprintf(v->build, sizeof v->build, "%s", l->build);
    snprintf(v->cause, sizeof v->cause, "%s", cause_word(l));
    v->epoch = l->epoch;
    v->ttl_ms = l->ttl_ms;
    v->priority = l->priority;
    v->transitions = l->transitions;
    tn_rfc3339_format(l->acquired_ms, v->acquired_at);
    tn_rfc3339_format(l->renewed_ms, v->renewed_at);
    tn_hex_encode(l->incarnation, TENURE_NONCE_SIZE, v->incarnation);
    tn_hex_encode(l->grant, TENURE_NONCE_SIZE, v->grant);
}

enum tenure_status tn_lease_view_fill(const struct tenure_value *value,
                                      struct tenure_lease_view *view, struct tenure_error *err)
{
    struct tenure_lease_view v = TENURE_LEASE_VIEW;
    struct tn_lease_seen seen = {0};
    enum tenure_status status = tn_lease_see(value, &seen, err);

    if (status)
        return status;
    v.token = seen.token;
    tn_hex_encode(seen.token.nonce, TENURE_NONCE_SIZE, v.nonce);
    tn_hex_encode(value->prev, TENURE_NONCE_SIZE, v.prev);
    if (seen.present)
        show_record(&v, &seen.lease);
    if (seen.corrupt)
        v.epoch = tn_lease_legible_epoch(value->data, value->len);
    if (seen.refused) {
        v.state = TENURE_LEASE_REFUSED;
        snprintf(v.trouble, sizeof v.trouble, "%.255s", seen.why.text);
        tn_text_repair(v.trouble, '?');
    } else if (seen.present && !seen.tombstone) {
        v.state = tn_lease_held(&seen.lease) ? TENURE_LEASE_HELD : TENURE_LEASE_FREE;
    }
    tn_sized_copy(view, &v, sizeof v);
    tn_lease_seen_free(&seen);
    return TENURE_OK;
}

static enum tenure_status decode(void *view, const struct tenure_value *value,
                                 struct tenure_error *err)
{
    return tn_lease_view_fill(value, view, err);
}

enum tenure_status tenure_lease_look(tenure_store *store, const char *name,
                                     struct tenure_lease_view *view, int64_t deadline,
                                     struct tenure_error *err)
{
    char key[TENURE_KEY_MAX + 1];
    enum tenure_status status = tn_sized_check(view->size, "TENURE_LEASE_VIEW", err);

    if (!status)
        status = name_key(name, key, err);
    if (!status)
        status = tn_read_register(store, key, decode, view, deadline, err);
    return status;
}

/* A view that was filled has its token; an older one than that never was. */
static enum tenure_status check_view(const struct tenure_lease_view *view, struct tenure_error *err)
{
    if (view->size < offsetof(struct tenure_lease_view, token) + sizeof view->token)
        return tenure_fail(err, TENURE_INVALID,
                           "the view is too short: initialise it with TENURE_LEASE_VIEW");
    return TENURE_OK;
}

enum tenure_status tenure_lease_wait(tenure_store *store, const char *name,
                                     const struct tenure_lease_view *view, int wake_fd,
                                     int64_t deadline, struct tenure_error *err)
{
    char key[TENURE_KEY_MAX + 1];
    struct tenure_watch watch = {.key = key};
    enum tenure_status status = check_view(view, err);

    if (status || (status = name_key(name, key, err)))
        return status;
    watch.seen = view->token;
    return tenure_store_wait(store, &watch, 1, wake_fd, deadline, err);
}

enum tenure_status tenure_lease_reset(tenure_store *store, const char *name,
                                      const struct tenure_lease_view *view, uint64_t at_least,
                                      uint64_t *epoch, int64_t deadline, struct tenure_error *err)
{
    struct tn_lease fresh = {.ttl_ms = TN_TTL_MIN_MS};
    char key[TENURE_KEY_MAX + 1];
    uint8_t nonce[TENURE_NONCE_SIZE];
    struct tenure_token token;
    enum tenure_status status;

    if ((status = check_view(view, err)) || (status = name_key(name, key, err)) ||
        (status = tenure_nonce(nonce, err)))
        return status;
    uint64_t known = view->epoch < TN_EPOCH_MAX ? view->epoch : 0;
    fresh.transitions = view->transitions;
    fresh.epoch = tn_epoch_next(known, tn_wall_ms(), at_least);
    if (fresh.epoch == 0 || fresh.epoch >= TN_EPOCH_MAX - 1)
        return tenure_fail(err, TENURE_INVALID, "no epoch is left above %llu",
                           (unsigned long long)at_least);
    fresh.renewed_ms = tn_wall_ms();
    snprintf(fresh.cause, sizeof fresh.cause, "reset");
    status = tn_lease_swap(store, name, &view->token, nonce, &fresh, NULL, &token, deadline, err);
    if (status == TENURE_OK && epoch)
        *epoch = fresh.epoch;
    return status;
}
