/* Which servers to try, at which addresses, and how strictly TLS is checked. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "os/resolve.h"
#include "store/postgres/postgres.h"

static const char *value_of(const PQconninfoOption *options, const char *name)
{
    for (; options && options->keyword; options++) {
        if (strcmp(options->keyword, name) == 0)
            return options->val ? options->val : "";
    }
    return "";
}

/* ---- What libpq makes of URL, service file and environment ---------------- */

#define TRIPWIRE "tenure-tripwire"

/*
 * libpq merges the three, and shows the outcome only on a connection.  So one
 * is begun that it refuses itself, after everything is merged and checked and
 * before it touches the network: its last check is that of
 * target_session_attrs.  Begun again at every connect, so that a service file
 * that was changed counts.
 */
static enum tenure_status merge(const struct tn_pg *pg, PQconninfoOption **options,
                                struct tenure_error *err)
{
    const char *const names[] = {"dbname", "target_session_attrs", NULL};
    const char *const values[] = {pg->conf.uri, TRIPWIRE, NULL};
    PGconn *conn = PQconnectStartParams(names, values, 1);
    enum tenure_status status = TENURE_OK;

    *options = conn ? PQconninfo(conn) : NULL;
    if (!*options)
        status = tenure_fail(err, TENURE_NOMEM, "out of memory");
    else if (PQstatus(conn) == CONNECTION_BAD && !strstr(PQerrorMessage(conn), TRIPWIRE))
        status = tenure_fail(err, TENURE_CONFIG, "%s: %.*s", pg->scheme,
                             (int)strcspn(PQerrorMessage(conn), "\n"), PQerrorMessage(conn));
    PQfinish(conn);
    if (status) {
        PQconninfoFree(*options);
        *options = NULL;
    }
    return status;
}

/* What the URL itself says; the URL was checked when the store was opened. */
static bool in_url(const PQconninfoOption *url, const char *name)
{
    return value_of(url, name)[0] != '\0';
}

/* ---- Lists --------------------------------------------------------------- */

/* The i-th of a comma-separated list; a list of one serves for all. */
static void item(const char *list, unsigned i, char *out, size_t size)
{
    if (!strchr(list, ','))
        i = 0;
    for (; i > 0; i--) {
        list += strcspn(list, ",");
        list += *list == ',';
    }
    snprintf(out, size, "%.*s", (int)strcspn(list, ","), list);
}

static unsigned count(const char *list)
{
    unsigned n = 1;

    for (; *list; list++)
        n += *list == ',';
    return n;
}

static void add(struct tn_pg_plan *plan, const char *host, const char *address, const char *port)
{
    struct tn_pg_target *t = &plan->targets[plan->n];

    if (plan->n == TN_PG_TARGETS)
        return;
    snprintf(t->host, sizeof t->host, "%s", host);
    snprintf(t->address, sizeof t->address, "%s", address);
    snprintf(t->port, sizeof t->port, "%s", port);
    plan->n++;
}

static bool is_socket(const char *host)
{
    return host[0] == '/' || host[0] == '@' || host[0] == '\0';
}

/* One entry of the host list becomes one target for each of its addresses.
 * Names are looked up here because libpq would block in it (C5). */
static enum tenure_status add_host(struct tn_pg *pg, struct tn_pg_plan *plan, const char *host,
                                   const char *address, const char *port, int64_t deadline,
                                   struct tenure_error *err)
{
    struct tn_addresses found = {0};
    enum tenure_status status;

    if (address[0]) {
        add(plan, host, address, port);
        return TENURE_OK;
    }
    if (is_socket(host)) {
        add(plan, host, "", port);
        return TENURE_OK;
    }
    status = tn_resolve(host, pg->wake_fd, deadline, &found, err);
    if (status) {
        tenure_fail_context(err, "%s", pg->scheme);
        return status;
    }
    for (unsigned i = 0; i < found.n; i++)
        add(plan, host, found.text[i], port);
    return TENURE_OK;
}

static bool port_valid(const char *port)
{
    size_t n = strlen(port);

    return n == 0 ||
           (n <= 5 && strspn(port, "0123456789") == n && atoi(port) >= 1 && atoi(port) <= 65535);
}

static enum tenure_status add_all(struct tn_pg *pg, struct tn_pg_plan *plan,
                                  const PQconninfoOption *all, bool *remote, int64_t deadline,
                                  struct tenure_error *err)
{
    const char *hosts = value_of(all, "host"), *addresses = value_of(all, "hostaddr");
    unsigned n = count(addresses[0] ? addresses : hosts);
    enum tenure_status status = TENURE_OK;

    for (unsigned i = 0; i < n; i++) {
        char host[256], address[64], port[8];

        item(hosts, i, host, sizeof host);
        item(addresses, i, address, sizeof address);
        item(value_of(all, "port"), i, port, sizeof port);
        /* The value is not shown: it may be a password in the wrong place. */
        if (!port_valid(port))
            return tenure_fail(err, TENURE_CONFIG,
                               "%s: the port is not a number from 1 to 65535; write "
                               "host:port, and user:password@ in front of it",
                               pg->scheme);
        if (address[0] ? !tn_host_is_local(address) : !is_socket(host) && !tn_host_is_local(host))
            *remote = true;
        enum tenure_status one = add_host(pg, plan, host, address, port, deadline, err);
        if (one == TENURE_CANCELLED || one == TENURE_NOMEM)
            return one;
        if (one)
            status = one;
    }
    /* One name that cannot be resolved does not matter while another can. */
    return plan->n ? TENURE_OK : status;
}

enum tenure_status tn_pg_plan(struct tn_pg *pg, int64_t deadline, struct tn_pg_plan *plan,
                              struct tenure_error *err)
{
    PQconninfoOption *all = NULL, *url = PQconninfoParse(pg->conf.uri, NULL);
    bool remote = false;
    enum tenure_status status;

    memset(plan, 0, sizeof *plan);
    status = url ? merge(pg, &all, err) : tenure_fail(err, TENURE_NOMEM, "out of memory");
    if (status)
        goto done;
    status = add_all(pg, plan, all, &remote, deadline, err);
    /* "prefer" is what libpq falls back to: it is as good as no answer.  Who
     * wants less than verify-full says so in the URL, or names another mode. */
    plan->strict =
        remote && !in_url(url, "sslmode") && strcmp(value_of(all, "sslmode"), "prefer") == 0;
    plan->gss_given =
        in_url(url, "gssencmode") || strcmp(value_of(all, "gssencmode"), "prefer") != 0;
    plan->quick_given = value_of(all, "keepalives_idle")[0] || value_of(all, "tcp_user_timeout")[0];
    plan->attrs_given = in_url(url, "target_session_attrs");
done:
    PQconninfoFree(all);
    PQconninfoFree(url);
    return status;
}
