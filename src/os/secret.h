/*
 * os/secret.h - a password, from where the user keeps it: never from argv.
 *
 * Store URLs name a file (password_file=) or a variable (password_env=); a
 * password in the URL itself works too.
 */
#ifndef TN_OS_SECRET_H
#define TN_OS_SECRET_H

#include <stdbool.h>

#include "tenure/status.h"

#define TN_SECRET_MAX 16384 /* bytes: tokens of identities have thousands */

/* At most one of them is set; the strings are the caller's. */
struct tn_secret {
    const char *text;
    const char *file; /* its first line; read again at every use, so that it can be rotated */
    const char *env;
    bool own; /* file: refused if others may read it, or if others or its group may change it */
};

/*
 * The secret's text, "" if none was given, NULL on failure.  Free it with
 * tn_secret_free().  DENIED or CONFIG if its file or variable is missing.
 */
char *tn_secret_load(const struct tn_secret *secret, struct tenure_error *err);
/* Overwrites it first.  Accepts NULL. */
void tn_secret_free(char *text);

#endif
