/* Types and their keys as store URLs. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/url.h"
#include "config/draft.h"
#include "tenure/store.h"

/* Which keys a type knows. */
enum {
    PATH = 1 << 0,
    HOSTS = 1 << 1, /* endpoints, or host and port */
    LOGIN = 1 << 2, /* user, password */
    DATABASE = 1 << 3,
    PREFIX = 1 << 4,
    BUCKET = 1 << 5,
    KUBE = 1 << 6, /* namespace, kubeconfig */
    LOCK = 1 << 7, /* lock_key, retry_every */
    OPTIONS = 1 << 8,
    PASSWORD_FILE = 1 << 9, /* its store reads the file itself, at every connection */
    TOKEN = 1 << 10,        /* its store calls the password a token */
};

static const struct type {
    const char *name, *also, *scheme;
    unsigned knows;
} types[] = {
    {"noop", "none", "noop", 0},
    {"memory", NULL, "memory", OPTIONS},
    {"file_lease", "file", "file", PATH | OPTIONS},
    {"sqlite", "sqlite_lease", "sqlite", PATH | OPTIONS},
    {"k8s_lease", "kube kubernetes k8s kubernetes_lease", "kube", KUBE | OPTIONS},
    {"postgres", "postgresql postgres_lease pg", "postgres", HOSTS | LOGIN | DATABASE | OPTIONS},
    {"postgres_advisory", "postgres+advisory advisory_lock pg_advisory_lock", "postgres+advisory",
     HOSTS | LOGIN | DATABASE | LOCK | OPTIONS},
    {"redis", "redis_lease", "redis", HOSTS | LOGIN | DATABASE | PREFIX | OPTIONS | PASSWORD_FILE},
    {"rediss", "redis_tls", "rediss", HOSTS | LOGIN | DATABASE | PREFIX | OPTIONS | PASSWORD_FILE},
    {"etcd", NULL, "etcd", HOSTS | LOGIN | PREFIX | OPTIONS | PASSWORD_FILE},
    {"etcds", "etcd_tls", "etcds", HOSTS | LOGIN | PREFIX | OPTIONS | PASSWORD_FILE},
    {"zookeeper", "zk", "zookeeper", HOSTS | LOGIN | PREFIX | OPTIONS | PASSWORD_FILE},
    {"consul", NULL, "consul", HOSTS | LOGIN | PREFIX | OPTIONS | PASSWORD_FILE | TOKEN},
    {"consuls", "consul_tls", "consuls", HOSTS | LOGIN | PREFIX | OPTIONS | PASSWORD_FILE | TOKEN},
    {"nats", NULL, "nats", HOSTS | LOGIN | BUCKET | OPTIONS | PASSWORD_FILE},
    {"natss", "nats_tls", "natss", HOSTS | LOGIN | BUCKET | OPTIONS | PASSWORD_FILE},
    {"mongodb", "mongo", "mongodb", HOSTS | LOGIN | DATABASE | OPTIONS},
    {"s3", NULL, "s3", BUCKET | PREFIX | OPTIONS},
    {"azblob", "azure", "azblob", BUCKET | PREFIX | OPTIONS},
    {"gcs", "gs", "gs", BUCKET | PREFIX | OPTIONS},
};
#define N_TYPES (sizeof types / sizeof types[0])

static bool named(const struct type *t, const char *word)
{
    if (tn_key_same(word, t->name))
        return true;
    for (const char *p = t->also; p && *p;) {
        size_t n = strcspn(p, " ");
        char one[32];

        snprintf(one, sizeof one, "%.*s", (int)n, p);
        if (tn_key_same(word, one))
            return true;
        p += n + (p[n] == ' ');
    }
    return false;
}

static const struct type *find_type(struct tn_reader *r, unsigned line, const char *path,
                                    const char *word)
{
    char list[256] = "", spaced[256] = "", hint[96];

    for (size_t i = 0; i < N_TYPES; i++) {
        size_t n = strlen(list);

        if (named(&types[i], word))
            return &types[i];
        snprintf(list + n, sizeof list - n, "%s%s", i ? ", " : "", types[i].name);
        n = strlen(spaced);
        snprintf(spaced + n, sizeof spaced - n, "%s%s", i ? " " : "", types[i].name);
    }
    tn_did_you_mean(word, spaced, hint, sizeof hint);
    int n = (int)strcspn(word, ":=@"); /* behind these there may be a password */
    tn_complain(r, line, "%s: there is no type '%.*s%s'%s; there are: %s; or give a URL as 'store'",
                path, n < 40 ? n : 40, word, word[n] ? "..." : "", hint, list);
    return NULL;
}

/* ---- Putting a URL together ---------------------------------------------- */

struct url {
    char text[TN_URL_MAX + 2];
    size_t n;
    bool shown; /* build what may be seen of it */
    bool query;
};

static void put(struct url *u, const char *text)
{
    for (; *text && u->n <= TN_URL_MAX; text++)
        u->text[u->n++] = *text;
}

