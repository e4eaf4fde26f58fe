#include "store/postgres/schema.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool tn_pg_schema_valid(const char *schema)
{
    size_t n = strspn(schema, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_");

    return n > 0 && n <= TN_PG_SCHEMA_MAX && schema[n] == '\0' &&
           !isdigit((unsigned char)schema[0]);
}

/*
 * Rows are rewritten at every renewal: half of each page is left free, so that
 * the new version lands on the same page and no index has to follow (HOT), and
 * vacuum comes early.  Keys are ASCII and compare by byte.  The lock keeps two
 * sessions that start at once from failing on each other's catalog rows.
 */
static const char table[] =
    "SELECT pg_advisory_xact_lock(hashtextextended('tenure schema @S', 0));\n"
    "CREATE SCHEMA IF NOT EXISTS \"@S\";\n"
    "CREATE TABLE IF NOT EXISTS \"@S\".register (\n"
    "    key       text COLLATE \"C\" PRIMARY KEY CHECK (octet_length(key) BETWEEN 1 AND 255),\n"
    "    version   bigint  NOT NULL CHECK (version > 0), -- one more at every change\n"
    "    nonce     uuid    NOT NULL,                     -- of the request that wrote this\n"
    "    prev      uuid,                                 -- of the one that it replaced\n"
    "    tombstone boolean NOT NULL,\n"
    "    data      bytea   NOT NULL\n"
    ") WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02,\n"
    "        autovacuum_vacuum_threshold = 500);\n"
    "COMMENT ON TABLE \"@S\".register IS 'tenure: registers, layout 1';\n";

static const char grants[] = "GRANT USAGE ON SCHEMA \"@S\" TO @N;\n"
                             "GRANT SELECT, INSERT, UPDATE, DELETE ON \"@S\".register TO @N;\n";

static const char *replacement(const char *at, const char *const with[TN_PG_WORDS])
{
    static const char letters[] = TN_PG_LETTERS;
    const char *letter = at[0] == '@' && at[1] ? strchr(letters, at[1]) : NULL;

    return letter ? with[letter - letters] : NULL;
}

char *tn_pg_fill(const char *text, const char *const with[TN_PG_WORDS])
{
    char *filled = NULL;
    size_t size;
    FILE *out = open_memstream(&filled, &size);

    if (!out)
        return NULL;
    for (; *text; text++) {
        const char *word = replacement(text, with);
        if (word)
            fputs(word, out);
        else
            putc(*text, out);
        text += word != NULL;
    }
    if (fclose(out) != 0) {
        free(filled);
        return NULL;
    }
    return filled;
}

static enum tenure_status make(const char *schema, const char *text, const char *role, char **out,
                               struct tenure_error *err)
{
    const char *const with[TN_PG_WORDS] = {schema, role};
    char *sql;

    if (!tn_pg_schema_valid(schema))
        return tenure_fail(err, TENURE_INVALID,
                           "'%.60s' is not a schema name: use at most %d letters, digits and '_'",
                           schema, TN_PG_SCHEMA_MAX);
    sql = tn_pg_fill(text, with);
    if (!sql)
        return tenure_fail(err, TENURE_NOMEM, "out of memory");
    *out = sql;
    return TENURE_OK;
}

enum tenure_status tn_pg_schema_sql(const char *schema, char **text, struct tenure_error *err)
{
    return make(schema, table, NULL, text, err);
}

/* "role", with quotes inside doubled. */
static char *quoted(const char *role)
{
    char *out = malloc(2 * strlen(role) + 3);
    char *to = out;

    if (!out)
        return NULL;
    *to++ = '"';
    for (; *role; role++) {
        if (*role == '"')
            *to++ = '"';
        *to++ = *role;
    }
    *to++ = '"';
    *to = '\0';
    return out;
}

enum tenure_status tn_pg_schema_grants(const char *schema, const char *role, char **text,
                                       struct tenure_error *err)
{
    char *name = quoted(role);
    enum tenure_status status = name ? make(schema, grants, name, text, err)
                                     : tenure_fail(err, TENURE_NOMEM, "out of memory");

    free(name);
    return status;
}
