"""Whatever happens to tenure or its guard: the program is dead before another one starts."""

import contextlib
import ctypes
import os
import resource
import signal
import socket
import subprocess
import time

import pytest
import world as w
from world import World, eventually, trials

IS_ROOT = os.geteuid() == 0
# What holds in every case, and what a privileged user gets.
CONTAINS = ["group"] + (["pidns"] if IS_ROOT else [])


def pair(**settings):
    """A world where one candidate leads and another waits."""
    world = World(**settings)
    world.start()
    world.next_leader(0)
    world.start()
    return world


def refill(world, victim):
    """The victim is gone; a fresh candidate takes its place behind the new leader."""
    world.forget(victim)
    world.start()


def by_deadline(world, epoch, fault_ns, punctual=True):
    """All processes of that epoch ended within D of the fault, which was there by fault_ns: the
    last renewal was sent before, so the deadline was at most D later (docs/explanation/timing.md).  Tenure
    itself, if it has to do it, queues for a processor, and K is for that."""
    late = w.late_ns(world.dead(epoch), fault_ns + w.hold_ns(world.ttl_ms), world.ttl_ms)
    allowed = w.tolerance_ns(world.ttl_ms) if punctual else w.kill_ns(world.ttl_ms)
    assert late <= allowed, f"alive {late / 1e6:.3f} ms after its deadline"
    return late


@pytest.mark.parametrize("contain", CONTAINS)
@pytest.mark.parametrize("scheme", ["file", "sqlite"])
def test_tenure_killed(scheme, contain):
    def trial(world):
        epoch, victim = world.table.top(), world.leader()
        victim.signal(signal.SIGKILL)
        fault = w.now()
        row = world.next_leader(epoch)
        by_deadline(world, epoch, fault)
        refill(world, victim)
        return row.started - fault

    taken = trials(
        60,
        lambda: pair(
            scheme=scheme, ttl_ms=15000, options=["--contain", contain], words=["stubborn", "brood"]
        ),
        trial,
        workers=2,
    )
    print(f"take-over after SIGKILL, ms, median: {sorted(taken)[len(taken) // 2] / 1e6:.1f}")


@pytest.mark.parametrize("contain", CONTAINS)
def test_tenure_stopped_for_several_ttls(contain):
    def trial(world):
        epoch, victim = world.table.top(), world.leader()
        w.freeze(victim.pid)
        fault = w.now()
        world.next_leader(epoch)
        late = by_deadline(world, epoch, fault)
        # The guard took it for hung, and ended it: it never wakes up to a lease of others.
        if victim.ended_by_guard():
            refill(world, victim)
        else:
            victim.signal(signal.SIGCONT)
        return late

    late = trials(
        24,
        lambda: pair(options=["--contain", contain], words=["stubborn", "daemon"]),
        trial,
        workers=8,
    )
    print(f"latest death, ms after the deadline: {max(late) / 1e6:.1f}")


def test_tenure_stopped_and_woken_in_between():
    """Woken before the deadline it goes on leading (I12), and nobody overlaps in any case."""

    def trial(world):
        epoch, victim = world.table.top(), world.leader()
        victim.signal(signal.SIGSTOP)
        time.sleep(0.05)
        victim.signal(signal.SIGCONT)
        time.sleep(0.05)
        return (epoch, world.table.top())

    def make():
        return pair(ttl_ms=15000)

    for before, after in trials(12, make, trial, workers=4):
        assert before == after


@pytest.mark.parametrize("contain", CONTAINS)
def test_guard_killed(contain):
    def trial(world):
        epoch, leader = world.table.top(), world.leader()
        guard = leader.guard()
        os.kill(guard, signal.SIGKILL)
        fault = w.now()
        # Tenure ends the program itself, releases, and goes on with a new guard.
        world.next_leader(epoch)
        late = by_deadline(world, epoch, fault)
        assert leader.proc.poll() is None
        eventually("another guard", lambda: leader.guard() != guard)
        return late

    trials(
        40,
        lambda: pair(ttl_ms=15000, options=["--contain", contain], words=["stubborn", "daemon"]),
        trial,
        workers=2,
    )


@pytest.mark.parametrize("contain", CONTAINS)
def test_both_killed_at_once(contain):
    def trial(world):
        epoch, victim = world.table.top(), world.leader()
        w.kill_at_once(victim.guard(), victim.pid)
        fault = w.now()
        world.next_leader(epoch)
        by_deadline(world, epoch, fault)
        refill(world, victim)

    trials(
        24,
        lambda: pair(options=["--contain", contain], words=["stubborn", "brood", "daemon"]),
        trial,
        workers=8,
    )


