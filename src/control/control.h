/* control/control.h - the control register and the candidates' own, as candidates use them. */
#ifndef TN_CONTROL_CONTROL_H
#define TN_CONTROL_CONTROL_H

#include "tenure/control.h"

struct tn_candidates_watch {
    char prefix[TENURE_KEY_MAX + 1];
    char mark[TENURE_VERSION_MAX + 1];
};

/* Fill all of control from what a read found.  CORRUPT, and then paused is true: who cannot read an
 * order does not act against it. */
enum tenure_status tn_control_decode(const struct tenure_value *value,
                                     struct tenure_control *control, struct tenure_error *err);
enum tenure_status tn_candidate_decode(const void *data, size_t len,
                                       struct tenure_candidate *candidate,
                                       struct tenure_error *err);
/* malloc'ed JSON, or NULL. */
char *tn_candidate_encode(const struct tenure_candidate *candidate);

/* As tenure_candidates(), with the mark that a wait on the prefix needs (watch may be NULL). */
enum tenure_status tn_candidates_list(tenure_store *store, const char *name,
                                      tenure_candidate_fn visit, void *arg,
                                      struct tn_candidates_watch *watch, int64_t deadline,
                                      struct tenure_error *err);
/* Until a candidate has said something new since that list, or deadline. */
void tn_candidates_wait(tenure_store *store, const struct tn_candidates_watch *watch,
                        int64_t deadline);

/* Write a candidate's record over whatever is there, which becomes was: its id is "" if there was
 * none, or none that can be read. */
enum tenure_status tn_candidate_announce(tenure_store *store, const char *name,
                                         const struct tenure_candidate *candidate,
                                         struct tenure_candidate *was, int64_t deadline,
                                         struct tenure_error *err);
/* It goes: a tombstone.  incarnation: of the process that wrote it; "": of any. */
enum tenure_status tn_candidate_withdraw(tenure_store *store, const char *name, const char *id,
                                         const char *incarnation, int64_t deadline,
                                         struct tenure_error *err);
/* Somebody came, went or fell ill: let the others look. */
enum tenure_status tn_control_roll(tenure_store *store, const char *name, int64_t deadline,
                                   struct tenure_error *err);

#endif
