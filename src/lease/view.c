/* The public look at a lease: what `tenure status` and the page show. */
#include "base/key.h"
#include "tenure/lease.h"

#include <stdio.h>
#include <string.h>

#include "base/hex.h"
#include "base/name.h"
#include "base/rfc3339.h"
#include "base/text.h"
#include "lease/lease.h"
#include "os/clock.h"
#include "store/lease_record.h"

const char *tenure_lease_state_word(enum tenure_lease_state state)
{
    static const char *const words[] = {"absent", "free", "held", "refused"};

    return (unsigned)state < sizeof words / sizeof words[0] ? words[state] : "?";
}

static enum tenure_status check_name(const char *name, struct tenure_error *err)
{
    const char *fault = tn_name_fault(name);

    return fault ? tenure_fail(err, TENURE_INVALID, "'%.60s' cannot be the name of an election: %s",
                               name ? name : "", fault)
                 : TENURE_OK;
}

static void show_record(struct tenure_lease_view *v, const struct tn_lease *l)
{
    snprintf(v->holder, sizeof v->holder, "%s", l->holder);
    snprintf(v->address, sizeof v->address, "%s", l->address);
    snprintf(v->build, sizeof v->build, "%s", l->build);
    snprintf(v->cause, sizeof v->cause, "%s", l->cause);
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
    struct tenure_lease_view v = {.size = view->size};
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
    memcpy(view, &v, v.size < sizeof v ? v.size : sizeof v);
    tn_lease_seen_free(&seen);
    return TENURE_OK;
}

enum tenure_status tenure_lease_look(tenure_store *store, const char *name,
                                     struct tenure_lease_view *view, int64_t deadline,
                                     struct tenure_error *err)
{
    struct tenure_value buffer = {0};
    char key[TENURE_KEY_MAX + 1];
    enum tenure_status status = check_name(name, err);

    if (status)
        return status;
    tn_key_of(name, TN_KEY_LEASE, key);
    status = tenure_store_read(store, key, &buffer, deadline, err);
    if (!status)
        status = tn_lease_view_fill(&buffer, view, err);
    tenure_value_free(&buffer);
    return status;
}

enum tenure_status tenure_lease_wait(tenure_store *store, const char *name,
                                     const struct tenure_lease_view *view, int wake_fd,
                                     int64_t deadline, struct tenure_error *err)
{
    char key[TENURE_KEY_MAX + 1];
    struct tenure_watch watch = {.key = key, .seen = view->token};
    enum tenure_status status = check_name(name, err);

    if (status)
        return status;
    tn_key_of(name, TN_KEY_LEASE, key);
    return tenure_store_wait(store, &watch, 1, wake_fd, deadline, err);
}

enum tenure_status tenure_lease_reset(tenure_store *store, const char *name,
                                      const struct tenure_lease_view *view, uint64_t at_least,
                                      uint64_t *epoch, int64_t deadline, struct tenure_error *err)
{
    struct tn_lease fresh = {.ttl_ms = TN_TTL_MIN_MS, .transitions = view->transitions};
    uint64_t known = view->epoch < TN_EPOCH_MAX ? view->epoch : 0;
    uint8_t nonce[TENURE_NONCE_SIZE];
    struct tenure_token token;
    enum tenure_status status;

    if ((status = check_name(name, err)) || (status = tenure_nonce(nonce, err)))
        return status;
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
