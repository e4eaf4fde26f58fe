/* The HTTP/1.1 request that a connection begins with (RFC 6455), and its answer. */
#include <ctype.h>
#include <gnutls/crypto.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/base64.h"
#include "base/text.h"
#include "os/secret.h"
#include "replica/link/inner.h"

#define GUID        "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
#define DIGEST_SIZE 32
#define VALUE_MAX   2048u /* bytes of one header that is read */

/* ---- What both ends know ---------------------------------------------------- */

/* "Bearer ..." or "Basic ...", to be freed with tn_secret_free(); "" if neither is configured;
 * NULL with the reason. */
static char *credentials(const struct tn_transport_conf *conf, struct tenure_error *err)
{
    bool basic = conf->user != NULL;
    const struct tn_secret secret = {.file = basic ? conf->password_file : conf->token_file,
                                     .env = basic ? conf->password_env : conf->token_env,
                                     .own = true};
    char *text = tn_secret_load(&secret, err), *made = NULL;

    if (!text || (!basic && !secret.file && !secret.env))
        return text;
    if (!*text) {
        tenure_fail(err, TENURE_CONFIG, "the variable %s, which should hold the %s, is empty",
                    secret.env, basic ? "password" : "token");
        free(text);
        return NULL;
    }
    size_t n = (basic ? strlen(conf->user) + 1 : 0) + strlen(text);
    char *pair = malloc(n + 1);
    made = malloc(8 + TN_BASE64_LEN(n) + 1);
    if (pair && made && basic) {
        snprintf(pair, n + 1, "%s:%s", conf->user, text);
        memcpy(made, "Basic ", 6);
        tn_base64_encode(pair, n, made + 6);
    } else if (pair && made) {
        pair[0] = '\0';
        sprintf(made, "Bearer %s", text);
    } else {
        tenure_fail(err, TENURE_NOMEM, "out of memory");
        free(made);
        made = NULL;
        free(pair);
        pair = NULL;
    }
    tn_secret_free(pair);
    tn_secret_free(text);
    return made;
}

enum tenure_status tn_handshake_check(const struct tn_transport_conf *conf,
                                      struct tenure_error *err)
{
    struct tenure_error why = {0};
    char *text = credentials(conf, &why);
    bool found = text != NULL;

    tn_secret_free(text);
    return found ? TENURE_OK : tenure_fail(err, why.code, "%s", why.text);
}

/* Takes as long whatever they are. */
static bool same_secret(const char *a, const char *b)
{
    uint8_t digest[2][DIGEST_SIZE];

    return gnutls_hash_fast(GNUTLS_DIG_SHA256, a, strlen(a), digest[0]) == 0 &&
           gnutls_hash_fast(GNUTLS_DIG_SHA256, b, strlen(b), digest[1]) == 0 &&
           gnutls_memcmp(digest[0], digest[1], DIGEST_SIZE) == 0;
}

/* What proves that the other end has read this key. */
static void accept_key(const char *key, char out[29])
{
    char text[64];
    uint8_t sum[20];

    snprintf(text, sizeof text, "%.24s" GUID, key);
    if (gnutls_hash_fast(GNUTLS_DIG_SHA1, text, strlen(text), sum) != 0)
        memset(sum, 0, sizeof sum);
    tn_base64_encode(sum, sizeof sum, out);
}

/* ---- Heads ------------------------------------------------------------------ */

/* The bytes of the head in p->in, with its empty line; 0: it is not whole yet. */
static size_t head_size(const struct tn_peer *p)
{
    const uint8_t *end = memmem(p->in, p->in_end, "\r\n\r\n", 4);

    return end ? (size_t)(end - p->in) + 4 : 0;
}

/* Text in lines, and nothing else: it is terminated and cut into lines, each with its NUL. */
static bool cut_lines(char *head, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)head[i];

        if (c == '\r' && head[i + 1] == '\n')
            head[i] = '\0';
        else if (c == '\n' && i > 0 && head[i - 1] == '\0')
            head[i] = '\0';
        else if ((c < 0x20 && c != '\t') || c == 0x7f)
            return false;
    }
    return true;
}

/* The value of a header, without the blanks around it, "" if it is not there.  false: there are
 * two of them, or it is too long. */
static bool find_header(const char *head, size_t n, const char *name, char out[VALUE_MAX + 1])
{
    size_t len = strlen(name);
    bool found = false;

    out[0] = '\0';
    for (const char *line = head + strlen(head) + 2; line < head + n && *line;
         line += strlen(line) + 2) {
        if (strncasecmp(line, name, len) != 0 || line[len] != ':')
            continue;
        const char *from = line + len + 1;
        from += strspn(from, " \t");
        size_t size = strlen(from);
        while (size > 0 && (from[size - 1] == ' ' || from[size - 1] == '\t'))
            size--;
        if (found || size > VALUE_MAX)
            return false;
        found = true;
        memcpy(out, from, size);
        out[size] = '\0';
    }
    return true;
}

