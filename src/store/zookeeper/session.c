/* One session with one server. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "os/clock.h"
#include "os/poll.h"
#include "os/resolve.h"
#include "store/patience.h"
#include "store/zookeeper/zookeeper.h"

pthread_mutex_t tn_zk_library = PTHREAD_MUTEX_INITIALIZER;

void tn_zk_name(const struct tn_zk *h, char *out, size_t size)
{
    char text[TN_REMOTE_ADDR_TEXT];

    tn_remote_addr_text(&h->conf.hosts[h->at], text);
    snprintf(out, size, "zookeeper: %s", text);
}

static enum tenure_status fail_at(const struct tn_zk *h, enum tenure_status status,
                                  struct tenure_error *err, const char *text)
{
    char name[TN_REMOTE_ADDR_TEXT + 16];

    tn_zk_name(h, name, sizeof name);
    return tenure_fail(err, status, "%s: %s", name, text);
}

/* ---- The loop ------------------------------------------------------------ */

/* The library asks the server to end the session, and waits for seconds until it can be sent and is
 * answered; a socket that was shut down ends either wait at once.  The descriptor is still the
 * library's while it says "connected". */
static void end_session(struct tn_zk *h, int how)
{
    zhandle_t *session = h->session;

    h->session = NULL;
    if (!session)
        return;
    if (zoo_state(session) == ZOO_CONNECTED_STATE)
        shutdown(h->fd, how);
    pthread_mutex_lock(&tn_zk_library);
    zookeeper_close(session); /* ends what is under way, too */
    pthread_mutex_unlock(&tn_zk_library);
}

void tn_zk_drop(struct tn_zk *h)
{
    end_session(h, SHUT_RDWR);
}

void tn_zk_close(struct tn_zk *h)
{
    end_session(h, SHUT_RD);
}

static enum tenure_status lose(struct tn_zk *h, struct tenure_error *err)
{
    bool connected = zoo_state(h->session) == ZOO_CONNECTED_STATE;

    tn_zk_drop(h);
    return fail_at(h, TENURE_UNAVAILABLE, err,
                   connected ? "the server ended the session"
                             : "cannot connect, or the connection broke; is the server up, and is "
                               "the address right?");
}

enum tenure_status tn_zk_turn(struct tn_zk *h, int64_t until, struct tenure_error *err)
{
    struct pollfd both[2] = {{.fd = -1}, {.fd = h->cancel_fd, .events = POLLIN}};
    int fd = -1, interest = 0, ready;
    struct timeval pause = {0};
    int64_t now = tenure_now(), at;

    if (zookeeper_interest(h->session, &fd, &interest, &pause) != ZOK || fd < 0)
        return lose(h, err);
    h->fd = fd;
    fcntl(fd, F_SETFD, FD_CLOEXEC);
    both[0].fd = fd;
    both[0].events = (short)((interest & ZOOKEEPER_READ ? POLLIN : 0) |
                             (interest & ZOOKEEPER_WRITE ? POLLOUT : 0));
    at = now + pause.tv_sec * INT64_C(1000000000) + pause.tv_usec * INT64_C(1000) + 1000000;
    if (until < at)
        at = until;
    ready = at <= now ? poll(both, 2, 0) : tn_poll(both, 2, at);
    if (ready < 0 && errno != EINTR)
        return tenure_fail(err, TENURE_UNAVAILABLE, "poll: %s", strerror(errno));
    interest = (both[0].revents & (POLLIN | POLLHUP | POLLERR) ? ZOOKEEPER_READ : 0) |
               (both[0].revents & POLLOUT ? ZOOKEEPER_WRITE : 0);
    if (ready > 0 && interest) {
        int rc = zookeeper_process(h->session, interest);

        if ((rc != ZOK && rc != ZNOTHING) || is_unrecoverable(h->session))
            return lose(h, err);
    }
    if (ready > 0 && both[1].revents)
        return tenure_fail(err, TENURE_CANCELLED, "cancelled by the caller");
    if (ready <= 0 && tenure_now() >= until)
        return fail_at(h, TENURE_TIMEOUT, err, "the server did not answer in time");
    return TENURE_OK;
}

/* ---- Connecting ---------------------------------------------------------- */

