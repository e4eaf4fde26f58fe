/*
 * Registers that are not what this store writes: foreign bytes, an anchor without a row, several
 * rows.  A read answers CORRUPT; with repair=yes it returns what is there: a line for each key, and
 * its bytes.  The replacement is a transaction on the very indexes that were read (C2).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/consul/consul.h"

#define KEYS_MAX (TN_CONSUL_OPS_MAX - TN_CONSUL_SWAP_OPS) /* more cannot be checked at once */

/* The entries of a register: at most max.  How many there are. */
static size_t entries_of(const struct tn_consul *h, const json_t *answer, const char *key,
                         const json_t **out, size_t max)
{
    const json_t *one;
    size_t i, n = 0;

    json_array_foreach(json_object_get(answer, "Results"), i, one)
    {
        const json_t *entry = json_object_get(one, "KV");

        if (!tn_consul_suffix(h, tn_consul_entry_name(entry), key))
            continue;
        if (n < max)
            out[n] = entry;
        n++;
    }
    return n;
}

enum tenure_status tn_consul_take_damaged(const struct tn_consul *h, const char *key,
                                          const json_t *answer, struct tenure_value *value,
                                          struct tenure_error *err)
{
    const json_t *entries[KEYS_MAX];
    size_t n = entries_of(h, answer, key, entries, KEYS_MAX), size = 0;
    char *text = NULL;
    FILE *to;

    if (n > KEYS_MAX)
        return tenure_fail(err, TENURE_CORRUPT, "consul: %s%s# has %zu keys", h->conf.base, key, n);
    to = open_memstream(&text, &size);
    if (!to)
        return tenure_fail(err, TENURE_NOMEM, "consul: out of memory");
    for (size_t i = 0; i < n; i++) {
        size_t len = 0;
        char *bytes = tn_consul_entry_bytes(entries[i], &len);

        fprintf(to, "consul-key 1 %s %zu\n", tn_consul_entry_name(entries[i]), len);
        if (bytes)
            fwrite(bytes, 1, len, to);
        fputc('\n', to);
        free(bytes);
    }
    return tn_damaged_stream(value, to, &text, &size, err);
}

static void free_raw(void *raw)
{
    json_decref(raw);
}

static enum tenure_status read_raw(void *impl, const char *key, int64_t deadline, void **raw,
                                   struct tenure_error *err)
{
    json_t *answer = NULL;
    enum tenure_status status = tn_consul_fetch(impl, &key, 1, deadline, &answer, err);

    if (!status && tn_consul_gather(impl, answer, key).anchor)
        *raw = answer;
    else
        json_decref(answer);
    return status;
}

static enum tenure_status decode(void *impl, const char *key, const void *raw,
                                 struct tenure_value *value, struct tenure_error *err)
{
    struct tn_consul_register r = tn_consul_gather(impl, raw, key);

    return tn_consul_decode(impl, key, &r, value, err);
}

static enum tenure_status take_damaged(void *impl, const char *key, const void *raw,
                                       struct tenure_value *value, struct tenure_error *err)
{
    return tn_consul_take_damaged(impl, key, raw, value, err);
}

/* Everything is what it was; then only the anchor and the new row are left. */
static bool compose(const struct tn_consul *h, json_t *ops, const struct tenure_swap *swap,
                    const json_t *const *entries, size_t n)
{
    char index[TENURE_VERSION_MAX + 1];

    for (size_t i = 0; i < n; i++) {
        if (!tn_consul_entry_index(entries[i], index) ||
            !tn_consul_op(ops, "check-index", tn_consul_entry_name(entries[i]), index))
            return false;
    }
    return tn_consul_op_anchor(h, ops, swap->key) && tn_consul_op_row(h, ops, swap);
}

static enum tenure_status replace(void *impl, struct tenure_swap *swap, const void *raw,
                                  int64_t deadline, struct tenure_error *err)
{
    const json_t *entries[KEYS_MAX];
    size_t n = entries_of(impl, raw, swap->key, entries, KEYS_MAX);
    json_t *ops = json_array();

    if (ops && !compose(impl, ops, swap, entries, n)) {
        json_decref(ops);
        ops = NULL;
    }
    return tn_consul_commit(impl, swap, ops, deadline, err);
}

const struct tn_raw_ops tn_consul_raw = {read_raw, free_raw, decode, take_damaged, replace};
