/* Who we are to the API server: choosing, and the header of each request. */
#include "store/kube/access.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "os/secret.h"
#include "tenure/store.h"

#define POD_FOLDER "/var/run/secrets/kubernetes.io/serviceaccount"

/* ---- Files --------------------------------------------------------------- */

char *tn_kube_file(const char *path, size_t *len, struct tenure_error *err)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    char *text = calloc(1, TN_KUBE_FILE_MAX + 2);
    size_t n = 0;
    ssize_t got = -1;

    while (fd >= 0 && text && n <= TN_KUBE_FILE_MAX &&
           (got = read(fd, text + n, TN_KUBE_FILE_MAX + 1 - n)) > 0)
        n += (size_t)got;
    int saved = errno;
    if (fd >= 0)
        close(fd);
    if (text && got == 0 && n <= TN_KUBE_FILE_MAX) {
        char *exact = strndup(text, n);

        explicit_bzero(text, n);
        free(text);
        if (exact && len)
            *len = strlen(exact);
        if (!exact)
            tenure_fail(err, TENURE_NOMEM, "kube: out of memory");
        return exact;
    }
    if (!text)
        tenure_fail(err, TENURE_NOMEM, "kube: out of memory");
    else if (n > TN_KUBE_FILE_MAX)
        tenure_fail(err, TENURE_CONFIG, "kube: %s is longer than a MiB", path);
    else
        tenure_fail(err, saved == EACCES ? TENURE_DENIED : TENURE_CONFIG,
                    "kube: %s: %s; kubeconfig=, KUBECONFIG or what stands in that file must name "
                    "files that can be read",
                    path, strerror(saved));
    free(text);
    return NULL;
}

static char *join(const char *folder, const char *name)
{
    char *path = NULL;

    return asprintf(&path, "%s/%s", folder, name) < 0 ? NULL : path;
}

/* ---- The pod's service account ------------------------------------------- */

static char *first_line(const char *path, struct tenure_error *err)
{
    char *text = tn_kube_file(path, NULL, err);

    if (text)
        text[strcspn(text, "\r\n")] = '\0';
    return text;
}

static enum tenure_status load_pod(const char *folder, struct tn_kube_access *a,
                                   struct tenure_error *err)
{
    const char *host = getenv("KUBERNETES_SERVICE_HOST"), *port = getenv("KUBERNETES_SERVICE_PORT");
    struct tenure_error ignored;
    bool v6 = host && strchr(host, ':');
    char *path = join(folder, "namespace");

    if (!host || !port)
        return free(path), tenure_fail(err, TENURE_CONFIG,
                                       "kube: KUBERNETES_SERVICE_HOST and _PORT are not set: not "
                                       "in a pod; name a kubeconfig with ?kubeconfig=FILE");
    a->namespace = path ? first_line(path, &ignored) : NULL;
    free(path);
    a->token_file = join(folder, "token");
    a->ca_file = join(folder, "ca.crt");
    a->where = strdup(folder);
    if (asprintf(&a->server, v6 ? "https://[%s]:%s" : "https://%s:%s", host, port) < 0)
        a->server = NULL;
    if (!a->token_file || !a->ca_file || !a->where || !a->server)
        return tenure_fail(err, TENURE_NOMEM, "kube: out of memory");
    return access(a->token_file, R_OK) == 0
               ? TENURE_OK
               : tenure_fail(err, TENURE_CONFIG,
                             "kube: %s: %s; has the pod a service account, with "
                             "automountServiceAccountToken?",
                             a->token_file, strerror(errno));
}

/* ---- Choosing ------------------------------------------------------------ */

static enum tenure_status load_home(const struct tn_kube_choice *c, struct tn_kube_access *a,
                                    struct tenure_error *err)
{
    const char *home = getenv("HOME");
    char *path = home ? join(home, ".kube/config") : NULL;
    enum tenure_status status;

    if (path && access(path, R_OK) == 0)
        status = tn_kube_config_load(path, c->context, a, err);
    else
        status = tenure_fail(err, TENURE_CONFIG,
                             "kube: no way to the API server is known: not in a pod, no "
                             "KUBECONFIG, no ~/.kube/config; name one with ?kubeconfig=FILE");
    free(path);
    return status;
}

/* The environment is read because that is where Kubernetes puts these, by its own rules. */
static enum tenure_status choose(const struct tn_kube_choice *c, struct tn_kube_access *a,
                                 struct tenure_error *err)
{
    const char *named = getenv("KUBECONFIG");

