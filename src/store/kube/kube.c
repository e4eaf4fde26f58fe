/* kube: - registers in the Leases of a Kubernetes cluster: the table, opening and reading. */
#include "store/kube/kube.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hex.h"
#include "base/options.h"
#include "store/open.h"

/* What the URL says beside the path. */
struct choice {
    struct tn_kube_choice access;
    bool repair;
};

#define AT(member) offsetof(struct choice, member)
static const struct tn_option options[] = {
    TN_TEXT_OPTION("kubeconfig", AT(access.kubeconfig), "a file", NULL,
                   "instead of KUBECONFIG and ~/.kube/config"),
    TN_TEXT_OPTION("context", AT(access.context), "a name", NULL,
                   "of the kubeconfig, instead of its current-context"),
    TN_TEXT_OPTION("serviceaccount", AT(access.serviceaccount), "a directory", NULL,
                   "the files of a pod's service account"),
    TN_REPAIR_OPTION(AT(repair)),
    {0},
};

/* ---- Life ---------------------------------------------------------------- */

static void kube_close(void *impl)
{
    struct tn_kube *h = impl;

    tn_watcher_free(&h->watcher);
    tn_http_free(h->http);
    json_decref(h->last);
    tn_kube_access_free(&h->access);
    free(h);
}

/* "NAMESPACE/LEASE"; either may be missing. */
static enum tenure_status take_path(struct tn_kube *h, const struct tn_url *url,
                                    struct tenure_error *err)
{
    const char *spare = h->access.namespace ? h->access.namespace : "default";
    const char *slash = strchr(url->path, '/');
    size_t n = slash ? (size_t)(slash - url->path) : strlen(url->path);
    const char *parts[] = {slash ? slash + 1 : ""};
    uint8_t hash[16];

    if (url->authority)
        return tenure_fail(err, TENURE_CONFIG,
                           "kube: write kube:namespace/lease, without '//'; the server stands in "
                           "the kubeconfig");
    snprintf(h->namespace, sizeof h->namespace, "%.*s", n ? (int)n : 64, n ? url->path : spare);
    if (n >= sizeof h->namespace || !tn_kube_name_valid(h->namespace, 63, false))
        return tenure_fail(err, TENURE_CONFIG,
                           "kube: '%.70s' is not a namespace: lower-case letters, digits and '-', "
                           "at most 63",
                           h->namespace);
    if (*parts[0] && !tn_kube_name_valid(parts[0], TN_KUBE_NAME_MAX, true))
        return tenure_fail(err, TENURE_CONFIG,
                           "kube: '%.70s' is not the name of a Lease: lower-case letters, digits, "
                           "'-' and '.', at most %d",
                           parts[0], TN_KUBE_NAME_MAX);
    snprintf(h->lease, sizeof h->lease, "%s", parts[0]);
    tn_kube_hash(parts, 1, hash);
    tn_hex_encode(hash, sizeof hash, h->scope);
    return TENURE_OK;
}

static enum tenure_status configure(void *impl, const char *text, struct tenure_error *err)
{
    struct tn_kube *h = impl;
    struct tn_url url = {0};
    struct choice choice = {0};
    enum tenure_status status = tn_url_parse(text, &url, err);

    if (!status)
        status = tn_options_read(options, &url, &choice, err);
    h->repair = choice.repair;
    if (!status)
        status = take_path(h, &url, err); /* mistakes in the URL come first */
    if (!status)
        status = tn_kube_access_load(&choice.access, &h->access, err);
    if (!status)
        status = take_path(h, &url, err); /* now with the namespace of the context */
    tn_url_free(&url);
    if (status)
        return status;
    h->access.http.cancel_fd = -1;
    tn_kube_watcher_init(h);
    h->http = tn_http_new(&h->access.http);
    return h->http ? TENURE_OK : tenure_fail(err, TENURE_NOMEM, "kube: out of memory");
}

