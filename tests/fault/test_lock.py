"""`tenure lock`: one at a time, or N; the command runs once, and its code comes back."""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile

import pytest
import world as w
from world import TENURE, WITNESS, Table, eventually

TAKEN, LOST = 75, 122


class Locks:
    """One store, and those who contend for locks in it."""

    def __init__(self, scheme):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="tenure-lock-", dir=w.MEMORY))
        self.url = f"file:{self.dir}/store" if scheme == "file" else f"sqlite:{self.dir}/db"
        self.table = Table(self.dir / "table")
        self.procs = []

    def args(self, *options, command):
        return [TENURE, "lock", "job", "--store", self.url, "--timeout", "30s", *options, "--", *command]

    def run(self, *options, command=("true",)):
        return subprocess.run(self.args(*options, command=command), capture_output=True, text=True,
                              stdin=subprocess.DEVNULL, timeout=w.PATIENCE)

    def start(self, *options, command=None):
        log = open(self.dir / f"log-{len(self.procs)}", "wb")
        proc = subprocess.Popen(self.args(*options, command=command or [WITNESS, self.table.path]),
                                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
        log.close()
        self.procs.append(proc)
        return proc

    def words(self, proc):
        return (self.dir / f"log-{self.procs.index(proc)}").read_text()

    def hold(self, *options):
        """A holder, which runs its command by now."""
        before = len(self.table.programs())
        proc = self.start(*options)
        eventually("a holder", lambda: len(self.table.programs()) > before or proc.poll() is not None)
        assert proc.poll() is None, self.words(proc)
        return proc

    def end(self):
        for proc in self.procs:
            if proc.poll() is None:
                proc.send_signal(signal.SIGCONT)
                proc.terminate()
        for proc in self.procs:
            proc.wait(w.PATIENCE)
        shutil.rmtree(self.dir, ignore_errors=True)


@pytest.fixture(params=["file", "sqlite"])
def locks(request):
    world = Locks(request.param)
    yield world
    world.end()


@pytest.fixture
def on_file():
    world = Locks("file")
    yield world
    world.end()


def test_three_at_once_run_one_after_the_other_and_each_once(locks):
    script = f'echo "$TENURE_EPOCH begin" >>{locks.dir}/out; sleep 0.1; echo "$TENURE_EPOCH end" >>{locks.dir}/out'
    procs = [locks.start(command=["sh", "-c", script]) for _ in range(3)]
    assert [p.wait(w.PATIENCE) for p in procs] == [0, 0, 0]
    lines = [line.split() for line in (locks.dir / "out").read_text().splitlines()]
    assert [word for _, word in lines] == ["begin", "end"] * 3
    epochs = [int(epoch) for epoch, _ in lines]
    assert epochs == sorted(epochs) and len(set(epochs)) == 3


def test_codes(on_file):
    assert on_file.run(command=["sh", "-c", "exit 37"]).returncode == 37
    assert on_file.run(command=["sh", "-c", "kill -USR1 $$"]).returncode == 128 + signal.SIGUSR1
    assert on_file.run(command=["/nonexistent"]).returncode == 127
    assert on_file.run(command=["/"]).returncode == 126
    assert on_file.run("--try", "--wait", "1s").returncode == 2
    assert on_file.run("--holders", "0").returncode == 2
    done = subprocess.run([TENURE, "lock", "job", "--store", on_file.url], capture_output=True, text=True)
    assert done.returncode == 2 and "missing command" in done.stderr


def test_input_and_output_pass_through_and_nothing_else_is_said(on_file):
    done = subprocess.run(on_file.args(command=["sh", "-c", "cat; echo $TENURE_NAME $TENURE_PLACE"]),
                          input=b"in\n", capture_output=True, timeout=w.PATIENCE)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"in\njob 1\n", b"")


def test_try_and_wait(locks):
    holder = locks.hold()
    for options, code in ((["--try"], TAKEN), (["--wait", "1ms"], TAKEN),
                          (["--try", "--conflict-exit-code", "9"], 9)):
        done = locks.run(*options, command=["touch", locks.dir / "ran"])
        assert done.returncode == code and "held by" in done.stderr, done
    assert not (locks.dir / "ran").exists()
    waiter = locks.start("--wait", "60s", command=["true"])
    holder.terminate()
    assert waiter.wait(w.PATIENCE) == 0
    assert locks.run("--try").returncode == 0


