#include "supervise/guard/releaser.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/hex.h"
#include "base/url.h"
#include "control/control.h"
#include "core/timing.h"
#include "driver/driver.h"
#include "guard/protocol.h"
#include "jobs/operator.h"
#include "lease/lease.h"
#include "os/loop.h"
#include "os/trim.h"
#include "supervise/program/environment.h"

/* After this the lease has mostly run out by itself. */
#define LIMIT_NS   (10 * TN_S)
#define REQUEST_NS (2 * TN_S)
#define PAUSE_NS   (50 * TN_MS)
/* libcurl does not use a connection again that was idle for 118 s; others are less patient. */
#define KEEP_NS    (45 * TN_S)
#define REOPEN_NS  (5 * TN_S)

/* What a ticket is for. */
#define LEASE  "lease"
#define MEMBER "member"

#define FOR_THE_GUARD "this verb is for the guard alone"

size_t tn_release_ticket_write(const struct tn_release_ticket *f, char *text, size_t size)
{
    char incarnation[TN_NONCE_HEX + 1], grant[TN_NONCE_HEX + 1];

    tn_hex_encode(f->incarnation, TENURE_NONCE_SIZE, incarnation);
    tn_hex_encode(f->grant, TENURE_NONCE_SIZE, grant);
    int n = snprintf(text, size, "%s\n%s\n%s\n%s\n%s\n%s\n", f->store ? f->store : "noop:", f->name,
                     f->id, incarnation, grant, f->member ? MEMBER : LEASE);
    return n > 0 && (size_t)n < size ? (size_t)n : 0;
}

bool tn_release_ticket_give(struct tn_guard_link *link, const struct tn_release_ticket *ticket)
{
    char text[TN_RELEASE_TICKET_MAX], *all = NULL;
    size_t size = 0;
    FILE *to = open_memstream(&all, &size);

    if (!to)
        return false;
    fwrite(text, 1, tn_release_ticket_write(ticket, text, sizeof text), to);
    tn_environment_write(to);
    bool ok = fclose(to) == 0 && tn_guard_link_ticket(link, all, size);
    if (all)
        explicit_bzero(all, size);
    free(all);
    return ok;
}

bool tn_release_ticket_read(struct tn_release_ticket *f, char *text)
{
    char *parts[6];

    for (int i = 0; i < 6; i++) {
        char *end = strchr(text, '\n');

        if (!end)
            return false; /* tenure died while it wrote them */
        *end = '\0';
        parts[i] = text;
        text = end + 1;
    }
    f->store = parts[0];
    f->name = parts[1];
    f->id = parts[2];
    f->member = strcmp(parts[5], MEMBER) == 0;
    return tn_hex_decode(parts[3], f->incarnation, TENURE_NONCE_SIZE) &&
           tn_hex_decode(parts[4], f->grant, TENURE_NONCE_SIZE);
}

static bool read_ticket(int fd, struct tn_release_ticket *ticket, char text[TN_RELEASE_TICKET_MAX])
{
    ssize_t n = pread(fd, text, TN_RELEASE_TICKET_MAX - 1, 0);

    text[n > 0 ? n : 0] = '\0';
    return tn_release_ticket_read(ticket, text);
}

void tn_release_environment(int fd)
{
    char text[TN_RELEASE_TICKET_MAX], again[TN_RELEASE_TICKET_MAX];
    struct tn_release_ticket ticket;

    /* Without it, a store that needs none can still be reached. */
    if (read_ticket(fd, &ticket, text))
        tn_environment_read(fd, (off_t)tn_release_ticket_write(&ticket, again, sizeof again));
}

static void hang_up(tenure_store **store)
{
    tenure_store_close(*store);
    *store = NULL;
}

/* It is a process of its own, whose first open would make a store where one was unmounted. */
static enum tenure_status open_existing(const char *text, tenure_store **store,
                                        struct tenure_error *err)
{
    char *url = tn_url_existing(text);
    enum tenure_status status = url ? tenure_store_open(url, tenure_now() + REQUEST_NS, store, err)
                                    : tenure_fail(err, TENURE_NOMEM, "out of memory");

    tn_url_wipe(url);
    return status;
}

/* On the exact version that was read, and only if it is still what the ticket says (I8). */
static enum tenure_status swap(const struct tn_release_ticket *f, tenure_store *store,
                               struct tenure_error *err)
{
    int64_t deadline = tenure_now() + REQUEST_NS;

    if (!f->member)
        return tn_driver_release_grant(store, f->name, f->id, f->incarnation, f->grant, deadline,
                                       err);
    return tn_jobs_member_left(
        &(struct tn_jobs){.store = store, .name = f->name, .deadline = deadline}, f->id,
        f->incarnation, err);
}

/* One try: open if it is not, read, swap. */
static enum tenure_status try_once(const struct tn_release_ticket *f, tenure_store **store,
                                   struct tenure_error *err)
{
    enum tenure_status status = TENURE_OK;

    if (!*store)
        status = open_existing(f->store, store, err);
    if (!status)
        status = swap(f, *store, err);
    if (status)
        hang_up(store); /* the next try does not trust that connection */
    return status;
}

/* For as long as somebody may gain by it. */
static enum tenure_status release(const struct tn_release_ticket *f, tenure_store **store,
                                  struct tenure_error *err)
{
    int64_t limit = tenure_now() + LIMIT_NS, pause_ns = *store ? 0 : PAUSE_NS;
    enum tenure_status status;

