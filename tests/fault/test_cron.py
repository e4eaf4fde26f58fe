"""`tenure cron` and `tenure once`: the same line on three machines runs the job once per period."""

import calendar
import contextlib
import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import time

import pytest
import world as w
from world import TENURE, WITNESS, Table, eventually

TAKEN, LOST = 75, 122
LONG = ["--every", "7300d"]  # one period for as long as this test may matter


class Jobs:
    def __init__(self, scheme):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="tenure-cron-", dir=w.MEMORY))
        self.url = f"file:{self.dir}/store" if scheme == "file" else f"sqlite:{self.dir}/db"
        self.table = Table(self.dir / "table")
        self.out = self.dir / "out"
        self.out.touch()
        self.procs = []

    def args(self, verb, *options, command):
        return [TENURE, verb, "job", "--store", self.url, "--timeout", "30s", *options, "--", *command]

    def note(self, code=0, before="true"):
        """A command that writes down for which period it ran."""
        return ["sh", "-c", f'{before}; echo "$TENURE_PERIOD" >>{self.out}; exit {code}']

    def runs(self):
        return self.out.read_text().splitlines()

    def run(self, verb, *options, command=None):
        return subprocess.run(self.args(verb, *options, command=command or self.note()), text=True,
                              capture_output=True, stdin=subprocess.DEVNULL, timeout=w.PATIENCE)

    def start(self, verb, *options, command=None, env=None):
        with open(self.dir / f"log-{len(self.procs)}", "wb") as log:
            proc = subprocess.Popen(self.args(verb, *options, command=command or self.note()),
                                    stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
                                    env={**os.environ, **(env or {})})
        self.procs.append(proc)
        return proc

    def witness(self, verb, *options):
        """One that runs for long, and does by now."""
        before = len(self.table.programs())
        proc = self.start(verb, *options, command=[WITNESS, self.table.path])
        eventually("it runs", lambda: len(self.table.programs()) > before)
        return proc

    def list(self, *options):
        done = subprocess.run([TENURE, "cron", "list", "--store", self.url, "--json", *options], check=True,
                              capture_output=True, text=True)
        return json.loads(done.stdout)

    def set_last(self, year, state="done"):
        record = {"state": state, "period": f"{year}-01-01T00:00:00Z",
                  "at": calendar.timegm((year, 1, 1, 0, 0, 0))}
        subprocess.run([TENURE, "state", "put", "--name", "job", "--store", self.url, "cron/last"], check=True,
                       input=json.dumps(record), text=True)

    def end(self):
        for proc in self.procs:
            if proc.poll() is None:
                proc.terminate()
        for proc in self.procs:
            proc.wait(w.PATIENCE)
        shutil.rmtree(self.dir, ignore_errors=True)


@pytest.fixture(params=["file", "sqlite"])
def jobs(request):
    world = Jobs(request.param)
    yield world
    world.end()


@pytest.fixture
def on_file():
    world = Jobs("file")
    yield world
    world.end()


def test_three_machines_run_it_once(jobs):
    procs = [jobs.start("cron", *LONG, command=jobs.note(before="sleep 0.2")) for _ in range(3)]
    assert [p.wait(w.PATIENCE) for p in procs] == [0, 0, 0]
    assert len(jobs.runs()) == 1
    done = jobs.run("cron", *LONG)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert len(jobs.runs()) == 1
    (job,) = jobs.list()
    assert (job["name"], job["kind"], job["result"], job["code"], job["tries"]) == ("job", "cron", "done", 0, 1)
    assert job["period"] == jobs.runs()[0] and job["started"] <= job["ended"] and job["schedule"] == "every 7300d"


def test_three_that_stay_run_each_period_once(on_file):
    procs = [on_file.start("cron", "--every", "1s", "--stay") for _ in range(3)]
    eventually("three periods", lambda: len(on_file.runs()) >= 3)
    for proc in procs:
        proc.terminate()
    for proc in procs:
        proc.wait(w.PATIENCE)
    runs = on_file.runs()
    assert runs == sorted(set(runs)), runs


def test_one_that_stays_does_so_whatever_the_code_of_the_command(on_file):
    staying = on_file.start("cron", "--every", "1s", "--stay", command=on_file.note(code=2))
    eventually("two periods", lambda: len(on_file.runs()) >= 2)
    assert staying.poll() is None


