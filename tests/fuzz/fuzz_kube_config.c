/* A kubeconfig of somebody's, and what a plug-in prints: refused with a reason, or complete. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "check.h"
#include "os/secret.h"
#include "store/kube/access.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_config(const char *path)
{
    struct tn_kube_access a = {0};
    struct tenure_error err = {0};
    enum tenure_status status = tn_kube_config_load(path, NULL, &a, &err);

    if (status) {
        check_refusal(&err, status);
    } else {
        assert(a.server && a.server[0] && strcmp(a.where, path) == 0);
        assert((a.cert_data || a.cert_file) == (a.key_data || a.key_file));
        assert(!a.token || !a.token_file);
        assert(!a.ca_data || !a.ca_file);
        assert(!a.exec || json_is_string(json_object_get(a.exec, "command")));
    }
    tn_kube_access_free(&a);
}

static void check_exec(const char *text)
{
    struct tn_kube_access a = {.exec = json_pack("{s:s}", "command", "plug-in")};
    struct tenure_error err = {0};
    enum tenure_status status = tn_kube_exec_take(&a, text, &err);

    if (status) {
        check_refusal(&err, status);
        assert(!a.exec_done && !a.exec_token && !a.exec_cert && !a.exec_key);
    } else {
        assert(a.exec_done && (a.exec_token || a.exec_cert) && !a.exec_cert == !a.exec_key);
        assert(a.exec_until > 0);
    }
    tn_kube_access_free(&a);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char path[64], *text = strndup((const char *)data, size);
    int fd = memfd_create("kubeconfig", MFD_CLOEXEC);

    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (text && fd >= 0 && write(fd, data, size) == (ssize_t)size)
        check_config(path);
    if (text)
        check_exec(text);
    if (fd >= 0)
        close(fd);
    free(text);
    return 0;
}
