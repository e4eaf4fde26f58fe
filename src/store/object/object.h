/*
 * store/object/object.h - registers as objects of a bucket: s3:, azblob:.
 *
 * The register KEY is the object PREFIX/KEY!, whose bytes are framed (store/frame.h).  The '!' is
 * there for servers that keep objects as files, on which "a" and "a/b" are in each other's way; it
 * sorts before every character of a key, so that the objects' order is the registers'.  It is
 * replaced by a conditional PUT alone, on the tag that was read (If-Match), or on absence
 * (If-None-Match: *); never deleted.  The tag is the server's ETag.  On many servers it is the hash
 * of the bytes; the nonce in them makes every value's different.
 *
 * The version of a token is "TAG.N", where N is a sum of the nonce: a server compares tags only, so
 * who expects a version with another nonce is refused here (C2).
 *
 * What differs between the vendors is in struct tn_object_vendor.
 */
#ifndef TN_STORE_OBJECT_OBJECT_H
#define TN_STORE_OBJECT_OBJECT_H

#include "store/http/http.h"
#include "store/raw.h"
#include "store/remote.h"
#include "store/watcher.h"
#include "tenure/store.h"

#define TN_OBJECT_PREFIX   128
#define TN_OBJECT_END      "!"
#define TN_OBJECT_NAME_MAX (TN_OBJECT_PREFIX + 1 + TENURE_KEY_MAX + 1)
#define TN_OBJECT_TAG_MAX  44 /* with '.' and a sum it is a version */
#define TN_OBJECT_CALLS    8  /* requests under way at once */

struct tn_object;

struct tn_object_conf {
    struct tn_remote remote;
    const char *endpoint;            /* NULL: the vendor's own */
    const char *region, *profile;    /* s3 */
    struct tn_secret sas;            /* azblob */
    int addressing;                  /* enum tn_object_addressing */
    char bucket[64];                 /* its name */
    char base[TN_OBJECT_PREFIX + 2]; /* "PREFIX/", or "" */
    int64_t poll_ns;
    bool repair; /* a damaged register is read as it is, and may be replaced */
    struct tn_http_conf http;
};

enum tn_object_addressing { TN_OBJECT_AUTO, TN_OBJECT_PATH, TN_OBJECT_VIRTUAL };

enum tn_object_verb { TN_OBJECT_GET, TN_OBJECT_PUT, TN_OBJECT_LIST };

enum tn_object_outcome {
    TN_OBJECT_DONE,     /* and what was asked for is in answer */
    TN_OBJECT_SAME,     /* a GET: it still has the tag */
    TN_OBJECT_ABSENT,   /* a GET: there is no such object */
    TN_OBJECT_CONFLICT, /* a PUT: the condition does not hold */
};

/* A request, and what came of it. */
struct tn_object_exchange {
    enum tn_object_verb verb;
    char name[TN_OBJECT_NAME_MAX + 1]; /* of the object; LIST: what the names begin with */
    /* PUT: if it has this tag; "": if there is none; NULL: in any case.
     * GET: if it has another one; NULL: in any case. */
    const char *tag;
    const void *body; /* of a PUT */
    size_t len;
    const char *after; /* LIST: names behind this one; NULL: all */
    const char *next;  /* LIST: what the page before said; NULL: the first page */
    /* ---- */
    enum tenure_status status; /* OK: the server answered, as the outcome says */
    enum tn_object_outcome outcome;
    bool lost;  /* a PUT that may have been carried out, or still may */
    bool again; /* it was refused, and may not be with credentials that are fetched again */
    struct tn_http_answer answer;      /* its body is the caller's to free */
    char found[TN_OBJECT_TAG_MAX + 1]; /* the object's tag now, after DONE */
    struct tenure_error err;
};

/* An HTTP request in the making.  Every string is owned. */
struct tn_object_draft {
    const char *method;
    char *url;
    char *headers[12]; /* ended by NULL */
    unsigned n_headers;
    bool failed; /* no memory */
};

/* One page of a listing. */
struct tn_object_page {
    struct {
        char name[TN_OBJECT_NAME_MAX + 1];
        char tag[TN_OBJECT_TAG_MAX + 1];
    } * rows;
    size_t n, cap;
    char *next; /* NULL: it is the last one */
};