void tn_zk_next_server(struct tn_zk *h)
{
    h->at = (h->at + 1) % h->conf.n_hosts;
}

static void ignore_event(zhandle_t *session, int type, int state, const char *path, void *arg)
{
    (void)session, (void)type, (void)state, (void)path, (void)arg;
}

static void ignore_login(int rc, const void *arg)
{
    (void)rc, (void)arg;
}

/* Any password will do: whether it is the right one shows at the nodes. */
static enum tenure_status log_in(struct tn_zk *h, struct tenure_error *err)
{
    char *password, *both = NULL;
    int n = 0;

    if (!h->conf.remote.user)
        return TENURE_OK;
    password = tn_secret_load(&h->conf.remote.password, err);
    if (!password)
        return tenure_fail_context(err, "zookeeper");
    both = malloc(strlen(h->conf.remote.user) + strlen(password) + 2);
    if (both) {
        n = sprintf(both, "%s:%s", h->conf.remote.user, password);
        n = zoo_add_auth(h->session, "digest", both, n, ignore_login, NULL);
    }
    tn_secret_free(password);
    tn_secret_free(both);
    return both && n == ZOK ? TENURE_OK
                            : tenure_fail(err, TENURE_NOMEM, "zookeeper: out of memory");
}

static enum tenure_status begin(struct tn_zk *h, const char *address, struct tenure_error *err)
{
    bool six = strchr(address, ':') != NULL;
    char target[TN_REMOTE_ADDR_TEXT];

    snprintf(target, sizeof target, "%s%s%s:%s", six ? "[" : "", address, six ? "]" : "",
             h->conf.hosts[h->at].port);
    pthread_mutex_lock(&tn_zk_library);
    zoo_set_debug_level((ZooLogLevel)0);
    zoo_deterministic_conn_order(1);
    h->session = zookeeper_init2(target, ignore_event, TN_ZK_SESSION_MS, NULL, NULL,
                                 ZOO_NO_LOG_CLIENTENV, NULL);
    pthread_mutex_unlock(&tn_zk_library);
    if (!h->session)
        return fail_at(h, TENURE_UNAVAILABLE, err, strerror(errno));
    h->generation++;
    return log_in(h, err);
}

static enum tenure_status dial(struct tn_zk *h, int64_t by, struct tenure_error *err)
{
    struct tn_addresses found;
    enum tenure_status status =
        tn_resolve(h->conf.hosts[h->at].host, h->cancel_fd, by, &found, err);

    if (status)
        return status == TENURE_CANCELLED ? status : tenure_fail_context(err, "zookeeper");
    for (unsigned i = 0; i < found.n; i++) {
        /* One dead address must not use up the time of the others. */
        int64_t until = tn_attempt_until(by, found.n - i, found.n - i);

        status = begin(h, found.text[i], err);
        while (!status && zoo_state(h->session) != ZOO_CONNECTED_STATE)
            status = tn_zk_turn(h, until, err);
        if (!status || status == TENURE_CANCELLED)
            break;
        tn_zk_drop(h);
    }
    if (status)
        tn_zk_drop(h);
    return status;
}

/* What arrived since the last call is taken in first: a session may have ended in the meantime. */
static bool is_alive(struct tn_zk *h)
{
    struct tenure_error ignored;
    int cancel_fd = h->cancel_fd;
    enum tenure_status status = TENURE_OK;

    h->cancel_fd = -1;
    while (h->session && !status)
        status = tn_zk_turn(h, 0, &ignored);
    h->cancel_fd = cancel_fd;
    return h->session != NULL;
}

enum tenure_status tn_zk_connect(struct tn_zk *h, int64_t deadline, struct tenure_error *err)
{
    enum tenure_status status = TENURE_OK;

    if (is_alive(h))
        return TENURE_OK;
    for (unsigned left = h->conf.n_hosts; left; left--) {
        if (tenure_now() >= deadline)
            return fail_at(h, TENURE_TIMEOUT, err, "no time was left to connect");
        status = dial(h, tn_attempt_until(deadline, left, left), err);
        if (status != TENURE_UNAVAILABLE && status != TENURE_TIMEOUT)
            break;
        tn_zk_next_server(h);
    }
    return status;
}