/* A server that starts, or is behind a proxy whose servers start, says so. */
static enum tenure_status reach(void *impl, int64_t deadline, bool *unready,
                                struct tenure_error *err)
{
    struct tn_kube *h = impl;
    struct tn_kube_request rq = {.method = "GET", .name = h->lease[0] ? h->lease : "tenure"};
    struct tn_kube_answer answer;
    enum tenure_status status = tn_kube_call(h, &rq, deadline, &answer, err);

    *unready = answer.code >= 429;
    json_decref(answer.root);
    return status;
}

static enum tenure_status kube_open(const char *url, int64_t deadline, void **impl,
                                    struct tenure_error *err)
{
    static const struct tn_opener opener = {sizeof(struct tn_kube), configure, reach, kube_close};

    return tn_open(&opener, url, deadline, impl, err);
}

static void kube_info(void *impl, struct tenure_store_info *info)
{
    struct tn_kube *h = impl;

    info->scheme = "kube";
    info->promise =
        h->access.http.blind
            ? "Kubernetes: agreed by the cluster's etcd and kept on disk; WARNING: "
              "insecure-skip-tls-verify, anybody may pose as the server"
            : "Kubernetes: every change is agreed by the cluster's etcd and kept on disk; it is "
              "lost only with the cluster's data, or by restoring a backup of them";
    info->notifies = true;
    info->shared = true;
    info->data_max = TN_KUBE_DATA_MAX;
    info->ttl_min_ms = TN_KUBE_TTL_MIN_MS;
    info->ttl_step_ms = 1000; /* leaseDurationSeconds */
}

/* ---- Reading ------------------------------------------------------------- */

void tn_kube_remember(struct tn_kube *h, const char *key, json_t *object)
{
    if (!tn_kube_is_record(key))
        return;
    json_decref(h->last);
    h->last = json_incref(object);
}

enum tenure_status tn_kube_get(struct tn_kube *h, const char *key, int64_t deadline,
                               json_t **object, struct tenure_error *err)
{
    char name[TN_KUBE_NAME_MAX + 1];
    struct tn_kube_request rq = {.method = "GET", .name = name};
    struct tn_kube_answer answer;
    enum tenure_status status;

    tn_kube_name(h, key, name);
    status = tn_kube_call(h, &rq, deadline, &answer, err);
    if (status)
        return status;
    if (answer.code != 200 && answer.code != 404) {
        json_decref(answer.root);
        return tenure_fail(err, TENURE_UNAVAILABLE, "kube: %s: HTTP %ld", h->access.server,
                           answer.code);
    }
    *object = answer.root;
    return TENURE_OK;
}

static enum tenure_status kube_read(void *impl, const char *key, struct tenure_value *value,
                                    int64_t deadline, struct tenure_error *err)
{
    struct tn_kube *h = impl;
    char name[TN_KUBE_NAME_MAX + 1];
    json_t *object = NULL;
    enum tenure_status status = tn_kube_get(h, key, deadline, &object, err);

    if (status)
        return status;
    status = object ? tn_kube_decode(key, object, value, err) : tenure_value_absent(value, err);
    if (status == TENURE_CORRUPT && h->repair && !tn_kube_anothers(key, object))
        status = tn_kube_take_damaged(object, value, err);
    if (status) {
        tn_kube_name(h, key, name);
        tenure_fail_context(err, "kube: %s: Lease %s/%s", key, h->namespace, name);
    } else {
        tn_kube_remember(h, key, object);
        tn_watcher_learn(&h->watcher, key, &value->token);
    }
    json_decref(object);
    return status;
}

static const struct tenure_store_ops kube = {
    .abi = TENURE_STORE_ABI,
    .scheme = "kube",
    .open = kube_open,
    .close = kube_close,
    .info = kube_info,
    .read = kube_read,
    .swap = tn_kube_swap,
    .wait = tn_watcher_wait,
    .list = tn_kube_list,
    .options = options,
};

const struct tenure_store_ops *const tenure_store_module[] = {&kube, NULL};
