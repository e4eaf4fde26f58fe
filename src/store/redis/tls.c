/* TLS by OpenSSL: chain and name verified unless the URL says verify=none. */
#include "store/redis/tls.h"

#include <arpa/inet.h>
#include <errno.h>
#include <limits.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

/* The oldest error says what was wrong; the later ones where it surfaced. */
static void reason(char why[TN_REDIS_TLS_WHY], const char *fallback)
{
    const char *text = ERR_reason_error_string(ERR_peek_error());

    snprintf(why, TN_REDIS_TLS_WHY, "%s", text ? text : fallback);
    ERR_clear_error();
}

/* ---- The socket, without SIGPIPE ----------------------------------------- */

static int bio_write(BIO *bio, const char *data, int n)
{
    int fd = (int)(intptr_t)BIO_get_data(bio);
    ssize_t done = send(fd, data, (size_t)n, MSG_NOSIGNAL);

    BIO_clear_retry_flags(bio);
    if (done < 0 && (errno == EAGAIN || errno == EINTR))
        BIO_set_retry_write(bio);
    return (int)done;
}

static int bio_read(BIO *bio, char *data, int n)
{
    int fd = (int)(intptr_t)BIO_get_data(bio);
    ssize_t done = recv(fd, data, (size_t)n, 0);

    BIO_clear_retry_flags(bio);
    if (done < 0 && (errno == EAGAIN || errno == EINTR))
        BIO_set_retry_read(bio);
    return (int)done;
}

static long bio_ctrl(BIO *bio, int cmd, long number, void *pointer)
{
    (void)bio;
    (void)number;
    (void)pointer;
    return cmd == BIO_CTRL_FLUSH;
}

static BIO *bio_new(int fd)
{
    static BIO_METHOD *method; /* made once; the store's lock is not held, a race wastes one */
    BIO_METHOD *m = __atomic_load_n(&method, __ATOMIC_ACQUIRE);
    BIO *bio;

    if (!m) {
        m = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "tenure socket");
        if (!m || !BIO_meth_set_write(m, bio_write) || !BIO_meth_set_read(m, bio_read) ||
            !BIO_meth_set_ctrl(m, bio_ctrl))
            return NULL;
        __atomic_store_n(&method, m, __ATOMIC_RELEASE);
    }
    bio = BIO_new(m);
    if (bio) {
        BIO_set_data(bio, (void *)(intptr_t)fd);
        BIO_set_init(bio, 1);
    }
    return bio;
}

/* ---- A session ----------------------------------------------------------- */

/* An encrypted key is an error, not a prompt on somebody's terminal. */
static int no_prompt(char *out, int size, int writing, void *arg)
{
    (void)out;
    (void)size;
    (void)writing;
    (void)arg;
    return -1;
}

static enum tenure_status load_files(SSL_CTX *ctx, const struct tn_redis_conf *conf,
                                     struct tenure_error *err)
{
    char why[TN_REDIS_TLS_WHY];

    SSL_CTX_set_default_passwd_cb(ctx, no_prompt);
    if (conf->remote.ca_file ? SSL_CTX_load_verify_file(ctx, conf->remote.ca_file) != 1
                             : SSL_CTX_set_default_verify_paths(ctx) != 1) {
        reason(why, "cannot be read");
        return tenure_fail(err, TENURE_CONFIG, "ca_file %s: %s",
                           conf->remote.ca_file ? conf->remote.ca_file : "of the system", why);
    }
    if (conf->remote.cert_file &&
        SSL_CTX_use_certificate_chain_file(ctx, conf->remote.cert_file) != 1) {
        reason(why, "cannot be read");
        return tenure_fail(err, TENURE_CONFIG, "cert_file %s: %s", conf->remote.cert_file, why);
    }
    if (conf->remote.key_file &&
        (SSL_CTX_use_PrivateKey_file(ctx, conf->remote.key_file, SSL_FILETYPE_PEM) != 1 ||
         SSL_CTX_check_private_key(ctx) != 1)) {
        reason(why, "cannot be read");
        return tenure_fail(err, TENURE_CONFIG, "key_file %s: %s", conf->remote.key_file, why);
    }
    return TENURE_OK;
}

/* Whom the certificate must be for: an address or a name. */
static bool expect_name(SSL *ssl, const char *name)
{
    unsigned char raw[16];

    if (inet_pton(AF_INET, name, raw) == 1 || inet_pton(AF_INET6, name, raw) == 1)
        return X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), name) == 1;
    SSL_set_hostflags(ssl, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    /* SSL_set_tlsext_host_name() spelled out: the macro drops the const, which clang refuses. */
    return SSL_set1_host(ssl, name) == 1 &&
           SSL_ctrl(ssl, SSL_CTRL_SET_TLSEXT_HOSTNAME, TLSEXT_NAMETYPE_host_name,
                    (void *)(uintptr_t)name) == 1;
}

