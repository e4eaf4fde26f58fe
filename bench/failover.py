"""Crashes, lost hosts and hand-overs: how long until the standby's program runs.

Part of `make bench`; by itself: bench/failover.py [--rounds 15] [--peer-rounds 2]
"""

import argparse
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
sys.path.insert(0, os.path.join(HERE, "..", "tests", "support"))

from lib import contenders, measure  # noqa: E402
from lib.contenders import BUILD, EtcdLock, Flock, Tenure, boottime  # noqa: E402

TTL = 15  # seconds, of the crashes
SHORT_TTL = 3  # of lost hosts: these wait it out
SETTLE = 0.4  # seconds for a standby to be there
PATIENCE = 3 * TTL


def note(text):
    print(text, file=sys.stderr, flush=True)


# ---- Stores -----------------------------------------------------------------

def stores(folder, etcd, servers):
    """[(name, url)]: every store with notifications that can be had here."""
    found = [("file:", f"file:{folder}/failover"), ("sqlite:", f"sqlite:{folder}/failover.db")]
    for name, module, make in (("redis:", "server_redis", "Redis"),
                               ("postgres:", "server_postgres", "Postgres")):
        try:
            module = __import__(module)
            if module.MISSING:
                raise RuntimeError(module.MISSING)
            server = getattr(module, make)()
            servers.append(server)
            found.append((name, server.url()))
        except Exception as error:
            note(f"{name} is left out: {error}")
    if etcd:
        found.append(("etcd:", f"etcd://{etcd.endpoint}"))
    return found


class Election(Tenure):
    """A name of its own for each round: no store has to be emptied."""

    count = 0

    def __init__(self, name, url, ttl):
        super().__init__(url, f"tenure, {name}", f"{ttl}s")
        Election.count += 1
        self.key = f"bench{Election.count}"

    def command(self, log):
        words = super().command(log)
        words[words.index("bench")] = self.key
        return words


# ---- Rounds -----------------------------------------------------------------

class Pair:
    """A leader whose program runs, and a standby."""

    def __init__(self, contender, folder):
        self.contender = contender
        self.log = tempfile.mktemp(dir=folder)
        self.leader = measure.start(contender, self.log)
        measure.await_stamp(self.log, 1)
        self.standby = measure.start(contender, self.log)
        time.sleep(SETTLE)
        self.program = int(measure.lines(self.log)[0].split()[1])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for p in (self.leader, self.standby):
            measure.end(self.contender, p)
        for line in measure.lines(self.log):
            pid = int(line.split()[1])
            if running(pid):
                os.kill(pid, signal.SIGKILL)

    def took(self, since, limit=PATIENCE):
        """None if nobody took over."""
        try:
            return measure.await_stamp(self.log, 2, limit) - since
        except RuntimeError:
            return None


def running(pid):
    try:
        return measure.comm(pid) == "stamp"
    except OSError:
        return False


def program_crashes(pair):
    began = boottime()
    os.kill(pair.program, signal.SIGKILL)
    return pair.took(began), False


def supervisor_crashes(pair):
    """flock(1) and its program share one lock: it is never taken over."""
    limit = 3 if isinstance(pair.contender, Flock) else PATIENCE
    began = boottime()
    os.kill(pair.leader.pid, signal.SIGKILL)
    took = pair.took(began, limit)
    return took, running(pair.program)


def host_is_lost(pair):
    pids = measure.tree(pair.leader.pid)
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    began = boottime()
    for pid in reversed(pids):  # children first: a death wakes them up
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass  # with its namespace
    return pair.took(began), False


def rounds(title, how, made, folder, report, ttl, counts):
    """made: [(name, function that makes a contender, is a peer)]."""
    values, still = {}, {}
    for i in range(max(counts.values())):
        note(f"{title}: round {i + 1}")
        for name, make, peer in made:
            if i >= counts[peer]:
                continue
            with Pair(make(), folder) as pair:
                if not running(pair.program):  # a slow store cost it its first term already
                    note(f"{name}: the leader was gone before the round began; left out")
                    continue
                took, alive = how(pair)
            values.setdefault(name, []).append(took)
            still[name] = still.get(name, 0) + alive
    rows = []
    for name, v in values.items():
        well = [t for t in v if t is not None]
        if not well:
            rows.append((name, len(v), "never", "-", "-", "-", f"{still[name]} of {len(v)}"))
            continue
        median = statistics.median(well)
        rows.append((name, len(v), f"{median / 1e6:.1f} ms", f"{min(well) / 1e6:.1f}",
                     f"{max(well) / 1e6:.1f}", f"{median / 1e9 / ttl:.3f} x",
                     f"{still[name]} of {len(v)}"))
    load = os.getloadavg()[0]
    report.table(title, ("contender", "rounds", "median", "min", "max", "of the ttl",
                         "old program still ran"), rows, f"Load average then: {load:.1f}.")
    return {name: v for name, v in values.items()}


