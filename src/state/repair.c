/*
 * An operator's repair of what is not a document any more.  Its bytes are kept
 * first, as documents of their own; only then is it replaced, by a swap on the
 * very bytes that were kept, so nothing is ever dropped.
 *
 * The fence of a damaged document is lost with it.  The root's takes its place:
 * whoever leads has sealed the root, so nothing older gets in by a repair (I3),
 * and the leader itself is not fenced by it.  Somebody later may seal the root
 * before it lands; so it is marked as edited, and whoever meets it looks at the
 * root first (tn_root_confirm).
 *
 * A damaged root gets the highest fence there is in the state.  Either is raised
 * by what the damaged bytes still say, and by what the caller knows of the lease:
 * a fence that is too high costs an epoch, one that is too low lets a stale
 * leader in.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/key.h"
#include "base/sum.h"
#include "base/url.h"
#include "os/clock.h"
#include "state/calls.h"

#define LIKELY_MAX (TN_EPOCH_MAX - (UINT64_C(1) << 40))
#define AHEAD_MS   (UINT64_C(24) * 3600 * 1000) /* a clock that is wrong by more is nobody's */

/* What is being repaired. */
struct repair {
    tenure_state *s;
    tenure_state
        *repairer; /* s, or a handle on the store that is told as damage what s is refused */
    const char *collection, *id; /* id "": the root */
    char root[TENURE_KEY_MAX + 1], key[TENURE_KEY_MAX + 1];
    struct tenure_value value; /* the damaged bytes */
    struct tn_fence fence;     /* under which it is replaced */
    int64_t deadline;
};

/* ---- The fence ----------------------------------------------------------- */

static void raise_fence(struct tn_fence *fence, const struct tn_fence *other)
{
    if (other->epoch > fence->epoch && other->epoch <= TN_EPOCH_MAX)
        *fence = *other;
}

static enum tenure_status read_root_fence(struct repair *r, struct tenure_error *err)
{
    struct tenure_value value = {0};
    struct tn_document doc = {0};
    enum tenure_status status = tenure_store_read(r->s->store, r->root, &value, r->deadline, err);

    if (!status && !tenure_token_absent(&value.token))
        status = tn_root_decode(&value, &doc, err);
    if (status == TENURE_CORRUPT)
        tenure_fail_context(err, "the root of the collection must be repaired first");
    if (!status)
        raise_fence(&r->fence, &doc.fence);
    tenure_value_free(&value);
    return status;
}

static bool visit_fence(void *arg, const char *key, const struct tenure_value *value)
{
    struct tn_document doc;

    (void)key;
    if (tn_document_decode(value, &doc, NULL) == TENURE_OK)
        raise_fence(arg, &doc.fence);
    return true;
}

/* What is damaged may say anything: not that nobody can ever lead again. */
static bool visit_likely_fence(void *arg, const char *key, const struct tenure_value *value)
{
    struct tn_document doc;

    (void)key;
    if (tn_document_decode(value, &doc, NULL) == TENURE_OK && doc.fence.epoch < LIKELY_MAX)
        raise_fence(arg, &doc.fence);
    return true;
}

/*
 * The highest of all that is under a prefix and is not damaged.  If that cannot be
 * listed at all, because the store finds the whole of it damaged: of what is left.
 */
static enum tenure_status raise_to_listed(struct repair *r, const char *above,
                                          struct tenure_error *err)
{
    char prefix[TENURE_KEY_MAX + 2];
    enum tenure_status status;

    snprintf(prefix, sizeof prefix, "%s/", above);
    status = tenure_store_list(r->s->store, prefix, NULL, visit_fence, &r->fence, NULL, r->deadline,
                               err);
    if (status == TENURE_CORRUPT && r->repairer != r->s)
        status = tenure_store_list(r->repairer->store, prefix, NULL, visit_likely_fence, &r->fence,
                                   NULL, r->deadline, err);
    return status;
}

/*
 * What the damaged bytes say of their own, if they still say anything.  Not an
 * epoch that no clock can have given out yet: an absurd one would keep everybody
 * out for good.
 */
static void apply_claimed_fence(struct repair *r)
{
    static const char magic[] = "tenure-doc 1 ";
    size_t most = r->value.len < 4096 ? r->value.len : 4096; /* a store's own line may be first */
    unsigned char *at = most ? memmem(r->value.data, most, magic, sizeof magic - 1) : NULL;
    struct tenure_value rest = {.data = at};
    struct tn_document doc;

    if (at)
        rest.len = r->value.len - (size_t)(at - r->value.data);
    if (at && tn_document_decode(&rest, &doc, NULL) == TENURE_OK &&
        doc.fence.epoch <= tn_wall_ms() + AHEAD_MS)
        raise_fence(&r->fence, &doc.fence);
}

