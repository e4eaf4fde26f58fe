/* store/postgres_schema.h - the table that holds the registers, as SQL text. */
#ifndef TN_STORE_POSTGRES_SCHEMA_H
#define TN_STORE_POSTGRES_SCHEMA_H

#include <stddef.h>

#include "tenure/status.h"

#define TN_PG_SCHEMA_MAX 48 /* bytes in a schema's name; it also names the channel */
#define TN_PG_SCHEMA     "tenure"

/* A letter or '_', then letters, digits, '_': what needs no thought when quoted. */
bool tn_pg_schema_valid(const char *schema);

/*
 * *text (free() it) is what an owner of the database runs once: schema and
 * table.  Running it again changes nothing.  INVALID for a bad name; NOMEM.
 */
enum tenure_status tn_pg_schema_sql(const char *schema, char **text, struct tenure_error *err);

/* The same, with the rights that role (as typed by a person; it is quoted) needs to use it. */
enum tenure_status tn_pg_schema_grants(const char *schema, const char *role, char **text,
                                       struct tenure_error *err);

/* text with @S, @N and @M replaced by with[0], [1] and [2]; free() it.  NULL: no memory. */
char *tn_pg_fill(const char *text, const char *const with[3]);

#endif
