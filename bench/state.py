#!/usr/bin/python3
"""Commits of the state beside what the store can do at best, interleaved in one run.

    bench/state.py [--rounds 5] [--count 500] [--build build]

Bare: 512 bytes in place and one fdatasync (file); a conditional UPDATE, WAL, synchronous FULL
(SQLite); pgbench with the conditional UPDATE (PostgreSQL).  Medians of the rounds, and ratios.
"""

import argparse
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "bench"))
sys.path.insert(0, str(ROOT / "tests" / "support"))
import pg_floor  # noqa: E402
import server_postgres  # noqa: E402

KEYS, MANY = 1000, 10000


def run(*args):
    out = subprocess.run([str(a) for a in args], capture_output=True, text=True, check=True).stdout
    return {line.split()[0]: float(line.split()[1]) for line in out.splitlines()}


def commits(build, url, count, many):
    return run(build / "bench/commits", url, count, KEYS, many, build)


def pgbench(server, folder, count):
    """Microseconds of one conditional UPDATE."""
    script = pg_floor.START + 50 * pg_floor.SWAP.format(notify="")
    return 1e6 * pg_floor.pgbench(server, folder, script, max(1, count // 50)) / 50


class Contest:
    def __init__(self, build, folder, count, server):
        self.build, self.folder, self.count, self.server = build, folder, count, server
        self.figures = {}

    def note(self, name, value):
        self.figures.setdefault(name, []).append(value)

    def embedded(self, scheme, many):
        place = pathlib.Path(tempfile.mkdtemp(dir=self.folder))
        url = f"{scheme}:{place}/store" + (".db" if scheme == "sqlite" else "")
        self.take(scheme, commits(self.build, url, self.count, many))
        if scheme == "file":
            bare = run(self.build / "bench/commits", "--floor", place / "floor", self.count)
            self.note("file bare", bare["single"])
        else:
            out = subprocess.run([self.build / "bench/floor_sqlite", place, str(self.count)],
                                 capture_output=True, text=True, check=True).stdout
            self.note("sqlite bare", 1e6 / float(out.split()[0]))
        shutil.rmtree(place)

    def take(self, scheme, found):
        for what, value in found.items():
            self.note(f"{scheme} {what}", value)

    def postgres(self, many):
        self.server.sql("DROP SCHEMA IF EXISTS tenure CASCADE")
        self.take("postgres", commits(self.build, self.server.url(""), self.count, many))
        self.server.sql(pg_floor.FILL.format(rows=1))
        self.note("postgres bare", pgbench(self.server, self.folder, self.count))

    def round(self, many):
        self.embedded("file", many)
        self.embedded("sqlite", many)
        if self.server:
            self.postgres(many)

    def median(self, name):
        return statistics.median(self.figures[name])


def measure(build, folder, rounds, count, server):
    """Rows: store, commits a second, bare, ratio in time, batch against one by one, seal."""
    contest = Contest(build, folder, count, server)
    for i in range(rounds):
        contest.round(MANY if i == 0 else 0)
    rows = []
    for scheme in ("file", "sqlite") + (("postgres",) if server else ()):
        single, bare = contest.median(scheme + " single"), contest.median(scheme + " bare")
        batch = contest.median(scheme + " batch")
        rows.append((scheme + ":", f"{1e6 / single:.0f}", f"{1e6 / bare:.0f}",
                     f"{single / bare:.2f}", f"{single / batch:.0f} x",
                     f"{contest.median(scheme + ' seal'):.0f} ms"))
    return rows


HEAD = ("store", "commits a second", "bare", "time against bare", f"{KEYS} together, a key",
        f"seal {MANY}")


def report(build, folder, rounds, count):
    if server_postgres.MISSING:
        return measure(build, folder, rounds, count, None)
    with server_postgres.Postgres() as server:
        return measure(build, folder, rounds, count, server)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tenure-bench.") as folder:
        os.chmod(folder, 0o755)
        for row in [HEAD] + report(args.build.resolve(), folder, args.rounds, args.count):
            print("".join(f"{cell:>22}" for cell in row))


if __name__ == "__main__":
    main()
