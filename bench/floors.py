#!/usr/bin/python3
"""floors.py STORE [BUILD] - a server's store beside the plainest client of the same server.

The contenders take turns.  One line a figure: name, ours, the floor, and their ratio.  etcd: and kube: stand beside a
loop of the same requests; consul:, zookeeper:, nats: and s3: beside the one compare-and-swap that the server has, which
compares a version only.  Both wait for the same disk.
"""

import os
import pathlib
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = pathlib.Path(sys.argv[2] if len(sys.argv) > 2 else ROOT / "build").resolve()
os.environ["TENURE_BUILD"] = str(BUILD)
sys.path.insert(0, str(ROOT / "tests" / "support"))

import server_minio  # noqa: E402
from rig import RIGS  # noqa: E402

ROUNDS = 11
SINGLES = {"kube": 100, "consul": 100, "s3": 100}
TARGETS = {
    "etcd": lambda s: (s.endpoint(),),
    "kube": lambda s: (f"https://localhost:{s.port}", s.ca, "admin-token"),
    "consul": lambda s: (f"http://127.0.0.1:{s.port}",),
    "zookeeper": lambda s: (f"127.0.0.1:{s.port}",),
    "nats": lambda s: (s.url(),),
    "s3": lambda s: (f"http://127.0.0.1:{s.port}", server_minio.BUCKET, s.user),
}


def tell(name, pairs):
    """Neighbours share what else the machine is doing: the median of their ratios counts."""
    mine, floor = (statistics.median(side) for side in zip(*pairs))
    ratio = statistics.median(a / b for a, b in pairs)
    print(f"{name:9} {mine:9.1f} /s  floor {floor:9.1f} /s  ratio {ratio:.2f} (at least 0.90)")


def run(*argv):
    done = subprocess.run([str(a) for a in argv], capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"floors.py: {argv[0]} failed: {done.stderr}")
    return done.stdout


def main():
    store = sys.argv[1] if len(sys.argv) > 1 else ""
    if store not in TARGETS:
        raise SystemExit(f"usage: floors.py {'|'.join(TARGETS)} [BUILD]")
    if RIGS[store].missing:
        raise SystemExit(f"floors.py: {RIGS[store].missing}")
    rig, renewals, cycles, n = RIGS[store](), [], [], SINGLES.get(store, 200)
    try:
        for _ in range(ROUNDS):
            rig.clear()
            out = run(BUILD / "bench/store_cycles", rig.url(), n, 0)
            ours = {line.split()[0]: float(line.split()[1]) for line in out.splitlines()}
            floor = float(run(BUILD / f"bench/floor_{store}", *TARGETS[store](rig.server), 2 * n))
            renewals.append((ours["renewals"], floor))
            cycles.append((ours["cycles"], floor / 2))
    finally:
        rig.close()
    tell("renewals", renewals)
    tell("cycles", cycles)


main()
