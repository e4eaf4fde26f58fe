/* state/inner.h - the parts of tenure_state: cache, roots, commits, calls. */
#ifndef TN_STATE_INNER_H
#define TN_STATE_INNER_H

#include <pthread.h>

#include "state/document.h"
#include "tenure/state.h"

#define TN_STATE_BUCKETS 4096

/* A register as this handle last saw it under its own grant. */
struct tn_entry {
    struct tn_entry *next;
    struct tenure_token token; /* absent: not created yet */
    uint64_t tried;            /* nonces up to this number were tried on what stood before it */
    uint64_t seq;
    bool sealed;                /* token is the current one under our grant, as far as we know */
    bool in_round;              /* already part of the batch being built */
    enum tenure_status outcome; /* of its write in that batch */
    uint64_t written;           /* the seq of that write, if it is OK */
    bool open;                  /* a commit of unknown outcome may still land on this very token */
    bool doubt; /* somebody else wrote it, which the caller has not seen: it must load it first */
    char key[];
};

/* A collection: its root register, and the creates announced in it. */
struct tn_root {
    struct tn_root *next;
    struct tn_entry *entry;
    char **pending; /* escaped ids */
    size_t n_pending;
    bool stale;                    /* what we know of it is in doubt: seal it again */
    bool complete;                 /* every document is in the cache: what is not there is absent */
    char upto[TENURE_KEY_MAX + 1]; /* a seal that had too little time goes on behind this */
    char collection[];
};

struct tn_call; /* a commit waiting for its turn */

struct tenure_state {
    tenure_store *store;
    tenure_store *watcher; /* opened by the first wait */
    char *url;
    char *name;
    struct tenure_store_info info;
    bool leads; /* has a grant */
    struct tn_fence fence;
    /* Every nonce of this handle is this and a number, so that a commit whose
     * outcome nobody learned is known to be ours whenever it shows up (I6). */
    uint8_t nonce_base[TENURE_NONCE_SIZE];
    uint64_t nonces;
    _Atomic uint64_t floor;
    bool fenced;       /* final */
    uint64_t progress; /* rises with whatever need not be done again after a deadline */
    struct tn_entry *entries[TN_STATE_BUCKETS];
    struct tn_root *roots;

    pthread_mutex_t lock; /* of turn and queue; never held over a store call */
    pthread_cond_t done;
    bool busy; /* somebody uses the store and the cache */
    struct tn_call *queue, **queue_tail;
    pthread_mutex_t watch_lock;
};

/* One document to write, with its register; lives for one commit. */
struct tn_write {
    struct tn_entry *entry;
    const void *data;
    size_t len;
    bool deleted;
    bool edited;               /* seal_only: the last change was an operator's */
    bool seal_only;            /* keep data and seq: data is what was read */
    enum tenure_status status; /* the outcome */
    uint64_t seq;              /* if OK; somebody may have written since */
    uint64_t first, last;      /* numbers of the nonces it was tried under; 0: none yet */
    bool unsure;               /* a try of unknown outcome is among them */
};

/* ---- state_cache.c ---- */
/* Find or add; NULL when out of memory. */
struct tn_entry *tn_entry_get(tenure_state *s, const char *key);
/* A register was read.  If it was sealed before and somebody else has written
 * it since, the caller does not know: only its own load() takes that doubt away. */
void tn_entry_saw(tenure_state *s, struct tn_entry *entry, const struct tenure_token *token);
/* It holds what it held when it was sealed or written, and the caller has no more to look at. */
bool tn_entry_known(const struct tn_entry *entry, const struct tenure_token *token);
/* The register is known to hold this now. */
void tn_entry_holds(tenure_state *s, struct tn_entry *entry, const struct tenure_token *token);
/* A value of ours that can only have come back from a back-up: every try that could still
 * land late has a higher number. */
bool tn_entry_restored(const tenure_state *s, const struct tn_entry *entry,
                       const struct tenure_token *token);
struct tn_entry *tn_entry_find(tenure_state *s, const char *key);
void tn_state_free_cache(tenure_state *s);
/* A fresh nonce, and its number. */
uint64_t tn_state_nonce(tenure_state *s, uint8_t nonce[TENURE_NONCE_SIZE]);
/* The number of a nonce of this handle; 0 if it is somebody else's. */
uint64_t tn_state_ours(const tenure_state *s, const uint8_t nonce[TENURE_NONCE_SIZE]);
/* Note an epoch; FENCED is final. */
void tn_state_note(tenure_state *s, uint64_t epoch);
enum tenure_status tn_state_fenced(tenure_state *s, const char *key, struct tenure_error *err);

/* ---- state_seal.c ---- */
/*
 * Read a register and raise its epoch to ours.  value and doc hold what was
 * found before; *found is false if it is absent (then nothing was written).
 * root is that of its collection; NULL without a grant, and for a root itself.
 */
enum tenure_status tn_state_seal_entry(tenure_state *s, struct tn_root *root,
                                       struct tn_entry *entry, struct tenure_value *value,
                                       struct tn_document *doc, bool *found, int64_t deadline,
                                       struct tenure_error *err);

/* Keep a document that is damaged from earlier leaders.  OK, or why it cannot be done. */
enum tenure_status tn_state_hold_damaged(tenure_state *s, struct tn_root *root,
                                         struct tn_entry *entry, int64_t deadline,
                                         struct tenure_error *err);

/* ---- state_write.c ---- */
/* INVALID if whoever seals it later, with a header as long as can be, could not write it. */
enum tenure_status tn_state_fits(const tenure_state *s, const char *key, size_t len,
                                 struct tenure_error *err);
/* Write all, as one batch where the store can; each write's status is its outcome. */
void tn_state_write(tenure_state *s, struct tn_write *writes, size_t n, int64_t deadline,
                    struct tenure_error *err);

/* ---- state_root.c ---- */
/* The root of a collection, sealed under our grant, created if need be. */
enum tenure_status tn_state_root(tenure_state *s, const char *collection, struct tn_root **root,
                                 int64_t deadline, struct tenure_error *err);
/* A root as a document.  CORRUPT also if it is one, and no root. */
enum tenure_status tn_root_decode(const struct tenure_value *value, struct tn_document *doc,
                                  struct tenure_error *err);
/* What an operator wrote is to be adopted, which this handle has not seen: is the collection still
 * ours?  OK, FENCED, or why the root cannot be read. */
enum tenure_status tn_root_confirm(tenure_state *s, struct tn_root *root, int64_t deadline,
                                   struct tenure_error *err);
/* Was this id announced by somebody, perhaps earlier? */
bool tn_root_pending(const struct tn_root *root, const char *segment);
/* Announce creates: afterwards the documents may be created. */
enum tenure_status tn_root_announce(tenure_state *s, struct tn_root *root,
                                    const char *const *segments, size_t n, int64_t deadline,
                                    struct tenure_error *err);
void tn_root_free(struct tn_root *root);

#endif
