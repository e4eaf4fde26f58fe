/* What a store needs to be made once, by somebody who may: as text. */
#include <stdlib.h>
#include <string.h>

#include "base/url.h"
#include "store/postgres/schema.h"
#include "tenure/store.h"

static enum tenure_status with_grants(const char *schema, const char *role, char **sql,
                                      struct tenure_error *err)
{
    char *table = NULL, *grants = NULL, *both;
    enum tenure_status status = tn_pg_schema_sql(schema, &table, err);

    if (!status && role)
        status = tn_pg_schema_grants(schema, role, &grants, err);
    if (status)
        goto done;
    both = realloc(table, strlen(table) + (grants ? strlen(grants) : 0) + 1);
    if (!both) {
        status = tenure_fail(err, TENURE_NOMEM, "out of memory");
        goto done;
    }
    table = NULL;
    *sql = strcat(both, grants ? grants : "");
done:
    free(table);
    free(grants);
    return status;
}

enum tenure_status tenure_store_schema(const char *url, const char *role, char **text,
                                       struct tenure_error *err)
{
    struct tenure_error scratch;
    struct tn_url parsed = {0};
    enum tenure_status status;

    if (!err)
        err = &scratch;
    status = tn_url_parse(url, &parsed, err);
    if (status)
        return status;
    const char *schema = tn_url_param(&parsed, "schema");
    if (strncmp(parsed.scheme, "postgres", strlen("postgres")) == 0)
        status = with_grants(schema ? schema : TN_PG_SCHEMA, role, text, err);
    else
        status = tenure_fail(err, TENURE_UNSUPPORTED,
                             "%.40s: needs nothing to be made beforehand; postgres: does",
                             parsed.scheme);
    tn_url_free(&parsed);
    return status;
}
