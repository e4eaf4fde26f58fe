"""Candidates, their guards and the program they fight over, as real processes.

A World is one election on one store. Its judge is the table that every witness
(tests/support/witness.c) writes its life into, on CLOCK_BOOTTIME: whatever
tenure believes, two rows of different epochs must never overlap.
"""

import concurrent.futures
import contextlib
import ctypes
import functools
import mmap
import os
import pathlib
import shutil
import signal
import struct
import subprocess
import tempfile
import threading
import time

from process import Patience

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("TENURE_BUILD", ROOT / "build"))
TENURE = BUILD / "tenure"
WITNESS = BUILD / "tests" / "support" / "witness"
STALLS = BUILD / "tests" / "support" / "stalls"

TRIALS = int(os.environ.get("TRIALS", "0"))  # 0: each test's own moderate number
PATIENCE = 180.0  # seconds after which a test gives up waiting; never a measure of speed

# A busy disk may take longer than a ttl of one second for one fsync; memory does not.
MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None

NS = 1_000_000_000
ROW = struct.Struct("<QqqqQQ16s")


def now():
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


def hold_ns(ttl_ms):
    """D as src/core/timing.h has it: W (1 - rho) / (1 + rho) - K."""
    kill = min(ttl_ms * 1_000_000 // 10, NS)
    return ttl_ms * 1000 * 900_000 // 1_100_000 * 1000 - kill


def kill_ns(ttl_ms):
    return min(ttl_ms * 1_000_000 // 10, NS)


@functools.cache
def punctual():
    """The guard gets real-time scheduling here."""
    done = subprocess.run(["chrt", "--rr", "1", "true"], capture_output=True, check=False)
    return done.returncode == 0


def tolerance_ns(ttl_ms):
    """How late after D a program may still be seen.  KILL goes out before D, so not at all;
    but where the guard has to queue for a processor like everybody else, K is for that too."""
    return 0 if punctual() else kill_ns(ttl_ms)


@functools.cache
def stalls():
    """Notes when a processor stood still, which no guard can do anything about (support/stalls.c);
    for all threads and forks from here on.  None where the guard has no right to be punctual."""
    if not punctual():
        return None
    file = tempfile.NamedTemporaryFile(prefix="tenure-stalls-", dir=MEMORY)
    watcher = subprocess.Popen([STALLS, file.name], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    if watcher.stdout.readline() != b"ready\n":
        return None
    file.watcher = watcher  # which ends when its input is closed: with this process
    return file


def stalled_ns(since, until):
    """For how long a processor, any of them, stood still between the two.  A stall that goes on is
    told when it is over: whoever runs again sees it."""
    if not stalls():
        return 0
    with open(stalls().name, "rb") as f:
        data = f.read()
    total, seen = 0, since
    for begin, end in sorted(struct.iter_unpack("<qq", data[:len(data) // 16 * 16])):
        begin, end = max(begin, seen), min(end, until)
        total, seen = total + max(end - begin, 0), max(seen, end)
    return total


def late_ns(last, deadline, ttl_ms):
    """By how much a program outlived its deadline that the machine does not explain.  Whoever runs
    again after a stall has as much time as it lasted: it must kill, and the killed must die."""
    stalled = stalled_ns(deadline - kill_ns(ttl_ms), last) if last > deadline else 0
    return last - deadline - stalled


class Row:
    def __init__(self, fields):
        self.epoch, self.started, self.last, self.pid, self.kind, self.told = fields[:6]
        self.id = fields[6].rstrip(b"\0").decode()

    def __repr__(self):
        return (
            f"<epoch {self.epoch} kind {self.kind} pid {self.pid} "
            f"{self.started / NS:.6f}..{self.last / NS:.6f}>"
        )


class Table:
    """What the witnesses wrote."""

    def __init__(self, path):
        self.path = path
        size = 64 + 65536 * 64
        with open(path, "wb") as f:
            f.truncate(size)
        with open(path, "r+b") as f:
            self.map = mmap.mmap(f.fileno(), size)

    def rows(self):
        count = struct.unpack_from("<Q", self.map, 0)[0]
        rows = [Row(ROW.unpack_from(self.map, 64 + 64 * i)) for i in range(count)]
        return [r for r in rows if r.epoch != 0]

    def programs(self):
        return [r for r in self.rows() if r.kind == 0]

    def top(self):
        return max((r.epoch for r in self.rows()), default=0)

    def check(self):
        """No overlap of two epochs, and later epochs ran later (I1, I2)."""
        terms = {}
        for r in self.rows():
            start, last = terms.get(r.epoch, (r.started, r.last))
            terms[r.epoch] = (min(start, r.started), max(last, r.last))
        end, before = 0, 0
        for epoch in sorted(terms):
            start, last = terms[epoch]
            assert start > end, (
                f"epoch {epoch} began {(end - start) / 1e6:.3f} ms before {before} had ended: "
                f"{self.rows()}"
            )
            end, before = last, epoch
        return len(terms)


def exchange(a, b):
    """Swap two names, at once: nobody can come between."""
    libc, here, flag = ctypes.CDLL(None, use_errno=True), -100, 2  # AT_FDCWD, RENAME_EXCHANGE
    if libc.renameat2(here, bytes(a), here, bytes(b), flag) != 0:
        raise OSError(ctypes.get_errno(), f"renameat2 {a} {b}")


def children(pid):
    found = []
    for task in pathlib.Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            found += [int(p) for p in task.read_text().split()]
        except OSError:
            pass
    return found


def descendants(pid):
    for child in children(pid):
        yield child
        yield from descendants(child)


def comm(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


def state(pid):
    """The letter of its first thread; "" if there is none."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return ""


def alive(pid):
    return state(pid) not in ("", "Z")


def signal_if_there(pid, number):
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass


def kill_at_once(*pids):
    """Nobody gets to say anything any more.  Children first: a death wakes them up."""
    for number in (signal.SIGSTOP, signal.SIGKILL):
        for pid in pids:
            os.kill(pid, number)


def eventually(what, predicate, patience=PATIENCE):
    patience = Patience(patience)
    while True:
        value = predicate()
        if value:
            return value
        if patience.is_over():
            raise AssertionError(f"never came: {what}")
        time.sleep(0.002)


def freeze(pid):
    """SIGSTOP, and return when it has come to every thread: until one of them has been scheduled
    to take it, the others go on, and renew."""
    os.kill(pid, signal.SIGSTOP)

    def still():
        for stat in pathlib.Path(f"/proc/{pid}/task").glob("*/stat"):
            try:
                state = stat.read_text().rpartition(")")[2].split()[0]
            except OSError:  # a thread that has ended
                continue
            if state not in "TtZX":
                return False
        return True

    eventually(f"{pid} stops", still)


class Candidate:
    """One `tenure run`."""

    def __init__(self, world, name, options, command, env=None, stdout=None, wrap=(), binary=TENURE):
        self.world, self.name = world, name
        self.log = open(world.dir / f"{name}.log", "ab")
        self.proc = subprocess.Popen(
            [
                *wrap,
                str(binary),
                "run",
                "--name",
                "w",
                "--store",
                world.url,
                "--id",
                name,
                "--ttl",
                f"{world.ttl_ms}ms",
                *options,
                "--",
                *command,
            ],
            stdin=subprocess.DEVNULL,
            stdout=stdout or self.log,
            stderr=self.log,
            env=env,
            start_new_session=True,
        )

    @property
    def pid(self):
        return self.proc.pid

    def signal(self, number):
        os.kill(self.pid, number)

    def guard(self):
        return eventually(
            "a guard",
            lambda: next((p for p in children(self.pid) if comm(p) == "tenure-guard"), None),
        )

    def words(self):
        self.log.flush()
        return (self.world.dir / f"{self.name}.log").read_text(errors="replace")

    def ended_by_guard(self):
        """Frozen, it was killed by its guard.  False if the last thing that it did was to end that
        one, which a machine that stood still had kept from its duty: then nobody is left to."""

        def settled():
            guarded = any(comm(p) == "tenure-guard" and alive(p) for p in children(self.pid))
            # Still frozen, not on its way out: there was none.
            return self.proc.poll() is not None or (not guarded and state(self.pid) == "T")

        eventually(f"the end of {self.name}", settled)
        if self.proc.poll() is None:
            assert "the guard did not act by the deadline" in self.words(), self.words()[-2000:]
            return False
        assert self.proc.returncode == -signal.SIGKILL, self.words()[-2000:]
        return True

    def wait(self, patience=PATIENCE):
        try:
            return self.proc.wait(patience)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{self.name} does not end: {self.words()[-2000:]}")

    def end(self):
        if self.proc.poll() is None:
            # The second one hastens: stubborn programs need not be waited for.
            for number in (signal.SIGCONT, signal.SIGTERM, signal.SIGQUIT):
                try:
                    self.signal(number)
                    time.sleep(0.02)
                except ProcessLookupError:
                    pass
            try:
                self.proc.wait(20)
            except subprocess.TimeoutExpired:
                self.proc.kill()
                self.proc.wait()
        self.log.close()


class World:
    """One election: a store, candidates, a table."""

    def __init__(self, scheme="file", ttl_ms=1000, options=(), words=(), url=None):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="tenure-fault-", dir=MEMORY))
        self.dir.chmod(0o755)
        self.table = Table(self.dir / "table")
        self.ttl_ms, self.options, self.words = ttl_ms, list(options), list(words)
        self.url = url or {
            "file": f"file:{self.dir}/store",
            "sqlite": f"sqlite:{self.dir}/store.db",
            "noop": "noop:",
        }[scheme]
        self.candidates, self.count = [], 0

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        for c in self.candidates:
            c.end()
        left = eventually_none(self.processes)
        if kind is None:
            assert not left, f"left behind: {left}"
            self.table.check()
        for pid in left:
            signal_if_there(pid, signal.SIGKILL)
        if kind is None:
            shutil.rmtree(self.dir, ignore_errors=True)
        else:
            for c in self.candidates:
                text = (self.dir / f"{c.name}.log").read_text(errors="replace")
                print(f"--- {c.name} ({c.pid}, {c.proc.poll()})\n{text[-1500:]}")

    def start(self, options=(), command=None, **more):
        self.count += 1
        c = Candidate(
            self,
            f"c{self.count}",
            [*self.options, *options],
            command or [str(WITNESS), str(self.table.path), *self.words],
            **more,
        )
        self.candidates.append(c)
        return c

    def forget(self, c):
        """It has ended; its log goes with the world."""
        c.wait()
        c.log.close()
        self.candidates.remove(c)

    @contextlib.contextmanager
    def outage(self):
        """The folder of a file: store is no folder for a while."""
        plain = self.dir / "plain"
        plain.write_text("not a directory")
        exchange(plain, self.dir / "store")
        try:
            yield
        finally:
            exchange(plain, self.dir / "store")

    def processes(self):
        """Every living process that has our table among its arguments, but tenure itself."""
        key = str(self.table.path).encode()
        found = []
        for entry in os.listdir("/proc"):
            if not entry.isdigit():
                continue
            try:
                with open(f"/proc/{entry}/cmdline", "rb") as f:
                    args = f.read().split(b"\0")
            except OSError:
                continue
            if key in args and os.path.basename(args[0]) != b"tenure" and alive(int(entry)):
                found.append(int(entry))
        return found

    def next_leader(self, above):
        """The first program whose epoch is above that."""
        return eventually(
            f"a leader with an epoch above {above}",
            lambda: next((r for r in self.table.programs() if r.epoch > above), None),
        )

    def leader(self):
        """The candidate that leads, by whose descendant the youngest program is."""

        def find():
            # Anew each time: on a machine that stood still for a while, the youngest may have been
            # killed with its candidate before that could say so.
            epoch = self.table.top()
            for c in self.candidates:
                if c.proc.poll() is None and f"leading, epoch {epoch};" in c.words():
                    return c
            return None

        return eventually("the candidate behind the youngest program", find)

    def dead(self, epoch):
        """Wait until no row of that epoch is written any more: all its processes are gone."""

        def gone():
            for pid in self.processes():
                try:
                    with open(f"/proc/{pid}/environ", "rb") as f:
                        if f"TENURE_EPOCH={epoch}".encode() in f.read().split(b"\0"):
                            return False
                except OSError:
                    pass
            return True

        eventually(f"the end of epoch {epoch}", gone)
        return max(r.last for r in self.table.rows() if r.epoch == epoch)


def pair(url, ttl_ms, leader_url=None, options=()):
    """A leader, perhaps by a way of its own, and a standby that knows of it."""
    world = World(url=leader_url or url, ttl_ms=ttl_ms, options=options)
    try:
        leader = world.start()
        world.next_leader(0)
        world.url = url
        return world, leader, stand_by(world)
    except BaseException:
        world.__exit__(Exception, None, None)
        raise


def stand_by(world):
    """One more, which waits for the first.  If a machine that stood still has cost that one its
    lease, the newcomer may have got it: it goes, and another one comes."""
    while True:
        other = world.start()
        eventually("a standby", lambda: "c1 leads" in other.words() or "leading, " in other.words())
        if "c1 leads" in other.words():
            return other
        other.signal(signal.SIGTERM)
        world.forget(other)


def kept(world, leader, epoch):
    """Whatever happened, it cost nobody the leadership."""
    assert world.table.top() == epoch and world.leader() is leader


def eventually_none(look, patience=20):
    limit = time.monotonic() + patience
    while True:
        left = look()
        if not left or time.monotonic() > limit:
            return left
        time.sleep(0.01)


def trials(count, make_world, trial, workers=4):
    """Run trial(world) count times (or TRIALS times), over several worlds at once.

    Returns what the trials returned.
    """
    count = TRIALS or count
    workers = min(workers, count)
    stalls()
    left, lock = [count], threading.Lock()
    results = []

    def work():
        with make_world() as world:
            while True:
                with lock:
                    if left[0] == 0:
                        break
                    left[0] -= 1
                result = trial(world)
                world.table.check()
                with lock:
                    results.append(result)

    with concurrent.futures.ThreadPoolExecutor(workers) as pool:
        for job in [pool.submit(work) for _ in range(workers)]:
            job.result()
    assert len(results) == count
    return results
