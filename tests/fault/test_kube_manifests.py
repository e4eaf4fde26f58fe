"""contrib/kubernetes (docs/how-to/kubernetes.md), taken by a real API server; and its rights are enough for tenure."""

import pathlib
import subprocess

import pytest
import server_kube
from server_kube import LEASES, Kube
from tenure import Store

yaml = pytest.importorskip("yaml", reason="python3-yaml is not installed: run scripts/deps test")
pytestmark = pytest.mark.skipif(server_kube.MISSING is not None, reason=str(server_kube.MISSING))

BASE = pathlib.Path(__file__).resolve().parents[2] / "contrib/kubernetes/base"
PATHS = {
    "ServiceAccount": "/api/v1/namespaces/default/serviceaccounts",
    "Role": "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles",
    "RoleBinding": "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings",
    "Deployment": "/apis/apps/v1/namespaces/default/deployments",
}


def test_base(build, tmp_path, monkeypatch):
    listed = yaml.safe_load((BASE / "kustomization.yaml").read_text())["resources"]
    assert sorted(listed) == sorted(p.name for p in BASE.glob("*.yaml")
                                    if p.name != "kustomization.yaml")
    with Kube() as kube:
        for name in listed:
            body = yaml.safe_load((BASE / name).read_text())
            # Strict: a field that the server does not know is a mistake.
            code, answer = kube.call("POST", PATHS[body["kind"]] + "?fieldValidation=Strict", body)
            assert code == 201, answer

        # A token of that account, as a pod gets it.
        code, answer = kube.call(
            "POST", PATHS["ServiceAccount"] + "/billing/token",
            {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}})
        assert code == 201, answer
        (tmp_path / "token").write_text(answer["status"]["token"])
        (tmp_path / "ca.crt").write_bytes(kube.ca.read_bytes())
        (tmp_path / "namespace").write_text("default")
        monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "localhost")
        monkeypatch.setenv("KUBERNETES_SERVICE_PORT", str(kube.port))
        url = f"kube:?serviceaccount={tmp_path}"
        with Store(url) as store:
            token = store.swap("x/other").token
            assert store.swap("x/other", token).status == "ok"
            assert len(store.list("x/")[0]) == 1

        # The command of the Deployment is one that tenure understands.
        pod = yaml.safe_load((BASE / "deployment.yaml").read_text())["spec"]["template"]["spec"]
        command = pod["containers"][0]["command"]
        command = [{"tenure": str(build / "tenure"), "kube:": url, "$(POD_NAME)": "pod-1",
                    "0.0.0.0:8081": f"unix:{tmp_path}/socket", "/usr/bin/billing": "true"}.get(
                        word, word) for word in command]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
        spec = kube.call("GET", LEASES.format("default") + "/billing")[1]["spec"]
        assert spec["leaseTransitions"] == 1 and spec["holderIdentity"] == ""
