"""The conformance suite on a real kube-apiserver."""

import subprocess

import pytest
import server_kube
from server_kube import Kube

pytestmark = pytest.mark.skipif(server_kube.MISSING is not None, reason=str(server_kube.MISSING))


def test_a_user_with_just_the_rights(build):
    """What contrib/kubernetes grants is enough for everything."""
    with Kube() as kube:
        cert, key = kube.certificate(kube.dir, "app")
        kube.grant("app", ["get", "list", "watch", "create", "update", "patch"])
        url = kube.url("one", user={"client-certificate": str(cert), "client-key": str(key)})
        done = subprocess.run([build / "tests/conformance/tenure-conformance", url, "--dir", build,
                               "--rounds", "40", "--seconds", "1"],
                              capture_output=True, text=True, timeout=800)
        assert done.returncode == 0, done.stdout + done.stderr
        assert "0 failed" in done.stdout
        objects = kube.leases()
        assert objects
        for each in objects:
            assert each["metadata"]["labels"]["app.kubernetes.io/managed-by"] == "tenure"
            assert each["metadata"]["name"].startswith("tenure-conformance-")