def test_a_pause_is_a_lock_that_cannot_be_had(on_file):
    assert on_file.run().returncode == 0
    subprocess.run([TENURE, "pause", "job", "--store", on_file.url], check=True, capture_output=True)
    done = on_file.run("--try")
    assert done.returncode == TAKEN and "paused" in done.stderr


def test_two_places_for_three_and_none_is_written_to_in_vain(locks):
    first, second = locks.hold("--holders", "2"), locks.hold("--holders", "2")
    one, two = locks.table.programs()
    assert one.epoch != two.epoch
    done = locks.run("--holders", "2", "--try")
    assert done.returncode == TAKEN and "all 2 places are held" in done.stderr
    assert locks.run("--holders", "2", "--wait", "200ms").returncode == TAKEN
    waiter = locks.start("--holders", "2", command=["true"])
    second.terminate()
    assert waiter.wait(w.PATIENCE) == 0
    assert first.poll() is None
    # Those that only looked have left nothing.
    for election in ("job", "job/holders/2"):
        done = subprocess.run([TENURE, "candidates", "--store", locks.url, "--json", election],
                              capture_output=True, text=True)
        assert all(f"-{first.pid}-" in c["id"] for c in json.loads(done.stdout)), done.stdout


def test_never_more_than_n(on_file):
    """Each counts those that are inside with it."""
    inside = on_file.dir / "inside"
    inside.mkdir()
    script = f"mkdir {inside}/$$; ls {inside} | wc -l >>{on_file.dir}/out; sleep 0.05; rmdir {inside}/$$"
    procs = [on_file.start("--holders", "2", command=["sh", "-c", script]) for _ in range(6)]
    assert [p.wait(w.PATIENCE) for p in procs] == [0] * 6
    counts = [int(n) for n in (on_file.dir / "out").read_text().split()]
    assert len(counts) == 6 and max(counts) <= 2


def test_holder_killed(locks):
    """The next one gets it, and the old command is dead first."""
    holder = locks.hold()
    old = locks.table.programs()[0]
    waiter = locks.start()
    holder.kill()
    eventually("the next", lambda: len(locks.table.programs()) == 2)
    assert not w.alive(old.pid)
    waiter.terminate()
    waiter.wait(w.PATIENCE)
    locks.table.check()


@pytest.mark.parametrize("holders", ["1", "2"])
def test_a_machine_that_is_gone(on_file, holders):
    """Nobody is left to release: the place comes back with time alone."""
    for _ in range(int(holders)):
        holder = on_file.hold("--ttl", "5s", "--holders", holders)
    guard = eventually("a guard", lambda: next((p for p in w.children(holder.pid) if w.comm(p) == "tenure-guard"), None))
    old = on_file.table.programs()[-1]
    w.kill_at_once(guard, holder.pid)
    assert on_file.run("--holders", holders, "--wait", "60s").returncode == 0
    assert not w.alive(old.pid)


def test_a_lost_lease_ends_the_command_with_a_code_of_its_own(on_file):
    holder = on_file.hold("--ttl", "6s")
    done = subprocess.run([TENURE, "reset", "--name", "job", "--store", on_file.url, "--force"],
                          capture_output=True, text=True)
    assert done.returncode == 0, done
    assert holder.wait(w.PATIENCE) == LOST
    assert len(on_file.table.programs()) == 1  # and it was not run again


def test_a_step_down_ends_it_too_and_it_is_not_run_again(on_file):
    holder = on_file.hold()
    subprocess.run([TENURE, "step-down", "--name", "job", "--store", on_file.url, "--for", "1ms"], check=True,
                   capture_output=True)
    assert holder.wait(w.PATIENCE) == LOST
    assert len(on_file.table.programs()) == 1


def test_asked_to_go_while_it_waits_it_is_not_taken_for_done(on_file):
    on_file.hold()
    waiter = on_file.start("--log-level", "info", command=["true"])
    eventually("it waits", lambda: "standing by" in on_file.words(waiter))
    waiter.terminate()
    assert waiter.wait(w.PATIENCE) == 128 + signal.SIGTERM


def test_a_store_that_is_not_there_is_a_failure_and_not_a_conflict():
    done = subprocess.run([TENURE, "lock", "job", "--store", "redis://127.0.0.1:1", "--try", "--timeout", "300ms",
                           "--", "true"], capture_output=True, text=True, timeout=w.PATIENCE)
    assert done.returncode == 1, done
    assert os.path.basename(TENURE) in done.stderr