    do {
        status = try_once(f, store, err);
        enum tenure_class class = tenure_status_class(status);
        /* A swap of unknown outcome is settled by the next read. */
        if (class != TENURE_CLASS_TRANSIENT && class != TENURE_CLASS_AMBIGUOUS)
            break;
        nanosleep(&(struct timespec){.tv_nsec = pause_ns}, NULL);
        pause_ns = PAUSE_NS;
    } while (tenure_now() < limit);
    return status;
}

static void withdraw(const struct tn_release_ticket *f, tenure_store *store)
{
    char incarnation[2 * TENURE_NONCE_SIZE + 1];

    if (f->member)
        return; /* a worker is no candidate */
    tn_hex_encode(f->incarnation, sizeof f->incarnation, incarnation);
    usleep(20 * 1000); /* the next leader first */
    tn_candidate_withdraw(store, f->name, f->id, incarnation, tenure_now() + REQUEST_NS, NULL);
}

enum tenure_status tn_release_from(int fd, struct tenure_error *err)
{
    char text[TN_RELEASE_TICKET_MAX];
    struct tn_release_ticket ticket;
    tenure_store *store = NULL;

    if (!read_ticket(fd, &ticket, text))
        return tenure_fail(err, TENURE_INVALID, FOR_THE_GUARD);
    enum tenure_status status = release(&ticket, &store, err);
    if (!status)
        withdraw(&ticket, store);
    hang_up(&store);
    return status;
}

/* ---- Prepared ------------------------------------------------------------ */

/* Open the store, or see that it still is: a read goes all the way, and keeps servers, clients and
 * what is in between from cutting off what they take for idle. */
static void keep_open(tenure_store **store, int fd)
{
    char text[TN_RELEASE_TICKET_MAX];
    struct tn_release_ticket ticket;
    struct tenure_value buffer = {0};
    struct tn_lease_seen seen = {0};
    enum tenure_status status = TENURE_OK;

    if (!read_ticket(fd, &ticket, text))
        return; /* tenure is just writing them */
    if (!*store)
        status = open_existing(ticket.store, store, NULL);
    if (!status)
        status =
            tn_lease_read(*store, ticket.name, &buffer, &seen, tenure_now() + REQUEST_NS, NULL);
    if (status)
        hang_up(store);
    tn_lease_seen_free(&seen);
    tenure_value_free(&buffer);
}

struct standby {
    struct tn_loop loop;
    struct tn_watch guard;
    struct tn_timer check;
    tenure_store **store;
    int ticket_fd;
    bool over, go;
};

static void on_word(void *arg, short events)
{
    struct standby *s = arg;
    char word = 0;

    (void)events;
    s->over = true;            /* without a word: the guard is gone */
    s->check.at_ns = TN_NEVER; /* a check that is due would come before the release */
    s->go =
        recv(s->guard.fd, &word, sizeof word, 0) == (ssize_t)sizeof word && word == TN_RELEASER_GO;
}

static void check_store(void *arg, int64_t now)
{
    struct standby *s = arg;

    (void)now;
    keep_open(s->store, s->ticket_fd);
    tn_trim();
    prctl(PR_SET_NAME, *s->store ? "tenure-releaser" : "tenure-opening", 0, 0, 0);
    s->check.at_ns = tenure_now() + (*s->store ? KEEP_NS : REOPEN_NS);
}

static bool await_word(int socket, int fd, tenure_store **store)
{
    struct standby s = {.store = store, .ticket_fd = fd};

    if (tn_loop_open(&s.loop, NULL) == TENURE_OK) {
        tn_loop_watch(&s.loop, &s.guard, socket, on_word, &s);
        tn_loop_timer(&s.loop, &s.check, check_store, &s);
        check_store(&s, 0);
        while (!s.over)
            tn_loop_turn(&s.loop);
    }
    tn_loop_close(&s.loop);
    return s.go;
}

enum tenure_status tn_release_when_told(int socket, int fd, struct tenure_error *err)
{
    const char done = TN_RELEASER_DONE;
    enum tenure_status status = TENURE_OK;
    char text[TN_RELEASE_TICKET_MAX];
    struct tn_release_ticket ticket;
    tenure_store *store = NULL;
    socklen_t len = sizeof(int);
    int type = 0;

    if (getsockopt(socket, SOL_SOCKET, SO_TYPE, &type, &len) != 0 || type != SOCK_SEQPACKET)
        return tenure_fail(err, TENURE_INVALID, FOR_THE_GUARD);
    /* A whole election will wait for it: ahead of others where we may. */
    setpriority(PRIO_PROCESS, 0, -10);
    if (!await_word(socket, fd, &store))
        goto done;
    /* Read again: there may have been other grants since. */
    if (!read_ticket(fd, &ticket, text)) {
        status = tenure_fail(err, TENURE_INVALID, "the release ticket is not complete");
        goto done;
    }
    status = release(&ticket, &store, err);
    if ((!status || status == TENURE_CONFLICT) &&
        send(socket, &done, sizeof done, MSG_NOSIGNAL) < 0)
        goto done; /* the guard did not wait for it */
    if (!status)
        withdraw(&ticket, store);
done:
    hang_up(&store);
    return status;
}
