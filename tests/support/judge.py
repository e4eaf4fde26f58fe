"""Real candidates, judged by the simulator's checkers.

A Judged world is a World (tests/fault/world.py) whose candidates write traces
(tenure run --trace). What only the test knows (faults, kills, orders, when a
program proved that it lived) goes into a trace of the judge's own; at the end
`tenure-sim --check` reads all of them and looks for what SAFETY promises.
"""

import contextlib
import json
import pathlib
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from process import until
from world import (BUILD, MEMORY, PATIENCE, ROOT, TENURE, Candidate, World, alive, children, comm,
                   eventually, now)

SIM = BUILD / "tenure-sim"
HERE = pathlib.Path(__file__).resolve().parent


def check(paths, *options):
    """What the checkers say of these traces: (exit code, text)."""
    done = subprocess.run([SIM, "--check", *options, *map(str, paths)], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, timeout=600, check=False)
    return done.returncode, done.stdout


class Traced(Candidate):
    """One `tenure run --trace`, perhaps behind a wrapper that forks (timens.py)."""

    def __init__(self, *args, wrap=(), **more):
        super().__init__(*args, wrap=wrap, **more)
        self.wrapped, self.own_pid = bool(wrap) and wrap[0] == sys.executable, None

    @property
    def pid(self):
        if not self.wrapped:
            return self.proc.pid
        if self.own_pid is None:
            found = eventually("tenure behind its wrapper", lambda: [
                p for p in children(self.proc.pid) if comm(p) == "tenure"] or self.proc.poll())
            self.own_pid = found[0] if isinstance(found, list) else self.proc.pid
        return self.own_pid


class Judged(World):
    def __init__(self, *args, binary=TENURE, expect=None, **more):
        super().__init__(*args, **more)
        self.traces = pathlib.Path(tempfile.mkdtemp(prefix="tenure-traces-", dir=MEMORY))
        self.binary, self.expect, self.said = binary, expect, ""
        self.table.check = lambda: None  # the checkers do it, on mapped clocks
        self.judge = open(self.traces / "judge.trace", "w", encoding="utf-8")
        self.write(tenure_trace=1, judge=True, boot_offset_ns=0)

    # ---- What the judge notes ----

    def write(self, **members):
        self.judge.write(json.dumps(members) + "\n")

    def note(self, event, c=None, **more):
        self.write(at_ns=now(), event=event, id=c.name if c else "", **more)

    @contextlib.contextmanager
    def fault(self, *candidates):
        """Something that may cost leadership, for as long as this lasts."""
        for c in candidates or [None]:
            self.note("fault", c)
        yield
        for c in candidates or [None]:
            self.note("fault", c)

    def kill(self, c):
        self.note("killed", c)  # before: others may lead before we are scheduled again
        c.signal(signal.SIGKILL)

    def stop(self, c, seconds):
        """SIGSTOP, and SIGCONT after that time. A guard that fires may end a tenure that
        hangs; then it is started again."""
        with self.fault(c):
            c.signal(signal.SIGSTOP)
            time.sleep(seconds)
            if alive(c.pid):
                c.signal(signal.SIGCONT)
                return
        self.note("killed", c)
        c.again()

    def order(self, c):
        """Ask it to end."""
        self.note("order", c)
        c.signal(signal.SIGTERM)

    def calm(self):
        """Nothing is wrong any more: a leader has to come up (I10)."""
        self.note("calm")

    # ---- Candidates ----

    def start(self, options=(), command=None, name=None, wrap=(), **more):
        if name is None:
            self.count += 1
            name = f"c{self.count}"
        traced = [*self.options, *options, "--trace", str(self.traces / f"{name}.trace")]
        c = Traced(self, name, traced, command or self.command(), wrap=list(map(str, wrap)),
                   binary=self.binary, **more)
        c.again = lambda: self.start(options, command, name, wrap, **more)
        self.candidates.append(c)
        return c

    def command(self):
        return [str(BUILD / "tests" / "support" / "witness"), str(self.table.path), *self.words]

    def told(self, pattern="c?.trace"):
        """The lines of all traces so far; the last one of each may not be whole yet."""
        for path in sorted(self.traces.glob(pattern)):
            for line in path.read_text().split("\n")[:-1]:
                yield json.loads(line)

    def leads(self, above=0):
        """Wait for a program above that epoch; returns (candidate, epoch)."""

        def find():
            top = max((e for e in self.told() if e.get("event") == "running"),
                      key=lambda e: e["epoch"], default=None)
            if not top or top["epoch"] <= above:
                return None
            return next((c, top["epoch"]) for c in reversed(self.candidates)
                        if c.name == top["id"])

        return eventually(f"a leader above {above}", find)

    # ---- The end ----

    def __exit__(self, kind, value, trace):
        for c in self.candidates:
            self.note("order", c)
        super().__exit__(kind, value, trace)
        try:
            if kind is None:
                self.judge_all()
        finally:
            self.judge.close()
            if kind is None:
                shutil.rmtree(self.traces, ignore_errors=True)

    def lives(self):
        """(epoch, first, last) of everything that has proved that it lived."""
        for row in self.table.rows():
            yield row.epoch, row.started, row.last
        stamps = {}
        for e in self.told("*.commits.trace"):
            if "epoch" in e:
                stamps.setdefault(e["epoch"], []).append(e["at_ns"])
        for epoch, at in stamps.items():
            yield epoch, min(at), max(at)

    def judge_all(self):
        for epoch, first, last in self.lives():
            self.write(at_ns=first, until_ns=last, event="acts", epoch=epoch, id="")
        self.judge.flush()
        code, self.said = check(sorted(self.traces.glob("*.trace")), "--allow", str(int(PATIENCE)))
        if self.expect is None:
            assert code == 0, self.evidence()
            assert "0 programs' lives" not in self.said
        else:
            assert code == 1, f"not caught: {self.evidence()}"
            assert any(f"VIOLATION {i}:" in self.said for i in self.expect), self.said

    def evidence(self):
        _, text = check(sorted(self.traces.glob("*.trace")), "--allow", str(int(PATIENCE)), "--trace")
        return text[-6000:]


