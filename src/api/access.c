/* Who may ask, and who may change something. */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "api/inner.h"
#include "core/timing.h"
#include "os/log.h"
#include "os/secret.h"
#include "state/http/http.h"

#define TOKEN_MIN  16 /* bytes; less can be guessed */
#define CHECK_NS   TN_S
#define WRONG_NS   (10 * TN_S) /* wrong tokens are logged so often at most */
#define HOST_BYTES 256

/* ---- The token ----------------------------------------------------------- */

/* Under the lock, or before anybody else is there. */
static enum tenure_status read_token(struct tn_access *a, struct tenure_error *err)
{
    struct tn_secret secret = {.file = a->token_file, .own = true};
    char *text = tn_secret_load(&secret, err);
    enum tenure_status status = TENURE_OK;

    if (!text) {
        tenure_fail_context(err, "the token");
        return err->code ? err->code : TENURE_CONFIG;
    }
    if (strlen(text) < TOKEN_MIN || strlen(text) > TN_TOKEN_MAX) {
        status = tenure_fail(err, TENURE_CONFIG, "the token in %s must have %d to %d bytes",
                             a->token_file, TOKEN_MIN, TN_TOKEN_MAX);
    } else {
        memset(a->token, 0, sizeof a->token);
        memcpy(a->token, text, strlen(text));
    }
    tn_secret_free(text);
    return status;
}

/* Look whether the file was replaced, once a second at most.  While it cannot be
 * read the last token stays: an editor that saves must not lock people out. */
static void refresh_token(struct tn_access *a)
{
    int64_t now = tenure_now();
    struct tenure_error err = {0};
    struct stat st;

    if (a->checked_ns && now - a->checked_ns < CHECK_NS)
        return;
    a->checked_ns = now;
    if (stat(a->token_file, &st) != 0 ||
        (st.st_mtim.tv_sec == a->mark.s && st.st_mtim.tv_nsec == a->mark.ns &&
         st.st_ino == a->mark.inode && (uint64_t)st.st_size == a->mark.size))
        return;
    if (read_token(a, &err) != TENURE_OK) {
        if (!a->complained)
            tn_log("token", "the token stays as it was: %s", err.text);
        a->complained = true;
        return;
    }
    a->complained = false;
    a->mark.s = st.st_mtim.tv_sec;
    a->mark.ns = st.st_mtim.tv_nsec;
    a->mark.inode = st.st_ino;
    a->mark.size = (uint64_t)st.st_size;
}

/* In the same time whatever was sent: all bytes are always looked at. */
static bool same_token(const char *token, const char *sent)
{
    char padded[TN_TOKEN_MAX + 1] = {0};
    size_t len = strlen(sent);
    unsigned char different = len > TN_TOKEN_MAX || token[0] == '\0';

    memcpy(padded, sent, len > TN_TOKEN_MAX ? TN_TOKEN_MAX : len);
    for (size_t i = 0; i <= TN_TOKEN_MAX; i++)
        different |= (unsigned char)(padded[i] ^ token[i]);
    return different == 0;
}

enum tn_token tn_access_token(struct tn_access *a, const char *authorization)
{
    if (!a->token_file || !authorization || strncasecmp(authorization, "Bearer ", 7) != 0)
        return TN_TOKEN_NONE;
    pthread_mutex_lock(&a->lock);
    refresh_token(a);
    bool same = same_token(a->token, authorization + 7);
    pthread_mutex_unlock(&a->lock);
    return same ? TN_TOKEN_RIGHT : TN_TOKEN_WRONG;
}

/* Whoever guesses is told of, but cannot fill the log; what was sent is never shown. */
static void log_wrong_token(struct tn_access *a, const struct tn_http_request *request)
{
    char peer[TN_PEER_MAX];
    unsigned skipped = 0;

    if (!tn_log_pass(&a->wrong, tenure_now(), WRONG_NS, &skipped))
        return;
    request->peer(request, peer, sizeof peer);
    if (skipped)
        tn_log("token", "%s sent a wrong token: %s %.200s; %u more since the last such line", peer,
               request->method, request->path, skipped);
    else
        tn_log("token", "%s sent a wrong token: %s %.200s", peer, request->method, request->path);
}

/* As RFC 6750 has it: 401 for none and for a wrong one, which the challenge tells apart. */
bool tn_access_check(struct tn_access *a, const struct tn_http_request *request,
                     struct tn_http_reply *reply)
{
    enum tn_token token = tn_access_token(a, request->header(request, "Authorization"));

    if (token == TN_TOKEN_RIGHT)
        return true;
    if (!a->token_file) {
        tn_http_answer_error(reply, 403, "denied",
                             "this needs a token, and none is configured: start it with "
                             "--token-file, or use its Unix socket (--listen unix:/PATH)");
        return false;
    }
    if (token == TN_TOKEN_WRONG) {
        log_wrong_token(a, request);
        tn_http_answer_error(reply, 401, "wrong-token",
                             "this is not the token in this agent's --token-file");
    } else {
        tn_http_answer_error(reply, 401, "token",
                             "give Authorization: Bearer TOKEN, where TOKEN is the first line of "
                             "this agent's --token-file (http.token)");
    }
    reply->headers[0].name = "WWW-Authenticate";
    reply->headers[0].value = token == TN_TOKEN_WRONG
                                  ? "Bearer realm=\"tenure\", error=\"invalid_token\""
                                  : "Bearer realm=\"tenure\"";
    return false;
}

