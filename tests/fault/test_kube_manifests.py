"""contrib/kubernetes and contrib/helm, rendered by their own tools and taken by a real API server.

Pods are processes here, with the command, the account and the rights of the manifests: as docs/how-to/kubernetes.md
says.
"""

import json
import os
import pathlib
import signal
import subprocess
import urllib.error
import urllib.request

import kube_tools
import pytest
import server_kube
from kube_tools import HELM, KUSTOMIZE
from process import die_with_parent, free_port, until
from server_kube import LEASES, Kube
from tenure import Store

yaml = pytest.importorskip("yaml", reason="python3-yaml is not installed: run scripts/deps test")
MISSING = server_kube.MISSING or kube_tools.MISSING
pytestmark = pytest.mark.skipif(MISSING is not None, reason=str(MISSING))

CONTRIB = pathlib.Path(__file__).resolve().parents[2] / "contrib"
CHART = CONTRIB / "helm/tenure"
API = {
    "ServiceAccount": "/api/v1/namespaces/{}/serviceaccounts",
    "Service": "/api/v1/namespaces/{}/services",
    "Pod": "/api/v1/namespaces/{}/pods",
    "Role": "/apis/rbac.authorization.k8s.io/v1/namespaces/{}/roles",
    "RoleBinding": "/apis/rbac.authorization.k8s.io/v1/namespaces/{}/rolebindings",
    "Deployment": "/apis/apps/v1/namespaces/{}/deployments",
    "PodDisruptionBudget": "/apis/policy/v1/namespaces/{}/poddisruptionbudgets",
}


def output(*command):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, stdin=subprocess.DEVNULL)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def kube():
    with Kube() as server:
        yield server


class Deployed:
    """What one of the two has put into a namespace of its own, which takes restricted pods only."""

    def __init__(self, kube, namespace, folder):
        self.kube, self.namespace, self.folder = kube, namespace, folder
        kube.create("/api/v1/namespaces", {"metadata": {
            "name": namespace, "labels": {"pod-security.kubernetes.io/enforce": "restricted"}}})

    def get(self, kind, name=None):
        code, answer = self.kube.call("GET", API[kind].format(self.namespace) + ("/" + name if name else ""))
        assert code == 200, answer
        return answer if name else answer["items"]

    def create(self, body):
        # Strict: a field that the server does not know is a mistake.
        code, answer = self.kube.call(
            "POST", API[body["kind"]].format(self.namespace) + "?fieldValidation=Strict", body)
        assert code == 201, answer
        return answer

    def account(self):
        """The URL that kube: is in a pod: a folder with a token of that account."""
        folder = self.folder / "account"
        folder.mkdir(exist_ok=True)
        code, answer = self.kube.call(
            "POST", API["ServiceAccount"].format(self.namespace) + "/billing/token",
            {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}})
        assert code == 201, answer
        (folder / "token").write_text(answer["status"]["token"])
        (folder / "ca.crt").write_bytes(self.kube.ca.read_bytes())
        (folder / "namespace").write_text(self.namespace)
        return f"kube:?serviceaccount={folder}"

    def template(self):
        return self.get("Deployment", "billing")["spec"]["template"]

    def role(self, pod):
        return self.get("Pod", pod)["metadata"]["labels"].get("tenure-role")


def with_kustomize(kube, folder, leader):
    overlay = folder / "overlay"
    overlay.mkdir()
    base = os.path.relpath(CONTRIB / "kubernetes", overlay.resolve())
    (overlay / "kustomization.yaml").write_text(json.dumps({
        "resources": [f"{base}/base"], "components": [f"{base}/leader-service"] * leader,
        "images": [{"name": "billing", "newName": "registry.example/billing", "newTag": "1.2"}],
        "namespace": folder.name}))
    found = Deployed(kube, folder.name, folder)
    for body in yaml.safe_load_all(output(KUSTOMIZE, "build", overlay)):
        assert body["metadata"]["namespace"] == folder.name
        found.create(body)
    return found


