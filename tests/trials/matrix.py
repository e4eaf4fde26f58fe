"""Two of {guard, init, tenure} fail at once: every ordered pair, judged from outside.

Stopped is SIGSTOP, killed is SIGKILL, frozen is the freezer of cgroup v2, from which no signal but
SIGKILL wakes anybody.  Whichever two it is, the third ends the program by its deadline.  A few
triples are tried as well; not all of them are promised.
"""

import contextlib
import datetime
import itertools
import multiprocessing
import os
import signal

import cgroup
import world as w
from bed import Bed, pair, settle

name, what = "matrix", "two of guard, init and tenure stopped, killed or frozen"
TITLE = "## Two at once\n"
TTL_MS = 2000
WHO = ("guard", "init", "tenure")
FAULTS = ("stopped", "killed", "frozen")
SINGLE = [(who, fault) for who in WHO for fault in FAULTS]
PAIRS = [(a, b) for a, b in itertools.product(SINGLE, SINGLE) if a[0] != b[0]]
TRIPLES = [
    (("tenure", "killed"), ("init", "stopped"), ("guard", "killed")),
    (("tenure", "stopped"), ("guard", "stopped"), ("init", "stopped")),
    (("tenure", "stopped"), ("guard", "stopped"), ("init", "killed")),
    (("tenure", "killed"), ("guard", "killed"), ("init", "killed")),
    (("tenure", "frozen"), ("guard", "frozen"), ("init", "frozen")),
]
CONTAINS = ("group", "pidns", "cgroup")
PROGRAMS = {"plain": ("stubborn",), "daemon": ("stubborn", "brood", "daemon")}


class Freezer:
    """A cgroup whose members do not run."""

    def __init__(self):
        self.dir = cgroup.own_cgroup() / f"tenure-freezer-{os.getpid()}"

    def __enter__(self):
        self.dir.mkdir()
        (self.dir / "cgroup.freeze").write_text("1")
        return self

    def __exit__(self, *_):
        (self.dir / "cgroup.freeze").write_text("0")

        def removed():
            try:
                self.dir.rmdir()
            except OSError:
                return False
            return True

        w.eventually("nobody is in the freezer", removed)

    def add(self, pid):
        (self.dir / "cgroup.procs").write_text(str(pid))

    def still(self):
        return "frozen 1" in (self.dir / "cgroup.events").read_text()


def missing(cell):
    """Why it cannot be tried here, or None."""
    if os.geteuid() != 0 and (cell.contain != "group" or cell.needs_freezer()):
        return "only root may"
    if not cgroup.mount_point() and (cell.contain == "cgroup" or cell.needs_freezer()):
        return "there is no cgroup v2"
    return None


class Cell:
    def __init__(self, faults, contain, program):
        self.faults, self.contain, self.program = faults, contain, program

    def __str__(self):
        return f"{says(self.faults)}; {self.contain}, {self.program}"

    def needs_freezer(self):
        return any(fault == "frozen" for _, fault in self.faults)

    def promised(self):
        """With all three of them gone only the kernel is left."""
        kinds = {fault for _, fault in self.faults}
        if len(self.faults) < 3 or kinds & {"stopped"}:
            return True
        return kinds == {"killed"} and (self.contain == "pidns" or self.program == "plain")


def says(faults):
    return ", ".join(f"{who} {fault}" for who, fault in faults)


def cells(groups=(PAIRS, TRIPLES)):
    return [Cell(faults, contain, program) for group in groups for faults in group
            for contain in CONTAINS for program in PROGRAMS]


# ---- One trial ----------------------------------------------------------------


def inject(who, fault, pid, freezer):
    """The one before may have ended this one already: then there is nothing to do to it."""
    try:
        if fault == "frozen":
            freezer.add(pid)
        else:
            os.kill(pid, signal.SIGSTOP if fault == "stopped" else signal.SIGKILL)
    except ProcessLookupError:
        pass


def cut_off(bed, term):
    """From now on nothing of its requests arrives, and its time runs out."""
    term.cut_off(w.now(), TTL_MS)

    def over():
        term.sample()
        return w.now() > term.bound + w.kill_ns(TTL_MS)

    w.eventually(f"the end of {term.epoch}", over)


def strike(bed, cell, term, freezer):
    """Inject the faults, and wait for who follows."""
    guard = term.candidate.guard()
    init = w.eventually("an init", lambda: w.children(guard))[0]
    pids = {"guard": guard, "init": init, "tenure": term.candidate.pid}
    try:
        for who, fault in cell.faults:
            inject(who, fault, pids[who], freezer)
        if "tenure" in dict(cell.faults):
            settled(cell, pids, freezer)
            cut_off(bed, term)
        else:
            with bed.outage():  # or it renews for ever
                cut_off(bed, term)
        term.tried = True
        bed.after(term)
    finally:
        for pid in pids.values():
            w.signal_if_there(pid, signal.SIGKILL)
        if not cell.promised():
            for pid in bed.processes():
                w.signal_if_there(pid, signal.SIGKILL)
        if cell.contain == "cgroup":
            remove_cgroups(guard)


