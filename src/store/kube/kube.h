/*
 * store/kube/kube.h - kube:, registers in coordination.k8s.io/v1 Leases.
 *
 * Every register is a Lease object.  The record of an election (the key
 * NAME/lease) also fills the standard fields, so that `kubectl get lease` reads
 * well and a client-go candidate may contend for the same object.  What the
 * standard fields have no room for is in annotations:
 *
 *   tenure/key          the register's key
 *   tenure/nonce, prev  of the request that wrote it, and of what it replaced
 *   tenure/text         the value; or tenure/base64, if it is not UTF-8
 *   tenure/tombstone    "true": erased
 *   tenure/holder, tenure/renewed   holderIdentity and renewTime as they were written with it
 *   tenure/epoch, grant, incarnation   of the record, for people and their scripts
 *
 * client-go keeps foreign annotations when it takes over, so ours count only
 * while holderIdentity and renewTime are those that they were written with.
 *
 * The version is "RESOURCEVERSION.UID": a PUT carries both, because an update of
 * an object that is gone would create it again.
 */
#ifndef TN_STORE_KUBE_KUBE_H
#define TN_STORE_KUBE_KUBE_H

#include <jansson.h>

#include "base/url.h"
#include "store/http/http.h"
#include "store/kube/access.h"
#include "store/watcher.h"
#include "tenure/store.h"

#define TN_KUBE_NAME_MAX   253
#define TN_KUBE_HASH       32           /* characters */
#define TN_KUBE_DATA_MAX   (128u << 10) /* annotations hold 256 KiB, and base64 takes a third */
#define TN_KUBE_TTL_MIN_MS 5000
#define TN_KUBE_RV_MAX     24

struct tn_kube {
    struct tn_watcher watcher; /* first (store/watcher.h) */
    struct tn_kube_access access;
    char namespace[64];
    char lease[TN_KUBE_NAME_MAX + 1]; /* of the record; "": the election's name */
    char scope[TN_KUBE_HASH + 1];     /* the label that all our objects carry */
    bool repair;                      /* a damaged register is read as it is, and may be replaced */
    struct tn_http *http;
    unsigned unanswered;   /* requests so far that nobody answered */
    int64_t not_before_ns; /* until then the server wants to be left alone */
    json_t *last;          /* the Lease of a record as last seen, to put it back changed */
};

/* ---- name.c */

/* 128 bits over n strings; never zero. */
void tn_kube_hash(const char *const *parts, size_t n, uint8_t out[16]);
/* "NAME/lease", NAME of one segment: the key of an election's record. */
bool tn_kube_is_record(const char *key);
/* Might this be the name of an object that holds a key under prefix? */
bool tn_kube_name_under(const char *name, const char *prefix);
/* The name of the object that holds key. */
void tn_kube_name(const struct tn_kube *h, const char *key, char name[TN_KUBE_NAME_MAX + 1]);
/* A DNS name of at most max characters; with dots, if a Lease's. */
bool tn_kube_name_valid(const char *name, size_t max, bool dots);
/* Split a token's version.  False if it is none of ours. */
bool tn_kube_version(const char *version, char rv[TN_KUBE_RV_MAX + 1], char uid[64]);

/* ---- call.c */

struct tn_kube_request {
    const char *method;
    const char *resource; /* of the core API, such as "pods"; NULL: Leases */
    const char *name;     /* of the object; NULL: all of them */
    const char *query;    /* behind '?', or NULL */
    const json_t *body;
    bool change; /* sent at most once */
};

struct tn_kube_answer {
    long code;    /* 200, 201, 404 (no such Lease), 409, or 410 */
    json_t *root; /* a new reference, with 200 and 201; else NULL */
    bool lost;    /* no answer came, or none that says so, but the change may be carried out */
};

/* OK: answer->code says which.  Any other answer is explained. */
enum tenure_status tn_kube_call(struct tn_kube *h, const struct tn_kube_request *request,
                                int64_t deadline, struct tn_kube_answer *answer,
                                struct tenure_error *err);
/*
 * Begin to follow one object, or (name is NULL) all in scope, from rv; NULL: from now, and what is
 * there comes first.  OK with 200 or 410.
 */
enum tenure_status tn_kube_follow(struct tn_kube *h, const char *name, const char *rv,
                                  int64_t deadline, struct tn_http_stream **stream, long *code,
                                  struct tenure_error *err);

/* ---- object.c */

/* The token of an object that holds key.  False if it is no register of ours. */
bool tn_kube_token(const char *key, const json_t *object, struct tenure_token *token);
/* The register.  CORRUPT leaves value untouched. */
enum tenure_status tn_kube_decode(const char *key, const json_t *object, struct tenure_value *value,
                                  struct tenure_error *err);
/* Does it say to hold another key?  Then it is no damage of this one. */
bool tn_kube_anothers(const char *key, const json_t *object);
/* The key that an object says to hold; NULL: none of ours. */
const char *tn_kube_key_of(const json_t *object);
/* metadata.NAME as text, NULL if it is none. */
const char *tn_kube_meta(const json_t *object, const char *name);

/* ---- write.c: the object that a swap writes */

/* base is the object that it replaces, for a record; NULL for none.  A new reference. */
enum tenure_status tn_kube_encode(const struct tn_kube *h, const struct tenure_swap *swap,
                                  const json_t *base, json_t **object, struct tenure_error *err);

/* ---- repair.c */

/* An object that is CORRUPT, as it is (store/damaged.h). */
enum tenure_status tn_kube_take_damaged(const json_t *object, struct tenure_value *value,
                                        struct tenure_error *err);
/* A swap that expects such a one. */
enum tenure_status tn_kube_repair(struct tn_kube *h, struct tenure_swap *swap, int64_t deadline,
                                  struct tenure_error *err);

/* ---- kube.c */

TENURE_API extern const struct tenure_store_ops *const tenure_store_module[];

/* GET the object of key: *object is a new reference, NULL if there is none. */
enum tenure_status tn_kube_get(struct tn_kube *h, const char *key, int64_t deadline,
                               json_t **object, struct tenure_error *err);
/* Remember a record's object; takes no reference of the caller's. */
void tn_kube_remember(struct tn_kube *h, const char *key, json_t *object);

/* ---- list.c, swap.c, wait.c: the functions of the table */
enum tenure_status tn_kube_list(void *impl, const char *prefix, const char *after,
                                tenure_visit_fn visit, void *arg, char mark[TENURE_VERSION_MAX + 1],
                                int64_t deadline, struct tenure_error *err);
/* The server's version now, from a listing of one object of all. */
enum tenure_status tn_kube_list_version(struct tn_kube *h, int64_t deadline,
                                        char rv[TN_KUBE_RV_MAX + 1], struct tenure_error *err);
enum tenure_status tn_kube_swap(void *impl, struct tenure_swap *swap, int64_t deadline,
                                struct tenure_error *err);
/* Send an object, or a patch, and tell what became of it.  *code: the server's answer, or 0. */
enum tenure_status tn_kube_send(struct tn_kube *h, struct tenure_swap *swap, const char *method,
                                const json_t *body, int64_t deadline, long *code,
                                struct tenure_error *err);
void tn_kube_watcher_init(struct tn_kube *h);

#endif
