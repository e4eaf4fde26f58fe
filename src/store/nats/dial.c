/*
 * Connecting.  The library does it in one call that can be neither ended nor trusted to end in time
 * (a TLS handshake has no time-out): it runs in a thread of its own, which is left behind when time
 * is up.
 */
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "os/poll.h"
#include "os/resolve.h"
#include "os/thread.h"
#include "store/nats/nats.h"
#include "store/patience.h"

/* Owned by the caller and by the thread that connects; the last one frees it. */
struct tn_nats_link {
    atomic_int owners;
    int done_fd;      /* eventfd: readable when the thread is done */
    atomic_bool done; /* rc, why and connection are set */
    natsOptions *options;
    natsConnection *connection;
    natsStatus rc;
    char why[200];
    int fd;
    bool tls;
    atomic_bool wants_write;
    char address[sizeof((struct tn_addresses *)NULL)->text[0]];
};

void tn_nats_name(const struct tn_nats *h, char *out, size_t size)
{
    char text[TN_REMOTE_ADDR_TEXT];

    tn_remote_addr_text(&h->conf.hosts[h->at], text);
    snprintf(out, size, "nats: %s", text);
}

enum tenure_status tn_nats_fail(const struct tn_nats *h, enum tenure_status status,
                                struct tenure_error *err, const char *why)
{
    char name[TN_REMOTE_ADDR_TEXT + 16];

    tn_nats_name(h, name, sizeof name);
    return tenure_fail(err, status, "%s: %s", name, why);
}

enum tenure_status tn_nats_await(const struct tn_nats *h, int fd, short events, int64_t by,
                                 struct tenure_error *err)
{
    struct pollfd both[2] = {{.fd = fd, .events = events}, {.fd = h->cancel_fd, .events = POLLIN}};
    int ready = tn_poll(both, 2, by);

    if (ready < 0)
        return tenure_fail(err, TENURE_UNAVAILABLE, "poll: %s", strerror(errno));
    if (ready == 0)
        return tn_nats_fail(h, TENURE_TIMEOUT, err, "the server did not answer in time");
    if (!both[0].revents)
        return tenure_fail(err, TENURE_CANCELLED, "cancelled by the caller");
    return TENURE_OK;
}

/* ---- The library's loop -------------------------------------------------- */

static natsStatus attach(void **data, void *loop, natsConnection *connection, natsSock fd)
{
    struct tn_nats_link *link = loop;

    (void)connection;
    link->fd = fd;
    *data = link;
    return NATS_OK;
}

static natsStatus want_read(void *data, bool add)
{
    (void)data, (void)add; /* always */
    return NATS_OK;
}

static natsStatus want_write(void *data, bool add)
{
    atomic_store(&((struct tn_nats_link *)data)->wants_write, add);
    return NATS_OK;
}

static natsStatus detach(void *data)
{
    (void)data;
    return NATS_OK;
}

natsConnection *tn_nats_link_connection(const struct tn_nats_link *link)
{
    return link->connection;
}

const char *tn_nats_link_address(const struct tn_nats_link *link)
{
    return link->address;
}

int tn_nats_link_fd(const struct tn_nats_link *link)
{
    return link->fd;
}

bool tn_nats_link_wants_write(const struct tn_nats_link *link)
{
    return atomic_load(&link->wants_write);
}

