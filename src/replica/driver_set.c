/* replica/driver_set.c - the register NAME/replicas: one request at a time, which may block. */
#include <stdlib.h>
#include <string.h>

#include "base/key.h"
#include "core/timing.h"
#include "os/thread.h"
#include "replica/driver_inner.h"
#include "replica/register.h"

#define REQUEST_NS (5 * TN_S)

static enum tenure_status read_set(struct tn_replica_driver *d, struct tn_set_answer *answer,
                                   struct tenure_error *err)
{
    struct tenure_value value = {0};
    enum tenure_status status =
        d->host->read(d->store, d->set_key, &value, tenure_now() + REQUEST_NS, err);

    answer->event.token = value.token;
    if (!status && !tenure_token_absent(&value.token)) {
        status = tn_register_decode(value.data, value.len, &answer->set, err);
        answer->event.set = &answer->set;
    }
    tenure_value_free(&value);
    return status;
}

static enum tenure_status swap_set(struct tn_replica_driver *d, const struct tn_replica_set *set,
                                   const struct tenure_token *expect, struct tn_set_answer *answer,
                                   struct tenure_error *err)
{
    struct tenure_swap swap = {.key = d->set_key, .expect = *expect};
    char *text = NULL;
    enum tenure_status status = tenure_nonce(swap.nonce, err);

    if (!status)
        status = tn_register_encode(set, &text, err);
    if (!status) {
        swap.data = text;
        swap.len = strlen(text);
        status = d->host->swap(d->store, &swap, tenure_now() + REQUEST_NS, err);
        answer->event.token = swap.token;
    }
    free(text);
    return status;
}

static void serve(struct tn_replica_driver *d, enum tn_replica_request kind,
                  const struct tenure_token *expect, const struct tn_replica_set *set,
                  unsigned life)
{
    struct tn_item *item = tn_node_item(TN_ITEM_ANSWER, 0);
    struct tn_set_answer *answer = item->answer;
    struct tenure_error err = {0};
    enum tenure_status status = TENURE_OK;

    answer->life = life;
    answer->event.kind = kind == TN_REPLICA_READ_SET ? TN_REPLICA_READ : TN_REPLICA_SWAPPED;
    if (d->store == NULL)
        status = d->host->open(d->store_url, tenure_now() + REQUEST_NS, &d->store, &err);
    if (!status)
        status = kind == TN_REPLICA_READ_SET ? read_set(d, answer, &err)
                                             : swap_set(d, set, expect, answer, &err);
    answer->event.status = status;
    if (status && status != TENURE_CONFLICT)
        tenure_fail_context(&err, "%s", d->set_key);
    tn_node_set_trouble(d, status && status != TENURE_CONFLICT ? err.text : "");
    tn_node_post(d, item);
}

static void *run(void *arg)
{
    struct tn_replica_driver *d = arg;

    tn_thread_name("tenure-replset");
    pthread_mutex_lock(&d->lock);
    while (!d->stop) {
        enum tn_replica_request kind = d->set_request;
        struct tenure_token expect = d->set_expect;
        struct tn_replica_set set = d->set_wanted;
        unsigned life = d->set_life;

        if (kind == TN_REPLICA_NO_REQUEST) {
            pthread_cond_wait(&d->set_wake, &d->lock);
            continue;
        }
        d->set_request = TN_REPLICA_NO_REQUEST;
        pthread_mutex_unlock(&d->lock);
        serve(d, kind, &expect, &set, life);
        pthread_mutex_lock(&d->lock);
    }
    pthread_mutex_unlock(&d->lock);
    return NULL;
}

void tn_node_set_ask(struct tn_replica_driver *d)
{
    pthread_mutex_lock(&d->lock);
    d->set_request = d->out.request;
    d->set_expect = d->out.expect;
    d->set_wanted = d->out.set;
    d->set_life = d->life;
    pthread_cond_signal(&d->set_wake);
    pthread_mutex_unlock(&d->lock);
}

enum tenure_status tn_node_set_start(struct tn_replica_driver *d, struct tenure_error *err)
{
    tn_key_of(d->name, TN_KEY_REPLICAS, d->set_key);
    return tn_thread_start(&d->set_thread, run, d, err);
}

void tn_node_set_stop(struct tn_replica_driver *d)
{
    pthread_join(d->set_thread, NULL);
    if (d->store != NULL)
        d->host->close(d->store);
}
