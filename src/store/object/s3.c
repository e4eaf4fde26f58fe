/* s3: Amazon's protocol for objects, and those who speak it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/object/aws.h"
#include "store/object/object.h"
#include "store/object/xml.h"

/* The vendor's part of a handle. */
struct s3 {
    struct tn_aws_keys keys;
    char region[64];
};

/* ---- Configuration ------------------------------------------------------- */

static bool take_region(struct s3 *s, const char *name)
{
    if (!name || !*name)
        return false;
    snprintf(s->region, sizeof s->region, "%s", name);
    return true;
}

static void find_region(const struct tn_object *h, struct s3 *s)
{
    char *profile = NULL;

    if (!take_region(s, h->conf.region) && !take_region(s, getenv("AWS_REGION")) &&
        !take_region(s, getenv("AWS_DEFAULT_REGION"))) {
        profile = tn_aws_profile(h->conf.profile, "region");
        if (!take_region(s, profile))
            take_region(s, "us-east-1");
    }
    free(profile);
}

static enum tenure_status configure(struct tn_object *h, struct tenure_error *err)
{
    const struct tn_secret *password = &h->conf.remote.password;
    struct s3 *s = h->own = calloc(1, sizeof *s);
    char amazon[128];
    bool virtual;

    if (!s)
        return tenure_fail(err, TENURE_NOMEM, "s3: out of memory");
    if (!h->conf.remote.user != !(password->text || password->file || password->env))
        return tenure_fail(err, TENURE_CONFIG, "s3: a user and a password go together");
    find_region(h, s);
    if (strspn(s->region, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_") !=
        strlen(s->region))
        return tenure_fail(err, TENURE_CONFIG, "s3: '%.40s' is not the name of a region",
                           s->region);
    snprintf(amazon, sizeof amazon, "https://s3.%s.amazonaws.com", s->region);
    /* A certificate for *.s3... does not cover names with a dot in them. */
    virtual = h->conf.addressing == TN_OBJECT_VIRTUAL ||
              (h->conf.addressing == TN_OBJECT_AUTO && !h->conf.endpoint &&
               !strchr(h->conf.bucket, '.'));
    if (!virtual)
        snprintf(h->path, sizeof h->path, "/%s", h->conf.bucket);
    return tn_object_set_server(h, "endpoint", h->conf.endpoint ? h->conf.endpoint : amazon,
                                virtual ? h->conf.bucket : "", err);
}

static void free_own(struct tn_object *h)
{
    struct s3 *s = h->own;

    if (s)
        tn_aws_keys_free(&s->keys);
    free(s);
}

static enum tenure_status credentials(struct tn_object *h, int64_t deadline,
                                      struct tenure_error *err)
{
    struct s3 *s = h->own;
    const struct tn_aws_choice choice = {h->conf.remote.user, h->conf.remote.password,
                                         h->conf.profile, s->region, h->conf.http.cancel_fd};

    return tn_aws_keys_load(&choice, &s->keys, deadline, err);
}

static void forget_credentials(struct tn_object *h)
{
    struct s3 *s = h->own;

    if (tn_object_lifetime_forget(&s->keys.life, &h->forgot_ns))
        tn_aws_keys_free(&s->keys);
}

/* ---- Requests ------------------------------------------------------------ */

/* "name=value&...", sorted by name, as the signature wants it.  A new string or NULL. */
static char *query_of(const struct tn_object_exchange *x)
{
    char *after = tn_object_escape(x->after ? x->after : "", false);
    char *next = tn_object_escape(x->next ? x->next : "", false);
    char *prefix = tn_object_escape(x->name, false), *query = NULL;

    if (after && next && prefix &&
        asprintf(&query, "%s%s%slist-type=2&prefix=%s%s%s", x->next ? "continuation-token=" : "",
                 next, x->next ? "&" : "", prefix, x->after && !x->next ? "&start-after=" : "",
                 x->after && !x->next ? after : "") < 0)
        query = NULL;
    free(after);
    free(next);
    free(prefix);
    return query;
}

/* A condition is signed: who strips it on the way breaks the signature.  What is signed goes out
 * as it is, in the order of the names. */
static void sign(const struct tn_object *h, const struct tn_object_exchange *x,
                 struct tn_object_draft *draft, const char *path, const char *query)
{
    const struct s3 *s = h->own;
    struct tn_aws_request rq = {.method = draft->method,
                                .path = path,
                                .query = query,
                                .host = h->host,
                                .region = s->region,
                                .service = "s3",
                                .headers = (const char *const *)draft->headers};
    char *value = NULL;

    tn_aws_request_init(&rq, x->body, x->len);
    if (x->tag && x->verb == TN_OBJECT_PUT && *x->tag)
        tn_object_header(draft, "if-match:\"%s\"", x->tag);
    else if (x->tag && x->verb == TN_OBJECT_PUT)
        tn_object_header(draft, "if-none-match:*");
    else if (x->tag)
        tn_object_header(draft, "if-none-match:\"%s\"", x->tag);
    tn_object_header(draft, "x-amz-content-sha256:%s", rq.hash);
    tn_object_header(draft, "x-amz-date:%s", rq.date);
    if (s->keys.session)
        tn_object_header(draft, "x-amz-security-token:%s", s->keys.session);
    if (!draft->failed)
        value = tn_aws_sign(&s->keys, &rq);
    tn_object_header(draft, "Authorization: %s", value ? value : "");
    draft->failed = draft->failed || !value;
    free(value);
}

static enum tenure_status compose(struct tn_object *h, const struct tn_object_exchange *x,
                                  struct tn_object_draft *draft, struct tenure_error *err)
{
    bool list = x->verb == TN_OBJECT_LIST;
    char *name = tn_object_escape(list ? "" : x->name, true), *path = NULL;
    char *query = list ? query_of(x) : strdup("");

