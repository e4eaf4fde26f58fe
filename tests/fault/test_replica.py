"""replica: two nodes with a copy each.  What was acknowledged is there after the leader was killed."""

import json
import os
import pathlib
import signal
import subprocess

import pytest
from process import free_port, until
from unix_http import ask
from world import TENURE

BUILD = pathlib.Path(TENURE).parent
pytestmark = pytest.mark.skipif(
    not (BUILD / "tenure-store-replica.so").exists() or not (BUILD / "tenure-link.so").exists(),
    reason="built without SQLite, wslay or GnuTLS")

HOLD = ('printf "%s\\n" "$TENURE_SOCKET" "$TENURE_EPOCH" >"$1.new"; mv "$1.new" "$1"; '
        "exec sleep 600")


def descendants(pid):
    """A process and everything below it, the deepest last."""
    found = [pid]
    for child in pathlib.Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            for below in child.read_text().split():
                found += descendants(int(below))
        except OSError:
            pass
    return found


class Node:
    """tenure run with a copy of its own; its program tells where its socket is, and waits."""

    def __init__(self, folder, name, listen, peer, options=""):
        self.id, self.note, self.folder = name, folder / f"note-{name}", folder
        self.url = (f"replica://{folder}/{name}.db?preview=yes&listen=127.0.0.1:{listen}&peer=127.0.0.1:{peer}"
                    f"&heartbeat=50ms&timeout=5s{options}")
        self.process = None
        self.start()

    def start(self):
        self.note.unlink(missing_ok=True)
        with open(self.folder / f"log-{self.id}", "ab") as log:
            self.process = subprocess.Popen(
                [TENURE, "run", "--name", "app", "--id", self.id, "--store",
                 f"file:{self.folder}/lease", "--ttl", "4s", "--log", "json", "--state", self.url,
                 "--", "sh", "-c", HOLD, "sh", str(self.note)],
                stdin=subprocess.DEVNULL, stderr=log)

    def log(self):
        return (self.folder / f"log-{self.id}").read_text()

    def ask(self, *args):
        """An answer of the program's socket; None: this node does not lead."""
        try:
            return ask(self.note.read_text().split()[0], *args)
        except (OSError, IndexError):
            return None

    def put(self, name, value):
        assert self.process.poll() is None, self.log()
        answer = self.ask("PUT", f"/v1/state/jobs/{name}", value.encode())
        return answer is not None and answer.status == 200

    def get(self, name):
        answer = self.ask("GET", f"/v1/state/jobs/{name}")
        return answer.body.decode() if answer is not None and answer.status == 200 else None

    def status(self):
        done = subprocess.run([TENURE, "replica", "status", "--name", "app", "--store",
                               f"file:{self.folder}/lease", "--state", self.url, "--json"],
                              capture_output=True, check=False)
        assert done.returncode in (0, 3), done.stderr
        return json.loads(done.stdout)

    def kill(self):
        """The whole tree, at once: nobody is left who could release anything."""
        for pid in descendants(self.process.pid):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self.process.wait()
        self.note.unlink(missing_ok=True)

    def end(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            self.process.wait(120)


@pytest.fixture
def pair(tmp_path):
    ports = free_port(), free_port()
    nodes = [Node(tmp_path, "a", ports[0], ports[1]), Node(tmp_path, "b", ports[1], ports[0])]
    yield nodes
    for node in nodes:
        node.end()


def put(nodes, name, value):
    """On whichever leads, until it is acknowledged."""
    until(lambda: any(node.put(name, value) for node in nodes))


def test_nothing_acknowledged_is_lost(pair):
    """Semi-sync: the leader's tree is killed, and the next program reads everything."""
    written = {}
    for turn in range(3):
        for i in range(10):
            put(pair, f"{turn}-{i}", f"value {turn}-{i}")
            written[f"{turn}-{i}"] = f"value {turn}-{i}"
        leader = until(lambda: next((n for n in pair if n.get(f"{turn}-9")), None))
        other = pair[1 - pair.index(leader)]
        leader.kill()
        for name, value in written.items():
            until(lambda name=name, value=value: other.get(name) == value)
        leader.start()  # with one copy alone nothing is acknowledged
    put(pair, "last", "one")


def test_status(pair):
    put(pair, "1", "one")
    leader = until(lambda: next((n for n in pair if n.get("1")), None))
    other = pair[1 - pair.index(leader)]
    until(lambda: leader.status()["role"] == "primary" and other.status()["role"] == "standby")
    until(lambda: len(leader.status()["set"]["members"]) == 2)
    seen = other.status()
    assert seen["eligible"] and seen["set"]["member"] and seen["documents"] == 1
    text = subprocess.run([TENURE, "replica", "status", "--name", "app", "--store",
                           f"file:{leader.folder}/lease", "--state", leader.url],
                          capture_output=True, text=True, check=True).stdout
    assert "2 members, this copy is one; semi-sync, acks 1" in text


def test_a_copy_without_what_was_acknowledged_does_not_lead(pair):
    """A node whose disk was lost wins the lease, says why it does not lead, and gives it back."""
    put(pair, "1", "one")
    leader = until(lambda: next((n for n in pair if n.get("1")), None))
    other = pair[1 - pair.index(leader)]
    other.kill()
    leader.kill()
    for file in other.folder.glob(f"{other.id}.db*"):
        file.unlink()
    other.start()
    until(lambda: "not in the replica set" in other.log())
    assert not other.note.exists()
    leader.start()
    until(lambda: leader.get("1") == "one")
    put(pair, "2", "two")  # the new copy has taken the place of the lost one
