"""TENURE_SOCKET: what a supervised program can do with its state, and what it cannot."""

import json
import os
import pathlib
import signal
import socket
import sqlite3
import stat
import subprocess
import tempfile
import threading
import time

import pytest
from process import until
from unix_http import Answer, UnixConnection, ask
from world import TENURE

HOLD = ('printf "%s\\n" "$TENURE_SOCKET" "$TENURE_EPOCH" $$ >"$1.new"; mv "$1.new" "$1"; '
        "exec sleep 600")


class Leader:
    """tenure run with a program that tells where its socket is, and waits."""

    number = 0

    def __init__(self, tmp_path, store, *options, ttl="15s"):
        Leader.number += 1
        self.note = tmp_path / f"note{Leader.number}"
        self.process = subprocess.Popen(
            [TENURE, "run", "--name", "app", "--store", store, "--ttl", ttl, "--log", "json",
             *options, "--", "sh", "-c", HOLD, "sh", str(self.note)],
            stdin=subprocess.DEVNULL)
        self.path = self.epoch = self.pid = None

    def leads(self):
        def told():
            assert self.process.poll() is None
            return self.note.exists()
        until(told)
        self.path, self.epoch, self.pid = self.note.read_text().split()
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


@pytest.fixture(scope="module")
def shared_leader(tmp_path_factory):
    """One leader for those who leave nothing behind."""
    folder = tmp_path_factory.mktemp("shared")
    with Leader(folder, f"file:{folder}/lease", "--state", f"sqlite:{folder}/db",
                ttl="60s") as leader:
        leader.database = folder / "db"
        yield leader.leads()


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
        assert ask("PUT", "/v1/state/jobs/%ff", b"x").status == 400  # no list could show it
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
        assert told["name"] == "app" and 0 < told["left_ms"] < 15000
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


def post(leader, *commits, **more):
    return leader.ask("POST", "/v1/state", json.dumps({"commits": commits}), **more)


def test_a_batch(tmp_path, store):
    """Each commit of a batch comes out alone, and is told so."""
    with Leader(tmp_path, store, "--state", "store") as leader:
        leader.leads()
        a = {"collection": "jobs", "id": "a", "data": "one \u00fc"}
        b = {"collection": "other", "id": "b/c", "base64": "AAH/"}
        assert post(leader, a, b, a).json() == {"results": [
            {"status": "ok", "seq": 1}, {"status": "ok", "seq": 1}, {"status": "ok", "seq": 2}]}
        assert leader.ask("GET", "/v1/state/jobs/a").body == "one \u00fc".encode()
        assert leader.ask("GET", "/v1/state/other/b/c").body == b"\0\1\xff"
        gone = {"collection": "jobs", "id": "a", "delete": True}
        assert post(leader, gone).status == 200
        assert leader.ask("GET", "/v1/state/jobs/a").status == 404
        # One is refused: the others are durable all the same.
        assert cli(store, "put", "other/b/c", "--force", input=b"edited").returncode == 0
        answer = post(leader, a, b, {"collection": ".no", "id": "x", "data": ""})
        assert answer.error() == (409, "conflict")
        assert [r["status"] for r in answer.json()["results"]] == ["ok", "conflict", "invalid"]
        assert leader.ask("GET", "/v1/state/jobs/a").status == 200
        assert leader.ask("GET", "/v1/state/other/b/c").body == b"edited"
        many = [{"collection": "many", "id": str(i), "data": str(i)} for i in range(3000)]
        assert all(r["status"] == "ok" for r in post(leader, *many).json()["results"])
        assert leader.ask("GET", "/v1/state/many/2999").body == b"2999"
        assert post(leader, a, headers={"Tenure-Epoch": "7"}).error() == (409, "fenced")


@pytest.mark.parametrize("body", [
    b"", b"{", b"[]", b"{}", b'{"commits": []}', b'{"commits": [1]}', b'{"commits": {"id": "a"}}',
    b'{"commits": [{"collection": "a", "id": "b"}]}',
    b'{"commits": [{"collection": "a", "id": "", "data": "x"}]}',
    b'{"commits": [{"collection": "a", "id": "b\\u0000", "data": "x"}]}',
    b'{"commits": [{"collection": "a", "id": "b", "data": 1}]}',
    b'{"commits": [{"collection": "a", "id": "b", "data": "x", "delete": true}]}',
    b'{"commits": [{"collection": "a", "id": "b", "delete": false}]}',
    b'{"commits": [{"collection": "a", "id": "b", "base64": "?"}]}'])
def test_a_batch_that_is_none(shared_leader, body):
    assert shared_leader.ask("POST", "/v1/state", body).error() == (400, "invalid")
    assert shared_leader.ask("GET", "/v1/state/a").json() == {"documents": []}


