"""Whole candidates over a long line: every answer comes in time, so somebody leads.

A session that was lost has to be built again, in several round trips, between renewals that leave
little time.  What was built is kept over the end of a request, so it is ready sooner or later
(docs/reference/stores).  `tests/trials/run.py latency` runs the whole table of delays, faults and ttls.
"""

import contextlib
import subprocess

import pytest
from process import until
from tenure import Store, StoreError
from world import TENURE, World, eventually


pytestmark = pytest.mark.parametrize("running", ["redis", "etcd"], indirect=True, scope="session")


def pair_on(rig, proxy, delay, ttl_ms):
    """Two candidates, one of which leads, that far away from their store."""
    proxy.delay = delay
    world = World(url=rig.url(port=proxy.port), ttl_ms=ttl_ms)
    world.start()
    world.start()
    world.next_leader(0)
    return world


def order(rig, *words):
    subprocess.run([TENURE, *words, "--store", rig.url(), "--name", "w"], check=True,
                   capture_output=True)


@pytest.mark.parametrize("fault", ["cut", "strand"])
def test_set_up_outlives_a_request(rig, proxy, fault):
    """A request has less time than a session takes, and more than one answer."""
    def answered():
        with contextlib.suppress(StoreError):
            return store.read("w/lease", timeout=0.3)
        return None

    proxy.delay = 0.1
    with Store(rig.url(port=proxy.port)) as store:
        store.read("w/lease")
        getattr(proxy, fault)()
        until(answered)


def test_lost_sessions_are_built_again(rig, proxy):
    with pair_on(rig, proxy, 0.06, 1500):
        proxy.cut()
        rig.renewals(3)


def test_paused_and_resumed(rig, proxy):
    with pair_on(rig, proxy, 0.1, 5000) as world:
        for turn in range(2):
            order(rig, "pause")
            eventually("everybody knows", lambda: all(
                c.words().count('"event":"paused"') > turn for c in world.candidates))
            order(rig, "resume")
            eventually("everybody knows", lambda: all(
                c.words().count('"event":"resumed"') > turn for c in world.candidates))
        rig.renewals(3)
