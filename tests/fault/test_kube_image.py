"""The image that scripts/oci-image makes of the Debian packages, as a container of the manifests' Deployment.

Its root is read-only, its user nobody in particular, without capabilities; the API server is a real one, and the
command, the account and the rights are those of contrib/kubernetes.
"""

import json
import pathlib
import re
import subprocess
import tarfile

import kube_tools
import packages
import pytest
import server_kube
from process import free_port
from server_kube import LEASES, Kube
from test_kube_manifests import with_kustomize

ROOT = pathlib.Path(__file__).resolve().parents[2]
ISOLATED = ["unshare", "--mount", "--pid", "--fork", "--kill-child"]
MISSING = packages.MISSING or server_kube.MISSING or kube_tools.MISSING
if not MISSING and subprocess.run([*ISOLATED, "true"], capture_output=True).returncode:
    MISSING = "namespaces need privileges here"
pytestmark = pytest.mark.skipif(MISSING is not None, reason=str(MISSING))

# What a container runtime does, as the manifests ask: readOnlyRootFilesystem, runAsUser, drop ALL,
# allowPrivilegeEscalation: false; /tmp is the volume.
CONTAINER = """
import ctypes, os, subprocess, sys
root, command = sys.argv[1], sys.argv[2:]
for words in (["--bind", root, root], ["-o", "remount,ro,bind", root], ["-t", "tmpfs", "-o", "mode=1777", "tmp", root + "/tmp"],
              ["-t", "proc", "proc", root + "/proc"], ["--rbind", "/dev", root + "/dev"]):
    subprocess.run(["mount", *words], check=True)
os.chroot(root); os.chdir("/")
prctl = ctypes.CDLL(None).prctl
for capability in range(64):
    prctl(24, capability, 0, 0, 0)   # PR_CAPBSET_DROP
prctl(38, 1, 0, 0, 0)                # PR_SET_NO_NEW_PRIVS
os.setgroups([]); os.setgid(65532); os.setuid(65532)
os.execvp(command[0], command)
"""


class Image:
    def __init__(self, folder, debs):
        self.layout, self.root = folder / "image", folder / "root"
        self.digest = subprocess.run([ROOT / "scripts/oci-image", "--tag", "test", self.layout, *debs], check=True,
                                     capture_output=True, text=True).stdout.strip()
        index = json.loads((self.layout / "index.json").read_text())
        assert json.loads((self.layout / "oci-layout").read_text()) == {"imageLayoutVersion": "1.0.0"}
        (found,) = index["manifests"]
        assert found["digest"] == self.digest and found["annotations"]["org.opencontainers.image.ref.name"] == "test"
        self.manifest = json.loads(self.blob(found))
        self.config = json.loads(self.blob(self.manifest["config"]))

    def blob(self, descriptor):
        """Checked against its digest and size."""
        path = self.layout / "blobs" / descriptor["digest"].replace(":", "/")
        assert path.stat().st_size == descriptor["size"]
        assert packages.sha256(path.read_bytes()) == descriptor["digest"].split(":")[1]
        return path.read_bytes()

    def unpack(self):
        self.root.mkdir()
        for layer in self.manifest["layers"]:
            self.blob(layer)
            with tarfile.open(self.layout / "blobs" / layer["digest"].replace(":", "/")) as tar:
                assert all(member.uid == 0 for member in tar)
                tar.extractall(self.root)

    def run(self, *command, env=None):
        return subprocess.run([*ISOLATED, "/usr/bin/python3", "-c", CONTAINER, self.root, *command], text=True,
                              capture_output=True, stdin=subprocess.DEVNULL, timeout=300,
                              env={**dict(word.split("=", 1) for word in self.config["config"]["Env"]), **(env or {})})


@pytest.fixture(scope="module")
def image(tmp_path_factory):
    debs = packages.build_once()
    found = Image(tmp_path_factory.mktemp("oci"), [debs[name].path for name in ("tenure", "tenure-http", "tenure-store-kube")])
    found.unpack()
    return found


def test_it_holds_all_that_is_needed_and_listed(image):
    page = (ROOT / "docs/how-to/kubernetes.md").read_text()
    listed = [path for row in re.findall(r"^\| (`/.*?) \|", page, re.M) for path in re.findall(r"`(/[^`]+)`", row)]
    assert "/usr/bin/tenure" in listed and "/bin/sh" in listed
    (loader,) = image.root.glob("usr/lib/*-linux-gnu*/ld-linux*.so.*")
    for path in listed:
        found = list(image.root.glob(path[1:].replace("x86_64-linux-gnu", "*-linux-gnu*")))
        assert found, path
        if path.endswith(("/tenure", ".so")):
            told = image.run("/" + str(loader.relative_to(image.root)), "--list",
                             "/" + str(found[0].relative_to(image.root)))
            assert told.returncode == 0 and "not found" not in told.stdout, told
    assert image.config["config"]["User"] == "65532"
    assert not list(image.root.glob("usr/share/man/man1/tenure*"))


def test_as_a_pod(image, tmp_path_factory):
    with Kube() as kube:
        deployed = with_kustomize(kube, tmp_path_factory.mktemp("image", numbered=False), True)
        template = deployed.template()
        deployed.create({"apiVersion": "v1", "kind": "Pod", "spec": template["spec"],
                         "metadata": {"name": "pod-1", "labels": template["metadata"]["labels"]}})
        # The kubelet's part.
        deployed.account()
        account = image.root / "var/run/secrets/kubernetes.io/serviceaccount"
        account.mkdir(parents=True)
        for path in (deployed.folder / "account").iterdir():
            (account / path.name).write_bytes(path.read_bytes())
        (image.root / "etc/hosts").write_text("127.0.0.1 localhost\n")
        # The program's.
        (image.root / "usr/bin/billing").write_text('#!/bin/sh\necho "billing runs with epoch $TENURE_EPOCH"\n')
        (image.root / "usr/bin/billing").chmod(0o755)
        here = {"$(POD_NAME)": "pod-1", "0.0.0.0:8081": f"127.0.0.1:{free_port()}"}
        command = [here.get(word, word) for word in template["spec"]["containers"][0]["command"]]
        done = image.run(*command, env={"POD_NAME": "pod-1", "KUBERNETES_SERVICE_HOST": "localhost",
                                        "KUBERNETES_SERVICE_PORT": str(kube.port)})
        assert done.returncode == 0, done.stderr
        assert re.search(r"^billing runs with epoch \d+$", done.stdout, re.M), done
        assert "hook failed" not in done.stderr and deployed.role("pod-1") == "standby"
        spec = kube.call("GET", LEASES.format(deployed.namespace) + "/billing")[1]["spec"]
        assert spec["leaseTransitions"] == 1 and spec["holderIdentity"] == ""
