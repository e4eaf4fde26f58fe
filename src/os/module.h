/*
 * os/module.h - parts that are loaded only when they are named: store clients, the HTTP server.
 */
#ifndef TN_OS_MODULE_H
#define TN_OS_MODULE_H

#include "tenure/status.h"

/* Also look in dir, before anywhere else.  Copies dir.  Thread-safe. */
enum tenure_status tn_module_dir(const char *dir, struct tenure_error *err);

/*
 * Load FILE and return what `symbol` in it is.  Looked for in the directories
 * added, beside this library or program, in tenure/ below that, and where it
 * was installed.  UNSUPPORTED if it is nowhere, or cannot be loaded; *missing
 * (may be NULL) tells the two apart.  A loaded module stays.
 */
enum tenure_status tn_module_load(const char *file, const char *symbol, void **out, bool *missing,
                                  struct tenure_error *err);

/* Is FILE where tn_module_load() would find it?  Loads nothing. */
bool tn_module_is_installed(const char *file);

#endif