/* One of a list with commas. */
static bool lists(const char *value, const char *word)
{
    size_t len = strlen(word);

    while (*value) {
        value += strspn(value, " \t,");
        size_t n = strcspn(value, ","), size = n;
        while (size > 0 && (value[size - 1] == ' ' || value[size - 1] == '\t'))
            size--;
        if (size == len && strncasecmp(value, word, len) == 0)
            return true;
        value += n;
    }
    return false;
}

static bool header_lists(const char *head, size_t n, const char *name, const char *word)
{
    char value[VALUE_MAX + 1];

    return find_header(head, n, name, value) && lists(value, word);
}

/* What the other end is called, fit for logs. */
static bool take_node(struct tn_peer *p, const char *head, size_t n)
{
    char value[VALUE_MAX + 1];

    if (!find_header(head, n, "Tenure-Node", value) || !*value ||
        strlen(value) >= sizeof p->who.node)
        return false;
    tn_text_tame(value, '?');
    snprintf(p->who.node, sizeof p->who.node, "%.255s", value);
    return true;
}

/* ---- The listener's side ---------------------------------------------------- */

static void refuse(struct tn_peer *p, const char *status, const char *why)
{
    char reply[1024];
    int n = snprintf(reply, sizeof reply,
                     "HTTP/1.1 %s\r\nContent-Type: text/plain; charset=utf-8\r\n"
                     "Content-Length: %zu\r\nConnection: close\r\n%s\r\n%s\n",
                     status, strlen(why) + 1,
                     strncmp(status, "401", 3) == 0 ? "WWW-Authenticate: Bearer, Basic\r\n"
                     : strncmp(status, "426", 3) == 0
                         ? "Upgrade: websocket\r\n"
                           "Sec-WebSocket-Version: 13\r\n"
                           "Sec-WebSocket-Protocol: " TN_LINK_SUBPROTOCOL "\r\n"
                         : "",
                     why);

    snprintf(p->why, sizeof p->why, "refused (%s): %s", status, why);
    tn_peer_put(p, reply, (size_t)n);
    tn_peer_linger(p);
}

static bool is_authorized(struct tn_peer *p, const char *head, size_t n, const char **why)
{
    char value[VALUE_MAX + 1];
    struct tenure_error err = {0};
    char *expected = credentials(&p->transport->conf, &err);
    bool found = find_header(head, n, "Authorization", value);
    bool ok = expected && found && (!*expected || same_secret(value, expected));

    explicit_bzero(value, sizeof value);
    *why = !expected ? "this node cannot read its own token or password: see its log"
                     : "the token or password is missing or wrong: both nodes need the same one";
    if (!expected)
        tn_transport_failed(p->transport, NULL, p->who.address, err.text);
    tn_secret_free(expected);
    return ok;
}

/* The path of the request, in place; NULL: it is no GET of HTTP/1.1. */
static char *path_of(char *line)
{
    char *end = strrchr(line, ' ');

    if (strncmp(line, "GET /", 5) != 0 || !end || end < line + 4 || strcmp(end, " HTTP/1.1") != 0)
        return NULL;
    *end = '\0';
    return line + 4;
}

static void answer(struct tn_peer *p, char *head, size_t n)
{
    const struct tn_transport_conf *conf = &p->transport->conf;
    char key[VALUE_MAX + 1], proof[29], reply[1024];
    const char *why;
    char *first = head + strlen(head); /* the end of the first line */
    const char *path = path_of(head);

    if (!path) {
        refuse(p, "400 Bad Request", "this is the replication of tenure: GET " TN_LINK_PATH "NAME");
        return;
    }
    /* The path has its own end now; the headers begin behind the first line. */
    n -= (size_t)(first - head);
    head = first;
    if (!is_authorized(p, head, n, &why)) {
        refuse(p, "401 Unauthorized", why);
    } else if (strncmp(path, TN_LINK_PATH, strlen(TN_LINK_PATH)) != 0 ||
               strcmp(path + strlen(TN_LINK_PATH), conf->election) != 0) {
        refuse(p, "404 Not Found",
               "this node replicates another election: correct the target or the name");
    } else if (!header_lists(head, n, "Connection", "upgrade") ||
               !header_lists(head, n, "Upgrade", "websocket") ||
               !header_lists(head, n, "Sec-WebSocket-Version", "13") ||
               !header_lists(head, n, "Sec-WebSocket-Protocol", TN_LINK_SUBPROTOCOL)) {
        refuse(p, "426 Upgrade Required",
               "this node speaks " TN_LINK_SUBPROTOCOL " over WebSocket 13: run the same release "
               "of tenure on both");
    } else if (!find_header(head, n, "Sec-WebSocket-Key", key) || strlen(key) != 24 ||
               !take_node(p, head, n)) {
        refuse(p, "400 Bad Request", "Sec-WebSocket-Key or Tenure-Node is missing or malformed");
    } else {
        accept_key(key, proof);
        int size = snprintf(reply, sizeof reply,
                            "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n"
                            "Connection: Upgrade\r\nSec-WebSocket-Accept: %s\r\n"
                            "Sec-WebSocket-Protocol: " TN_LINK_SUBPROTOCOL "\r\n"
                            "Tenure-Node: %s\r\n\r\n",
                            proof, conf->node);
        tn_peer_put(p, reply, (size_t)size);
        tn_peer_opened(p);
    }
}

