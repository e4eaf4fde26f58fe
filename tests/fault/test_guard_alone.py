"""The guard by itself: tenure is played by this file, over the guard's own protocol.

src/guard/protocol.h says what the words mean.  Here every rule of it can be
broken on purpose, which no real tenure does.
"""

import ctypes
import fcntl
import mmap
import os
import pathlib
import shutil
import signal
import socket
import struct
import subprocess
import sys
import time

import cgroup
import pytest
import world as w
from world import BUILD, TENURE, WITNESS, World, eventually

GUARD = BUILD / "tenure-guard"
libc = ctypes.CDLL(None, use_errno=True)
BOOTTIME, NONBLOCK, ABSTIME = 7, os.O_NONBLOCK, 1
FIRED = 1 << 63
MS = 1_000_000

SPAWN, SIGNAL, STOP, LOWER, QUIT, PREPARED, HOOK = range(1, 8)
(HELLO, ACCEPTED, SPAWNED, FAILED, REFUSED, EXITED, HAS_FIRED, KILLS, DEAD, HOOKED) = range(1, 11)
GROUP, CGROUP, PIDNS = 1, 2, 3
USER, PRIVS, WARM = 1, 2, 4


def timerfd():
    return libc.timerfd_create(BOOTTIME, NONBLOCK)


