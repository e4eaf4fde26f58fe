"""One election under trial, and its judge.

A Bed is a World (tests/fault/world.py) that also knows deadlines.  Two sources
tell them, and the earlier counts:

  - the word in the guard's shared page, read from outside through /proc;
  - arithmetic alone: a fault that lets no renewal through any more ends every
    grant D after it, whatever tenure believes.

The programs are witnesses: they stamp their being alive on CLOCK_BOOTTIME into
shared memory.  The judge compares the two when everything is over: a process
that outlived its deadline has gone on stamping, and cannot hide it.
"""

import mmap
import os
import pathlib
import signal
import struct
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "fault"))
sys.path.insert(0, str(HERE.parent / "support"))

import world as w  # noqa: E402

FIRED = 1 << 63


class Page:
    """A tenure's guard page, seen from outside; it outlives its makers."""

    def __init__(self, file):
        self.map = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)

    @classmethod
    def of(cls, pid):
        """None if that tenure is gone already."""
        try:
            for fd in pathlib.Path(f"/proc/{pid}/fd").iterdir():
                if "tenure-guard-page" in os.readlink(fd):
                    with open(fd, "rb") as file:
                        return cls(file)
        except OSError:
            pass
        return None

    def word(self):
        return struct.unpack_from("<Q", self.map, 8)[0]


class Term:
    """One grant as the judge sees it."""

    def __init__(self, row, candidate, page, rows):
        self.epoch, self.candidate, self.page = row.epoch, candidate, page
        self.first_row = rows  # later rows are those of later terms, or this one's descendants
        self.started = row.started
        self.deadline, self.closed = 0, page is None
        self.bound = None  # by arithmetic
        self.tried = False  # a fault was injected, and somebody followed
        self.sample()

    def sample(self):
        """Take the deadline down.  Once FIRED or given up it is final."""
        if self.closed:
            return
        word = self.page.word()
        if word & ~FIRED:
            self.deadline = max(self.deadline, word & ~FIRED)
        self.closed = self.deadline != 0 and (word & FIRED != 0 or word == 0)

    def cut_off(self, at, ttl_ms):
        """From then on no request of this candidate's arrives."""
        self.bound = at + w.hold_ns(ttl_ms)

    def dead_by(self):
        """None if nothing is known of it."""
        return min((t for t in (self.deadline, self.bound) if t), default=None)


class Bed(w.World):
    def __init__(self, **settings):
        super().__init__(**settings)
        self.tolerance_ns = w.tolerance_ns(self.ttl_ms)
        self.terms, self.pages = {}, {}
        self.overlaps, self.late = [], []  # sentences
        self.slack, self.gaps = [], []  # ns: from the end to the deadline, and to the next program
        self.last_words = ""

    def __exit__(self, kind, value, trace):
        if kind is not None:
            self.last_words = "\n".join(f"{c.name}: {c.words()[-600:]}" for c in self.candidates)
        for c in self.candidates:
            c.end()
        left = w.eventually_none(self.processes)
        for pid in left:
            w.signal_if_there(pid, signal.SIGKILL)
        if left:
            self.late.append(f"left behind: {left}")
        self.judge()
        w.shutil.rmtree(self.dir, ignore_errors=True)

    # -- Watching --

    def rows_taken(self):
        return struct.unpack_from("<Q", self.table.map, 0)[0]

    def row(self, i):
        return w.Row(w.ROW.unpack_from(self.table.map, 64 + 64 * i))

    def term(self, above=0, since=0, old=None):
        """The first term above that epoch; old is sampled while we wait."""

        def look():
            if old:
                old.sample()
            for i in range(since, self.rows_taken()):
                row = self.row(i)
                if row.epoch > above and row.kind == 0:
                    return row, i
            return None

        row, i = w.eventually(f"a leader above {above}", look)
        found = next(c for c in self.candidates if c.name == row.id)
        if found.pid not in self.pages:
            self.pages[found.pid] = Page.of(found.pid)
        term = Term(row, found, self.pages[found.pid], i)
        self.terms[row.epoch] = term
        return term

    def after(self, old):
        """The term that follows."""
        return self.term(old.epoch, old.first_row, old)

    def latest(self, term):
        """The term that leads now: a machine that stood still may have ended this one already."""
        while any(self.row(i).epoch > term.epoch and self.row(i).kind == 0
                  for i in range(term.first_row, self.rows_taken())):
            term = self.after(term)
        return term

    def over(self, term):
        """Wait until the guard has fired on it, or it was given up, and its time is over."""

        def look():
            term.sample()
            return term.closed and w.now() > term.dead_by()

        w.eventually(f"the end of {term.epoch}", look)

    # -- Judging --

    def judge(self):
        """Overlaps of two terms, and signs of life after a deadline."""
        spans = {}
        for r in self.table.rows():
            start, last = spans.get(r.epoch, (r.started, r.last))
            spans[r.epoch] = (min(start, r.started), max(last, r.last))
        before, end = 0, 0
        for epoch in sorted(spans):
            start, last = spans[epoch]
            if start <= end:
                self.overlaps.append(f"{epoch} began {(end - start) / 1e6:.3f} ms before {before}"
                                     " had ended")
            if before in self.terms and self.terms[before].tried:
                self.gaps.append(start - end)
            before, end = epoch, max(end, last)
            self.judge_deadline(self.terms.get(epoch), last)

    def judge_deadline(self, term, last):
        if not term or not term.tried or term.dead_by() is None:
            return
        slack = term.dead_by() - last
        self.slack.append(slack)
        if w.late_ns(last, term.dead_by(), self.ttl_ms) > self.tolerance_ns:
            self.late.append(f"{term.epoch} alive {-slack / 1e6:.3f} ms after its deadline")


def pair(bed):
    """One leads, another one waits."""
    bed.start()
    term = bed.term()
    bed.start()
    return term


def refill(bed, victim):
    bed.forget(victim)
    bed.start()


def settle():
    """Faults come at any moment of a term."""
    time.sleep(struct.unpack("<H", os.urandom(2))[0] / 65536 * 0.15)
