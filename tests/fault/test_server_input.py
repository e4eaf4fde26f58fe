"""What a person reads who got the URL of a server store wrong: one line, with the fix, and no secret.

Every case runs `tenure run`, with the URL in the environment.  The real servers are those of
test_servers.py.
"""

import contextlib
import json
import os
import socket
import subprocess
import threading

import pytest
from process import free_port, until
from world import PATIENCE, TENURE

SECRET = "c4n4ry-s3cr3t"


def told(url):
    """(exit code, the line) of a run that must not begin."""
    done = subprocess.run([str(TENURE), "run", "--name", "w", "--ttl", "6s", "--log", "json",
                           "--start-timeout", "1ms", "--", "true"], capture_output=True, text=True, check=False, timeout=PATIENCE,
                          env={**os.environ, "TENURE_STORE": url, "KUBECONFIG": "",
                               "HOME": "/nonexistent"})
    assert SECRET not in done.stderr + done.stdout and not done.stdout
    lines = done.stderr.splitlines()
    assert len(lines) == 1, done.stderr
    line = json.loads(lines[0])
    assert line["event"] == "failed"
    return done.returncode, line["text"]


def refused(url):
    """The same, once it does not begin any more."""
    try:
        return told(url)
    except AssertionError:
        return None


class Stranger:
    """A server of another kind: it greets, or waits for the client and says something else."""

    def __init__(self, says):
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.port = self.socket.getsockname()[1]
        self.says = says
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            try:
                client, _ = self.socket.accept()
            except OSError:
                return
            with contextlib.suppress(ConnectionError), client:
                client.recv(4096)
                client.sendall(self.says)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()


def test_wrong_port(rig):
    code, line = told(rig.url(port=free_port()))
    assert code == 1 and "is the server up" in line and ("127.0.0.1" in line or "localhost" in line)


def test_another_kind_of_server(rig):
    with Stranger(b"220 mail.example ESMTP\r\n") as mail:
        code, line = told(rig.url(port=mail.port))
        assert code in (1, 2) and str(mail.port) in line


def test_wrong_secret(rig, tmp_path):
    with rig.door(tmp_path) as door:
        door.write(f"{SECRET}-wrong")
        code, line = told(door.url)
        assert code == 1
        assert any(word in line for word in ("password", "token")), line


def test_right_missing(rig, tmp_path):
    with rig.door(tmp_path) as door:
        rig.forbid_all()
        # A cluster's roles take a moment to be known everywhere.
        code, line = until(lambda: refused(door.url))
        rig.allow()
        assert code == 1
        assert any(word in line for word in ("GRANT", "docs/reference/stores", "role.yaml")), line


@pytest.mark.parametrize("url, words", [
    (f"postgress://u:{SECRET}@h/d", "no store is called 'postgress:'; known are"),
    (f"postgres:u:{SECRET}@h/d", "postgres://"),
    (f"postgres://u:{SECRET}@h:54e2/d", "port"),
    (f"postgres://u:{SECRET}@h/d?hots=x", "does not know the parameter 'hots'; it knows"),
    (f"postgres+advisory://u:{SECRET}@h/d?key=0xzz", "key must be a decimal number of 64 bits, 0x"),
    (f"postgres+advisory://u:{SECRET}@h/d?key=7&takeover_delay=1s", "takeover_delay"),
    (f"redis:u:{SECRET}@h", "redis://"),
    (f"redis://u:{SECRET}@h:0", "port"),
    (f"redis://u:{SECRET}@h?pasword_file=x", "does not know the parameter 'pasword_file'"),
    (f"redis://u:{SECRET}@h?ca_file=/x", "rediss:"),
    (f"etcd:u:{SECRET}@h", "etcd://host:2379/"),
    (f"etcd://u:{SECRET}@h:x", "host:port"),
    (f"etcd://u:{SECRET}@h?ca_file=/x", "ca_file"),
    (f"consul://u:{SECRET}@h", "has no users"),
    (f"consul://:{SECRET}@h?ca_file=/x", "ca_file"),
    (f"zookeeper:u:{SECRET}@h", "zookeeper://host:2181/"),
    (f"zookeeper://u:{SECRET}@h:x", "host:port"),
    (f"zookeeper://h?password_env={SECRET}", "a password needs a user"),
    ("zookeeper://u@h", "a user needs a password"),
    ("zookeeper://h/a//b", "the path is the node"),
    (f"zookeeper://u:{SECRET}@h?ca_file=/x", "does not know the parameter 'ca_file'"),
    (f"nats:u:{SECRET}@h", "nats://host:4222/"),
    (f"nats://u:{SECRET}@h:x", "host:port"),
    (f"nats://:{SECRET}@h", "a password needs a user; a token: token_file=FILE"),
    ("nats://u@h", "a user needs a password"),
    ("nats://h/a.b", "the path is the name of the bucket"),
    ("nats://h?nkey=U", "nkey_file=FILE belong together"),
    (f"nats://u:{SECRET}@h?creds_file=/x", "log in one way"),
    (f"nats://u:{SECRET}@h?ca_file=/x", "natss:"),
    ("kube://default/x", "without '//'"),
    ("kube:Default/x", "not a namespace: lower-case letters"),
    ("kube:default/X", "not the name of a Lease: lower-case letters"),
    ("kube:default/x?kubeconfig=/nonexistent", "kubeconfig="),
    ("kube:default/x?token=" + SECRET, "does not know the parameter 'token'; it knows"),
    ("kube:default/x", "name one with ?kubeconfig=FILE"),
    ("kubernetes:default/x", "no store is called 'kubernetes:'"),
])
def test_url_mistakes(url, words):
    code, line = told(url)
    assert code == 2 and words in line, line
