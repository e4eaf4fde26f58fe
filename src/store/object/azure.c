/* azblob: Azure's Blob Storage, and those who speak its protocol. */
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/base64.h"
#include "store/object/azure.h"
#include "store/object/xml.h"

#define VERSION "2021-08-06"
#define DENIED_WORDS                                                                               \
    "the login is wrong, or may not read, write and list these blobs, see "                        \
    "docs/reference/stores/azblob.md"

/* The vendor's part of a handle. */
struct azure {
    struct tn_azure_login login;
    char account[64];
};

/* ---- Configuration ------------------------------------------------------- */

static enum tenure_status configure(struct tn_object *h, struct tenure_error *err)
{
    struct azure *a = h->own = calloc(1, sizeof *a);
    const char *account =
        h->conf.remote.user ? h->conf.remote.user : getenv("AZURE_STORAGE_ACCOUNT");
    char own[128];

    if (!a)
        return tenure_fail(err, TENURE_NOMEM, "azblob: out of memory");
    if (!account || !*account)
        return tenure_fail(err, TENURE_CONFIG,
                           "azblob: name the storage account: account= or AZURE_STORAGE_ACCOUNT");
    if (strlen(account) >= sizeof a->account ||
        strspn(account, "abcdefghijklmnopqrstuvwxyz0123456789") != strlen(account))
        return tenure_fail(err, TENURE_CONFIG,
                           "azblob: '%.40s' is not the name of a storage account", account);
    snprintf(a->account, sizeof a->account, "%s", account);
    snprintf(own, sizeof own, "https://%s.blob.core.windows.net", account);
    /* An emulator has no names of its own for its accounts: they stand in the path. */
    snprintf(h->path, sizeof h->path, "/%s", h->conf.bucket);
    if (h->conf.addressing == TN_OBJECT_PATH ||
        (h->conf.addressing == TN_OBJECT_AUTO && h->conf.endpoint))
        snprintf(h->path, sizeof h->path, "/%s/%s", account, h->conf.bucket);
    return tn_object_set_server(h, "endpoint", h->conf.endpoint ? h->conf.endpoint : own, "", err);
}

static void free_own(struct tn_object *h)
{
    struct azure *a = h->own;

    if (a)
        tn_azure_login_free(&a->login);
    free(a);
}

static enum tenure_status credentials(struct tn_object *h, int64_t deadline,
                                      struct tenure_error *err)
{
    struct azure *a = h->own;

    return tn_azure_login_load(&h->conf, &a->login, deadline, err);
}

static void forget_credentials(struct tn_object *h)
{
    struct azure *a = h->own;

    if (tn_object_lifetime_forget(&a->login.life, &h->forgot_ns))
        tn_azure_login_free(&a->login);
}

/* ---- Requests ------------------------------------------------------------ */

/* The parts of a request that are signed beside its headers. */
struct parts {
    char *path;     /* as it is sent */
    char *query;    /* as it is sent: "name=value&..." */
    char *resource; /* the query as it is signed: "\nname:value" each, sorted */
};

static void free_parts(struct parts *p)
{
    free(p->path);
    free(p->query);
    free(p->resource);
}

/* False: no memory. */
static bool divide(const struct tn_object *h, const struct tn_object_exchange *x, struct parts *p)
{
    const char *next = x->next ? x->next : "";
    char *name, *prefix, *marker;
    bool done;

    if (x->verb != TN_OBJECT_LIST) {
        name = tn_object_escape(x->name, true);
        done = name && asprintf(&p->path, "%s/%s", h->path, name) >= 0;
        free(name);
        p->query = strdup("");
        p->resource = strdup("");
        return done && p->query && p->resource;
    }
    prefix = tn_object_escape(x->name, false);
    marker = tn_object_escape(next, false);
    done = prefix && marker && (p->path = strdup(h->path)) &&
           asprintf(&p->query, "comp=list%s%s&prefix=%s&restype=container", *next ? "&marker=" : "",
                    marker, prefix) >= 0 &&
           asprintf(&p->resource, "\ncomp:list%s%s\nprefix:%s\nrestype:container",
                    *next ? "\nmarker:" : "", next, x->name) >= 0;
    free(prefix);
    free(marker);
    return done;
}