/* Percent-escapes all but what is plain in every part of a URL, and keep. */
static void put_escaped(struct url *u, const char *text, const char *keep)
{
    char escape[4];

    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;
        bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                     strchr("-._~", c) || strchr(keep, c);

        snprintf(escape, sizeof escape, plain ? "%c" : "%%%02X", c);
        put(u, escape);
    }
}

/* A reference stays readable. */
static void put_text(struct url *u, const struct tn_text *t, const char *keep)
{
    if (u->shown && t->shown != t->text)
        put(u, t->shown);
    else
        put_escaped(u, t->text, keep);
}

static void put_param(struct url *u, const char *name, const struct tn_text *value)
{
    if (!value->text)
        return;
    put(u, u->query ? "&" : "?");
    u->query = true;
    put_escaped(u, name, "");
    put(u, "=");
    put_text(u, value, "/:,@");
}

static void put_hosts(struct url *u, struct tn_reader *r, const struct tn_place *p,
                      const char *path)
{
    char port[16];
    bool first = true;

    if (p->host.text)
        put_text(u, &p->host, "[]:,");
    if (p->host.text && p->port) {
        snprintf(port, sizeof port, ":%" PRId64, p->port);
        put(u, port);
    }
    if (!p->endpoints)
        return;
    const struct tn_yaml *one = p->endpoints;
    if (one->kind == TN_YAML_LIST)
        one = one->first;
    for (; one; one = p->endpoints->kind == TN_YAML_LIST ? one->next : NULL, first = false) {
        static const struct tn_key key = {"endpoints", NULL, TN_KEY_TEXT, 0};
        struct tn_text text = {0};
        char full[100];

        snprintf(full, sizeof full, "%.60s.endpoints", path);
        if (!tn_key_take(r, one, full, &key, &text) || !text.text)
            continue;
        if ((strstr(text.text, "://") || strchr(text.text, '@')) && !u->shown)
            tn_complain(
                r, one->line,
                "%s: give HOST:PORT alone, without a scheme or a login (there are 'user' and "
                "'password')",
                full);
        put(u, first ? "" : ",");
        put_text(u, &text, "[]:,");
    }
}

static void put_options(struct url *u, struct tn_reader *r, const struct tn_place *p,
                        const char *path)
{
    static const struct tn_key key = {"options", NULL, TN_KEY_TEXT, 0};

    if (!p->options)
        return;
    if (p->options->kind != TN_YAML_MAP) {
        if (!u->shown)
            tn_complain(r, p->options->line,
                        "%s.options: the store's parameters belong here, as 'name: value'", path);
        return;
    }
    for (const struct tn_yaml *node = p->options->first; node; node = node->next) {
        struct tn_text text = {0};
        char full[200];

        snprintf(full, sizeof full, "%.60s.options.%.60s", path, node->key);
        if (tn_key_take(r, node, full, &key, &text))
            put_param(u, node->key, &text);
    }
}

static void put_login(struct url *u, const struct type *t, const struct tn_place *p)
{
    if (!p->user.text && !p->password.text)
        return;
    if (p->user.text)
        put_text(u, &p->user, "");
    /* Left to the store, so that it can be rotated. */
    bool in_file = (t->knows & PASSWORD_FILE) &&
                   strncmp(p->password.shown ? p->password.shown : "", "file:", 5) == 0;
    if (p->password.text && !in_file) {
        put(u, ":");
        if (u->shown)
            put(u, "***");
        else
            put_escaped(u, p->password.text, "");
    }
    if (p->user.text || !in_file)
        put(u, "@");
}

static void put_password_file(struct url *u, const struct type *t, const struct tn_place *p)
{
    struct tn_text file;

    if (!(t->knows & PASSWORD_FILE) || !p->password.text ||
        strncmp(p->password.shown, "file:", 5) != 0)
        return;
    file.text = file.shown = p->password.shown + 5;
    put_param(u, t->knows & TOKEN ? "token_file" : "password_file", &file);
}

static void build(struct url *u, struct tn_reader *r, const struct type *t,
                  const struct tn_place *p, const char *path)
{
    static const struct tn_text none = {"", ""};
    bool redis = strncmp(t->scheme, "redis", 5) == 0;
    const struct tn_text *tail = p->database.text           ? &p->database
                                 : p->prefix.text && !redis ? &p->prefix
                                                            : &none;

    put(u, t->scheme);
    put(u, ":");
    if (t->knows & PATH) {
        put_text(u, &p->path, "/");
    } else if (t->knows & KUBE) {
        put_text(u, p->space.text ? &p->space : &none, "");
    } else if (t->knows & (HOSTS | BUCKET)) {
        put(u, "//");
        put_login(u, t, p);
        put_hosts(u, r, p, path);
        if (t->knows & BUCKET && !(t->knows & HOSTS))
            put_text(u, p->bucket.text ? &p->bucket : &none, "");
        else if (t->knows & BUCKET)
            tail = p->bucket.text ? &p->bucket : &none;
        put(u, tail->text[0] && tail->text[0] != '/' ? "/" : "");
        put_text(u, tail, "/");
    }
    put_param(u, "kubeconfig", &p->kubeconfig);
    put_param(u, "key", &p->lock_key);
    put_param(u, "retry", &p->retry_every);
    if (redis)
        put_param(u, "prefix", &p->prefix);
    put_password_file(u, t, p);
    put_options(u, r, p, path);
    u->text[u->n <= TN_URL_MAX ? u->n : TN_URL_MAX] = '\0';
}

