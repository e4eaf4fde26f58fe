"""The conformance suite on real ZooKeeper servers."""

import pytest
import server_zookeeper
from conformance import suite
from server_zookeeper import Ensemble, ZooKeeper

pytestmark = pytest.mark.skipif(server_zookeeper.MISSING is not None,
                                reason=str(server_zookeeper.MISSING))


def test_one_member_and_a_user(build, tmp_path):
    (tmp_path / "password").write_text("hunter2\n")
    with ZooKeeper() as server:
        suite(build, server.url(f"/some/prefix?user=app&password_file={tmp_path}/password"), rounds=60)
        assert server.tree("/some/prefix")[1:] and not server.tree("/tenure")


def test_three_members(build):
    with Ensemble() as ensemble:
        suite(build, ensemble.url(), rounds=60)
