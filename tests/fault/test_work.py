"""tenure work: a program for each job, on real processes.

The judge stands outside: each program holds a lock on a file of its job while it lives (support/job_witness.c), and
writes down whatever contradicts J1 (twice), J2 (epoch) or J3 (lost).  /proc/locks tells who lives.
"""

import json
import os
import pathlib
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

    def pid(self, name):
        return self.workers[name].pid

    def living(self):
        """The jobs whose program lives, by the locks that the kernel knows."""
        held = {line.split()[5].split(":")[2] for line in open("/proc/locks") if " FLOCK " in line}
        return {p.name for p in self.runs.iterdir() if str(p.stat().st_ino) in held}

    def all_run(self):
        return self.living() == set(self.names)

    def epoch(self, job):
        return int((self.runs / job).read_text().split()[0])

    def count(self, job):
        return int((self.runs / job).read_text().split()[1])

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
                    found.append((entry.name, args))
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


def test_one_worker_runs_every_job_and_leaves(fleet):
    f = fleet(3)
    f.start("a")
    until(f.all_run)
    until(lambda: all(f.count(job) > 0 for job in f.names))
    assert set(f.owners().values()) == {"a"}
    f.leave("a")
    assert f.living() == set()
    assert not f.processes()
    f.start("b")  # one write has freed them all
    until(f.all_run)
    assert set(f.owners().values()) == {"b"}
    f.leave("b")
    f.check()
