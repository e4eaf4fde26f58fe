/* replica/driver.c - see driver.h: life, the inbox, the thread. */
#include "replica/driver.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "os/thread.h"
#include "replica/driver_inner.h"

/* The drivers of this process, by their files. */
static pthread_mutex_t drivers_lock = PTHREAD_MUTEX_INITIALIZER;
static struct tn_replica_driver *drivers;

/* ---- The inbox ---------------------------------------------------------------------- */

struct tn_item *tn_node_item(enum tn_item_kind kind, size_t size)
{
    struct tn_item *item = calloc(1, sizeof *item + size);

    if (item != NULL && kind == TN_ITEM_ANSWER)
        item->answer = calloc(1, sizeof *item->answer);
    assert(size > 0 || (item != NULL && (kind != TN_ITEM_ANSWER || item->answer != NULL)));
    if (item != NULL) {
        item->kind = kind;
        item->size = size;
    }
    return item;
}

void tn_node_post_locked(struct tn_replica_driver *d, struct tn_item *item)
{
    *d->inbox_tail = item;
    d->inbox_tail = &item->next;
    pthread_cond_signal(&d->wake);
}

void tn_node_post(struct tn_replica_driver *d, struct tn_item *item)
{
    pthread_mutex_lock(&d->lock);
    tn_node_post_locked(d, item);
    pthread_mutex_unlock(&d->lock);
}

bool tn_node_wait(struct tn_replica_driver *d, pthread_cond_t *cond, int64_t deadline)
{
    int64_t left = deadline - tenure_now(), ns;
    struct timespec until;

    if (left <= 0)
        return false;
    if (left > INT64_C(3600000000000))
        left = INT64_C(3600000000000);
    clock_gettime(CLOCK_MONOTONIC, &until);
    ns = until.tv_nsec + left % 1000000000;
    until.tv_sec += (time_t)(left / 1000000000 + ns / 1000000000);
    until.tv_nsec = (long)(ns % 1000000000);
    pthread_cond_timedwait(cond, &d->lock, &until);
    return true;
}

/* The oldest; NULL: a heartbeat is due, or the end. */
static struct tn_item *take_item(struct tn_replica_driver *d, int64_t tick_ns)
{
    struct tn_item *item = NULL;

    pthread_mutex_lock(&d->lock);
    while (!d->stop && d->inbox == NULL && tn_node_wait(d, &d->wake, tick_ns))
        continue;
    if (!d->stop && d->inbox != NULL && tenure_now() < tick_ns + d->conf.heartbeat_ns) {
        item = d->inbox;
        d->inbox = item->next;
        if (d->inbox == NULL)
            d->inbox_tail = &d->inbox;
        if (item->kind == TN_ITEM_MESSAGE)
            d->slot[item->slot].queued -= item->size;
    }
    pthread_mutex_unlock(&d->lock);
    return item;
}

/* ---- The thread --------------------------------------------------------------------- */

static void handle_item(struct tn_replica_driver *d, struct tn_item *item)
{
    switch (item->kind) {
    case TN_ITEM_OPENED:
        tn_node_link_opened(d, item->slot);
        break;
    case TN_ITEM_MESSAGE:
        tn_node_link_message(d, item->slot, item->bytes, item->size);
        break;
    case TN_ITEM_CLOSED:
        tn_node_link_closed(d, item->slot);
        break;
    case TN_ITEM_SWAP:
        tn_node_write_request(d, item->request);
        break;
    case TN_ITEM_BEGIN:
        tn_node_begin_term(d, &item->grant);
        break;
    case TN_ITEM_END:
        tn_node_end_term(d, &item->grant);
        break;
    case TN_ITEM_ANSWER:
        if (item->answer->life == d->life)
            tn_node_step(d, &item->answer->event, NULL);
        break;
    }
    free(item->answer);
    free(item);
}

static bool is_stopped(struct tn_replica_driver *d)
{
    bool stop;

    pthread_mutex_lock(&d->lock);
    stop = d->stop;
    pthread_mutex_unlock(&d->lock);
    return stop;
}

static void *run(void *arg)
{
    struct tn_replica_driver *d = arg;
    int64_t tick_ns = tenure_now() + d->conf.heartbeat_ns;

    tn_thread_name("tenure-replica");
    while (!is_stopped(d)) {
        struct tn_item *item = take_item(d, tick_ns);

        if (item != NULL)
            handle_item(d, item);
        if (item == NULL || tenure_now() >= tick_ns) {
            tn_node_tick(d);
            tick_ns = tenure_now() + d->conf.heartbeat_ns;
        }
    }
    tn_node_abandon(d);
    return NULL;
}

/* ---- Life ---------------------------------------------------------------------------- */

static void drain(struct tn_replica_driver *d)
{
    while (d->inbox != NULL) {
        struct tn_item *item = d->inbox;

        d->inbox = item->next;
        if (item->kind == TN_ITEM_SWAP)
            tn_node_fail_request(d, item->request, TENURE_FENCED, "this node is being stopped");
        free(item->answer);
        free(item);
    }
    d->inbox_tail = &d->inbox;
}

static void destroy(struct tn_replica_driver *d)
{
    drain(d); /* What came after the end. */
    for (unsigned i = 0; i < TN_NODE_SLOTS; i++)
        tn_node_free_slot(&d->slot[i]);
    tn_message_writer_free(&d->writer);
    tn_database_close(d->db);
    if (d->lock_fd >= 0)
        close(d->lock_fd);
    pthread_cond_destroy(&d->wake);
    pthread_cond_destroy(&d->changed);
    pthread_cond_destroy(&d->set_wake);
    pthread_mutex_destroy(&d->lock);
    tn_replica_conf_free(&d->conf);
    if (d->store_url != NULL)
        explicit_bzero(d->store_url, strlen(d->store_url));
    free(d->store_url);
    free(d->name);
    free(d->node);
    free(d);
}

