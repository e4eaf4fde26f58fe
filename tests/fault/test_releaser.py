"""The prepared releaser on real servers: it frees the lease, or the guard's own one does.

The ttl is an hour: who follows within the patience of a test was let in by a release.
"""

import contextlib
import fcntl
import json
import os
import pathlib
import signal
import socket
import subprocess

import pytest
import server_etcd
import server_postgres
import server_redis
import world as w
from proxy import Proxy
from world import TENURE, World, eventually

HOUR_MS = 3_600_000
SERVERS = {"redis": (server_redis, "Redis"), "postgres": (server_postgres, "Postgres"),
           "etcd": (server_etcd, "Etcd")}


@contextlib.contextmanager
def server(name):
    module, kind = SERVERS[name]
    if module.MISSING:
        pytest.skip(module.MISSING)
    made = getattr(module, kind)()
    try:
        yield made
    finally:
        made.stop()


@pytest.fixture(scope="module")
def redis():
    with server("redis") as made:
        yield made


@pytest.fixture(scope="module", params=SERVERS)
def any_server(request):
    with server(request.param) as made:
        yield made


@contextlib.contextmanager
def election(url, **settings):
    """On a store that may have been used: names tell elections apart, and here all are "w"."""
    with World(ttl_ms=HOUR_MS, url=url, **settings) as world:
        yield world


def releaser_of(candidate):
    """The one that is ready, or None."""
    return next((p for p in w.children(candidate.pid) if w.comm(p) == "tenure-releaser"), None)


def led(world):
    """A leader with its releaser."""
    above = world.table.top()
    leader = world.start()
    row = world.next_leader(above)
    return leader, row.epoch, eventually("a releaser", lambda: releaser_of(leader))


def wait_for(world, epoch):
    """A candidate that stands by."""
    standby = world.start()
    eventually("it stands by", lambda: f"leads, epoch {epoch}" in standby.words())
    return standby


def crash(world, leader):
    leader.signal(signal.SIGKILL)
    world.forget(leader)


def status(url):
    done = subprocess.run([TENURE, "status", "--name", "w", "--store", url, "--json"],
                          capture_output=True, check=False)
    return json.loads(done.stdout)


def over(pid):
    return eventually(f"the end of {pid}", lambda: not w.alive(pid))


def test_while_leading_and_no_longer(redis):
    with election(redis.url()) as world:
        leader, epoch, pid = led(world)
        standby = wait_for(world, epoch)
        command = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()
        assert command == b"tenure\0release-grant\0--when-told\0"  # nothing of the store
        assert len(w.children(standby.pid)) == 1  # its guard
        subprocess.run([TENURE, "handover", "--name", "w", "--store", world.url, "--to",
                        standby.name], check=True, capture_output=True)
        epoch = world.next_leader(epoch).epoch
        over(pid)
        second = eventually("a releaser", lambda: releaser_of(standby))
        for c in (leader, standby):
            c.signal(signal.SIGTERM)
            assert c.wait() in (0, 128 + signal.SIGTERM), c.words()
        assert not w.alive(second)
        assert status(world.url)["state"] == "free"


def test_embedded_stores_have_none():
    with World(scheme="file", ttl_ms=HOUR_MS) as world:
        leader = world.start()
        world.next_leader(0)
        w.time.sleep(0.5)
        assert len(w.children(leader.pid)) == 1  # its guard


@pytest.mark.parametrize("what", ["nothing", "killed", "stopped"])
def test_tenure_is_killed(any_server, what):
    """And before that: nothing, or its releaser was killed, or hangs."""
    with election(any_server.url(), words=["stubborn", "daemon"]) as world:
        leader, epoch, pid = led(world)
        wait_for(world, epoch)
        if what == "killed":
            os.kill(pid, signal.SIGKILL)
            eventually("it is reaped", lambda: pid not in w.children(leader.pid))
        if what == "stopped":
            w.freeze(pid)
        crash(world, leader)
        row = world.next_leader(epoch)
        if what == "stopped":
            os.kill(pid, signal.SIGCONT)  # late, with the word in its ear: no successor is freed (I8)
        over(pid)
        assert status(world.url)["epoch"] == row.epoch
        assert status(world.url)["state"] == "held"


