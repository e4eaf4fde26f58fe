"""A real kube-apiserver over a real etcd, and a client-go elector; scripts/kube-server builds them."""

import hashlib
import json
import os
import pathlib
import shutil
import ssl
import subprocess
import urllib.error
import urllib.request

import server_etcd
from process import Daemon, free_port, until
from server_etcd import Etcd
from server_redis import make_certificates

ROOT = pathlib.Path(__file__).resolve().parents[2]


def _version():
    for line in (ROOT / "tests/support/kube/go.mod").read_text().splitlines():
        words = line.replace("require ", "").split()
        if words[:1] == ["k8s.io/kubernetes"]:
            return words[1].lstrip("v")
    raise AssertionError("go.mod does not name k8s.io/kubernetes")


CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache")
BIN = CACHE / "tenure" / f"kube-{_version()}"


def _elector():
    """As scripts/kube-server names it: by its source."""
    source = b"".join(path.read_bytes() for path in
                      sorted((ROOT / "tests/support/kube/elector").glob("*.go")))
    return BIN / f"elector-{hashlib.sha256(source).hexdigest()[:12]}"


ELECTOR = _elector()
MISSING = server_etcd.MISSING
# `make test-all` builds it and requires it; a build that goes on is waited for.
if os.environ.get("TENURE_KUBE") == "required":
    subprocess.run([str(ROOT / "scripts/kube-server")], check=True, stdout=subprocess.DEVNULL)
if not (BIN / "kube-apiserver").exists() or not ELECTOR.exists():
    MISSING = MISSING or (f"no kube-apiserver in {BIN}: run scripts/kube-server (5 minutes, once), "
                          "or make test-all")

NS = "default"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/{}/leases"


