#include "store/redis/reply.h"

#include <stdio.h>
#include <string.h>

#include "base/hex.h"

/* ---- Errors -------------------------------------------------------------- */

#define FIX_RIGHTS "docs/reference/stores/redis.md lists the rights that tenure needs"

/* By the first word; or, for errors that a script passes on, by any word. */
static const struct {
    const char *word;
    enum tn_redis_fault fault;
    enum tenure_status status;
    const char *words; /* for people; NULL: the server's own */
} codes[] = {
    {"NOSCRIPT", TN_REDIS_FAULT_NOSCRIPT, TENURE_UNAVAILABLE, "the server forgot the script"},
    {"MOVED", TN_REDIS_FAULT_MOVED, TENURE_UNAVAILABLE, "another node of the cluster serves this"},
    {"READONLY", TN_REDIS_FAULT_ROUTE, TENURE_UNAVAILABLE,
     "this is a replica, which tenure never uses; name the master, or use redis+sentinel:"},
    {"MASTERDOWN", TN_REDIS_FAULT_ROUTE, TENURE_UNAVAILABLE,
     "this is a replica that has lost its master"},
    {"NOAUTH", TN_REDIS_FAULT_FINAL, TENURE_DENIED,
     "the server wants a password; use password_file=, or user:password@ in the URL"},
    {"WRONGPASS", TN_REDIS_FAULT_FINAL, TENURE_DENIED,
     "the user name or the password is wrong, or the user is off"},
    {"NOPERM", TN_REDIS_FAULT_FINAL, TENURE_DENIED, NULL},
    {"LOADING", TN_REDIS_FAULT_FINAL, TENURE_UNAVAILABLE, "the server is loading its data"},
    {"CLUSTERDOWN", TN_REDIS_FAULT_FINAL, TENURE_UNAVAILABLE, "the cluster is down"},
    {"TRYAGAIN", TN_REDIS_FAULT_FINAL, TENURE_UNAVAILABLE, "the cluster is moving these keys"},
    {"ASK", TN_REDIS_FAULT_FINAL, TENURE_UNAVAILABLE, "the cluster is moving these keys"},
    {"CROSSSLOT", TN_REDIS_FAULT_FINAL, TENURE_CONFIG,
     "the cluster does not honour the hash tag in the keys"},
    {"BUSY", TN_REDIS_FAULT_FINAL, TENURE_UNAVAILABLE,
     "the server is busy with somebody's long script"},
    {"NOREPLICAS", TN_REDIS_FAULT_FINAL, TENURE_UNAVAILABLE,
     "too few replicas are in reach (min-replicas-to-write)"},
    {"MISCONF", TN_REDIS_FAULT_FINAL, TENURE_UNAVAILABLE,
     "the server cannot save its data to disk and refuses writes; look at its log"},
    {"OOM", TN_REDIS_FAULT_FINAL, TENURE_UNAVAILABLE,
     "the server is out of memory (maxmemory) and refuses writes"},
    {"WRONGTYPE", TN_REDIS_FAULT_FINAL, TENURE_CORRUPT,
     "the key holds something that tenure did not write; it was not touched"},
    {"TENURECORRUPT", TN_REDIS_FAULT_FINAL, TENURE_CORRUPT,
     "the change counter (PREFIX:seq) holds something that tenure did not write; nothing was "
     "touched; move it away by hand"},
};

/* Errors that have no word of their own. */
static const struct {
    const char *part;
    enum tenure_status status;
    const char *words;
} phrases[] = {
    {"invalid password", TENURE_DENIED, "the password is wrong"},
    {"without any password configured", TENURE_DENIED,
     "a password was given, but the server has none; remove it, or set one there"},
    {"DB index", TENURE_CONFIG, "the server has no such database; see its 'databases' setting"},
    {"SELECT is not allowed in cluster", TENURE_CONFIG, "a cluster has only database 0"},
    {"max number of clients", TENURE_UNAVAILABLE, "the server has too many clients (maxclients)"},
    /* Not in the server's words: it repeats the arguments, and they may be a password. */
    {"unknown command", TENURE_UNSUPPORTED,
     "the server does not know a command that tenure needs; " FIX_RIGHTS},
    {"user executing the script can't", TENURE_DENIED,
     "the ACL user lacks the right to a command, a key or a channel; " FIX_RIGHTS},
};

/* The word stands at the start, or behind '-' or a space. */
static bool has_word(const char *text, const char *word, bool anywhere)
{
    size_t n = strlen(word);

    for (const char *p = text; (p = strstr(p, word)); p += n) {
        bool starts = p == text || (anywhere && (p[-1] == '-' || p[-1] == ' '));

        if (starts && (p[n] == ' ' || p[n] == '\0'))
            return true;
    }
    return false;
}

/* "MOVED 3999 127.0.0.1:6381" */
static bool parse_moved(const char *text, struct tn_remote_addr *moved)
{
    const char *space = strrchr(text, ' ');
    const char *colon = strrchr(text, ':');

    if (!space || !colon || colon < space)
        return false;
    return tn_remote_addr_set(moved, space + 1, (size_t)(colon - space - 1), colon + 1,
                              strlen(colon + 1));
}

static void quote_server(const char *text, struct tenure_error *err, enum tenure_status status)
{
    tenure_fail(err, status, "the server says: %.200s%s%s", text,
                status == TENURE_DENIED ? "; " : "", status == TENURE_DENIED ? FIX_RIGHTS : "");
}

bool tn_redis_is_loading(const redisReply *reply)
{
    return reply->type == REDIS_REPLY_ERROR && has_word(reply->str, "LOADING", false);
}

