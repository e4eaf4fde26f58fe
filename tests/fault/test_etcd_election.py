"""Whole candidates on an etcd cluster that loses its leader.  What every server store must stand is
in test_servers.py.

The judge is the table of the witnesses: at the end of every World no two terms
may have overlapped, and later epochs must have run later (I1, I2).
"""

import pytest
import server_etcd
from process import until
from rig import EtcdRig
from server_etcd import Cluster
from world import kept, pair

pytestmark = pytest.mark.skipif(server_etcd.MISSING is not None, reason=str(server_etcd.MISSING))


def test_leaders_of_a_cluster_that_are_killed_cost_no_leadership():
    with Cluster() as cluster:
        world, leader, _ = pair(cluster.url(), 60000, options=["--renew", "500ms"])
        with world:
            epoch = world.table.top()
            for _ in range(2):
                victim = cluster.leader()
                victim.kill()
                EtcdRig(cluster.leader()).renewals(2)
                victim.start()
                until(victim.healthy)
            kept(world, leader, epoch)
