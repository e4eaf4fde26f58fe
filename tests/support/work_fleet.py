"""A group of jobs and its workers, for the tests of `tenure work`.

The judge stands outside: each run of a job holds a lock on a file of its job while it lives (job_witness.c,
many_witness.py), and writes down whatever contradicts J1 (twice), J2 (epoch) or J3 (lost).  /proc/locks tells who lives.
"""

import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile

import pytest
import world
from process import until
from world import BUILD, TENURE

WITNESS = BUILD / "tests" / "support" / "job_witness"


class Fleet:
    """A group of jobs and its workers."""

    def __init__(self, url, jobs):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="tenure-work-", dir=world.MEMORY))
        self.url = url or f"sqlite:{self.dir}/db"
        self.runs = self.dir / "runs"
        self.runs.mkdir(mode=0o777)
        self.names = [f"job-{i}" for i in range(jobs)]
        self.workers = {}
        self.jobs("add", *self.names)

    def jobs(self, *args, code=0):
        done = subprocess.run([TENURE, "jobs", *args, "--store", self.url, "--group", "g"], capture_output=True,
                              text=True, timeout=120)
        assert done.returncode == code, (args, done.returncode, done.stdout, done.stderr)
        return done.stdout

    def owners(self):
        rows = map(json.loads, self.jobs("list", "--json").splitlines())
        return {row["id"]: row["owner"] for row in rows}

    def start(self, name, *options, command=None):
        log = open(self.dir / f"{name}.log", "ab")
        self.workers[name] = subprocess.Popen(
            [TENURE, "work", "--store", self.url, "--group", "g", "--id", name, "--ttl", "4s", "--renew", "1s",
             "--grace", "2s", "--contain", "group", "--log", "text", *options, "--",
             *(command or [WITNESS, self.runs])],
            stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        log.close()
        return self.workers[name]

    def log(self, name):
        return (self.dir / f"{name}.log").read_text()

    def living(self):
        """The jobs whose program lives, by the locks that the kernel knows."""
        held = set(re.findall(r"^\d+: FLOCK .* ([0-9a-f]+:[0-9a-f]+:\d+) ", pathlib.Path("/proc/locks").read_text(), re.M))

        def name(path):
            there = path.stat()
            return f"{os.major(there.st_dev):02x}:{os.minor(there.st_dev):02x}:{there.st_ino}"

        return {path.name for path in self.runs.iterdir() if name(path) in held}

    def programs(self, worker):
        """The programs of a worker that live: pid -> job."""
        found = {}
        for pid, args in self.processes():
            if args.startswith(bytes(WITNESS)):
                try:
                    pairs = pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
                except OSError:
                    continue  # it has just ended
                env = dict(pair.split(b"=", 1) for pair in pairs if b"=" in pair)
                if env.get(b"TENURE_ID") == worker.encode():
                    found[pid] = env[b"TENURE_JOB"].decode()
        return found

    def guard(self, worker):
        pid = self.workers[worker].pid
        children = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        return next(int(c) for c in children if pathlib.Path(f"/proc/{c}/comm").read_text() == "tenure-guard\n")

    def launcher(self, worker):
        below = [self.guard(worker)]
        for pid in below:
            if pathlib.Path(f"/proc/{pid}/comm").read_text() == "tenure-launcher\n":
                return pid
            below += map(int, pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split())
        raise AssertionError(f"{worker} has no launcher")

    def spread(self):
        """How many programs each worker has."""
        return sorted(len(self.programs(worker)) for worker in self.workers)

    def all_run(self):
        return self.living() == set(self.names)

    def count(self, job):
        words = (self.runs / job).read_text().split()
        return int(words[1]) if words else 0  # it has just begun

    def check(self):
        wrong = self.runs / "violations"
        assert not wrong.exists(), wrong.read_text()

    def leave(self, name):
        worker = self.workers.pop(name)
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(world.PATIENCE) == 0, self.log(name)

    def processes(self):
        """Those that have our folder in their arguments: tenure, its guard's programs, the witnesses."""
        found = []
        for entry in pathlib.Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    args = (entry / "cmdline").read_bytes()
                except OSError:
                    continue
                if str(self.dir).encode() in args:
                    found.append((int(entry.name), args))
        return found

    def end(self):
        for worker in self.workers.values():
            if worker.poll() is None:
                worker.send_signal(signal.SIGCONT)
                worker.kill()
                worker.wait()
        until(lambda: not self.processes())
        shutil.rmtree(self.dir, ignore_errors=True)


@pytest.fixture
def fleet():
    made = []

    def make(jobs, url=None):
        made.append(Fleet(url, jobs))
        return made[-1]

    yield make
    for one in made:
        one.end()