    (void)err;
    draft->method = x->verb == TN_OBJECT_PUT ? "PUT" : "GET";
    if (name && query && asprintf(&path, "%s/%s", h->path, name) >= 0) {
        if (asprintf(&draft->url, "%s%s%s%s", h->server, path, *query ? "?" : "", query) < 0)
            draft->url = NULL;
        sign(h, x, draft, path, query);
        if (x->verb == TN_OBJECT_PUT)
            tn_object_header(draft, "Content-Type: application/octet-stream");
        free(path);
    }
    free(name);
    free(query);
    return TENURE_OK;
}

/* ---- Answers ------------------------------------------------------------- */

static const struct tn_object_fault faults[] = {
    {"InvalidAccessKeyId", TENURE_DENIED, true, true,
     "the login is refused: the server does not know the access key's ID"},
    {"SignatureDoesNotMatch", TENURE_DENIED, true, true,
     "the login is refused: the secret access key (password) is wrong, or something on the way "
     "changes requests"},
    {"ExpiredToken", TENURE_DENIED, true, true,
     "the login has expired: the session's token is old"},
    {"InvalidToken", TENURE_DENIED, true, true,
     "the login is refused: the session's token is wrong"},
    {"RequestTimeTooSkewed", TENURE_DENIED, true, false,
     "the login is refused: this machine's clock is wrong by more than 15 minutes"},
    {"AuthorizationHeaderMalformed", TENURE_CONFIG, true, false,
     "the bucket is in another region: set region="},
    {"PermanentRedirect", TENURE_CONFIG, true, false,
     "the bucket is in another region: set region="},
    {"AccessDenied", TENURE_DENIED, true, true,
     "it may not read, write and list these objects, see docs/reference/stores/s3.md"},
    {"AllAccessDisabled", TENURE_DENIED, true, false, "the bucket is disabled"},
    {"NoSuchBucket", TENURE_CONFIG, true, false, "there is no such bucket: create it first"},
    {"InvalidBucketName", TENURE_CONFIG, true, false, "that is not a bucket's name"},
    {"NotImplemented", TENURE_CONFIG, true, false,
     "the server does not know conditional writes: use one that does"},
    {"XMinioStorageFull", TENURE_UNAVAILABLE, false, false, "the server's disk is full"},
    {"SlowDown", TENURE_UNAVAILABLE, false, false, "the server has too many requests"},
    {NULL},
};

static void explain(struct tn_object *h, struct tn_object_exchange *x)
{
    char code[64], message[160];

    (void)h;
    tn_object_error(x, code, sizeof code, message, sizeof message);
    /* Absent is what the server says is absent: a bucket, or a page of somebody else, is not. */
    if (x->answer.code == 404 && strcmp(code, "NoSuchKey") == 0 && x->verb != TN_OBJECT_LIST &&
        (x->verb == TN_OBJECT_GET || x->tag))
        x->outcome = x->verb == TN_OBJECT_GET ? TN_OBJECT_ABSENT : TN_OBJECT_CONFLICT;
    else if (x->answer.code == 409 && x->verb == TN_OBJECT_PUT && x->tag)
        x->outcome = TN_OBJECT_CONFLICT; /* another write of it was under way */
    else
        tn_object_fail(x, faults, "S3", code, message);
}

static enum tenure_status take_page(const char *body, size_t len, struct tn_object_page *page,
                                    struct tenure_error *err)
{
    struct tn_xml all = {body, body + len}, result, row;
    char truncated[8] = "", next[1100], name[TN_OBJECT_NAME_MAX + 1], tag[TN_HTTP_HEADER_MAX];
    char clean[TN_OBJECT_TAG_MAX + 1];
    bool more;

    if (!tn_xml_next(&all, "ListBucketResult", &result) ||
        !tn_xml_text(result, "IsTruncated", truncated, sizeof truncated))
        return tenure_fail(err, TENURE_UNAVAILABLE, "the listing cannot be understood");
    more = strcmp(truncated, "true") == 0;
    if (more && !tn_xml_text(result, "NextContinuationToken", next, sizeof next))
        return tenure_fail(err, TENURE_UNAVAILABLE, "the listing does not say how it goes on");
    while (tn_xml_next(&result, "Contents", &row)) {
        if (!tn_xml_text(row, "Key", name, sizeof name))
            continue; /* longer than any of ours, or in letters that none of ours has */
        if (!tn_xml_text(row, "ETag", tag, sizeof tag) || !tn_object_etag(tag, clean))
            return tenure_fail(err, TENURE_UNAVAILABLE, "the listing has no ETag of '%.80s'", name);
        if (!tn_object_page_add(page, name, clean))
            return tenure_fail(err, TENURE_NOMEM, "out of memory");
    }
    if (more && !(page->next = strdup(next)))
        return tenure_fail(err, TENURE_NOMEM, "out of memory");
    return TENURE_OK;
}

const struct tn_object_vendor tn_s3 = {
    .scheme = "s3",
    .promise = "S3: every change is as durable as the bucket; a standby asks once an interval, "
               "because nothing tells of changes; every request has its price",
    .blind_promise = "S3: every change is as durable as the bucket; WARNING: verify=none, anybody "
                     "may pose as the server",
    .tag_header = "etag",
    .swap_price = 5000, /* $0.005 for 1,000 PUT, $0.0004 for 1,000 GET: us-east-1, 2025 */
    .read_price = 400,
    .configure = configure,
    .free = free_own,
    .credentials = credentials,
    .forget_credentials = forget_credentials,
    .compose = compose,
    .tag = tn_object_etag,
    .explain = explain,
    .page = take_page,
};
