/* A replicated state: its driver runs as long as we do, for a standby receives without leading. */
#include <string.h>

#include "os/log.h"
#include "os/module.h"
#include "replica/module.h"
#include "supervise/supervisor_inner.h"

static const struct tn_replica_host host = {.open = tenure_store_open,
                                            .close = tenure_store_close,
                                            .read = tenure_store_read,
                                            .swap = tenure_store_swap,
                                            .log = tn_log};

enum tenure_status tn_supervisor_replica_start(struct tn_supervisor *s, struct tenure_error *err)
{
    const struct tenure_elector_options *o = &s->options->elector;
    struct tn_snapshot now = {0};
    void *symbol = NULL;
    enum tenure_status status;

    if (!s->options->state || strncmp(s->options->state, "replica:", 8) != 0)
        return TENURE_OK;
    status = tn_module_load(TN_REPLICA_MODULE, TN_REPLICA_SYMBOL, &symbol, NULL, err);
    if (status)
        return status;
    s->replica_module = symbol;
    if (s->replica_module->abi != TN_REPLICA_ABI)
        return tenure_fail(err, TENURE_UNSUPPORTED, TN_REPLICA_MODULE " is of another version");
    tn_driver_snapshot(s->elector, &now);
    return s->replica_module->start(&host, s->options->state, o->store, o->name, now.id,
                                    &s->replica, err);
}

void tn_supervisor_replica_stop(struct tn_supervisor *s)
{
    if (s->replica)
        s->replica_module->stop(s->replica);
    s->replica = NULL;
}
