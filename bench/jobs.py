#!/usr/bin/python3
"""A group of 100,000 jobs: what holding it costs, and how fast it moves, beside the bare store.

    bench/jobs.py [--jobs 100000] [--quick] [--write]

Prints a table; with --write keeps it in docs/evidence/benchmarks-jobs.md.  `bench/run.py --only jobs`
is the same.  It lasts about two minutes on an idle machine and at most six.
"""

import argparse
import contextlib
import datetime
import os
import pathlib
import platform
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "support"))
import server_postgres  # noqa: E402

BUILD = pathlib.Path(os.environ.get("TENURE_BUILD", ROOT / "build"))
KEPT = ROOT / "docs/evidence/benchmarks-jobs.md"
HEAD = ("store", "what", "tenure", "bare", "target", "verdict")
MEMBERS, BATCH = 100, 10000
TTL_MS, RENEW_MS, INTERVALS = 15000, 1000, 10
LIMIT_S = 100  # of any single step
NOTE = """A worker is a process with the public library (`bench/jobs.c`). Its interval is 1 s here, so that
ten of them can be counted; the share of a core is also given for the 30 s of the default. Writes are counted in the
store, by its versions; lists by the worker. Bytes are those of `RssAnon`: "known" is what a standby has more than a
worker of an empty group, "owned" what the owner of all jobs, none with a checkpoint yet, has more than that standby. The take-over is timed from
the burial of a worker that was killed until the program of the heir has been given the last job; bare, for that, is
what it costs the store at least: a list of the registers, and a swap of each in batches of 10,000, through
`include/tenure/store.h` and nothing else. The multiple is that of an UPDATE
of all rows in one statement. Checkpoints
are committed in batches of 10,000 by one call; bare is the rate of the same swaps. A clean leave writes the worker's own
record, then rings the bell, and writes its history (docs/adr/0027); a renewal may come before that. The plan function's figures are CPU
time, the least of eleven repeats."""


def note(text):
    print(text, file=sys.stderr, flush=True)


def machine():
    with open("/proc/cpuinfo") as f:
        model = next((line.split(":", 1)[1].strip() for line in f if line.startswith("model name")), "")
    return f"{os.cpu_count()} cores ({model}), Linux {platform.release()}"


def verdict(figure, limit, most=True):
    return "met" if (figure <= limit if most else figure >= limit) else "MISSED"


def command(*args):
    return [str(BUILD / "bench" / "jobs"), *map(str, args)]


ENVIRONMENT = {**os.environ, "JOBS_DIR": str(BUILD)}


def run(*args):
    """What it printed: the words of each line behind the first, by that one."""
    out = subprocess.run(command(*args), check=True, capture_output=True, text=True, env=ENVIRONMENT,
                         timeout=LIMIT_S).stdout
    return {line.split()[0]: [float(word) for word in line.split()[1:]] for line in out.splitlines()}


# ---- Stores -----------------------------------------------------------------

class Sqlite:
    name = "sqlite:"

    def __init__(self, folder):
        self.path = os.path.join(folder, "jobs.db")
        self.url = "sqlite:" + self.path

    def ask(self, sql):
        with contextlib.closing(sqlite3.connect(f"file:{self.path}?mode=ro", uri=True)) as db:
            return db.execute(sql).fetchone()[0]

    def writes(self):
        """One version a write, of the whole database."""
        return self.ask("SELECT max(version) FROM register")

    def job_writes(self):
        return self.ask("SELECT max(version) FROM register WHERE key LIKE 'bench/job/%'")

    def update(self):
        """Seconds of an UPDATE of all rows, on a copy."""
        copy = self.path + ".copy"
        with contextlib.closing(sqlite3.connect(self.path)) as db, contextlib.closing(sqlite3.connect(copy)) as to:
            db.backup(to)
        with contextlib.closing(sqlite3.connect(copy)) as db:
            db.execute("PRAGMA journal_mode = WAL")
            db.execute("PRAGMA synchronous = FULL")
            before = time.monotonic()
            db.execute("UPDATE register SET version = version + 10000000, prev = nonce, nonce = randomblob(16),"
                       " data = randomblob(length(data)) WHERE key LIKE 'bench/job/%'")
            db.commit()
            return time.monotonic() - before

    def close(self):
        pass


class Postgres:
    name = "postgres:"

    def __init__(self):
        self.server = server_postgres.Postgres(shared_buffers="128MB")
        self.url = self.server.url()
        self.ask = server_postgres.Psql(self.server)

    def writes(self):
        """One version a write, of each row."""
        return int(self.ask("SELECT sum(version) FROM tenure.register"))

    def job_writes(self):
        return int(self.ask("SELECT sum(version) FROM tenure.register WHERE key LIKE 'bench/job/%'"))

    def update(self):
        before = time.monotonic()
        self.ask("BEGIN; UPDATE tenure.register SET version = version + 1, prev = nonce, nonce = gen_random_uuid(),"
                 " data = data || '' WHERE key LIKE 'bench/job/%'; COMMIT")
        return time.monotonic() - before

    def close(self):
        self.ask.close()
        self.server.stop()