@pytest.mark.parametrize("fault", ["cut", "stranded", "half-closed", "restarted"])
def test_its_connection_is_no_good_any_more(any_server, fault):
    with Proxy(("127.0.0.1", any_server.port)) as proxy, \
            election(any_server.url()) as world:
        sound, world.url = world.url, world.url.replace(f":{any_server.port}", f":{proxy.port}")
        leader, epoch, pid = led(world)
        world.url = sound
        wait_for(world, epoch)
        w.freeze(leader.pid)  # it would renew, and cut others off meanwhile
        if fault == "cut":
            proxy.cut()
        elif fault == "stranded":
            proxy.strand()
        elif fault == "half-closed":
            proxy.half_close()
        elif isinstance(any_server, server_redis.Redis):
            proxy.cut()  # without a file it would have forgotten the lease
        else:
            any_server.restart()
        crash(world, leader)
        world.next_leader(epoch)
        if fault != "stranded":  # then it waits for its request to time out
            over(pid)


def test_not_released_while_the_program_lives(redis):
    """I8: with --orphan-grace the program outlives tenure, and keeps its lease meanwhile."""
    with election(redis.url(), words=["stubborn", "daemon"],
                  options=["--orphan-grace", "10m"]) as world:
        leader, epoch, pid = led(world)
        crash(world, leader)
        # And nobody else: who made the daemon has ended.
        eventually("the daemon", lambda: any(row.kind == 1 for row in world.table.rows()))
        both = eventually("program and daemon", lambda: len(found := world.processes()) == 2 and found)
        for _ in range(3):
            seen = status(world.url)
            assert (seen["state"], seen["epoch"]) == ("held", epoch)
            assert world.processes() == both and w.alive(pid)
        for number in both:
            with contextlib.suppress(ProcessLookupError):  # the guard ends what others leave behind
                os.kill(number, signal.SIGKILL)
        eventually("the release", lambda: status(world.url)["state"] == "free")
        over(pid)


@pytest.mark.parametrize("killed", ["guard", "guard and tenure"])
def test_it_ends_with_the_guard(redis, killed):
    """Nobody can tell it any more that the tree is dead, so it does not release."""
    with election(redis.url(), words=["stubborn"]) as world:
        leader, epoch, pid = led(world)
        guard = leader.guard()
        if killed == "guard":
            os.kill(guard, signal.SIGKILL)
            over(pid)
            # Tenure has ended the program, and leads again.
            world.next_leader(epoch)
            assert leader.proc.poll() is None
            return
        w.kill_at_once(guard, leader.pid)
        world.forget(leader)
        over(pid)
        world.dead(epoch)
        seen = status(world.url)
        assert (seen["state"], seen["epoch"]) == ("held", epoch)
        subprocess.run([TENURE, "reset", "--force", "--name", "w", "--store", world.url], check=True,
                       capture_output=True)


# ---- The releaser by itself: the guard is played by this file -------------------


@contextlib.contextmanager
def alone(leader):
    """A releaser with the facts of that leader's guard.  Yields its process and its socket."""
    facts = os.open(f"/proc/{leader.guard()}/fd/8", os.O_RDONLY)
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)

    def place():
        high = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 64) for fd in (theirs.fileno(), facts)]
        for fd, at in zip(high, (3, 8)):
            os.dup2(fd, at)

    process = subprocess.Popen([TENURE, "release-grant", "--when-told"], preexec_fn=place,
                               close_fds=False, stdin=subprocess.DEVNULL)
    theirs.close()
    os.close(facts)
    ours.settimeout(w.PATIENCE)
    try:
        eventually("it is ready", lambda: w.comm(process.pid) == "tenure-releaser")
        yield process, ours
    finally:
        ours.close()
        process.kill()
        process.wait()


def test_it_releases_when_told(any_server):
    """Here the leader lives, which no guard would allow: so it was this releaser, and nobody else,
    and what the leader sees is a definite loss."""
    with election(any_server.url()) as world:
        leader, epoch, _ = led(world)
        with alone(leader) as (process, guard):
            assert status(world.url)["state"] == "held"
            w.freeze(leader.pid)
            guard.send(b"g")
            assert guard.recv(8) == b"d"
            assert process.wait(w.PATIENCE) == 0
            assert status(world.url)["state"] == "free"
            leader.signal(signal.SIGCONT)
        world.next_leader(epoch)


def test_it_ends_without_a_word(redis):
    with election(redis.url()) as world:
        leader, epoch, _ = led(world)
        for word in (b"", b"x"):
            with alone(leader) as (process, guard):
                guard.send(word) if word else guard.shutdown(socket.SHUT_RDWR)
                assert process.wait(w.PATIENCE) == 0
                assert status(world.url)["epoch"] == epoch
