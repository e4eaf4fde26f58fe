/*
 * tenure/state.h - what the next leader needs, never overwritten by the last one.
 *
 * The state of an election is collections of documents.  A document is a
 * register that remembers the epoch and the grant of the leader that wrote it;
 * every change is a compare-and-swap in the store itself, so a stale leader's
 * commit fails there, atomically, however late it arrives (I3).
 *
 *   SEAL, THEN READ (I4).  load() first raises the stored epoch to ours, in
 *   one swap, and returns what it raised.  From then on nothing older changes
 *   it.  A later leader in the store answers FENCED: final for this handle.
 *
 *   CREATES go through the collection's root register, which is sealed first:
 *   absence has no version of its own, so a stale leader could otherwise
 *   create what nobody has sealed.
 *
 *   DELETES leave a tombstone that keeps the epoch.
 *
 *   UNKNOWN OUTCOMES are resolved by reading the nonce back, until the
 *   deadline.  What is UNKNOWN then may still take effect; the next load() or
 *   commit() of that document finds out.
 *
 *   DATA of a document is at most what the store holds in a value (1 MiB, on
 *   kube: 128 KiB) less 96 bytes, so that every later leader can seal it.  More
 *   is INVALID, and does not touch the others of its batch.
 *
 *   AN OPERATOR'S EDIT while a leader runs is not undone: the leader's next
 *   commit answers CONFLICT, and the next load() shows the edit.
 *
 * Threads: a handle may be used by any number of threads; commits that arrive
 * together share one batch (group commit).  Reads do not wait for commits, and
 * every call ends at its own deadline, also behind somebody else's: TIMEOUT if
 * nothing of it was begun, UNKNOWN if it is being written.
 */
#ifndef TENURE_STATE_H
#define TENURE_STATE_H

#include "store.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tenure_state tenure_state;

/* A document as it was found.  Caller-owned; zero it first, free it last. */
struct tenure_document {
    struct tenure_value value; /* value.data, value.len: the data alone */
    uint64_t epoch;            /* of the leader that wrote it, before it was sealed */
    uint64_t seq;              /* commits so far */
    bool exists;               /* false: absent or deleted */
    bool edited;               /* the last change was an operator's */
};

/*
 * Open the state of election `name`.  grant NULL: for looking and for
 * operators, seals nothing.  Otherwise every change carries that grant.
 */
TENURE_CHECKED enum tenure_status tenure_state_open(const char *url, const char *name,
                                                    const struct tenure_grant *grant,
                                                    int64_t deadline, tenure_state **state,
                                                    struct tenure_error *err);
/* Accepts NULL. */
TENURE_API void tenure_state_close(tenure_state *state);

/* The highest epoch seen in the state; after FENCED the next claim must exceed it. */
TENURE_API uint64_t tenure_state_floor(const tenure_state *state);

/*
 * Seal a whole collection, in batches: afterwards nothing older can change or
 * create anything in it.  FENCED if a later leader was here.  A damaged document
 * does not end it, and older leaders cannot change that either; load() tells.
 * CORRUPT if its store cannot read it and could still replace it: repair it first.
 * TIMEOUT: what has been sealed need not be again, the next call goes on there.
 */
TENURE_CHECKED enum tenure_status tenure_state_seal(tenure_state *state, const char *collection,
                                                    int64_t deadline, struct tenure_error *err);

/*
 * Seal one document and return it.  OK also if it does not exist.  CORRUPT if
 * what is there is not a document: it is left as it is.  Without a grant: only
 * reads.
 */
TENURE_CHECKED enum tenure_status tenure_state_load(tenure_state *state, const char *collection,
                                                    const char *id,
                                                    struct tenure_document *document,
                                                    int64_t deadline, struct tenure_error *err);

/* One commit of a batch. */
struct tenure_commit {
    const char *collection;
    const char *id;
    const void *data;
    size_t len;
    bool remove;               /* delete instead */
    enum tenure_status status; /* OK: durable.  FENCED, CONFLICT, UNKNOWN, ... */
    uint64_t seq;              /* if OK */
};

/*
 * Replace (or create) documents.  Each has a status of its own; the return is
 * OK if every one is OK, else the first that is not, explained in err.
 */
TENURE_API enum tenure_status tenure_state_commit(tenure_state *state,
                                                  struct tenure_commit *commits, size_t n,
                                                  int64_t deadline, struct tenure_error *err);

/*
 * Visit the documents of a collection in byte order of their escaped ids,
 * without sealing.  Deleted ones are passed over.  A damaged one is visited
 * with exists false and a reason, and does not end the walk; so is a damaged
 * root, first of all, under the id "".
 */
typedef bool (*tenure_document_fn)(void *arg, const char *id,
                                   const struct tenure_document *document, const char *damage);
TENURE_CHECKED enum tenure_status tenure_state_list(tenure_state *state, const char *collection,
                                                    tenure_document_fn visit, void *arg,
                                                    int64_t deadline, struct tenure_error *err);

/* Visit the names of the collections, in byte order. */
TENURE_CHECKED enum tenure_status tenure_state_collections(
    tenure_state *state, bool (*visit)(void *arg, const char *name), void *arg, int64_t deadline,
    struct tenure_error *err);

/*
 * An operator's edit, by a handle without a grant: writes (or deletes, if data
 * is NULL) under the epoch that is stored, marked as edited, so that the
 * leader adopts it.  CONFLICT if the document changed since `seen` was loaded.
 */
TENURE_CHECKED enum tenure_status tenure_state_edit(tenure_state *state, const char *collection,
                                                    const char *id,
                                                    const struct tenure_document *seen,
                                                    const void *data, size_t len, int64_t deadline,
                                                    struct tenure_error *err);

/*
 * An operator's repair of a damaged document, by a handle without a grant.
 * What is there is kept first, as the document that kept[] names then:
 * "COLLECTION.damaged/ID@VERSION", its data the damaged bytes (with what the
 * store keeps in front of them, if the store found the damage; the rest of what
 * is too long for one document is in ...+2, ...+3).  Then it is replaced
 * (deleted, if data is NULL) under the fence of the collection's root, marked as
 * edited.  id "": the root itself, which gets the highest fence of the state;
 * data is not looked at, and creates that were announced and are still on their
 * way are forgotten.
 *
 * least (may be NULL) is the last grant of the election, as its lease tells: the
 * fence is not lower, whatever of the state is lost.
 *
 * INVALID if it is not damaged; CONFLICT if it changed meanwhile; CORRUPT if
 * the root is damaged too.  Then nothing was replaced.
 */
#define TENURE_KEEP_MAX (3 * TENURE_KEY_MAX)
TENURE_CHECKED enum tenure_status tenure_state_repair(tenure_state *state, const char *collection,
                                                      const char *id, const void *data, size_t len,
                                                      const struct tenure_grant *least,
                                                      char kept[TENURE_KEEP_MAX + 1],
                                                      int64_t deadline, struct tenure_error *err);

/* Wait until anything in the collection may have changed since mark ("" at first; updated). */
TENURE_CHECKED enum tenure_status tenure_state_wait(tenure_state *state, const char *collection,
                                                    char mark[TENURE_VERSION_MAX + 1], int wake_fd,
                                                    int64_t deadline, struct tenure_error *err);

/* Frees the buffer and zeroes the document.  Accepts NULL. */
TENURE_API void tenure_document_free(struct tenure_document *document);

#ifdef __cplusplus
}
#endif
#endif
