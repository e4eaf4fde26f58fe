"""Whole candidates on Redis: what only Redis can do.  What every server store must stand is in
test_servers.py.

The judge is the table of the witnesses: at the end of every World no two terms
may have overlapped, and later epochs must have run later (I1, I2).
"""

import pytest
import server_redis
from process import until
from server_redis import Redis, SentinelSet
from world import kept, pair

pytestmark = pytest.mark.skipif(server_redis.MISSING is not None, reason=str(server_redis.MISSING))

LEASE = "{tenure}:k:w/lease"
KEPT, OFTEN = 300000, ["--renew", "500ms"]


@pytest.fixture
def redis():
    with Redis(("appendonly", "yes"), ("appendfsync", "always")) as running:
        yield running


def number(server):
    return int(server.cmd("GET", LEASE).split()[1])


def renewals(server, count=2):
    """Wait for so many more changes of the lease."""
    before = number(server)
    until(lambda: number(server) >= before + count)


def scripts_run(server):
    return int(server.info("commandstats", "cmdstat_evalsha").split(",")[0].split("=")[1])


def test_a_stand_by_asks_once_a_renewal(redis):
    """What changed is known by then: the other registers are not read as well."""
    world, _, _ = pair(redis.url(), KEPT, options=OFTEN)

    def quiet():
        """Sooner or later: at first each of them also looks who else is there."""
        before, asked = number(redis), scripts_run(redis)
        renewals(redis, 8)
        return scripts_run(redis) - asked <= 2 * (number(redis) - before) + 4

    with world:
        until(quiet)


def test_clients_that_are_killed_cost_no_leadership(redis):
    world, leader, _ = pair(redis.url(), KEPT, options=OFTEN)
    with world:
        epoch = world.table.top()
        for kind in ("normal", "pubsub", "normal"):
            redis.cmd("CLIENT", "KILL", "TYPE", kind, "SKIPME", "yes")
            redis.cmd("SCRIPT", "FLUSH")
            renewals(redis, 1)
        kept(world, leader, epoch)


def test_a_fail_over_costs_no_leadership_if_the_lease_is_longer():
    with SentinelSet() as servers:
        world, leader, _ = pair(servers.url(), KEPT, options=OFTEN)
        with world:
            epoch = world.table.top()
            until(lambda: servers.replica.cmd("GET", LEASE))
            servers.master.kill()
            until(lambda: servers.agreed(servers.replica))
            renewals(servers.replica, 1)
            kept(world, leader, epoch)


def test_split_brain_of_redis_is_none_of_ours():
    """The old master comes back as a master, with the leader's connection still open."""
    with SentinelSet() as servers:
        world, _, _ = pair(servers.url(), ttl_ms=3000)
        with world:
            for _ in range(2):
                old, new = servers.master, servers.replica
                until(lambda: (new.cmd("GET", LEASE) or b"").split(b"\n")[0] ==
                      (old.cmd("GET", LEASE) or b"-").split(b"\n")[0])
                old.pause()
                until(lambda: servers.agreed(new))
                old.resume()
                renewals(new, 3)
                until(lambda: old.info("replication", "role") == "slave")
                until(lambda: old.info("replication", "master_link_status") == "up")
                until(lambda: all(servers._knows_all(s) for s in servers.sentinels))
                servers.master, servers.replica = new, old