def arm(fd, at):
    spec = struct.pack("qqqq", 0, 0, at // w.NS, at % w.NS)
    assert libc.timerfd_settime(fd, ABSTIME, spec, None) == 0


class Report:
    def __init__(self, data):
        (self.kind, self.pid, self.status, self.error, self.stage, self.contain,
         self.at) = struct.unpack("IiiiIIq", data)


class Guard:
    """One tenure-guard, and a process that it takes for tenure."""

    def __init__(self, tmp_path, contain=GROUP, grace=0, margin=5 * MS, orphan=0, hang=300 * MS,
                 delay=0, watchdog="", facts=b"x", before=lambda: None):
        self.dir = tmp_path
        self.tenure = subprocess.Popen(["sleep", "1000"])
        page_fd = os.memfd_create("page")
        os.ftruncate(page_fd, 4096)
        self.page = mmap.mmap(page_fd, 4096)
        struct.pack_into("IIQQqqqqqiI120s", self.page, 0, 3, contain, 0, 0, grace, margin, orphan,
                         hang, delay, signal.SIGTERM, 1, watchdog.encode())
        facts_fd = os.memfd_create("facts")
        os.write(facts_fd, facts)
        self.timer, self.busy = timerfd(), timerfd()
        # As the releaser is executed: with the word "release-grant".  touch(1) makes a file of it.
        exe = os.open(shutil.which("touch"), os.O_RDONLY)
        self.socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        pidfd = os.pidfd_open(self.tenure.pid)
        fds = [theirs.fileno(), page_fd, self.timer, self.busy, pidfd, facts_fd, exe]

        def place():
            before()  # in the process that becomes the guard
            high = [fcntl.fcntl(fd, fcntl.F_DUPFD, 64) for fd in fds]
            for i, fd in enumerate(high):
                os.dup2(fd, 3 + i)

        self.proc = subprocess.Popen([GUARD], cwd=tmp_path, preexec_fn=place, close_fds=False)
        for fd in (page_fd, facts_fd, exe, pidfd):
            os.close(fd)
        theirs.close()
        self.socket.settimeout(w.PATIENCE)
        self.hello = self.next(HELLO)

    def next(self, *kinds):
        """The next report, or the next of that kind."""
        while True:
            r = Report(self.socket.recv(64))
            if not kinds or r.kind in kinds:
                return r

    def word(self):
        return struct.unpack_from("Q", self.page, 8)[0]

    def set_word(self, value):
        struct.pack_into("Q", self.page, 8, value)

    def publish(self, deadline):
        self.set_word(deadline)
        arm(self.timer, max(deadline - struct.unpack_from("q", self.page, 24)[0], 1))

    def order(self, kind, number=0, by=0, expect=0):
        self.socket.send(struct.pack("IiqQ", kind, number, by, expect))

    def spawn(self, *command, flags=0, env=("A=1",), ignored=0, raw=None, order=(SPAWN, 0, 0, 0)):
        block = raw
        if raw is None:
            strings = [command[0], "", *command, *env]
            tail = b"".join(s.encode() + b"\0" for s in strings)
            block = struct.pack("IIIIIIIIQ", 40 + len(tail), 0, len(command), len(env), flags, 0, 0,
                                ignored, 0) + tail
        fd = os.memfd_create("block")
        os.write(fd, block)
        socket.send_fds(self.socket, [struct.pack("IiqQ", *order)], [fd])
        os.close(fd)

    def hook(self, script, by):
        self.spawn("/bin/sh", "-c", script, flags=PRIVS, order=(HOOK, 0, by, 0))

    def prepared(self):
        """Give it a prepared releaser, which is the socket that is returned."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        socket.send_fds(self.socket, [struct.pack("IiqQ", PREPARED, 0, 0, 0)], [theirs.fileno()])
        theirs.close()
        ours.settimeout(w.PATIENCE)
        return ours

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for p in (self.tenure, self.proc):
            p.kill()
            p.wait()
        self.socket.close()
        os.close(self.timer)
        os.close(self.busy)
        self.page.close()

    def released(self):
        return (self.dir / "release-grant").exists()


@pytest.fixture(params=[GROUP] + ([PIDNS, CGROUP] if os.geteuid() == 0 else []),
                ids=lambda c: {GROUP: "group", PIDNS: "pidns", CGROUP: "cgroup"}[c])
def contain(request):
    return request.param


SLEEP = ("sleep", "1000")


@pytest.mark.skipif(cgroup.missing() is not None, reason=str(cgroup.missing()))
def test_a_cgroup_that_is_there_already_is_not_used(tmp_path):
    """Whoever is in it would be killed with the program."""
    stranger = subprocess.Popen(SLEEP)
    parent = cgroup.own_cgroup() / f"test-{stranger.pid}-{time.monotonic_ns()}"  # nobody else's names are there
    parent.mkdir()

    def plant():
        (parent / "cgroup.procs").write_text(str(os.getpid()))
        planted = parent / f"tenure-{os.getpid()}-1"
        planted.mkdir()
        os.chown(planted, 65534, 65534)
        (planted / "cgroup.procs").write_text(str(stranger.pid))

    try:
        with Guard(tmp_path, CGROUP, before=plant) as g:
            assert (g.hello.error, g.hello.contain) == (0, CGROUP)
            g.publish(w.now() + 600 * w.NS)
            g.spawn(*SLEEP)
            pid = g.next(SPAWNED).pid
            assert f"/tenure-{g.proc.pid}-2" in pathlib.Path(f"/proc/{pid}/cgroup").read_text()
            g.order(QUIT)
            assert g.proc.wait(w.PATIENCE) == 0 and stranger.poll() is None
            assert [p.name for p in parent.glob("tenure-*")] == [f"tenure-{g.proc.pid}-1"]
    finally:
        stranger.kill()
        stranger.wait()
        for folder in (*parent.glob("tenure-*"), parent):
            eventually("an empty cgroup", lambda: removed(folder))


def removed(folder):
    """A cgroup can be removed when the last of its processes is gone for good."""
    try:
        folder.rmdir()
    except OSError:
        return False
    return True


def test_nothing_runs_without_a_grant(tmp_path, contain):
    with Guard(tmp_path, contain) as g:
        g.spawn(*SLEEP)
        assert g.next().kind == REFUSED
        g.set_word(FIRED | (w.now() + w.NS))
        g.spawn(*SLEEP)
        assert g.next().kind == REFUSED
        g.set_word(w.now() - 1)
        g.spawn(*SLEEP)
        assert g.next(REFUSED, ACCEPTED).kind == REFUSED


def leading(g, *command, **more):
    """A program under a deadline that is far away: a test that comes late finds it running."""
    g.publish(w.now() + 600 * w.NS)
    g.spawn(*(command or SLEEP), **more)
    return g.next(SPAWNED).pid


def test_killed_by_the_deadline(tmp_path, contain):
    with Guard(tmp_path, contain, grace=100 * MS) as g:
        assert leading(g, ignored=signal.SIGTERM) > 0
        deadline = w.now() + 400 * MS
        g.publish(deadline)
        assert g.next(HAS_FIRED).at >= deadline - 100 * MS
        assert g.word() & FIRED
        assert g.next(KILLS).at >= deadline - 5 * MS
        g.next(DEAD)


def test_killed_before_the_deadline_without_any_grace(tmp_path, contain):
    with Guard(tmp_path, contain, grace=0, margin=20 * w.NS) as g:
        leading(g, ignored=signal.SIGTERM)
        deadline = w.now() + 21 * w.NS
        g.order(LOWER, by=deadline, expect=g.word())
        assert g.next(KILLS).at < deadline
        g.next(DEAD)


def test_told_early_enough_to_end_by_itself(tmp_path, contain):
    ready = tmp_path / "ready"
    with Guard(tmp_path, contain, grace=30 * w.NS) as g:
        leading(g, "bash", "-c", f"trap 'sleep 0.2; exit 42' TERM; touch {ready}; "
                                 "while :; do sleep 0.01; done")
        eventually("its trap", ready.exists)
        g.publish(w.now() + 31 * w.NS)
        g.next(HAS_FIRED)
        assert os.waitstatus_to_exitcode(g.next(EXITED).status) == 42
        g.next(DEAD)


def test_a_raised_deadline_keeps_it_alive(tmp_path):
    with Guard(tmp_path, grace=50 * MS) as g:
        leading(g)
        for _ in range(10):  # raised, but the timer was left behind: harmless
            g.set_word(w.now() + 300 * w.NS)
            arm(g.timer, w.now() + 20 * MS)
            time.sleep(0.1)
            assert not g.word() & FIRED
        last = w.now() + 300 * MS
        g.set_word(last)
        arm(g.timer, w.now())
        assert g.next(HAS_FIRED).at >= last - 50 * MS


def test_a_lowered_deadline_counts_at_once(tmp_path):
    with Guard(tmp_path) as g:
        far = w.now() + 600 * w.NS
        g.publish(far)
        g.spawn(*SLEEP)
        g.next(SPAWNED)
        g.order(LOWER, by=w.now() + 50 * MS, expect=far)  # tenure was stopped right behind this
        g.next(HAS_FIRED)
        g.next(DEAD)
        assert g.word() & FIRED


def test_an_old_order_to_lower_does_not_undo_a_renewal(tmp_path):
    with Guard(tmp_path) as g:
        old = w.now() + 300 * w.NS
        g.publish(old)
        g.spawn(*SLEEP)
        g.next(SPAWNED)
        g.publish(old + w.NS)
        g.order(LOWER, by=w.now() + 10 * MS, expect=old)
        g.order(SIGNAL, 0)
        time.sleep(0.2)
        assert g.word() == old + w.NS


def test_no_grant_any_more_ends_it(tmp_path, contain):
    with Guard(tmp_path, contain) as g:
        g.publish(w.now() + 600 * w.NS)
        g.spawn(*SLEEP, ignored=signal.SIGTERM)
        g.next(SPAWNED)
        g.set_word(0)
        g.order(SIGNAL, 0)  # it looks after every order
        g.next(DEAD)


def test_warm_programs_need_no_grant(tmp_path, contain):
    with Guard(tmp_path, contain) as g:
        g.spawn(*SLEEP, flags=WARM)
        g.next(SPAWNED)
        g.order(SIGNAL, 0)
        g.publish(w.now() + 300 * MS)  # from now on it leads
        g.next(HAS_FIRED)
        g.next(DEAD)


def test_stop_then_kill(tmp_path, contain):
    with Guard(tmp_path, contain) as g:
        g.publish(w.now() + 600 * w.NS)
        g.spawn(*SLEEP, ignored=signal.SIGTERM)
        g.next(SPAWNED)
        by = w.now() + 200 * MS
        g.order(STOP, signal.SIGTERM, by)
        assert g.next(KILLS).at >= by
        g.next(DEAD)
        assert not g.word() & FIRED  # a stop is no firing
        g.spawn(*SLEEP)  # and the next program may run
        g.next(SPAWNED)
        g.order(STOP, signal.SIGTERM, w.now() + 600 * w.NS)
        assert os.WTERMSIG(g.next(EXITED).status) == signal.SIGTERM
        g.next(DEAD)
        g.order(STOP, signal.SIGTERM, 1)
        g.next(DEAD)  # nothing runs, and it says so


def test_one_program_at_a_time(tmp_path):
    with Guard(tmp_path) as g:
        g.publish(w.now() + 600 * w.NS)
        g.spawn(*SLEEP)
        g.next(SPAWNED)
        g.spawn(*SLEEP)
        assert g.next().kind == REFUSED


def test_tenure_dies(tmp_path, contain):
    with Guard(tmp_path, contain) as g:
        g.publish(w.now() + 600 * w.NS)
        g.spawn(*SLEEP, ignored=signal.SIGTERM)
        pid = g.next(SPAWNED).pid
        g.tenure.kill()
        g.tenure.wait()
        g.next(DEAD)
        eventually("the release", g.released)
        assert g.proc.wait() == 0


def test_released_only_when_the_tree_is_dead(tmp_path, contain):
    """A daemon in another session is part of it."""
    alive = tmp_path / "alive"
    daemon = f"setsid sh -c 'trap \"\" TERM; while :; do date +%s%N > {alive}; done' &"
    with Guard(tmp_path, contain, orphan=300 * MS) as g:
        g.publish(w.now() + 600 * w.NS)
        g.spawn("sh", "-c", f"{daemon} exec sleep 1000")
        g.next(SPAWNED)
        eventually("the daemon", alive.exists)
        g.tenure.kill()
        g.tenure.wait()
        eventually("the release", g.released)
        at = (tmp_path / "release-grant").stat().st_mtime_ns
        assert alive.stat().st_mtime_ns <= at
        before = alive.stat().st_mtime_ns
        time.sleep(0.1)
        assert alive.stat().st_mtime_ns == before


def test_release_delay(tmp_path):
    with Guard(tmp_path, delay=400 * MS) as g:
        g.publish(w.now() + 600 * w.NS)
        g.spawn(*SLEEP)
        g.next(SPAWNED)
        g.tenure.kill()
        g.tenure.wait()
        died = g.next(DEAD).at
        eventually("the release", g.released)
        # The file's own time is that of the kernel's last tick.
        at = (tmp_path / "release-grant").stat().st_mtime_ns - (time.time_ns() - w.now())
        assert at - died >= 400 * MS - 20 * MS


def test_nothing_to_release(tmp_path):
    with Guard(tmp_path, facts=b"") as g:
        g.tenure.kill()
        g.tenure.wait()
        assert g.proc.wait() == 0
        assert not g.released()


def test_tenure_hangs_after_firing(tmp_path, contain):
    with Guard(tmp_path, contain, hang=200 * MS) as g:
        leading(g)
        os.kill(g.tenure.pid, signal.SIGSTOP)
        g.publish(w.now() + 100 * MS)
        g.next(DEAD)
        assert g.tenure.wait() == -signal.SIGKILL
        eventually("the release", g.released)


def test_tenure_that_answers_is_left_alone(tmp_path):
    with Guard(tmp_path, hang=3 * w.NS) as g:
        leading(g)
        g.publish(w.now() + 100 * MS)
        g.next(DEAD)
        g.set_word(0)
        time.sleep(3.2)  # longer than it would have been waited for
        assert g.tenure.poll() is None and g.proc.poll() is None
        g.publish(w.now() + 600 * w.NS)
        g.spawn(*SLEEP)
        g.next(SPAWNED)


def test_a_grant_without_a_program_fires_too(tmp_path):
    """Tenure hangs before the program is started: it holds a lease, and is ended."""
    with Guard(tmp_path, hang=100 * MS) as g:
        g.publish(w.now() + 100 * MS)
        g.next(HAS_FIRED)
        assert g.tenure.wait() == -signal.SIGKILL
        eventually("the release", g.released)


def test_a_frozen_standby_is_ended(tmp_path):
    """SAFETY: a process frozen inside an SQLite transaction blocks everybody."""
    with Guard(tmp_path) as g:
        os.kill(g.tenure.pid, signal.SIGSTOP)
        until = w.now() + 100 * MS
        struct.pack_into("Q", g.page, 16, until)
        arm(g.busy, until)
        assert g.tenure.wait() == -signal.SIGKILL


def test_a_leader_in_a_long_request_is_not(tmp_path):
    """I12: who holds a grant keeps it until its deadline, however slow the store is."""
    with Guard(tmp_path) as g:
        g.publish(w.now() + 600 * w.NS)
        struct.pack_into("Q", g.page, 16, w.now())
        arm(g.busy, w.now())
        time.sleep(0.3)
        assert g.tenure.poll() is None


def test_a_request_that_ended_in_time_is_nothing(tmp_path):
    with Guard(tmp_path) as g:
        arm(g.busy, w.now())
        time.sleep(0.2)
        assert g.tenure.poll() is None


def test_hang_up_ends_everything(tmp_path, contain):
    """Tenure closes its socket and lives on: not to be trusted with a program."""
    with Guard(tmp_path, contain) as g:
        g.publish(w.now() + 600 * w.NS)
        g.spawn(*SLEEP, ignored=signal.SIGTERM)
        g.next(SPAWNED)
        g.socket.close()
        assert g.tenure.wait() == -signal.SIGKILL
        eventually("the release", g.released)
        g.socket = socket.socketpair()[0]


def test_quit(tmp_path, contain):
    with Guard(tmp_path, contain) as g:
        g.publish(w.now() + 600 * w.NS)
        g.spawn(*SLEEP, ignored=signal.SIGTERM)
        g.next(SPAWNED)
        g.order(QUIT)
        g.next(DEAD)
        assert g.proc.wait() == 0
        assert not g.released() and g.tenure.poll() is None


def test_terminating_signals_do_nothing(tmp_path):
    with Guard(tmp_path) as g:
        g.publish(w.now() + 600 * w.NS)
        g.spawn(*SLEEP)
        g.next(SPAWNED)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT,
                       signal.SIGUSR1, signal.SIGPIPE):
            g.proc.send_signal(number)
        time.sleep(0.1)
        assert g.proc.poll() is None


# ---- Hooks ------------------------------------------------------------------


def witnesses(tmp_path):
    """A command that leaves a daemon behind, and a table of all its processes."""
    table = w.Table(tmp_path / "table")
    witness = f"env TENURE_EPOCH=1 {WITNESS} {table.path} stubborn"
    return table, f"setsid {witness} & exec {witness}"


def dead(table):
    return all(not w.alive(r.pid) for r in table.rows())


@pytest.mark.parametrize("end", ["stop", "deadline", "exit", "tenure"])
def test_a_hook_ends_with_the_program(tmp_path, contain, end):
    table, script = witnesses(tmp_path)
    with Guard(tmp_path, contain, margin=50 * MS) as g:
        g.publish(w.now() + 60 * w.NS)
        program = ("sh", "-c", "while [ ! -e go ]; do sleep 0.01; done") if end == "exit" else SLEEP
        g.spawn(*program)
        g.next(SPAWNED)
        g.hook(script, w.now() + 60 * w.NS)
        eventually("both run", lambda: len(table.rows()) == 2)
        if end == "stop":
            g.order(STOP, signal.SIGTERM, w.now() + 60 * w.NS)
        elif end == "deadline":
            g.order(LOWER, by=w.now() + 60 * MS, expect=g.word())
        elif end == "exit":
            (tmp_path / "go").touch()
        else:
            g.tenure.kill()
            eventually("the release", g.released)
            assert dead(table)
            return
        assert os.WTERMSIG(g.next(HOOKED, DEAD).status) == signal.SIGKILL
        g.next(DEAD)
        assert dead(table)


@pytest.mark.parametrize("end", ["limit", "deadline", "exit", "stop"])
def test_a_hook_without_a_program(tmp_path, end):
    """What it leaves behind ends with it; its end is not that of a program."""
    table, script = witnesses(tmp_path)
    if end == "exit":
        script = script.partition("exec")[0] + "while [ ! -e go ]; do sleep 0.01; done; exit 7"
    with Guard(tmp_path, margin=50 * MS) as g:
        g.publish(w.now() + 60 * w.NS)
        g.order(STOP, signal.SIGTERM, 1)
        g.hook(script, w.now() + (300 * MS if end == "limit" else 60 * w.NS))
        g.next(DEAD)  # the answer to the stop before it
        if end != "limit":
            eventually("it runs", lambda: len(table.rows()) == (1 if end == "exit" else 2))
        if end == "deadline":
            g.order(LOWER, by=w.now() + 60 * MS, expect=g.word())
        elif end == "stop":
            g.order(STOP, signal.SIGKILL, 1)
        (tmp_path / "go").touch()
        status = g.next(HOOKED, DEAD).status
        assert status == (7 << 8 if end == "exit" else signal.SIGKILL)
        assert dead(table)


def test_hooks_that_come_too_late(tmp_path):
    with Guard(tmp_path) as g:
        for deadline in (0, w.now() - 1):
            g.set_word(deadline)
            g.hook("touch ran", w.now() + 60 * w.NS)
            assert g.next(HOOKED).error != 0
        g.set_word(0)
        g.publish(w.now() + 60 * w.NS)
        g.hook("sleep 1000", w.now() + 60 * w.NS)
        g.hook("touch ran", w.now() + 60 * w.NS)  # one at a time
        assert g.next(HOOKED).error != 0
        assert not (tmp_path / "ran").exists()


def test_watchdog_is_not_petted_beyond_the_deadline(tmp_path):
    """What outlives its deadline is what it is for.  The tree is made to outlive it by stopping
    the guard; when it runs again it must not pet, but kill."""
    device = tmp_path / "device"
    device.write_text("")
    with Guard(tmp_path, watchdog=str(device)) as g:
        leading(g)
        eventually("a pet", device.read_text)
        w.freeze(g.proc.pid)
        petted = device.read_text()
        g.publish(w.now() + 100 * MS)
        time.sleep(0.5)
        os.kill(g.proc.pid, signal.SIGCONT)
        g.next(DEAD)
        assert device.read_text() == petted + "V"


@pytest.mark.parametrize("raw", [
    b"", b"x", b"\0" * 40,
    struct.pack("IIIIIIIIQ", 40, 0, 1, 0, 0, 0, 0, 0, 0),
    struct.pack("IIIIIIIIQ", 44, 0, 0xFFFFFFFF, 0xFFFFFFFF, 0, 0, 0, 0, 0) + b"ab\0c",
    struct.pack("IIIIIIIIQ", 44, 0xFFFFFFFF, 1, 1, 1, 0, 0, 0, 0) + b"ab\0c",
    struct.pack("IIIIIIIIQ", 50, 0, 3, 1, 0, 0, 0, 0, 0) + b"true\0\0true",
])
def test_descriptions_that_do_not_hold_together(tmp_path, raw):
    with Guard(tmp_path) as g:
        g.publish(w.now() + 600 * w.NS)
        g.spawn(raw=raw)
        r = g.next(FAILED, SPAWNED)
        assert r.kind == FAILED
        g.next(DEAD)
        g.spawn("true")
        g.next(SPAWNED)


def test_small_and_asleep(tmp_path):
    """At most 1 MiB, and not one wake-up while nothing is due, renewals included."""
    with Guard(tmp_path, PIDNS if os.geteuid() == 0 else GROUP) as g:
        g.publish(w.now() + 600 * w.NS)
        g.spawn(*SLEEP)
        g.next(SPAWNED)
        init = eventually("the init", lambda: w.children(g.proc.pid))[0]

        def runs():
            return [int(pathlib.Path(f"/proc/{pid}/schedstat").read_text().split()[2])
                    for pid in (g.proc.pid, init)]

        def settled():
            seen = runs()
            time.sleep(0.3)
            return seen if runs() == seen else None

        before = eventually("it sleeps", settled)
        for _ in range(20):
            g.publish(w.now() + 600 * w.NS)
            time.sleep(0.05)
        assert runs() == before
        for pid in (g.proc.pid, init):
            for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
                if line.startswith("VmRSS"):
                    assert int(line.split()[1]) <= 1024


def test_started_by_hand():
    done = subprocess.run([GUARD], capture_output=True, close_fds=True)
    assert done.returncode == 1
    assert b"started by tenure run" in done.stderr