def remove_cgroups(guard):
    """A guard that was killed leaves its cgroup behind."""
    w.eventually("its end", lambda: not w.state(guard))
    for path in cgroup.own_cgroup().glob(f"tenure-{guard}-*"):
        with contextlib.suppress(OSError):  # somebody dies there still: it is left behind
            path.rmdir()


def settled(cell, pids, freezer):
    """Tenure's threads do not renew any more: not one of them runs."""
    fault = dict(cell.faults)["tenure"]
    if fault == "stopped":
        w.freeze(pids["tenure"])
    elif fault == "frozen":
        w.eventually("it is frozen", freezer.still)


def try_cell(cell):
    """What was wrong, as sentences."""
    stuck = []
    bed = Bed(scheme="file", ttl_ms=TTL_MS, words=PROGRAMS[cell.program],
              options=["--contain", cell.contain])
    # Where guard and init are out of it tenure acts, and queues for a processor: K is for that.
    bed.tolerance_ns = w.tolerance_ns(TTL_MS) if "tenure" in dict(cell.faults) else w.kill_ns(TTL_MS)
    try:
        with Freezer() if cell.needs_freezer() else Nothing() as freezer, bed:
            term = pair(bed)
            w.eventually("a standby", lambda: "leads, epoch" in bed.candidates[1].words()
                         or "leading, epoch" in bed.candidates[1].words())
            settle()
            strike(bed, cell, bed.latest(term), freezer)
    except Exception as error:  # a trial that cannot be told is a trial that failed
        stuck.append(f"{type(error).__name__}: {error}\n{bed.last_words}")
    return [f"{cell}: {sentence}" for sentence in [*bed.overlaps, *bed.late, *stuck]]


class Nothing:
    def __enter__(self):
        return None

    def __exit__(self, *_):
        pass


# ---- All of them ---------------------------------------------------------------


def work(todo, next_cell, results):
    while True:
        with next_cell.get_lock():
            i = next_cell.value
            next_cell.value += 1
        if i >= len(todo):
            break
        results.put((i, try_cell(todo[i])))


def run(todo, beds):
    """What was wrong, for each cell, in beds side by side."""
    w.stalls()
    fork = multiprocessing.get_context("fork")
    next_cell, results = fork.Value("i", 0), fork.SimpleQueue()
    workers = [fork.Process(target=work, args=(todo, next_cell, results))
               for _ in range(min(beds, len(todo)))]
    for worker in workers:
        worker.start()
    wrong = dict(results.get() for _ in todo)
    for worker in workers:
        worker.join()
    return [wrong[i] for i in range(len(todo))]


def table(head, rows):
    lines = ["| " + " | ".join(map(str, r)) + " |" for r in [head, *rows]]
    return "\n".join([lines[0], "|" + "---|" * len(head), *lines[1:]]) + "\n"


def count(outcome, pick):
    """How many of the trials of those cells went wrong, as text."""
    found = [bool(wrong) for cell, wrong in outcome if pick(cell)]
    return f"{sum(found)} of {len(found)}" if found else ""


def pairs_table(outcome):
    rows = [[says([a]), *(count(outcome, lambda c: c.faults == (a, b)) for b in SINGLE)]
            for a in SINGLE]
    return table(["first, then", *(says([b]) for b in SINGLE)], rows)


def triples_table(outcome):
    def told(cell_of):
        cell = next((c for c, _ in outcome if cell_of(c)), None)
        text = count(outcome, cell_of)
        return text if cell is None or cell.promised() else f"({text})"

    columns = list(itertools.product(CONTAINS, PROGRAMS))
    rows = [[says(t), *(told(lambda c: (c.faults, c.contain, c.program) == (t, *column))
                        for column in columns)] for t in TRIPLES]
    return table(["all three", *(", ".join(c) for c in columns)], rows)


def page(outcome, where):
    promised = [(cell, wrong) for cell, wrong in outcome if cell.promised()]
    return f"""{TITLE}
`tests/trials/run.py matrix`, {datetime.date.today()}, on {where}: {len(promised)} trials where
exclusion is promised, {sum(bool(wrong) for _, wrong in promised)} wrong.

Two of guard, init and tenure fail, one right after the other. Stopped is SIGSTOP, killed is SIGKILL,
frozen is the freezer of cgroup v2, from which no signal but SIGKILL wakes anybody. If tenure is not one
of them, its store is gone as well, so that its time runs out. A cell says how many trials went wrong (an
overlap, a program alive after its deadline, nobody who followed), over process group, PID namespace and
cgroup, each with a program of one process and with one that has children and daemons.

{pairs_table(outcome)}
All three of them; in brackets what is not promised, because nobody is left who could act.

{triples_table(outcome)}
Where tenure itself has to act, because guard and init cannot, K counts with the deadline: it has no
real-time priority, and queues for a processor like everybody else.
"""
