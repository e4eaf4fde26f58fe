/* The listener's certificate: read from files, and again when they have been replaced. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "api/inner.h"
#include "os/log.h"

#define PEM_MAX  65536
#define CHECK_NS INT64_C(1000000000)

/* A PEM file as text.  NULL with a reason. */
static char *read_pem(const char *path, struct tenure_error *err)
{
    FILE *f = fopen(path, "re");
    char *text = calloc(1, PEM_MAX + 1);
    size_t n = f && text ? fread(text, 1, PEM_MAX, f) : 0;

    if (n == 0 || !strstr(text, "-----BEGIN")) {
        tenure_fail(err, TENURE_CONFIG, "%s: %s", path, f ? "not a PEM file" : strerror(errno));
        free(text);
        text = NULL;
    }
    if (f)
        fclose(f);
    return text;
}

static void wipe(char *key)
{
    if (key)
        explicit_bzero(key, strlen(key));
    free(key);
}

/* ---- Replaced? ----------------------------------------------------------- */

/* What is known of a file now.  true: it is another one than the last time. */
static bool has_changed(struct tn_tls_watch *w, int which, const char *path, struct stat *st)
{
    return stat(path, st) == 0 &&
           (st->st_mtim.tv_sec != w->mark[which].s || st->st_mtim.tv_nsec != w->mark[which].ns ||
            st->st_ino != w->mark[which].inode || (uint64_t)st->st_size != w->mark[which].size);
}

static void remember(struct tn_tls_watch *w, int which, const struct stat *st)
{
    w->mark[which].s = st->st_mtim.tv_sec;
    w->mark[which].ns = st->st_mtim.tv_nsec;
    w->mark[which].inode = st->st_ino;
    w->mark[which].size = (uint64_t)st->st_size;
}

/* Two files are never replaced at one instant: until they are a pair, the former ones hold. */
static void read_again(struct tn_api *api, struct tn_http_server *server, const struct stat st[2])
{
    struct tn_tls_watch *w = &api->tls_watch;
    struct tenure_error err = {0};
    char *cert = read_pem(w->cert_file, &err);
    char *key = cert ? read_pem(w->key_file, &err) : NULL;

    if (!key || api->http->certificate(server, cert, key, &err) != TENURE_OK) {
        if (!w->complained)
            tn_log("certificate-kept", "the certificate stays as it was: %s", err.text);
        w->complained = true;
        free(cert);
        wipe(key);
        return;
    }
    if (strcmp(cert, api->cert) != 0 || strcmp(key, api->key) != 0)
        tn_log("certificate", "%s was replaced: clients are shown the new one", w->cert_file);
    w->complained = false;
    remember(w, 0, &st[0]);
    remember(w, 1, &st[1]);
    free(api->cert);
    wipe(api->key);
    api->cert = cert;
    api->key = key;
}

/* Whom to trust is a file by itself. */
static void read_ca_again(struct tn_api *api, struct tn_http_server *server, const struct stat *st)
{
    struct tn_tls_watch *w = &api->tls_watch;
    struct tenure_error err = {0};
    char *ca = read_pem(w->ca_file, &err);

    if (!ca || api->http->trust(server, ca, &err) != TENURE_OK) {
        if (!w->ca_complained)
            tn_log("certificate-kept", "the clients' authority stays as it was: %s", err.text);
        w->ca_complained = true;
        free(ca);
        return;
    }
    if (strcmp(ca, api->client_ca) != 0)
        tn_log("certificate", "%s was replaced: clients of that authority are trusted, no others",
               w->ca_file);
    w->ca_complained = false;
    remember(w, 2, st);
    free(api->client_ca);
    api->client_ca = ca;
}

void tn_api_tls_due(void *arg, struct tn_http_server *server)
{
    struct tn_api *api = arg;
    struct tn_tls_watch *w = &api->tls_watch;
    struct stat st[3] = {0};

    pthread_mutex_lock(&w->lock);
    int64_t now = tenure_now();
    if (now - w->checked_ns >= CHECK_NS) {
        w->checked_ns = now;
        bool cert = has_changed(w, 0, w->cert_file, &st[0]),
             key = has_changed(w, 1, w->key_file, &st[1]);

        if ((cert || key) && st[0].st_ino && st[1].st_ino)
            read_again(api, server, st);
        if (w->ca_file && has_changed(w, 2, w->ca_file, &st[2]))
            read_ca_again(api, server, &st[2]);
    }
    /* Another listener may have been asked first. */
    api->http->certificate(server, api->cert, api->key, NULL);
    if (w->ca_file)
        api->http->trust(server, api->client_ca, NULL);
    pthread_mutex_unlock(&w->lock);
}

/* ---- Life ---------------------------------------------------------------- */

enum tenure_status tn_api_tls_open(struct tn_api *api, const struct tn_api_options *o,
                                   struct tenure_error *err)
{
    struct tn_tls_watch *w = &api->tls_watch;
    struct stat st[3] = {0};

    pthread_mutex_init(&w->lock, NULL);
    w->cert_file = o->tls_cert;
    w->key_file = o->tls_key;
    w->ca_file = o->tls_client_ca;
    if (!o->tls_cert != !o->tls_key)
        return tenure_fail(err, TENURE_CONFIG, "TLS needs both a certificate and its key");
    if (o->tls_client_ca && !o->tls_cert)
        return tenure_fail(err, TENURE_CONFIG,
                           "clients' certificates need TLS: give a "
                           "certificate and a key");
    if (!o->tls_cert)
        return TENURE_OK;
    /* The marks first: what is replaced meanwhile is read again. */
    if (has_changed(w, 0, o->tls_cert, &st[0]))
        remember(w, 0, &st[0]);
    if (has_changed(w, 1, o->tls_key, &st[1]))
        remember(w, 1, &st[1]);
    if (o->tls_client_ca && has_changed(w, 2, o->tls_client_ca, &st[2]))
        remember(w, 2, &st[2]);
    w->checked_ns = tenure_now();
    if (!(api->cert = read_pem(o->tls_cert, err)) || !(api->key = read_pem(o->tls_key, err)) ||
        (o->tls_client_ca && !(api->client_ca = read_pem(o->tls_client_ca, err))))
        return TENURE_CONFIG;
    return TENURE_OK;
}

void tn_api_tls_close(struct tn_api *api)
{
    free(api->cert);
    wipe(api->key);
    free(api->client_ca);
    pthread_mutex_destroy(&api->tls_watch.lock);
}