def test_one_that_stays_does_so_however_slow_the_store(on_file):
    source = on_file.dir / "slow.c"
    source.write_text("#include <unistd.h>\n#include <sys/syscall.h>\n"
                      "int fsync(int fd) { usleep(300000); return (int)syscall(SYS_fsync, fd); }\n")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", on_file.dir / "slow.so", source], check=True)
    staying = on_file.start("cron", "--every", "1s", "--stay", env={"LD_PRELOAD": str(on_file.dir / "slow.so")})
    eventually("two periods", lambda: len(on_file.runs()) >= 2 or staying.poll() is not None)
    assert staying.poll() is None, staying.returncode


def test_the_code_of_the_command_and_what_is_kept_of_it(on_file):
    assert on_file.run("cron", *LONG, command=on_file.note(code=7)).returncode == 7
    assert on_file.run("cron", *LONG).returncode == 0  # it was run
    assert on_file.run("cron", *LONG, "--retry", "lost").returncode == 0
    assert len(on_file.runs()) == 1
    (job,) = on_file.list("job")
    assert (job["result"], job["code"], job["tries"]) == ("failed", 7, 1)
    assert on_file.run("cron", *LONG, "--retry", "failed").returncode == 0
    (job,) = on_file.list()
    assert (job["result"], job["code"], job["tries"]) == ("done", 0, 2)
    assert not on_file.list("other")


def test_once(jobs):
    for period in ("2026-11-17", "2026-11-18", "2026-11-17", "2026-11-18"):
        assert jobs.run("once", "--period", period).returncode == 0
    assert jobs.runs() == ["2026-11-17", "2026-11-18"]
    assert [(job["kind"], job["period"], job["result"]) for job in jobs.list()] == [
        ("once", "2026-11-17", "done"), ("once", "2026-11-18", "done")]


@pytest.mark.parametrize("mode,late", [("once", 1), ("skip", 0), ("all", 3)])
def test_catch_up(on_file, mode, late):
    """A yearly job whose last run is three years ago.  New Year's Eve is somebody else's problem."""
    year = time.gmtime().tm_year
    yearly = ["--at", "0 0 1 1 *", "--utc", "--catch-up", mode]
    on_file.set_last(year - 3)
    assert on_file.run("cron", *yearly).returncode == 0
    assert on_file.runs() == [f"{year - i}-01-01T00:00:00Z" for i in range(late - 1, -1, -1)]
    assert on_file.run("cron", *yearly).returncode == 0
    assert len(on_file.runs()) == late
    (job,) = on_file.list()
    assert (job["period"], job["result"]) == (f"{year}-01-01T00:00:00Z", "done" if late else "skipped")


def test_in_its_window_a_period_is_not_late(on_file):
    year = time.gmtime().tm_year
    on_file.set_last(year - 1)
    assert on_file.run("cron", "--at", "@yearly", "--utc", "--catch-up", "skip", "--window", "366d").returncode == 0
    assert on_file.runs() == [f"{year}-01-01T00:00:00Z"]


def test_a_first_call_out_of_time_runs_nothing(on_file):
    assert on_file.run("cron", "--at", "0 0 1 1 *", "--utc").returncode == 0
    (job,) = on_file.list()
    assert (job["result"], on_file.runs()) == ("new", [])


def test_a_machine_that_dies_is_followed_by_another_if_asked(jobs):
    machine = jobs.witness("cron", *LONG, "--retry", "lost")
    old = jobs.table.programs()[0]
    next_one = jobs.start("cron", *LONG, "--retry", "lost", command=[WITNESS, jobs.table.path])
    machine.kill()
    eventually("the next", lambda: len(jobs.table.programs()) == 2)
    assert not w.alive(old.pid)
    (job,) = jobs.list()
    assert (job["result"], job["tries"], job["code"]) == ("running", 2, None)
    next_one.terminate()
    next_one.wait(w.PATIENCE)
    jobs.table.check()
    assert jobs.list()[0]["result"] == "interrupted"


def test_a_machine_that_dies_is_not_followed_if_not_asked(on_file):
    machine = on_file.witness("cron", *LONG)
    assert on_file.run("cron", *LONG).returncode == 0  # another does it
    machine.kill()
    machine.wait()
    eventually("nobody runs it", lambda: on_file.list()[0]["result"] == "interrupted")
    done = on_file.run("cron", *LONG)
    assert done.returncode == 0 and "did not end" in done.stderr
    assert not on_file.runs()
    assert on_file.run("cron", *LONG, "--retry", "lost").returncode == 0
    assert len(on_file.runs()) == 1


def test_one_that_was_stopped_is_told_like_one_that_died(on_file):
    machine = on_file.witness("cron", *LONG)
    machine.terminate()
    machine.wait(w.PATIENCE)
    assert on_file.list()[0]["result"] == "interrupted"
    done = on_file.run("cron", *LONG)
    assert done.returncode == 0 and "did not end" in done.stderr and not on_file.runs()


