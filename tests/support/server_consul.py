"""Real Consul servers, of another Debian suite's package: one, or a cluster.  scripts/suite-server gets it."""

import base64
import json
import os
import pathlib
import shutil
import ssl
import subprocess
import urllib.error
import urllib.request
import uuid

from process import Daemon, free_port, until

ROOT = pathlib.Path(__file__).resolve().parents[2]
MASTER = "6d617374-6572-4000-8000-000000000000"


def _program():
    # `make test-all` gets it and requires it.
    required = os.environ.get("TENURE_SERVERS") == "required"
    done = subprocess.run([str(ROOT / "scripts/suite-server"), *([] if required else ["--check"]), "consul"],
                          check=required, capture_output=not required, stdout=subprocess.PIPE if required else None,
                          text=True)
    return done.stdout.strip() if done.returncode == 0 else None


PROGRAM = _program()
MISSING = None if PROGRAM else "no consul here: run scripts/suite-server consul, or make test-all"


class Consul(Daemon):
    """One server, which lets everybody in who brings no token.  join: the gossip ports of a cluster."""

    def __init__(self, config=None, name="one", join=(), tls=None, start=True):
        super().__init__("consul")
        self.name, self.join, self.tls, self.config = name, join, tls, config or {}
        self.port, self.gossip, self.rpc = free_port(), free_port(), free_port()
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
        config = {
            "server": True, "bootstrap_expect": max(len(self.join), 1), "node_name": self.name,
            "data_dir": str(self.data), "bind_addr": "127.0.0.1", "client_addr": "127.0.0.1",
            "ports": {"http": -1 if self.tls else self.port, "https": self.port if self.tls else -1, "dns": -1,
                      "grpc": -1, "serf_lan": self.gossip, "serf_wan": -1, "server": self.rpc},
            "performance": {"raft_multiplier": 1}, "disable_update_check": True, "leave_on_terminate": False,
            "retry_join": [f"127.0.0.1:{port}" for port in self.join if port != self.gossip],
            "retry_interval": "1s", "log_level": "WARN",
            "acl": {"enabled": True, "default_policy": "allow", "tokens": {"master": MASTER}},
        }
        if self.tls:
            ca, cert, key = (str(file) for file in self.tls)
            config.update(ca_file=ca, cert_file=cert, key_file=key, verify_incoming_https=True)
        config.update(self.config)
        (self.dir / "config.json").write_text(json.dumps(config))
        self.spawn([PROGRAM, "agent", "-config-file", str(self.dir / "config.json")])

    def call(self, method, path, body=None, timeout=60, token=None):
        """Bytes are sent as they are, anything else as JSON."""
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        origin, context = f"http://127.0.0.1:{self.port}", None
        if self.tls:  # the tests' certificates are for localhost
            origin, context = f"https://localhost:{self.port}", ssl.create_default_context(cafile=str(self.tls[0]))
            context.load_cert_chain(*(str(file) for file in self.tls[1:]))
        request = urllib.request.Request(f"{origin}/v1/{path}", data, method=method,
                                         headers={"X-Consul-Token": token} if token else {})
        with urllib.request.urlopen(request, timeout=timeout, context=context) as answer:
            text = answer.read()
        try:
            return json.loads(text) if text else None
        except ValueError:
            return text

    def healthy(self):
        """It has a leader that serves consistent reads."""
        assert self.alive(), self.log()
        try:
            self.call("PUT", "txn?consistent", [{"KV": {"Verb": "get-tree", "Key": "x"}}], timeout=5)
            return True
        except (OSError, ValueError):
            return False

    def names(self, prefix):
        try:
            return self.call("GET", f"kv/{prefix.replace('#', '%23')}?keys&consistent")
        except urllib.error.HTTPError as error:
            if error.code == 404:
                return []
            raise

    def get(self, name):
        (entry,) = self.call("GET", f"kv/{name.replace('#', '%23')}?consistent")
        return base64.b64decode(entry["Value"] or "")

    def put(self, name, value):
        assert self.call("PUT", f"kv/{name.replace('#', '%23')}", value) is True

    def delete(self, name, tree=False):
        self.call("DELETE", f"kv/{name.replace('#', '%23')}" + ("?recurse" if tree else ""))

    def row(self, key):
        """The name of the row of a register."""
        (name,) = [n for n in self.names(f"{key}#") if not n.endswith("#")]
        return name

    def leads(self):
        try:
            return self.call("GET", "status/leader", timeout=5) == f"127.0.0.1:{self.rpc}"
        except (OSError, ValueError):
            return False

    # ---- Tokens

    def admin(self, method, path, body=None):
        return self.call(method, f"acl/{path}", body, token=MASTER)

    def policy(self, rules):
        """Make it, or change it."""
        known = [p["ID"] for p in self.admin("GET", "policies") if p["Name"] == "app"]
        body = {"Name": "app", "Rules": rules}
        if known:
            self.admin("PUT", f"policy/{known[0]}", {"ID": known[0], **body})
        else:
            self.admin("PUT", "policy", body)

    def token(self, secret):
        """A token of the policy, which has this secret; every other one is gone."""
        for known in self.admin("GET", "tokens"):
            if known["Description"] == "app":
                self.admin("DELETE", f"token/{known['AccessorID']}")
        if secret:
            self.admin("PUT", "token", {"SecretID": secret, "Description": "app", "Policies": [{"Name": "app"}]})

    def url(self, rest="", port=None):
        return f"consul://127.0.0.1:{port or self.port}{rest}"


def secret(word):
    """A token is a UUID."""
    return str(uuid.uuid5(uuid.NAMESPACE_DNS, word))


class Cluster:
    """Three servers."""

    def __init__(self):
        self.members = [Consul(name=f"m{i}", start=False) for i in range(3)]
        try:
            for member in self.members:
                member.join = [m.gossip for m in self.members]
                member.start()
            self.settle()
        except BaseException:
            self.stop()
            raise

    def settle(self):
        for member in self.members:
            until(member.healthy)

    def leader(self):
        return until(lambda: next((m for m in self.members if m.alive() and m.leads()), None))

    def url(self, rest=""):
        return "consul://" + ",".join(f"127.0.0.1:{m.port}" for m in self.members) + rest

    def stop(self):
        for member in self.members:
            member.stop()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()


def copy(source, target):
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(source, target)