@pytest.mark.parametrize("contain", CONTAINS)
def test_guard_stopped_and_leadership_lost(contain):
    """A guard that somebody stopped is continued by the kernel when its duty calls."""

    def trial(world):
        epoch, leader = world.table.top(), world.leader()
        os.kill(leader.guard(), signal.SIGSTOP)
        with world.outage():
            fault = w.now()
            by_deadline(world, epoch, fault, punctual=False)
        world.next_leader(epoch)
        assert leader.proc.poll() is None

    trials(
        8,
        lambda: pair(ttl_ms=3000, options=["--contain", contain], words=["stubborn", "daemon"]),
        trial,
        workers=4,
    )


def renewing_often(contain):
    """Alone, and soon told of a loss."""
    world = World(ttl_ms=15000, words=["stubborn", "daemon"],
                  options=["--contain", contain, "--renew", "100ms"])
    world.start()
    world.next_leader(0)
    return world


def take_away(world):
    """The leader finds a lease that is not its own: a definite loss (I9)."""
    command = [w.TENURE, "reset", "--force", "--name", "w", "--store", world.url]
    # A renewal may come between its look and its swap.
    eventually("it is taken", lambda: subprocess.run(command, capture_output=True).returncode == 0)


@pytest.mark.parametrize("contain", CONTAINS)
def test_a_definite_loss_is_the_guards_to_act_on(contain):
    """The deadline is now: the guard gets its moment to kill, and lives."""

    def trial(world):
        epoch, leader = world.table.top(), world.leader()
        guard, asked = leader.guard(), w.now()
        take_away(world)
        world.next_leader(epoch)
        assert leader.proc.poll() is None
        # Else it may have to queue for longer than tenure waits: half a margin of 50 ms.
        if w.punctual() and w.stalled_ns(asked, w.now()) < 10_000_000:
            assert leader.guard() == guard and "duty" not in leader.words()

    trials(10, lambda: renewing_often(contain), trial, workers=2)


@pytest.mark.parametrize("contain", CONTAINS)
def test_a_definite_loss_under_a_stopped_guard(contain):
    """It does not act: tenure ends it, and the program with it."""

    def trial(world):
        epoch, leader = world.table.top(), world.leader()
        guard = leader.guard()
        os.kill(guard, signal.SIGSTOP)
        take_away(world)
        world.next_leader(epoch)
        assert leader.proc.poll() is None and not w.alive(guard)
        assert "the guard did not act by the deadline" in leader.words()

    trials(6, lambda: renewing_often(contain), trial, workers=2)


def test_a_guard_that_was_stopped_before_the_win():
    """The win continues it: the program starts under it, as if nothing had been."""
    with pair(ttl_ms=15000) as world:
        epoch, leader = world.table.top(), world.leader()
        other = next(c for c in world.candidates if c is not leader)
        eventually("it stands by", lambda: f"leads, epoch {epoch};" in other.words())
        guard = other.guard()
        w.freeze(guard)
        leader.signal(signal.SIGKILL)
        world.next_leader(epoch)
        assert other.guard() == guard and "takes no requests" not in other.words()
        world.forget(leader)


@pytest.mark.parametrize("contain", CONTAINS)
def test_the_grace_is_the_programs_when_the_store_is_gone(contain):
    """Told by the guard, it has until the deadline to end by itself; nobody hastens it."""
    with World(ttl_ms=5000, options=["--contain", contain, "--renew", "300ms"],
               words=["slow=200"]) as world:
        c = world.start()
        epoch = world.next_leader(0).epoch
        with world.outage():
            world.dead(epoch)
            eventually("its end", lambda: "the program ended" in c.words())
        assert "the program ended with code 0" in c.words()
        assert "duty" not in c.words()


@pytest.mark.parametrize("contain", CONTAINS)
def test_all_of_tenure_killed_at_once(contain):
    """Tenure, guard and init: the kernel alone ends the program, by its parent-death signal;
    and with a namespace all of its daemons too."""

    def trial(world):
        epoch, victim = world.table.top(), world.leader()
        guard = victim.guard()
        w.kill_at_once(*w.children(guard), guard, victim.pid)
        fault = w.now()
        world.next_leader(epoch)
        by_deadline(world, epoch, fault)
        refill(world, victim)

    words = ["stubborn"] + (["brood", "daemon"] if contain == "pidns" else [])
    trials(16, lambda: pair(options=["--contain", contain], words=words), trial, workers=8)


