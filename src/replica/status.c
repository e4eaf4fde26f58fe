/* replica/status.c - see status.h. */
#include "replica/status.h"

#include <errno.h>
#include <jansson.h>
#include <string.h>
#include <unistd.h>

#include "base/hex.h"
#include "base/key.h"
#include "replica/conf.h"
#include "replica/database.h"
#include "replica/register.h"

struct facts {
    struct tn_copy_head head;
    uint8_t led[TENURE_NONCE_SIZE];
    uint64_t documents, conflicts;
    bool running;
    struct tn_replica_set set;
    bool registered;
};

static enum tenure_status read_copy(const char *path, struct facts *f, struct tenure_error *err)
{
    struct tn_database *db = NULL;
    struct tenure_error busy;
    int fd = -1;
    enum tenure_status status;

    if (access(path, R_OK) != 0)
        return tenure_fail(err, TENURE_UNAVAILABLE, "replica: %s: %s", path, strerror(errno));
    f->running = tn_database_lock(path, &fd, &busy) == TENURE_CONFIG;
    status = tn_database_open(path, false, &db, err);
    if (!status)
        status = tn_database_head(db, &f->head, f->led, err);
    if (!status)
        status = tn_database_count(db, &f->documents, &f->conflicts, err);
    tn_database_close(db);
    if (fd >= 0)
        close(fd);
    return status;
}

static enum tenure_status read_register(const struct tn_replica_host *host, const char *url,
                                        const char *name, int64_t deadline, struct facts *f,
                                        struct tenure_error *err)
{
    char key[TENURE_KEY_MAX + 1];
    struct tenure_value value = {0};
    tenure_store *store = NULL;
    enum tenure_status status = host->open(url, deadline, &store, err);

    tn_key_of(name, TN_KEY_REPLICAS, key);
    if (!status)
        status = host->read(store, key, &value, deadline, err);
    f->registered = !status && !tenure_token_absent(&value.token);
    if (f->registered)
        status = tn_register_decode(value.data, value.len, &f->set, err);
    tenure_value_free(&value);
    if (store != NULL)
        host->close(store);
    return status;
}

/* ---- What follows from it --------------------------------------------------------------- */

static bool is_primary(const struct facts *f)
{
    return f->running && f->registered && memcmp(f->led, f->set.grant, TENURE_NONCE_SIZE) == 0 &&
           tn_chain_epoch(&f->head.chain) == f->set.epoch;
}

/* NULL: it may lead; else why not (R15). */
static const char *objection(const struct facts *f, const struct tn_replica_conf *conf)
{
    uint64_t most = conf->async ? conf->max_lag : 0;

    if (!conf->async && tn_set_established(&f->set.set) &&
        !tn_set_has(&f->set.set, f->head.database))
        return "not a member of the replica set: it may lack acknowledged changes";
    if (tn_replica_lag(&f->head, &f->set) > most)
        return "behind the commit point";
    return NULL;
}

static json_t *hex(const uint8_t id[TENURE_NONCE_SIZE])
{
    char text[TN_NONCE_HEX + 1];

    tn_hex_encode(id, TENURE_NONCE_SIZE, text);
    return json_string(text);
}

static json_t *describe(const struct facts *f, const struct tn_replica_conf *conf, const char *name)
{
    const char *why = objection(f, conf);
    const char *role = is_primary(f) ? "primary" : f->running ? "standby" : "stopped";
    json_t *members = json_array(), *all;

    for (uint32_t i = 0; i < f->set.set.count; i++)
        json_array_append_new(members, hex(f->set.set.id[i]));
    all = json_pack(
        "{s:s, s:s, s:s, s:o, s:{s:I, s:I}, s:I, s:I, s:I, s:b, s:s*, s:I, s:s}", "name", name,
        "path", conf->path, "role", role, "database", hex(f->head.database), "position", "epoch",
        (json_int_t)tn_chain_epoch(&f->head.chain), "n", (json_int_t)f->head.chain.n, "committed",
        (json_int_t)f->set.committed.n, "documents", (json_int_t)f->documents, "conflicts",
        (json_int_t)f->conflicts, "eligible", why == NULL, "why_not", why, "lag",
        (json_int_t)tn_replica_lag(&f->head, &f->set), "mode", conf->async ? "async" : "semi-sync");
    json_object_set_new(all, "set",
                        json_pack("{s:I, s:I, s:b, s:o}", "epoch", (json_int_t)f->set.epoch, "acks",
                                  (json_int_t)f->set.set.k, "member",
                                  tn_set_has(&f->set.set, f->head.database), "members", members));
    return all;
}

enum tenure_status tn_replica_status(const struct tn_replica_host *host, const char *url,
                                     const char *store, const char *name, int64_t deadline,
                                     char **json, struct tenure_error *err)
{
    struct tn_replica_conf conf = {0};
    struct facts f = {0};
    enum tenure_status status = tn_replica_conf_read(url, &conf, err);
    json_t *all = NULL;

    if (!status)
        status = read_copy(conf.path, &f, err);
    if (!status)
        status = read_register(host, store, name, deadline, &f, err);
    if (!status) {
        all = describe(&f, &conf, name);
        *json = json_dumps(all, JSON_INDENT(2));
        if (*json == NULL)
            status = tenure_fail(err, TENURE_NOMEM, "out of memory");
    }
    json_decref(all);
    tn_replica_conf_free(&conf);
    return status;
}
