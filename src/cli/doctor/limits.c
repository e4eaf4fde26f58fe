/* What no check can show: the limits of each kind of store, in words. */
#include <string.h>

#include "cli/doctor/doctor.h"

#define EVERYWHERE                                                                                 \
    "over loss or restore of the records, a suspend or a paused virtual machine, nobody can "      \
    "promise one leader at a time: carry the epoch with every write (docs/how-to/fencing.md)"

static const struct {
    const char *scheme; /* how it begins */
    const char *limits[4];
} table[] = {
    {"file",
     {"on NFS: as good as the server's link(2) and its disks; changes by other hosts are polled "
      "for, and an export with `async` may forget what it has answered",
      EVERYWHERE}},
    {"sqlite",
     {"for one machine: a standby elsewhere needs another store; with the machine goes the record",
      EVERYWHERE}},
    {"postgres",
     {"asynchronous replication: a fail-over may lose the last renewals and releases; "
      "synchronous_commit and synchronous_standby_names decide (docs/reference/stores/postgres.md)",
      "a pooler in transaction mode hides notifications: standbys then poll", EVERYWHERE}},
    {"redis",
     {"a fail-over (Sentinel, Cluster) may lose an acknowledged write, and an old master may "
      "accept writes for a while: two can lead until fencing tells them apart "
      "(docs/reference/stores/redis.md)",
      "without an append-only file flushed at every write, a restart forgets", EVERYWHERE}},
    {"etcd",
     {"without a majority nobody can renew: the leader stops in time, and nobody leads",
      EVERYWHERE}},
    {"consul",
     {"without a majority nobody can renew: the leader stops in time, and nobody leads",
      "an agent started with -dev keeps nothing on disk: a restart forgets the lease", EVERYWHERE}},
    {"nats",
     {"without a majority of a bucket's replicas nobody can renew: the leader stops in time, and "
      "nobody leads",
      "restoring a bucket repeats its sequences, and NATS compares nothing else: stop the "
      "candidates "
      "first (docs/reference/stores/nats.md)",
      "unless the servers have sync_interval: always, a power failure forgets what was "
      "acknowledged",
      EVERYWHERE}},
    {"zookeeper",
     {"without a majority nobody can renew: the leader stops in time, and nobody leads",
      "with forceSync=no on the servers, a power failure forgets what was acknowledged",
      EVERYWHERE}},
    {"kube",
     {"as good as the API server's etcd; a candidate of another make that is paused does not stop "
      "itself: beside such ones exclusion holds for tenure's side only",
      EVERYWHERE}},
    {"s3",
     {"as good as the server's conditional writes: they were raced here, and once when the prefix "
      "was first used; Amazon's are strongly consistent within a region",
      "replication to another region follows later: fail over to a replica and the last renewals "
      "are missing there; versioning and object lock are no protection of a lease",
      EVERYWHERE}},
    {"azblob",
     {"as good as the server's conditional writes: they were raced here, and once when the prefix "
      "was first used; Azure's are strongly consistent within a region",
      "after a fail-over of the account to its other region the last renewals are missing there",
      EVERYWHERE}},
    {"memory", {"one process: it ends with it, and excludes nobody else"}},
    {"noop", {"it excludes nobody: everybody leads"}},
    {"", {EVERYWHERE}},
};

const char *const *doctor_limits(const char *scheme)
{
    unsigned i = 0;

    /* rediss, redis+sentinel, postgres+advisory and their like begin as their kind does. */
    while (strncmp(table[i].scheme, scheme ? scheme : "", strlen(table[i].scheme)) != 0)
        i++;
    return table[i].limits;
}

/* What it says of itself: it is not restarted here. */
void doctor_check_durability(struct doctor *d)
{
    doctor_say(d, DOCTOR_WEAK, "%s", d->info.weakness);
}
