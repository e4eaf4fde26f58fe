/* state/calls.h - turns at the store, and what the public calls share. */
#ifndef TN_STATE_CALLS_H
#define TN_STATE_CALLS_H

#include "state/inner.h"

void tn_turn_init(struct tn_turn *turn);
void tn_turn_destroy(struct tn_turn *turn);
/* false: the deadline has passed, and somebody else has it still. */
bool tn_turn_take(struct tn_turn *turn, int64_t deadline);
void tn_turn_give(struct tn_turn *turn);
/* Under its lock: wait for a change, at most until the deadline.  false: that has passed. */
bool tn_turn_wait(struct tn_turn *turn, int64_t deadline);

/* Take the turn of the state: store and cache are ours until tn_state_end().  TIMEOUT, or FENCED if
 * the handle is; what: its subject, for the message. */
enum tenure_status tn_state_begin(tenure_state *s, const char *what, int64_t deadline,
                                  struct tenure_error *err);
void tn_state_end(tenure_state *s);

/* A store handle to read with: the state's own, or another one beside the caller that has the turn.
 */
struct tn_reading {
    struct tn_turn *turn;
    tenure_store *store;
    bool beside; /* the cache is somebody else's */
};
enum tenure_status tn_reading_begin(tenure_state *s, struct tn_reading *r, int64_t deadline,
                                    struct tenure_error *err);
void tn_reading_end(struct tn_reading *r);

/* Seal one document; blocks a create that was announced but is not there.  root may be NULL
 * without a grant. */
enum tenure_status tn_state_load_entry(tenure_state *s, struct tn_root *root,
                                       struct tn_entry *entry, struct tenure_value *value,
                                       struct tn_document *doc, bool *found, int64_t deadline,
                                       struct tenure_error *err);
/* tenure_state_load() and tenure_state_edit(), in a turn of the caller's. */
enum tenure_status tn_state_load(tenure_state *s, const char *collection, const char *id,
                                 struct tenure_document *document, int64_t deadline,
                                 struct tenure_error *err);
enum tenure_status tn_state_edit(tenure_state *s, const char *collection, const char *id,
                                 const struct tenure_document *seen, const void *data, size_t len,
                                 int64_t deadline, struct tenure_error *err);
/* Seal a document and tell whether it exists.  Not a look at it: an operator's edit is still news
 * to the caller afterwards.  Takes its own turn; err is not NULL. */
enum tenure_status tn_state_exists(tenure_state *s, const char *collection, const char *id,
                                   bool *exists, int64_t deadline, struct tenure_error *err);
/* A walk over the names of the collections; when its time was up it goes on where it was. */
struct tn_collections;
struct tn_collections *tn_collections_new(void); /* NULL when out of memory */
void tn_collections_free(struct tn_collections *walk);
/* tenure_state_collections(), from there on.  err is not NULL. */
enum tenure_status tn_state_collections(tenure_state *s, struct tn_collections *walk,
                                        bool (*visit)(void *arg, const char *name), void *arg,
                                        int64_t deadline, struct tenure_error *err);
/* What a caller sees of a document. */
enum tenure_status tn_document_fill(struct tenure_document *out, const struct tenure_value *value,
                                    const struct tn_document *doc, bool found,
                                    struct tenure_error *err);

#endif