class Kube(Daemon):
    """An API server.  Tokens: admin-token may everything, others what grant() allows."""

    def __init__(self, *options, users=(), etcd=(), beside=None):
        """beside: another one, whose etcd and keys this one shares."""
        super().__init__("kube")
        self.options = options
        self.port = free_port()
        self.etcd, self.own_etcd = (beside.etcd, None) if beside else (None, None)
        self.users = {"admin": "admin-token", **dict(users)}
        try:
            if beside:
                self.ca, self.cert, self.key = beside.ca, beside.cert, beside.key
                shutil.copy(beside.dir / "sa.key", self.dir)
            else:
                self.etcd = self.own_etcd = Etcd(*etcd)
                self.ca, self.cert, self.key = make_certificates(self.dir)
                subprocess.run(["openssl", "genrsa", "-out", str(self.dir / "sa.key"), "2048"],
                               check=True, capture_output=True)
            self.write_users()
            self.start()
            until(self.healthy)
        except BaseException:
            self.stop()
            raise

    def write_users(self):
        rows = [f'{token},{name},{name}' + (',"system:masters"' if name == "admin" else "")
                for name, token in self.users.items()]
        (self.dir / "tokens").write_text("\n".join(rows) + "\n")

    def start(self):
        self.spawn([str(BIN / "kube-apiserver"), "--etcd-servers", self.etcd.endpoint(),
                    "--bind-address", "127.0.0.1", "--secure-port", str(self.port),
                    "--tls-cert-file", str(self.cert), "--tls-private-key-file", str(self.key),
                    "--client-ca-file", str(self.ca), "--cert-dir", str(self.dir / "certs"),
                    "--token-auth-file", str(self.dir / "tokens"), "--authorization-mode", "RBAC",
                    "--service-account-issuer", "https://tenure.test",
                    "--service-account-key-file", str(self.dir / "sa.key"),
                    "--service-account-signing-key-file", str(self.dir / "sa.key"),
                    "--endpoint-reconciler-type", "none", "--service-cluster-ip-range",
                    "10.0.0.0/24", "--disable-admission-plugins", "ServiceAccount",
                    *self.options], env={**os.environ, "GOGC": "200"})

    def restart(self):
        self.kill()
        self.start()
        until(self.healthy)

    def stop(self):
        super().stop()
        if self.own_etcd:
            self.own_etcd.stop()

    def call(self, method, path, body=None, token="admin-token", timeout=30, kind=None):
        """(code, answer) of one request."""
        request = urllib.request.Request(
            f"https://localhost:{self.port}{path}", method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": f"Bearer {token}",
                     "Content-Type": kind or "application/json"})
        tls = ssl.create_default_context(cafile=str(self.ca))
        try:
            with urllib.request.urlopen(request, timeout=timeout, context=tls) as answer:
                return answer.status, json.loads(answer.read() or b"{}")
        except urllib.error.HTTPError as error:
            return error.code, json.loads(error.read() or b"{}")

    def healthy(self):
        assert self.alive(), self.log()[-3000:]
        try:
            with urllib.request.urlopen(
                    urllib.request.Request(f"https://localhost:{self.port}/readyz", headers={
                        "Authorization": "Bearer admin-token"}), timeout=5,
                    context=ssl.create_default_context(cafile=str(self.ca))) as answer:
                ready = answer.status == 200
        except OSError:
            return False
        return ready and self.call("GET", "/api/v1/namespaces/default")[0] == 200

    # ---- Leases

    def lease(self, name, namespace=NS):
        code, answer = self.call("GET", LEASES.format(namespace) + "/" + name)
        assert code in (200, 404), answer
        return answer if code == 200 else None

    def leases(self, namespace=NS):
        return self.call("GET", LEASES.format(namespace))[1]["items"]

    def patch(self, name, patch, namespace=NS):
        code, answer = self.call("PATCH", LEASES.format(namespace) + "/" + name, patch,
                                 kind="application/merge-patch+json")
        assert code == 200, answer
        return answer

    def delete(self, name, namespace=NS):
        assert self.call("DELETE", LEASES.format(namespace) + "/" + name)[0] == 200

    def clear(self, namespace=NS):
        assert self.call("DELETE", LEASES.format(namespace))[0] == 200

    # ---- Access

    def create(self, path, body):
        code, answer = self.call("POST", path, body)
        assert code in (201, 409), answer

    def grant(self, user, verbs, namespace=NS, name=None):
        """Let user do just that with leases."""
        path = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}/"
        name = name or user
        role = {"metadata": {"name": name}, "rules": [{
            "apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": verbs}]}
        if self.call("POST", path + "roles", role)[0] == 409:
            assert self.call("PUT", path + "roles/" + name, role)[0] == 200
        self.create(path + "rolebindings", {
            "metadata": {"name": name},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}]})

    def certificate(self, folder, user):
        """A client's certificate; returns (certificate, key)."""
        cert, key, request = (folder / (user + end) for end in (".pem", ".key", ".csr"))
        for args in (("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                      "-subj", f"/CN={user}", "-keyout", key, "-out", request),
                     ("x509", "-req", "-in", request, "-CA", self.ca, "-CAkey",
                      self.dir / "ca.key", "-CAcreateserial", "-days", "2", "-out", cert)):
            subprocess.run(["openssl", *map(str, args)], check=True, capture_output=True)
        return cert, key

    def config(self, port=None, name="config", user=None, cluster=None, namespace=NS, folder=None):
        """Writes a kubeconfig, and returns its path."""
        path = (folder or self.dir) / name
        path.write_text(json.dumps({  # JSON is YAML
            "apiVersion": "v1", "kind": "Config", "current-context": "here",
            "contexts": [{"name": "here", "context": {
                "cluster": "there", "user": "me", "namespace": namespace}}],
            "clusters": [{"name": "there", "cluster": cluster or {
                "server": f"https://localhost:{port or self.port}",
                "certificate-authority": str(self.ca)}}],
            "users": [{"name": "me", "user": user or {"token": "admin-token"}}]}))
        return path

    def url(self, lease="", port=None, **named):
        name = f"config-{port}" if port else "config"
        return (f"kube:{NS}{'/' + lease if lease else ''}"
                f"?kubeconfig={self.config(port=port, name=named.pop('name', name), **named)}")


class Elector(Daemon):
    """A client-go candidate."""

    def __init__(self, kube, lease, name="gopher", duration="5s", renew="3s", retry="500ms",
                 release=True, table=None):
        """table: where it stamps that it leads, as the witnesses do."""
        super().__init__("elector")
        config = kube.config(name=f"config-{lease}-{name}")  # its own: nobody reads half of it
        self.spawn([str(ELECTOR), str(config), NS, lease, name, duration, renew, retry],
                   env={**os.environ, **({"RELEASE": "1"} if release else {}),
                        **({"WITNESS": str(table)} if table else {})})

    def words(self):
        return self.log()

    def leads(self):
        lines = self.log().splitlines()
        return "leading" in lines and "stopped" not in lines
