#!/usr/bin/python3
"""make bench: tenure beside its peers, interleaved in one run, as ratios.

    bench/run.py [--rounds 15] [--idle 30] [--quick] [--write]

Prints a table; with --write keeps it in docs/evidence/benchmarks.md, and that of the jobs in
docs/evidence/benchmarks-jobs.md.
"""

import argparse
import datetime
import json
import os
import pathlib
import platform
import re
import shutil
import statistics
import subprocess
import sys
import tempfile

BENCH = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, BENCH)
import failover  # noqa: E402
import jobs  # noqa: E402
import servers  # noqa: E402
import state  # noqa: E402
from lib import contenders, measure, stores_page  # noqa: E402
from lib.contenders import (BUILD, ROOT, Etcd, EtcdElect, EtcdLock, Flock,  # noqa: E402
                            Leads, Library, Redlock, Tenure)


def note(text):
    print(text, file=sys.stderr, flush=True)


class Report:
    def __init__(self):
        self.parts = []

    def table(self, title, head, rows, comment=""):
        self.parts.append((title, head, rows, comment))

    def text(self):
        out = []
        for title, head, rows, comment in self.parts:
            out.append(f"## {title}\n")
            out.append("| " + " | ".join(head) + " |")
            out.append("|" + "---|" * len(head))
            out += ["| " + " | ".join(str(c) for c in row) + " |" for row in rows]
            out.append("")
            if comment:
                out.append(comment + "\n")
        return "\n".join(out)


def machine():
    model = ""
    with open("/proc/cpuinfo") as f:
        for line in f:
            if line.startswith("model name"):
                model = line.split(":", 1)[1].strip()
                break
    return f"{os.cpu_count()} cores ({model}), Linux {platform.release()}"


def run(*args):
    return subprocess.run(args, capture_output=True, text=True, check=True).stdout


def embedded(folder):
    """The contenders, each with a way to make its store empty."""
    file_dir = os.path.join(folder, "file")
    db = os.path.join(folder, "s.db")

    def fresh_file():
        shutil.rmtree(file_dir, ignore_errors=True)

    def fresh_db():
        for end in ("", "-wal", "-shm"):
            if os.path.exists(db + end):
                os.unlink(db + end)

    return [(Tenure("file:" + file_dir), fresh_file), (Tenure("sqlite:" + db), fresh_db),
            (Library("file:" + file_dir), fresh_file), (Library("sqlite:" + db), fresh_db)]


def peers(folder, etcd, redlock):
    found = []
    if contenders.present("flock"):
        found.append((Flock(os.path.join(folder, "lock")), lambda: None))
    if etcd:
        found.append((EtcdLock(etcd), lambda: None))
        found.append((EtcdElect(etcd), lambda: None))
    if redlock:
        found.append((redlock, lambda: None))
    return found


def start_redlock(folder):
    """The one peer that is not Debian's: its packages come from npm, if that can be reached."""
    if not all(contenders.present(p) for p in ("node", "npm", "redis-server")):
        note("node, npm or redis-server is not installed: redlock is left out")
        return None
    try:
        return Redlock(folder)
    except (RuntimeError, subprocess.TimeoutExpired) as error:
        note(f"{error}: redlock is left out")
        return None


def latencies(report, all_of_them, folder, rounds):
    for title, how in (("From exec to leading, on an empty store", measure.exec_to_lead),
                       ("Clean hand-over: from TERM until the standby's program runs",
                        measure.hand_over)):
        these = list(all_of_them)
        if how is measure.exec_to_lead:
            these += [(Leads(c.url), fresh) for c, fresh in all_of_them if isinstance(c, Tenure)]
        values = {c.name: [] for c, _ in these}
        for i in range(rounds):
            note(f"{title}: round {i + 1} of {rounds}")
            for contender, fresh in these:
                values[contender.name].append(how(contender, folder, fresh))
        base = measure.median_ms(values.get("etcdctl lock", [0]))
        rows = []
        for name, v in values.items():
            m = measure.median_ms(v)
            rows.append((name, f"{m:.2f} ms", f"{min(v) / 1e6:.2f}", f"{max(v) / 1e6:.2f}",
                         f"{base / m:.1f} x" if base else "-"))
        report.table(title, ("contender", "median", "min", "max", "faster than etcdctl lock by"),
                     rows)