def with_helm(kube, folder, leader):
    found = Deployed(kube, folder.name, folder)
    found.helm = [HELM, "--kubeconfig", kube.config(name=folder.name, folder=folder), "--namespace", folder.name]
    found.values = ["--set", "image.repository=registry.example/billing,image.tag=1.2",
                    "--set", "command={/usr/bin/billing}",
                    "--set", f"leaderService.enabled={'true' if leader else 'false'}"]
    output(*found.helm, "lint", "--strict", CHART, *found.values)
    output(*found.helm, "install", "billing", CHART, *found.values)
    return found


@pytest.fixture(scope="module", params=[with_kustomize, with_helm], ids=["kustomize", "helm"])
def deployed(request, kube, tmp_path_factory):
    folder = tmp_path_factory.mktemp(request.param.__name__[5:], numbered=False)
    return request.param(kube, folder, True)


def subset(part, whole):
    return all(whole.get(key) == value for key, value in part.items())


def test_pods_are_spread_limited_and_harmless(deployed):
    spec = deployed.get("Deployment", "billing")["spec"]
    pod, labels = spec["template"]["spec"], spec["template"]["metadata"]["labels"]
    (container,) = pod["containers"]
    assert container["image"] == "registry.example/billing:1.2"
    (term,) = pod["affinity"]["podAntiAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
    assert term["podAffinityTerm"]["topologyKey"] == "kubernetes.io/hostname"
    assert subset(term["podAffinityTerm"]["labelSelector"]["matchLabels"], labels)
    assert container["resources"]["requests"] and container["resources"]["limits"]["memory"]
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    assert pod["securityContext"]["runAsNonRoot"] is True
    (budget,) = deployed.get("PodDisruptionBudget")
    assert budget["spec"]["maxUnavailable"] == 1
    assert subset(budget["spec"]["selector"]["matchLabels"], labels)
    rolling = spec["strategy"]["rollingUpdate"]
    assert (rolling["maxSurge"], rolling["maxUnavailable"]) == (1, 0)


def test_the_rights_are_enough(deployed, monkeypatch):
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "localhost")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", str(deployed.kube.port))
    with Store(deployed.account()) as store:
        token = store.swap("x/other").token
        assert store.swap("x/other", token).status == "ok"
        assert len(store.list("x/")[0]) == 1


@pytest.mark.parametrize("deploy", [with_kustomize, with_helm], ids=["kustomize", "helm"])
def test_pods_may_be_changed_only_for_the_leaders_service(deploy, kube, tmp_path_factory):
    plain = deploy(kube, tmp_path_factory.mktemp("plain-" + deploy.__name__[5:], numbered=False), False)
    assert {resource for role in plain.get("Role") for rule in role["rules"] for resource in rule["resources"]} == {"leases"}
    assert not plain.get("Service")
    assert "pod-label" not in json.dumps(plain.template())


def test_helm_upgrades_and_removes(kube, tmp_path_factory):
    chart = with_helm(kube, tmp_path_factory.mktemp("upgrade", numbered=False), True)
    output(*chart.helm, "upgrade", "billing", CHART, *chart.values, "--set", "replicas=3")
    assert chart.get("Deployment", "billing")["spec"]["replicas"] == 3
    refused = subprocess.run([*map(str, chart.helm), "upgrade", "billing", CHART, *chart.values, "--set", "replica=3"],
                             capture_output=True, text=True)
    assert refused.returncode != 0 and "replica" in refused.stderr
    output(*chart.helm, "uninstall", "billing")
    assert not [kind for kind in API if chart.get(kind) and kind != "Pod"]


