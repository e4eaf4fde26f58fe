"""TENURE_SOCKET: what a supervised program can do with its state, and what it cannot."""

import os
import pathlib
import signal
import socket
import stat
import subprocess

import pytest
from process import until
from unix_http import UnixConnection, ask
from world import TENURE

HOLD = 'printf "%s\\n%s\\n" "$TENURE_SOCKET" "$TENURE_EPOCH" >"$1.new"; mv "$1.new" "$1"; exec sleep 600'


class Leader:
    """tenure run with a program that tells where its socket is, and waits."""

    number = 0

    def __init__(self, tmp_path, store, *options):
        Leader.number += 1
        self.note = tmp_path / f"note{Leader.number}"
        self.process = subprocess.Popen(
            [TENURE, "run", "--name", "app", "--store", store, "--ttl", "5s", "--log", "json",
             *options, "--", "sh", "-c", HOLD, "sh", str(self.note)],
            stdin=subprocess.DEVNULL)
        self.path = self.epoch = None

    def leads(self):
        def told():
            assert self.process.poll() is None
            return self.note.exists()
        until(told, limit=60)
        self.path, self.epoch = self.note.read_text().split()
        return self

    def ask(self, *args, **more):
        return ask(self.path, *args, **more)

    def end(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            self.process.wait(60)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end()


@pytest.fixture(params=["sqlite", "file"])
def store(request, tmp_path):
    return {"sqlite": f"sqlite:{tmp_path}/db", "file": f"file:{tmp_path}/store"}[request.param]


def cli(store, *args, **more):
    return subprocess.run([TENURE, "state", *args, "--store", store, "--name", "app"],
                          capture_output=True, timeout=60, **more)


def test_documents(tmp_path, store):
    with Leader(tmp_path, store, "--state", "store") as leader:
        ask = leader.leads().ask
        assert ask("GET", "/v1/state/jobs/a").error() == (404, "not-found")
        assert ask("GET", "/v1/state/jobs").json() == {"documents": []}
        assert ask("PUT", "/v1/state/jobs/a", b"one").json() == {"seq": 1}
        assert ask("PUT", "/v1/state/jobs/a", b"\0two\xff").json() == {"seq": 2}
        assert ask("PUT", "/v1/state/jobs/with%2Fslash%20and%C3%BC", b"").status == 200
        got = ask("GET", "/v1/state/jobs/a")
        assert (got.status, got.body) == (200, b"\0two\xff")
        assert got.headers["Tenure-Seq"] == "2"
        assert got.headers["Tenure-Epoch"] == leader.epoch
        assert got.headers["Tenure-Edited"] == "false"
        ids = [d["id"] for d in ask("GET", "/v1/state/jobs").json()["documents"]]
        assert ids == ["a", "with/slash andü"]
        assert ask("GET", "/v1/state/jobs/with/slash%20and%C3%BC").body == b""
        assert ask("DELETE", "/v1/state/jobs/a").status == 200
        assert ask("DELETE", "/v1/state/jobs/a").error() == (404, "not-found")
        assert ask("GET", "/v1/state/jobs/a").error() == (404, "not-found")
        assert ask("PUT", "/v1/state/jobs/a", b"again").status == 200
        told = ask("GET", "/v1/leadership").json()
        assert told["leading"] is True and str(told["epoch"]) == leader.epoch
        assert told["name"] == "app" and 0 < told["left_ms"] < 5000
    done = cli(store, "get", "jobs/a")
    assert done.stdout == b"again", done.stderr


def test_refusals(tmp_path, store):
    with Leader(tmp_path, store, "--socket") as leader:
        ask = leader.leads().ask
        biggest = (1 << 20) - 4096
        assert ask("PUT", "/v1/state/jobs/big", b"x" * biggest).status == 200
        assert len(ask("GET", "/v1/state/jobs/big").body) == biggest
        assert ask("PUT", "/v1/state/jobs/big", b"x" * (biggest + 1)).status == 413
        assert ask("PUT", "/v1/state/jobs/big", b"x" * (3 << 20)).status == 413
        assert ask("POST", "/v1/state/jobs/a", b"x").status == 405
        assert ask("PUT", "/v1/state/jobs", b"x").status == 405
        assert ask("GET", "/v1/state/").status == 404
        assert ask("GET", "/v1/nothing").status == 404
        assert ask("PUT", "/v1/state/.hidden/a", b"x").error() == (400, "invalid")
        assert ask("PUT", "/v1/state/jobs/" + "x" * 300, b"x").error() == (400, "invalid")
        assert ask("PUT", "/v1/state/jobs/a", b"x",
                   headers={"Tenure-Epoch": "7"}).error() == (409, "fenced")
        assert ask("PUT", "/v1/state/jobs/a", b"x",
                   headers={"Tenure-Epoch": leader.epoch}).status == 200
        assert ask("GET", "/v1/leadership").json()["leading"] is True


def test_an_edit_is_told_and_adopted(tmp_path, store):
    with Leader(tmp_path, store, "--state", "store") as leader:
        ask = leader.leads().ask
        assert ask("PUT", "/v1/state/jobs/a", b"one").status == 200
        refused = cli(store, "put", "jobs/a", input=b"edited")
        assert refused.returncode == 1 and b"--force" in refused.stderr
        assert cli(store, "put", "jobs/a", "--force", input=b"edited").returncode == 0
        for _ in range(2):
            assert ask("PUT", "/v1/state/jobs/a", b"two").error() == (409, "conflict")
        got = ask("GET", "/v1/state/jobs/a")
        assert (got.body, got.headers["Tenure-Edited"]) == (b"edited", "true")
        assert ask("PUT", "/v1/state/jobs/a", b"two").status == 200


def test_a_stopped_leader_is_fenced(tmp_path, store):
    """Its state is elsewhere than its lease, and knows a later leader."""
    other = f"file:{tmp_path}/other"
    with Leader(tmp_path, store, "--state", other) as first:
        assert first.leads().ask("PUT", "/v1/state/jobs/a", b"one").status == 200
        # A leader of another lease record: as after a loss of the first one's.
        with Leader(tmp_path, f"file:{tmp_path}/lost", "--state", other, "--seal", "jobs") as second:
            assert int(second.leads().epoch) > int(first.epoch)
            assert first.ask("PUT", "/v1/state/jobs/a", b"stale").error() == (409, "fenced")
            assert second.ask("GET", "/v1/state/jobs/a").body == b"one"
            assert second.ask("PUT", "/v1/state/jobs/a", b"two").status == 200
            # The first one leads its own lease again, above the floor; then the second is stale.
            first.note.unlink(missing_ok=True)
            first.leads()
            assert int(first.epoch) > int(second.epoch)
            assert first.ask("GET", "/v1/state/jobs/a").body == b"two"


def test_the_next_leader_loads_it(tmp_path, store):
    with Leader(tmp_path, store, "--state", "store") as first:
        first.leads()
        with Leader(tmp_path, store, "--state", "store") as second:
            for i in range(20):
                assert first.ask("PUT", f"/v1/state/jobs/{i}", b"%d" % i).status == 200
            first.end()
            second.leads()
            for i in range(20):
                assert second.ask("GET", f"/v1/state/jobs/{i}").body == b"%d" % i


def test_place_and_rights(tmp_path):
    with Leader(tmp_path, f"file:{tmp_path}/store", "--socket") as leader:
        path = pathlib.Path(leader.leads().path)
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        if os.geteuid() == 0:
            path.parent.chmod(0o711)
            path.chmod(0o666)
            done = subprocess.run(["setpriv", "--reuid=nobody", "--clear-groups", "curl", "-s",
                                   "--unix-socket", path, "http://x/v1/leadership"],
                                  capture_output=True, timeout=60)
            assert b"denied" in done.stdout, done.stderr
    assert not path.parent.exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to run a program as somebody else")
def test_program_of_another_user(tmp_path):
    done = subprocess.run(
        [TENURE, "run", "--name", "app", "--store", f"file:{tmp_path}/store", "--socket",
         "--user", "nobody", "--chdir", "/", "--", "sh", "-c",
         'id -u; curl -s --unix-socket "$TENURE_SOCKET" http://x/v1/leadership'],
        capture_output=True, timeout=60, stdin=subprocess.DEVNULL)
    assert done.stdout.startswith(b"65534\n") and b'"leading":true' in done.stdout, done


def test_no_socket_unless_asked_for(tmp_path):
    done = subprocess.run([TENURE, "run", "--name", "app", "--store", f"file:{tmp_path}/store", "--",
                           "sh", "-c", "echo ${TENURE_SOCKET-none}"],
                          capture_output=True, timeout=60)
    assert done.stdout == b"none\n"


def test_hostile_requests(tmp_path):
    """Nothing of this ends the server; the one behind it is answered."""
    with Leader(tmp_path, f"file:{tmp_path}/store", "--socket") as leader:
        leader.leads()
        for text in (b"\0\0\0\0", b"GET\r\n\r\n", b"PUT /v1/state/a/b HTTP/1.1\r\nHost: x\r\n"
                     b"Content-Length: 99999999999999999999\r\n\r\n",
                     b"PUT /v1/state/a/b HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
                     b"PUT /v1/state/a/b HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
                     b"GET /" + b"x" * 60000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
                     b"GET /v1/state/%00/%00 HTTP/1.1\r\nHost: x\r\n\r\n",
                     b"GET /v1/state/a/%ff%fe HTTP/1.1\r\nHost: x\r\n\r\n",
                     b"PUT /v1/state/a/b HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nhalf"):
            raw = socket.socket(socket.AF_UNIX)
            raw.connect(leader.path)
            raw.sendall(text)
            raw.close()
        # One connection, many requests.
        kept = UnixConnection(leader.path)
        for i in range(50):
            kept.request("PUT", "/v1/state/jobs/kept", b"%d" % i)
            answer = kept.getresponse()
            assert answer.status == 200, answer.read()
            answer.read()
        kept.close()
        assert leader.ask("GET", "/v1/state/a/b").status == 404
        assert leader.ask("GET", "/v1/state/jobs/kept").body == b"49"