    if (c->serviceaccount && (c->kubeconfig || c->context))
        return tenure_fail(err, TENURE_CONFIG,
                           "kube: give serviceaccount, or kubeconfig and context, not both");
    if (c->serviceaccount)
        return load_pod(c->serviceaccount, a, err);
    if (c->kubeconfig)
        return tn_kube_config_load(c->kubeconfig, c->context, a, err);
    if (named && *named)
        return tn_kube_config_load(named, c->context, a, err);
    if (!c->context && getenv("KUBERNETES_SERVICE_HOST") && access(POD_FOLDER "/token", F_OK) == 0)
        return load_pod(POD_FOLDER, a, err);
    return load_home(c, a, err);
}

static enum tenure_status check_server(struct tn_kube_access *a, struct tenure_error *err)
{
    size_t n = strlen(a->server);

    while (n && a->server[n - 1] == '/')
        a->server[--n] = '\0';
    if ((strncmp(a->server, "https://", 8) != 0 && strncmp(a->server, "http://", 7) != 0) ||
        strpbrk(a->server, "@?# \r\n") || n > 1024)
        return tenure_fail(err, TENURE_CONFIG,
                           "kube: %s: the server must read https://host:port, without user, query "
                           "or fragment",
                           a->where);
    return TENURE_OK;
}

static void point(struct tn_kube_access *a)
{
    a->http.ca_file = a->ca_file;
    a->http.ca_data = a->ca_data;
    a->http.cert_file = a->cert_file;
    a->http.key_file = a->key_file;
    a->http.cert_data = a->exec_cert ? a->exec_cert : a->cert_data;
    a->http.key_data = a->exec_key ? a->exec_key : a->key_data;
}

enum tenure_status tn_kube_access_load(const struct tn_kube_choice *choice,
                                       struct tn_kube_access *access_out, struct tenure_error *err)
{
    struct tn_kube_access a = {0};
    enum tenure_status status = choose(choice, &a, err);

    if (!status)
        status = check_server(&a, err);
    if (status) {
        tn_kube_access_free(&a);
        return status;
    }
    a.http.cancel_fd = -1;
    point(&a);
    *access_out = a;
    return TENURE_OK;
}

void tn_kube_access_free(struct tn_kube_access *a)
{
    char *plain[] = {a->server,   a->where,   a->namespace, a->ca_file,   a->cert_file,
                     a->key_file, a->ca_data, a->cert_data, a->token_file};
    char *secret[] = {a->token, a->key_data, a->exec_token, a->exec_cert, a->exec_key};

    for (size_t i = 0; i < sizeof plain / sizeof plain[0]; i++)
        free(plain[i]);
    for (size_t i = 0; i < sizeof secret / sizeof secret[0]; i++)
        tn_secret_free(secret[i]);
    json_decref(a->exec);
    memset(a, 0, sizeof *a);
}

/* ---- Headers ------------------------------------------------------------- */

static enum tenure_status bearer(const char *token, char **header, struct tenure_error *err)
{
    if (strpbrk(token, "\r\n") || !*token)
        return tenure_fail(err, TENURE_CONFIG, "kube: the token is empty, or has line breaks");
    if (asprintf(header, "Authorization: Bearer %s", token) < 0) {
        *header = NULL;
        return tenure_fail(err, TENURE_NOMEM, "kube: out of memory");
    }
    return TENURE_OK;
}

enum tenure_status tn_kube_access_header(struct tn_kube_access *a, int64_t deadline, char **header,
                                         struct tenure_error *err)
{
    enum tenure_status status = TENURE_OK;
    char *text;

    *header = NULL;
    if (a->token_file) {
        text = first_line(a->token_file, err);
        if (!text)
            return err->code;
        status = bearer(text, header, err);
        if (status)
            tenure_fail_context(err, "%s", a->token_file);
        tn_secret_free(text);
        return status;
    }
    if (a->token)
        return bearer(a->token, header, err);
    if (!a->exec)
        return TENURE_OK;
    if (!a->exec_done || tenure_now() >= a->exec_until) {
        status = tn_kube_exec(a, deadline, err);
        if (status)
            return status;
        point(a);
    }
    return a->exec_token ? bearer(a->exec_token, header, err) : TENURE_OK;
}

bool tn_kube_access_refused(struct tn_kube_access *a)
{
    a->exec_done = false;
    return a->exec || a->token_file;
}
