#include "jobs/catalogue.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/key.h"
#include "base/sum.h"
#include "store/patience.h"

/* ---- By id --------------------------------------------------------------- */

uint32_t tn_catalogue_size(const struct tn_catalogue *c)
{
    return c->page_count ? (c->page_count - 1) * TN_PAGE_ROWS + c->pages[c->page_count - 1].count
                         : 0;
}

struct tn_row *tn_catalogue_row(const struct tn_catalogue *c, uint32_t number)
{
    assert(number / TN_PAGE_ROWS < c->page_count);
    return &c->pages[number / TN_PAGE_ROWS].rows[number % TN_PAGE_ROWS];
}

/* Where the id is in the hash, or where it would be. */
static uint32_t place_of(const struct tn_catalogue *c, const char *id)
{
    uint32_t at = (uint32_t)tn_sum(TN_SUM_START, id, strlen(id)) & (c->index_size - 1);

    while (c->index[at]) {
        const char *there = tn_catalogue_row(c, c->index[at] - 1)->id;

        if (there && strcmp(there, id) == 0)
            break;
        at = (at + 1) & (c->index_size - 1);
    }
    return at;
}

bool tn_catalogue_find(const struct tn_catalogue *c, const char *id, uint32_t *number)
{
    uint32_t at = c->index_size ? c->index[place_of(c, id)] : 0;

    if (at)
        *number = at - 1;
    return at != 0;
}

/* A hash of at least twice as many places as there may be jobs soon.  CORRUPT: an id twice. */
static enum tenure_status build_index(struct tn_catalogue *c, struct tenure_error *err)
{
    uint32_t size = 4096;

    while (size < 4 * (tn_catalogue_size(c) + TN_PAGE_ROWS))
        size *= 2;
    free(c->index);
    c->index = calloc(size, sizeof *c->index);
    c->index_size = c->index ? size : 0;
    if (!c->index)
        return tenure_fail(err, TENURE_NOMEM, "out of memory");
    for (uint32_t i = 0; i < tn_catalogue_size(c); i++) {
        const char *id = tn_catalogue_row(c, i)->id;
        uint32_t at;

        if (!id)
            continue;
        at = place_of(c, id);
        if (c->index[at])
            return tenure_fail(err, TENURE_CORRUPT,
                               "the catalogue names '%s' twice (numbers %u and %u)", id,
                               c->index[at] - 1, i);
        c->index[at] = i + 1;
    }
    return TENURE_OK;
}

/* ---- Load ---------------------------------------------------------------- */

void tn_catalogue_free(struct tn_catalogue *c)
{
    for (uint32_t i = 0; i < c->page_count; i++)
        tn_page_free(&c->pages[i]);
    free(c->pages);
    free(c->index);
    memset(c, 0, sizeof *c);
}

/* One more than the root names: an operator may have died before it named it. */
static enum tenure_status load_pages(tenure_store *store, const char *group, struct tn_catalogue *c,
                                     const uint64_t *revisions, uint32_t count, int64_t deadline,
                                     struct tenure_error *err)
{
    uint32_t n = count < TN_PAGES_MAX ? count + 1 : count;
    struct tenure_read *reads = calloc(n, sizeof *reads);
    char(*keys)[TENURE_KEY_MAX + 1] = calloc(n, sizeof *keys);
    enum tenure_status status = TENURE_OK;

    c->pages = calloc((size_t)n + 1, sizeof *c->pages);
    if (!reads || !keys || !c->pages)
        status = tenure_fail(err, TENURE_NOMEM, "out of memory");
    for (uint32_t i = 0; i < n && !status; i++) {
        tn_key_page(group, i, keys[i]);
        reads[i].key = keys[i];
    }
    if (!status)
        status = tenure_store_read_many(store, reads, n, deadline, err);
    for (uint32_t i = 0; i < n && !status; i++) {
        const struct tenure_value *value = &reads[i].value;
        bool absent = tenure_token_absent(&value->token);

        if (absent && i == count)
            break;
        if (reads[i].status)
            status = tenure_store_read(store, keys[i], &reads[i].value, deadline, err);
        else if (absent)
            status = tenure_fail(err, TENURE_CORRUPT, "it is lost");
        else
            status = tn_page_decode(value->data, value->len, i, &c->pages[i], err);
        if (status) {
            tenure_fail_context(err, "%s", keys[i]);
            break;
        }
        c->pages[i].token = value->token;
        c->page_count = i + 1;
        c->unfinished |= i == count || c->pages[i].revision != revisions[i];
    }
    for (uint32_t i = 0; reads && i < n; i++)
        tenure_value_free(&reads[i].value);
    free(reads);
    free(keys);
    return status;
}