struct tn_object_vendor {
    const char *scheme;
    const char *promise, *blind_promise;
    const char *tag_header;
    uint32_t swap_price, read_price; /* at the vendor's own, as in struct tenure_store_info */
    /* What the URL, the environment and files say: endpoint, region. */
    enum tenure_status (*configure)(struct tn_object *h, struct tenure_error *err);
    void (*free)(struct tn_object *h);
    /* Make sure that there are credentials, and that they last.  May ask a server for them. */
    enum tenure_status (*credentials)(struct tn_object *h, int64_t deadline,
                                      struct tenure_error *err);
    void (*forget_credentials)(struct tn_object *h);
    enum tenure_status (*compose)(struct tn_object *h, const struct tn_object_exchange *x,
                                  struct tn_object_draft *draft, struct tenure_error *err);
    /* The tag in the header of an answer.  False: it is not a valid one. */
    bool (*tag)(const char *header, char tag[TN_OBJECT_TAG_MAX + 1]);
    /* An answer that is neither what was asked for nor 304 or 412: sets outcome, or status, err,
     * lost and again. */
    void (*explain)(struct tn_object *h, struct tn_object_exchange *x);
    enum tenure_status (*page)(const char *body, size_t len, struct tn_object_page *page,
                               struct tenure_error *err);
};

struct tn_object {
    struct tn_watcher watcher; /* first (store/watcher.h) */
    const struct tn_object_vendor *vendor;
    struct tn_object_conf conf;
    struct tn_http *http, *several; /* for one request, for several at once; NULL until then */
    char server[300];               /* "https://host:port", where requests go */
    char host[280];                 /* "host:port", as the header says it */
    char path[140];                 /* before the objects' names: "/BUCKET", or "" */
    void *own;                      /* the vendor's */
    bool unready;                   /* the last one that answered had trouble of its own */
    unsigned unanswered;            /* requests so far that nobody answered */
    int64_t forgot_ns;              /* when credentials of a giver were last given up */
};

/* ---- conf.c */
extern const struct tn_option tn_s3_options[], tn_azure_options[];
/* Into a zeroed one, which is freed on failure too. */
enum tenure_status tn_object_conf_parse(const char *url, const struct tn_option *options,
                                        struct tn_object_conf *conf, struct tenure_error *err);
void tn_object_conf_free(struct tn_object_conf *conf);
/* Take a server's address apart: "https://host:port" into h->server and h->host, with label (may be
 * "") and a dot before the host.  CONFIG names the option. */
enum tenure_status tn_object_set_server(struct tn_object *h, const char *option,
                                        const char *endpoint, const char *label,
                                        struct tenure_error *err);

/* ---- call.c */

/* The name of a register's object. */
void tn_object_name(const struct tn_object *h, const char *key, struct tn_object_exchange *x);
/* Send up to TN_OBJECT_CALLS of them at once.  A change is sent at most once. */
void tn_object_send(struct tn_object *h, struct tn_object_exchange *xs, size_t n, int64_t deadline);
/* Frees what the answers hold. */
void tn_object_release(struct tn_object_exchange *xs, size_t n);
void tn_object_header(struct tn_object_draft *draft, const char *format, ...) TENURE_PRINTF(2, 3);
/* Percent-escape all but unreserved characters (and '/', if slash is set).  A new string or NULL.
 */
char *tn_object_escape(const char *text, bool slash);

/* ---- value.c */

/* The version of a tag and a nonce, and back: the tag, or NULL if it is not this nonce's. */
void tn_object_version(const char *tag, const uint8_t nonce[TENURE_NONCE_SIZE],
                       char version[TENURE_VERSION_MAX + 1]);
bool tn_object_expected(const struct tenure_token *token, char tag[TN_OBJECT_TAG_MAX + 1]);
/* A register from the answer to a GET that is DONE.  CORRUPT leaves value untouched. */
enum tenure_status tn_object_decode(const struct tn_object_exchange *x, struct tenure_value *value,
                                    struct tenure_error *err);
/* Is the register as the token says?  Of a GET on the token's tag. */
bool tn_object_is(const struct tn_object_exchange *x, const struct tenure_token *token);
extern const struct tn_raw_ops tn_object_raw;