void tn_replica_driver_release(struct tn_replica_driver *d)
{
    unsigned left;

    if (d == NULL)
        return;
    pthread_mutex_lock(&drivers_lock);
    left = --d->references;
    pthread_mutex_unlock(&drivers_lock);
    if (left == 0)
        destroy(d);
}

struct tn_replica_driver *tn_replica_driver_find(const char *path)
{
    struct tn_replica_driver *d;

    pthread_mutex_lock(&drivers_lock);
    for (d = drivers; d != NULL && strcmp(d->conf.path, path) != 0; d = d->next)
        continue;
    if (d != NULL)
        d->references++;
    pthread_mutex_unlock(&drivers_lock);
    return d;
}

static void list(struct tn_replica_driver *d)
{
    pthread_mutex_lock(&drivers_lock);
    d->next = drivers;
    drivers = d;
    pthread_mutex_unlock(&drivers_lock);
}

static void unlist(struct tn_replica_driver *d)
{
    pthread_mutex_lock(&drivers_lock);
    for (struct tn_replica_driver **at = &drivers; *at != NULL; at = &(*at)->next)
        if (*at == d) {
            *at = d->next;
            break;
        }
    pthread_mutex_unlock(&drivers_lock);
}

static struct tn_replica_driver *make(const struct tn_replica_host *host, const char *store,
                                      const char *name, const char *node)
{
    struct tn_replica_driver *d = calloc(1, sizeof *d);
    pthread_condattr_t attr;

    if (d == NULL)
        return NULL;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_mutex_init(&d->lock, NULL);
    pthread_cond_init(&d->wake, &attr);
    pthread_cond_init(&d->changed, &attr);
    pthread_cond_init(&d->set_wake, &attr);
    pthread_condattr_destroy(&attr);
    d->references = 1;
    d->host = host;
    d->lock_fd = -1;
    d->inbox_tail = &d->inbox;
    d->waiting_tail = &d->waiting;
    d->store_url = strdup(store);
    d->name = strdup(name);
    d->node = strdup(node);
    return d;
}

static enum tenure_status open_transport(struct tn_replica_driver *d, struct tenure_error *err)
{
    struct tn_transport_conf conf = {.listen = d->conf.listen,
                                     .targets = d->conf.target,
                                     .target_count = d->conf.targets,
                                     .election = d->name,
                                     .node = d->node,
                                     .silence_ns = d->conf.timeout_ns,
                                     .tls_cert = d->conf.cert,
                                     .tls_key = d->conf.key,
                                     .tls_ca = d->conf.ca,
                                     .token_file = d->conf.token_file,
                                     .plain = d->conf.plain};

    if (conf.listen == NULL && conf.target_count == 0)
        return TENURE_OK;
    return tn_transport_open(&d->transport, &conf, &tn_node_links, d, err);
}

static enum tenure_status open_all(struct tn_replica_driver *d, const char *url,
                                   struct tenure_error *err)
{
    enum tenure_status status = tn_replica_conf_read(url, &d->conf, err);

    if (!status && !d->conf.preview)
        status = tenure_fail(err, TENURE_CONFIG,
                             "replica: a preview, with holes that are listed in "
                             "docs/reference/stores/replica.md: add preview=yes to use it");
    if (!status)
        status = tn_database_lock(d->conf.path, &d->lock_fd, err);
    if (!status)
        status = tn_database_open(d->conf.path, true, &d->db, err);
    if (!status && !tn_node_restart(d))
        status = tenure_fail(err, TENURE_CORRUPT, "%s", d->view.trouble);
    if (!status)
        status = open_transport(d, err);
    if (status)
        return status;
    status = tn_thread_start(&d->thread, run, d, err);
    if (!status && (status = tn_node_set_start(d, err))) {
        pthread_mutex_lock(&d->lock);
        d->stop = true;
        pthread_cond_broadcast(&d->wake);
        pthread_mutex_unlock(&d->lock);
        pthread_join(d->thread, NULL);
    }
    if (status)
        tn_transport_close(d->transport);
    return status;
}

enum tenure_status tn_replica_driver_start(const struct tn_replica_host *host, const char *url,
                                           const char *store, const char *name, const char *node,
                                           struct tn_replica_driver **driver,
                                           struct tenure_error *err)
{
    struct tn_replica_driver *d = make(host, store, name, node);
    enum tenure_status status = TENURE_OK;

    if (d == NULL)
        return tenure_fail(err, TENURE_NOMEM, "out of memory");
    if (d->store_url == NULL || d->name == NULL || d->node == NULL)
        status = tenure_fail(err, TENURE_NOMEM, "out of memory");
    if (!status)
        status = open_all(d, url, err);
    if (status) {
        destroy(d);
        return status;
    }
    list(d);
    *driver = d;
    return TENURE_OK;
}

void tn_replica_driver_stop(struct tn_replica_driver *d)
{
    if (d == NULL)
        return;
    unlist(d);
    tn_transport_close(d->transport);
    pthread_mutex_lock(&d->lock);
    d->stop = true;
    pthread_cond_broadcast(&d->wake);
    pthread_cond_broadcast(&d->set_wake);
    pthread_cond_broadcast(&d->changed);
    pthread_mutex_unlock(&d->lock);
    pthread_join(d->thread, NULL);
    tn_node_set_stop(d);
    drain(d);
    tn_database_close(d->db);
    d->db = NULL;
    if (d->lock_fd >= 0)
        close(d->lock_fd);
    d->lock_fd = -1;
    tn_replica_driver_release(d);
}
