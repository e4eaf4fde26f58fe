#!/usr/bin/python3
"""make trials: faults by the thousand, on a loaded machine, each one judged.

    tests/trials/run.py [--count 1000] [--load 4] [--nice 0] [--beds 12] [--write] [KIND ...]
    tests/trials/run.py [--rounds 1] ... matrix
    tests/trials/run.py --list

Keeps every core busy `--load` times over while it runs.  Prints a table; with
--write keeps it in docs/evidence/trials.md.  The kind "matrix" is two faults at once, each
pair of them --rounds times (matrix.py).  Fails if two programs ever ran at once, if
one was alive after its deadline, or if nobody followed.
"""

import argparse
import datetime
import multiprocessing
import os
import pathlib
import platform
import signal
import statistics
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import bed  # noqa: E402  (finds the folders of the others)
import kinds  # noqa: E402
import matrix  # noqa: E402
from process import die_with_parent  # noqa: E402

ROOT = HERE.parents[1]


class Load:
    """Shells that do nothing but spin."""

    def __init__(self, times, nice):
        count = times * len(os.sched_getaffinity(0))
        self.spinners = [
            subprocess.Popen(["nice", "-n", str(nice), "sh", "-c", "while :; do :; done"],
                             stdin=subprocess.DEVNULL, preexec_fn=die_with_parent)
            for _ in range(count)
        ]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for s in self.spinners:
            s.kill()
            s.wait()


class Tally:
    """What the trials of one kind came to."""

    def __init__(self):
        self.trials = 0
        self.overlaps, self.late, self.stuck = [], [], []
        self.slack, self.gaps = [], []

    def add(self, other):
        self.trials += other.trials
        for name in ("overlaps", "late", "stuck", "slack", "gaps"):
            getattr(self, name).extend(getattr(other, name))

    def bad(self):
        return self.overlaps + self.late + self.stuck


def work(kind, left):
    """One bed: trials until none is left to do."""
    tally = Tally()
    world = None
    try:
        with kind.make() as world:
            term = kind.begin(world)
            while True:
                with left.get_lock():
                    if left.value <= 0:
                        break
                    left.value -= 1
                term = kinds.one(kind, world, term)
                tally.trials += 1
    except Exception as error:  # a trial that cannot be told is a trial that failed
        words = world.last_words if world else ""
        tally.stuck.append(f"{kind.name}: {type(error).__name__}: {error}\n{words}")
    if world:
        for name in ("overlaps", "late", "slack", "gaps"):
            setattr(tally, name, getattr(world, name))
    return tally


def enter(kind_class, number, left, results):
    try:
        results.put(work(kind_class(number), left))
    except BaseException as error:
        tally = Tally()
        tally.stuck.append(repr(error))
        results.put(tally)


def run(kind_class, count, beds):
    """That many trials of a kind, in beds side by side, each a process of its own."""
    kind_class.prepare()
    bed.w.stalls()
    fork = multiprocessing.get_context("fork")
    left, results = fork.Value("i", count), fork.SimpleQueue()
    workers = [fork.Process(target=enter, args=(kind_class, i, left, results))
               for i in range(min(beds, count))]
    for worker in workers:
        worker.start()
    tally = Tally()
    for _ in workers:
        tally.add(results.get())
    for worker in workers:
        worker.join()
    return tally


# ---- Telling ----------------------------------------------------------------

HEAD = ("what happens", "trials", "overlaps", "alive after its deadline", "nobody followed",
        "ended before the deadline by (least)", "nobody ran for (median)", "(99 %)")


def ms(value):
    return "-" if value is None else f"{value / 1e6:.1f} ms"


