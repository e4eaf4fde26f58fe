#!/usr/bin/python3
"""Fail-overs of tenure and client-go candidates on the same Leases of a real API server, judged from outside.

    tests/trials/kube.py [--count 1000] [--leases 10] [--write]

Each Lease has tenure and client-go candidates.  One after the other its leader
is killed, stopped or told to end; what ended is started again.  Programs of
tenure and leaders of client-go stamp their being alive into one table
(tests/support/witness.c, tests/support/kube/elector).  Fails if a program of
tenure overlaps with anybody whose clock ran, or if nobody followed.  With
--write the table is kept in docs/evidence/trials-kube.md.

A client-go leader that was stopped goes on leading when it is continued, until
it looks at its clock: what it stamps then is counted, and is not tenure's to
prevent.
"""

import argparse
import collections
import contextlib
import datetime
import os
import random
import signal
import sys
import threading
import time

import bed
import run
import world as w
from server_kube import MISSING, Elector, Kube

TTL_MS = 6000
GO_DURATION, GO_RENEW, GO_RETRY = "6s", "4s", "500ms"
CANDIDATES = 2  # of each side
KIND_GO = 2  # in the table
PATIENCE = 120

FAULTS = {"killed": signal.SIGKILL, "stopped": signal.SIGSTOP, "told to end": signal.SIGTERM}


class Side:
    """Candidates of one side on one Lease; each knows how it is ended and started again."""

    def __init__(self, lease):
        self.lease, self.members, self.count = lease, {}, 0

    def fill(self):
        while len(self.members) < CANDIDATES:
            self.count += 1
            name = f"{self.prefix}{self.count}"
            self.members[name] = self.start(name)

    def leave_alone(self, name):
        """End the others of this side, so that the other side follows."""
        for other in [other for other in self.members if other != name]:
            self.end(self.members.pop(other))

    def replace(self, name):
        """That one is over, whatever it still does."""
        self.end(self.members.pop(name))
        self.fill()


class Tenure(Side):
    prefix = "c"

    def start(self, name):
        world = self.lease.world
        return w.Candidate(world, name, ["--renew", "1s"], [str(w.WITNESS), str(world.table.path)])

    def end(self, candidate):
        candidate.end()

    def pid(self, name):
        return self.members[name].pid


class ClientGo(Side):
    prefix = "go"

    def start(self, name):
        return Elector(self.lease.kube, self.lease.name, name, GO_DURATION, GO_RENEW, GO_RETRY,
                       table=self.lease.world.table.path)

    def end(self, elector):
        elector.stop()

    def pid(self, name):
        return self.members[name].process.pid


class Leader:
    def __init__(self, number, row, side):
        self.number, self.row, self.side = number, row, side


class Lease:
    """One Lease under trial."""

    def __init__(self, kube, name):
        self.kube, self.name = kube, name
        self.world = bed.Bed(url=kube.url(name), ttl_ms=TTL_MS)
        self.sides = {0: Tenure(self), KIND_GO: ClientGo(self)}
        self.tally = collections.Counter()
        self.stopped = {}  # row number of a client-go leader: since when its clock stood
        self.stuck = []

    def rows(self):
        return [self.world.row(i) for i in range(self.world.rows_taken())]

    def leader_after(self, number):
        """The first leader in the table behind that row."""

        def look():
            for i, row in enumerate(self.rows()):
                if i > number and row.epoch != 0 and row.kind in self.sides:
                    return Leader(i, row, self.sides[row.kind])
            return None

        return w.eventually(f"a leader of {self.name} behind row {number}", look, PATIENCE)

    def latest(self, leader):
        """A machine that stood still may have ended that one already."""
        while any(row.epoch != 0 for row in self.rows()[leader.number + 1:]):
            leader = self.leader_after(leader.number)
        return leader

    def fault(self, leader):
        """Inject one, wait for who follows, and put things in order again."""
        what, name = random.choice(list(FAULTS)), leader.row.id
        if name not in leader.side.members:
            raise AssertionError(f"{name} leads, and was ended before")
        if leader.row.kind != KIND_GO and random.random() < 0.7:
            leader.side.leave_alone(name)  # a standby of tenure's is nearly always faster
        pid = leader.side.pid(name)
        if what == "stopped":
            if leader.row.kind == KIND_GO:
                self.stopped[leader.number] = w.now()
            w.freeze(pid)
        else:
            os.kill(pid, FAULTS[what])
        follower = self.leader_after(leader.number)
        if what == "stopped":
            with contextlib.suppress(ProcessLookupError):  # its guard has ended it
                os.kill(pid, signal.SIGCONT)
            time.sleep(random.uniform(0, 1))  # let a client-go leader that was continued act on it
        leader.side.replace(name)
        sides = ["client-go" if x.row.kind == KIND_GO else "tenure" for x in (leader, follower)]
        self.tally[(*sides, what)] += 1
        return follower

    def run(self, left):
        try:
            for side in self.sides.values():
                side.fill()
            leader = self.leader_after(-1)
            while left.take():
                leader = self.latest(leader)
                time.sleep(random.uniform(0, 0.5))  # faults come at any moment of a term
                leader = self.fault(self.latest(leader))
        except Exception as error:  # a trial that cannot be told is a trial that failed
            logs = "\n".join(f"{name}: {member.words()[-500:]}" for side in self.sides.values()
                             for name, member in side.members.items())
            self.stuck.append(f"{self.name}: {error}\n{logs}")
        finally:
            for side in self.sides.values():
                for member in side.members.values():
                    side.end(member)

    def overlaps(self):
        """(of tenure with anybody whose clock ran, of tenure with a client-go that was stopped)"""
        ran, was_stopped, spans = [], 0, []
        for i, row in enumerate(self.rows()):
            if row.epoch == 0:
                continue
            end = min(row.last, self.stopped.get(i, row.last))
            spans.append((row, end))
        for row, end in spans:
            if row.kind == KIND_GO:
                continue
            for other, other_end in spans:
                if other is row or other.started > row.last or row.started > other.last:
                    continue
                if other.kind != KIND_GO and other.started < row.started:
                    continue  # the pair is met once
                if row.started <= other_end and other.started <= end:
                    ms = (min(end, other_end) - max(row.started, other.started)) / 1e6
                    ran.append(f"{self.name}: {row.id} and {other.id} for {ms:.3f} ms")
                else:
                    was_stopped += 1
        return ran, was_stopped


