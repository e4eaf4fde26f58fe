"""The program's PID namespace has a /proc of its own, and nothing of that is seen elsewhere."""

import json
import subprocess

import pytest
from process import die_with_parent, until
from world import TENURE

# Mounts that the tests make are in a namespace of their own, whose mounts are shared as on a usual host.
HOST = ["unshare", "--mount", "--propagation", "shared"]



def able(*command):
    return subprocess.run([*HOST, *command], capture_output=True).returncode == 0


pytestmark = [
    pytest.mark.skipif(not able("unshare", "--pid", "--fork", "--mount-proc", "true"),
                       reason="namespaces need privileges here"),
    pytest.mark.skipif(not able("sh", "-c", "! grep -q ' /proc/[^ ]* r[ow]' /proc/self/mountinfo"),
                       reason="a part of /proc is hidden here"),
]

# Its number leads to it, as soon as it is itself.
CHILD = """
sleep 600 &
i=0
until [ "$(cat /proc/$!/comm)" = sleep ] || [ $i = 1000 ]; do i=$((i + 1)); sleep 0.01; done
cat /proc/$!/comm
kill $!
"""


def run(program, *options, contain="pidns", first="true"):
    """(What the program prints, how it was contained), on a host where first was done."""
    done = subprocess.run(
        [*HOST, "sh", "-c", first + ' && exec "$@"', "sh", TENURE, "run", "--name", "w", "--store", "noop:",
         "--log", "json", "--contain", contain, *options, "--", "sh", "-c", program],
        capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL)
    assert done.returncode == 0, done
    lines = [json.loads(line) for line in done.stderr.splitlines()]
    (told,) = [line["text"] for line in lines if line["event"] == "running"]
    return done.stdout, told.split("; ")[-1]


@pytest.mark.parametrize("contain", ["auto", "pidns", "userns"])
def test_a_child_is_found_under_its_number(contain):
    if contain == "userns" and not able("unshare", "--user", "true"):
        pytest.skip("user namespaces cannot be had here")
    said, contained = run(CHILD, contain=contain)
    assert said == "sleep\n"
    assert contained == "PID namespace" + " within a user namespace" * (contain == "userns")


def test_a_program_without_privileges_has_it_too():
    said, _ = run(CHILD + "id -u", "--user", "65534")
    assert said == "sleep\n65534\n"


@pytest.mark.parametrize("hide", ["mount --bind /dev/null /proc/version", "mount -o remount,ro,bind /proc"])
def test_what_was_hidden_stays_hidden(hide):
    """A new /proc would show it: the program gets the one there is, and people are told."""
    said, contained = run("cat /proc/self/comm; grep -c ' - proc ' /proc/self/mountinfo", first=hide)
    assert said == "cat\n1\n" and contained == "PID namespace with the host's /proc"
    assert run("true", contain="auto", first=hide)[1] in (contained, "cgroup v2")
    told = subprocess.run([*HOST, "sh", "-c", hide + ' && exec "$@"', "sh", TENURE, "doctor", "--store",
                           "noop:", "--quick", "--json"], capture_output=True, text=True, timeout=60)
    assert json.loads(told.stdout)["guard"]["contain"] in (contained, "cgroup v2")


def test_nothing_leaks(tmp_path):
    """The host's /proc is as it was; what either side mounts or unmounts is seen by the other."""
    (tmp_path / "here").mkdir()
    (tmp_path / "there").mkdir()
    script = f"""
cd {tmp_path}
mount -t tmpfs one here
grep -c ' - proc ' /proc/self/mountinfo > before
"$@" &
until [ -e there/ready ]; do sleep 0.02; done
grep -c ' - proc ' /proc/self/mountinfo > during
umount here
touch unmounted
wait $!
"""
    program = f"""
cd {tmp_path}
mount -t tmpfs two there
touch there/ready
until [ -e unmounted ]; do sleep 0.02; done
grep -c ' - tmpfs one ' /proc/self/mountinfo > after
umount there
"""
    host = subprocess.Popen([*HOST, "sh", "-c", script, "sh", TENURE, "run", "--name", "w", "--store", "noop:",
                             "--log", "none", "--contain", "pidns", "--", "sh", "-c", program],
                            stdin=subprocess.DEVNULL, preexec_fn=die_with_parent)
    try:
        until(lambda: host.poll() is not None)
        assert (tmp_path / "before").read_text() == (tmp_path / "during").read_text()
        assert (tmp_path / "after").read_text() == "0\n"
    finally:
        (tmp_path / "unmounted").touch()  # the program ends, however it went
        host.kill()
        host.wait()
