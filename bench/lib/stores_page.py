"""The figures on docs/reference/stores/README.md, taken from docs/evidence/benchmarks.md."""

import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[2]
EVIDENCE = ROOT / "docs/evidence/benchmarks.md"
PAGE = ROOT / "docs/reference/stores/README.md"
BEGIN, END = "<!-- figures: bench/run.py --write -->\n", "<!-- end of the figures -->\n"
STORES = {"postgres": "PostgreSQL", "redis": "Redis", "etcd": "etcd", "kube": "Kubernetes", "consul": "Consul",
          "zookeeper": "ZooKeeper", "nats": "NATS", "s3": "S3 (MinIO)"}


def cells(line):
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def number(text):
    return float(re.match(r"[\d.]+", text).group())


def section(text, title):
    """The rows of a table."""
    found = re.search(rf"^## {re.escape(title)}\n(.*?)(?=^## |\Z)", text, re.M | re.S)
    return [cells(line) for line in found.group(1).splitlines() if line.startswith("|")][2:] if found else []


def table(evidence):
    lines = ["| store | one change | batched, each | release to lead | idle candidate |", "|---|---|---|---|---|"]
    cycles = {row[0].rstrip(":"): number(row[1]) for row in
              section(evidence, "Acquire + release, a second, against the bare sequence")}
    led = {row[0].rstrip(":"): int(re.search(r"median (\d+) us", row[1]).group(1)) / 1000 for row in
           section(evidence, "From the end of one leader's work until the next one leads")}
    idle = {row[0].removeprefix("tenure, ").rstrip(":"): row[3] for row in
            section(evidence, "Idle for 15 s, ttl 15 s") if row[1] == "leader" and row[2] == "tenure"}
    for store, name in (("file", "a directory"), ("sqlite", "SQLite")):
        lines.append(f"| {name} | {1000 / cycles[store] / 2:.2f} ms | - | {led[store]:.1f} ms | {idle[store]} |")
    measured = {}
    for store, what, ours, *_ in section(evidence, "The server stores"):
        measured.setdefault(store, {})[what] = ours
    for store, name in STORES.items():
        got = measured.get(store)
        if not got:
            lines.append(f"| {name} | not measured | - | - | - |")
            continue
        batch = f"{number(got['batch']) / 10:.0f} us" if "batch" in got else "-"
        lines.append(f"| {name} | {1000 / number(got['renewals']):.2f} ms | {batch} | "
                     f"{number(got['release to lead']):.1f} ms | {got['idle leader, resident']} |")
    return "\n".join(lines) + "\n"


def renewed():
    """The page, with the figures that the evidence has now."""
    page = PAGE.read_text()
    head, rest = page.split(BEGIN)
    return head + BEGIN + "\n" + table(EVIDENCE.read_text()) + "\n" + END + rest.split(END)[1]


def write():
    PAGE.write_text(renewed())
