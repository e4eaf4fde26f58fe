#include "api/api.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "api/inner.h"
#include "os/clock.h"
#include "os/log.h"

/* What an operator should know about this address. */
static void announce(const struct tn_api *api, const char *listen, uint16_t port)
{
    const char *scheme = api->cert ? "https" : "http";

    if (port)
        tn_log("listening", "answers %s on %s (port %u)", scheme, listen, (unsigned)port);
    else
        tn_log("listening", "answers on %s", listen);
    if (tn_access_is_loopback(listen))
        return;
    if (!api->access.token_file)
        tn_log("exposed",
               "WARNING: %s can be reached from other machines and there is no token: "
               "changes are refused there, reads are open to everybody",
               listen);
    else if (!api->cert)
        tn_log("exposed",
               "WARNING: %s can be reached from other machines without TLS: the token "
               "travels in the clear",
               listen);
}

static enum tenure_status listen_on(struct tn_api *api, const char *address, unsigned share,
                                    struct tenure_error *err)
{
    bool local = tn_access_is_local(address);
    struct tn_http_options http = {.listen = address,
                                   .handler = tn_api_answer,
                                   .admit = tn_api_admit,
                                   .done = tn_api_done,
                                   .arg = api,
                                   .share = share,
                                   .tls_cert = local ? NULL : api->cert,
                                   .tls_key = local ? NULL : api->key,
                                   .tls_client_ca = local ? NULL : api->client_ca,
                                   .tls_due = tn_api_tls_due};
    enum tenure_status status = api->http->start(&http, &api->servers[api->n_servers], err);

    if (status)
        return status;
    announce(api, address, api->http->port(api->servers[api->n_servers]));
    api->n_servers++;
    return TENURE_OK;
}

static enum tenure_status open_all(struct tn_api *api, const struct tn_api_options *o,
                                   struct tenure_error *err)
{
    enum tenure_status status = tn_access_open(&api->access, o, err);
    unsigned n = 0;

    if (!status)
        status = tn_api_tls_open(api, o, err);
    if (!status)
        status = tn_http_load(&api->http, err);
    if (status)
        return status;
    api->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    api->jobs = api->event_fd >= 0 ? tn_jobs_new(api->event_fd) : NULL;
    if (!api->jobs)
        return tenure_fail(err, TENURE_UNAVAILABLE, "cannot make an event descriptor");
    while (n < TN_API_LISTENERS && o->listen[n])
        n++;
    /* The program's own socket has the rest: no connection of others keeps it from its state. */
    for (unsigned i = 0; !status && i < n; i++)
        status = listen_on(api, o->listen[i], (100 - TN_HTTP_STATE_SHARE) / n, err);
    /* Last: it looks at the servers. */
    return status ? status : tn_api_events_start(api, err);
}

enum tenure_status tn_api_set(struct tn_api *api, struct tn_election *const *elections, size_t n,
                              struct tenure_error *err)
{
    struct tn_api_list *list = calloc(1, sizeof *list + n * sizeof(struct tn_election *));

    if (!list)
        return tenure_fail(err, TENURE_NOMEM, "out of memory");
    list->n = n;
    for (size_t i = 0; i < n; i++)
        list->elections[i] = elections[i];
    list->former = atomic_load(&api->list);
    atomic_store(&api->list, list);
    if (api->thread_started)
        tn_api_notify(api);
    return TENURE_OK;
}

enum tenure_status tn_api_start(const struct tn_api_options *options,
                                struct tn_election *const *elections, size_t n, struct tn_api **out,
                                struct tenure_error *err)
{
    struct tn_api *api = calloc(1, sizeof *api);
    enum tenure_status status;

    if (!api || tn_api_set(api, elections, n, err) != TENURE_OK) {
        free(api);
        return tenure_fail(err, TENURE_NOMEM, "out of memory");
    }
    api->upstream = options->upstream;
    api->upstream_arg = options->upstream_arg;
    api->group = options->group;
    api->group_arg = options->group_arg;
    api->event_fd = -1;
    api->started_ms = tn_wall_ms();
    if (gethostname(api->host, sizeof api->host - 1) != 0)
        api->host[0] = '\0';
    status = open_all(api, options, err);
    if (status) {
        tn_api_stop(api);
        return status;
    }
    for (size_t i = 0; i < n; i++) {
        tn_election_on_change(elections[i], TN_WATCHER_API, tn_api_notify, api);
        tn_election_refresh(elections[i]);
    }
    *out = api;
    return TENURE_OK;
}

void tn_api_stop(struct tn_api *api)
{
    if (!api)
        return;
    struct tn_api_list *list = atomic_load(&api->list), *former;

    for (size_t i = 0; i < list->n; i++)
        tn_election_on_change(list->elections[i], TN_WATCHER_API, NULL, NULL);
    tn_api_events_stop(api);
    for (size_t i = 0; i < api->n_servers; i++)
        api->http->stop(api->servers[i]);
    tn_jobs_close(api->jobs);
    if (api->event_fd >= 0)
        close(api->event_fd);
    tn_access_close(&api->access);
    tn_api_tls_close(api);
    for (; list; list = former) {
        former = list->former;
        free(list);
    }
    free(api);
}

uint16_t tn_api_port(const struct tn_api *api, size_t listener)
{
    return listener < api->n_servers ? api->http->port(api->servers[listener]) : 0;
}

void tn_api_page_url(const struct tn_api_options *o, const struct tn_api *api, char *out,
                     size_t size)
{
    for (size_t i = 0; o->listen[i]; i++) {
        const char *port = strrchr(o->listen[i], ':');

        if (tn_access_url(o, i,
                          api    ? tn_api_port(api, i)
                          : port ? (unsigned)atoi(port + 1)
                                 : 0,
                          out, size))
            return;
    }
    *out = '\0';
}
