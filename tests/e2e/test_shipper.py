"""The shippers of examples/, killed at random: lines arrive twice, but none is missing.

TRIALS=500 for the long run (make trials).
"""

import collections
import os
import pathlib
import random
import signal
import subprocess
import sys
import threading
import time

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("TENURE_BUILD", ROOT / "build"))
TRIALS = int(os.environ.get("TRIALS", "30"))
SHARE = {"python": 0.4, "shell": 0.35, "c": 0.25}
PATIENCE = 120


class Source(threading.Thread):
    """Grows by a few hundred lines a second."""

    def __init__(self, path):
        super().__init__(daemon=True)
        self.path, self.count, self.ending = path, 0, False
        path.touch()

    def run(self):
        with open(self.path, "ab", buffering=0) as out:
            while not self.ending:
                lines = b"".join(b"line %08d.\n" % (self.count + i) for i in range(5))
                # Not line by line: a reader meets halves.
                cut = random.randrange(len(lines))
                out.write(lines[:cut])
                time.sleep(0.005)
                out.write(lines[cut:])
                self.count += 5
                time.sleep(0.005)

    def end(self):
        self.ending = True
        self.join()


def parents():
    """pid -> parent of every process there is."""
    found = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                stat = pathlib.Path("/proc", entry, "stat").read_text()
            except OSError:
                continue
            found[int(entry)] = int(stat.rsplit(")", 1)[1].split()[1])
    return found


def family(pid):
    """It and everything below it."""
    above = parents()
    known = {pid}
    while True:
        more = {child for child, parent in above.items() if parent in known} - known
        if not more:
            return sorted(known)
        known |= more


class Crew:
    """Candidates, started again whenever they end."""

    def __init__(self, command, size=2):
        self.command = command
        self.members = [self.start() for _ in range(size)]

    def start(self):
        return subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def tend(self):
        for i, member in enumerate(self.members):
            if member.poll() is not None:
                self.members[i] = self.start()

    def kill_one(self):
        """Any process of any candidate: tenure, its guard, the program, what it started."""
        victims = [pid for member in self.members if member.poll() is None
                   for pid in family(member.pid)]
        if not victims:
            return False
        # Those who do not lead are only the half of it.
        try:
            os.kill(random.choice(victims), signal.SIGKILL)
        except ProcessLookupError:
            return False
        return True

    def end(self):
        for member in self.members:
            pids = family(member.pid)
            member.send_signal(signal.SIGTERM)
            try:
                member.wait(10)
            except subprocess.TimeoutExpired:
                for pid in pids:
                    try:
                        os.kill(pid, signal.SIGKILL)
                    except ProcessLookupError:
                        pass
                member.wait()


def arrived(sink):
    """Line number -> how often; halves are not counted."""
    count = collections.Counter()
    if sink.exists():
        for line in sink.read_bytes().split(b"\n"):
            if len(line) == 14 and line.startswith(b"line ") and line.endswith(b"."):
                count[int(line[5:13])] += 1
    return count


@pytest.mark.parametrize("kind,store", [("python", "sqlite"), ("shell", "file"), ("c", "sqlite")])
def test_random_kills_lose_nothing(tmp_path, kind, store):
    source, sink = Source(tmp_path / "source"), tmp_path / "sink"
    url = {"sqlite": f"sqlite:{tmp_path}/db", "file": f"file:{tmp_path}/store"}[store]
    tenure = [BUILD / "tenure", "run", "--name", "ship", "--store", url, "--state", "store",
              "--ttl", "2s", "--"]
    command = {
        "python": [*tenure, sys.executable, ROOT / "examples/shipper/ship.py", source.path, sink],
        "shell": [*tenure, ROOT / "examples/shipper/ship.sh", source.path, sink],
        "c": [BUILD / "examples/ship", url, source.path, sink, "1000"],
    }[kind]
    random.seed(os.environ.get("SEED", "shipper"))
    source.start()
    crew = Crew(command)
    kills, wanted = 0, max(1, round(TRIALS * SHARE[kind]))
    try:
        while kills < wanted:
            before = len(arrived(sink))
            end = time.monotonic() + PATIENCE
            # Something must have arrived since the last kill, or it would prove little.
            while len(arrived(sink)) <= before:
                assert time.monotonic() < end, "nothing arrives any more"
                crew.tend()
                time.sleep(0.02)
            time.sleep(random.random() * 0.1)
            kills += crew.kill_one()
        source.end()
        end = time.monotonic() + PATIENCE
        while len(arrived(sink)) < source.count and time.monotonic() < end:
            crew.tend()
            time.sleep(0.05)
    finally:
        source.ending = True
        crew.end()
    count = arrived(sink)
    missing = [i for i in range(source.count) if not count[i]]
    twice = sum(n - 1 for n in count.values())
    print(f"{kind}: {kills} kills, {source.count} lines, {twice} duplicates, {len(missing)} gaps")
    assert not missing, missing[:20]
    assert source.count > 0
