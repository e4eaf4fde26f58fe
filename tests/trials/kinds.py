"""The kinds of trials: what is done to a pair of candidates, again and again.

Each kind is a class: make() builds a bed, trial(bed, term) injects one fault
into the term that leads and returns the term that follows.  `worker` numbers
the beds that run side by side, so that stores, containment and programs vary.
"""

import contextlib
import os
import random
import shutil
import signal
import subprocess
import tempfile
import time

import world as w
from bed import Bed, pair, refill, settle
from proxy import Proxy
from server_etcd import MISSING as NO_ETCD
from server_etcd import Etcd
from server_postgres import MISSING as NO_POSTGRES
from server_postgres import Postgres, template
from server_redis import MISSING as NO_REDIS
from server_redis import Redis
from share import Share
from share import missing as no_mounts

IS_ROOT = os.geteuid() == 0


def contain(worker):
    return "pidns" if IS_ROOT and worker % 2 else "group"


class Kind:
    name = what = ""
    ttl_ms = 1000
    words = ("stubborn", "brood", "daemon")
    options = ()

    def __init__(self, worker):
        self.worker = worker
        self.contain = contain(worker)

    @staticmethod
    def missing():
        """Why it cannot be tried here, or None."""
        return None

    @staticmethod
    def prepare():
        """What all beds share, once."""

    def scheme(self):
        return "sqlite" if self.worker // 2 % 2 else "file"

    @contextlib.contextmanager
    def make(self):
        with self.bed(scheme=self.scheme()) as bed:
            yield bed

    def bed(self, **settings):
        return Bed(ttl_ms=self.ttl_ms, words=self.words,
                   options=["--contain", self.contain, *self.options], **settings)

    def begin(self, bed):
        return pair(bed)

    def current(self, bed, term):
        """The term that the next fault is for."""
        return bed.latest(term)


class TenureKilled(Kind):
    name, what = "tenure-killed", "tenure gets SIGKILL"

    def trial(self, bed, term):
        term.candidate.signal(signal.SIGKILL)
        term.cut_off(w.now(), self.ttl_ms)
        new = bed.after(term)
        refill(bed, term.candidate)
        return new


class TenureStopped(Kind):
    name, what = "tenure-stopped", "tenure gets SIGSTOP, and is left so for several ttls"

    def trial(self, bed, term):
        w.freeze(term.candidate.pid)
        term.cut_off(w.now(), self.ttl_ms)
        new = bed.after(term)
        if term.candidate.ended_by_guard():
            refill(bed, term.candidate)
        else:
            term.candidate.signal(signal.SIGCONT)
        return new


class TenureStoppedAndWoken(Kind):
    """Nobody ends it in time: it wakes up, to a lease that has moved on, or to its guard."""

    name, what = "tenure-woken", "tenure gets SIGSTOP, and SIGCONT about when its time is over"

    def trial(self, bed, term):
        w.freeze(term.candidate.pid)
        at = w.now()
        term.cut_off(at, self.ttl_ms)
        wake = at + w.hold_ns(self.ttl_ms) + random.randint(-150_000_000, 150_000_000)
        while w.now() < wake:
            term.sample()
            time.sleep(0.002)
        term.candidate.signal(signal.SIGCONT)
        if not term.closed:
            term.bound = None  # it may renew again
        return bed.after(term) if self.lost(bed, term) else term

    @staticmethod
    def lost(bed, term):
        """It has fired; or the next renewal came first, which is as good (I12)."""
        before = term.deadline

        def look():
            term.sample()
            return term.closed or term.deadline > before

        w.eventually("a renewal or the end", look)
        return term.closed


class GuardKilled(Kind):
    name, what = "guard-killed", "the guard gets SIGKILL"

    def trial(self, bed, term):
        guard = term.candidate.guard()
        term.sample()
        term.closed = True  # what it renews from now on does not count for this
        os.kill(guard, signal.SIGKILL)
        return bed.after(term)


class BothKilled(Kind):
    name, what = "both-killed", "tenure and guard get SIGKILL at once"

    def trial(self, bed, term):
        w.kill_at_once(term.candidate.guard(), term.candidate.pid)
        term.cut_off(w.now(), self.ttl_ms)
        new = bed.after(term)
        refill(bed, term.candidate)
        return new


class AllKilled(Kind):
    """Without a namespace or a cgroup nothing is left that knows of the daemons."""

    name, what = "all-killed", "tenure, guard and init get SIGKILL at once"

    def __init__(self, worker):
        super().__init__(worker)
        self.words = ("stubborn", "brood", "daemon") if self.contain == "pidns" else ("stubborn",)

    def trial(self, bed, term):
        guard = term.candidate.guard()
        w.kill_at_once(*w.children(guard), guard, term.candidate.pid)
        term.cut_off(w.now(), self.ttl_ms)
        new = bed.after(term)
        refill(bed, term.candidate)
        return new


def redis():
    return Redis(("appendonly", "yes"), ("appendfsync", "always"))