def test_a_store_that_hangs_keeps_nobody_waiting(shared_leader):
    """A commit waits for the database's lock; who asks for something else is answered."""
    lock = sqlite3.connect(shared_leader.database, isolation_level=None)
    answers = []
    lock.execute("BEGIN IMMEDIATE")
    try:
        writers = [threading.Thread(target=lambda i=i: answers.append(
            shared_leader.ask("PUT", f"/v1/state/held/{i}", b"x"))) for i in range(5)]
        for writer in writers:
            writer.start()
        for _ in range(3):
            assert shared_leader.ask("GET", "/v1/leadership").json()["leading"] is True
        assert answers == []
    finally:
        lock.execute("ROLLBACK")
        lock.close()
    for writer in writers:
        writer.join()
    assert [a.status for a in answers] == [200] * 5


def test_many_connections(tmp_path, store):
    """Commits of one document by many: each has a number of its own, and the last one stays."""
    with Leader(tmp_path, store, "--state", "store") as leader:
        leader.leads()
        told = []

        def write(i):
            connection = UnixConnection(leader.path)
            for k in range(10):
                for target in ("shared", f"own{i}"):
                    connection.request("PUT", f"/v1/state/jobs/{target}", b"%d %d" % (i, k))
                    answer = Answer(connection.getresponse())
                    assert answer.status == 200, answer.body
                    told.append((target, answer.json()["seq"], b"%d %d" % (i, k)))
            connection.close()

        threads = [threading.Thread(target=write, args=(i,)) for i in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(told) == 16 * 20
        shared = sorted(t[1:] for t in told if t[0] == "shared")
        assert [seq for seq, _ in shared] == list(range(1, 161))
        assert leader.ask("GET", "/v1/state/jobs/shared").body == shared[-1][1]
        for i in range(16):
            assert leader.ask("GET", f"/v1/state/jobs/own{i}").body == b"%d 9" % i


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
            until(lambda: first.note.read_text().split()[1] != first.epoch)
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


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to run a program as somebody else")
def test_that_user_cannot_have_something_else_given_to_it(tmp_path):
    """A process of that user puts a link where the socket is, before that is given to the user."""
    if subprocess.run(["strace", "-o", "/dev/null", "true"], stderr=subprocess.DEVNULL).returncode:
        pytest.skip("tracing is not allowed here")
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        victim = pathlib.Path(folder) / "victim"
        victim.write_text("of root\n")
        run = subprocess.Popen(
            ["strace", "-f", "-o", "/dev/null", "-e", "trace=/chown", "-e",
             "inject=/chown:delay_enter=500000", TENURE, "run", "--name", "app", "--store",
             f"file:{tmp_path}/store", "--socket", "--user", "nobody", "--chdir", "/", "--", "sh",
             "-c", "echo on; read end"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            env={**os.environ, "XDG_RUNTIME_DIR": folder})
        swap = (f"until at=$(ls {folder}/tenure-*/socket) && rm $at && ln -s {victim} $at; "
                "do sleep 0.01; done")
        try:
            subprocess.run(["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "sh",
                            "-c", swap], check=True, timeout=60, stderr=subprocess.DEVNULL)
            assert run.stdout.readline() == b"on\n"
            assert victim.stat().st_uid == 0
        finally:
            run.communicate(timeout=60)


def where(tmp_path, runtime):
    """Where the socket's directory is made, and what is said about it."""
    done = subprocess.run([TENURE, "run", "--name", "app", "--store", f"file:{tmp_path}/store", "--socket",
                           "--log", "text", "--", "sh", "-c", 'dirname "$(dirname "$TENURE_SOCKET")"'],
                          capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL,
                          env={**os.environ, "XDG_RUNTIME_DIR": str(runtime)})
    assert done.returncode == 0, done
    return done.stdout.strip(), done.stderr


@pytest.mark.parametrize("mode", [0o700, 0o755, 0o1777])
def test_a_runtime_directory_that_is_ours(tmp_path, mode):
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, mode)
        place, said = where(tmp_path, folder)
        assert place == folder and "XDG_RUNTIME_DIR" not in said


def strangers(folder):
    os.chown(folder, 65534, 65534)
    return folder


def open_to_all(folder):
    os.chmod(folder, 0o777)
    return folder


def link(folder):
    os.symlink(".", folder + "/link")
    return folder + "/link"


@pytest.mark.parametrize("spoil, why", [
    pytest.param(strangers, "it belongs to another user",
                 marks=pytest.mark.skipif(os.geteuid() != 0, reason="needs root")),
    (open_to_all, "others may write there"),
    (link, "it is not a directory"),
    (lambda folder: folder + "/none", "No such file or directory"),
    (lambda folder: "relative", "it is not an absolute path"),
], ids=["stranger's", "open", "link", "none", "relative"])
def test_a_runtime_directory_that_is_not(tmp_path, spoil, why):
    """Whoever owns it could put another directory in the place of ours."""
    with tempfile.TemporaryDirectory() as folder:
        runtime = spoil(folder)
        place, said = where(tmp_path, runtime)
        assert place in ("/run", "/tmp")
        assert f"XDG_RUNTIME_DIR {runtime} is not used: {why}" in said


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


def held_epoch(store):
    told = subprocess.run([TENURE, "status", "--json", "--store", store, "--name", "app"],
                          capture_output=True, timeout=60).stdout
    status = json.loads(told) if told else {}
    return str(status["epoch"]) if status.get("state") == "held" else None


@pytest.mark.parametrize("on_exit", ["restart", "yield"])
def test_what_a_dead_program_asked_for_is_not_done_for_the_next(tmp_path, on_exit):
    """A commit hangs in the store, others wait behind it, and the program dies.  Once the next one
    runs (restart), or the next term is won (yield), nothing of the dead one's is begun."""
    lease = f"file:{tmp_path}/lease"
    with Leader(tmp_path, lease, "--state", f"sqlite:{tmp_path}/db", "--on-exit", on_exit,
                ttl="60s") as leader:
        leader.leads()
        for name in ("x", "y", "z"):
            assert leader.ask("PUT", f"/v1/state/jobs/{name}", b"good").status == 200
        hangs, waits, idle = (UnixConnection(leader.path) for _ in range(3))
        idle.request("GET", "/v1/leadership")
        assert Answer(idle.getresponse()).json()["leading"] is True
        lock = sqlite3.connect(tmp_path / "db", isolation_level=None)
        lock.execute("BEGIN IMMEDIATE")
        try:
            hangs.request("PUT", "/v1/state/jobs/hangs", b"x")
            time.sleep(0.3)  # it is in the store
            waits.request("PUT", "/v1/state/jobs/x", b"of the dead")
            hangs.sock.sendall(b"PUT /v1/state/jobs/y HTTP/1.1\r\nHost: x\r\n"
                               b"Content-Length: 11\r\n\r\nof the dead")  # not even read yet
            time.sleep(0.2)
            before = leader.note.read_text()
            os.kill(int(leader.pid), signal.SIGKILL)
            if on_exit == "restart":
                until(lambda: leader.note.read_text() != before)
            else:
                until(lambda: held_epoch(lease) not in (None, leader.epoch))
        finally:
            lock.execute("ROLLBACK")
            lock.close()
        until(lambda: leader.note.read_text() != before)
        assert Answer(waits.getresponse()).error() == (409, "not-leader")
        answers = b""
        while part := hangs.sock.recv(4096):  # hung up on
            answers += part
        assert answers.count(b"HTTP/1.1 ") == 2 and answers.count(b" 409 Conflict") >= 1, answers
        idle.request("PUT", "/v1/state/jobs/z", b"of the dead")
        refused = Answer(idle.getresponse())
        assert refused.error() == (409, "not-leader") and refused.headers["Connection"] == "close"
        leader.leads()
        for name in ("x", "y", "z"):
            assert leader.ask("GET", f"/v1/state/jobs/{name}").body == b"good"
        assert leader.ask("PUT", "/v1/state/jobs/x", b"of the next").status == 200


def test_a_zero_byte_names_nothing(shared_leader):
    """"a%00b" is not "a"."""
    assert shared_leader.ask("PUT", "/v1/state/zero/a", b"one").status == 200
    for method, body in (("PUT", b"two"), ("GET", None), ("DELETE", None)):
        assert shared_leader.ask(method, "/v1/state/zero/a%00b", body).status == 404
    assert shared_leader.ask("GET", "/v1/state/zero/a").body == b"one"


def test_a_delete_does_not_undo_an_edit(tmp_path, store):
    """The operator's edit is news to the program, also if it only means to delete."""
    with Leader(tmp_path, store, "--state", "store") as leader:
        ask = leader.leads().ask
        assert ask("PUT", "/v1/state/jobs/a", b"one").status == 200
        assert cli(store, "put", "jobs/a", "--force", input=b"edited").returncode == 0
        assert ask("DELETE", "/v1/state/jobs/a").error() == (409, "conflict")
        assert ask("GET", "/v1/state/jobs/a").body == b"edited"
        assert ask("DELETE", "/v1/state/jobs/a").status == 200
        assert cli(store, "put", "jobs/a", "--force", input=b"back").returncode == 0
        assert ask("PUT", "/v1/state/jobs/a", b"two").error() == (409, "conflict")
        assert ask("DELETE", "/v1/state/jobs/a").error() == (409, "conflict")
        assert ask("GET", "/v1/state/jobs/a").body == b"back"