enum tenure_status tn_catalogue_load(tenure_store *store, const char *group, struct tn_catalogue *c,
                                     int64_t deadline, struct tenure_error *err)
{
    struct tenure_value root = {0};
    char key[TENURE_KEY_MAX + 1];
    uint64_t *revisions = NULL;
    uint32_t count = 0;

    memset(c, 0, sizeof *c);
    tn_key_of(group, TN_KEY_CATALOGUE, key);
    enum tenure_status status = tenure_store_read(store, key, &root, deadline, err);
    if (!status && !tenure_token_absent(&root.token)) {
        status = tn_catalogue_root_decode(root.data, root.len, c, &revisions, &count, err);
        if (status)
            tenure_fail_context(err, "%s", key);
    }
    c->token = root.token;
    if (!status)
        status = load_pages(store, group, c, revisions, count, deadline, err);
    /* A page may be ahead of the root: revisions only rise. */
    for (uint32_t i = 0; i < c->page_count; i++)
        c->revision = c->pages[i].revision > c->revision ? c->pages[i].revision : c->revision;
    if (!status)
        status = build_index(c, err);
    tenure_value_free(&root);
    free(revisions);
    return status;
}

/* ---- Change -------------------------------------------------------------- */

void tn_catalogue_touch(struct tn_catalogue *c, uint32_t number)
{
    c->pages[number / TN_PAGE_ROWS].edited = true;
}

static enum tenure_status add_page(struct tn_catalogue *c, struct tenure_error *err)
{
    struct tn_page *grown;

    if (c->page_count == TN_PAGES_MAX)
        return tenure_fail(err, TENURE_INVALID, "a group holds at most %u jobs", TN_PLAN_JOBS_MAX);
    grown = realloc(c->pages, ((size_t)c->page_count + 1) * sizeof *grown);
    if (!grown)
        return tenure_fail(err, TENURE_NOMEM, "out of memory");
    c->pages = grown;
    memset(&grown[c->page_count], 0, sizeof *grown);
    grown[c->page_count].rows = calloc(TN_PAGE_ROWS, sizeof *grown->rows);
    if (!grown[c->page_count].rows)
        return tenure_fail(err, TENURE_NOMEM, "out of memory");
    c->page_count++;
    return TENURE_OK;
}

/* The first number that is free from *number on, or one behind the last. */
static enum tenure_status find_free(struct tn_catalogue *c, uint32_t *number,
                                    struct tenure_error *err)
{
    uint32_t size = tn_catalogue_size(c);
    enum tenure_status status;

    while (*number < size && tn_catalogue_row(c, *number)->id)
        ++*number;
    if (*number < size)
        return TENURE_OK;
    if ((c->page_count == 0 || c->pages[c->page_count - 1].count == TN_PAGE_ROWS) &&
        (status = add_page(c, err)))
        return status;
    *number = (c->page_count - 1) * TN_PAGE_ROWS + c->pages[c->page_count - 1].count++;
    return TENURE_OK;
}

enum tenure_status tn_catalogue_add(struct tn_catalogue *c, const char *id, uint32_t *number,
                                    struct tenure_error *err)
{
    enum tenure_status status = find_free(c, number, err);

    if (status)
        return status;
    *tn_catalogue_row(c, *number) = (struct tn_row){
        .id = id, .pin = "", .must = "", .prefer = "", .weight = 1, .wanted = TN_WANTED_RUNNING};
    tn_catalogue_touch(c, *number);
    if (4 * tn_catalogue_size(c) > 3 * c->index_size)
        return build_index(c, err);
    c->index[place_of(c, id)] = *number + 1;
    return TENURE_OK;
}

void tn_catalogue_drop(struct tn_catalogue *c, uint32_t number)
{
    memset(tn_catalogue_row(c, number), 0, sizeof(struct tn_row));
    tn_catalogue_touch(c, number);
}

