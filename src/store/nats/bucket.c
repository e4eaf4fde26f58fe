/* The bucket: is it there, can it be used, and what does it keep? */
#include <stdio.h>
#include <string.h>

#include "store/nats/nats.h"

/* Below it the servers of a replicated stream compare the sequence too late: several of those who
 * expect the same one win. */
static const unsigned replicated_since[3] = {2, 10, 20};

static bool is_older(const unsigned version[3], const unsigned than[3])
{
    for (int i = 0; i < 3; i++) {
        if (version[i] != than[i])
            return version[i] < than[i];
    }
    return false;
}

static enum tenure_status request(struct tn_nats *h, const char *what, const char *body, int64_t by,
                                  json_t **root, int *code, struct tenure_error *err)
{
    struct tn_nats_call call = {0};
    enum tenure_status status;

    tn_nats_begin(h, &call, 1);
    tn_nats_send_api(h, &call, what, body);
    status = tn_nats_finish(h, by, err);
    if (!status)
        status = tn_nats_answer(h, &call, root, code, err);
    tn_nats_call_free(&call);
    return status;
}

static enum tenure_status make_bucket(struct tn_nats *h, int64_t by, json_t **root, int *code,
                                      struct tenure_error *err)
{
    char body[512 + 3 * TN_NATS_BUCKET_MAX];

    snprintf(body, sizeof body,
             "{\"name\":\"KV_%s\",\"subjects\":[\"$KV.%s.>\"],\"retention\":\"limits\","
             "\"storage\":\"file\",\"num_replicas\":%u,\"discard\":\"new\",\"max_consumers\":-1,"
             "\"max_msgs\":-1,\"max_bytes\":-1,\"max_age\":0,\"max_msgs_per_subject\":1,"
             "\"max_msg_size\":-1,\"allow_rollup_hdrs\":true,\"deny_delete\":true,"
             "\"allow_direct\":true}",
             h->conf.bucket, h->conf.bucket, h->conf.replicas);
    json_decref(*root);
    *root = NULL;
    return request(h, "STREAM.CREATE", body, by, root, code, err);
}

static enum tenure_status refuse(const struct tn_nats *h, enum tenure_status status,
                                 struct tenure_error *err, const char *why)
{
    return tenure_fail(err, status, "nats: bucket %s: %s", h->conf.bucket, why);
}

static enum tenure_status check_version(struct tn_nats *h, int64_t by, struct tenure_error *err)
{
    unsigned v[3];
    enum tenure_status status = tn_nats_ask_version(h, by, v, err);

    if (!status && is_older(v, replicated_since))
        status = tenure_fail(err, TENURE_UNSUPPORTED,
                             "nats: bucket %s has %u replicas, and the server is %u.%u.%u: below "
                             "%u.%u.%u several changes of one revision may win; update all "
                             "servers, or use a bucket with one replica",
                             h->conf.bucket, h->replicas, v[0], v[1], v[2], replicated_since[0],
                             replicated_since[1], replicated_since[2]);
    return status;
}

static enum tenure_status check(struct tn_nats *h, const json_t *config, struct tenure_error *err)
{
    json_int_t replicas = json_integer_value(json_object_get(config, "num_replicas"));
    json_int_t size = json_integer_value(json_object_get(config, "max_msg_size"));
    const char *discard = json_string_value(json_object_get(config, "discard"));
    const char *storage = json_string_value(json_object_get(config, "storage"));
    bool limited = json_integer_value(json_object_get(config, "max_bytes")) > 0 ||
                   json_integer_value(json_object_get(config, "max_msgs")) > 0;
    json_int_t most = natsConnection_GetMaxPayload(tn_nats_link_connection(h->link));

    if (replicas < 1 || !discard || !storage)
        return refuse(h, TENURE_UNAVAILABLE, err, "the answer cannot be understood");
    if (json_object_get(config, "mirror") || json_array_size(json_object_get(config, "sources")))
        return refuse(h, TENURE_CONFIG, err, "it is a copy of another one, which may lag");
    if (json_integer_value(json_object_get(config, "max_age")) > 0)
        return refuse(h, TENURE_CONFIG, err, "it has a TTL, and would forget leases and state");
    if (limited && strcmp(discard, "new") != 0)
        return refuse(h, TENURE_CONFIG, err,
                      "it has a limit, and discards what is old: set discard to new");
    if (size > 0 && size < most)
        most = size;
    if (most <= 2 * TN_NATS_HEAD_MAX)
        return refuse(h, TENURE_CONFIG, err, "the largest message is too small");
    h->replicas = (unsigned)replicas;
    h->in_memory = strcmp(storage, "memory") == 0;
    if (!h->data_max) { /* it is constant for one handle */
        most -= TN_NATS_HEAD_MAX;
        h->data_max = most < TENURE_DATA_MAX ? (uint32_t)most : TENURE_DATA_MAX;
    }
    return TENURE_OK;
}

enum tenure_status tn_nats_open_bucket(struct tn_nats *h, int64_t by, struct tenure_error *err)
{
    json_t *root = NULL;
    int code;
    enum tenure_status status = request(h, "STREAM.INFO", "", by, &root, &code, err);

    if (!status && code == TN_NATS_NO_STREAM)
        status = make_bucket(h, by, &root, &code, err);
    if (!status && code)
        status = tn_nats_explain(h, root, code, err);
    if (!status)
        status = check(h, json_object_get(root, "config"), err);
    if (!status && h->replicas > 1)
        status = check_version(h, by, err);
    json_decref(root);
    return status;
}
