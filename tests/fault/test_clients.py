"""clients/: one conformance script in each language, against `tenure run` and against a socket that misbehaves."""

import http.server
import json
import os
import pathlib
import shutil
import signal
import socketserver
import subprocess
import sys
import threading
import time

import pytest
from process import die_with_parent, until
from world import TENURE

ROOT = pathlib.Path(__file__).resolve().parents[2]


GO = shutil.which("go", path=os.environ["PATH"] + ":/usr/local/go/bin")


def go_command(folder):
    if not GO:
        pytest.skip("without Go (Debian: golang-go) its client is not tested")
    (folder / "tenure").mkdir()
    shutil.copy(ROOT / "clients/tenure.go", folder / "tenure")
    shutil.copy(ROOT / "tests/clients/conform.go", folder / "main.go")
    (folder / "go.mod").write_text("module conform\n\ngo 1.19\n")
    # As scripts/kube-server builds: the standard library is compiled once for both.
    done = subprocess.run([GO, "build", "-trimpath", "-buildvcs=false", "-o", "conform", "."], cwd=folder,
                          capture_output=True, text=True, timeout=600,
                          env={**os.environ, "GOTOOLCHAIN": "local"})
    assert done.returncode == 0, done.stderr
    return [str(folder / "conform")]


def node_command(folder):
    if not shutil.which("node"):
        pytest.skip("without Node (Debian: nodejs) its client is not tested")
    shutil.copy(ROOT / "clients/tenure.mjs", folder)
    shutil.copy(ROOT / "tests/clients/conform.mjs", folder)
    return ["node", str(folder / "conform.mjs")]


def python_command(folder):
    shutil.copy(ROOT / "clients/tenure.py", folder)
    shutil.copy(ROOT / "tests/clients/conform.py", folder)
    return [sys.executable, str(folder / "conform.py")]


@pytest.fixture(scope="module", params=[python_command, go_command, node_command],
                ids=["python", "go", "node"])
def client(request, tmp_path_factory):
    return request.param(tmp_path_factory.mktemp("client"))


def finish(process):
    out = process.communicate(timeout=60)[0]
    return out.splitlines()


def test_a_term_from_beginning_to_end(client, tmp_path):
    """Documents under the term's epoch, a drain that is pushed, and a last commit within it."""
    store = f"sqlite:{tmp_path}/db"
    out = open(tmp_path / "out", "w+")
    process = subprocess.Popen([TENURE, "run", "--name", "app", "--store", store, "--state", "store", "--ttl", "60s",
                                "--grace", "25s", "--log", "none", "--", *client, "state"],
                               stdin=subprocess.DEVNULL, stdout=out, preexec_fn=die_with_parent)

    def lines():
        assert process.poll() is None, (tmp_path / "out").read_text()
        return (tmp_path / "out").read_text().splitlines()

    until(lambda: "waiting" in lines())
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 0
    out.close()
    epoch, *rest = (tmp_path / "out").read_text().splitlines()
    assert epoch.split()[0] == "epoch" and int(epoch.split()[1]) > 0
    assert rest == ["leads true", "missing true", "got one", "list a b", "deleted true false", "fenced",
                    "refused 404", "waiting", "lost", "last true"]
    done = subprocess.run([TENURE, "state", "--name", "app", "--store", store, "get", "conform/last"],
                          capture_output=True, timeout=60)
    assert done.stdout == b"x", done.stderr


class Fake(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    """A tenure that answers as it is told to, and then not at all."""

    daemon_threads, allow_reuse_address = True, True

    def __init__(self, path, answers, poll_status):
        self.answers, self.lock, self.silent = list(answers), threading.Lock(), threading.Event()
        self.poll_status, self.polls = poll_status, []
        super().__init__(str(path), Handler)

    def get_request(self):
        connection, _ = super().get_request()
        return connection, ("unix", 0)


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_GET(self):
        status = 200
        if "wait=" in self.path:
            self.server.polls.append(time.monotonic())
        if "wait=" in self.path and self.server.answers:
            told, delay, status = {}, 0, self.server.poll_status
        else:
            with self.server.lock:
                told, delay = self.server.answers.pop(0) if self.server.answers else (None, 0)
        time.sleep(delay)
        if told is None:
            self.server.silent.wait()
            return
        body = json.dumps({"name": "app", "draining": False, **told}).encode()
        self.send_response(503 if "error" in told else status)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(body)
        self.close_connection = True


def against(client, path, *answers, mode="wait", poll_status=200):
    """What the script prints when it is answered so, and then never again; and when it polled."""
    with Fake(path, answers, poll_status) as fake:
        threading.Thread(target=fake.serve_forever, daemon=True).start()
        with subprocess.Popen([*client, mode], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                              preexec_fn=die_with_parent, env={**os.environ, "TENURE_SOCKET": str(path)}) as process:
            try:
                until(lambda: fake.polls or process.poll() is not None)
                lines = finish(process)
            finally:
                process.kill()
                fake.silent.set()
                fake.shutdown()
    assert not fake.answers, "it stopped asking"
    return lines, fake.polls


STANDBY = {"leading": False, "epoch": 0, "left_ms": 0, "version": "0"}
LEADING = {"leading": True, "epoch": 7, "left_ms": 1500, "version": "1"}
LONG = {**LEADING, "left_ms": 600000}
LOST = ["epoch 7", "leads true", "waiting", "lost", "leads false"]


def test_time_alone_ends_a_term(client, tmp_path):
    """It waits until it leads; then nobody answers any more, and it does not believe that for ever."""
    assert against(client, tmp_path / "s", (STANDBY, 0), (LEADING, 0))[0] == LOST


def test_what_is_left_counts_from_before_the_request(client, tmp_path):
    """The answer took longer than the term that it tells of."""
    assert against(client, tmp_path / "s", ({**LEADING, "left_ms": 300}, 0.5))[0] == \
        ["epoch 7", "leads false", "waiting", "lost", "leads false"]


def test_a_later_term_is_another_one(client, tmp_path):
    """What was left of the former one does not count any more."""
    assert against(client, tmp_path / "s", (LONG, 0), ({**LONG, "epoch": 9, "version": "2"}, 0))[0] == LOST


def test_a_refused_request_is_repeated_after_a_pause(client, tmp_path):
    """It says nothing about the term, which goes on.  A poll comes after the answer to the one before, and the pause:
    load can only make that longer."""
    lines, polls = against(client, tmp_path / "s", (STANDBY, 0), (LONG, 0), ({"error": "unavailable"}, 0), (LONG, 0),
                           (STANDBY, 0), poll_status=503)
    assert lines == LOST
    assert len(polls) == 4 and all(b - a > 0.1 for a, b in zip(polls, polls[1:])), polls


def test_a_closed_term_lets_the_process_end(client, tmp_path):
    """While its poll is open."""
    assert against(client, tmp_path / "s", (LONG, 0), mode="close")[0] == ["epoch 7", "leads true"]


def test_node_reads_the_clock_to_the_millisecond(tmp_path):
    """30 ms have passed, and the next reading may be 10 ms late."""
    assert against(node_command(tmp_path), tmp_path / "s", (LONG, 0), mode="clock")[0] == ["left 599960"]


def test_without_a_socket_it_says_what_to_do(client):
    env = {name: value for name, value in os.environ.items() if name != "TENURE_SOCKET"}
    done = subprocess.run([*client, "wait"], capture_output=True, text=True, env=env, timeout=60)
    assert done.returncode != 0 and "tenure run --state store" in done.stdout + done.stderr
