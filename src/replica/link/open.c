/* Opening and closing: what a configuration must hold, and the table that the module exports. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "os/thread.h"
#include "replica/link/inner.h"

/* A copy that lives as long as the transport; NULL if text is, or t->n_strings is beyond its end
 * when there is no memory. */
static char *keep(struct tn_transport *t, const char *text)
{
    if (!text)
        return NULL;
    char *copy = strdup(text);
    if (!copy || t->n_strings >= sizeof t->strings / sizeof t->strings[0]) {
        free(copy);
        t->n_strings = UINT32_MAX;
        return NULL;
    }
    return t->strings[t->n_strings++] = copy;
}

static bool keep_conf(struct tn_transport *t, const struct tn_transport_conf *conf)
{
    const char **const strings[] = {&t->conf.listen,        &t->conf.election,    &t->conf.node,
                                    &t->conf.tls_cert,      &t->conf.tls_key,     &t->conf.tls_ca,
                                    &t->conf.token_file,    &t->conf.token_env,   &t->conf.user,
                                    &t->conf.password_file, &t->conf.password_env};

    t->conf = *conf;
    t->conf.targets = NULL;
    for (size_t i = 0; i < sizeof strings / sizeof strings[0]; i++) {
        if (*strings[i] && !(*strings[i] = keep(t, *strings[i])))
            return false;
    }
    return true;
}

/* HOST and PORT of an address; false: it is not an address. */
static bool split(const char *address, char **host, char **port)
{
    const char *colon = strrchr(address, ':');
    size_t n = colon ? (size_t)(colon - address) : 0;
    bool brackets = n > 2 && address[0] == '[' && address[n - 1] == ']';

    if (!colon || n == 0 || n > 255 || colon[1 + strspn(colon + 1, "0123456789")] || !colon[1] ||
        atol(colon + 1) > 65535 || strspn(address, "/ ") || strchr(address, '/') ||
        (!brackets && memchr(address, ':', n)))
        return false;
    *host = strndup(address + brackets, n - 2u * brackets);
    *port = strdup(colon + 1);
    return true;
}

/* Without TLS: only on this machine, or when it was said; there never without a secret. */
static enum tenure_status check_plain(const struct tn_transport_conf *conf, const char *address,
                                      const char *host, struct tenure_error *err)
{
    if (tn_host_is_local(host))
        return TENURE_OK;
    if (!conf->plain)
        return tenure_fail(err, TENURE_CONFIG,
                           "%s is not on this machine, and there is no TLS: give certificates, or "
                           "say that plain text is wanted",
                           address);
    if (!conf->token_file && !conf->token_env && !conf->user)
        return tenure_fail(err, TENURE_CONFIG,
                           "%s: without TLS a token or a password is needed, else anybody may copy "
                           "the state",
                           address);
    return TENURE_OK;
}

static enum tenure_status add_targets(struct tn_transport *t, const struct tn_transport_conf *conf,
                                      struct tenure_error *err)
{
    enum tenure_status status = TENURE_OK;

    t->targets = calloc(conf->target_count + 1, sizeof *t->targets);
    if (!t->targets)
        return tenure_fail(err, TENURE_NOMEM, "out of memory");
    for (size_t i = 0; i < conf->target_count && !status; i++) {
        struct tn_target *target = &t->targets[i];

        target->transport = t;
        t->target_count++;
        if (!split(conf->targets[i], &target->host, &target->port))
            return tenure_fail(err, TENURE_CONFIG,
                               "'%.100s' is not an address to connect to: write HOST:PORT",
                               conf->targets[i]);
        target->address = strdup(conf->targets[i]);
        if (!target->address || !target->host || !target->port)
            return tenure_fail(err, TENURE_NOMEM, "out of memory");
        if (!tn_tls_outbound(conf))
            status = check_plain(conf, target->address, target->host, err);
    }
    return status;
}

static enum tenure_status begin_listening(struct tn_transport *t, struct tenure_error *err)
{
    const struct tn_transport_conf *conf = &t->conf;
    char address[300], *host = NULL, *port = NULL;
    enum tenure_status status = TENURE_OK;

    snprintf(address, sizeof address, "%s%s", conf->listen[0] == ':' ? "[::]" : "", conf->listen);
    if (!split(address, &host, &port))
        return tenure_fail(err, TENURE_CONFIG,
                           "'%.100s' is not an address to listen on: write HOST:PORT, [::1]:PORT "
                           "or :PORT",
                           conf->listen);
    if (!host || !port)
        status = tenure_fail(err, TENURE_NOMEM, "out of memory");
    else if (!tn_tls_inbound(conf))
        status = check_plain(conf, conf->listen, host, err);
    else if (!conf->tls_ca && !conf->token_file && !conf->token_env && !conf->user)
        status = tenure_fail(err, TENURE_CONFIG,
                             "%s: nobody is asked who he is: give the authority of the peers' "
                             "certificates, a token or a password",
                             conf->listen);
    free(host);
    free(port);
    if (!status)
        status = tn_listen(address, &t->listener, err);
    return status;
}

