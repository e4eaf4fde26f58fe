/*
 * store/kube/access.h - where the API server is, and who we are to it: from a
 * kubeconfig, or from the service account of the pod that we run in.
 */
#ifndef TN_STORE_KUBE_ACCESS_H
#define TN_STORE_KUBE_ACCESS_H

#include <jansson.h>

#include "store/http/http.h"
#include "tenure/status.h"

#define TN_KUBE_FILE_MAX (1u << 20) /* bytes in a kubeconfig, a certificate or a token's file */

/* All strings are owned. */
struct tn_kube_access {
    char *server;    /* "https://host:port", perhaps with a path, without a slash at its end */
    char *where;     /* what it comes from, for messages */
    char *namespace; /* NULL: "default" */
    struct tn_http_conf http;
    char *ca_file, *cert_file, *key_file, *ca_data, *cert_data, *key_data;
    char *token;      /* as it is given */
    char *token_file; /* read again for every request, because it is rotated */
    json_t *exec;     /* the plug-in; its answer stays until it expires or is refused: */
    char *exec_token, *exec_cert, *exec_key;
    bool exec_done;
    int64_t exec_until; /* on CLOCK_BOOTTIME */
};

/* What a store URL may say. */
struct tn_kube_choice {
    const char *kubeconfig;     /* NULL: $KUBECONFIG, the pod's service account, ~/.kube/config */
    const char *context;        /* NULL: the current one */
    const char *serviceaccount; /* the folder of one; NULL: where pods have it */
};

/* DENIED or CONFIG: a file is missing or makes no sense.  Connects to nothing. */
enum tenure_status tn_kube_access_load(const struct tn_kube_choice *choice,
                                       struct tn_kube_access *access, struct tenure_error *err);
/* Accepts a zeroed struct. */
void tn_kube_access_free(struct tn_kube_access *access);

/*
 * The header that says who we are: *header is NULL if none is needed, else free
 * it with tn_secret_free().  May run a plug-in, until deadline.
 */
enum tenure_status tn_kube_access_header(struct tn_kube_access *access, int64_t deadline,
                                         char **header, struct tenure_error *err);
/* The server refused us.  True if asking for a fresh header is worth a try. */
bool tn_kube_access_refused(struct tn_kube_access *access);

/* ---- config.c: kubeconfig files, ':' between several; the first word on anything counts. */
enum tenure_status tn_kube_config_load(const char *paths, const char *context,
                                       struct tn_kube_access *access, struct tenure_error *err);

/* ---- yaml.c */

/*
 * YAML as JSON in which every scalar is a string.  Aliases are refused: nobody
 * needs them here, and they are how a small file becomes a huge one.
 */
json_t *tn_kube_yaml(const char *text, size_t len, struct tenure_error *err);

/* ---- exec.c */

/* Run the plug-in and take what it prints into access. */
enum tenure_status tn_kube_exec(struct tn_kube_access *access, int64_t deadline,
                                struct tenure_error *err);
/* The second half of it.  DENIED if it is no credential; then access is untouched. */
enum tenure_status tn_kube_exec_take(struct tn_kube_access *access, const char *out,
                                     struct tenure_error *err);

/* ---- access.c */

/* A whole file, terminated; NULL on failure.  Free with tn_secret_free(). */
char *tn_kube_file(const char *path, size_t *len, struct tenure_error *err);

#endif
