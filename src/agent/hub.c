#include "agent/hub.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agent/hub_inner.h"
#include "os/thread.h"
#include "tenure/store.h"

/* What a pair keeps that was not taken yet: some ten connections. */
#define PAIR_BYTES 8192

/* ---- Elections ----------------------------------------------------------- */

static struct tn_far *find(struct tn_hub *h, const char *name)
{
    size_t n = atomic_load(&h->n_fars);

    for (size_t i = 0; i < n; i++) {
        if (strcmp(h->fars[i]->name, name) == 0)
            return h->fars[i];
    }
    return NULL;
}

static void free_far(struct tn_far *f)
{
    if (!f)
        return;
    tn_election_free(f->election);
    tn_facts_unmap(f->facts);
    if (f->facts_fd >= 0)
        close(f->facts_fd);
    if (f->life_fd >= 0)
        close(f->life_fd);
    if (f->pair_fd >= 0)
        close(f->pair_fd);
    if (f->end.fd >= 0)
        close(f->end.fd);
    tn_bytes_free(&f->in);
    json_decref(f->last);
    free(f);
}

static struct tn_far *new_far(struct tn_hub *h, const char *name)
{
    struct tn_far *f = calloc(1, sizeof *f);

    if (!f)
        return NULL;
    f->hub = h;
    f->facts_fd = f->end.fd = -1;
    f->end.link = f;
    snprintf(f->name, sizeof f->name, "%s", name);
    snprintf(f->fate, sizeof f->fate, "its process has not been started yet");
    /* Readable, as the descriptor of a process that is dead. */
    f->life_fd = eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK);
    f->pair_fd = eventfd(0, EFD_CLOEXEC); /* until there is one */
    f->facts = tn_facts_new(&f->facts_fd);
    f->election = tn_election_new_far(name, &tn_far_table, f);
    if (f->life_fd >= 0 && f->pair_fd >= 0 && f->facts && f->election)
        return f;
    free_far(f);
    return NULL;
}

enum tenure_status tn_hub_set(struct tn_hub *h, const char *const *names, size_t n,
                              struct tenure_error *err)
{
    struct tn_election **elections = calloc(n ? n : 1, sizeof *elections);
    enum tenure_status status = TENURE_OK;

    if (!elections)
        return tenure_fail(err, TENURE_NOMEM, "out of memory");
    for (size_t i = 0; i < n && !status; i++) {
        struct tn_far *f = find(h, names[i]);
        size_t at = atomic_load(&h->n_fars);

        if (!f && at == TN_HUB_NAMES) {
            status = tenure_fail(err, TENURE_CONFIG,
                                 "%d elections have had other names since the start: restart the "
                                 "agent",
                                 TN_HUB_NAMES);
        } else if (!f && !(f = new_far(h, names[i]))) {
            status =
                tenure_fail(err, TENURE_UNAVAILABLE, "no memory or descriptors for %s", names[i]);
        } else if (at < TN_HUB_NAMES && !find(h, names[i])) {
            h->fars[at] = f;
            atomic_store(&h->n_fars, at + 1);
        }
        elections[i] = f ? f->election : NULL;
    }
    if (!status)
        status = tn_api_set(h->api, elections, n, err);
    free(elections);
    return status;
}

/* ---- Processes ----------------------------------------------------------- */

/* Ours, and what the process inherits.  No address leads to either.  A process that hangs is not to
 * use up what a user may have under way, so it keeps few. */
static bool make_pair(int ends[2])
{
    int bytes = PAIR_BYTES;

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
        return false;
    setsockopt(ends[0], SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
    return true;
}

bool tn_hub_prepare(struct tn_hub *h, const char *name, struct tn_hub_seat *seat)
{
    struct tn_far *f = find(h, name);
    int ends[2];

    if (!f || !make_pair(ends))
        return false;
    *seat = (struct tn_hub_seat){.facts = f->facts_fd, .pair = ends[1]};
    tn_facts_clear(f->facts);
    atomic_fetch_add(&f->starts, 1);      /* before its descriptors are others: far.c */
    dup3(ends[0], f->pair_fd, O_CLOEXEC); /* in one step: the thread may be using it */
    close(ends[0]);
    pthread_mutex_lock(&h->lock);
    f->there = true;
    f->told = f->silent = false;
    f->news++;
    pthread_mutex_unlock(&h->lock);
    return true;
}

void tn_hub_started(struct tn_hub *h, const char *name, pid_t pid)
{
    struct tn_far *f = find(h, name);
    int fd = f ? (int)syscall(SYS_pidfd_open, pid, 0) : -1;

    if (fd >= 0) {
        dup3(fd, f->life_fd, O_CLOEXEC); /* in one step: others are looking at it */
        close(fd);
    }
    tn_hub_wake(h);
}

void tn_hub_ended(struct tn_hub *h, const char *name, const char *fate)
{
    struct tn_far *f = find(h, name);

    if (!f)
        return;
    tn_facts_clear(f->facts);
    atomic_fetch_add(&f->starts, 1);
    pthread_mutex_lock(&h->lock);
    f->there = false;
    f->told = f->silent = false;
    f->news++;
    snprintf(f->fate, sizeof f->fate, "%s", fate);
    pthread_mutex_unlock(&h->lock);
    tn_hub_wake(h);
    tn_api_poke(h->api);
}

/* ---- Life ---------------------------------------------------------------- */

enum tenure_status tn_hub_open(const struct tn_api_options *options, struct tn_hub **hub,
                               struct tenure_error *err)
{
    struct tn_hub *h = calloc(1, sizeof *h);
    struct tn_api_options o = *options;

    if (!h)
        return tenure_fail(err, TENURE_NOMEM, "out of memory");
    pthread_mutex_init(&h->lock, NULL);
    h->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    h->wake.fd = h->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    struct epoll_event ev = {.events = EPOLLIN, .data.ptr = &h->wake};
    o.elsewhere = &tn_hub_elsewhere;
    o.elsewhere_arg = h;
    enum tenure_status status =
        h->epoll_fd < 0 || h->event_fd < 0 ||
                epoll_ctl(h->epoll_fd, EPOLL_CTL_ADD, h->event_fd, &ev) != 0
            ? tenure_fail(err, TENURE_UNAVAILABLE, "cannot make descriptors: %s", strerror(errno))
            : tn_api_start(&o, NULL, 0, &h->api, err);
    if (!status)
        status = tn_thread_start(&h->thread, tn_hub_main, h, err);
    h->thread_started = status == TENURE_OK;
    if (status)
        tn_hub_close(h);
    else
        *hub = h;
    return status;
}

void tn_hub_close(struct tn_hub *h)
{
    if (!h)
        return;
    atomic_store(&h->ending, true);
    if (h->thread_started) {
        tn_hub_wake(h);
        pthread_join(h->thread, NULL);
    }
    tn_hub_calls_end(h); /* nobody works on them any more */
    tn_api_stop(h->api); /* forgets them */
    for (size_t i = 0; i < h->n_fars; i++)
        free_far(h->fars[i]);
    if (h->epoll_fd >= 0)
        close(h->epoll_fd);
    if (h->event_fd >= 0)
        close(h->event_fd);
    pthread_mutex_destroy(&h->lock);
    free(h);
}
