/*
 * supervise/program/role_file.h - the file that tells a warm program whether it leads.
 *
 * The program's user may own the directory, and tenure may be root.  So the
 * directory is opened once, before the program first runs, and whatever it
 * puts there afterwards is never followed nor opened: a new file is made
 * beside it and takes its name.
 */
#ifndef TN_SUPERVISE_ROLE_FILE_H
#define TN_SUPERVISE_ROLE_FILE_H

#include <stdint.h>

#include "tenure/status.h"

struct tn_role_file {
    int dir;          /* -1: there is no such file */
    const char *name; /* within the path that was given, which must live as long */
};
#define TN_ROLE_FILE_NONE ((struct tn_role_file){.dir = -1})

/* path: NULL for none.  CONFIG if its directory cannot be opened. */
enum tenure_status tn_role_file_open(struct tn_role_file *f, const char *path,
                                     struct tenure_error *err);
/* "leading EPOCH", or "standby" for epoch 0; readers see the old file or the new one, whole. */
enum tenure_status tn_role_file_write(const struct tn_role_file *f, uint64_t epoch,
                                      struct tenure_error *err);
void tn_role_file_close(struct tn_role_file *f);

#endif
