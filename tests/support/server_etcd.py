"""Real etcd servers of Debian's packages: one, or a cluster."""

import base64
import json
import shutil
import subprocess
import time
import urllib.error
import urllib.request

from process import Daemon, free_port, until

MISSING = None if shutil.which("etcd") and shutil.which("etcdctl") else (
    "etcd is not installed: run scripts/deps, or apt-get install etcd-server etcd-client")


def b64(text):
    return base64.b64encode(text if isinstance(text, bytes) else text.encode()).decode()


class Etcd(Daemon):
    """One member.  peers: {name: peer port} of a cluster."""

    def __init__(self, *options, name="one", peers=None, tls=None, start=True):
        super().__init__("etcd")
        self.name, self.options, self.tls = name, options, tls
        self.port = free_port()
        self.peers = peers or {name: free_port()}
        self.data = self.dir / "data"
        if not start:
            return
        try:
            self.start()
            until(self.healthy)
        except BaseException:
            self.stop()
            raise

    def start(self):
        scheme = "https" if self.tls else "http"
        peer = f"http://127.0.0.1:{self.peers[self.name]}"
        argv = ["etcd", "--name", self.name, "--data-dir", str(self.data),
                "--listen-client-urls", f"{scheme}://127.0.0.1:{self.port}",
                "--advertise-client-urls", f"{scheme}://127.0.0.1:{self.port}",
                "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer,
                "--initial-cluster",
                ",".join(f"{n}=http://127.0.0.1:{p}" for n, p in self.peers.items()),
                "--heartbeat-interval", "50", "--election-timeout", "500", "--logger", "zap",
                "--bcrypt-cost", "4"]  # every login of every process costs that much
        if self.tls:
            ca, cert, key = self.tls
            argv += ["--cert-file", str(cert), "--key-file", str(key), "--trusted-ca-file", str(ca),
                     "--client-cert-auth"]
        self.spawn(argv + [str(o) for o in self.options])

    def restart(self):
        self.kill()
        self.start()
        until(self.healthy)

    def restore(self, snapshot):
        """Begin again from a snapshot, when it is down."""
        peer = f"http://127.0.0.1:{self.peers[self.name]}"
        shutil.rmtree(self.data)
        self.ctl("snapshot", "restore", snapshot, "--name", self.name, "--data-dir", self.data,
                 "--initial-cluster", f"{self.name}={peer}", "--initial-advertise-peer-urls", peer)
        self.start()
        until(self.healthy)

    def call(self, path, body=None, timeout=60):
        """POST to the gateway (plain HTTP only)."""
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}",
                                         json.dumps(body or {}).encode())
        with urllib.request.urlopen(request, timeout=timeout) as answer:
            return json.load(answer)

    def _ctl(self, *args, text=None):
        # Its own limit of 5 s is less than a busy disk may take.
        argv = ["etcdctl", "--command-timeout=60s", "--endpoints", self.endpoint()]
        if self.tls:
            ca, cert, key = self.tls
            argv += ["--cacert", str(ca), "--cert", str(cert), "--key", str(key)]
        return subprocess.run(argv + [str(a) for a in args], capture_output=True, text=True,
                              input=text, check=False,
                              env={"ETCDCTL_API": "3", "PATH": "/usr/bin:/bin"})

    def ctl(self, *args, text=None):
        done = self._ctl(*args, text=text)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def endpoint(self):
        """The tests' certificates are for localhost."""
        return f"https://localhost:{self.port}" if self.tls else f"http://127.0.0.1:{self.port}"

    def healthy(self):
        """It serves linearizable reads."""
        assert self.alive(), self.log()
        if self.tls:
            return self._ctl("--command-timeout=5s", "get", "x").returncode == 0
        try:
            self.call("/v3/kv/range", {"key": b64("x")}, timeout=5)
            return True
        except urllib.error.HTTPError as error:
            return b"user name is empty" in error.read()
        except (OSError, ValueError):
            return False

    def get(self, key):
        kvs = self.call("/v3/kv/range", {"key": b64(key)}).get("kvs", [])
        return base64.b64decode(kvs[0].get("value", "")) if kvs else None

    def put(self, key, value):
        self.call("/v3/kv/put", {"key": b64(key), "value": b64(value)})

    def delete(self, key):
        self.call("/v3/kv/deleterange", {"key": b64(key)})

    def revision(self):
        return int(self.call("/v3/kv/range", {"key": b64("x")})["header"]["revision"])

    def leads(self):
        try:
            status = self.call("/v3/maintenance/status", timeout=5)
        except (OSError, ValueError):
            return False
        return status.get("leader") == status["header"]["member_id"]

    def url(self, query="", port=None):
        return f"etcd://127.0.0.1:{port or self.port}{query}"


class Cluster:
    """Three members."""

    def __init__(self, *options):
        peers = {f"m{i}": free_port() for i in range(3)}
        self.members = [Etcd(*options, name=name, peers=peers, start=False) for name in peers]
        try:
            for member in self.members:
                member.start()
            for member in self.members:
                until(member.healthy)
        except BaseException:
            self.stop()
            raise

    def leader(self):
        return until(lambda: next((m for m in self.members if m.alive() and m.leads()), None))

    def terms(self):
        try:
            return [m.call("/v3/maintenance/status", timeout=5)["raftTerm"] for m in self.members]
        except (OSError, ValueError, KeyError):
            return None

    def settle(self, seconds=1.5):
        """Wait until nobody is being elected any more: members that come back ask for votes."""
        def same():
            before = self.terms()
            time.sleep(seconds)
            return before and len(set(before)) == 1 and before == self.terms()

        until(lambda: same() and all(m.healthy() for m in self.members))

    def url(self, query=""):
        return "etcd://" + ",".join(f"127.0.0.1:{m.port}" for m in self.members) + query

    def stop(self):
        for member in self.members:
            member.stop()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()
