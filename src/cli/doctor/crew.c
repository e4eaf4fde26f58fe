#include "cli/doctor/crew.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "os/poll.h"
#include "os/thread.h"

#define MS    INT64_C(1000000)
#define MERCY (5000 * MS) /* how long after its deadline a call is given up */
#define CALL  (5000 * MS) /* each call of COUNT */
#define TRIES 50          /* COUNT: failures in a row that end it */

/* ---- What a member does -------------------------------------------------- */

static void sleep_until(int64_t at_ns)
{
    struct timespec at = {.tv_sec = (time_t)(at_ns / 1000000000),
                          .tv_nsec = (long)(at_ns % 1000000000)};

    while (clock_nanosleep(CLOCK_BOOTTIME, TIMER_ABSTIME, &at, NULL) == EINTR)
        continue;
}

static enum tenure_status do_swap(tenure_store *store, const struct crew_order *o,
                                  struct crew_answer *a, struct tenure_error *err)
{
    struct tenure_swap swap = {.key = o->key, .expect = o->seen, .data = "race", .len = 4};
    enum tenure_status status = tenure_nonce(swap.nonce, err);

    if (status)
        return status;
    memcpy(a->nonce, swap.nonce, sizeof a->nonce);
    if (o->at_ns)
        sleep_until(o->at_ns);
    status = tenure_store_swap(store, &swap, o->by_ns, err);
    a->token = swap.token;
    return status;
}

/* One more.  CONFLICT and UNKNOWN are answers like any other here. */
static enum tenure_status add_one(tenure_store *store, const char *key, struct tenure_value *value,
                                  struct tenure_error *err)
{
    char text[24];
    struct tenure_swap swap = {.key = key, .data = text};
    enum tenure_status status = tenure_store_read(store, key, value, tenure_now() + CALL, err);

    if (!status)
        status = tenure_nonce(swap.nonce, err);
    if (status)
        return status;
    unsigned long long n = value->data ? strtoull((const char *)value->data, NULL, 10) : 0;
    swap.len = (size_t)snprintf(text, sizeof text, "%llu", n + 1);
    swap.expect = value->token;
    return tenure_store_swap(store, &swap, tenure_now() + CALL, err);
}

static enum tenure_status do_count(tenure_store *store, const struct crew_order *o,
                                   struct crew_answer *a, struct tenure_error *err)
{
    struct tenure_value value = {0};
    enum tenure_status status = TENURE_OK;
    unsigned failures = 0;

    while (tenure_now() < o->at_ns && failures < TRIES) {
        status = add_one(store, o->key, &value, err);
        a->ok += status == TENURE_OK;
        a->unknown += status == TENURE_UNKNOWN;
        failures = status == TENURE_OK || status == TENURE_CONFLICT || status == TENURE_UNKNOWN
                       ? 0
                       : failures + 1;
    }
    tenure_value_free(&value);
    return failures ? status : TENURE_OK;
}

static enum tenure_status do_wait(tenure_store *store, const struct crew_order *o,
                                  struct crew_answer *a, struct tenure_error *err)
{
    struct tenure_watch watch = {.key = o->key, .prefix = o->prefix, .seen = o->seen};
    struct tenure_value value = {0};
    enum tenure_status status;

    if (o->prefix) {
        snprintf(watch.mark, sizeof watch.mark, "%s", o->seen.version);
        memset(&watch.seen, 0, sizeof watch.seen);
    }
    for (;;) {
        status = tenure_store_wait(store, &watch, 1, -1, o->by_ns, err);
        a->end_ns = tenure_now();
        if (status || o->prefix)
            break;
        status = tenure_store_read(store, o->key, &value, o->by_ns, err);
        if (status || !tenure_token_equal(&value.token, &o->seen))
            break;
        a->ok++; /* C6: wait() may return without a change */
        if (tenure_now() >= o->by_ns) {
            status = TENURE_TIMEOUT;
            break;
        }
    }
    a->token = value.token;
    tenure_value_free(&value);
    return status;
}

static enum tenure_status obey(const char *url, tenure_store **store, const struct crew_order *o,
                               struct crew_answer *a, struct tenure_error *err)
{
    struct tenure_value value = {0};
    enum tenure_status status;

    if (!*store) {
        status = tenure_store_open(url, o->by_ns, store, err);
        if (status)
            return status;
    }
    switch (o->kind) {
    case CREW_READ:
        status = tenure_store_read(*store, o->key, &value, o->by_ns, err);
        a->token = value.token;
        tenure_value_free(&value);
        return status;
    case CREW_SWAP:
        return do_swap(*store, o, a, err);
    case CREW_COUNT:
        return do_count(*store, o, a, err);
    case CREW_WAIT:
        return do_wait(*store, o, a, err);
    default:
        return TENURE_OK;
    }
}