/* ---- swap.c, list.c, wait.c, probe.c */
enum tenure_status tn_object_swap(void *impl, struct tenure_swap *swap, int64_t deadline,
                                  struct tenure_error *err);
enum tenure_status tn_object_swap_many(void *impl, struct tenure_swap *swaps, size_t n,
                                       int64_t deadline, struct tenure_error *err);
/* Write the swap's value over what has this tag. */
enum tenure_status tn_object_replace(struct tn_object *h, struct tenure_swap *swap, const char *tag,
                                     int64_t deadline, struct tenure_error *err);
enum tenure_status tn_object_list(void *impl, const char *prefix, const char *after,
                                  tenure_visit_fn visit, void *arg,
                                  char mark[TENURE_VERSION_MAX + 1], int64_t deadline,
                                  struct tenure_error *err);
/* What tells one listing of the prefix from another. */
enum tenure_status tn_object_mark(struct tn_object *h, const char *prefix, int64_t deadline,
                                  char mark[TENURE_VERSION_MAX + 1], struct tenure_error *err);
void tn_object_page_free(struct tn_object_page *page);
/* A row behind the others; false when out of memory.  Names and tags that are too long are left
 * out: they are none of ours. */
bool tn_object_page_add(struct tn_object_page *page, const char *name, const char *tag);
void tn_object_watcher_init(struct tn_object *h);
/* Refuse a server that does not keep conditions: CONFIG. */
enum tenure_status tn_object_probe(struct tn_object *h, int64_t deadline, struct tenure_error *err);

/* ---- answer.c */

/*
 * What a code of an error means.  A change that was refused like that was certainly not carried
 * out if it is definite; of anything else, but for other refusals (4xx), that cannot be known.
 */
struct tn_object_fault {
    const char *code; /* NULL ends a table */
    enum tenure_status status;
    bool definite, fresh; /* fresh: other credentials may be there by now */
    const char *words;
};
/* The code and the message of an error, "" where there is none. */
void tn_object_error(const struct tn_object_exchange *x, char *code, size_t code_size,
                     char *message, size_t message_size);
/* Sets status, err, lost and again by the table, or by the HTTP code. */
void tn_object_fail(struct tn_object_exchange *x, const struct tn_object_fault *faults,
                    const char *service, const char *code, const char *message);
/* An ETag, with quotes or without. */
bool tn_object_etag(const char *header, char tag[TN_OBJECT_TAG_MAX + 1]);

/* ---- fetch.c */

/* How long something lasts that is given out for a while; zeros: it is not of that kind. */
struct tn_object_lifetime {
    int64_t renew_ns; /* another one is fetched from here on ... */
    int64_t end_ns;   /* ... and this one is used until here, if nobody gives another */
    int64_t tried_ns; /* nobody did, here */
};
/* `left` seconds from now. */
void tn_object_lifetime_set(struct tn_object_lifetime *life, int64_t left);
/* It need not be replaced now. */
bool tn_object_lifetime_good(const struct tn_object_lifetime *life);
/*
 * It should be replaced, and can still be used.  *deadline becomes an earlier one: a giver that
 * hangs must not cost the request that it is for.
 */
bool tn_object_lifetime_spare(const struct tn_object_lifetime *life, int64_t *deadline);
/* May it be given up, because it was refused?  Not time and again: a right may be missing. */
bool tn_object_lifetime_forget(const struct tn_object_lifetime *life, int64_t *forgot_ns);
/* What an HTTP code of a giver means. */
enum tenure_status tn_object_fetch_status(long code);

/* A request to somebody who gives out credentials.  method: NULL is POST with a body, else GET. */
struct tn_object_fetch {
    const char *method, *url, *header, *body; /* all but url may be NULL */
    int cancel_fd;
};
enum tenure_status tn_object_fetch(const struct tn_object_fetch *f, int64_t deadline,
                                   struct tn_http_answer *answer, struct tenure_error *err);
/* Overwrites it first. */
void tn_object_fetch_free(struct tn_http_answer *answer);

/* ---- s3.c, azure.c */
extern const struct tn_object_vendor tn_s3, tn_azure;

#endif