static enum tenure_status check_conf(const struct tn_transport_conf *conf, struct tenure_error *err)
{
    if (!conf->election || !conf->node || conf->silence_ns <= 0 || strpbrk(conf->node, "\r\n") ||
        strlen(conf->node) >= TN_PEER_NODE_SIZE || !conf->node[0])
        return tenure_fail(err, TENURE_INVALID, "a link needs an election, a node and a time");
    if (conf->user && (conf->token_file || conf->token_env))
        return tenure_fail(err, TENURE_CONFIG, "give a token or a password, not both");
    if (conf->user && !conf->password_file && !conf->password_env)
        return tenure_fail(err, TENURE_CONFIG, "the password of '%.100s' is missing", conf->user);
    return TENURE_OK;
}

static void destroy(struct tn_transport *t)
{
    tn_worker_free(t->worker);
    tn_transport_sweep(t);
    tn_loop_cancel(&t->loop, &t->wake);
    tn_loop_close(&t->loop);
    if (t->listener.fd >= 0)
        close(t->listener.fd);
    if (t->poll_fd >= 0)
        close(t->poll_fd);
    tn_tls_close(t);
    for (size_t i = 0; i < t->target_count; i++) {
        free(t->targets[i].host);
        free(t->targets[i].port);
        free(t->targets[i].address);
    }
    free(t->targets);
    for (size_t i = 0; i < sizeof t->strings / sizeof t->strings[0]; i++)
        free(t->strings[i]);
    pthread_mutex_destroy(&t->lock);
    free(t);
}

static enum tenure_status open_all(struct tn_transport *t, const struct tn_transport_conf *conf,
                                   struct tenure_error *err)
{
    enum tenure_status status = tn_loop_open(&t->loop, err);

    if (!status && !keep_conf(t, conf))
        status = tenure_fail(err, TENURE_NOMEM, "out of memory");
    if (!status)
        status = tn_handshake_check(&t->conf, err);
    if (!status)
        status = tn_tls_open(t, err);
    if (!status)
        status = add_targets(t, conf, err);
    if (!status && (t->poll_fd = epoll_create1(EPOLL_CLOEXEC)) < 0)
        status = tenure_fail(err, TENURE_UNAVAILABLE, "no descriptor: %s", strerror(errno));
    if (!status && conf->listen)
        status = begin_listening(t, err);
    if (!status && !(t->worker = tn_worker_new("tenure-lookup", &t->loop)))
        status = tenure_fail(err, TENURE_NOMEM, "out of memory");
    if (status)
        return status;
    tn_loop_watch(&t->loop, &t->poll_watch, t->poll_fd, tn_transport_ready, t);
    tn_loop_timer(&t->loop, &t->timer, NULL, NULL);
    tn_transport_listen_again(t);
    return tn_thread_start(&t->thread, tn_transport_run, t, err);
}

static enum tenure_status open_transport(struct tn_transport **transport,
                                         const struct tn_transport_conf *conf,
                                         const struct tn_transport_events *events, void *ctx,
                                         struct tenure_error *err)
{
    enum tenure_status status = check_conf(conf, err);
    struct tn_transport *t = status ? NULL : calloc(1, sizeof *t);

    if (status)
        return status;
    if (!t)
        return tenure_fail(err, TENURE_NOMEM, "out of memory");
    pthread_mutex_init(&t->lock, NULL);
    t->events = events;
    t->ctx = ctx;
    t->wake.run = tn_transport_woken;
    t->poll_fd = t->listener.fd = -1;
    t->told_ns = INT64_MIN / 2;
    status = open_all(t, conf, err);
    if (status)
        destroy(t);
    else
        *transport = t;
    return status;
}

static void close_transport(struct tn_transport *t)
{
    if (!t)
        return;
    pthread_mutex_lock(&t->lock);
    t->stop = true;
    pthread_mutex_unlock(&t->lock);
    tn_transport_wake(t);
    pthread_join(t->thread, NULL);
    for (size_t i = 0; i < t->target_count; i++)
        t->targets[i].peer = NULL; /* nothing is connected again */
    destroy(t);
}

static uint16_t port_of(const struct tn_transport *t)
{
    return t->listener.fd < 0 ? 0 : t->listener.port;
}

static void close_peer(struct tn_peer *p, const char *why)
{
    struct tn_transport *t = p->transport;

    pthread_mutex_lock(&t->lock);
    if (!p->closing)
        snprintf(p->closing_why, sizeof p->closing_why, "%s", why);
    p->closing = true;
    pthread_mutex_unlock(&t->lock);
    tn_transport_wake(t);
}

TENURE_API extern const struct tn_link_module tenure_link_module;
const struct tn_link_module tenure_link_module = {.abi = TN_LINK_ABI,
                                                  .open = open_transport,
                                                  .port = port_of,
                                                  .close = close_transport,
                                                  .send = tn_frames_send,
                                                  .close_peer = close_peer};
