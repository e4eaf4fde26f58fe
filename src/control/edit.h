/*
 * control/edit.h - read, edit and swap one register until it is done.
 *
 * For registers beside the lease, whose edits are idempotent: one whose outcome
 * is unknown is simply made again (I6).
 */
#ifndef TN_CONTROL_EDIT_H
#define TN_CONTROL_EDIT_H

#include "tenure/store.h"

/* What an edit wants to be written. */
struct tn_edit {
    char *text;     /* malloc'ed, freed here; NULL: nothing changes */
    bool tombstone; /* instead: it is erased */
};

/* What is there becomes what is to be.  Called again after each conflict.  A failure ends it. */
typedef enum tenure_status (*tn_edit_fn)(void *arg, const struct tenure_value *value,
                                         struct tn_edit *edit, struct tenure_error *err);

/* CONFLICT or UNKNOWN only if no time was left to try again.  May block. */
enum tenure_status tn_edit_register(tenure_store *store, const char *key, tn_edit_fn edit,
                                    void *arg, int64_t deadline, struct tenure_error *err);

#endif