/* ---- The other side --------------------------------------------------------- */

void tn_handshake_ask(struct tn_peer *p)
{
    const struct tn_transport_conf *conf = &p->transport->conf;
    struct tenure_error err = {0};
    char *secret = credentials(conf, &err);
    char request[4096], key[25];
    uint8_t random[16];

    if (!secret || gnutls_rnd(GNUTLS_RND_NONCE, random, sizeof random) != 0) {
        tn_peer_end(p, "%s", secret ? "no random numbers" : err.text);
        tn_secret_free(secret);
        return;
    }
    tn_base64_encode(random, sizeof random, key);
    accept_key(key, p->key);
    int n = snprintf(request, sizeof request,
                     "GET " TN_LINK_PATH "%s HTTP/1.1\r\nHost: %s\r\nUpgrade: websocket\r\n"
                     "Connection: Upgrade\r\nSec-WebSocket-Key: %s\r\n"
                     "Sec-WebSocket-Version: 13\r\n"
                     "Sec-WebSocket-Protocol: " TN_LINK_SUBPROTOCOL "\r\nTenure-Node: %s\r\n"
                     "%s%s%s\r\n",
                     conf->election, p->target->address, key, conf->node,
                     *secret ? "Authorization: " : "", secret, *secret ? "\r\n" : "");
    if (n >= (int)sizeof request)
        tn_peer_end(p, "the request is too long: shorten the token");
    else
        tn_peer_put(p, request, (size_t)n);
    explicit_bzero(request, sizeof request);
    tn_secret_free(secret);
}

/* What the answer tells people, if there is more of it than its first line. */
static void refused(struct tn_peer *p, const char *head, size_t n)
{
    char said[160];

    snprintf(said, sizeof said, "%.*s", (int)(p->in_end - n < 150 ? p->in_end - n : 150),
             (const char *)p->in + n);
    said[strcspn(said, "\r\n")] = '\0';
    tn_text_tame(said, '?');
    tn_peer_end(p, "the peer refused the connection (%.40s)%s%s",
                strncmp(head, "HTTP/1.1 ", 9) == 0 ? head + 9 : "not HTTP", *said ? ": " : "",
                said);
}

static void take_answer(struct tn_peer *p, const char *head, size_t n)
{
    char value[VALUE_MAX + 1];

    if (strncmp(head, "HTTP/1.1 101", 12) != 0)
        refused(p, head, n);
    else if (!find_header(head, n, "Sec-WebSocket-Accept", value) || strcmp(value, p->key) != 0 ||
             !header_lists(head, n, "Upgrade", "websocket") ||
             !header_lists(head, n, "Sec-WebSocket-Protocol", TN_LINK_SUBPROTOCOL) ||
             !take_node(p, head, n))
        tn_peer_end(p, "it is no tenure, or of another version: its answer is not that "
                       "of " TN_LINK_SUBPROTOCOL);
    else
        tn_peer_opened(p);
}

void tn_handshake_read(struct tn_peer *p)
{
    ssize_t got = tn_peer_fill(p);
    size_t n = head_size(p);

    if (got < 0)
        return;
    if ((n ? n : p->in_end) > TN_LINK_HEADERS_MAX) {
        if (p->target)
            tn_peer_end(p, "its answer is longer than %u bytes: is it a tenure?",
                        TN_LINK_HEADERS_MAX);
        else
            refuse(p, "431 Request Header Fields Too Large", "the headers are too long");
        return;
    }
    if (n == 0)
        return;
    p->in_at = n;
    bool lines = cut_lines((char *)p->in, n);
    if (!lines && p->target)
        tn_peer_end(p, "its answer holds control characters: is it a tenure?");
    else if (!lines)
        refuse(p, "400 Bad Request", "the request holds control characters");
    else if (p->target)
        take_answer(p, (const char *)p->in, n);
    else
        answer(p, (char *)p->in, n);
    explicit_bzero(p->in, n);
}