def idle(report, all_of_them, folder, seconds):
    rows = []
    for contender, fresh in all_of_them:
        note(f"idle: {contender.name} for {seconds} s")
        for role, name, kib, cpu, woken in measure.idle(contender, folder, fresh, seconds):
            rows.append((contender.name, role, name, f"{kib / 1024:.2f} MiB", f"{cpu / 1e6:.2f} ms",
                         woken))
    renewals = max(1, seconds // 5)
    for scheme in ("file", "sqlite"):
        note(f"idle: {renewals} bare renewals, {scheme}")
        cpu = run(os.path.join(BUILD, "bench", "floor_" + scheme), folder, str(renewals), "5000")
        rows.append((f"bare, {scheme}", f"{renewals} renewals", "floor_" + scheme, "-",
                     f"{cpu.strip()} ms", "-"))
    report.table(f"Idle for {seconds} s, ttl 15 s",
                 ("contender", "role", "process", "resident", "CPU", "wake-ups"), rows,
                 "Bare: only the flushes of that many renewals, with the same pauses; below it no "
                 "leader can stay whose renewals survive a crash. A wake-up from waiting for the "
                 "disk counts.")


def take_turns(n, *commands):
    """Nanoseconds of each of n cycles of programs that take turns."""
    running = [subprocess.Popen([os.path.join(BUILD, "bench", command[0]), *command[1:]], text=True,
                                stdin=subprocess.PIPE, stdout=subprocess.PIPE)
               for command in commands]
    took = [[] for _ in running]
    for _ in range(n):
        for process, mine in zip(running, took):
            process.stdin.write("\n")
            process.stdin.flush()
            mine.append(int(process.stdout.readline()))
    for process in running:
        process.stdin.close()
        process.stdout.close()
        process.wait()
    return took


def cycles(report, folder, n):
    rows = []
    for scheme in ("file", "sqlite"):
        note(f"cycles: {scheme}")
        d = tempfile.mkdtemp(dir=folder)
        ours, bare = (statistics.median(took) for took in take_turns(
            n, ["store_cycles", f"{scheme}:{d}/store", "turns"], ["floor_" + scheme, d, "turns"]))
        shutil.rmtree(d)
        rows.append((scheme + ":", f"{1e9 / ours:.0f}", f"{1e9 / bare:.0f}",
                     f"{100 * bare / ours:.0f} %"))
    report.table("Acquire + release, a second, against the bare sequence",
                 ("store", "tenure", "bare", "ratio"), rows,
                 "Bare: write, fsync, link, fsync of the directory (file); one commit, WAL, "
                 "synchronous FULL (SQLite). Two of them are one cycle. Medians of "
                 f"{n} cycles by turns.")


def release_to_lead(report, folder, rounds):
    rows = []
    for scheme in ("file", "sqlite"):
        note(f"release to lead: {scheme}")
        d = tempfile.mkdtemp(dir=folder)
        url = f"{scheme}:{d}/store" + (".db" if scheme == "sqlite" else "")
        rows.append((scheme + ":", run(os.path.join(BUILD, "bench", "handover"), url,
                                       str(rounds)).strip()))
        shutil.rmtree(d)
    report.table("From the end of one leader's work until the next one leads",
                 ("store", "release, notification and claim"), rows)


def state_commits(report, folder, rounds, count):
    note("commits of the state")
    report.table("One durable, fenced commit of the state", state.HEAD,
                 state.report(pathlib.Path(BUILD), folder, rounds, count), state.NOTE)


def steps(report):
    note("elector steps")
    out = run(os.path.join(BUILD, "bench", "steps"))
    report.table("The elector alone", ("what", "figure"),
                 [tuple(line.split(":", 1)) for line in out.splitlines() if ":" in line])


def links(report, seconds):
    program = os.path.join(BUILD, "bench", "links")
    if not os.path.exists(program):
        return note("links: left out, libwslay or GnuTLS was not found")
    note("links of replication")
    rows = [json.loads(line) for line in run(program, str(seconds)).splitlines()]
    report.table("A link of replication, on loopback", ("", "round trip of 200 bytes", "64 KiB messages", "1 MiB messages"),
                 [("with TLS" if row["tls"] else "plain", f"{row['round_trip_us']:.0f} µs", f"{row['mb_s_64k']:.0f} MB/s",
                   f"{row['mb_s_1m']:.0f} MB/s") for row in rows])


PARTS = ["lead", "idle", "failover", "cycles", "servers", "state", "steps", "jobs", "links"]


def renewed(old, new, command):
    """The page, with the sections of a later run in their places."""
    for section in re.split(r"(?m)^(?=## )", new)[1:]:
        title = section.splitlines()[0]
        place = re.compile(rf"^{re.escape(title)}\n.*?(?=^## |\Z)", re.M | re.S)
        section = f"{section.rstrip()}\n\nMeasured again, by `{command}`.\n\n"
        old = place.sub(lambda _, text=section: text, old)
    return old.rstrip() + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--idle", type=int, default=30)
    parser.add_argument("--cycles", type=int, default=1000)
    parser.add_argument("--quick", action="store_true", help="few rounds, to try the harness")
    parser.add_argument("--only", default="", metavar="PARTS",
                        help="of " + ", ".join(PARTS) + "; --write then replaces these alone")
    parser.add_argument("--write", action="store_true", help="keep it in docs/evidence/benchmarks.md")
    args = parser.parse_args()
    parts = args.only.split(",") if args.only else PARTS
    if not set(parts) <= set(PARTS):
        parser.error(f"--only takes some of {', '.join(PARTS)}")
    if args.quick:
        args.rounds, args.idle, args.cycles = 3, 3, 200
    if "jobs" in parts:  # alone: it has a page of its own
        jobs.report(2000 if args.quick else 100000, args.write)
    if parts == ["jobs"]:
        return

    folder = tempfile.mkdtemp(prefix="tenure-bench.")
    report = Report()
    etcd = redlock = None
    try:
        if contenders.present("etcd") and contenders.present("etcdctl"):
            etcd = Etcd(folder)
        else:
            note("etcd is not installed: its column is left out")
        redlock = start_redlock(folder)
        everyone = embedded(folder) + peers(folder, etcd, redlock)
        if "lead" in parts:
            latencies(report, everyone, folder, args.rounds)
        if "idle" in parts:
            idle(report, everyone, folder, args.idle)
        if "failover" in parts:
            failover.section(report, folder, etcd, redlock, args.rounds, 1 if args.quick else 2,
                             args.idle)
        if "cycles" in parts:
            cycles(report, folder, args.cycles)
            release_to_lead(report, folder, 20 if args.quick else 300)
        if "servers" in parts:
            servers.section(report, pathlib.Path(BUILD), note, args.quick)
        if "state" in parts:
            state_commits(report, folder, 2 if args.quick else 5, 100 if args.quick else 500)
        if "steps" in parts:
            steps(report)
        if "links" in parts:
            links(report, 0.2 if args.quick else 3)
    finally:
        for server in (etcd, redlock):
            if server:
                server.close()
        shutil.rmtree(folder, ignore_errors=True)

    command = f"bench/run.py --rounds {args.rounds} --idle {args.idle} --cycles {args.cycles}"
    kept = pathlib.Path(ROOT, "docs/evidence/benchmarks.md")
    if args.only:
        text = report.text()
        print(text)
        text = renewed(kept.read_text(), text, f"{command} --only {args.only}") if args.write else ""
    else:
        text = (f"# Benchmarks\n\nMeasured by `make bench` (`{command}`), {datetime.date.today()}, on "
                f"{machine()}. Contenders take turns in one run; figures of other machines differ, "
                f"the ratios should not.\n\n" + report.text())
        print(text)
    if args.write:
        kept.write_text(text)
        stores_page.write()


if __name__ == "__main__":
    main()
