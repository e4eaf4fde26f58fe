/* state/inner.h - the parts of tenure_state: cache, roots, commits, calls. */
#ifndef TN_STATE_INNER_H
#define TN_STATE_INNER_H

#include <pthread.h>

#include "state/document.h"
#include "tenure/state.h"

/* A register as this handle last saw it under its own grant. */
struct tn_entry {
    struct tn_entry *next;
    struct tenure_token token; /* absent: not created yet */
    uint64_t tried;            /* nonces up to this number were tried on what stood before it */
    uint64_t seq;
    bool sealed;    /* token is the current one under our grant, as far as we know */
    bool announced; /* the root says that it is about to be created */
    bool open;      /* a commit of unknown outcome may still land on this very token */
    bool doubt; /* somebody else wrote it, which the caller has not seen: it must load it first */
    struct tn_slot *slot; /* its commit in the batch that is being written */
    struct tn_root *root; /* if it is the root of a collection */
    char key[];
};

/* A collection: its root register, and the creates announced in it. */
struct tn_root {
    struct tn_root *next;
    struct tn_entry *entry;
    struct tn_entry **announced;
    size_t n_announced, room;
    struct tn_slot *creates;       /* of the batch that is being written */
    bool stale;                    /* what we know of it is in doubt: seal it again */
    bool complete;                 /* every document is in the cache: what is not there is absent */
    char upto[TENURE_KEY_MAX + 1]; /* a seal that had too little time goes on behind this */
};

struct tn_request; /* a call of tenure_state_commit() in the queue */

/* The right to use something, of one thread at a time. */
struct tn_turn {
    pthread_mutex_t lock; /* never held over a store call */
    pthread_cond_t changed;
    bool taken;
};

struct tenure_state {
    tenure_store *store;
    tenure_store *reader;  /* opened by the first read beside another call */
    tenure_store *watcher; /* opened by the first wait */
    char *url;
    char *name;
    struct tenure_store_info info;
    bool leads; /* has a grant */
    bool terms; /* ... and the store fences it as a whole: there is nothing to seal */
    struct tn_fence fence;
    /* Every nonce of this handle is this and a number, so that a commit whose
     * outcome nobody learned is known to be ours whenever it shows up (I6). */
    uint8_t nonce_base[TENURE_NONCE_SIZE];
    uint64_t nonces;
    _Atomic uint64_t settled; /* numbers up to this are of turns that are over, and were answered */
    _Atomic uint64_t floor;
    _Atomic bool fenced;        /* final */
    _Atomic uint64_t progress;  /* rises with whatever need not be done again after a deadline */
    _Atomic uint64_t unsettled; /* documents that are open or in doubt, and abandoned requests */
    struct tn_entry **buckets;  /* of the entries, by their keys */
    size_t n_buckets, n_entries;
    struct tn_root *roots;

    struct tn_turn turn; /* of store and cache; its lock guards the queue too */
    struct tn_request *queue, **queue_tail;
    struct tn_turn reader_turn, watcher_turn;
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

/* ---- cache.c ---- */
/* Find or add; NULL when out of memory. */
struct tn_entry *tn_entry_get(tenure_state *s, const char *key);
/* A register was read.  If it was sealed before and somebody else has written
 * it since, the caller does not know: only its own load() takes that doubt away. */
void tn_entry_observe(tenure_state *s, struct tn_entry *entry, const struct tenure_token *token);
/* It holds what it held when it was sealed or written, and the caller has no more to look at. */
bool tn_entry_is_known(const struct tn_entry *entry, const struct tenure_token *token);
/* The register is known to hold this now. */
void tn_entry_set_token(tenure_state *s, struct tn_entry *entry, const struct tenure_token *token);
/* A value of ours that can only have come back from a back-up: every try that could still
 * land late has a higher number. */
bool tn_entry_is_restored(const tenure_state *s, const struct tn_entry *entry,
                          const struct tenure_token *token);
struct tn_entry *tn_entry_find(tenure_state *s, const char *key);
/* Set entry->open or entry->doubt: nobody reads beside the turn while there is one of these. */
void tn_entry_mark(tenure_state *s, struct tn_entry *entry, bool *flag, bool value);
void tn_state_free_cache(tenure_state *s);
/* A fresh nonce, and its number. */
uint64_t tn_state_new_nonce(tenure_state *s, uint8_t nonce[TENURE_NONCE_SIZE]);
/* The number of a nonce of this handle; 0 if it is somebody else's. */
uint64_t tn_state_nonce_number(const tenure_state *s, const uint8_t nonce[TENURE_NONCE_SIZE]);
/* Note an epoch; FENCED is final. */
void tn_state_raise_floor(tenure_state *s, uint64_t epoch);
enum tenure_status tn_state_set_fenced(tenure_state *s, const char *key, struct tenure_error *err);

/* ---- seal.c ---- */
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

/* ---- write.c ---- */
/* INVALID if whoever seals it later, with a header as long as can be, could not write it. */
enum tenure_status tn_state_check_length(const tenure_state *s, const char *key, size_t len,
                                         struct tenure_error *err);
/* Write all, as one batch where the store can; each write's status is its outcome. */
void tn_state_write(tenure_state *s, struct tn_write *writes, size_t n, int64_t deadline,
                    struct tenure_error *err);

/* ---- root.c ---- */
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
/* Announce creates: afterwards the documents may be created. */
enum tenure_status tn_root_announce(tenure_state *s, struct tn_root *root,
                                    struct tn_entry *const *entries, size_t n, int64_t deadline,
                                    struct tenure_error *err);
void tn_root_free(struct tn_root *root);

#endif