static enum tenure_status find_fence(struct repair *r, const struct tenure_grant *least,
                                     struct tenure_error *err)
{
    char all[TENURE_KEY_MAX + 1];
    struct tn_fence lease = {0};
    enum tenure_status status = TENURE_OK;

    r->fence = (struct tn_fence){.epoch = 1}; /* nobody has ever led here */
    if (*r->id)
        status = read_root_fence(r, err);
    if (!status)
        status = raise_to_listed(r, r->root, err);
    if (!status && !*r->id) { /* a leader seals the roots of all collections */
        snprintf(all, sizeof all, "%s/state", r->s->name);
        status = raise_to_listed(r, all, err);
        if (status == TENURE_CORRUPT) /* another collection, which tells nothing of this one */
            status = TENURE_OK;
    }
    if (status)
        return status;
    apply_claimed_fence(r);
    if (least) {
        lease.epoch = least->epoch;
        memcpy(lease.grant, least->id, TENURE_NONCE_SIZE);
        raise_fence(&r->fence, &lease);
    }
    return TENURE_OK;
}

/* ---- Keeping ------------------------------------------------------------- */

/* Some of the bytes as a document of their own; OK also if they are kept already. */
static enum tenure_status store_part(struct repair *r, const char *place, const char *name,
                                     const unsigned char *bytes, size_t len,
                                     struct tenure_error *err)
{
    struct tenure_document kept = {0};
    enum tenure_status status = tn_state_load(r->repairer, place, name, &kept, r->deadline, err);

    if (!status && kept.exists && kept.value.len == len &&
        (!len || memcmp(kept.value.data, bytes, len) == 0))
        goto done;
    if (!status && kept.exists)
        status = tenure_fail(err, TENURE_CONFLICT, "%s/%s holds something else; move it away",
                             place, name);
    if (!status)
        status = tn_state_edit(r->repairer, place, name, &kept, len ? (const void *)bytes : "", len,
                               r->deadline, err);
    if (status)
        tenure_fail_context(err, "could not be kept as %s/%s, and was left alone", place, name);
done:
    tenure_document_free(&kept);
    return status;
}

/* "ID@VERSION"; an id that is too long for that is told by its sum. */
static void name_kept(const struct repair *r, const char *place, char name[2 * TENURE_KEY_MAX])
{
    char key[TENURE_KEY_MAX + 1];

    snprintf(name, 2 * TENURE_KEY_MAX, "%s@%s+99", r->id, r->value.token.version);
    if (tn_key_document(r->s->name, place, name, key, NULL) == TENURE_OK)
        snprintf(name, 2 * TENURE_KEY_MAX, "%s@%s", r->id, r->value.token.version);
    else
        snprintf(name, 2 * TENURE_KEY_MAX, "sum-%016llx@%s",
                 (unsigned long long)tn_sum(TN_SUM_START, r->id, strlen(r->id)),
                 r->value.token.version);
}

/* All of them: the line in front makes what was as large as could be too large for one. */
static enum tenure_status store_damaged(struct repair *r, char kept[TENURE_KEEP_MAX + 1],
                                        struct tenure_error *err)
{
    char place[TENURE_KEY_MAX + 16], name[2 * TENURE_KEY_MAX], part[2 * TENURE_KEY_MAX + 16];
    size_t most = r->s->info.data_max - TN_DOCUMENT_HEADER_MAX, at = 0;
    enum tenure_status status = TENURE_OK;
    unsigned number = 1;

    snprintf(place, sizeof place, "%s.damaged", r->collection);
    name_kept(r, place, name);
    snprintf(part, sizeof part, "%s", name);
    do {
        size_t len = r->value.len - at < most ? r->value.len - at : most;

        status = store_part(r, place, part, r->value.data + at, len, err);
        at += len;
        snprintf(part, sizeof part, "%s+%u", name, ++number);
    } while (!status && at < r->value.len);
    if (!status)
        snprintf(kept, TENURE_KEEP_MAX + 1, "%s/%s", place, name);
    return status;
}

/* ---- Looking ------------------------------------------------------------- */

/*
 * The store itself says that its data is damaged.  Stores that know the rest of
 * the register, though, can be opened to read and replace it as it is.
 */
static enum tenure_status read_below(struct repair *r, struct tenure_error *err)
{
    tenure_state *s = r->s, *repairer = NULL;
    char *url = tn_url_repairing(s->url);
    struct tenure_error told = *err;
    enum tenure_status status;

    if (!url)
        return tenure_fail(err, TENURE_NOMEM, "out of memory");
    status = tenure_state_open(url, s->name, NULL, r->deadline, &repairer, err);
    tn_url_wipe(url);
    if (!status) {
        r->repairer = repairer;
        status = tenure_store_read(repairer->store, r->key, &r->value, r->deadline, err);
    }
    if (status == TENURE_CONFIG) { /* not this store: what it said first says more */
        status = TENURE_CORRUPT;
        *err = told;
    }
    return status;
}