static enum tenure_status tls_open(const struct tn_redis_conf *conf, const char *name, int fd,
                                   void **session, struct tenure_error *err)
{
    SSL_CTX *ctx = SSL_CTX_new(TLS_client_method());
    SSL *ssl = NULL;
    BIO *bio = NULL;
    enum tenure_status status = TENURE_OK;

    if (!ctx || SSL_CTX_set_min_proto_version(ctx, TLS1_2_VERSION) != 1) {
        status = tenure_fail(err, TENURE_NOMEM, "TLS: out of memory");
        goto done;
    }
    if ((status = load_files(ctx, conf, err)))
        goto done;
    SSL_CTX_set_verify(ctx, conf->remote.blind ? SSL_VERIFY_NONE : SSL_VERIFY_PEER, NULL);
    SSL_CTX_set_mode(ctx, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                              SSL_MODE_RELEASE_BUFFERS);
    ssl = SSL_new(ctx);
    bio = bio_new(fd);
    if (!ssl || !bio || !expect_name(ssl, name)) {
        BIO_free(bio);
        SSL_free(ssl);
        status = tenure_fail(err, TENURE_CONFIG, "TLS: '%.100s' is not a server's name", name);
        goto done;
    }
    SSL_set_bio(ssl, bio, bio);
    SSL_set_connect_state(ssl);
    *session = ssl;
done:
    SSL_CTX_free(ctx);
    ERR_clear_error();
    return status;
}

/* Turn OpenSSL's answer into the table's. */
static int outcome(SSL *ssl, int rc, short *want, char why[TN_REDIS_TLS_WHY])
{
    long verified = SSL_get_verify_result(ssl);

    switch (SSL_get_error(ssl, rc)) {
    case SSL_ERROR_WANT_READ:
        *want = POLLIN;
        return 0;
    case SSL_ERROR_WANT_WRITE:
        *want = POLLOUT;
        return 0;
    case SSL_ERROR_ZERO_RETURN:
        snprintf(why, TN_REDIS_TLS_WHY, "the server closed the connection");
        return -1;
    case SSL_ERROR_SSL:
        if (verified != X509_V_OK && !SSL_is_init_finished(ssl)) {
            snprintf(why, TN_REDIS_TLS_WHY, "the server's certificate is refused: %s",
                     X509_verify_cert_error_string(verified));
            ERR_clear_error();
        } else {
            reason(why, "protocol error");
        }
        return -1;
    default:
        snprintf(why, TN_REDIS_TLS_WHY, "%s",
                 rc < 0 && errno ? strerror(errno) : "the server closed the connection");
        ERR_clear_error();
        return -1;
    }
}

static int tls_handshake(void *session, short *want, char why[TN_REDIS_TLS_WHY])
{
    ERR_clear_error();
    errno = 0;
    int rc = SSL_do_handshake(session);
    if (rc == 1)
        return 1;
    bool refused = SSL_get_error(session, rc) == SSL_ERROR_SSL;
    bool plain = refused && ERR_GET_REASON(ERR_peek_error()) == SSL_R_WRONG_VERSION_NUMBER;
    rc = outcome(session, rc, want, why);
    if (plain)
        snprintf(why, TN_REDIS_TLS_WHY, "the server does not speak TLS on this port");
    return refused ? -2 : rc;
}

static ssize_t tls_read(void *session, void *data, size_t n, short *want,
                        char why[TN_REDIS_TLS_WHY])
{
    ERR_clear_error();
    errno = 0;
    int rc = SSL_read(session, data, n > INT_MAX ? INT_MAX : (int)n);
    return rc > 0 ? rc : outcome(session, rc, want, why);
}

static ssize_t tls_write(void *session, const void *data, size_t n, short *want,
                         char why[TN_REDIS_TLS_WHY])
{
    ERR_clear_error();
    errno = 0;
    int rc = SSL_write(session, data, n > INT_MAX ? INT_MAX : (int)n);
    return rc > 0 ? rc : outcome(session, rc, want, why);
}

static void tls_close(void *session)
{
    SSL_free(session);
    ERR_clear_error();
}

static const struct tn_redis_tls_ops ops = {
    .open = tls_open,
    .handshake = tls_handshake,
    .read = tls_read,
    .write = tls_write,
    .close = tls_close,
};

const struct tn_redis_tls_ops *const tn_redis_tls = &ops;
