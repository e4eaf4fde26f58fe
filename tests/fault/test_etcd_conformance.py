"""The conformance suite on real etcd servers."""

import pytest
import server_etcd
from conformance import suite
from server_etcd import Cluster, Etcd
from server_redis import make_certificates

pytestmark = pytest.mark.skipif(server_etcd.MISSING is not None, reason=str(server_etcd.MISSING))


def test_one_member(build):
    with Etcd() as etcd:
        suite(build, etcd.url("/some/prefix"))
        assert etcd.ctl("get", "--prefix", "/some/prefix/", "--keys-only").strip()
        assert not etcd.ctl("get", "--prefix", "/tenure/", "--keys-only").strip()


def test_three_members(build):
    with Cluster() as cluster:
        suite(build, cluster.url())


def test_user_with_just_the_rights(build, tmp_path):
    (tmp_path / "password").write_text("hunter2\n")
    with Etcd() as etcd:
        etcd.ctl("user", "add", "root:rootpw")
        etcd.ctl("user", "grant-role", "root", "root")
        etcd.ctl("role", "add", "app")
        etcd.ctl("role", "grant-permission", "app", "--prefix=true", "readwrite", "/tenure/")
        etcd.ctl("user", "add", "app:hunter2")
        etcd.ctl("user", "grant-role", "app", "app")
        etcd.ctl("auth", "enable")
        suite(build, etcd.url(f"?user=app&password_file={tmp_path}/password"))


def test_tls_with_client_certificates(build, tmp_path):
    tls = make_certificates(tmp_path)
    ca, cert, key = tls
    with Etcd(tls=tls) as etcd:
        suite(build, f"etcds://localhost:{etcd.port}?ca_file={ca}&cert_file={cert}&key_file={key}")
