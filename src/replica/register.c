/* replica/register.c - see register.h. */
#include "replica/register.h"

#include <jansson.h>
#include <string.h>

#include "base/hex.h"

static json_t *hex(const uint8_t nonce[TENURE_NONCE_SIZE])
{
    char text[TN_NONCE_HEX + 1];

    tn_hex_encode(nonce, TENURE_NONCE_SIZE, text);
    return json_string(text);
}

enum tenure_status tn_register_encode(const struct tn_replica_set *set, char **text,
                                      struct tenure_error *err)
{
    json_t *members = json_array(), *chain = json_array();
    json_t *all;

    for (uint32_t i = 0; i < set->set.count; i++)
        json_array_append_new(members, hex(set->set.id[i]));
    for (uint32_t i = 0; i < set->committed.count; i++) {
        const struct tn_link *link = &set->committed.link[i];

        json_array_append_new(chain, json_pack("{s:I, s:I, s:o}", "epoch", (json_int_t)link->epoch,
                                               "first", (json_int_t)link->first, "grant",
                                               hex(link->grant)));
    }
    all = json_pack("{s:I, s:o, s:I, s:I, s:o, s:{s:I, s:o}}", "epoch", (json_int_t)set->epoch,
                    "grant", hex(set->grant), "serial", (json_int_t)set->serial, "k",
                    (json_int_t)set->set.k, "members", members, "committed", "n",
                    (json_int_t)set->committed.n, "chain", chain);
    *text = all != NULL ? json_dumps(all, JSON_COMPACT) : NULL;
    json_decref(all);
    return *text != NULL ? TENURE_OK : tenure_fail(err, TENURE_NOMEM, "out of memory");
}

/* ---- Reading: hostile input ----------------------------------------------------- */

static bool number(const json_t *map, const char *name, uint64_t max, uint64_t *out)
{
    const json_t *value = json_object_get(map, name);
    json_int_t n = json_integer_value(value);

    if (!json_is_integer(value) || n < 0 || (uint64_t)n > max)
        return false;
    *out = (uint64_t)n;
    return true;
}

static bool nonce(const json_t *value, uint8_t out[TENURE_NONCE_SIZE])
{
    const char *text = json_string_value(value);

    return text != NULL && tn_hex_decode(text, out, TENURE_NONCE_SIZE);
}

static bool read_members(const json_t *list, struct tn_set *set)
{
    if (!json_is_array(list) || json_array_size(list) > TN_SET_MAX)
        return false;
    for (size_t i = 0; i < json_array_size(list); i++) {
        uint8_t id[TENURE_NONCE_SIZE];

        if (!nonce(json_array_get(list, i), id) || tn_set_has(set, id))
            return false;
        tn_set_add(set, id);
    }
    return true;
}

static bool read_chain(const json_t *map, struct tn_chain *chain)
{
    const json_t *list = json_object_get(map, "chain");

    if (!number(map, "n", INT64_MAX, &chain->n) || !json_is_array(list) ||
        json_array_size(list) > TN_CHAIN_MAX)
        return false;
    chain->count = (uint32_t)json_array_size(list);
    for (uint32_t i = 0; i < chain->count; i++) {
        const json_t *link = json_array_get(list, i);

        if (!number(link, "epoch", TN_EPOCH_MAX, &chain->link[i].epoch) ||
            !number(link, "first", INT64_MAX, &chain->link[i].first) ||
            !nonce(json_object_get(link, "grant"), chain->link[i].grant))
            return false;
    }
    return tn_chain_valid(chain);
}

enum tenure_status tn_register_decode(const void *bytes, size_t size, struct tn_replica_set *set,
                                      struct tenure_error *err)
{
    json_t *all = json_loadb(bytes, size, JSON_REJECT_DUPLICATES, NULL);
    struct tn_replica_set read = {0};
    uint64_t k = 0;
    bool valid = number(all, "epoch", TN_EPOCH_MAX, &read.epoch) &&
                 nonce(json_object_get(all, "grant"), read.grant) &&
                 number(all, "serial", INT64_MAX, &read.serial) &&
                 number(all, "k", TN_SET_MAX - 1, &k) &&
                 read_members(json_object_get(all, "members"), &read.set) &&
                 read_chain(json_object_get(all, "committed"), &read.committed);

    json_decref(all);
    if (!valid)
        return tenure_fail(err, TENURE_CORRUPT, "the record of the replica set is malformed");
    read.set.k = (uint32_t)k;
    *set = read;
    return TENURE_OK;
}