@pytest.mark.parametrize("contain", CONTAINS)
def test_init_killed(contain):
    """The process between guard and program: its death ends the program, not the safety."""

    def trial(world):
        epoch, leader = world.table.top(), world.leader()
        init = eventually("an init", lambda: w.children(leader.guard()))[0]
        os.kill(init, signal.SIGKILL)
        fault = w.now()
        world.next_leader(epoch)
        late = by_deadline(world, epoch, fault)
        refill(world, leader)  # a program that is killed ends its tenure run
        return late

    trials(
        24,
        lambda: pair(ttl_ms=15000, options=["--contain", contain], words=["stubborn", "daemon"]),
        trial,
        workers=2,
    )


def test_who_cannot_look_does_not_take_it_for_dead():
    """The guard is dead, and so is the init; what they left behind is tenure's to end. While it
    has no descriptor left to look for that with, it neither says so nor frees the lease (I8)."""
    with World(ttl_ms=15000, options=["--contain", "group"], words=["stubborn", "daemon"]) as world:
        c = world.start()
        row = world.next_leader(0)
        guard = c.guard()
        init = eventually("an init", lambda: w.children(guard))[0]
        daemons = eventually("a daemon", lambda: [r.pid for r in world.table.rows() if r.kind != 0])
        soft, hard = resource.prlimit(c.pid, resource.RLIMIT_NOFILE)
        w.freeze(guard)  # or it would end them when its init is gone
        os.kill(init, signal.SIGKILL)
        resource.prlimit(c.pid, resource.RLIMIT_NOFILE, (3, hard))
        os.kill(guard, signal.SIGKILL)
        eventually("it is noticed", lambda: not w.state(guard))
        time.sleep(0.3)
        said = c.words()
        assert not all(w.alive(p) for p in daemons) or "the program was ended" not in said, said
        resource.prlimit(c.pid, resource.RLIMIT_NOFILE, (soft, hard))
        eventually("its word", lambda: "the program was ended" in c.words())
        assert not any(w.alive(p) for p in daemons)
        world.next_leader(row.epoch)


def test_what_does_not_die_holds_nobody_up():
    """The guard is dead, and what it guarded is killed but does not end, as if it hung in the
    kernel: a tracer does not let go of it.  Tenure's loop goes on, and so does its word to the
    service manager; the lease is free when the process is gone (I8)."""
    seize, libc = 0x4206, ctypes.CDLL(None, use_errno=True)
    with World(ttl_ms=15000, options=["--contain", "group"]) as world, \
            socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(world.dir / "notify"))
        c = world.start(env={**os.environ, "NOTIFY_SOCKET": str(world.dir / "notify"),
                             "WATCHDOG_USEC": "200000"})
        row = world.next_leader(0)
        if libc.ptrace(seize, row.pid, None, None) != 0:
            pytest.skip(f"no tracing here: {os.strerror(ctypes.get_errno())}")
        try:
            os.kill(c.guard(), signal.SIGKILL)
            eventually("its death", lambda: w.state(row.pid) == "Z")
            eventually("tenure is its parent", lambda: row.pid in w.children(c.pid))
            manager.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                while manager.recv(1000):  # what was said before
                    pass
            manager.settimeout(w.PATIENCE)
            assert manager.recv(1000) == b"WATCHDOG=1"
            assert "the program was ended" not in c.words()
        finally:
            os.waitpid(row.pid, 0)
        world.next_leader(row.epoch)


@pytest.mark.parametrize("thread", ["tenure-driver", "tenure-peers"])
def test_standby_frozen_inside_a_transaction(thread):
    """It keeps the lock of the whole file.  Its guard ends it, and the others go on."""
    preload = w.BUILD / "tests" / "support" / "libfreeze.so"
    with World(scheme="sqlite", ttl_ms=2000) as world:
        flag = world.dir / "freeze"
        leader = world.start()
        world.next_leader(0)
        env = {**os.environ, "LD_PRELOAD": str(preload), "TENURE_FREEZE": str(flag)}
        frozen = world.start(env=env)
        # A leader that was kept from renewing leads in another term: so the youngest counts.
        eventually("it stands by", lambda: f"leads, epoch {world.table.top()};" in frozen.words())
        epoch = world.table.top()
        # In full and at once: an empty flag names no thread.
        (world.dir / "flag").write_text(thread)
        os.rename(world.dir / "flag", flag)
        if thread == "tenure-driver":
            leader.signal(signal.SIGKILL)  # then it claims
            world.forget(leader)

        def ended():
            if thread == "tenure-peers":  # asked as often as needed: its peer sync answers
                subprocess.run([w.TENURE, "candidates", "--name", "w", "--store", world.url],
                               capture_output=True, check=False)
            return frozen.proc.poll() == -signal.SIGKILL

        eventually("it is frozen, and ended", ended)
        world.forget(frozen)
        flag.unlink()
        if thread == "tenure-peers":
            leader.signal(signal.SIGKILL)
            world.forget(leader)
        world.start()
        world.next_leader(epoch)
