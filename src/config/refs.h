/*
 * config/refs.h - values that lead elsewhere.
 *
 *   ${NAME}            a variable of the environment, which must be set
 *   ${NAME:-default}   the default if it is not set, or empty
 *   $${                the characters ${
 *   file:/path         in keys that hold a secret: the first line of that file
 */
#ifndef TN_CONFIG_REFS_H
#define TN_CONFIG_REFS_H

#include "config/reader.h"

/*
 * The value with its references put in.  What is shown of it is the value as it
 * was written, if it has any.  path names the key in complaints.  false: with a complaint.
 */
bool tn_refs_expand(struct tn_reader *r, unsigned line, const char *path, const char *text,
                    struct tn_text *out);
/* The same for a secret: of one in a file, the place is shown, of all others nothing. */
bool tn_refs_secret(struct tn_reader *r, unsigned line, const char *path, const char *text,
                    struct tn_text *out);

#endif
