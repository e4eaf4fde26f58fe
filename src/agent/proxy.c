#include "agent/proxy.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agent/proxy_inner.h"
#include "os/thread.h"
#include "tenure/store.h"

/* ---- Elections ----------------------------------------------------------- */

static struct tn_upstream *find(struct tn_proxy *p, const char *name)
{
    struct tn_upstream *u = atomic_load(&p->upstreams);

    while (u && strcmp(u->name, name) != 0)
        u = u->next;
    return u;
}

static void close_fd(int fd)
{
    if (fd >= 0)
        close(fd);
}

static void free_upstream(struct tn_upstream *u)
{
    if (!u)
        return;
    tn_election_free(u->election);
    tn_leader_page_unmap(u->page);
    close_fd(u->page_fd);
    close_fd(u->life_fd);
    close_fd(u->new_socket);
    close_fd(u->socket);
    free(u->last);
    free(u);
}

static struct tn_upstream *new_upstream(struct tn_proxy *p, const char *name)
{
    struct tn_upstream *u = calloc(1, sizeof *u);

    if (!u)
        return NULL;
    u->proxy = p;
    u->page_fd = u->new_socket = u->socket = -1;
    snprintf(u->name, sizeof u->name, "%s", name);
    snprintf(u->fate, sizeof u->fate, "its process has not been started yet");
    /* Readable, as the descriptor of a process that is dead. */
    u->life_fd = eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK);
    u->page = tn_leader_page_new(&u->page_fd);
    u->election = tn_election_new_remote(name, &tn_remote_table, u);
    if (u->life_fd >= 0 && u->page && u->election)
        return u;
    free_upstream(u);
    return NULL;
}

size_t tn_proxy_count(struct tn_proxy *p, const char *const *names, size_t n)
{
    size_t count = 0;

    for (const struct tn_upstream *u = atomic_load(&p->upstreams); u; u = u->next)
        count++;
    for (size_t i = 0; i < n; i++)
        count += !find(p, names[i]);
    return count;
}

enum tenure_status tn_proxy_set(struct tn_proxy *p, const char *const *names, size_t n,
                                struct tenure_error *err)
{
    struct tn_election **elections = calloc(n ? n : 1, sizeof *elections);
    enum tenure_status status = TENURE_OK;

    if (!elections)
        return tenure_fail(err, TENURE_NOMEM, "out of memory");
    for (size_t i = 0; i < n && !status; i++) {
        struct tn_upstream *u = find(p, names[i]);

        if (!u && (u = new_upstream(p, names[i]))) {
            u->next = atomic_load(&p->upstreams);
            atomic_store(&p->upstreams, u);
        }
        if (u)
            elections[i] = u->election;
        else
            status =
                tenure_fail(err, TENURE_UNAVAILABLE, "no memory or descriptors for %s", names[i]);
    }
    if (!status)
        status = tn_api_set(p->api, elections, n, err);
    free(elections);
    return status;
}

/* ---- Processes ----------------------------------------------------------- */

/* A process of it comes or goes: what the last one said counts no more. */
static void restart(struct tn_upstream *u, bool there, int socket, const char *fate)
{
    struct tn_proxy *p = u->proxy;

    tn_leader_page_clear(u->page);
    atomic_fetch_add(&u->starts, 1); /* before its descriptors are others: remote.c */
    pthread_mutex_lock(&p->lock);
    close_fd(u->new_socket);
    u->new_socket = socket;
    u->there = there;
    u->answered = u->unresponsive = false;
    u->open = 0;
    u->news++;
    if (fate)
        snprintf(u->fate, sizeof u->fate, "%s", fate);
    pthread_mutex_unlock(&p->lock);
}

/* Ours, and what the process inherits.  No address leads to either. */
bool tn_proxy_prepare(struct tn_proxy *p, const char *name, struct tn_proxy_ends *ends)
{
    struct tn_upstream *u = find(p, name);
    int pair[2];

    if (!u || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) != 0)
        return false;
    *ends = (struct tn_proxy_ends){.page = u->page_fd, .socket = pair[1]};
    restart(u, true, pair[0], NULL);
    return true;
}

void tn_proxy_started(struct tn_proxy *p, const char *name, pid_t pid)
{
    struct tn_upstream *u = find(p, name);
    int fd = u ? (int)syscall(SYS_pidfd_open, pid, 0) : -1;

    if (fd >= 0) {
        dup3(fd, u->life_fd, O_CLOEXEC); /* in one step: others are looking at it */
        close(fd);
    }
    tn_proxy_wake(p);
}

void tn_proxy_ended(struct tn_proxy *p, const char *name, const char *fate)
{
    struct tn_upstream *u = find(p, name);

    if (!u)
        return;
    restart(u, false, -1, fate);
    tn_proxy_wake(p);
    tn_api_notify(p->api);
}

/* ---- Life ---------------------------------------------------------------- */

enum tenure_status tn_proxy_open(const struct tn_api_options *options, struct tn_proxy **proxy,
                                 struct tenure_error *err)
{
    struct tn_proxy *p = calloc(1, sizeof *p);
    struct tn_api_options o = *options;
    struct epoll_event ev = {.events = EPOLLIN};

    if (!p)
        return tenure_fail(err, TENURE_NOMEM, "out of memory");
    pthread_mutex_init(&p->lock, NULL);
    p->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    p->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    o.upstream = &tn_proxy_requests;
    o.upstream_arg = p;
    enum tenure_status status =
        p->epoll_fd < 0 || p->event_fd < 0 ||
                epoll_ctl(p->epoll_fd, EPOLL_CTL_ADD, p->event_fd, &ev) != 0
            ? tenure_fail(err, TENURE_UNAVAILABLE, "cannot make descriptors: %s", strerror(errno))
            : tn_api_start(&o, NULL, 0, &p->api, err);
    if (!status)
        status = tn_thread_start(&p->thread, tn_proxy_main, p, err);
    p->thread_started = status == TENURE_OK;
    if (status)
        tn_proxy_close(p);
    else
        *proxy = p;
    return status;
}

void tn_proxy_close(struct tn_proxy *p)
{
    if (!p)
        return;
    atomic_store(&p->ending, true);
    if (p->thread_started) {
        tn_proxy_wake(p);
        pthread_join(p->thread, NULL);
    }
    tn_proxy_calls_end(p); /* nobody works on them any more */
    tn_api_stop(p->api);   /* forgets them */
    for (struct tn_upstream *u = p->upstreams, *next; u; u = next) {
        next = u->next;
        free_upstream(u);
    }
    close_fd(p->epoll_fd);
    close_fd(p->event_fd);
    pthread_mutex_destroy(&p->lock);
    free(p);
}