def row(kind, tally):
    gaps = sorted(tally.gaps)
    return (kind.what, tally.trials, len(tally.overlaps), len(tally.late), len(tally.stuck),
            ms(min(tally.slack, default=None)),
            ms(statistics.median(gaps) if gaps else None),
            ms(gaps[len(gaps) * 99 // 100] if gaps else None))


def machine():
    with open("/proc/cpuinfo") as f:
        model = next((line.split(":", 1)[1].strip() for line in f if line.startswith("model name")),
                     platform.machine())
    return f"{os.cpu_count()} cores ({model}), Linux {platform.release()}"


def page(args, rows, loads, seconds):
    nice = f", nice {args.nice}" if args.nice else ""
    return f"""# Trials

`make trials` (`tests/trials/run.py --count {args.count} --load {args.load} --nice {args.nice} \
--beds {args.beds}`), {datetime.date.today()}, on {machine()}: {args.load} spinning processes a core\
{nice}, and {args.beds} elections side by side; load average {min(loads):.0f} to {max(loads):.0f}; \
{seconds / 60:.0f} minutes.

{matrix.table(HEAD, rows)}
Every program stamps its being alive on CLOCK_BOOTTIME into shared memory, several times a
millisecond while it is scheduled, and so do its children, daemons and their sessions. A judge
outside of tenure compares the stamps: of two terms they must not overlap, and none may be later than
the deadline. The deadline is the earlier of two: the one in the guard's shared page, read through
/proc, and the fault's own time plus D, where no renewal can have got through after the fault.

"Ended before the deadline by" is the least distance between a last stamp and its deadline: what is
left of the quarter of K, at most 50 ms, by which KILL goes out early. "Nobody ran for" is the time
between the last stamp of one program and the first of the next; where nobody is left to release the
lease, or the store was gone, it is mostly the ttl. The ttl is 1 s (1.5 s behind the
proxy of half-open connections, 2 s and 5 s in the last three). Servers are Redis; those that hang and
half-open connections also PostgreSQL and etcd, with a ttl of 2 s. Full disks are those of `file:` and
`sqlite:`.
Half of the elections hold the program in a PID namespace, half by process group and sub-reaper alone.
"""


def keep(text, pairs):
    """In docs/evidence/trials.md; what was not tried this time stays as it was."""
    path = ROOT / "docs/evidence/trials.md"
    first, title, second = path.read_text().partition(matrix.TITLE)
    path.write_text((text or first.rstrip() + "\n") + "\n" + (pairs or title + second))


def run_matrix(args):
    """Its page, and what was wrong where it is promised."""
    begin = time.monotonic()
    todo = [cell for cell in matrix.cells() if not matrix.missing(cell)] * args.rounds
    outcome = list(zip(todo, matrix.run(todo, args.beds)))
    wrong = [sentence for cell, said in outcome if cell.promised() for sentence in said]
    return matrix.page(outcome, f"{machine()}, {args.load} spinning processes a core, {args.beds} "
                       f"elections side by side, {(time.monotonic() - begin) / 60:.0f} minutes"), wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("kinds", nargs="*", metavar="KIND")
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=1, help="of the matrix")
    parser.add_argument("--load", type=int, default=4, help="spinning processes a core")
    parser.add_argument("--nice", type=int, default=0, help="of the spinning processes")
    parser.add_argument("--beds", type=int, default=12, help="elections side by side")
    parser.add_argument("--write", action="store_true", help="keep the table in docs/evidence/trials.md")
    parser.add_argument("--list", action="store_true")
    args = parser.parse_args()
    if args.list:
        print("\n".join(f"{k.name:20} {k.what}" for k in [*kinds.KINDS, matrix]))
        return 0
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # every bed tidies up behind itself
    wanted = [k for k in kinds.KINDS if not args.kinds or k.name in args.kinds]
    rows, loads, bad, text, pairs, begin = [], [], 0, "", "", time.monotonic()
    with Load(args.load, args.nice):
        for kind in wanted:
            if kind.missing():
                print(f"{kind.name}: left out: {kind.missing()}", file=sys.stderr)
                continue
            started = time.monotonic()
            tally = run(kind, args.count, args.beds)
            loads.append(os.getloadavg()[0])
            rows.append(row(kind, tally))
            print(f"{kind.name:20} {time.monotonic() - started:4.0f} s  "
                  + "  ".join(map(str, rows[-1][1:])), flush=True)
            for sentence in tally.bad():
                print("    " + sentence, flush=True)
            bad += len(tally.bad()) + (tally.trials < args.count)
        if rows:
            text = page(args, rows, loads, time.monotonic() - begin)
        if not args.kinds or matrix.name in args.kinds:
            pairs, wrong = run_matrix(args)
            for sentence in wrong:
                print("    " + sentence, flush=True)
            bad += len(wrong)
    print(text + pairs)
    if args.write:
        keep(text, pairs)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
