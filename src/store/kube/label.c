/* A pod's label. */
#include "store/kube/label.h"

#include <stdio.h>
#include <string.h>

#include "store/kube/kube.h"

/* A member's name in a JSON pointer. */
static bool escape(const char *key, char *out, size_t size)
{
    size_t n = 0;

    for (; *key && n + 2 < size; key++) {
        if (*key == '~' || *key == '/') {
            out[n++] = '~';
            out[n++] = *key == '~' ? '0' : '1';
        } else {
            out[n++] = *key;
        }
    }
    out[n] = '\0';
    return !*key;
}

static enum tenure_status patch(struct tn_kube *h, const char *pod, const char *key,
                                const char *value, int64_t deadline, struct tenure_error *err)
{
    char member[700], path[800];
    struct tn_kube_request rq = {
        .method = "PATCH", .name = pod, .resource = "pods", .change = true};
    struct tn_kube_answer answer = {0};
    enum tenure_status status;
    json_t *body;

    if (!tn_kube_name_valid(pod, TN_KUBE_NAME_MAX, true))
        return tenure_fail(err, TENURE_INVALID, "'%.70s' is not the name of a pod", pod);
    if (!escape(key, member, sizeof member))
        return tenure_fail(err, TENURE_INVALID, "the label's name is too long");
    snprintf(path, sizeof path, "/metadata/labels/%s", member);
    body = json_pack("[{s:s, s:s, s:s}]", "op", "add", "path", path, "value", value);
    if (!body)
        return tenure_fail(err, TENURE_INVALID, "the label is not UTF-8");
    rq.body = body;
    status = tn_kube_call(h, &rq, deadline, &answer, err);
    json_decref(answer.root);
    json_decref(body);
    return status;
}

TENURE_API enum tenure_status tenure_kube_label_pod(const char *url, const char *pod,
                                                    const char *key, const char *value,
                                                    int64_t deadline, struct tenure_error *err);

enum tenure_status tenure_kube_label_pod(const char *url, const char *pod, const char *key,
                                         const char *value, int64_t deadline,
                                         struct tenure_error *err)
{
    const struct tenure_store_ops *ops = tenure_store_module[0];
    void *impl = NULL;
    enum tenure_status status = ops->open(url, deadline, &impl, err);

    if (status)
        return status;
    status = patch(impl, pod, key, value, deadline, err);
    ops->close(impl);
    return status;
}
