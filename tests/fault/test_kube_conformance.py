"""The conformance suite on a real kube-apiserver."""

import pytest
import server_kube
from conformance import suite
from server_kube import Kube

pytestmark = pytest.mark.skipif(server_kube.MISSING is not None, reason=str(server_kube.MISSING))


def test_a_user_with_just_the_rights(build):
    """What contrib/kubernetes grants is enough for everything."""
    with Kube() as kube:
        cert, key = kube.certificate(kube.dir, "app")
        kube.grant("app", ["get", "list", "watch", "create", "update", "patch"])
        url = kube.url("one", user={"client-certificate": str(cert), "client-key": str(key)})
        suite(build, url, rounds=40)
        objects = kube.leases()
        assert objects
        for each in objects:
            assert each["metadata"]["labels"]["app.kubernetes.io/managed-by"] == "tenure"
            assert each["metadata"]["name"].startswith("tenure-conformance-")
