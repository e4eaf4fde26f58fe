/*
 * http/certificate.h - the certificate that clients are shown, which may be
 * replaced while connections are open.
 *
 * Each handshake takes the pair apart again and gives it away: nothing that a
 * handshake uses is ours to free, and a new pair holds from the next one on.
 */
#ifndef TN_HTTP_CERTIFICATE_H
#define TN_HTTP_CERTIFICATE_H

#include <gnutls/abstract.h>

#include "http/server.h"

/* Show that one from now on.  CONFIG if they are no pair, in PEM; then the former one stays.
 * Before the server starts, or on its thread. */
enum tenure_status tn_certificate_set(struct tn_http_server *s, const char *cert, const char *key,
                                      struct tenure_error *err);
/* Trust clients of these authorities, and no others, from now on.  CONFIG as above. */
enum tenure_status tn_certificate_trust(struct tn_http_server *s, const char *authority,
                                        struct tenure_error *err);
/* Has the client of that session shown a certificate of theirs?  On the server's thread. */
bool tn_certificate_trusts(const struct tn_http_server *s, gnutls_session_t session);
void tn_certificate_free(struct tn_http_server *s);
/* This thread is that server's.  Called before any handshake of it. */
void tn_certificate_here(struct tn_http_server *s);
/* What GnuTLS calls: a gnutls_certificate_retrieve_function3. */
int tn_certificate_retrieve(gnutls_session_t session, const struct gnutls_cert_retr_st *info,
                            gnutls_pcert_st **certs, unsigned *n, gnutls_ocsp_data_st **ocsp,
                            unsigned *n_ocsp, gnutls_privkey_t *key, unsigned *flags);

#endif