def test_a_pause_is_not_taken_for_a_run(on_file):
    assert on_file.run("once", "--period", "p").returncode == 0
    subprocess.run([TENURE, "pause", "job", "--store", on_file.url], check=True, capture_output=True)
    done = on_file.run("once", "--period", "q")
    assert done.returncode == TAKEN and "q is not run" in done.stderr, done
    assert on_file.run("once", "--period", "p").returncode == 0  # it is done
    assert on_file.runs() == ["p"]


def test_what_was_begun_and_not_run_can_be_run(on_file):
    """Asked to go as soon as the record says "running": either the command runs to its end, for CONT ends nothing,
    or nothing of it remains."""
    def is_running(period):
        for path in (on_file.dir / "store").rglob("*"):
            with contextlib.suppress(OSError):
                if path.is_file() and all(word in path.read_bytes() for word in (b'"running"', period.encode())):
                    return True
        return False

    for i in range(4):
        machine = on_file.start("once", "--period", f"p{i}", "--stop-signal", "CONT")
        while not is_running(f"p{i}") and machine.poll() is None:
            time.sleep(0.0005)
        machine.terminate()
        machine.wait(w.PATIENCE)
        assert on_file.run("once", "--period", f"p{i}").returncode == 0
        assert on_file.runs() == [f"p{j}" for j in range(i + 1)]


def test_a_lost_lease(on_file):
    machine = on_file.witness("once", "--period", "p", "--ttl", "6s")
    subprocess.run([TENURE, "reset", "--name", "job", "--store", on_file.url, "--force"], check=True,
                   capture_output=True)
    assert machine.wait(w.PATIENCE) == LOST
    assert on_file.list()[0]["result"] == "interrupted"
    assert len(on_file.table.programs()) == 1


def test_it_waits_for_a_run_that_is_under_way(on_file):
    machine = on_file.witness("once", "--period", "p")
    done = on_file.run("once", "--period", "q", "--wait", "100ms", "--timeout", "5s")
    assert done.returncode == TAKEN and "q is not run" in done.stderr, done  # that lock is held says nothing of q
    assert on_file.run("once", "--period", "p").returncode == 0  # it runs
    waiter = on_file.start("once", "--period", "q", "--wait", "60s")
    machine.terminate()
    assert waiter.wait(w.PATIENCE) == 0
    assert on_file.runs() == ["q"]


def test_a_record_that_cannot_be_read_stops_the_job(on_file):
    subprocess.run([TENURE, "state", "put", "--name", "job", "--store", on_file.url, "cron/last"], check=True,
                   input="nonsense", text=True)
    done = on_file.run("cron", *LONG)
    assert done.returncode == 1 and "cannot be read" in done.stderr and not on_file.runs()


def test_a_period_in_the_future_is_told(on_file):
    on_file.set_last(time.gmtime().tm_year + 2)
    done = on_file.run("cron", "--at", "@yearly", "--utc")
    assert done.returncode == 0 and "in the future" in done.stderr and not on_file.runs()


def test_usage(on_file):
    for options, words in ((["--at", "61 * * * *"], "is not a minute"), ([], "--every 1h or --at"),
                           (["--every", "1h", "--at", "@daily"], "--every 1h or --at"),
                           (["--every", "1ms"], "whole seconds"), ([*LONG, "--retry", "no"], "never, lost, failed")):
        done = on_file.run("cron", *options)
        assert done.returncode == 2 and words in done.stderr, done
    assert on_file.run("once").returncode == 2
    done = on_file.run("once", "--period", b"\xff", "--retry", "lost")
    assert done.returncode == 2 and "UTF-8" in done.stderr, done
    assert not on_file.runs()
    assert on_file.run("once", "--period", "é").returncode == 0
    assert on_file.run("once", "--period", "p" * 100).returncode == 0
    assert on_file.runs() == ["é", "p" * 100]


def test_without_a_store_each_machine_would_run_it(on_file):
    env = {k: v for k, v in os.environ.items() if k != "TENURE_STORE"}
    for verb in (["cron", "job", *LONG], ["once", "job", "--period", "p"]):
        done = subprocess.run([TENURE, *verb, "--", *on_file.note()], env={**env, "HOME": str(on_file.dir)}, text=True,
                              capture_output=True, timeout=w.PATIENCE)
        assert done.returncode == 2 and "--store" in done.stderr, done
    assert not on_file.runs()