static void *serve(void *arg)
{
    const struct crew_member *m = arg;
    tenure_store *store = NULL;
    struct crew_order order;

    tn_thread_name("doctor");
    while (recv(m->inner, &order, sizeof order, 0) == (ssize_t)sizeof order) {
        struct crew_answer answer = {0};
        struct tenure_error err = {0};

        answer.status = obey(m->url, &store, &order, &answer, &err);
        if (!answer.end_ns)
            answer.end_ns = tenure_now();
        snprintf(answer.text, sizeof answer.text, "%.199s", err.text);
        if (send(m->inner, &answer, sizeof answer, MSG_NOSIGNAL) < 0)
            break;
    }
    tenure_store_close(store);
    return NULL;
}

/* ---- Start and end ------------------------------------------------------- */

static enum tenure_status add(struct doctor_crew *crew, const char *url, struct tenure_error *err)
{
    struct crew_member *m = &crew->members[crew->n];
    int ends[2];

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
        return tenure_fail(err, TENURE_UNAVAILABLE, "cannot make a socket: %s", strerror(errno));
    *m = (struct crew_member){.socket = ends[0], .inner = ends[1], .url = url};
    crew->n++;
    return TENURE_OK;
}

enum tenure_status doctor_crew_fork(struct doctor_crew *crew, const char *url,
                                    struct tenure_error *err)
{
    pid_t self = getpid();

    for (unsigned i = 0; i < CREW_PROCESSES; i++) {
        enum tenure_status status = add(crew, url, err);
        struct crew_member *m = &crew->members[i];

        if (status)
            return status;
        m->pid = fork();
        if (m->pid < 0) {
            m->pid = 0;
            return tenure_fail(err, TENURE_UNAVAILABLE, "cannot fork: %s", strerror(errno));
        }
        if (m->pid == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            signal(SIGINT, SIG_IGN); /* for the doctor, who tidies up first */
            if (getppid() != self)
                _exit(1);
            /* Ours of those before: only then is their end seen as such. */
            for (unsigned j = 0; j <= i; j++)
                close(crew->members[j].socket);
            serve(m);
            _exit(0);
        }
        close(m->inner);
        m->inner = -1;
    }
    return TENURE_OK;
}

enum tenure_status doctor_crew_open(struct doctor_crew *crew, int64_t deadline,
                                    struct tenure_error *err)
{
    const struct crew_order order = {.kind = CREW_OPEN, .by_ns = deadline};
    const char *url = crew->members[0].url;
    struct crew_answer a;

    while (crew->n < CREW_SIZE) {
        enum tenure_status status = add(crew, url, err);
        struct crew_member *m = &crew->members[crew->n - 1];

        if (!status)
            status = tn_thread_start(&m->thread, serve, m, err);
        if (status) {
            close(m->socket);
            close(m->inner);
            crew->n--;
            return status;
        }
    }
    for (unsigned i = 0; i < crew->n; i++)
        doctor_crew_order(crew, i, &order);
    for (unsigned i = 0; i < crew->n; i++) {
        if (!doctor_crew_answer(crew, i, deadline, &a))
            return tenure_fail(err, TENURE_TIMEOUT, "a further connection could not be opened");
        if (a.status)
            return tenure_fail(err, (enum tenure_status)a.status, "a further connection: %s",
                               a.text);
    }
    return TENURE_OK;
}

void doctor_crew_end(struct doctor_crew *crew)
{
    for (unsigned i = 0; i < crew->n; i++) {
        struct crew_member *m = &crew->members[i];

        shutdown(m->socket, SHUT_RDWR);
        if (m->pid) {
            if (crew->hung)
                kill(m->pid, SIGKILL);
            waitpid(m->pid, NULL, 0);
        } else if (crew->hung) {
            continue; /* it may still use its socket */
        } else {
            pthread_join(m->thread, NULL);
            close(m->inner);
        }
        close(m->socket);
    }
    crew->n = 0;
}

/* ---- Orders -------------------------------------------------------------- */

void doctor_crew_order(struct doctor_crew *crew, unsigned who, const struct crew_order *order)
{
    if (send(crew->members[who].socket, order, sizeof *order, MSG_NOSIGNAL) < 0)
        return; /* it is dead, and will not answer */
}

bool doctor_crew_answer(struct doctor_crew *crew, unsigned who, int64_t by_ns,
                        struct crew_answer *answer)
{
    struct pollfd fd = {.fd = crew->members[who].socket, .events = POLLIN};
    int64_t limit = tenure_now() > by_ns ? tenure_now() : by_ns;

    if (tn_poll(&fd, 1, limit + MERCY) > 0 &&
        recv(fd.fd, answer, sizeof *answer, 0) == (ssize_t)sizeof *answer)
        return true;
    crew->hung = true;
    return false;
}

bool doctor_crew_ask(struct doctor_crew *crew, unsigned who, const struct crew_order *order,
                     struct crew_answer *answer)
{
    doctor_crew_order(crew, who, order);
    return doctor_crew_answer(crew, who, order->by_ns, answer);
}