/* ---- What fits ----------------------------------------------------------- */

static bool check_fields(struct tn_reader *r, const struct type *t, const struct tn_place *p,
                         unsigned line, const char *path)
{
    const struct {
        const char *name;
        bool given;
        unsigned needs;
    } fields[] = {
        {"path", p->path.text, PATH},
        {"endpoints", p->endpoints, HOSTS},
        {"host", p->host.text, HOSTS},
        {"port", p->port, HOSTS},
        {"user", p->user.text, LOGIN},
        {"password", p->password.text, LOGIN},
        {"database", p->database.text, DATABASE},
        {"prefix", p->prefix.text, PREFIX},
        {"bucket", p->bucket.text, BUCKET},
        {"namespace", p->space.text, KUBE},
        {"kubeconfig", p->kubeconfig.text, KUBE},
        {"lock_key", p->lock_key.text, LOCK},
        {"retry_every", p->retry_every.text, LOCK},
        {"options", p->options, OPTIONS},
    };
    bool ok = true;

    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        if (!fields[i].given || (t->knows & fields[i].needs))
            continue;
        tn_complain(r, line, "%s: '%s' does not apply to type %s; remove it", path, fields[i].name,
                    t->name);
        ok = false;
    }
    const char *missing = (t->knows & PATH) && !p->path.text                              ? "path"
                          : (t->knows & BUCKET) && !(t->knows & HOSTS) && !p->bucket.text ? "bucket"
                                                                                          : NULL;
    if (missing) {
        tn_complain(r, line, "%s: type %s needs '%s'", path, t->name, missing);
        ok = false;
    }
    /* Whatever they are, they would be shown. */
    const char *odd = p->host.text && strchr(p->host.text, '@')           ? "host"
                      : p->user.text && strchr(p->user.text, ':')         ? "user"
                      : p->database.text && strchr(p->database.text, '=') ? "database"
                                                                          : NULL;
    if (odd) {
        tn_complain(r, line,
                    "%s: '%s' has more than that in it; there are host, port, user, password, "
                    "database and options",
                    path, odd);
        ok = false;
    }
    if (p->host.text && p->endpoints) {
        tn_complain(r, line, "%s: 'host' and 'endpoints' mean the same; keep one", path);
        ok = false;
    }
    return ok;
}

static bool copy_redacted(struct tn_reader *r, const char *text, const char *shown,
                          struct tn_text *out)
{
    char redacted[4 * TN_URL_MAX];

    tenure_url_redact(shown, redacted, sizeof redacted);
    out->text = tn_arena_copy(r->arena, text, strlen(text));
    out->shown = tn_arena_copy(r->arena, redacted, strlen(redacted));
    r->no_memory |= !out->text || !out->shown;
    return out->text && out->shown;
}

/* A URL that can be taken apart, of a store that there is; which parameters it may have, that
 * knows. */
static bool check_url(struct tn_reader *r, unsigned line, const char *path, const char *text)
{
    struct tn_url url = {0};
    struct tenure_error err = {0};
    enum tenure_status status = tn_url_parse(text, &url, &err);

    tn_url_free(&url);
    if (!status && r->world->store)
        status = r->world->store(r->world->arg, text, &err);
    if (status)
        tn_complain(r, line, "%s: %s", path, err.text);
    return status == TENURE_OK;
}

bool tn_place_url(struct tn_reader *r, const struct tn_place *place, unsigned line,
                  const char *path, struct tn_text *out)
{
    struct url real = {0}, shown = {.shown = true};
    unsigned before = r->n_complaints;

    if (place->url.text && strchr(place->url.text, ':')) {
        if (place->type.text) {
            tn_complain(r, line, "%s: 'store' is a URL, which says the type; remove 'type'", path);
            return false;
        }
        return check_url(r, line, path, place->url.text) &&
               copy_redacted(r, place->url.text, place->url.shown, out);
    }
    const char *word = place->type.text ? place->type.text : place->url.text;
    if (!word)
        return true;
    if (place->type.text && place->url.text) {
        tn_complain(r, line, "%s: '%.40s' is not a URL, such as sqlite:/path or etcd://host:2379",
                    path, place->url.shown);
        return false;
    }
    const struct type *t = find_type(r, line, path, word);
    if (!t || !check_fields(r, t, place, line, path))
        return false;
    build(&real, r, t, place, path);
    if (r->n_complaints != before)
        return false;
    build(&shown, r, t, place, path);
    if (real.n > TN_URL_MAX || shown.n > TN_URL_MAX)
        tn_complain(r, line, "%s: the URL is longer than 2047 bytes", path);
    bool ok = r->n_complaints == before && check_url(r, line, path, real.text) &&
              copy_redacted(r, real.text, shown.text, out);
    explicit_bzero(&real, sizeof real);
    return ok;
}
