"""Whole candidates on a Consul cluster that loses its leader.  What every server store must stand is
in test_servers.py.

The judge is the table of the witnesses: at the end of every World no two terms
may have overlapped, and later epochs must have run later (I1, I2).
"""

import pytest
import server_consul
from process import until
from rig import ConsulRig
from server_consul import Cluster
from world import kept, pair

pytestmark = pytest.mark.skipif(server_consul.MISSING is not None, reason=str(server_consul.MISSING))


@pytest.mark.parametrize("way", ["killed", "stopped"])
def test_leader_of_a_cluster_that_is_lost_costs_no_leadership(way):
    with Cluster() as cluster:
        world, leader, _ = pair(cluster.url(), 60000, options=["--renew", "500ms"])
        with world:
            epoch = world.table.top()
            victim = cluster.leader()
            if way == "killed":
                victim.kill()
            else:
                victim.pause()
            other = next(m for m in cluster.members if m is not victim)
            until(other.healthy)
            ConsulRig(other).renewals(2)
            if way == "killed":
                victim.start()
            else:
                victim.resume()
            until(victim.healthy)
            ConsulRig(victim).renewals(1)
            kept(world, leader, epoch)