/* ---- Hosts --------------------------------------------------------------- */

/* The part before the port, without brackets and a last dot.  false: no such thing. */
static bool host_part(const char *text, char out[HOST_BYTES])
{
    const char *from = text, *end;

    if (*text == '[') {
        from = text + 1;
        end = strchr(from, ']');
        if (!end || (end[1] != '\0' && end[1] != ':'))
            return false;
    } else {
        end = text + strcspn(text, ":");
    }
    const char *port = *text == '[' ? end + 1 : end;
    if (*port == ':' && strspn(port + 1, "0123456789") != strlen(port + 1))
        return false;
    size_t n = (size_t)(end - from);
    if (n > 0 && from[n - 1] == '.')
        n--;
    if (n == 0 || n >= HOST_BYTES)
        return false;
    memcpy(out, from, n);
    out[n] = '\0';
    return true;
}

static bool is_address(const char *host)
{
    struct in6_addr any;

    return inet_pton(AF_INET, host, &any) == 1 || inet_pton(AF_INET6, host, &any) == 1;
}

bool tn_access_host(const struct tn_access *a, const char *text)
{
    char host[HOST_BYTES];

    if (!text || !*text)
        return true; /* HTTP/1.0, as load balancers ask; a browser always sends it */
    if (!host_part(text, host))
        return false;
    /* An address cannot be made to mean another machine. */
    if (is_address(host) || strcasecmp(host, "localhost") == 0)
        return true;
    for (size_t i = 0; i < a->n_hosts; i++) {
        if (strcasecmp(host, a->hosts[i]) == 0)
            return true;
    }
    return false;
}

bool tn_access_is_local(const char *listen)
{
    return strncmp(listen, "unix:", 5) == 0;
}

static bool is_any(const char *host)
{
    return strcmp(host, "0.0.0.0") == 0 || strcmp(host, "::") == 0;
}

bool tn_access_url(const struct tn_api_options *o, size_t listener, unsigned port, char *out,
                   size_t size)
{
    char host[HOST_BYTES];

    if (port == 0 || tn_access_is_local(o->listen[listener]) ||
        !host_part(o->listen[listener], host))
        return false;
    if (is_any(host) && !(o->hosts && o->hosts[0] && host_part(o->hosts[0], host)))
        return false;
    int n = snprintf(out, size, strchr(host, ':') ? "%s://[%s]:%u/" : "%s://%s:%u/",
                     o->tls_cert ? "https" : "http", host, port);
    return n > 0 && (size_t)n < size;
}

bool tn_access_is_loopback(const char *listen)
{
    char host[HOST_BYTES];
    struct in_addr v4;
    struct in6_addr v6;

    if (tn_access_is_local(listen))
        return true;
    if (!host_part(listen, host))
        return false;
    if (inet_pton(AF_INET, host, &v4) == 1)
        return (ntohl(v4.s_addr) >> 24) == 127;
    if (inet_pton(AF_INET6, host, &v6) == 1)
        return IN6_IS_ADDR_LOOPBACK(&v6);
    return strcasecmp(host, "localhost") == 0;
}

/* ---- Life ---------------------------------------------------------------- */

static bool add_host(struct tn_access *a, const char *host)
{
    if (a->n_hosts == TN_HOSTS_MAX)
        return false;
    a->hosts[a->n_hosts] = strdup(host);
    return a->hosts[a->n_hosts] && ++a->n_hosts;
}

enum tenure_status tn_access_open(struct tn_access *a, const struct tn_api_options *o,
                                  struct tenure_error *err)
{
    char host[HOST_BYTES];
    bool ok = true;

    pthread_mutex_init(&a->lock, NULL);
    a->reads_token = o->reads_token;
    for (size_t i = 0; ok && o->listen[i]; i++) {
        if (!tn_access_is_local(o->listen[i]) && host_part(o->listen[i], host))
            ok = add_host(a, host);
    }
    for (size_t i = 0; ok && o->hosts && o->hosts[i]; i++)
        ok = add_host(a, o->hosts[i]);
    if (!ok)
        return tenure_fail(err, TENURE_CONFIG, "too many host names: at most %d", TN_HOSTS_MAX);
    if (!o->token_file)
        return o->reads_token ? tenure_fail(err, TENURE_CONFIG,
                                            "reads are to need a token, but there is no token "
                                            "file: give --token-file")
                              : TENURE_OK;
    a->token_file = strdup(o->token_file);
    return a->token_file ? read_token(a, err) : tenure_fail(err, TENURE_NOMEM, "out of memory");
}

void tn_access_close(struct tn_access *a)
{
    explicit_bzero(a->token, sizeof a->token);
    for (size_t i = 0; i < a->n_hosts; i++)
        free(a->hosts[i]);
    free(a->token_file);
    pthread_mutex_destroy(&a->lock);
}
