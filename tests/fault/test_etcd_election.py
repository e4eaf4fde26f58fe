"""Whole candidates (tenure run, its guard, a program) on a real etcd that fails.

The judge is the table of the witnesses: at the end of every World no two terms
may have overlapped, and later epochs must have run later (I1, I2).
"""

import signal

import pytest
import server_etcd
from process import until
from proxy import Proxy
from server_etcd import Cluster, Etcd
from world import World

pytestmark = pytest.mark.skipif(server_etcd.MISSING is not None, reason=str(server_etcd.MISSING))

LEASE = "/tenure/w/lease"


@pytest.fixture
def etcd():
    with Etcd() as running:
        yield running


def pair(url, ttl_ms=3000, leader_url=None):
    """A leader, perhaps by a way of its own, and a stand-by."""
    world = World(url=leader_url or url, ttl_ms=ttl_ms)
    try:
        leader = world.start()
        world.next_leader(0)
        world.url = url
        return world, leader, world.start()
    except BaseException:
        world.__exit__(Exception, None, None)
        raise


def nonce(server):
    try:
        return server.get(LEASE + "#nonce")
    except OSError:
        return None


def renewals(server, count=2):
    """Wait for so many more changes of the lease."""
    for _ in range(count):
        before = until(lambda: nonce(server), limit=60)
        until(lambda: nonce(server) not in (None, before), limit=60)


def test_a_clean_stop_and_a_crash_pass_it_on(etcd):
    world, leader, _ = pair(etcd.url(), ttl_ms=15000)
    with world:
        epoch = world.table.top()
        leader.signal(signal.SIGTERM)
        epoch = world.next_leader(epoch).epoch
        world.forget(leader)
        world.start()
        victim = world.leader()
        victim.signal(signal.SIGKILL)
        world.next_leader(epoch)  # long before 15 s: the guard released
        world.forget(victim)


def test_a_server_that_restarts(etcd):
    world, leader, _ = pair(etcd.url(), ttl_ms=30000)
    with world:
        epoch = world.table.top()
        for _ in range(2):
            etcd.restart()
            renewals(etcd, 1)
        assert world.table.top() == epoch and world.leader() is leader


def test_a_server_that_hangs_for_longer_than_the_lease(etcd):
    world, _, _ = pair(etcd.url())
    with world:
        epoch = world.table.top()
        etcd.pause()
        world.dead(epoch)  # by its own clock
        etcd.resume()
        world.next_leader(epoch)


def test_a_leader_that_is_cut_off(etcd):
    with Proxy(("127.0.0.1", etcd.port)) as proxy:
        world, _, _ = pair(etcd.url(), leader_url=etcd.url(port=proxy.port))
        with world:
            epoch = world.table.top()
            proxy.hold("up", "down")
            world.next_leader(epoch)
            proxy.release()
            renewals(etcd)


def test_answers_that_are_lost_again_and_again_cost_no_leadership(etcd):
    with Proxy(("127.0.0.1", etcd.port)) as proxy:
        world, leader, _ = pair(etcd.url(), ttl_ms=10000, leader_url=etcd.url(port=proxy.port))
        with world:
            epoch = world.table.top()
            for _ in range(3):
                proxy.cut_after("down", 1)
                renewals(etcd)
            assert world.table.top() == epoch and world.leader() is leader


def test_a_record_that_is_deleted_does_not_take_the_epoch_back(etcd):
    with World(url=etcd.url(), ttl_ms=1000) as world:
        world.start()
        epoch = world.next_leader(0).epoch
        etcd.delete(LEASE)
        world.next_leader(epoch)


def test_leaders_of_a_cluster_that_are_killed_cost_no_leadership():
    with Cluster() as cluster:
        world, leader, _ = pair(cluster.url(), ttl_ms=30000)
        with world:
            epoch = world.table.top()
            for _ in range(2):
                victim = cluster.leader()
                victim.kill()
                renewals(cluster.leader(), 1)
                victim.start()
                until(victim.healthy, limit=60)
            assert world.table.top() == epoch and world.leader() is leader
