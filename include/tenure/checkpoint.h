/*
 * tenure/checkpoint.h - how far the work has come, in a document of the state.
 *
 * A checkpoint is a position that only grows: a line, an offset, a sequence
 * number.  Note each position as the work goes on; it is committed every so
 * many notes or every so long, whichever comes first, so that a flush is not
 * paid for each.  What the next leader finds is the last commit: it does again
 * what came after it, and leaves nothing out.
 *
 * In the store it is decimal text, so that any language and any person reads it.
 *
 * Threads: one at a time for one checkpoint; several checkpoints may share a
 * tenure_state, and then share their flushes.
 */
#ifndef TENURE_CHECKPOINT_H
#define TENURE_CHECKPOINT_H

#include "state.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tenure_checkpoint tenure_checkpoint;

/* When to commit.  Zero: that rule is off; both zero: every note is committed. */
struct tenure_checkpoint_options {
    uint32_t version; /* TENURE_CHECKPOINT_OPTIONS sets it */
    uint64_t every;   /* notes */
    int64_t every_ns; /* since the last commit; looked at when a position is noted */
};
#define TENURE_CHECKPOINT_OPTIONS                                                                  \
    {                                                                                              \
        .version = 1                                                                               \
    }

/*
 * Open the checkpoint COLLECTION/ID of a leader's state and load it (seal, then
 * read).  state must outlive it; options may be NULL.  CORRUPT if what is there
 * is not a position: it is left as it is.  FENCED, and what load() answers else.
 */
TENURE_CHECKED enum tenure_status tenure_checkpoint_open(
    tenure_state *state, const char *collection, const char *id,
    const struct tenure_checkpoint_options *options, int64_t deadline,
    tenure_checkpoint **checkpoint, struct tenure_error *err);
/* Accepts NULL.  Commits nothing: call tenure_checkpoint_flush() before it. */
TENURE_API void tenure_checkpoint_close(tenure_checkpoint *checkpoint);

/* The position that was noted last, or loaded; 0 if there is none. */
TENURE_API uint64_t tenure_checkpoint_position(const tenure_checkpoint *checkpoint);
/* The position that is known to be durable. */
TENURE_API uint64_t tenure_checkpoint_durable(const tenure_checkpoint *checkpoint);

/*
 * Note that the work has come so far.  INVALID if it is behind the last one:
 * nothing is noted then.  Commits if it is due; then FENCED, CONFLICT, UNKNOWN
 * and so on as in tenure_state_commit(), and the position stays noted, so that
 * the next note or flush tries again.  CONFLICT: an operator has edited it; see
 * tenure_checkpoint_reload().
 */
TENURE_CHECKED enum tenure_status tenure_checkpoint_note(tenure_checkpoint *checkpoint,
                                                         uint64_t position, int64_t deadline,
                                                         struct tenure_error *err);
/* Commit what was noted, if anything was since the last commit. */
TENURE_CHECKED enum tenure_status tenure_checkpoint_flush(tenure_checkpoint *checkpoint,
                                                          int64_t deadline,
                                                          struct tenure_error *err);
/* Load it again and forget what was noted: adopts an operator's edit, also one that goes back. */
TENURE_CHECKED enum tenure_status tenure_checkpoint_reload(tenure_checkpoint *checkpoint,
                                                           int64_t deadline,
                                                           struct tenure_error *err);

#ifdef __cplusplus
}
#endif
#endif
