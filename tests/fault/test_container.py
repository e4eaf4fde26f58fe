"""tenure as the first process of a container: a crash of it costs no more there than elsewhere.

The ttl is ten minutes, so whoever leads within a test was not helped by it.
"""

import contextlib
import json
import os
import pathlib
import re
import signal
import subprocess

import pytest
import server_redis
from process import die_with_parent, until
from server_redis import Redis
from world import TENURE, alive, children, comm, descendants

CONTAINER = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]

pytestmark = pytest.mark.skipif(subprocess.run([*CONTAINER, "true"], capture_output=True).returncode != 0,
                                reason="a PID namespace needs privileges here")


class Container:
    """A command as the first process of a PID namespace."""

    def __init__(self, folder, *command, **more):
        self.path = pathlib.Path(folder) / "container.log"
        self.log = open(self.path, "w+")
        self.process = subprocess.Popen([*CONTAINER, TENURE, *command], stdin=subprocess.DEVNULL,
                                        stderr=self.log, preexec_fn=die_with_parent, **more)

    def init(self):
        return until(lambda: [pid for pid in children(self.process.pid) if comm(pid) == "tenure-init"])[0]

    def tenure(self):
        return until(lambda: children(self.init()))[0]

    def says(self, text):
        until(lambda: text in self.path.read_text())

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.log.close()


@contextlib.contextmanager
def standby(url, id="outside"):
    """One on the host, which waits."""
    with subprocess.Popen([TENURE, "run", "--name", "w", "--store", url, "--id", id, "--ttl", "10m",
                           "--log", "none", "--", "sleep", "600"], stdin=subprocess.DEVNULL,
                          preexec_fn=die_with_parent) as process:
        try:
            until(lambda: holder(url, "candidates") and id in holder(url, "candidates"))
            yield process
        finally:
            process.terminate()


def holder(url, verb="status"):
    """Who leads; or all candidates."""
    done = subprocess.run([TENURE, verb, "--name", "w", "--store", url, "--json"], capture_output=True)
    found = json.loads(done.stdout or "null")
    return found.get("holder") if verb == "status" else [one["id"] for one in found or []]


def run(url, *options):
    return ["run", "--name", "w", "--store", url, "--id", "inside", "--ttl", "10m", "--log", "text",
            *options, "--", "sleep", "600"]


@pytest.fixture(params=["file", "redis"])
def url(request, tmp_path):
    if request.param == "file":
        yield f"file:{tmp_path}/store"
        return
    if server_redis.MISSING:
        pytest.skip(server_redis.MISSING)
    with Redis() as server:
        yield f"redis://127.0.0.1:{server.port}"


@pytest.mark.parametrize("contain", ["pidns", "group"])
def test_a_crash_frees_the_lease(tmp_path, url, contain):
    with Container(tmp_path, *run(url, "--contain", contain)) as inside:
        inside.says("leading")
        with standby(url):
            os.kill(inside.tenure(), signal.SIGKILL)
            assert inside.process.wait(60) == 128 + signal.SIGKILL
            until(lambda: holder(url) == "outside")


@contextlib.contextmanager
def an_agent(tmp_path):
    """An agent that leads in a container, with a standby outside: the container, and the URL."""
    url = f"file:{tmp_path}/store"
    config = tmp_path / "tenure.yaml"
    config.write_text(f"""
elections:
  - name: w
    coordinate: {{store: "{url}", holder_id: inside, ttl: 10m}}
    run: {{command: [sleep, "600"]}}
""")
    with Container(tmp_path, "agent", "--config", config, "--log", "text") as inside:
        inside.says("leading")
        with standby(url):
            yield inside, url


def test_an_agent_that_crashes(tmp_path):
    """Its elections are asked to stop, and the container waits for them."""
    with an_agent(tmp_path) as (inside, url):
        os.kill(inside.tenure(), signal.SIGKILL)
        assert inside.process.wait(60) == 128 + signal.SIGKILL
        until(lambda: holder(url) == "outside")


def test_an_agent_that_crashes_with_its_election(tmp_path):
    """The container waits for the guard, which nobody else is left to wait for."""
    with an_agent(tmp_path) as (inside, url):
        agent = inside.tenure()
        (election,) = children(agent)
        os.kill(agent, signal.SIGSTOP)  # it does not start another one
        os.kill(election, signal.SIGKILL)
        os.kill(agent, signal.SIGKILL)
        assert inside.process.wait(60) == 128 + signal.SIGKILL
        until(lambda: holder(url) == "outside")


def test_daemons_do_not_keep_it(tmp_path):
    """What a standby's hook left behind is not waited for, and ends with the container."""
    url = f"file:{tmp_path}/store"
    with standby(url):
        with Container(tmp_path, *run(url, "--on-new-leader", "setsid sleep 600 &")) as inside:
            inside.says("outside leads")
            daemon = until(lambda: [pid for pid in descendants(inside.init()) if comm(pid) == "sleep"])[0]
            os.kill(inside.tenure(), signal.SIGKILL)
            assert inside.process.wait(60) == 128 + signal.SIGKILL
            until(lambda: not alive(daemon))


def test_what_is_typed_arrives_once(tmp_path):
    """A second INT would kill the program instead of asking it."""
    url = f"file:{tmp_path}/store"
    command = [*CONTAINER, str(TENURE), *run(url)[:-2], "sh", "-c",
               "trap 'sleep 0.5; exit 7' INT; echo ready >&2; while :; do sleep 0.05; done"]
    leader, follower = os.openpty()
    # In the background INT is ignored, and what is ignored at the start stays so in a shell.
    code = ("import fcntl, os, signal, sys, termios; os.setsid(); fcntl.ioctl(0, termios.TIOCSCTTY, 0);"
            "signal.signal(signal.SIGINT, signal.SIG_DFL); os.execvp(sys.argv[1], sys.argv[1:])")
    with open(tmp_path / "log", "w") as log:
        process = subprocess.Popen(["python3", "-c", code, *command], stdin=follower, stdout=follower,
                                   stderr=log, preexec_fn=die_with_parent)
    os.close(follower)
    try:
        until(lambda: "ready" in (tmp_path / "log").read_text())
        os.write(leader, b"\x03")
        assert process.wait(60) == 7
        assert len(re.findall("asked", (tmp_path / "log").read_text())) == 1
    finally:
        process.kill()
        process.wait()
        os.close(leader)
