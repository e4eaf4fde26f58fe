#include "http/certificate.h"

#include <gnutls/x509.h>
#include <stdlib.h>
#include <string.h>

#define CHAIN_MAX 16

/* GnuTLS says for which session, not for which server; but each server has a thread of its own. */
static _Thread_local struct tn_http_server *here;

void tn_certificate_here(struct tn_http_server *s)
{
    here = s;
}

/* ---- A pair, as GnuTLS takes it ------------------------------------------ */

struct pair {
    gnutls_pcert_st *certs; /* gnutls_malloc'ed: it frees them itself */
    unsigned n;
    gnutls_privkey_t key;
};

static gnutls_datum_t datum(char *text)
{
    return (gnutls_datum_t){.data = (unsigned char *)text, .size = (unsigned)strlen(text)};
}

static void pair_free(struct pair *p)
{
    for (unsigned i = 0; i < p->n; i++)
        gnutls_pcert_deinit(&p->certs[i]);
    gnutls_free(p->certs);
    if (p->key)
        gnutls_privkey_deinit(p->key);
    *p = (struct pair){0};
}

/* false: they cannot be read, or there is no memory. */
static bool pair_open(char *cert, char *key, struct pair *p)
{
    gnutls_datum_t chain = datum(cert), secret = datum(key);
    unsigned n = CHAIN_MAX;

    *p = (struct pair){.certs = gnutls_calloc(CHAIN_MAX, sizeof *p->certs)};
    if (p->certs &&
        gnutls_pcert_list_import_x509_raw(p->certs, &n, &chain, GNUTLS_X509_FMT_PEM, 0) == 0)
        p->n = n;
    if (p->n > 0 && gnutls_privkey_init(&p->key) == 0 &&
        gnutls_privkey_import_x509_raw(p->key, &secret, GNUTLS_X509_FMT_PEM, NULL, 0) == 0)
        return true;
    pair_free(p);
    return false;
}

/* The key's public half is that of the first certificate. */
static bool pair_matches(const struct pair *p)
{
    unsigned char a[64], b[64];
    size_t a_len = sizeof a, b_len = sizeof b;
    gnutls_pubkey_t public;
    bool same = false;

    if (gnutls_pubkey_init(&public) != 0)
        return false;
    if (gnutls_pubkey_import_privkey(public, p->key, 0, 0) == 0 &&
        gnutls_pubkey_get_key_id(public, GNUTLS_KEYID_USE_SHA256, a, &a_len) == 0 &&
        gnutls_pubkey_get_key_id(p->certs[0].pubkey, GNUTLS_KEYID_USE_SHA256, b, &b_len) == 0)
        same = a_len == b_len && memcmp(a, b, a_len) == 0;
    gnutls_pubkey_deinit(public);
    return same;
}

/* ---- The one in force ---------------------------------------------------- */

static void wipe(char *key)
{
    if (key)
        explicit_bzero(key, strlen(key));
    free(key);
}

enum tenure_status tn_certificate_set(struct tn_http_server *s, const char *cert, const char *key,
                                      struct tenure_error *err)
{
    struct pair p;

    if (s->cert && s->key && strcmp(s->cert, cert) == 0 && strcmp(s->key, key) == 0)
        return TENURE_OK;
    char *new_cert = strdup(cert), *new_key = strdup(key);
    enum tenure_status status = TENURE_OK;
    if (!new_cert || !new_key)
        status = tenure_fail(err, TENURE_NOMEM, "out of memory");
    else if (!pair_open(new_cert, new_key, &p))
        status =
            tenure_fail(err, TENURE_CONFIG, "certificate or key cannot be read: PEM is needed");
    else {
        if (!pair_matches(&p))
            status = tenure_fail(err, TENURE_CONFIG, "certificate and key are not a pair");
        pair_free(&p);
    }
    if (status) {
        free(new_cert);
        wipe(new_key);
        return status;
    }
    free(s->cert);
    wipe(s->key);
    s->cert = new_cert;
    s->key = new_key;
    return TENURE_OK;
}

/* ---- Whom we trust ------------------------------------------------------- */

enum tenure_status tn_certificate_trust(struct tn_http_server *s, const char *authority,
                                        struct tenure_error *err)
{
    gnutls_x509_trust_list_t list = NULL;

    if (s->authority && strcmp(s->authority, authority) == 0)
        return TENURE_OK;
    char *copy = strdup(authority);
    if (!copy || gnutls_x509_trust_list_init(&list, 0) != 0) {
        free(copy);
        return tenure_fail(err, TENURE_NOMEM, "out of memory");
    }
    gnutls_datum_t text = datum(copy);
    if (gnutls_x509_trust_list_add_trust_mem(list, &text, NULL, GNUTLS_X509_FMT_PEM, 0, 0) <= 0) {
        gnutls_x509_trust_list_deinit(list, 1);
        free(copy);
        return tenure_fail(err, TENURE_CONFIG,
                           "the clients' authority cannot be read: PEM is needed");
    }
    free(s->authority);
    if (s->trusted)
        gnutls_x509_trust_list_deinit(s->trusted, 1);
    s->authority = copy;
    s->trusted = list;
    return TENURE_OK;
}

bool tn_certificate_trusts(const struct tn_http_server *s, gnutls_session_t session)
{
    gnutls_x509_crt_t chain[CHAIN_MAX];
    unsigned sent = 0, n = 0, wrong = 1;
    const gnutls_datum_t *raw = gnutls_certificate_get_peers(session, &sent);
    bool read = raw && sent > 0 && sent <= CHAIN_MAX;

    for (; read && n < sent; n++) {
        if (gnutls_x509_crt_init(&chain[n]) != 0)
            break;
        if (gnutls_x509_crt_import(chain[n], &raw[n], GNUTLS_X509_FMT_DER) != 0) {
            gnutls_x509_crt_deinit(chain[n]);
            break;
        }
    }
    bool well =
        read && n == sent && s->trusted &&
        gnutls_x509_trust_list_verify_crt2(s->trusted, chain, n, NULL, 0, 0, &wrong, NULL) == 0 &&
        wrong == 0;
    while (n > 0)
        gnutls_x509_crt_deinit(chain[--n]);
    return well;
}

void tn_certificate_free(struct tn_http_server *s)
{
    free(s->cert);
    wipe(s->key);
    free(s->authority);
    if (s->trusted)
        gnutls_x509_trust_list_deinit(s->trusted, 1);
    s->cert = s->key = s->authority = NULL;
    s->trusted = NULL;
}

/* ---- A handshake --------------------------------------------------------- */

int tn_certificate_retrieve(gnutls_session_t session, const struct gnutls_cert_retr_st *info,
                            gnutls_pcert_st **certs, unsigned *n, gnutls_ocsp_data_st **ocsp,
                            unsigned *n_ocsp, gnutls_privkey_t *key, unsigned *flags)
{
    struct tn_http_server *s = here;
    struct pair p;

    (void)info;
    if (!s)
        return -1;
    /* The library would name the authorities of the start, and some clients keep to that. */
    gnutls_certificate_send_x509_rdn_sequence(session, 1);
    if (s->options.tls_due)
        s->options.tls_due(s->options.arg, s);
    if (!s->cert || !pair_open(s->cert, s->key, &p))
        return -1;
    *certs = p.certs;
    *n = p.n;
    *ocsp = NULL;
    *n_ocsp = 0;
    *key = p.key;
    *flags = GNUTLS_CERT_RETR_DEINIT_ALL;
    return 0;
}
