/* kubeconfig files: which cluster, which user. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base64.h"
#include "os/secret.h"
#include "store/kube/access.h"

/* ---- Reading files ------------------------------------------------------- */

/* Paths in a kubeconfig are relative to it: note in each entry where it comes from. */
static bool note_folder(json_t *config, const char *path)
{
    static const char *const lists[] = {"clusters", "users", "contexts"};
    const char *slash = strrchr(path, '/');
    size_t n = slash ? (size_t)(slash - path) + 1 : 0;

    for (size_t l = 0; l < 3; l++) {
        json_t *entry;
        size_t i;

        json_array_foreach(json_object_get(config, lists[l]), i, entry)
        {
            if (json_is_object(entry) &&
                json_object_set_new(entry, "(folder)", json_stringn(path, n)))
                return false;
        }
    }
    return true;
}

/* What an earlier file says stays. */
static bool merge(json_t *all, json_t *one)
{
    const char *name;
    json_t *value;

    json_object_foreach(one, name, value)
    {
        json_t *there = json_object_get(all, name);

        if (json_is_array(there) && json_is_array(value)) {
            if (json_array_extend(there, value)) /* the first of a name is found */
                return false;
        } else if (!there || (json_is_string(there) && !*json_string_value(there))) {
            if (json_object_set(all, name, value))
                return false;
        }
    }
    return true;
}

static enum tenure_status read_one(const char *path, json_t *all, struct tenure_error *err)
{
    size_t len = 0;
    char *text = tn_kube_file(path, &len, err);
    json_t *config = text ? tn_kube_yaml(text, len, err) : NULL;
    enum tenure_status status = TENURE_OK;

    if (text && !config)
        status = tenure_fail_context(err, "kube: %s", path);
    else if (!text)
        status = err->code;
    else if (!json_is_object(config))
        status = tenure_fail(err, TENURE_CONFIG, "kube: %s is not a kubeconfig", path);
    else if (!note_folder(config, path) || !merge(all, config))
        status = tenure_fail(err, TENURE_NOMEM, "kube: out of memory");
    json_decref(config);
    tn_secret_free(text);
    return status;
}

/* Of several files those that exist; one at least. */
static enum tenure_status read_all(const char *paths, json_t *all, struct tenure_error *err)
{
    enum tenure_status status = tenure_fail(err, TENURE_CONFIG, "kube: no kubeconfig is named");
    bool some = false;

    while (*paths) {
        size_t n = strcspn(paths, ":");
        char path[1024];

        snprintf(path, sizeof path, "%.*s", (int)n, paths);
        if (n >= sizeof path)
            return tenure_fail(err, TENURE_CONFIG, "kube: the path of a kubeconfig is too long");
        if (n) {
            struct tenure_error why;
            enum tenure_status one = read_one(path, all, &why);

            some = some || !one;
            if (one && one != TENURE_CONFIG)
                return *err = why, one;
            if (one)
                *err = why, status = one;
        }
        paths += n + (paths[n] == ':');
    }
    return some ? TENURE_OK : status;
}

/* ---- Finding ------------------------------------------------------------- */

/* The entry of that name in a list; its member of that name, and the folder. */
static const json_t *entry(const json_t *all, const char *list, const char *name,
                           const char *member, const char **folder)
{
    const json_t *one;
    size_t i;

    json_array_foreach(json_object_get(all, list), i, one)
    {
        const char *called = json_string_value(json_object_get(one, "name"));

        if (called && strcmp(called, name) == 0) {
            *folder = json_string_value(json_object_get(one, "(folder)"));
            return json_object_get(one, member);
        }
    }
    return NULL;
}

static const char *text(const json_t *object, const char *name)
{
    const char *value = json_string_value(json_object_get(object, name));

    return value && *value ? value : NULL;
}

static bool copy(const char *from, char **to)
{
    return !from || (*to = strdup(from)) != NULL;
}

static bool copy_path(const char *from, const char *folder, char **to)
{
    if (!from)
        return true;
    if (asprintf(to, "%s%s", *from == '/' || !folder ? "" : folder, from) >= 0)
        return true;
    *to = NULL;
    return false;
}

/* "...-data": PEM in base64. */
static enum tenure_status copy_data(const json_t *object, const char *name, char **to,
                                    struct tenure_error *err)
{
    const char *from = text(object, name);
    size_t len = from ? strlen(from) : 0, n = 0;
    char *bytes = from ? malloc(len / 4 * 3 + 4) : NULL;

    if (!from)
        return TENURE_OK;
    if (!bytes)
        return tenure_fail(err, TENURE_NOMEM, "kube: out of memory");
    if (!tn_base64_decode(from, len, bytes, &n) || memchr(bytes, '\0', n)) {
        free(bytes);
        return tenure_fail(err, TENURE_CONFIG, "%s is not base64", name);
    }
    bytes[n] = '\0';
    *to = bytes;
    return TENURE_OK;
}

/* ---- Taking -------------------------------------------------------------- */

