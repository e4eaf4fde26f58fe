/* Certificates: read from files, and again when they have been replaced. */
#include <gnutls/x509.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "replica/link/inner.h"

#define CHECK_NS INT64_C(1000000000)
#define PRIORITY "NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2"

struct mark {
    int64_t s, ns;
    uint64_t inode, size;
};

/* A session uses them to its end; the last one frees them. */
struct tn_credentials {
    gnutls_certificate_credentials_t gnutls;
    gnutls_priority_t priority;
    unsigned users;
    int64_t checked_ns;
    struct mark mark[3];
};

static void release(struct tn_credentials *c)
{
    if (!c || --c->users > 0)
        return;
    if (c->gnutls)
        gnutls_certificate_free_credentials(c->gnutls);
    if (c->priority)
        gnutls_priority_deinit(c->priority);
    free(c);
}

static void read_marks(const struct tn_transport_conf *conf, struct mark mark[3])
{
    const char *const files[] = {conf->tls_cert, conf->tls_key, conf->tls_ca};
    struct stat st;

    for (unsigned i = 0; i < 3; i++) {
        memset(&mark[i], 0, sizeof mark[i]);
        if (files[i] && stat(files[i], &st) == 0)
            mark[i] = (struct mark){st.st_mtim.tv_sec, st.st_mtim.tv_nsec, st.st_ino,
                                    (uint64_t)st.st_size};
    }
}

static enum tenure_status load(const struct tn_transport_conf *conf, struct tn_credentials *c,
                               struct tenure_error *err)
{
    int code = gnutls_certificate_allocate_credentials(&c->gnutls);

    if (code < 0 || (code = gnutls_priority_init(&c->priority, PRIORITY, NULL)) < 0)
        return tenure_fail(err, TENURE_NOMEM, "TLS: %s", gnutls_strerror(code));
    if (conf->tls_ca) {
        code = gnutls_certificate_set_x509_trust_file(c->gnutls, conf->tls_ca, GNUTLS_X509_FMT_PEM);
        if (code <= 0)
            return tenure_fail(err, TENURE_CONFIG, "%s holds no certificate of an authority: %s",
                               conf->tls_ca, code < 0 ? gnutls_strerror(code) : "it is empty");
    } else {
        gnutls_certificate_set_x509_system_trust(c->gnutls);
    }
    if (conf->tls_cert) {
        code = gnutls_certificate_set_x509_key_file(c->gnutls, conf->tls_cert, conf->tls_key,
                                                    GNUTLS_X509_FMT_PEM);
        if (code < 0)
            return tenure_fail(err, TENURE_CONFIG, "%s and %s are no certificate with its key: %s",
                               conf->tls_cert, conf->tls_key, gnutls_strerror(code));
    }
    return TENURE_OK;
}

static enum tenure_status renew(struct tn_transport *t, struct tenure_error *err)
{
    struct tn_credentials *c = calloc(1, sizeof *c);

    if (!c)
        return tenure_fail(err, TENURE_NOMEM, "out of memory");
    c->users = 1;
    c->checked_ns = tenure_now();
    read_marks(&t->conf, c->mark);
    enum tenure_status status = load(&t->conf, c, err);
    if (status) {
        release(c);
        return status;
    }
    release(t->credentials);
    t->credentials = c;
    return TENURE_OK;
}

enum tenure_status tn_tls_open(struct tn_transport *t, struct tenure_error *err)
{
    if (!t->conf.tls_cert != !t->conf.tls_key)
        return tenure_fail(err, TENURE_CONFIG, "a certificate and its key are given together");
    return tn_tls_outbound(&t->conf) ? renew(t, err) : TENURE_OK;
}

void tn_tls_close(struct tn_transport *t)
{
    release(t->credentials);
    t->credentials = NULL;
}

/* Files are never replaced at one instant: until they fit each other, the former ones hold. */
static struct tn_credentials *current(struct tn_transport *t)
{
    struct tn_credentials *c = t->credentials;
    int64_t now = tenure_now();
    struct mark mark[3];

    if (now - c->checked_ns >= CHECK_NS) {
        c->checked_ns = now;
        read_marks(&t->conf, mark);
        if (memcmp(mark, c->mark, sizeof mark) != 0 && renew(t, NULL) == TENURE_OK)
            c = t->credentials;
    }
    c->users++;
    return c;
}

void tn_tls_begin(struct tn_peer *p)
{
    struct tn_transport *t = p->transport;
    const struct tn_target *target = p->target;
    unsigned side = target ? GNUTLS_CLIENT : GNUTLS_SERVER;
    int code = gnutls_init(&p->tls, side | GNUTLS_NONBLOCK | GNUTLS_NO_SIGNAL);

    if (code >= 0) {
        p->credentials = current(t);
        code = gnutls_priority_set(p->tls, p->credentials->priority);
    }
    if (code >= 0)
        code = gnutls_credentials_set(p->tls, GNUTLS_CRD_CERTIFICATE, p->credentials->gnutls);
    if (code < 0) {
        tn_peer_end(p, "TLS: %s", gnutls_strerror(code));
        return;
    }
    gnutls_transport_set_int(p->tls, p->fd);
    gnutls_handshake_set_timeout(p->tls, 0); /* the state has a deadline */
    if (target) {
        gnutls_session_set_verify_cert(p->tls, target->host, 0);
        if (strspn(target->host, "0123456789.:abcdefABCDEF") != strlen(target->host))
            gnutls_server_name_set(p->tls, GNUTLS_NAME_DNS, target->host, strlen(target->host));
    } else if (t->conf.tls_ca) {
        gnutls_certificate_server_set_request(p->tls, GNUTLS_CERT_REQUIRE);
        gnutls_session_set_verify_cert(p->tls, NULL, 0);
    }
}

void tn_tls_end(struct tn_peer *p)
{
    if (p->tls)
        gnutls_deinit(p->tls);
    release(p->credentials);
    p->tls = NULL;
    p->credentials = NULL;
}

void tn_tls_fault(struct tn_peer *p, int code, char out[TN_LINK_WHY_MAX])
{
    gnutls_datum_t text = {0};

    if (code == GNUTLS_E_CERTIFICATE_VERIFICATION_ERROR &&
        gnutls_certificate_verification_status_print(gnutls_session_get_verify_cert_status(p->tls),
                                                     GNUTLS_CRT_X509, &text, 0) == 0) {
        snprintf(out, TN_LINK_WHY_MAX,
                 "its certificate is not accepted: %s Check its name, its dates and its authority",
                 (const char *)text.data);
        gnutls_free(text.data);
    } else if (code == GNUTLS_E_FATAL_ALERT_RECEIVED) {
        snprintf(out, TN_LINK_WHY_MAX,
                 "it refused the TLS handshake (%s): check the certificates of both",
                 gnutls_alert_get_name(gnutls_alert_get(p->tls)));
    } else if (code == GNUTLS_E_NO_CERTIFICATE_FOUND || code == GNUTLS_E_CERTIFICATE_REQUIRED) {
        snprintf(out, TN_LINK_WHY_MAX, "it showed no certificate: give it one of the authority");
    } else {
        snprintf(out, TN_LINK_WHY_MAX, "TLS failed: %s", gnutls_strerror(code));
    }
}