/* Is it still damaged, after the repairer has read it?  Somebody may just have repaired it, and
 * what the repairer has is sound: a leader's commit, perhaps. */
static enum tenure_status confirm_damage(struct repair *r, struct tenure_error *err)
{
    struct tenure_value value = {0};
    enum tenure_status status = tenure_store_read(r->s->store, r->key, &value, r->deadline, err);

    tenure_value_free(&value);
    if (status == TENURE_OK)
        return tenure_fail(err, TENURE_INVALID, "%s: is not damaged any more", r->key);
    return status == TENURE_CORRUPT ? TENURE_OK : status;
}

/* It is read, and is indeed damaged. */
static enum tenure_status read_damaged(struct repair *r, struct tenure_error *err)
{
    struct tn_document doc;
    enum tenure_status status = tenure_store_read(r->s->store, r->key, &r->value, r->deadline, err);

    if (status == TENURE_CORRUPT) {
        status = read_below(r, err);
        return status ? status : confirm_damage(r, err);
    }
    if (status)
        return status;
    if (tenure_token_absent(&r->value.token))
        return tenure_fail(err, TENURE_INVALID, "%s: does not exist", r->key);
    status =
        *r->id ? tn_document_decode(&r->value, &doc, err) : tn_root_decode(&r->value, &doc, err);
    if (status == TENURE_OK)
        return tenure_fail(err, TENURE_INVALID, "%s: is not damaged", r->key);
    return TENURE_OK;
}

/* ---- Repairing ----------------------------------------------------------- */

static enum tenure_status replace(struct repair *r, const void *data, size_t len,
                                  struct tenure_error *err)
{
    /* A root announces nothing any more. */
    bool root = !*r->id, deleted = !root && !data;
    struct tn_document doc = {.fence = r->fence,
                              .seq = 1,
                              .edited = !root,
                              .deleted = deleted,
                              .data = root ? NULL : data,
                              .len = root || deleted ? 0 : len};
    struct tenure_swap swap = {.key = r->key, .expect = r->value.token, .tombstone = deleted};
    unsigned char *bytes = NULL;
    enum tenure_status status = tn_document_encode(&doc, &bytes, &swap.len, err);

    if (status)
        return status;
    swap.data = bytes;
    tn_state_new_nonce(r->repairer, swap.nonce);
    status = tenure_store_swap(r->repairer->store, &swap, r->deadline, err);
    free(bytes);
    /* One's own nonce proves it done (I6); anything else proves nothing. */
    if (status == TENURE_UNKNOWN &&
        !tenure_store_read(r->s->store, r->key, &r->value, r->deadline, NULL) &&
        memcmp(r->value.token.nonce, swap.nonce, TENURE_NONCE_SIZE) == 0)
        status = TENURE_OK;
    return status;
}

static enum tenure_status repair_register(struct repair *r, const void *data, size_t len,
                                          const struct tenure_grant *least,
                                          char kept[TENURE_KEEP_MAX + 1], struct tenure_error *err)
{
    char place[TENURE_KEEP_MAX + 1];
    enum tenure_status status = tn_key_collection(r->s->name, r->collection, r->root, err);

    if (!status && *r->id)
        status = tn_key_document(r->s->name, r->collection, r->id, r->key, err);
    else if (!status)
        memcpy(r->key, r->root, sizeof r->key);
    if (!status && *r->id && data)
        status = tn_state_check_length(r->s, r->key, len, err);
    if (!status)
        status = read_damaged(r, err);
    if (!status)
        status = find_fence(r, least, err);
    if (!status)
        status = store_damaged(r, place, err);
    if (!status)
        status = replace(r, data, len, err);
    if (!status)
        memcpy(kept, place, sizeof place);
    return status;
}

enum tenure_status tenure_state_repair(tenure_state *s, const char *collection, const char *id,
                                       const void *data, size_t len,
                                       const struct tenure_grant *least,
                                       char kept[TENURE_KEEP_MAX + 1], int64_t deadline,
                                       struct tenure_error *err)
{
    struct repair r = {
        .s = s, .repairer = s, .collection = collection, .id = id, .deadline = deadline};
    struct tenure_error scratch;
    enum tenure_status status;

    if (!err)
        err = &scratch;
    if (s->leads)
        return tenure_fail(err, TENURE_INVALID, "a leader commits; it does not repair");
    if ((status = tn_state_begin(s, collection, deadline, err)))
        return status;
    status = repair_register(&r, data, len, least, kept, err);
    tn_state_end(s);
    if (r.repairer != s)
        tenure_state_close(r.repairer);
    tenure_value_free(&r.value);
    return status;
}
