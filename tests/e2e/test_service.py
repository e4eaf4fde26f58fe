"""As a service: the unit for systemd (docs/how-to/systemd.md), and the first process of a container."""

import contextlib
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("TENURE_BUILD", ROOT / "build"))
UNIT = ROOT / "contrib" / "systemd" / "tenure@.service"
AGENT = UNIT.with_name("tenure-agent.service")

sys.path.insert(0, str(ROOT / "tests" / "support"))
from process import die_with_parent, until  # noqa: E402


def settings(unit=UNIT):
    """{section: {name: value}}; every line is understood."""
    found, section = {}, None
    for line in unit.read_text().splitlines():
        if not line or line.startswith("#"):
            continue
        head = re.fullmatch(r"\[(\w+)\]", line)
        if head:
            section = found.setdefault(head.group(1), {})
        else:
            name, value = re.fullmatch(r"(\w+)=(.*)", line).groups()
            assert name not in section, f"{name} twice"
            section[name] = value
    return found


def seconds(option):
    told = subprocess.run([BUILD / "tenure", "run", "--help"], capture_output=True, text=True,
                          check=True).stdout
    return int(re.search(rf"{option} (\d+)s", told).group(1))


@pytest.mark.parametrize("path", [UNIT, AGENT], ids=lambda path: path.name)
def test_unit(path):
    unit = settings(path)
    service = unit["Service"]
    assert service["Type"] == "notify"
    # Whatever else would shoot the guard before it has released the lease.
    assert service["KillMode"] == "process"
    assert int(service["TimeoutStopSec"]) > seconds("--grace") + seconds("--hook-timeout")
    # What the guard needs is not taken away.
    for name in ("PrivateDevices", "RestrictNamespaces", "RestrictRealtime", "ProtectControlGroups"):
        assert name not in service
    assert service["Delegate"] == "yes"
    # What can heal is tried again: a share that is mounted later, a program that is installed later.
    assert service["Restart"] == "always" and unit["Unit"]["StartLimitIntervalSec"] == "0"
    assert not [name for name in service if name.startswith(("RestartPrevent", "SuccessExit"))]
    assert unit["Install"]["WantedBy"] == "multi-user.target"


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="systemd is not installed")
@pytest.mark.parametrize("unit", [UNIT, AGENT], ids=lambda path: path.name)
def test_systemd_understands_the_unit(tmp_path, unit):
    place = tmp_path / unit.name.replace("@", "@hello")
    place.write_text(unit.read_text().replace("/usr/local/bin/tenure", str(BUILD / "tenure")))
    done = subprocess.run(["systemd-analyze", "verify", "--man=no", str(place)],
                          capture_output=True, text=True)
    if "Failed to" in done.stderr and str(place) not in done.stderr:
        pytest.skip("systemd-analyze does not work here: " + done.stderr.splitlines()[0])
    complaints = [line for line in done.stderr.splitlines() if "tenure" in line]
    assert not complaints, done.stderr


def test_started_as_the_unit_does(tmp_path):
    """Its command line, with its variables, and with the words that it waits for."""
    path = tmp_path / "notify"
    manager = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    manager.bind(str(path))
    manager.settimeout(60)
    line = settings()["Service"]["ExecStart"].replace("/usr/local/bin/tenure", str(BUILD / "tenure"))
    env = {"PATH": os.environ["PATH"], "TENURE_NAME": "hello", "TENURE_STORE": f"file:{tmp_path}/s",
           "OPTIONS": "--ttl 5s --grace 2s", "COMMAND": "sleep 1000", "NOTIFY_SOCKET": str(path),
           "WATCHDOG_USEC": "400000"}
    process = subprocess.Popen(["sh", "-c", "exec " + line], env=env, stdin=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL, preexec_fn=die_with_parent)
    heard = []

    def hear(word):
        while not any(word in h for h in heard):
            heard.append(manager.recv(4096).decode())

    hear("READY=1")
    hear("STATUS=leading")
    hear("WATCHDOG=1")
    process.terminate()
    hear("STOPPING=1")
    assert process.wait(60) == 128 + signal.SIGTERM  # that of sleep(1)
    manager.close()


# ---- The first process of a container ---------------------------------------

PROGRAM = """
trap 'echo usr1 >> log' USR1
trap 'echo term >> log; exit 7' TERM
echo started >> log
while :; do sleep 0.02; done
"""


def children(pid):
    found = []
    for task in pathlib.Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):  # a thread that has ended
            found += map(int, task.read_text().split())
    return found


def state(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return None


@pytest.mark.skipif(subprocess.run(["unshare", "--pid", "--fork", "--mount-proc", "true"],
                                   capture_output=True).returncode != 0,
                    reason="a PID namespace needs privileges here")
@pytest.mark.parametrize("contain", ["auto", "group"])
def test_first_process_of_a_container(tmp_path, contain):
    """Orphans are reaped, signals reach the program, its code comes out."""
    log = tmp_path / "log"
    log.write_text("")
    outer = subprocess.Popen(
        ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", BUILD / "tenure", "run",
         "--name", "x", "--store", f"file:{tmp_path}/s", "--ttl", "5s", "--contain", contain,
         # What a hook leaves behind: its parent is gone, so it becomes the child of tenure.
         "--on-started", "(setsid sh -c 'sleep 0.3; echo orphan >> log' &)",
         "--", "sh", "-c", PROGRAM],
        cwd=tmp_path, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        preexec_fn=die_with_parent)
    until(lambda: "started" in log.read_text(), 60)
    init = children(outer.pid)[0]
    (tenure,) = children(init)
    until(lambda: "orphan" in log.read_text(), 60)
    # Nobody who ended stays a zombie; only the guard is left.
    until(lambda: len(children(tenure)) == 1 and state(children(tenure)[0]) != "Z", 60)
    os.kill(init, signal.SIGUSR1)
    until(lambda: "usr1" in log.read_text(), 60)
    os.kill(init, signal.SIGTERM)
    assert outer.wait(60) == 7
    assert log.read_text().split()[-1] == "term"