/* OpenSSL writes without MSG_NOSIGNAL: no SIGPIPE may come of it. */
static void call_quietly(const struct tn_nats_link *link, void (*call)(natsConnection *))
{
    const struct timespec now = {0};
    sigset_t pipe, before, pending;
    bool was;

    if (!link->tls) {
        call(link->connection);
        return;
    }
    sigemptyset(&pipe);
    sigaddset(&pipe, SIGPIPE);
    sigpending(&pending);
    was = sigismember(&pending, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipe, &before);
    call(link->connection);
    if (!was)
        sigtimedwait(&pipe, NULL, &now);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

void tn_nats_link_read(struct tn_nats_link *link)
{
    call_quietly(link, natsConnection_ProcessReadEvent);
}

void tn_nats_link_write(struct tn_nats_link *link)
{
    if (atomic_load(&link->wants_write))
        call_quietly(link, natsConnection_ProcessWriteEvent);
}

void tn_nats_link_free(struct tn_nats_link *link)
{
    if (!link || atomic_fetch_sub(&link->owners, 1) > 1)
        return;
    if (link->connection && !natsConnection_IsClosed(link->connection)) {
        /* One that is sound is flushed for half a second, by a loop that does not turn any more. */
        shutdown(link->fd, SHUT_RDWR);
        tn_nats_link_read(link);
    }
    call_quietly(link, natsConnection_Destroy);
    natsOptions_Destroy(link->options);
    if (link->done_fd >= 0)
        close(link->done_fd);
    free(link);
}

/* ---- Options ------------------------------------------------------------- */

static natsStatus set_login(const struct tn_nats *h, natsOptions *o, const char *secret)
{
    const struct tn_nats_conf *c = &h->conf;

    if (c->remote.user)
        return natsOptions_SetUserInfo(o, c->remote.user, secret);
    if (c->token.file || c->token.env)
        return natsOptions_SetToken(o, secret);
    if (c->creds_file)
        return natsOptions_SetUserCredentialsFromFiles(o, c->creds_file, NULL);
    if (c->nkey)
        return natsOptions_SetNKeyFromSeed(o, c->nkey, c->nkey_file);
    return NATS_OK;
}

static natsStatus set_tls(const struct tn_nats *h, natsOptions *o)
{
    const struct tn_remote *r = &h->conf.remote;
    natsStatus s;

    s = natsOptions_SetSecure(o, true);
    if (s == NATS_OK && r->ca_file)
        s = natsOptions_LoadCATrustedCertificates(o, r->ca_file);
    if (s == NATS_OK && r->cert_file)
        s = natsOptions_LoadCertificatesChain(o, r->cert_file, r->key_file);
    if (s == NATS_OK && r->blind)
        s = natsOptions_SkipServerVerification(o, true);
    if (s == NATS_OK && !r->blind)
        s = natsOptions_SetExpectedHostname(o, h->conf.hosts[h->at].host);
    return s;
}

static natsStatus set_options(const struct tn_nats *h, struct tn_nats_link *link,
                              const char *address, const char *secret, int64_t ms)
{
    bool six = strchr(address, ':') != NULL;
    char url[TN_REMOTE_ADDR_TEXT + 16];
    natsOptions *o = link->options;
    natsStatus s;

    snprintf(url, sizeof url, "nats://%s%s%s:%s", six ? "[" : "", address, six ? "]" : "",
             h->conf.hosts[h->at].port);
    s = natsOptions_SetURL(o, url);
    if (s == NATS_OK)
        s = natsOptions_SetAllowReconnect(o, false);
    if (s == NATS_OK)
        s = natsOptions_SetName(o, "tenure");
    if (s == NATS_OK)
        s = natsOptions_SetTimeout(o, ms + 500); /* whoever waits gives up first */
    if (s == NATS_OK)
        s = natsOptions_SetSendAsap(o, true); /* the library's threads keep out of it */
    if (s == NATS_OK)
        s = natsOptions_SetPingInterval(o, 0);
    if (s == NATS_OK)
        s = natsOptions_SetIgnoreDiscoveredServers(o, true);
    if (s == NATS_OK)
        s = natsOptions_SetEventLoop(o, link, attach, want_read, want_write, detach);
    if (s == NATS_OK)
        s = set_login(h, o, secret);
    return s == NATS_OK && link->tls ? set_tls(h, o) : s;
}

/* The library ignores SIGPIPE for the whole process, which is not its business, and its threads
 * take the signal mask of the one that begins them: no signal may reach them. */
static void open_library(void)
{
    struct sigaction pipe;
    sigset_t all, before;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    sigaction(SIGPIPE, NULL, &pipe);
    nats_Open(-1);
    sigaction(SIGPIPE, &pipe, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

/* ---- The thread ---------------------------------------------------------- */

static void say_why(struct tn_nats_link *link)
{
    natsStatus s = link->rc;
    const char *text = nats_GetLastError(&s);

    snprintf(link->why, sizeof link->why, "%s",
             text && *text ? text : natsStatus_GetText(link->rc));
    link->why[strcspn(link->why, "\r\n")] = '\0';
}

static void *connect_link(void *arg)
{
    struct tn_nats_link *link = arg;
    uint64_t one = 1;

    tn_thread_name("tenure-nats");
    link->rc = natsConnection_Connect(&link->connection, link->options);
    if (link->rc != NATS_OK)
        say_why(link);
    nats_ReleaseThreadMemory();
    atomic_store(&link->done, true);
    while (write(link->done_fd, &one, sizeof one) < 0 && errno == EINTR)
        continue;
    tn_nats_link_free(link);
    return NULL;
}

static enum tenure_status new_link(struct tn_nats *h, const char *address, int64_t by,
                                   struct tn_nats_link **out, struct tenure_error *err)
{
    const struct tn_secret *which = h->conf.remote.user ? &h->conf.remote.password : &h->conf.token;
    struct tn_nats_link *link;
    char *secret = tn_secret_load(which, err);
    int64_t ms = (by - tenure_now()) / 1000000;
    natsStatus s;

    if (!secret)
        return tenure_fail_context(err, "nats");
    link = calloc(1, sizeof *link);
    if (!link) {
        tn_secret_free(secret);
        return tenure_fail(err, TENURE_NOMEM, "nats: out of memory");
    }
    atomic_init(&link->owners, 1);
    link->fd = -1;
    link->tls = strcmp(h->conf.remote.url.scheme, "natss") == 0;
    snprintf(link->address, sizeof link->address, "%s", address);
    link->done_fd = eventfd(0, EFD_CLOEXEC);
    s = natsOptions_Create(&link->options);
    if (s == NATS_OK)
        s = set_options(h, link, address, secret, ms > 0 ? ms : 1);
    tn_secret_free(secret);
    if (s == NATS_OK && link->done_fd >= 0) {
        *out = link;
        return TENURE_OK;
    }
    link->rc = s;
    say_why(link);
    tn_nats_fail(h, s == NATS_NO_MEMORY ? TENURE_NOMEM : TENURE_CONFIG, err, link->why);
    tn_nats_link_free(link);
    return err->code;
}

/* What the library says about a connection that was refused. */
static enum tenure_status explain(const struct tn_nats *h, const struct tn_nats_link *link,
                                  struct tenure_error *err)
{
    char why[300];

    switch (link->rc) {
    case NATS_OK:
        return TENURE_OK;
    case NATS_CONNECTION_AUTH_FAILED:
    case NATS_NOT_PERMITTED:
        return tn_nats_fail(
            h, TENURE_DENIED, err,
            "the server refuses the login: is the password, the token or the key right?");
    case NATS_SECURE_CONNECTION_REQUIRED:
        return tn_nats_fail(h, TENURE_CONFIG, err, "the server wants TLS: use natss://");
    case NATS_SECURE_CONNECTION_WANTED:
        return tn_nats_fail(h, TENURE_CONFIG, err, "the server has no TLS: use nats://");
    case NATS_SSL_ERROR:
        snprintf(why, sizeof why, "TLS failed: %s; is it the right certificate for this host?",
                 link->why);
        return tn_nats_fail(h, TENURE_DENIED, err, why);
    case NATS_TIMEOUT:
        return tn_nats_fail(h, TENURE_TIMEOUT, err, "the server did not answer in time");
    case NATS_NO_SERVER:
    case NATS_IO_ERROR:
        return tn_nats_fail(h, TENURE_UNAVAILABLE, err,
                            "cannot connect; is the server up, and is the address right?");
    case NATS_NO_MEMORY:
        return tenure_fail(err, TENURE_NOMEM, "nats: out of memory");
    case NATS_INVALID_ARG: /* a seed or credentials that cannot be read */
    case NATS_ERR:
    case NATS_NOT_FOUND:
        if (h->conf.creds_file || h->conf.nkey_file)
            return tn_nats_fail(h, TENURE_DENIED, err, link->why);
        return tn_nats_fail(h, TENURE_UNAVAILABLE, err, link->why);
    default:
        return tn_nats_fail(h, TENURE_UNAVAILABLE, err, link->why);
    }
}

static enum tenure_status connect_to(struct tn_nats *h, const char *address, int64_t by,
                                     struct tenure_error *err)
{
    struct tn_nats_link *link = NULL;
    pthread_t thread;
    enum tenure_status status = new_link(h, address, by, &link, err);

    if (status)
        return status;
    atomic_store(&link->owners, 2);
    status = tn_thread_start(&thread, connect_link, link, err);
    if (status) {
        atomic_store(&link->owners, 1);
    } else {
        pthread_detach(thread);
        status = tn_nats_await(h, link->done_fd, POLLIN, by, err);
    }
    if (!status && atomic_load(&link->done))
        status = explain(h, link, err);
    if (status)
        tn_nats_link_free(link);
    else
        h->link = link;
    return status;
}

enum tenure_status tn_nats_dial(struct tn_nats *h, int64_t by, struct tenure_error *err)
{
    static pthread_once_t opened = PTHREAD_ONCE_INIT;
    struct tn_addresses found;
    enum tenure_status status =
        tn_resolve(h->conf.hosts[h->at].host, h->cancel_fd, by, &found, err);

    if (status)
        return status == TENURE_CANCELLED ? status : tenure_fail_context(err, "nats");
    pthread_once(&opened, open_library);
    status = tn_nats_fail(h, TENURE_UNAVAILABLE, err, "the host has no usable address");
    for (unsigned i = 0; i < found.n; i++) {
        /* One dead address must not use up the time of the others. */
        int64_t until = tn_attempt_until(by, found.n - i, found.n - i);

        status = connect_to(h, found.text[i], until, err);
        if (status != TENURE_UNAVAILABLE && status != TENURE_TIMEOUT)
            break;
    }
    return status;
}
