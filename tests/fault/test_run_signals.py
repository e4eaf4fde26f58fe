"""Asked to stop, asked twice, and what is passed on."""

import fcntl
import os
import pty
import signal
import socket
import subprocess
import termios
import time

import pytest
import world as w
from terminal import Terminal
from world import TENURE, World, eventually

IS_ROOT = os.geteuid() == 0
CONTAINS = ["group"] + (["pidns"] if IS_ROOT else [])


def take_away(world):
    """The lease is given to nobody; a renewal may come between its look and its swap."""
    command = [TENURE, "reset", "--force", "--name", "w", "--store", world.url]
    eventually("it is taken", lambda: subprocess.run(command, capture_output=True).returncode == 0)


def state(world):
    done = subprocess.run(
        [TENURE, "status", "--name", "w", "--store", world.url, "--json"], capture_output=True
    )
    return done.stdout.decode()


@pytest.mark.parametrize("contain", CONTAINS)
def test_drain(contain):
    """TERM reaches the program, renewals go on while it takes its time, then the lease is free."""
    with World(ttl_ms=6000, options=["--contain", contain, "--renew", "500ms"],
               words=["slow=6800"]) as world:
        first = world.start()
        row = world.next_leader(0)
        world.start()
        first.signal(signal.SIGTERM)
        assert first.wait() == 0
        # It drained for longer than a ttl, and nobody started meanwhile.
        told = world.table.programs()[0]
        assert told.told == signal.SIGTERM
        assert told.last - told.started >= 6_000_000_000
        world.next_leader(row.epoch)


def test_drain_ends_with_the_grace():
    with World(ttl_ms=15000, options=["--grace", "300ms"], words=["stubborn"]) as world:
        c = world.start()
        world.next_leader(0)
        c.signal(signal.SIGTERM)
        assert c.wait() == 128 + signal.SIGKILL
        assert '"state":"free"' in state(world)


def test_second_term_hastens():
    with World(ttl_ms=15000, options=["--grace", "10m"], words=["stubborn"]) as world:
        c = world.start()
        world.next_leader(0)
        c.signal(signal.SIGTERM)
        eventually("the first word", lambda: "asked to stop" in c.words())

        def ask_again():
            c.signal(signal.SIGTERM)  # within the same second: the same request
            return "asked again" in c.words()

        eventually("the second word", ask_again)
        assert c.wait() == 128 + signal.SIGKILL
        assert '"state":"free"' in state(world)


def test_quit_hastens_at_once():
    with World(ttl_ms=15000, options=["--grace", "10m"], words=["stubborn"]) as world:
        c = world.start()
        world.next_leader(0)
        c.signal(signal.SIGTERM)
        eventually("the first word", lambda: "asked to stop" in c.words())
        c.signal(signal.SIGQUIT)
        assert c.wait() == 128 + signal.SIGKILL


@pytest.mark.parametrize("trial", range(3))
def test_timeout_leaves_the_grace(trial):
    """timeout(1) sends TERM to tenure and then to its group: that is one request."""
    with World(ttl_ms=15000, words=["slow=300"]) as world:
        c = world.start(wrap=["timeout", "600"])
        world.next_leader(0)
        c.signal(signal.SIGALRM)  # its time is over
        assert c.wait() == 124, c.words()
        eventually("the lease is free", lambda: '"state":"free"' in state(world))
        assert "killing" not in c.words()
        assert world.table.programs()[0].told == signal.SIGTERM


@pytest.mark.parametrize("contain", CONTAINS)
def test_a_stopped_program_sees_its_stop_signal(contain):
    """CONT follows the stop signal: what a debugger or an operator stopped has its grace too."""
    with World(ttl_ms=15000, options=["--contain", contain, "--grace", "10m"]) as world:
        c = world.start()
        world.next_leader(0)
        program = next(p for p in w.descendants(c.pid) if w.comm(p) == "witness")
        w.freeze(program)
        c.signal(signal.SIGTERM)
        assert c.wait() == 0
        assert world.table.programs()[0].told == signal.SIGTERM