static void condition_of(const struct tn_object_exchange *x, char match[64], char none[64])
{
    *match = *none = '\0';
    if (x->tag && x->verb == TN_OBJECT_PUT && *x->tag)
        snprintf(match, 64, "\"%s\"", x->tag);
    else if (x->tag && x->verb == TN_OBJECT_PUT)
        snprintf(none, 64, "*");
    else if (x->tag)
        snprintf(none, 64, "\"%s\"", x->tag);
}

/* The value of the header Authorization, by the account's key.  A new string or NULL. */
static char *sign(const struct azure *a, const struct tn_object_exchange *x, const struct parts *p,
                  const char *date)
{
    bool put = x->verb == TN_OBJECT_PUT;
    char match[64], none[64], length[24] = "", mac64[TN_BASE64_LEN(32) + 1];
    char *text = NULL, *value = NULL;
    uint8_t mac[32];
    unsigned n = 0;

    condition_of(x, match, none);
    if (x->len)
        snprintf(length, sizeof length, "%zu", x->len);
    if (asprintf(&text,
                 "%s\n\n\n%s\n\n%s\n\n\n%s\n%s\n\n\n"
                 "%sx-ms-date:%s\nx-ms-version:" VERSION "\n/%s%s%s",
                 put ? "PUT" : "GET", length, put ? "application/octet-stream" : "", match, none,
                 put ? "x-ms-blob-type:BlockBlob\n" : "", date, a->account, p->path,
                 p->resource) < 0)
        return NULL;
    HMAC(EVP_sha256(), a->login.secret, (int)a->login.len, (const unsigned char *)text,
         strlen(text), mac, &n);
    free(text);
    tn_base64_encode(mac, sizeof mac, mac64);
    return asprintf(&value, "SharedKey %s:%s", a->account, mac64) < 0 ? NULL : value;
}

static void authorize(const struct azure *a, const struct tn_object_exchange *x,
                      const struct parts *p, const char *date, struct tn_object_draft *draft)
{
    char *value;

    if (a->login.kind == TN_AZURE_BEARER) {
        tn_object_header(draft, "Authorization: Bearer %s", a->login.secret);
    } else if (a->login.kind == TN_AZURE_KEY) {
        value = sign(a, x, p, date);
        tn_object_header(draft, "Authorization: %s", value ? value : "");
        draft->failed = draft->failed || !value;
        free(value);
    }
}

static enum tenure_status compose(struct tn_object *h, const struct tn_object_exchange *x,
                                  struct tn_object_draft *draft, struct tenure_error *err)
{
    const struct azure *a = h->own;
    const char *sas = a->login.kind == TN_AZURE_SAS ? a->login.secret : "";
    struct parts p = {0};
    char match[64], none[64], date[40];
    time_t now = time(NULL);
    struct tm utc;

    (void)err;
    gmtime_r(&now, &utc);
    strftime(date, sizeof date, "%a, %d %b %Y %H:%M:%S GMT", &utc);
    draft->method = x->verb == TN_OBJECT_PUT ? "PUT" : "GET";
    draft->failed = !divide(h, x, &p);
    if (!draft->failed &&
        asprintf(&draft->url, "%s%s%s%s%s%s", h->server, p.path, *p.query || *sas ? "?" : "",
                 p.query, *p.query && *sas ? "&" : "", sas) < 0)
        draft->url = NULL;
    if (!draft->failed && draft->url) {
        condition_of(x, match, none);
        if (*match)
            tn_object_header(draft, "If-Match: %s", match);
        if (*none)
            tn_object_header(draft, "If-None-Match: %s", none);
        if (x->verb == TN_OBJECT_PUT) {
            tn_object_header(draft, "Content-Type: application/octet-stream");
            tn_object_header(draft, "x-ms-blob-type: BlockBlob");
        }
        tn_object_header(draft, "x-ms-date: %s", date);
        tn_object_header(draft, "x-ms-version: " VERSION);
        authorize(a, x, &p, date, draft);
    }
    free_parts(&p);
    return TENURE_OK;
}

/* ---- Answers ------------------------------------------------------------- */