/* What would be wrong to leave out without a word. */
static enum tenure_status refuse_unknown(const json_t *object, const char *const *names,
                                         struct tenure_error *err)
{
    for (; *names; names++) {
        if (json_object_get(object, *names))
            return tenure_fail(err, TENURE_UNSUPPORTED, "%s is not supported", *names);
    }
    return TENURE_OK;
}

static enum tenure_status take_cluster(const json_t *cluster, const char *folder,
                                       struct tn_kube_access *a, struct tenure_error *err)
{
    static const char *const others[] = {"tls-server-name", "proxy-url", NULL};
    const char *blind = text(cluster, "insecure-skip-tls-verify");
    enum tenure_status status = refuse_unknown(cluster, others, err);

    if (!status)
        status = copy_data(cluster, "certificate-authority-data", &a->ca_data, err);
    if (status)
        return status;
    if (!text(cluster, "server"))
        return tenure_fail(err, TENURE_CONFIG, "the cluster has no server");
    a->http.blind = blind && strcmp(blind, "true") == 0;
    if (!copy(text(cluster, "server"), &a->server) ||
        (!a->ca_data && !copy_path(text(cluster, "certificate-authority"), folder, &a->ca_file)))
        return tenure_fail(err, TENURE_NOMEM, "out of memory");
    return TENURE_OK;
}

static enum tenure_status take_user(const json_t *user, const char *folder,
                                    struct tn_kube_access *a, struct tenure_error *err)
{
    static const char *const others[] = {"username",  "password",      "as", "as-uid",
                                         "as-groups", "auth-provider", NULL};
    const json_t *exec = json_object_get(user, "exec");
    enum tenure_status status = refuse_unknown(user, others, err);

    if (!status)
        status = copy_data(user, "client-certificate-data", &a->cert_data, err);
    if (!status)
        status = copy_data(user, "client-key-data", &a->key_data, err);
    if (status)
        return status;
    if ((!a->cert_data && !copy_path(text(user, "client-certificate"), folder, &a->cert_file)) ||
        (!a->key_data && !copy_path(text(user, "client-key"), folder, &a->key_file)) ||
        !copy_path(text(user, "tokenFile"), folder, &a->token_file) ||
        (!a->token_file && !copy(text(user, "token"), &a->token)))
        return tenure_fail(err, TENURE_NOMEM, "out of memory");
    if ((a->cert_data || a->cert_file) != (a->key_data || a->key_file))
        return tenure_fail(err, TENURE_CONFIG,
                           "a client certificate needs its key, and the key it");
    if (exec && !text(exec, "command"))
        return tenure_fail(err, TENURE_CONFIG, "exec has no command");
    if (exec && !(a->exec = json_deep_copy(exec)))
        return tenure_fail(err, TENURE_NOMEM, "out of memory");
    /* A command with a slash in it is relative to the file, as paths are. */
    if (exec && folder && *text(exec, "command") != '/' && strchr(text(exec, "command"), '/'))
        json_object_set_new(a->exec, "command",
                            json_sprintf("%s%s", folder, text(exec, "command")));
    return TENURE_OK;
}

static enum tenure_status read_context(const json_t *all, const char *wanted, const char *paths,
                                       struct tn_kube_access *a, struct tenure_error *err)
{
    const char *name = wanted ? wanted : text(all, "current-context"), *folder = NULL;
    const json_t *context = name ? entry(all, "contexts", name, "context", &folder) : NULL;
    enum tenure_status status;

    if (!name)
        return tenure_fail(err, TENURE_CONFIG,
                           "it has no current-context; name one with ?context=NAME");
    if (!context || !text(context, "cluster"))
        return tenure_fail(err, TENURE_CONFIG, "it has no context '%.60s'", name);
    const char *cluster_name = text(context, "cluster"), *user_name = text(context, "user");
    const json_t *cluster = entry(all, "clusters", cluster_name, "cluster", &folder);
    if (!cluster)
        return tenure_fail(err, TENURE_CONFIG, "it has no cluster '%.60s'", cluster_name);
    if (!copy(text(context, "namespace"), &a->namespace) || !copy(paths, &a->where))
        return tenure_fail(err, TENURE_NOMEM, "out of memory");
    status = take_cluster(cluster, folder, a, err);
    if (status || !user_name)
        return status;
    const json_t *user = entry(all, "users", user_name, "user", &folder);
    return user ? take_user(user, folder, a, err)
                : tenure_fail(err, TENURE_CONFIG, "it has no user '%.60s'", user_name);
}

enum tenure_status tn_kube_config_load(const char *paths, const char *context,
                                       struct tn_kube_access *access, struct tenure_error *err)
{
    json_t *all = json_object();
    enum tenure_status status =
        all ? read_all(paths, all, err) : tenure_fail(err, TENURE_NOMEM, "kube: out of memory");

    if (!status) {
        status = read_context(all, context, paths, access, err);
        if (status)
            tenure_fail_context(err, "kube: %s", paths);
    }
    json_decref(all);
    return status;
}