class Outage(Kind):
    """A server of its own, every change on disk."""

    @staticmethod
    def missing():
        return NO_REDIS

    def make_server(self):
        return redis()

    @contextlib.contextmanager
    def make(self):
        with self.make_server() as self.server, self.reach() as port:
            with self.bed(url=self.server.url().replace(f":{self.server.port}", f":{port}")) as bed:
                yield bed

    @contextlib.contextmanager
    def reach(self):
        yield self.server.port

    def trial(self, bed, term):
        self.fail()
        term.cut_off(w.now(), self.ttl_ms)
        bed.over(term)
        self.heal()
        return bed.after(term)


class AnyOutage(Outage):
    """Of four beds two on Redis, one on PostgreSQL, one on etcd; each with each containment."""

    @staticmethod
    def prepare():
        if not NO_POSTGRES:
            template()

    def make_server(self):
        missing, make = [(NO_REDIS, redis), (NO_REDIS, redis), (NO_POSTGRES, Postgres),
                         (NO_ETCD, Etcd)][(self.worker + self.worker // 4) % 4]
        if missing or make is redis:
            return redis()
        self.ttl_ms = 2000  # they take their time
        return make()


class TenureKilledOnServer(AnyOutage):
    """Its releaser is ready, or getting ready, or not there yet."""

    name, what = "tenure-killed-server", "tenure gets SIGKILL; Redis, PostgreSQL, etcd"
    trial = TenureKilled.trial


class StoreStopped(Outage):
    name, what = "store-stopped", "the store's server is killed, and started again after D"

    def fail(self):
        self.server.kill()

    def heal(self):
        self.server.start()


class StoreHung(AnyOutage):
    name, what = "store-hung", "the store's server gets SIGSTOP, and SIGCONT after D"

    def fail(self):
        self.server.pause()

    def heal(self):
        self.server.resume()


class StoreHalfOpen(AnyOutage):
    name, what = "store-half-open", "nothing passes on open or new connections, nothing is closed"
    ttl_ms = 1500  # the proxy needs its time too

    @contextlib.contextmanager
    def reach(self):
        with Proxy(("127.0.0.1", self.server.port)) as self.proxy:
            yield self.proxy.port

    def fail(self):
        self.proxy.black_hole = True
        self.proxy.hold("up", "down")

    def heal(self):
        self.proxy.cut()
        self.proxy.black_hole = False
        self.proxy.release()


class DiskFull(Kind):
    name, what = "disk-full", "the store's file system is full, until D is over"

    missing = staticmethod(no_mounts)

    @contextlib.contextmanager
    def make(self):
        self.disk, self.trials = tempfile.mkdtemp(prefix="tenure-disk-"), 0
        size, path = {"file": ("1m", "store"), "sqlite": ("12m", "store.db")}[self.scheme()]
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", self.disk],
                       check=True)
        try:
            with self.bed(url=f"{self.scheme()}:{self.disk}/{path}") as bed:
                yield bed
        finally:
            subprocess.run(["umount", "-l", self.disk], check=True)
            os.rmdir(self.disk)

    def fill(self):
        """Also what cleaning up may free meanwhile."""
        with open(f"{self.disk}/ballast", "ab", buffering=0) as f:
            with contextlib.suppress(OSError):
                while True:
                    f.write(b"x" * 4096)

    def trial(self, bed, term):
        def full():
            self.fill()
            term.sample()
            return term.closed and w.now() > term.dead_by()

        w.eventually("the end on a full disk", full)
        os.unlink(f"{self.disk}/ballast")
        self.trials += 1
        new = bed.after(term)
        return self.anew(bed) if self.scheme() == "sqlite" and self.trials % 10 == 0 else new

    @staticmethod
    def anew(bed):
        """SQLite's log is used again from its beginning when it has grown to its 4 MiB; then a full
        disk is no fault any more.  It is removed when the last one closes it."""
        for c in list(bed.candidates):
            c.end()
            bed.candidates.remove(c)
        above, since = bed.table.top(), bed.rows_taken()
        bed.start()
        new = bed.term(above, since)
        bed.start()
        return new


class ShareGone(Kind):
    """Each candidate is a machine of its own, with the same file system at another place."""

    name, what = "share-gone", "the store's file system is unmounted under the leader, for a while"

    missing = staticmethod(no_mounts)

    @contextlib.contextmanager
    def make(self):
        self.places = {}
        with Share() as self.share, self.bed(url="noop:") as bed:
            yield bed

    def begin(self, bed):
        path = {"file": "", "sqlite": "/ha.db"}[self.scheme()]
        for name in ("one", "two"):
            bed.url = f"{self.scheme()}:{self.share.mount(name)}{path}"
            self.places[bed.start().name] = name
            term = bed.term() if name == "one" else term
        return term

    def trial(self, bed, term):
        place = self.places[term.candidate.name]
        under = self.share.unmount(place)
        term.cut_off(w.now(), self.ttl_ms)
        new = bed.after(term)
        bed.over(term)
        made = list(under.iterdir())
        assert not made, f"made under the mount point: {made}"
        self.share.mount(place)
        return new


class Stubborn(Kind):
    name = "stubborn-tree"
    what = "the program ignores TERM and has children, daemons, new sessions; tenure gets TERM"
    options = ("--grace", "100ms")

    def trial(self, bed, term):
        term.candidate.signal(signal.SIGTERM)
        new = bed.after(term)
        refill(bed, term.candidate)
        return new


class ExitsAtOnce(Kind):
    name, what = "exits-at-once", "the program ends as soon as it has begun, and leaves daemons"
    words = ("brood", "daemon", "exit=7")
    ttl_ms = 2000

    def current(self, bed, term):
        return term  # each ends by itself

    def trial(self, bed, term):
        new = bed.after(term)
        assert term.candidate.wait() == 7, "not the program's code"
        refill(bed, term.candidate)
        return new


class CannotRun(Kind):
    """It could be run when tenure was started; when its turn comes it is gone."""

    name = "cannot-run"
    what = "the next one's program is missing, or not executable, when its turn comes"
    ttl_ms = 2000

    def begin(self, bed):
        bed.start()
        return bed.term()

    def trial(self, bed, term):
        program = bed.dir / f"program{term.epoch}"
        shutil.copy(w.WITNESS, program)
        broken = bed.start(command=[str(program), str(bed.table.path)])
        w.eventually("it stands by", lambda: "leads, epoch" in broken.words())
        gone = self.worker // 2 % 2 == 0
        program.unlink() if gone else program.chmod(0o644)
        term.candidate.signal(signal.SIGKILL)
        term.cut_off(w.now(), self.ttl_ms)
        assert broken.wait() == (127 if gone else 126), broken.words()[-300:]
        bed.start()
        new = bed.after(term)
        assert new.candidate is not broken
        for c in (broken, term.candidate):
            bed.forget(c)
        program.unlink(missing_ok=True)
        return new


class HandOver(Kind):
    name, what = "hand-over", "tenure handover, to and fro"
    ttl_ms = 5000
    words = ()

    def trial(self, bed, term):
        target = next(c for c in bed.candidates if c is not term.candidate)

        def ask():
            asked = subprocess.Popen([w.TENURE, "handover", "--name", "w", "--store", bed.url,
                                      "--to", target.name], stdout=subprocess.DEVNULL,
                                     stderr=subprocess.DEVNULL)
            while asked.poll() is None:
                term.sample()  # it goes on renewing until it is told
                time.sleep(0.002)
            return asked.returncode == 0 or bed.row(bed.rows_taken() - 1).epoch > term.epoch

        w.eventually("a hand-over", ask)
        return bed.after(term)


class Hooks(Kind):
    """A hook of one term never acts after the next one has begun: the witnesses are hooks too, and
    judged like programs.  --on-started hangs, and has left a daemon; --on-stopped takes its time."""

    name = "hooks"
    what = "hooks that hang, of a tenure that hands over (TERM), or it or its guard gets SIGKILL"
    ttl_ms = 5000
    words = ()

    def bed(self, **settings):
        bed = super().bed(**settings)
        witness = f"{w.WITNESS} {bed.table.path} hook"
        (bed.dir / "undone").touch()
        (bed.dir / "started").write_text(f"setsid {witness} stubborn & exec {witness} stubborn\n")
        (bed.dir / "stopped").write_text(
            f"{witness} after=20; echo $TENURE_EPOCH >> {bed.dir}/undone\n")
        for name in ("started", "stopped"):
            bed.options += [f"--on-{name}", f". {bed.dir}/{name}"]
        return bed

    def trial(self, bed, term):
        fault = random.choice([self.hand_over, self.kill_tenure, self.kill_guard])
        return fault(bed, term)

    @staticmethod
    def hand_over(bed, term):
        term.candidate.signal(signal.SIGTERM)
        new = bed.after(term)
        undone, words = (bed.dir / "undone").read_text().split(), term.candidate.words()
        late = "hook was ended" in words.rpartition("asked to stop")[2] or "lease is kept" in words
        assert str(term.epoch) in undone or late, f"no --on-stopped for {term.epoch}"
        refill(bed, term.candidate)
        return new

    def kill_tenure(self, bed, term):
        return TenureKilled.trial(self, bed, term)

    def kill_guard(self, bed, term):
        return GuardKilled.trial(self, bed, term)


KINDS = [TenureKilled, TenureKilledOnServer, TenureStopped, TenureStoppedAndWoken, GuardKilled,
         BothKilled, AllKilled, StoreStopped, StoreHung, StoreHalfOpen, DiskFull, ShareGone, Stubborn,
         ExitsAtOnce, CannotRun, HandOver, Hooks]


def one(kind, bed, term):
    """One trial.  Returns the term that leads now."""
    settle()
    term = kind.current(bed, term)
    new = kind.trial(bed, term)
    term.tried = new is not term
    return new
