"""Whole candidates on an ensemble that loses its leader.  What every server store must stand is in
test_servers.py.

The judge is the table of the witnesses: at the end of every World no two terms
may have overlapped, and later epochs must have run later (I1, I2).
"""

import pytest
import server_zookeeper
from process import until
from rig import ZooKeeperRig
from server_zookeeper import Ensemble
from world import kept, pair

pytestmark = pytest.mark.skipif(server_zookeeper.MISSING is not None,
                                reason=str(server_zookeeper.MISSING))


def test_leaders_that_are_killed_or_stopped_cost_no_leadership():
    with Ensemble() as ensemble:
        world, leader, _ = pair(ensemble.url(), 60000, options=["--renew", "500ms"])
        with world:
            epoch = world.table.top()
            for end, begin in (("kill", "start"), ("pause", "resume")):
                victim = ensemble.leader()
                getattr(victim, end)()
                others = [m for m in ensemble.members if m is not victim]
                new = until(lambda: next((m for m in others if m.leads()), None))
                ZooKeeperRig(new).renewals(2)
                getattr(victim, begin)()
                until(victim.healthy)
            kept(world, leader, epoch)