def test_standby_stops_at_once():
    with World(ttl_ms=15000) as world:
        world.start()
        world.next_leader(0)
        standby = world.start()
        eventually("the standby", lambda: "leads" in standby.words())
        standby.signal(signal.SIGTERM)
        assert standby.wait() == 0
        assert len(world.table.programs()) == 1


def test_stop_signal():
    with World(ttl_ms=15000, options=["--stop-signal", "USR1"]) as world:
        c = world.start()
        world.next_leader(0)
        c.signal(signal.SIGTERM)
        assert c.wait() == 0
        assert world.table.programs()[0].told == signal.SIGUSR1


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGQUIT])
def test_every_request_follows_the_stop_signal(number):
    with World(ttl_ms=15000, options=["--stop-signal", "USR1"]) as world:
        c = world.start()
        world.next_leader(0)
        c.signal(number)
        assert c.wait() == 0
        assert world.table.programs()[0].told == signal.SIGUSR1


def test_interrupt_is_passed_on_as_such():
    with World(ttl_ms=15000) as world:
        c = world.start()
        world.next_leader(0)
        c.signal(signal.SIGINT)
        assert c.wait() == 0
        assert world.table.programs()[0].told == signal.SIGINT


@pytest.mark.parametrize("contain", CONTAINS)
@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2,
                                    signal.SIGWINCH, signal.SIGRTMIN + 3])
def test_forwarded(contain, number, tmp_path):
    said = tmp_path / "said"
    script = f"trap 'echo caught >> {said}' {int(number)}; touch {said}; while :; do sleep 0.01; done"
    with World(ttl_ms=15000, options=["--contain", contain]) as world:
        # Under nohup(1) it would be ignored, and a shell cannot change that.
        c = world.start(command=["env", f"--default-signal={int(number)}", "bash", "-c", script])
        eventually("the trap", said.exists)
        c.signal(number)
        eventually("the signal", lambda: "caught" in said.read_text())
        assert c.proc.poll() is None


