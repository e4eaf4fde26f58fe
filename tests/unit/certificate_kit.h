/* tests/unit/certificate_kit.h - authorities and certificates, made when a test needs them. */
#ifndef TN_TESTS_CERTIFICATE_KIT_H
#define TN_TESTS_CERTIFICATE_KIT_H

#include <assert.h>
#include <gnutls/x509.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

struct pair {
    gnutls_x509_crt_t crt;
    gnutls_x509_privkey_t key;
};

#define GNUTLS(call) assert((call) >= 0)

static inline void write_text(const char *folder, const char *name, const void *bytes, size_t n)
{
    char path[256];

    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "we");
    assert(f && fwrite(bytes, 1, n, f) == n && fchmod(fileno(f), 0600) == 0);
    fclose(f);
}

/* NAME.pem and NAME.key in the folder.  issuer: NULL: an authority.  days: until it expires. */
static inline struct pair make_pair(const char *folder, const char *name, const char *host,
                                    int days, const struct pair *issuer)
{
    static unsigned char serial;
    struct pair made;
    gnutls_datum_t text;
    char file[64];
    time_t now = time(NULL);

    serial++;
    GNUTLS(gnutls_x509_privkey_init(&made.key));
    GNUTLS(gnutls_x509_privkey_generate(made.key, GNUTLS_PK_ECDSA,
                                        GNUTLS_CURVE_TO_BITS(GNUTLS_ECC_CURVE_SECP256R1), 0));
    GNUTLS(gnutls_x509_crt_init(&made.crt));
    GNUTLS(gnutls_x509_crt_set_version(made.crt, 3));
    GNUTLS(gnutls_x509_crt_set_serial(made.crt, &serial, 1));
    GNUTLS(gnutls_x509_crt_set_activation_time(made.crt, now - 86400 * 9));
    GNUTLS(gnutls_x509_crt_set_expiration_time(made.crt, now + 86400 * days));
    GNUTLS(gnutls_x509_crt_set_dn_by_oid(made.crt, GNUTLS_OID_X520_COMMON_NAME, 0, name,
                                         (unsigned)strlen(name)));
    GNUTLS(gnutls_x509_crt_set_key(made.crt, made.key));
    GNUTLS(gnutls_x509_crt_set_basic_constraints(made.crt, issuer == NULL, -1));
    GNUTLS(gnutls_x509_crt_set_key_usage(made.crt,
                                         issuer ? GNUTLS_KEY_DIGITAL_SIGNATURE
                                                : GNUTLS_KEY_KEY_CERT_SIGN | GNUTLS_KEY_CRL_SIGN));
    if (host)
        GNUTLS(gnutls_x509_crt_set_subject_alt_name(made.crt, GNUTLS_SAN_DNSNAME, host,
                                                    (unsigned)strlen(host), GNUTLS_FSAN_SET));
    GNUTLS(gnutls_x509_crt_sign2(made.crt, issuer ? issuer->crt : made.crt,
                                 issuer ? issuer->key : made.key, GNUTLS_DIG_SHA256, 0));
    GNUTLS(gnutls_x509_crt_export2(made.crt, GNUTLS_X509_FMT_PEM, &text));
    snprintf(file, sizeof file, "%s.pem", name);
    write_text(folder, file, text.data, text.size);
    gnutls_free(text.data);
    GNUTLS(gnutls_x509_privkey_export2(made.key, GNUTLS_X509_FMT_PEM, &text));
    snprintf(file, sizeof file, "%s.key", name);
    write_text(folder, file, text.data, text.size);
    gnutls_free(text.data);
    return made;
}

static inline void free_pair(struct pair *pair)
{
    gnutls_x509_crt_deinit(pair->crt);
    gnutls_x509_privkey_deinit(pair->key);
}

#endif