# ---- Hand-over --------------------------------------------------------------

def hand_over(found, folder, report, count):
    """To and fro; the gap is what `tenure handover` measures and prints."""
    rows = []
    for name, url in found:
        note(f"hand-over: {name}")
        gaps = []
        with Pair(Election(name, url, TTL), folder) as pair:
            for _ in range(count):
                done = subprocess.run([os.path.join(BUILD, "tenure"), "handover", "--store", url,
                                       "--name", pair.contender.key, "--json"],
                                      capture_output=True, text=True, check=False)
                if done.returncode != 0:
                    note(done.stderr.strip())
                    continue
                gap = json.loads(done.stdout)["gap_ms"]
                gaps += [gap] if gap >= 0 else []
        if gaps:
            rows.append((name, len(gaps), f"{statistics.median(gaps):.1f} ms", f"{min(gaps):.1f}",
                         f"{max(gaps):.1f}"))
    report.table("Hand-over: from the end of the old program to the start of the new one",
                 ("store", "rounds", "median", "min", "max"), rows,
                 f"Load average then: {os.getloadavg()[0]:.1f}.")


def guard(report, folder, seconds):
    with Pair(Election("file:", f"file:{folder}/failover", TTL), folder) as pair:
        pid = next(p for p in measure.tree(pair.leader.pid) if measure.comm(p) == "tenure-guard")
        time.sleep(0.5)
        before = measure.switches(pid)
        time.sleep(seconds)
        report.table("The guard of an idle leader", ("resident", f"wake-ups in {seconds} s"),
                     [(f"{measure.resident_kib(pid)} KiB", measure.switches(pid) - before)])


def releasers(report, found, folder):
    """What a leader keeps ready for its own crash, where it does."""
    rows = []
    for name, url in found:
        with Pair(Election(name, url, TTL), folder) as pair:
            time.sleep(1)
            pid = next((p for p in measure.tree(pair.leader.pid)
                        if measure.comm(p) == "tenure-releaser"), None)
            if pid:
                rows.append((name, f"{measure.resident_kib(pid)} KiB",
                             f"{measure.private_kib(pid)} KiB"))
    report.table("The prepared releaser of an idle leader", ("store", "resident", "private"), rows)


# ---- All of it --------------------------------------------------------------

def section(report, folder, etcd, redlock, count=15, peer_count=2, seconds=12):
    servers = []
    folder = tempfile.mkdtemp(dir=folder)
    try:
        found = stores(folder, etcd, servers)

        def made(ttl):
            ours = [(f"tenure, {n}", lambda n=n, u=u: Election(n, u, ttl), False)
                    for n, u in found]
            theirs = []
            if etcd:
                theirs.append(("etcdctl lock", lambda: EtcdLock(etcd, ttl), True))
            if redlock:
                redlock.ttl = ttl * 1000
                theirs.append((redlock.name, lambda: redlock, True))
            if contenders.present("flock"):
                theirs.append((Flock.name, lambda: Flock(f"{folder}/lock"), True))
            return ours + theirs

        counts = {False: count, True: peer_count}
        rounds(f"The program crashes, ttl {TTL} s: until the standby's program runs",
               program_crashes, made(TTL), folder, report, TTL, {False: count, True: count})
        rounds(f"The supervisor crashes, ttl {TTL} s: until the standby's program runs",
               supervisor_crashes, made(TTL), folder, report, TTL, counts)
        rounds(f"The host is lost, ttl {SHORT_TTL} s: everything of the leader is killed at once",
               host_is_lost, made(SHORT_TTL), folder, report, SHORT_TTL,
               {False: max(3, count // 5), True: peer_count})
        hand_over(found, folder, report, count)
        guard(report, folder, seconds)
        releasers(report, found, folder)
    finally:
        if redlock:
            redlock.ttl = TTL * 1000
        for server in servers:
            server.stop()
        shutil.rmtree(folder, ignore_errors=True)


def main():
    import run

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--peer-rounds", type=int, default=2)
    args = parser.parse_args()
    folder = tempfile.mkdtemp(prefix="tenure-bench.")
    report, etcd, redlock = run.Report(), None, None
    try:
        if contenders.present("etcd") and contenders.present("etcdctl"):
            etcd = contenders.Etcd(folder)
        redlock = run.start_redlock(folder)
        section(report, folder, etcd, redlock, args.rounds, args.peer_rounds)
    finally:
        for server in (etcd, redlock):
            if server:
                server.close()
        shutil.rmtree(folder, ignore_errors=True)
    print(report.text())


if __name__ == "__main__":
    main()