enum tn_redis_fault tn_redis_fault(const redisReply *reply, struct tn_remote_addr *moved,
                                   struct tenure_error *err)
{
    if (reply->type != REDIS_REPLY_ERROR)
        return TN_REDIS_FAULT_NONE;
    const char *text = reply->str;
    /* Before Redis 7 a script's error is wrapped: "ERR Error running script ...: -OOM ..." */
    bool wrapped = has_word(text, "ERR", false);
    for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++) {
        if (!has_word(text, codes[i].word, wrapped))
            continue;
        if (codes[i].words)
            tenure_fail(err, codes[i].status, "%s", codes[i].words);
        else
            quote_server(text, err, codes[i].status);
        if (codes[i].fault == TN_REDIS_FAULT_MOVED && !(moved && parse_moved(text, moved)))
            return TN_REDIS_FAULT_FINAL;
        return codes[i].fault;
    }
    for (size_t i = 0; i < sizeof phrases / sizeof phrases[0]; i++) {
        if (strstr(text, phrases[i].part)) {
            tenure_fail(err, phrases[i].status, "%s", phrases[i].words);
            return TN_REDIS_FAULT_FINAL;
        }
    }
    quote_server(text, err, TENURE_UNAVAILABLE);
    return TN_REDIS_FAULT_FINAL;
}

/* ---- Values -------------------------------------------------------------- */

bool tn_redis_number(const char *text, size_t n)
{
    static const char max[] = "9007199254740991";

    if (n == 0 || n >= sizeof max || text[0] == '0')
        return false;
    for (size_t i = 0; i < n; i++) {
        if (text[i] < '0' || text[i] > '9')
            return false;
    }
    return n < sizeof max - 1 || memcmp(text, max, n) <= 0;
}

void tn_redis_version(const char *number, size_t len, const char *timeline,
                      char out[TENURE_VERSION_MAX + 1])
{
    snprintf(out, TENURE_VERSION_MAX + 1, "%.*s@%.*s", (int)len, number, TN_REDIS_TIMELINE,
             timeline);
}

bool tn_redis_same_timeline(const struct tenure_token *token, const char *timeline)
{
    const char *at = strchr(token->version, '@');

    if (tenure_token_absent(token))
        return true;
    return at && strlen(at + 1) == TN_REDIS_TIMELINE &&
           strncmp(at + 1, timeline, TN_REDIS_TIMELINE) == 0 &&
           tn_redis_number(token->version, (size_t)(at - token->version));
}

size_t tn_redis_expect(const struct tenure_token *token, char out[TN_REDIS_HEAD_MAX])
{
    char nonce[TN_NONCE_HEX + 1];

    out[0] = '\0';
    if (tenure_token_absent(token))
        return 0;
    tn_hex_encode(token->nonce, TENURE_NONCE_SIZE, nonce);
    return (size_t)snprintf(out, TN_REDIS_HEAD_MAX, TN_REDIS_MAGIC "%.*s %s ",
                            (int)strcspn(token->version, "@"), token->version, nonce);
}

/* Exactly the digits of a nonce, followed by end. */
static bool take_nonce(const char **text, const char *limit, char end,
                       uint8_t nonce[TENURE_NONCE_SIZE])
{
    char hex[TN_NONCE_HEX + 1];

    if (limit - *text < TN_NONCE_HEX + 1 || (*text)[TN_NONCE_HEX] != end)
        return false;
    memcpy(hex, *text, TN_NONCE_HEX);
    hex[TN_NONCE_HEX] = '\0';
    *text += TN_NONCE_HEX + 1;
    return tn_hex_decode(hex, nonce, TENURE_NONCE_SIZE);
}

/* "version nonce " at *text, which moves behind it. */
static bool take_token(const char **text, const char *limit, const char *timeline,
                       struct tenure_token *token)
{
    static const uint8_t zero[TENURE_NONCE_SIZE];
    const char *space = memchr(*text, ' ', (size_t)(limit - *text));

    if (!space || !tn_redis_number(*text, (size_t)(space - *text)))
        return false;
    tn_redis_version(*text, (size_t)(space - *text), timeline, token->version);
    *text = space + 1;
    return take_nonce(text, limit, ' ', token->nonce) &&
           memcmp(token->nonce, zero, sizeof zero) != 0;
}

enum tenure_status tn_redis_decode(const char *text, size_t n, const char *timeline,
                                   struct tenure_value *value, struct tenure_error *err)
{
    const size_t magic = sizeof TN_REDIS_MAGIC - 1;
    const char *limit = text + n;
    struct tenure_value v = {0};

    if (n < magic || memcmp(text, TN_REDIS_MAGIC, magic) != 0)
        goto corrupt;
    text += magic;
    if (!take_token(&text, limit, timeline, &v.token) || !take_nonce(&text, limit, ' ', v.prev) ||
        limit - text < 2 || (text[0] != 'v' && text[0] != 't') || text[1] != '\n')
        goto corrupt;
    v.tombstone = text[0] == 't';
    text += 2;
    if ((size_t)(limit - text) > TENURE_DATA_MAX)
        goto corrupt;
    enum tenure_status status = tenure_value_set(value, text, (size_t)(limit - text), err);
    if (status)
        return status;
    value->token = v.token;
    memcpy(value->prev, v.prev, TENURE_NONCE_SIZE);
    value->tombstone = v.tombstone;
    return TENURE_OK;
corrupt:
    return tenure_fail(err, TENURE_CORRUPT,
                       "the key holds something that tenure did not write; it was not touched");
}

bool tn_redis_decode_news(const char *text, size_t n, const char *timeline,
                          struct tenure_token *token)
{
    struct tenure_token t = {0};
    const char *limit = text + n;

    if (!take_token(&text, limit, timeline, &t) || text != limit)
        return false;
    *token = t;
    return true;
}
