/*
 * Objects that are not what this store writes: annotations that others have
 * changed.  Everybody is told CORRUPT, but an operator who repairs (repair=yes) reads
 * one as it is: a line of JSON with its annotations, labels and standard fields,
 * and its value.  It is replaced by a write on the very resourceVersion and uid
 * that were read (C2).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/kube/kube.h"
#include "store/raw.h"

#define TEXT "tenure/text"

/* ---- What it says -------------------------------------------------------- */

/* All that people may have written into it; without the value, if that is *text, which is the
 * caller's as long as the object. */
static json_t *shown(const json_t *object, const char **text)
{
    const json_t *meta = json_object_get(object, "metadata");
    const json_t *spec = json_object_get(object, "spec");
    json_t *notes = json_copy(json_object_get(meta, "annotations"));
    const json_t *labels = json_object_get(meta, "labels");

    if (!json_is_object(notes)) {
        json_decref(notes);
        notes = json_object();
    }
    const json_t *member = json_object_get(json_object_get(meta, "annotations"), TEXT);
    *text = json_string_value(member);
    if (*text && strlen(*text) != json_string_length(member))
        *text = NULL;
    if (*text)
        json_object_del(notes, TEXT);
    return json_pack("{s:o, s:O?, s:O?}", "annotations", notes, "labels", labels, "spec", spec);
}

enum tenure_status tn_kube_take_damaged(const json_t *object, struct tenure_value *value,
                                        struct tenure_error *err)
{
    const char *text = NULL;
    json_t *all = shown(object, &text);
    char *line = all ? json_dumps(all, JSON_COMPACT | JSON_SORT_KEYS | JSON_ENSURE_ASCII) : NULL;
    char *bytes = NULL;
    size_t size = 0;
    FILE *to = line ? open_memstream(&bytes, &size) : NULL;
    enum tenure_status status = TENURE_NOMEM;

    if (to) {
        fprintf(to, "kube-lease 1 %s%s\n%s", text ? "text " : "", line, text ? text : "");
        if (fclose(to) == 0)
            status = tn_damaged_value(value, bytes, size, err);
    }
    if (!to || status == TENURE_NOMEM)
        tenure_fail(err, status, "kube: out of memory");
    free(bytes);
    free(line);
    json_decref(all);
    return status;
}

/* ---- Replacing ----------------------------------------------------------- */

static enum tenure_status read_raw(void *impl, const char *key, int64_t deadline, void **raw,
                                   struct tenure_error *err)
{
    json_t *object = NULL;
    enum tenure_status status = tn_kube_get(impl, key, deadline, &object, err);

    *raw = object;
    return status;
}

static void free_raw(void *raw)
{
    json_decref(raw);
}

static enum tenure_status decode(void *impl, const char *key, const void *raw,
                                 struct tenure_value *value, struct tenure_error *err)
{
    (void)impl;
    return tn_kube_decode(key, raw, value, err);
}

static enum tenure_status take_damaged(void *impl, const char *key, const void *raw,
                                       struct tenure_value *value, struct tenure_error *err)
{
    (void)impl;
    return tn_kube_anothers(key, raw) ? err->code : tn_kube_take_damaged(raw, value, err);
}

/* The version that the server must still have. */
static enum tenure_status version_of(const char *key, const json_t *object,
                                     char version[TENURE_VERSION_MAX + 1], struct tenure_error *err)
{
    const char *rv = tn_kube_meta(object, "resourceVersion"), *uid = tn_kube_meta(object, "uid");

    if (!rv || !uid || !*rv || !*uid || strchr(rv, '.') || strlen(rv) > TN_KUBE_RV_MAX ||
        strlen(rv) + strlen(uid) >= TENURE_VERSION_MAX)
        return tenure_fail(err, TENURE_UNAVAILABLE, "kube: %s: it has no version", key);
    snprintf(version, TENURE_VERSION_MAX + 1, "%s.%s", rv, uid);
    return TENURE_OK;
}

/* Annotations, labels and standard fields as we write them, if nobody was faster. */
static json_t *patch_of(const struct tenure_swap *swap, const json_t *object)
{
    char rv[TN_KUBE_RV_MAX + 1], uid[64];
    json_t *meta = json_object_get(object, "metadata");

    if (!tn_kube_version(swap->expect.version, rv, uid))
        return NULL;
    return json_pack(
        "[{s:s, s:s, s:s}, {s:s, s:s, s:s}, {s:s, s:s, s:O}, {s:s, s:s, s:O}, {s:s, s:s, s:O}]",
        "op", "test", "path", "/metadata/uid", "value", uid, "op", "test", "path",
        "/metadata/resourceVersion", "value", rv, "op", "add", "path", "/metadata/annotations",
        "value", json_object_get(meta, "annotations"), "op", "add", "path", "/metadata/labels",
        "value", json_object_get(meta, "labels"), "op", "add", "path", "/spec", "value",
        json_object_get(object, "spec"));
}

static const struct tn_raw_ops ops;

/* A patch whose test fails and one that is not accepted are told alike: look which. */
static enum tenure_status refused(struct tn_kube *h, const struct tenure_swap *swap,
                                  int64_t deadline, struct tenure_error *err)
{
    struct tenure_error why = *err;
    struct tenure_value value = {0};
    enum tenure_status status = tn_raw_read(&ops, h, swap->key, true, &value, deadline, err);
    bool same = tenure_token_equal(&value.token, &swap->expect);

    tenure_value_free(&value);
    if (status)
        return status;
    if (!same)
        return tenure_fail(err, TENURE_CONFLICT, "kube: %s has changed", swap->key);
    *err = why;
    return why.code;
}

static enum tenure_status replace(void *impl, struct tenure_swap *swap, const void *raw,
                                  int64_t deadline, struct tenure_error *err)
{
    struct tn_kube *h = impl;
    bool record = tn_kube_is_record(swap->key);
    struct tenure_swap known = *swap; /* as if the server's version had been expected */
    json_t *object = NULL, *body;
    long code = 0;
    enum tenure_status status = version_of(swap->key, raw, known.expect.version, err);

    /* What others have noted in a record stays. */
    if (!status)
        status = tn_kube_encode(h, &known, record ? raw : NULL, &object, err);
    if (status)
        return status;
    body = record ? json_incref(object) : patch_of(&known, object);
    status = tn_kube_send(h, &known, record ? "PUT" : "PATCH", body, deadline, &code, err);
    if (!record && code == 422 && status != TENURE_UNKNOWN)
        status = refused(h, swap, deadline, err);
    if (!status)
        swap->token = known.token;
    json_decref(body);
    json_decref(object);
    return status;
}

static const struct tn_raw_ops ops = {read_raw, free_raw, decode, take_damaged, replace};

enum tenure_status tn_kube_repair(struct tn_kube *h, struct tenure_swap *swap, int64_t deadline,
                                  struct tenure_error *err)
{
    return tn_raw_swap(&ops, h, swap, deadline, err);
}
