"""Whole candidates on a real kube-apiserver: what only Kubernetes can do, and beside a real client-go
candidate on the same Lease.  What every server store must stand is in test_servers.py.

The judge is the table of the witnesses: at the end of every World no two terms
may have overlapped, and later epochs must have run later (I1, I2).
"""

import signal
import subprocess

import pytest
from front import Front
from process import until
from rig import KubeRig
from server_kube import Elector, Kube
from tenure import Opening
from world import TENURE, World, kept, pair

pytestmark = pytest.mark.skipif(KubeRig.missing is not None, reason=str(KubeRig.missing))

LEASE = KubeRig.lease
KEPT, OFTEN = 60000, ["--renew", "500ms"]


@pytest.fixture(scope="module")
def running():
    rig = KubeRig()
    yield rig
    rig.close()


@pytest.fixture
def rig(running):
    running.clear()
    return running


@pytest.fixture
def kube(rig):
    return rig.server


def spec(kube):
    return kube.lease(LEASE)["spec"]


def holder(kube):
    return spec(kube)["holderIdentity"]


def test_a_clean_stop_and_crashes_pass_it_on(kube):
    world, leader, _ = pair(kube.url(LEASE), KEPT)
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


def test_an_operator_who_empties_the_holder_ends_the_term(kube):
    with World(url=kube.url(LEASE), ttl_ms=60000) as world:
        world.start()
        epoch = world.next_leader(0).epoch
        kube.patch(LEASE, {"spec": {"holderIdentity": ""}})
        world.next_leader(epoch)


# ---- API servers -----------------------------------------------------------------------------------

def test_a_rolling_restart_of_two_servers_on_one_etcd(rig, kube):
    """One after the other behind one address, as a control plane is brought up to date."""
    with Kube(beside=kube) as other, Front(kube) as front:
        world, leader, _ = pair(kube.url(LEASE, port=front.port), KEPT, options=OFTEN)
        with world:
            epoch = world.table.top()
            for old, new in ((kube, other), (other, kube)):
                front.kube = new
                old.kill()
                until(lambda: new.healthy())
                seen = renewed(new)
                until(lambda: renewed(new) != seen)
                old.start()
                until(old.healthy)
            kept(world, leader, epoch)


def renewed(kube):
    return spec(kube)["renewTime"]


def test_opening_waits_for_a_server_that_starts(kube):
    with Front(kube) as front:
        front.answer(503)
        opening = Opening(kube.url(LEASE, port=front.port))
        until(lambda: front.told > 1)
        front.well()
        opening.opened().close()


@pytest.mark.parametrize("ttl, words", [("5500ms", "such as 6s"), ("4s", "at least 5000 ms")])
def test_a_ttl_that_a_lease_cannot_hold_is_refused_at_the_start(kube, ttl, words):
    done = subprocess.run([TENURE, "run", "--name", "w", "--store", kube.url(LEASE), "--ttl", ttl,
                           "--", "true"], capture_output=True, text=True, check=False)
    assert done.returncode == 2 and len(done.stderr.splitlines()) == 1 and words in done.stderr
    assert kube.lease(LEASE) is None


CODES = [429, 500, 502, 503, 504]


def busy(candidate, code):
    """What the person on call reads: who, what, and what the server itself said."""
    until(lambda: f"(HTTP {code}): a fault of this test" in candidate.words())


@pytest.mark.parametrize("code", CODES)
def test_errors_for_a_while_cost_no_leadership(rig, kube, code):
    """On renewals and reads alike, then on the watch alone, then gone."""
    with Front(kube) as front:
        world, leader, other = pair(kube.url(LEASE, port=front.port), KEPT, options=OFTEN)
        with world:
            epoch = world.table.top()
            front.answer(code, lambda method, path: "watch=1" not in path)
            busy(leader, code)
            front.well()
            rig.renewals(2)
            until(lambda: "answers again" in leader.words())
            # The standby has to open its watches anew; without them it looks by itself.
            front.answer(code, lambda method, path: "watch=1" in path)
            told = front.told
            front.hang_up()
            until(lambda: front.told > told)
            rig.renewals(2)
            front.well()
            kept(world, leader, epoch)
            leader.signal(signal.SIGTERM)
            world.next_leader(epoch)
            world.forget(leader)


@pytest.mark.parametrize("code", [429, 503])
def test_errors_for_longer_than_the_lease_end_it_in_time(rig, kube, code):
    """The leader stops by its own clock, a claim that is answered so is made again later."""
    with Front(kube) as front:
        world, leader, other = pair(kube.url(LEASE, port=front.port), rig.ttl_ms)
        with world:
            epoch = world.table.top()
            front.answer(code, lambda method, path: method != "GET")
            world.dead(epoch)
            until(lambda: "claiming the lease" in other.words() + leader.words())
            busy(leader, code)
            front.well()
            world.next_leader(epoch)
            rig.renewals()


# ---- Beside client-go ---------------------------------------------------------------------------

def test_client_go_is_honoured_and_followed(rig, kube):
    """It leads, is released, leads again, is killed; tenure leads in between, never beside it."""
    with Elector(kube, LEASE, duration="30s", renew="20s") as gopher:
        until(gopher.leads)
        with World(url=kube.url(LEASE), ttl_ms=30000, options=["--renew", "1s"]) as world:
            one = world.start()
            until(lambda: "gopher" in one.words())  # it knows who leads
            rig.renewals(2)
            assert holder(kube) == "gopher" and not world.table.rows()
            gopher.signal(signal.SIGTERM)
            gopher.process.wait()
            epoch = world.next_leader(0).epoch
            assert holder(kube) == "c1"
            assert spec(kube)["leaseTransitions"] >= 1

            with Elector(kube, LEASE, "killed", duration="8s", renew="6s") as other:
                until(lambda: "sees c1" in other.words())
                rig.renewals(2)
                assert not other.leads()
                one.signal(signal.SIGTERM)
                world.forget(one)
                until(other.leads)
                assert world.dead(epoch)
                two = world.start()
                until(lambda: "killed" in two.words())
                rig.renewals(2)
                assert world.table.top() == epoch
                other.kill()
                world.next_leader(epoch)  # after the killed one's 8 s, and above the last epoch
    notes = kube.lease(LEASE)["metadata"]["annotations"]
    assert int(notes["tenure/epoch"]) > epoch
