/* store/postgres/schema.h - the table that holds the registers, as SQL text. */
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

/* text with @S replaced by with[0], @N by with[1], and so on; free() it.  NULL: no memory. */
#define TN_PG_LETTERS "SNMT"
#define TN_PG_WORDS   4
char *tn_pg_fill(const char *text, const char *const with[TN_PG_WORDS]);

#endif
