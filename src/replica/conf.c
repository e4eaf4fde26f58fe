/* replica/conf.c - see conf.h. */
#include "replica/conf.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "core/replica/set.h"
#include "core/timing.h"

#define AT(member) offsetof(struct tn_replica_conf, member)

static bool read_acks(const char *text, void *conf)
{
    struct tn_replica_conf *c = conf;
    char *end = NULL;
    unsigned long n = 0;

    if (strcmp(text, "available") != 0) {
        n = strtoul(text, &end, 10);
        if (text[0] < '1' || text[0] > '9' || *end != '\0' || n > TN_REPLICA_PEERS)
            return false;
    }
    c->acks = (unsigned)n;
    return true;
}

const struct tn_option tn_replica_options[] = {
    TN_TEXT_OPTION("listen", AT(listen), "HOST:PORT", NULL, "where the other nodes connect to"),
    TN_TEXT_OPTION("peer", AT(peers), "HOST:PORT,HOST:PORT", NULL, "the other nodes"),
    TN_SWITCH_OPTION("mode", AT(async), "semi-sync|async", "semi-sync", NULL,
                     "what is acknowledged: what standbys have too, or what is on this disk"),
    TN_OWN_OPTION("acks", read_acks, "1 to 7, or available", "1", NULL,
                  "semi-sync: how many standbys; available: those that are there, if any"),
    TN_NUMBER_OPTION("unpublished", AT(unpublished), 1, 1000000, "1000", NULL,
                     "async: changes acknowledged beyond the recorded commit point"),
    TN_NUMBER_OPTION("max_lag", AT(max_lag), 0, 1000000000, "1000", NULL,
                     "async: a copy that is further behind is not promoted"),
    TN_TIME_OPTION("heartbeat", AT(heartbeat_ns), 10 * TN_MS, 60 * TN_S, "1s", NULL,
                   "how often the nodes tell each other where they are"),
    TN_TIME_OPTION("timeout", AT(timeout_ns), 100 * TN_MS, 3600 * TN_S, "10s", NULL,
                   "a node that is silent for so long is lost"),
    TN_TEXT_OPTION("cert_file", AT(cert), "a file", NULL, "TLS: this node's certificate, PEM"),
    TN_TEXT_OPTION("key_file", AT(key), "a file", NULL, "TLS: its key, PEM"),
    TN_TEXT_OPTION("ca_file", AT(ca), "a file", NULL,
                   "TLS: who signs the nodes' certificates, PEM"),
    TN_TEXT_OPTION("token_file", AT(token_file), "a file", NULL,
                   "a secret that every node has, in its first line"),
    TN_SWITCH_OPTION("plain", AT(plain), "no|yes", "no", NULL,
                     "allow links between machines without TLS; they need a token"),
    TN_SWITCH_OPTION("preview", AT(preview), "no|yes", "no", NULL,
                     "use it although it is not finished: see docs/reference/stores/replica.md"),
    {NULL, TN_OPTION_TEXT, 0, NULL, 0, 0, NULL, NULL, NULL, NULL, NULL},
};

static enum tenure_status cut_peers(struct tn_replica_conf *conf, struct tenure_error *err)
{
    char *rest, *name;

    if (conf->peers == NULL)
        return TENURE_OK;
    conf->list = rest = strdup(conf->peers);
    if (rest == NULL)
        return tenure_fail(err, TENURE_NOMEM, "out of memory");
    while ((name = strsep(&rest, ",")) != NULL) {
        if (name[0] == '\0' || strchr(name, ':') == NULL)
            return tenure_fail(err, TENURE_CONFIG, "replica: peer=%s: HOST:PORT is needed", name);
        if (conf->targets == TN_REPLICA_PEERS)
            return tenure_fail(err, TENURE_CONFIG, "replica: peer=: at most %u nodes",
                               TN_REPLICA_PEERS);
        conf->target[conf->targets++] = name;
    }
    return TENURE_OK;
}

enum tenure_status tn_replica_conf_read(const char *url, struct tn_replica_conf *conf,
                                        struct tenure_error *err)
{
    enum tenure_status status = tn_url_parse(url, &conf->url, err);

    if (!status)
        status = tn_options_read(tn_replica_options, &conf->url, conf, err);
    if (status)
        return status;
    conf->path = conf->url.path;
    if (conf->path[0] != '/' || conf->path[1] == '\0' || conf->url.hosts[0] != '\0')
        return tenure_fail(err, TENURE_CONFIG,
                           "replica: the path of a file is needed, as in replica:///var/lib/x.db");
    if ((conf->cert == NULL) != (conf->key == NULL) || (conf->cert == NULL) != (conf->ca == NULL))
        return tenure_fail(err, TENURE_CONFIG,
                           "replica: TLS needs cert_file=, key_file= and ca_file=");
    return cut_peers(conf, err);
}

void tn_replica_conf_free(struct tn_replica_conf *conf)
{
    free(conf->list);
    tn_url_free(&conf->url);
}