class Left:
    """How many trials are left to do, for all threads."""

    def __init__(self, count):
        self.count, self.lock = count, threading.Lock()

    def take(self):
        with self.lock:
            self.count -= 1
            return self.count >= 0


def table(tally):
    lines = ["| leader | what happens to it | followed by tenure | followed by client-go |",
             "|---|---|---:|---:|"]
    for side in ("tenure", "client-go"):
        for what in FAULTS:
            counts = [tally[(side, follower, what)] for follower in ("tenure", "client-go")]
            lines.append(f"| {side} | {what} | {counts[0]} | {counts[1]} |")
    return "\n".join(lines)


def page(args, tally, ran, was_stopped, stuck, seconds):
    return f"""# Trials beside client-go

`tests/trials/kube.py --count {args.count} --leases {args.leases}` (part of `make trials`), \
{datetime.date.today()}, on {run.machine()}, {seconds / 60:.0f} minutes: {args.leases} Leases of one real \
kube-apiserver, each with {CANDIDATES} candidates of tenure (ttl {TTL_MS // 1000} s) and {CANDIDATES} of \
client-go ({GO_DURATION}, renew deadline {GO_RENEW}, retry {GO_RETRY}).

{table(tally)}

- Fail-overs: {sum(tally.values())}.
- Overlaps of a program of tenure with anybody whose clock ran: {len(ran)}.
- Leases on which nobody followed: {len(stuck)}.
- Spells in which a client-go leader that had been stopped and continued still took itself for the
  leader while a program of tenure ran: {was_stopped}. client-go does not stop a process that sleeps; \
tenure's guard does.

A program of tenure stamps its being alive into shared memory several times a millisecond, a client-go
leader from OnStartedLeading until its context ends. The judge compares the stamps when all is over.
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=1000, help="fail-overs")
    parser.add_argument("--leases", type=int, default=10, help="Leases side by side")
    parser.add_argument("--write", action="store_true", help="keep the table in docs/evidence/trials-kube.md")
    args = parser.parse_args()
    if MISSING:
        print(f"kube: left out: {MISSING}", file=sys.stderr)
        return 0
    begin, left = time.monotonic(), Left(args.count)
    with Kube() as kube:
        leases = [Lease(kube, f"trial-{i}") for i in range(args.leases)]
        threads = [threading.Thread(target=lease.run, args=(left,)) for lease in leases]
        for thread in threads:
            thread.start()
        for thread in threads:
            while thread.is_alive():
                thread.join(30)
                done = sum(sum(lease.tally.values()) for lease in leases)
                print(f"{done} of {args.count} fail-overs, {time.monotonic() - begin:.0f} s",
                      file=sys.stderr, flush=True)
    tally = sum((lease.tally for lease in leases), collections.Counter())
    ran, was_stopped, stuck = [], 0, []
    for lease in leases:
        overlaps, others = lease.overlaps()
        ran += overlaps
        was_stopped += others
        stuck += lease.stuck
        w.shutil.rmtree(lease.world.dir, ignore_errors=True)
    text = page(args, tally, ran, was_stopped, stuck, time.monotonic() - begin)
    print(text, "\n".join(ran + stuck), sep="\n")
    if args.write:
        (run.ROOT / "docs/evidence/trials-kube.md").write_text(text)
    return 1 if ran or stuck or sum(tally.values()) < args.count else 0


if __name__ == "__main__":
    sys.exit(main())
