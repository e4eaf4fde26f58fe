"""The conformance suite on real Consul servers."""

import pytest
import server_consul
from conformance import suite
from process import until
from server_consul import Cluster, Consul
from server_redis import make_certificates

pytestmark = pytest.mark.skipif(server_consul.MISSING is not None, reason=str(server_consul.MISSING))


def test_three_members(build):
    with Cluster() as cluster:
        suite(build, cluster.url("/some/prefix"), rounds=60)
        assert cluster.members[0].names("some/prefix/")
        assert not cluster.members[0].names("tenure/")


def test_one_member_with_just_the_rights_over_tls(build, tmp_path):
    """A client certificate lets it in, the token says what it may."""
    (tmp_path / "token").write_text(server_consul.secret("one") + "\n")
    ca, cert, key = tls = make_certificates(tmp_path)
    with Consul({"acl": {"enabled": True, "default_policy": "deny",
                         "tokens": {"master": server_consul.MASTER}}}) as consul:
        consul.policy('key_prefix "tenure/" { policy = "write" }')
        consul.token(server_consul.secret("one"))
        consul.kill()
        consul.tls = tls
        consul.start()
        until(consul.healthy)
        suite(build, f"consuls://localhost:{consul.port}?token_file={tmp_path}/token&ca_file={ca}"
                     f"&cert_file={cert}&key_file={key}", rounds=60)