static enum tenure_status check_size(tenure_store *store, const char *key, size_t len,
                                     uint32_t rows, struct tenure_error *err)
{
    const struct tenure_store_info *info = tenure_store_info(store);

    if (len <= info->data_max)
        return TENURE_OK;
    return tenure_fail(
        err, TENURE_INVALID,
        "%s: %u jobs take %zu bytes, more than the %u that %s: holds; about %zu such "
        "jobs fit: use shorter ids and labels",
        key, rows, len, info->data_max, info->scheme, (size_t)rows * info->data_max / len);
}

/* Whatever happens to one of the swaps, the texts are freed. */
static enum tenure_status write_pages(tenure_store *store, const char *group,
                                      struct tn_catalogue *c, int64_t deadline,
                                      struct tenure_error *err)
{
    struct tenure_swap *swaps = calloc((size_t)c->page_count + 1, sizeof *swaps);
    char(*keys)[TENURE_KEY_MAX + 1] = calloc((size_t)c->page_count + 1, sizeof *keys);
    char **texts = calloc((size_t)c->page_count + 1, sizeof *texts);
    enum tenure_status status =
        swaps && keys && texts ? TENURE_OK : tenure_fail(err, TENURE_NOMEM, "out of memory");
    size_t n = 0;

    for (uint32_t i = 0; i < c->page_count && !status; i++) {
        if (!c->pages[i].edited)
            continue;
        c->pages[i].revision = c->revision + 1;
        tn_key_page(group, i, keys[n]);
        swaps[n] = (struct tenure_swap){.key = keys[n], .expect = c->pages[i].token};
        swaps[n].data = texts[n] = tn_page_encode(&c->pages[i], i, &swaps[n].len);
        status = swaps[n].data ? tenure_nonce(swaps[n].nonce, err)
                               : tenure_fail(err, TENURE_NOMEM, "out of memory");
        if (!status)
            status = check_size(store, keys[n], swaps[n].len, c->pages[i].count, err);
        n++;
    }
    if (!status && n)
        status = tenure_store_swap_many(store, swaps, n, deadline, err);
    for (size_t i = 0; i < n && !status; i++) {
        if (swaps[i].status)
            status = tenure_fail(err, swaps[i].status, "%s was not written: %s", swaps[i].key,
                                 tenure_status_word(swaps[i].status));
    }
    for (size_t i = 0; i < n; i++)
        free(texts[i]);
    free(texts);
    free(swaps);
    free(keys);
    return status;
}

static enum tenure_status write_root(tenure_store *store, const char *group, struct tn_catalogue *c,
                                     int64_t deadline, struct tenure_error *err)
{
    char key[TENURE_KEY_MAX + 1];
    struct tenure_swap swap = {.key = key, .expect = c->token};

    c->revision++;
    tn_key_of(group, TN_KEY_CATALOGUE, key);
    char *text = tn_catalogue_root_encode(c, &swap.len);
    enum tenure_status status =
        text ? tenure_nonce(swap.nonce, err) : tenure_fail(err, TENURE_NOMEM, "out of memory");
    swap.data = text;
    if (!status)
        status = tenure_store_swap(store, &swap, deadline, err);
    free(text);
    return status;
}

static enum tenure_status try_edit(tenure_store *store, const char *group, tn_catalogue_fn edit,
                                   void *arg, struct tn_catalogue *c, int64_t deadline,
                                   struct tenure_error *err)
{
    enum tenure_status status = tn_catalogue_load(store, group, c, deadline, err);
    bool edited = false;

    if (!status)
        status = edit(arg, c, err);
    for (uint32_t i = 0; i < c->page_count; i++)
        edited |= c->pages[i].edited;
    if (!status && edited)
        status = write_pages(store, group, c, deadline, err);
    if (!status && (edited || c->unfinished))
        status = write_root(store, group, c, deadline, err);
    return status;
}

enum tenure_status tn_catalogue_edit(tenure_store *store, const char *group, tn_catalogue_fn edit,
                                     void *arg, struct tn_catalogue *catalogue, int64_t deadline,
                                     struct tenure_error *err)
{
    struct tn_catalogue c;
    enum tenure_status status;

    /* Somebody was faster, or what became of it is not known: from what is there now. */
    while ((status = try_edit(store, group, edit, arg, &c, deadline, err)) == TENURE_CONFLICT ||
           status == TENURE_UNKNOWN) {
        tn_catalogue_free(&c);
        if (!tn_store_pause(deadline))
            return status;
    }
    if (!status && catalogue)
        *catalogue = c;
    else
        tn_catalogue_free(&c);
    return status;
}