@pytest.mark.parametrize("nohup", [False, True])
def test_the_terminal_hangs_up(nohup, tmp_path):
    """The end of a terminal is ours too, unless it was started by nohup(1)."""
    said, log = tmp_path / "said", tmp_path / "log"
    # Not bash, which may forget a signal that comes while its trap runs: 5 of 300.
    script = f"trap 'echo caught >> {said}' HUP; touch {said}; while :; do sleep 0.01; done"
    default = ["env", "--default-signal=HUP"]  # whatever we were started by
    terminal, end = pty.openpty()
    with open(log, "ab") as out:
        c = subprocess.Popen(
            [*default, *(["nohup"] if nohup else []), TENURE, "run", "--name", "w", "--log", "text",
             "--store", "noop:", "--", *default, "dash", "-c", script],
            stdin=end, stdout=out, stderr=out, start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
    try:
        for n in (1, 2):
            eventually("the trap", said.exists)
            c.send_signal(signal.SIGHUP)
            eventually("the signal", lambda: said.read_text().count("caught") >= n)
            if not nohup:
                break
        assert ("asked to stop" in log.read_text()) != nohup
        c.send_signal(signal.SIGTERM)
        eventually("the word", lambda: "asked to stop" in log.read_text())
        c.send_signal(signal.SIGQUIT)
        c.wait(w.PATIENCE)
    finally:
        c.kill()
        c.wait()
        os.close(end)
        os.close(terminal)


def test_loss_ends_the_program_and_contends_again(tmp_path):
    """Another grant in the store: the program is ended at once, and the candidate goes on."""
    with World(ttl_ms=3000) as world:
        c = world.start()
        row = world.next_leader(0)
        take_away(world)
        world.next_leader(row.epoch)
        world.dead(row.epoch)
        assert c.proc.poll() is None


def test_loss_can_be_the_end():
    with World(ttl_ms=3000, options=["--on-loss", "exit"]) as world:
        c = world.start()
        world.next_leader(0)
        take_away(world)
        assert c.wait() == 124


def test_service_manager_is_told(tmp_path):
    path = tmp_path / "notify"
    manager = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    manager.bind(str(path))
    manager.settimeout(w.PATIENCE)
    env = dict(os.environ, NOTIFY_SOCKET=str(path), WATCHDOG_USEC="200000")
    heard = []

    def hear(word):
        while not any(word in h for h in heard):
            heard.append(manager.recv(4096).decode())

    with World(ttl_ms=15000) as world:
        c = world.start(env=env)
        hear("READY=1")
        hear("STATUS=leading")
        heard.clear()
        hear("WATCHDOG=1")
        heard.clear()
        hear("WATCHDOG=1")  # and again: it goes on
        c.signal(signal.SIGTERM)
        hear("STOPPING=1")
        assert c.wait() == 0
    manager.close()


@pytest.mark.skipif(not IS_ROOT, reason="a PID namespace needs privileges here")
def test_as_pid_one(tmp_path):
    """As in a container: it reaps what others leave, forwards, drains, and its end is the end."""
    contain = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]
    if subprocess.run([*contain, "true"], capture_output=True).returncode != 0:
        pytest.skip("PID namespaces cannot be had here (in a chroot that is no mount point?)")
    with World(ttl_ms=15000) as world:
        c = world.start(wrap=contain)
        world.next_leader(0)
        inner = eventually("tenure as PID 1", lambda: w.children(c.pid))[0]
        os.kill(inner, signal.SIGTERM)
        c.wait()
        assert world.table.programs()[0].told == signal.SIGTERM
        assert '"state":"free"' in state(world)


def test_killed_with_its_whole_process_group():
    """The guard is in a session of its own: the program is ended and the lease released."""
    with World(ttl_ms=15000) as world:
        first = world.start()
        row = world.next_leader(0)
        world.start()
        os.killpg(first.pid, signal.SIGKILL)
        world.next_leader(row.epoch)
        world.dead(row.epoch)


def test_orphan_grace():
    """With --orphan-grace a crash of tenure leaves the program time to end by itself."""
    with World(ttl_ms=15000, options=["--orphan-grace", "5s"], words=["slow=50"]) as world:
        c = world.start()
        row = world.next_leader(0)
        world.start()
        c.signal(signal.SIGKILL)
        world.next_leader(row.epoch)
        assert world.table.programs()[0].told == signal.SIGTERM


def test_release_delay():
    """The release waits for the last packets of a crashed leader's program."""
    with World(ttl_ms=15000, options=["--release-delay", "700ms"]) as world:
        c = world.start()
        row = world.next_leader(0)
        world.start()
        c.signal(signal.SIGKILL)
        new = world.next_leader(row.epoch)
        assert new.started - world.dead(row.epoch) >= 700_000_000


def test_on_a_terminal(tmp_path):
    """What tenure-run(1) says under TERMINALS: the program reads and writes there, has no
    controlling terminal, and a key that interrupts comes to tenure, which drains."""
    said = tmp_path / "said"
    script = (f"read line; echo \"got $line\" >> {said}; (: < /dev/tty) 2>/dev/null && echo tty >> {said};"
              f"trap 'echo int >> {said}; exit 0' INT; echo ready >> {said}; while :; do sleep 0.01; done")
    with Terminal(TENURE, "run", "--name", "w", "--store", "noop:", "--", "bash", "-c", script) as t:
        eventually("the program", lambda: t.read() and "leading" in t.raw)
        t.press("hello\n")
        eventually("its line", lambda: said.exists() and "ready" in said.read_text())
        t.press("\x03")
        assert t.ends() == 0
        assert said.read_text().split("\n") == ["got hello", "ready", "int", ""]
