"""Whole candidates (tenure run, its guard, a program) on a real kube-apiserver that fails,
and beside a real client-go candidate on the same Lease.

The judge is the table of the witnesses: at the end of every World no two terms
may have overlapped, and later epochs must have run later (I1, I2).
"""

import signal

import pytest
import server_kube
from process import until
from proxy import Proxy
from server_kube import Elector, Kube
from world import World

pytestmark = pytest.mark.skipif(server_kube.MISSING is not None, reason=str(server_kube.MISSING))

LEASE = "shared"


@pytest.fixture(scope="module")
def shared():
    with Kube() as running:
        yield running


@pytest.fixture
def kube(shared):
    shared.clear()
    return shared


def spec(kube):
    """The standard fields; empty while there is nobody to ask."""
    try:
        lease = kube.lease(LEASE)
    except OSError:
        return {}
    return lease["spec"] if lease else {}


def holder(kube):
    return spec(kube).get("holderIdentity") or ""


def renewals(kube, count=2):
    """Wait for so many more renewals of the Lease."""
    for _ in range(count):
        before = until(lambda: spec(kube).get("renewTime"), limit=60)
        until(lambda: spec(kube).get("renewTime") not in (None, before), limit=60)


def pair(kube, ttl_ms=5000, leader_url=None, options=()):
    """A leader, perhaps by a way of its own, and a stand-by."""
    world = World(url=leader_url or kube.url(LEASE), ttl_ms=ttl_ms, options=options)
    try:
        leader = world.start()
        world.next_leader(0)
        world.url = kube.url(LEASE)
        return world, leader, world.start()
    except BaseException:
        world.__exit__(Exception, None, None)
        raise


def test_a_clean_stop_and_crashes_pass_it_on(kube):
    world, leader, _ = pair(kube, ttl_ms=60000)
    with world:
        epoch = world.table.top()
        assert holder(kube) == "c1" and spec(kube)["leaseDurationSeconds"] == 60
        leader.signal(signal.SIGTERM)
        epoch = world.next_leader(epoch).epoch
        world.forget(leader)
        world.start()
        for _ in range(3):
            victim = world.leader()
            victim.signal(signal.SIGKILL)
            epoch = world.next_leader(epoch).epoch  # long before 60 s: the guard released
            world.forget(victim)
            world.start()
    assert holder(kube) == "" and spec(kube)["leaseDurationSeconds"] == 1
    assert spec(kube)["leaseTransitions"] >= 5


def test_a_leader_that_is_cut_off(kube):
    with Proxy(("127.0.0.1", kube.port)) as proxy:
        world, _, _ = pair(kube, leader_url=kube.url(LEASE, port=proxy.port))
        with world:
            epoch = world.table.top()
            proxy.hold("up", "down")
            world.next_leader(epoch)
            proxy.release()
            renewals(kube, 1)


def test_answers_that_are_lost_again_and_again_cost_no_leadership(kube):
    with Proxy(("127.0.0.1", kube.port)) as proxy:
        world, leader, _ = pair(kube, ttl_ms=60000, leader_url=kube.url(LEASE, port=proxy.port),
                                options=["--renew", "1s"])
        with world:
            epoch = world.table.top()
            for _ in range(2):
                proxy.cut_after("down", 1)
                renewals(kube, 1)
            assert world.table.top() == epoch and world.leader() is leader


def test_a_lease_that_is_deleted_does_not_take_the_epoch_back(kube):
    with World(url=kube.url(LEASE), ttl_ms=5000) as world:
        world.start()
        epoch = world.next_leader(0).epoch
        kube.delete(LEASE)
        world.next_leader(epoch)


def test_an_operator_who_empties_the_holder_ends_the_term(kube):
    with World(url=kube.url(LEASE), ttl_ms=60000) as world:
        world.start()
        epoch = world.next_leader(0).epoch
        kube.patch(LEASE, {"spec": {"holderIdentity": ""}})
        world.next_leader(epoch)


def test_a_rolling_restart_of_servers_and_etcd_costs_no_leadership():
    with Kube() as kube:
        # A restart takes its time on a busy machine: the lease is long, and renewed often.
        world, leader, _ = pair(kube, ttl_ms=600000, options=["--renew", "2s"])
        with world:
            epoch = world.table.top()
            kube.restart()
            renewals(kube, 1)
            kube.etcd.restart()
            renewals(kube, 1)
            assert world.table.top() == epoch and world.leader() is leader
            # Longer than the lease: it ends by its own clock.
        world, _, _ = pair(kube)
        with world:
            epoch = world.table.top()
            kube.pause()
            world.dead(epoch)
            kube.resume()
            world.next_leader(epoch)


# ---- Beside client-go ---------------------------------------------------------------------------

def test_client_go_is_honoured_and_followed(kube):
    """It leads, is released, leads again, is killed; tenure leads in between, never beside it."""
    with Elector(kube, LEASE, duration="30s", renew="20s") as gopher:
        until(gopher.leads, limit=60)
        with World(url=kube.url(LEASE), ttl_ms=30000, options=["--renew", "1s"]) as world:
            one = world.start()
            until(lambda: "gopher" in one.words(), limit=60)  # it knows who leads
            renewals(kube, 2)
            assert holder(kube) == "gopher" and not world.table.rows()
            gopher.signal(signal.SIGTERM)
            gopher.process.wait()
            epoch = world.next_leader(0).epoch
            assert holder(kube) == "c1"
            assert spec(kube)["leaseTransitions"] >= 1

            with Elector(kube, LEASE, "killed", duration="8s", renew="6s") as other:
                until(lambda: "sees c1" in other.words(), limit=60)
                renewals(kube, 2)
                assert not other.leads()
                one.signal(signal.SIGTERM)
                world.forget(one)
                until(other.leads, limit=60)
                assert world.dead(epoch)
                two = world.start()
                until(lambda: "killed" in two.words(), limit=60)
                renewals(kube, 2)
                assert world.table.top() == epoch
                other.kill()
                world.next_leader(epoch)  # after the killed one's 8 s, and above the last epoch
    notes = kube.lease(LEASE)["metadata"]["annotations"]
    assert int(notes["tenure/epoch"]) > epoch