class Pod:
    """The command of the template as a process, under the name of a pod that the server knows."""

    def __init__(self, deployed, name, build):
        template = deployed.template()
        (container,) = template["spec"]["containers"]
        self.port, self.name = free_port(), name
        # The pod as the Deployment's controller makes it; the server refuses what is not restricted.
        deployed.create({"apiVersion": "v1", "kind": "Pod", "spec": template["spec"],
                         "metadata": {"name": name, "labels": template["metadata"]["labels"]}})
        url = deployed.account()
        here = {"kube:": url, "$(POD_NAME)": name, "0.0.0.0:8081": f"127.0.0.1:{self.port}", "/usr/bin/billing": "sleep"}
        command = [here.get(word, word) for word in container["command"]] + ["1000"]
        self.log = open(deployed.folder / f"{name}.log", "w")
        # Hooks do not get the store's URL: in a pod they find the account where it always is.
        config = deployed.kube.config(name=name, namespace=deployed.namespace, folder=deployed.folder,
                                      user={"tokenFile": str(deployed.folder / "account/token")})
        self.environment = {**os.environ, "PATH": f"{build}:{os.environ['PATH']}", "POD_NAME": name, "KUBECONFIG": str(config),
                            "KUBERNETES_SERVICE_HOST": "localhost", "KUBERNETES_SERVICE_PORT": str(deployed.kube.port)}
        self.command, self.probes = command, [container[kind]["httpGet"]["path"] for kind in
                                              ("readinessProbe", "livenessProbe")]
        self.start()

    def start(self):
        self.process = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log,
                                        env=self.environment, preexec_fn=die_with_parent)

    def get(self, path):
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=60) as answer:
                return answer.status
        except urllib.error.HTTPError as error:
            return error.code
        except OSError:
            return 0

    def ready(self):
        return all(self.get(path) == 200 for path in self.probes)

    def leads(self):
        return self.get("/leader") == 200

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()
        self.log.close()


def test_a_roll_out_goes_through(deployed, build):
    """As the controller does it: one more, which must become ready beside the leader; then the old one goes.
    And the leader's Service follows, by its label."""
    (service,) = deployed.get("Service")
    assert service["metadata"]["name"] == "billing-leader"
    selector = service["spec"]["selector"]

    def selected():
        return [pod["metadata"]["name"] for pod in deployed.get("Pod") if subset(selector, pod["metadata"]["labels"])]

    with Pod(deployed, "old", build) as old:
        until(lambda: old.leads() and old.ready() and selected() == ["old"])
        with Pod(deployed, "new", build) as new:
            until(new.ready)
            assert old.leads() and not new.leads()  # ready, and it stands by
            until(lambda: deployed.role("new") == "standby")
            old.process.send_signal(signal.SIGTERM)
            assert old.process.wait(60) == 128 + signal.SIGTERM
            until(lambda: new.leads() and new.ready())
            until(lambda: selected() == ["new"])  # the old one took its label off before it let go
            lease = deployed.kube.call("GET", LEASES.format(deployed.namespace) + "/billing")[1]
            assert lease["spec"]["holderIdentity"] == "new"

            # A container that was killed keeps its label, until it stands by again.
            old.start()
            until(lambda: old.ready() and deployed.role("old") == "standby")
            new.process.kill()
            new.process.wait()
            until(old.leads)
            until(lambda: deployed.role("old") == "leader")
            new.start()
            until(lambda: new.ready() and selected() == ["old"])


@pytest.mark.parametrize("words, code, told", [
    (["--pod", "nobody", "a=b"], 2, "not found"), (["--pod", "old", "a=not valid"], 2, "a=not valid"),
    (["--pod", "No", "a=b"], 2, "not the name of a pod"), (["a"], 2, "KEY=VALUE"), ([], 2, "KEY=VALUE"), (["=b"], 2, "no label"),
    (["--store", "file:/x", "a=b"], 2, "kube:"), (["--store", "kube:?kubeconfig=/none", "a=b"], 2, "/none")])
def test_a_label_that_cannot_be(kube, build, words, code, told):
    kube.call("POST", API["Pod"].format("default"), {"metadata": {"name": "old", "labels": {"x": "y"}}, "spec": {
        "containers": [{"name": "x", "image": "x"}]}})
    done = subprocess.run([build / "tenure", "pod-label", "--store", kube.url(), *words], capture_output=True, text=True)
    assert (done.returncode, done.stderr.count("\n")) == (code, 1), done.stderr
    assert told.replace("a=not valid", "not valid") in done.stderr


def test_a_label_needs_the_right(kube, build):
    kube.grant("nobody", ["get"])
    cert, key = kube.certificate(kube.dir, "nobody")
    url = kube.url(name="config-nobody", user={"client-certificate": str(cert), "client-key": str(key)})
    done = subprocess.run([build / "tenure", "pod-label", "--store", url, "--pod", "x", "a=b"], capture_output=True, text=True)
    assert done.returncode == 1 and "lacks a right" in done.stderr