# ---- Workers ----------------------------------------------------------------

class Worker:
    def __init__(self, store, group, name, jobs, *more):
        self.process = subprocess.Popen(command("worker", store.url, group, name, jobs, TTL_MS, RENEW_MS, *more),
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1,
                                        env=ENVIRONMENT)

    def wait(self, word):
        for line in self.process.stdout:
            if line.split()[0] == word:
                return [float(part) for part in line.split()[1:]]
        raise SystemExit(f"jobs: a worker ended before '{word}'")

    def ask(self, request, word):
        self.process.stdin.write(request + "\n")
        return self.wait(word)

    def status(self):
        return dict(zip(("jobs", "planned", "running", "renewals", "lists"), map(int, self.ask("status", "status"))))

    def anonymous(self):
        with open(f"/proc/{self.process.pid}/status") as f:
            return next(int(line.split()[1]) * 1024 for line in f if line.startswith("RssAnon"))

    def cpu(self):
        """Seconds, of all its threads."""
        tasks = pathlib.Path(f"/proc/{self.process.pid}/task")
        return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks.iterdir()) / 1e9

    def kill(self):
        self.process.kill()
        self.process.wait()

    def close(self):
        if self.process.poll() is None:
            self.kill()
        self.process.stdin.close()
        self.process.stdout.close()


def settle(worker, jobs):
    """Until it knows all jobs, and has been through two rounds since."""
    while worker.status()["jobs"] < jobs:
        time.sleep(0.1)
    first = worker.status()["lists"]
    while worker.status()["lists"] < first + 2:
        time.sleep(0.1)


# ---- The story --------------------------------------------------------------

def hold(store, owner):
    """Rows of one owner of all jobs, over some intervals."""
    before, writes, cpu = owner.status(), store.writes(), owner.cpu()
    while owner.status()["renewals"] < before["renewals"] + INTERVALS:
        time.sleep(0.2)
    after, cpu = owner.status(), owner.cpu() - cpu
    renewals = after["renewals"] - before["renewals"]
    writes = (store.writes() - writes) / renewals
    lists = (after["lists"] - before["lists"]) / renewals
    share = 100 * cpu / renewals
    return [(store.name, "holding: writes an interval", f"{writes:.1f}", "-", "1", verdict(round(writes, 1), 1.1)),
            (store.name, "holding: lists an interval", f"{lists:.1f}", "-", "1", verdict(round(lists, 1), 1.1)),
            (store.name, "holding: CPU an interval", f"{10 * share:.2f} ms", "-", "-", "-"),
            (store.name, "holding: share of a core, at 1 s / 30 s", f"{share:.2f} % / {share / 30:.3f} %", "-", "1 %",
             verdict(share / 30, 1))]


def memory(store, empty, standby, owner, jobs):
    """empty None: once more, after many commits."""
    owned = (owner.anonymous() - standby.anonymous()) / jobs
    if not empty:
        return [(store.name, "... after the commits, with checkpoints of 20 bytes", f"{owned:.0f} B", "-", "-", "-")]
    known = (standby.anonymous() - empty.anonymous()) / jobs
    return [(store.name, "resident, a job known", f"{known:.0f} B", "-", "64 B", verdict(known, 64)),
            (store.name, "resident, a job owned, beside that", f"{owned:.0f} B", "-", "256 B", verdict(owned, 256))]


def commits(store, owner, bare):
    cpu = owner.cpu()
    count, seconds = owner.ask(f"commit {BATCH} 5", "committed")
    cpu = owner.cpu() - cpu
    rate, floor = count / seconds, bare["swapped"][0] / bare["swapped"][1]
    return [(store.name, "fenced checkpoints a second", f"{rate:,.0f}", f"{floor:,.0f}", "150,000",
             verdict(rate, 150000, most=False)),
            (store.name, "... CPU of the process, of one", f"{1e6 * cpu / count:.2f} us",
             f"{1e6 * bare['swapped'][2] / bare['swapped'][0]:.2f} us", "-", "-")]


def take_over(store, owner, heir, bare, limit):
    cpu = heir.cpu()
    owner.kill()
    buried = heir.wait("buried")[0]
    took = (heir.wait("assigned")[0] - buried) / 1e9
    cpu = heir.cpu() - cpu
    least = bare["listed"][1] + bare["swapped"][1]
    update = store.update()
    return [(store.name, "from the burial until all are owned", f"{took:.2f} s", f"{least:.2f} s", f"{limit} s",
             verdict(took, limit)),
            (store.name, "... CPU of the process", f"{cpu:.2f} s", f"{bare['cpu'][0]:.2f} s", "-", "-"),
            (store.name, "... as a multiple of one UPDATE", f"{took / update:.1f} x", f"{update:.2f} s", "3 x",
             verdict(took / update, 3))]


