"""The conformance suite on real NATS servers."""

import pytest
import server_nats
from conformance import suite
from server_nats import OLD, Cluster, Nats
from server_redis import make_certificates

needs_new = pytest.mark.skipif(server_nats.MISSING is not None, reason=str(server_nats.MISSING))
needs_old = pytest.mark.skipif(server_nats.MISSING_OLD is not None, reason=str(server_nats.MISSING_OLD))


@needs_new
def test_three_members(build):
    with Cluster() as cluster:
        suite(build, cluster.url("/some-bucket?replicas=3"), rounds=20)
        info = cluster.members[0].bucket("some-bucket")
        assert info["config"]["num_replicas"] == 3
        assert "error" in cluster.members[0].bucket()


@needs_new
def test_one_member_over_tls_with_a_user(build, tmp_path):
    (tmp_path / "password").write_text("hunter2\n")
    ca, cert, key = tls = make_certificates(tmp_path)
    with Nats(tls=tls, users="authorization { user: app, password: hunter2 }") as server:
        suite(build, f"natss://localhost:{server.port}?user=app&password_file={tmp_path}/password&ca_file={ca}"
                     f"&cert_file={cert}&key_file={key}", rounds=60)


@needs_old
def test_one_member_of_debian(build):
    with Nats(OLD) as server:
        suite(build, server.url(), rounds=60)
