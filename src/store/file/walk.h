/* store/file/walk.h - all directories of a file: store under a prefix, in order. */
#ifndef TN_STORE_FILE_WALK_H
#define TN_STORE_FILE_WALK_H

#include "store/file/file.h"

/* Each may be NULL.  A status other than OK ends the walk. */
struct tn_file_visitor {
    /* Before a directory is read ("" is the root); it may not be there.  One that is known to
     * hold no others is not read, only visited. */
    enum tenure_status (*enter)(void *arg, const char *below, struct tenure_error *err);
    /* A directory that may hold a register. */
    enum tenure_status (*visit)(void *arg, const char *key, struct tenure_error *err);
    /* Should everything under this prefix, which ends with a slash, be left out? */
    bool (*skip)(void *arg, const char *prefix);
    void *arg;
    int64_t deadline; /* not 0: registers that are in journals are visited too */
};

/* Keys that begin with prefix, in their byte order; directories on the way are entered too. */
enum tenure_status tn_file_walk(struct tn_file *f, const char *prefix,
                                const struct tn_file_visitor *visitor, struct tenure_error *err);

#endif