def leave(store, heir):
    writes, of_jobs = store.writes(), store.job_writes()
    seconds = heir.ask("leave", "left")[0]
    heir.process.wait()
    writes, changed = store.writes() - writes, store.job_writes() != of_jobs
    return (store.name, "clean leave: writes, of these to jobs; time",
            f"{writes}, {'some' if changed else 'none'}; {seconds:.2f} s", "-", "1, the bell and the history, none to jobs",
            verdict(changed, False))


def of_store(store, jobs, limit):
    """Every figure of one store."""
    note(f"{store.name} adding {jobs} jobs")
    added = run("add", store.url, "bench", jobs)["added"][1]
    rows = [(store.name, "adding them", f"{added:.2f} s", "-", "-", "-")]
    bare = run("bare", store.url, "bench", jobs, BATCH)
    with contextlib.ExitStack() as stack:
        def start(*args):
            worker = Worker(store, *args)
            stack.callback(worker.close)
            return worker

        note(f"{store.name} one worker claims them")
        began = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
        owner = start("bench", "owner", jobs)
        took = (owner.wait("assigned")[0] - began) / 1e9
        rows.append((store.name, "from the start of the first worker", f"{took:.2f} s", "-", "-", "-"))
        note(f"{store.name} holding for {INTERVALS} intervals")
        settle(owner, jobs)
        rows += hold(store, owner)
        note(f"{store.name} memory")
        empty = start("none", "empty", jobs)
        heir = start("bench", "heir", jobs, "standby")
        settle(heir, jobs)
        settle(empty, 0)
        rows += memory(store, empty, heir, owner, jobs)
        empty.kill()
        note(f"{store.name} committing")
        rows += commits(store, owner, bare)
        rows += memory(store, None, heir, owner, jobs)
        note(f"{store.name} the owner dies")
        rows += take_over(store, owner, heir, bare, limit)
        note(f"{store.name} the heir leaves")
        settle(heir, jobs)
        rows.append(leave(store, heir))
    return rows


def of_plan(jobs):
    note("the plan function")
    plan = run("plan", jobs, MEMBERS)
    rows, quota = [], jobs // (MEMBERS + 1)
    for what, limit, moves in (("first", 20, 0), ("join", 2, quota), ("leave", 2, 0)):
        ms, moved, placed, least, most = plan[what]
        fair = most - least <= 1
        rows.append(("-", f"plan of {jobs} x {MEMBERS}, {what}", f"{ms:.2f} ms", "-", f"{limit} ms", verdict(ms, limit)))
        rows.append(("-", f"... {what}: moved, placed, loads", f"{moved:.0f}, {placed:.0f}, {least:.0f} to {most:.0f}", "-",
                     f"{moves} moved, loads within one", "met" if fair and moved == moves else "MISSED"))
    return rows


def measure(jobs):
    rows = of_plan(jobs)
    folder = tempfile.mkdtemp(prefix="tenure-bench.")
    try:
        stores = [(Sqlite(folder), 0.7)]
        if server_postgres.MISSING:
            note(f"{server_postgres.MISSING}: its rows are left out")
        else:
            stores.append((Postgres(), 1.0))
        for store, limit in stores:
            try:
                rows += of_store(store, jobs, limit)
            finally:
                store.close()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return rows


def page(rows, jobs, loads):
    lines = ["# Benchmarks of jobs", "",
             f"Measured by `bench/run.py --only jobs --write`, {datetime.date.today()}, with {jobs:,} jobs, on {machine()}. "
             f"The load average was {loads[0]:.1f} before and {loads[1]:.1f} after: far above 1 means that the machine "
             "had other work, and then the ratios say more than the times.", "",
             "| " + " | ".join(HEAD) + " |", "|" + "---|" * len(HEAD)]
    lines += ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join(lines) + "\n\n" + NOTE + "\n"


def report(jobs, write):
    before = os.getloadavg()[0]
    text = page(measure(jobs), jobs, (before, os.getloadavg()[0]))
    print(text)
    if write:
        KEPT.write_text(text)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--jobs", type=int, default=100000)
    parser.add_argument("--quick", action="store_true", help="2,000 jobs, to try the harness")
    parser.add_argument("--write", action="store_true", help=f"keep it in {KEPT.relative_to(ROOT)}")
    args = parser.parse_args()
    report(2000 if args.quick else args.jobs, args.write)


if __name__ == "__main__":
    main()
