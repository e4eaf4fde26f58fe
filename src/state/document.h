/*
 * state/document.h - a document of the state: data under the fence that wrote it.
 *
 * In a register it is one line and the raw data:
 *
 *     tenure-doc 1 EPOCH GRANT SEQ FLAGS\n<data>
 *
 * FLAGS is "-" or letters: d deleted, o written by an operator.
 */
#ifndef TN_STATE_DOCUMENT_H
#define TN_STATE_DOCUMENT_H

#include "core/fence.h"
#include "tenure/store.h"

#define TN_DOCUMENT_HEADER_MAX 96
#define TN_SEQ_MAX             TN_EPOCH_MAX /* commits beyond are not counted any more */

struct tn_document {
    struct tn_fence fence;
    uint64_t seq; /* commits so far; sealing does not count */
    bool deleted;
    bool edited;               /* by an operator, over the head of the leader */
    const unsigned char *data; /* decode: points into the value */
    size_t len;
};

/* CORRUPT if the bytes are not a document.  doc is untouched on failure. */
enum tenure_status tn_document_decode(const struct tenure_value *value, struct tn_document *doc,
                                      struct tenure_error *err);
/* Write it to out, which has room for TN_DOCUMENT_HEADER_MAX and its data; returns the length. */
size_t tn_document_put(const struct tn_document *doc, unsigned char *out);
/* The same: *out (free() it) of *len bytes. */
enum tenure_status tn_document_encode(const struct tn_document *doc, unsigned char **out,
                                      size_t *len, struct tenure_error *err);

/* May something be written under that id?  INVALID if it is not UTF-8: no listing in JSON could
 * show it. */
enum tenure_status tn_document_check_id(const char *id, struct tenure_error *err);

#endif
