"""Whole candidates on a cluster that loses the leader of its bucket.  What every server store must stand is in
test_servers.py.

The judge is the table of the witnesses: at the end of every World no two terms
may have overlapped, and later epochs must have run later (I1, I2).
"""

import pytest
import server_nats
from process import until
from rig import NatsRig
from server_nats import Cluster
from world import kept, pair

pytestmark = pytest.mark.skipif(server_nats.MISSING is not None, reason=str(server_nats.MISSING))


def test_leaders_that_are_killed_or_stopped_cost_no_leadership():
    with Cluster() as cluster:
        world, leader, _ = pair(cluster.url(), 60000, options=["--renew", "500ms"])
        with world:
            epoch = world.table.top()
            for end, begin in (("kill", "start"), ("pause", "resume")):
                victim = cluster.leader()
                getattr(victim, end)()
                other = next(m for m in cluster.members if m is not victim)
                NatsRig(other).renewals(2)
                getattr(victim, begin)()
                until(cluster.healthy)
            kept(world, leader, epoch)
