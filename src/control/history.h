/* control/history.h - the history register's record, for those who test it. */
#ifndef TN_CONTROL_HISTORY_H
#define TN_CONTROL_HISTORY_H

#include "tenure/history.h"

/* Bytes that somebody wrote.  CORRUPT if they are no history; then out is untouched. */
enum tenure_status tn_history_decode(const void *data, size_t len, struct tenure_history *out,
                                     struct tenure_error *err);
/* malloc'ed JSON, or NULL. */
char *tn_history_encode(const struct tenure_history *history);
/* What tenure_history_note() does to it. */
void tn_history_merge(struct tenure_history *history, const struct tenure_term_record *term,
                      uint64_t heard_ms);

#endif
