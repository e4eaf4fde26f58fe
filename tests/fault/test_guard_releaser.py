"""The guard and a prepared releaser, which is played by this file: who says what, and when."""

import os
import signal
import subprocess
import time

import pytest
import world as w
from test_guard_alone import DEAD, GROUP, MS, QUIT, SLEEP, SPAWNED, Guard, contain  # noqa: F401
from world import eventually

GO, DONE = b"g", b"d"


def running(tmp_path, kind=GROUP, command=SLEEP, **settings):
    """A guard with a program that ignores TERM."""
    g = Guard(tmp_path, kind, **settings)
    g.publish(w.now() + 600 * w.NS)
    g.spawn(*command, ignored=signal.SIGTERM)
    g.pid = g.next(SPAWNED).pid
    return g


def crash(g):
    g.tenure.kill()
    g.tenure.wait()


def test_told_when_tenure_is_dead(tmp_path, contain):
    with running(tmp_path, contain) as g:
        releaser = g.prepared()
        crash(g)
        g.next(DEAD)
        assert releaser.recv(8) == GO
        assert g.proc.poll() is None  # it waits for the answer
        releaser.send(DONE)
        assert g.proc.wait() == 0
        assert releaser.recv(8) == b""
        assert not g.released()  # by nobody else


def test_told_only_when_the_tree_is_dead(tmp_path, contain):
    """I8.  A daemon in another session is part of it, and lives as long as it may."""
    alive = tmp_path / "alive"
    daemon = f"setsid sh -c 'trap \"\" TERM; while :; do date +%s%N > {alive}; done' &"
    with running(tmp_path, contain, ("sh", "-c", f"{daemon} exec sleep 1000"),
                 orphan=300 * MS) as g:
        releaser = g.prepared()
        eventually("the daemon", alive.exists)
        crash(g)
        assert releaser.recv(8) == GO
        before = alive.stat().st_mtime_ns
        assert not w.alive(g.pid) and not w.children(g.proc.pid)
        time.sleep(0.1)
        assert alive.stat().st_mtime_ns == before
        releaser.send(DONE)
        assert g.proc.wait() == 0


def test_not_told_by_anything_else(tmp_path):
    """A stop, the deadline, a clean end: tenure lives, and releases itself."""
    with running(tmp_path) as g:
        releaser = g.prepared()
        g.set_word(0)
        g.order(QUIT)
        g.next(DEAD)
        assert g.proc.wait() == 0
        assert releaser.recv(8) == b""  # so it ends as well
    with running(tmp_path) as g:
        releaser = g.prepared()
        g.proc.kill()
        g.proc.wait()
        assert releaser.recv(8) == b""  # nobody knows any more what lives


@pytest.mark.parametrize("how", ["gone before", "gone after", "silent", "nonsense", "too early"])
def test_one_that_fails_is_done_without(tmp_path, how):
    with running(tmp_path) as g:
        releaser = g.prepared()
        if how == "gone before":
            releaser.close()
        if how == "too early":
            releaser.send(DONE)  # it was not told
        crash(g)
        if how in ("gone after", "nonsense", "silent"):
            assert releaser.recv(8) == GO
        if how == "gone after":
            releaser.close()
        if how == "nonsense":
            releaser.send(b"?")
        eventually("the release", g.released)
        assert g.proc.wait() == 0


def test_the_last_one_counts(tmp_path):
    with running(tmp_path) as g:
        first, second = g.prepared(), g.prepared()
        assert first.recv(8) == b""
        crash(g)
        assert second.recv(8) == GO
        second.send(DONE)
        assert g.proc.wait() == 0


def test_nothing_to_release(tmp_path):
    with Guard(tmp_path, facts=b"") as g:
        releaser = g.prepared()
        crash(g)
        assert g.proc.wait() == 0
        assert releaser.recv(8) == b""


def test_the_program_knows_nothing_of_it(tmp_path, contain):
    """Neither the socket nor its end is the program's: its own end must not keep it open."""
    seen = tmp_path / "seen"
    with Guard(tmp_path, contain) as g:
        releaser = g.prepared()
        g.publish(w.now() + 600 * w.NS)
        g.spawn("sh", "-c", f"ls -l /proc/self/fd > {seen}; exec sleep 1000")
        eventually("the list", lambda: seen.exists() and "3 ->" in seen.read_text())
        init = w.children(g.proc.pid)[0]
        assert "socket:" not in seen.read_text()
        os.kill(g.proc.pid, signal.SIGSTOP)  # who closes the last end is not the guard's doing
        links = [os.readlink(f"/proc/{init}/fd/{n}") for n in os.listdir(f"/proc/{init}/fd")]
        assert sum("socket:" in link for link in links) == 1  # its own, to the guard
        g.proc.kill()
        g.proc.wait()
        assert releaser.recv(8) == b""


def test_started_by_hand():
    done = subprocess.run([w.TENURE, "release-grant", "--when-told"], capture_output=True,
                          stdin=subprocess.DEVNULL, close_fds=True, check=False)
    assert done.returncode == 1 and b"for the guard alone" in done.stderr
