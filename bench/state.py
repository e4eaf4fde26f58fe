#!/usr/bin/python3
"""Commits of the state beside what the store can do at best, interleaved in one run.

    bench/state.py [--rounds 3] [--count 500] [--build build]

Bare: 512 bytes in place and one fdatasync (file); a conditional UPDATE, WAL, synchronous FULL, on
rows of the same size, by turns in one process (SQLite); pgbench with the conditional UPDATE
(PostgreSQL).  Medians of the rounds, ratios, and whether the target of the project was met here.
"""

import argparse
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "bench"))
sys.path.insert(0, str(ROOT / "tests" / "support"))
import pg_floor  # noqa: E402
import server_postgres  # noqa: E402

KEYS, MANY, CONNECTIONS = 1000, 10000, 16


# What socket_commits is asked for; the log is as long as it gets after the first.
SOCKET = {"one": ("1", "300"), "many": (str(CONNECTIONS), "150"), "batch": ("batch", "1000", "5")}


def wait_for(file, process):
    for _ in range(600):
        if file.exists():
            return file.read_text()
        if process.poll() is not None:
            break
        time.sleep(0.05)
    raise SystemExit("tenure run does not lead")


def run(*args):
    out = subprocess.run([str(a) for a in args], capture_output=True, text=True, check=True).stdout
    return {line.split()[0]: float(line.split()[1]) for line in out.splitlines()}


def pgbench(server, folder, count):
    """Microseconds of one conditional UPDATE."""
    script = pg_floor.START + 50 * pg_floor.SWAP.format(notify="")
    return 1e6 * pg_floor.pgbench(server, folder, script, max(1, count // 50)) / 50


class Contest:
    def __init__(self, build, folder, count, server):
        self.build, self.folder, self.count, self.server = build, folder, count, server
        self.figures = {}

    def take(self, scheme, found):
        for what, value in found.items():
            self.figures.setdefault(f"{scheme} {what}", []).append(value)

    def commits(self, scheme, url, count, many):
        self.take(scheme, run(self.build / "bench/commits", url, count, KEYS, many, self.build))

    def embedded(self, many):
        place = pathlib.Path(tempfile.mkdtemp(dir=self.folder))
        for scheme in ("file", "sqlite"):
            self.commits(scheme, f"{scheme}:{place}/{scheme}", 0, many)
        for what, value in run(self.build / "bench/pair", place, self.count, self.build).items():
            self.figures.setdefault(what, []).append(value)
        shutil.rmtree(place)

    def postgres(self, many):
        self.server.sql("DROP SCHEMA IF EXISTS tenure CASCADE")
        self.commits("postgres", self.server.url(""), self.count, many)
        self.server.sql(pg_floor.FILL.format(rows=1))
        self.take("postgres", {"bare": pgbench(self.server, self.folder, self.count)})

    def socket(self):
        """Through TENURE_SOCKET: one connection, many, and batches."""
        place = pathlib.Path(tempfile.mkdtemp(dir=self.folder))
        program = f'echo "$TENURE_SOCKET" >{place}/new; mv {place}/new {place}/path; exec sleep 600'
        with open(place / "log", "w", encoding="utf-8") as log, subprocess.Popen(
                [self.build / "tenure", "run", "--name", "bench", "--store", f"file:{place}/lease",
                 "--state", f"sqlite:{place}/db", "--", "sh", "-c", program],
                stdin=subprocess.DEVNULL, stderr=log) as tenure:
            try:
                path = wait_for(place / "path", tenure).strip()
                for _ in range(3):
                    for what, args in SOCKET.items():
                        out = subprocess.run([self.build / "bench/socket_commits", path, *args],
                                             capture_output=True, text=True, check=True).stdout
                        self.take("socket", {what: float(out)})
            finally:
                tenure.terminate()
        shutil.rmtree(place)

    def round(self, many):
        self.embedded(many)
        if self.server:
            self.postgres(many)

    def median(self, name):
        return statistics.median(self.figures[name])


# ---- Rows: what, tenure, beside it, ratio, target, verdict ---------------------------------------


def verdict(met):
    return "met" if met else "missed"


def commit_row(what, ours, bare):
    return (f"{what}: one commit", f"{ours:.0f} us", f"{bare:.0f} us bare", f"{ours / bare:.2f}",
            "<= 1.2", verdict(ours <= 1.2 * bare))


def file_row(contest):
    ours, bare, best = (contest.median(n) for n in ("file", "file_bare", "file_update"))
    if "postgres bare" in contest.figures:
        best = min(best, contest.median("postgres bare"))
    return ("file: one commit", f"{ours:.0f} us", f"{best:.0f} us, the faster bare UPDATE",
            f"{ours / best:.2f} ({ours / bare:.2f} of a bare write)", "< 1", verdict(ours < best))


def together_row(contest, scheme):
    each, batch = contest.median(scheme + " each"), contest.median(scheme + " batch")
    return (f"{scheme}: {KEYS} keys together", f"{batch:.1f} us a key", f"{each:.0f} us one by one",
            f"{each / batch:.0f} x", ">= 50 x", verdict(each >= 50 * batch))


def seal_row(contest, scheme):
    took = contest.median(scheme + " seal")
    if scheme == "file":
        return (f"{scheme}: seal {MANY}", f"{took:.0f} ms", "", "", "", "")
    return (f"{scheme}: seal {MANY}", f"{took:.0f} ms", "", "", "< 1 s", verdict(took < 1000))


def socket_row(contest, what, name, times):
    one, ours = contest.median("socket one"), contest.median("socket " + what)
    return (f"socket, sqlite: {name}", f"{ours:.0f} commits/s", f"{one:.0f} on one connection",
            f"{ours / one:.1f} x", f">= {times} x", verdict(ours >= times * one))


def measure(build, folder, rounds, count, server):
    contest = Contest(build, folder, count, server)
    for i in range(rounds):
        contest.round(MANY if i == 0 else 0)
    contest.socket()
    rows = [file_row(contest),
            commit_row("sqlite", contest.median("sqlite"), contest.median("sqlite_bare")),
            commit_row("sqlite, a young log", contest.median("sqlite_new"),
                       contest.median("sqlite_new_bare"))]
    if server:
        rows.append(commit_row("postgres", contest.median("postgres single"),
                               contest.median("postgres bare")))
    schemes = ("file", "sqlite") + (("postgres",) if server else ())
    rows += [together_row(contest, scheme) for scheme in schemes]
    rows += [seal_row(contest, scheme) for scheme in schemes]
    return rows + [socket_row(contest, "many", f"{CONNECTIONS} connections", 3),
                   socket_row(contest, "batch", f"requests of {KEYS} commits", 10)]


HEAD = ("what", "tenure", "beside it", "ratio", "target", "verdict")
NOTE = ("Bare: 512 bytes in place and one fdatasync (file), a conditional UPDATE with WAL and FULL "
        "on rows of the same size, by turns in one process (SQLite), pgbench's conditional UPDATE "
        "(PostgreSQL).")


def report(build, folder, rounds, count):
    if server_postgres.MISSING:
        return measure(build, folder, rounds, count, None)
    with server_postgres.Postgres() as server:
        return measure(build, folder, rounds, count, server)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tenure-bench.") as folder:
        os.chmod(folder, 0o755)
        rows = [HEAD] + report(args.build.resolve(), folder, args.rounds, args.count)
        widths = [max(len(row[i]) for row in rows) for i in range(len(HEAD))]
        for row in rows:
            print("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip())


if __name__ == "__main__":
    main()
