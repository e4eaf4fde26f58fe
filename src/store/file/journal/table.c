/* The groups that a handle knows, and the registers in each. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/key.h"
#include "base/sum.h"
#include "store/file/journal/journal.h"

#define GROUPS_MAX    256 /* open at once in one handle */
#define BUCKETS_FIRST 64

/* ---- Groups ---------------------------------------------------------------- */

bool tn_journal_state(const char *key)
{
    return tn_key_collection_end(key) != NULL;
}

bool tn_journal_group(const struct tn_file *f, const char *key, char group[TENURE_KEY_MAX + 1],
                      const char **name)
{
    const char *end = f->marker.place ? tn_key_collection_end(key) : NULL;

    if (!end)
        return false;
    memcpy(group, key, (size_t)(end - key));
    group[end - key] = '\0';
    *name = *end ? end + 1 : "";
    return true;
}

void tn_journal_clear(struct tn_journal *j)
{
    tn_journal_forget(j);
    free(j->buckets);
    free(j->buffer);
}

static void journal_free(struct tn_journal *j)
{
    tn_journal_clear(j);
    free(j);
}

struct tn_journal *tn_journal_get(struct tn_file *f, const char *group)
{
    struct tn_journal **link = &f->journals, **oldest = NULL, *j;
    size_t n = 0;

    /* The one that was used last stands first. */
    for (; (j = *link) && strcmp(j->group, group) != 0; link = &j->next) {
        n++;
        if (!j->unflushed)
            oldest = link;
    }
    if (j) {
        *link = j->next;
    } else {
        if (n >= GROUPS_MAX && oldest) { /* too many: the last goes */
            j = *oldest;
            *oldest = j->next;
            journal_free(j);
        }
        j = calloc(1, sizeof *j);
        if (!j)
            return NULL;
        j->fd = -1;
        snprintf(j->group, sizeof j->group, "%s", group);
    }
    j->next = f->journals;
    f->journals = j;
    return j;
}

void tn_journal_end(struct tn_file *f)
{
    while (f->journals) {
        struct tn_journal *j = f->journals;

        f->journals = j->next;
        journal_free(j);
    }
}

/* ---- Registers ------------------------------------------------------------- */

static size_t hash(const char *name, size_t len)
{
    uint64_t h = tn_sum(TN_SUM_START, name, len);

    return (size_t)(h ^ h >> 32);
}

struct tn_journal_reg *tn_journal_find(const struct tn_journal *j, const char *name, size_t len)
{
    struct tn_journal_reg *reg =
        j->n_buckets ? j->buckets[hash(name, len) & (j->n_buckets - 1)] : NULL;

    while (reg && (reg->name_len != len || memcmp(reg->name, name, len) != 0))
        reg = reg->next;
    return reg;
}

static bool grow(struct tn_journal *j)
{
    size_t n = j->n_buckets ? 4 * j->n_buckets : BUCKETS_FIRST;
    struct tn_journal_reg **buckets = calloc(n, sizeof(struct tn_journal_reg *));

    if (!buckets)
        return false;
    for (size_t i = 0; i < j->n_buckets; i++) {
        while (j->buckets[i]) {
            struct tn_journal_reg *reg = j->buckets[i];
            size_t to = hash(reg->name, reg->name_len) & (n - 1);

            j->buckets[i] = reg->next;
            reg->next = buckets[to];
            buckets[to] = reg;
        }
    }
    free(j->buckets);
    j->buckets = buckets;
    j->n_buckets = n;
    return true;
}

bool tn_journal_take(struct tn_journal *j, const struct tn_journal_entry *e, uint64_t at)
{
    struct tn_journal_reg *reg = tn_journal_find(j, e->name, e->name_len);

    if (!reg) {
        if (j->n >= 2 * j->n_buckets && !grow(j))
            return false;
        reg = calloc(1, sizeof *reg + e->name_len + 1);
        if (!reg)
            return false;
        reg->name_len = (uint16_t)e->name_len;
        memcpy(reg->name, e->name, e->name_len);
        size_t to = hash(e->name, e->name_len) & (j->n_buckets - 1);
        reg->next = j->buckets[to];
        j->buckets[to] = reg;
        j->n++;
    } else {
        j->live -= tn_entry_size(reg->name_len, reg->len);
    }
    reg->count = e->count;
    memcpy(reg->nonce, e->nonce, TENURE_NONCE_SIZE);
    memcpy(reg->prev, e->prev, TENURE_NONCE_SIZE);
    reg->at = at;
    reg->moved_to = 0;
    reg->len = (uint32_t)e->len;
    reg->tombstone = e->tombstone;
    reg->damaged = e->damaged;
    reg->doubted = e->doubted;
    reg->data_sum = e->data_sum;
    j->live += tn_entry_size(reg->name_len, reg->len);
    return true;
}

void tn_journal_forget(struct tn_journal *j)
{
    tn_journal_draft_drop(j);
    for (size_t i = 0; i < j->n_buckets; i++) {
        while (j->buckets[i]) {
            struct tn_journal_reg *reg = j->buckets[i];

            j->buckets[i] = reg->next;
            free(reg);
        }
    }
    if (j->fd >= 0)
        close(j->fd);
    j->fd = -1;
    j->n = 0;
    j->number = j->frames = j->tail = j->end = j->live = j->given_up = 0;
    j->owner = j->whole = j->salvaged = j->loading = false;
    j->stalled_ns = 0;
}

bool tn_journal_room(struct tn_journal *j, size_t size)
{
    if (size <= j->cap)
        return true;
    size_t cap = size < 65536 ? 65536 : size;
    unsigned char *grown = realloc(j->buffer, cap);

    if (!grown)
        return false;
    j->buffer = grown;
    j->cap = cap;
    return true;
}

void tn_journal_token(const struct tn_journal_reg *reg, struct tenure_token *token)
{
    memset(token, 0, sizeof *token);
    if (!reg)
        return;
    snprintf(token->version, sizeof token->version, "%llu", (unsigned long long)reg->count);
    memcpy(token->nonce, reg->nonce, TENURE_NONCE_SIZE);
}
