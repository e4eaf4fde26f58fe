/* What a failure means, and what to do about it. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/postgres/postgres.h"

#define UNREADY "57P03" /* cannot_connect_now */

/*
 * X(code or its first characters, status, words)
 *
 * The first row that matches counts.  The words, if any, follow what the
 * server said; @S is the schema, @N the role.
 */
#define FAILURES(X)                                                                                \
    X("25006", UNAVAILABLE, "this server is read-only: a standby, or a fail-over is under way")    \
    X("28", DENIED, "check user, password and pg_hba.conf")                                        \
    X("3D000", CONFIG, "create the database, or correct its name in the URL")                      \
    X("3F000", CONFIG, "create the schema: let an owner run what `tenure store schema` prints")    \
    X("42P01", CONFIG, "create the table: let an owner run what `tenure store schema` prints")     \
    X("42501", DENIED,                                                                             \
      "let an owner run: GRANT USAGE ON SCHEMA \"@S\" TO \"@N\"; GRANT SELECT, INSERT, "           \
      "UPDATE ON \"@S\".register TO \"@N\"")                                                       \
    X("42703", CONFIG, "\"@S\".register is of another version of tenure")                          \
    X("42704", UNSUPPORTED, "this server lacks a setting that is needed")                          \
    X("42883", CONFIG, "the server is too old, or \"@S\".register is not tenure's table")          \
    X("42", CONFIG, "\"@S\".register is not the table that tenure makes")                          \
    X("40", UNAVAILABLE, "try again")                                                              \
    X("53100", UNAVAILABLE, "the server's disk is full")                                           \
    X("53300", UNAVAILABLE, "the server takes no more connections")                                \
    X("53", UNAVAILABLE, "the server is out of resources")                                         \
    X("54000", UNAVAILABLE, "the server cannot take more now; is its NOTIFY queue full?")          \
    X("55P03", TIMEOUT, "another transaction holds the row")                                       \
    X("57014", TIMEOUT, "the server cancelled the statement")                                      \
    X(UNREADY, UNAVAILABLE, "the server is starting up or shutting down")                          \
    X("57", UNAVAILABLE, "the server ended the session")                                           \
    X("08P01", UNAVAILABLE, "the server, or a pooler in front of it, refused")                     \
    X("08", UNAVAILABLE, "the connection broke")                                                   \
    X("26000", UNAVAILABLE, "the session was reset")                                               \
    X("0A000", UNAVAILABLE, "the session will be set up again")                                    \
    X("XX001", CORRUPT, "the server's storage is damaged")                                         \
    X("XX002", CORRUPT, "the server's index is damaged")                                           \
    X("22", INVALID, NULL)                                                                         \
    X("23", INVALID, NULL)                                                                         \
    X("", UNAVAILABLE, NULL)

static const struct {
    const char *code;
    enum tenure_status status;
    const char *words;
} failures[] = {
#define X(code, status, words) {code, TENURE_##status, words},
    FAILURES(X)
#undef X
};

static const char *role(const struct tn_pg *pg)
{
    const char *user = pg->conn ? PQuser(pg->conn) : NULL;

    return user && *user ? user : "ROLE";
}

static enum tenure_status fail_with(struct tn_pg *pg, const char *code, const char *said,
                                    struct tenure_error *err)
{
    const char *const with[TN_PG_WORDS] = {pg->conf.schema, role(pg)};
    enum tenure_status status;
    char *words = NULL;
    size_t i = 0;

    pg->unready = strcmp(code, UNREADY) == 0;
    while (strncmp(failures[i].code, code, strlen(failures[i].code)) != 0)
        i++;
    if (failures[i].words)
        words = tn_pg_fill(failures[i].words, with);
    status = tenure_fail(err, failures[i].status, "%s: %.160s%s%s", pg->scheme, said,
                         words ? "; " : "", words ? words : "");
    free(words);
    return status;
}

enum tenure_status tn_pg_result_fail(struct tn_pg *pg, const PGresult *result, bool *fatal,
                                     struct tenure_error *err)
{
    const char *code = PQresultErrorField(result, PG_DIAG_SQLSTATE);
    const char *severity = PQresultErrorField(result, PG_DIAG_SEVERITY_NONLOCALIZED);
    const char *said = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);

    /* Without a code it is libpq that speaks, about a connection that broke.
     * 40003 says by itself that nobody knows; so does class 08. */
    *fatal = !code || !severity || strcmp(severity, "ERROR") != 0 || strncmp(code, "08", 2) == 0 ||
             strcmp(code, "40003") == 0;
    if (!said)
        said = PQresultErrorMessage(result);
    return fail_with(pg, code ? code : "08", said, err);
}

/* "…FATAL:  28P01: password authentication failed…": the code and what follows. */
static const char *find_code(const char *message, char code[6])
{
    for (const char *p = strstr(message, ":  "); p; p = strstr(p + 1, ":  ")) {
        size_t n = strspn(p + 3, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789");
        if (n == 5 && p[8] == ':') {
            memcpy(code, p + 3, 5);
            code[5] = '\0';
            return p + 9 + (p[9] == ' ');
        }
    }
    code[0] = '\0';
    return message;
}

enum tenure_status tn_pg_connect_fail(struct tn_pg *pg, const struct tn_pg_target *target,
                                      struct tenure_error *err)
{
    const char *message = PQerrorMessage(pg->conn);
    char code[6], said[200];

    pg->unready = false;
    const char *text = find_code(message, code);
    snprintf(said, sizeof said, "%.*s", (int)strcspn(text, "\n"), text);
    if (code[0])
        return fail_with(pg, code, said, err);
    if (strstr(message, "support SSL"))
        return tenure_fail(err, TENURE_CONFIG,
                           "%s: %s; switch ssl on at the server, or choose a weaker sslmode in the "
                           "URL",
                           pg->scheme, said);
    if (strstr(message, "certificate"))
        return tenure_fail(
            err, TENURE_CONFIG,
            "%s: %s; remote servers are checked by certificate and name: give "
            "sslrootcert=FILE (the system's: /etc/ssl/certs/ca-certificates.crt), or "
            "choose a weaker sslmode in the URL",
            pg->scheme, said);
    if (strstr(message, "no password supplied"))
        return tenure_fail(err, TENURE_DENIED,
                           "%s: the server wants a password; give one in PGPASSFILE, in a service "
                           "file or in the URL",
                           pg->scheme);
    if (strstr(message, "read-only"))
        return tn_pg_standby(pg, err);
    return tenure_fail(err, TENURE_UNAVAILABLE,
                       "%s: %s; is the server up, and is %s port %s right?", pg->scheme, said,
                       target->host[0] ? target->host : "the local socket",
                       target->port[0] ? target->port : "5432");
}

enum tenure_status tn_pg_garbled(const struct tn_pg *pg, const char *what, struct tenure_error *err)
{
    return tenure_fail(err, TENURE_CORRUPT,
                       "%s: \"%s\".register: the server's answer about %s is malformed", pg->scheme,
                       pg->conf.schema, what);
}

enum tenure_status tn_pg_standby(const struct tn_pg *pg, struct tenure_error *err)
{
    return tenure_fail(err, TENURE_UNAVAILABLE,
                       "%s: this server is a standby, and what it shows may be old; name the "
                       "primary, or several hosts, in the URL",
                       pg->scheme);
}