# ---- Namespaces ------------------------------------------------------------------

def in_time(seconds):
    """A wrapper: CLOCK_BOOTTIME and CLOCK_MONOTONIC are that far ahead."""
    return [sys.executable, "-B", str(HERE / "timens.py"), seconds]


def works(*command):
    """None, or why that cannot be done here."""
    try:
        done = subprocess.run(list(map(str, command)), stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, timeout=60, check=False)
    except OSError as error:
        return str(error)
    return None if done.returncode == 0 else done.stdout.strip() or "it fails"


class Disk:
    """A tmpfs of its own in a mount namespace of its own, that can be filled or made read-only."""

    def __init__(self, path, size="256k"):
        self.path = pathlib.Path(path)
        self.path.mkdir(exist_ok=True)
        self.keeper = subprocess.Popen(
            ["unshare", "--mount", "--propagation", "private", "sh", "-c",
             f'mount -t tmpfs -o size={size},mode=777 tmpfs "$0" && echo ready && exec sleep 600',
             str(self.path)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
        assert self.keeper.stdout.readline() == "ready\n"

    @property
    def wrap(self):
        return ["nsenter", "--mount", "--target", str(self.keeper.pid)]

    def run(self, *command):
        return subprocess.run([*self.wrap, *command], stdin=subprocess.DEVNULL,
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)

    def fill(self):
        """Take what is free; what is freed later is free until the next time."""
        self.run("dd", "if=/dev/zero", f"of={self.path}/filler", "bs=1k", "oflag=append",
                 "conv=notrunc")

    def empty(self):
        self.run("rm", f"{self.path}/filler")

    def read_only(self, yes):
        """While a file is open for writing the kernel refuses, so that it is asked again."""
        until(lambda: self.run("mount", "-o", "remount," + ("ro" if yes else "rw"),
                               str(self.path)).returncode == 0)

    def close(self):
        self.keeper.kill()
        self.keeper.wait()
        self.keeper.stdout.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def committer(world, name):
    """A program that counts in its fenced state, and traces what was acknowledged."""
    return [sys.executable, "-B", str(HERE / "committer.py"), str(world.traces / f"{name}.commits.trace"),
            str(world.table.path)]


# ---- Planted bugs ----------------------------------------------------------------

def planted(folder, number):
    """A `tenure` with one of tests/sim/planted/*.patch in its core: the link of the real one,
    with the patched objects in place of the archive's."""
    patch = next((ROOT / "tests" / "sim" / "planted").glob(f"{number:02}-*.patch"))
    folder = pathlib.Path(folder)
    shutil.copytree(ROOT / "src" / "core", folder / "src" / "core")
    run(["patch", "-p1", "--no-backup-if-mismatch", "-i", str(patch)], folder)
    archive = commands("src/libtn_core.a")
    objects = re.findall(r"\S+\.c\.o(?= |$)", archive[-1])
    for i, name in enumerate(objects):
        words = next(words for words in map(shlex.split, archive) if words[words.index("-o") + 1:][:1] == [name])
        source = words[-1].split("src/core/")[1]
        objects[i] = str(folder / f"{source.replace('/', '_')}.o")
        words[words.index("-o") + 1] = objects[i]
        words[words.index("-MF") + 1] = objects[i] + ".d"
        words[-1] = str(folder / "src" / "core" / source)
        # The patched headers first; a planted bug need not be free of warnings.
        at = 2 if words[0].endswith("ccache") else 1
        words[at:at] = ["-I" + str(folder / "src")]
        run([*(w for w in words if w != "-Werror"), "-w"], BUILD)
    link = shlex.split(commands("tenure")[-1])
    link[link.index("-o") + 1] = str(folder / "tenure")
    at = link.index("src/libtn_core.a")
    link[at:at + 1] = objects
    run(link, BUILD)
    for path in BUILD.iterdir():
        if path.is_file() and path.name.startswith("tenure-"):
            (folder / path.name).symlink_to(path)
    return folder / "tenure"


def commands(target):
    """What ninja does to make it, the last one last."""
    done = subprocess.run(["ninja", "-C", str(BUILD), "-t", "commands", target],
                          stdout=subprocess.PIPE, text=True, check=True)
    return [line for line in done.stdout.splitlines() if not line.startswith("ninja: ")]


def run(command, cwd):
    done = subprocess.run(command, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, check=False)
    assert done.returncode == 0, f"{shlex.join(command)}\n{done.stdout}"
