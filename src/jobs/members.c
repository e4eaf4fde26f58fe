/* The members of a group, as an operator sees and marks them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/key.h"
#include "control/edit.h"
#include "jobs/operator.h"

void tn_members_free(struct tn_members *m)
{
    free(m->list);
    memset(m, 0, sizeof *m);
}

struct listing {
    struct tn_members *members;
    size_t prefix; /* its bytes */
};

static bool take_member(void *arg, const char *key, const struct tenure_value *value)
{
    const struct listing *l = arg;
    struct tn_members *m = l->members;
    struct tn_listed_member *one;
    struct tenure_error err = {0};
    char id[TENURE_KEY_MAX + 1];

    if (strchr(key + l->prefix, '/') || tn_jobs_is_foreign(value->data, value->len, ""))
        return true;
    if (m->count == m->room) {
        uint32_t room = m->room ? 2 * m->room : 16;
        struct tn_listed_member *grown = realloc(m->list, room * sizeof *grown);

        if (!grown)
            return false;
        m->list = grown;
        m->room = room;
    }
    one = &m->list[m->count++];
    memset(one, 0, sizeof *one);
    one->token = value->token;
    snprintf(one->key, sizeof one->key, "%s", key);
    if (tn_member_decode(value->data, value->len, &one->record, &err) != TENURE_OK)
        snprintf(one->damage, sizeof one->damage, "%s", err.text);
    /* Who it is stands in the key. */
    if (!tn_key_document_id(strrchr(key, '/') + 1, id))
        snprintf(id, sizeof id, "%s", strrchr(key, '/') + 1);
    snprintf(one->record.id, sizeof one->record.id, "%s", id);
    return true;
}

enum tenure_status tn_members_load(const struct tn_jobs *g, struct tn_members *m,
                                   struct tenure_error *err)
{
    char prefix[TENURE_KEY_MAX + 1];
    struct listing l = {.members = m};

    memset(m, 0, sizeof *m);
    tn_key_of(g->name, TN_KEY_MEMBER, prefix);
    l.prefix = strlen(prefix);
    return tenure_store_list(g->store, prefix, NULL, take_member, &l, m->mark, g->deadline, err);
}

const struct tn_listed_member *tn_members_find(const struct tn_members *m, const char *id)
{
    for (uint32_t i = 0; i < m->count; i++) {
        if (!m->list[i].damage[0] && strcmp(m->list[i].record.id, id) == 0)
            return &m->list[i];
    }
    return NULL;
}

struct change {
    const char *id;
    enum tn_member_edit edit;
};

/* Only the flag or the mark changes: number and incarnation stay, so nothing is freed by it. */
static void apply(struct tn_member *m, enum tn_member_edit edit)
{
    if (edit == TN_MEMBER_DRAIN || edit == TN_MEMBER_UNDRAIN)
        m->draining = edit == TN_MEMBER_DRAIN;
    else
        m->mark = edit == TN_MEMBER_EVICT ? TN_MARK_EVICTED : TN_MARK_NONE;
}

static enum tenure_status edit_member(void *arg, const struct tenure_value *value,
                                      struct tn_edit *edit, struct tenure_error *err)
{
    const struct change *c = arg;
    struct tn_member_record record;
    enum tenure_status status;

    if (tenure_token_absent(&value->token))
        return tenure_fail(err, TENURE_INVALID, "there is no worker '%.127s'", c->id);
    status = tn_member_decode(value->data, value->len, &record, err);
    if (status)
        return status;
    if (record.member.mark == TN_MARK_PLACEHOLDER)
        return tenure_fail(err, TENURE_INVALID,
                           "the record of '%.127s' was lost: a placeholder stands there, and is "
                           "buried after its ttl",
                           c->id);
    struct tn_member before = record.member;
    apply(&record.member, c->edit);
    if (record.member.draining == before.draining && record.member.mark == before.mark)
        return TENURE_OK; /* it is so already */
    edit->text = tn_member_encode(&record);
    return edit->text ? TENURE_OK : tenure_fail(err, TENURE_NOMEM, "out of memory");
}

enum tenure_status tn_jobs_edit_member(const struct tn_jobs *g, const char *id,
                                       enum tn_member_edit edit, struct tenure_error *err)
{
    struct change change = {id, edit};
    char key[TENURE_KEY_MAX + 1];
    enum tenure_status status = tn_key_item(g->name, TN_KEY_MEMBER, id, key, err);

    if (!status)
        status = tn_edit_register(g->store, key, edit_member, &change, g->deadline, err);
    if (!status)
        tn_bell_ring(g->store, g->name, g->deadline);
    return status;
}

struct departure {
    const char *id;
    const uint8_t *incarnation;
};

static enum tenure_status set_left(void *arg, const struct tenure_value *value,
                                   struct tn_edit *edit, struct tenure_error *err)
{
    const struct departure *d = arg;
    struct tn_member_record record;
    enum tenure_status status = TENURE_OK;

    if (!tenure_token_absent(&value->token))
        status = tn_member_decode(value->data, value->len, &record, err);
    if (status)
        return status;
    if (tenure_token_absent(&value->token) || record.member.state != TN_MEMBER_ALIVE ||
        record.member.mark != TN_MARK_NONE ||
        memcmp(record.member.identity.incarnation, d->incarnation, TENURE_NONCE_SIZE) != 0)
        return tenure_fail(err, TENURE_CONFLICT, "the record of '%.127s' is another's", d->id);
    record.member.state = TN_MEMBER_LEFT;
    record.member.ask_count = 0;
    edit->text = tn_member_encode(&record);
    return edit->text ? TENURE_OK : tenure_fail(err, TENURE_NOMEM, "out of memory");
}

enum tenure_status tn_jobs_member_left(const struct tn_jobs *g, const char *id,
                                       const uint8_t incarnation[TENURE_NONCE_SIZE],
                                       struct tenure_error *err)
{
    struct departure departure = {id, incarnation};
    char key[TENURE_KEY_MAX + 1];
    enum tenure_status status = tn_key_item(g->name, TN_KEY_MEMBER, id, key, err);

    if (!status)
        status = tn_edit_register(g->store, key, set_left, &departure, g->deadline, err);
    if (!status)
        tn_bell_ring(g->store, g->name, g->deadline);
    return status;
}