/* By the code of the error: see s3.c. */
static const struct tn_object_fault faults[] = {
    {"AuthenticationFailed", TENURE_DENIED, true, true,
     "the login is wrong: the account's key, a signature that has expired, this machine's "
     "clock by more than 15 minutes, or something on the way changes requests"},
    {"InvalidAuthenticationInfo", TENURE_DENIED, true, true,
     "the login is refused: the token is wrong or has expired"},
    {"AuthorizationFailure", TENURE_DENIED, true, true, DENIED_WORDS},
    {"AuthorizationPermissionMismatch", TENURE_DENIED, true, true, DENIED_WORDS},
    {"AuthorizationResourceTypeMismatch", TENURE_DENIED, true, true, DENIED_WORDS},
    {"AccountIsDisabled", TENURE_DENIED, true, false, "the account is disabled"},
    {"KeyBasedAuthenticationNotPermitted", TENURE_DENIED, true, false,
     "the account does not allow its key to be used"},
    {"ContainerNotFound", TENURE_CONFIG, true, false,
     "there is no such container: create it first"},
    {"InvalidResourceName", TENURE_CONFIG, true, false, "that is not a container's name"},
    {"ContainerBeingDeleted", TENURE_UNAVAILABLE, true, false, "the container is being deleted"},
    {"BlobImmutableDueToPolicy", TENURE_DENIED, true, false,
     "a policy makes the container's blobs immutable"},
    {"InvalidBlobType", TENURE_CONFIG, true, false,
     "the blob is not a block blob: tenure did not write it"},
    {"ServerBusy", TENURE_UNAVAILABLE, false, false, "the server has too many requests"},
    {NULL},
};

static void explain(struct tn_object *h, struct tn_object_exchange *x)
{
    char code[64], message[160];

    (void)h;
    tn_object_error(x, code, sizeof code, message, sizeof message);
    /* Absent is what the server says is absent: a container, or a page of somebody else, is not. */
    if (x->answer.code == 404 && strcmp(code, "BlobNotFound") == 0 && x->verb == TN_OBJECT_GET)
        x->outcome = TN_OBJECT_ABSENT;
    else if (x->answer.code == 409 && x->verb == TN_OBJECT_PUT && x->tag &&
             strcmp(code, "BlobAlreadyExists") == 0)
        x->outcome = TN_OBJECT_CONFLICT;
    else
        tn_object_fail(x, faults, "azblob", code, message);
}

static enum tenure_status take_page(const char *body, size_t len, struct tn_object_page *page,
                                    struct tenure_error *err)
{
    struct tn_xml all = {body, body + len}, result, row;
    char next[1100] = "", name[TN_OBJECT_NAME_MAX + 1], tag[TN_HTTP_HEADER_MAX];
    char clean[TN_OBJECT_TAG_MAX + 1];

    if (!tn_xml_next(&all, "EnumerationResults", &result))
        return tenure_fail(err, TENURE_UNAVAILABLE, "the listing cannot be understood");
    if (!tn_xml_text(result, "NextMarker", next, sizeof next) && *next)
        return tenure_fail(err, TENURE_UNAVAILABLE, "the listing does not say how it goes on");
    while (tn_xml_next(&result, "Blob", &row)) {
        if (!tn_xml_text(row, "Name", name, sizeof name))
            continue; /* longer than any of ours, or in letters that none of ours has */
        if (!tn_xml_text(row, "Etag", tag, sizeof tag) || !tn_object_etag(tag, clean))
            return tenure_fail(err, TENURE_UNAVAILABLE, "the listing has no Etag of '%.80s'", name);
        if (!tn_object_page_add(page, name, clean))
            return tenure_fail(err, TENURE_NOMEM, "out of memory");
    }
    if (*next && !(page->next = strdup(next)))
        return tenure_fail(err, TENURE_NOMEM, "out of memory");
    return TENURE_OK;
}

const struct tn_object_vendor tn_azure = {
    .scheme = "azblob",
    .promise = "Azure Blob Storage: every change is as durable as the account; a standby asks once "
               "an interval, because nothing tells of changes; every request has its price",
    .blind_promise = "Azure Blob Storage: every change is as durable as the account; WARNING: "
                     "verify=none, anybody may pose as the server",
    .tag_header = "etag",
    .swap_price = 5500, /* $0.055 for 10,000 writes, $0.0044 for 10,000 reads: hot, LRS, 2025 */
    .read_price = 440,
    .configure = configure,
    .free = free_own,
    .credentials = credentials,
    .forget_credentials = forget_credentials,
    .compose = compose,
    .tag = tn_object_etag,
    .explain = explain,
    .page = take_page,
};
