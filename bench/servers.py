"""The server stores in `make bench`: one row a figure, each with its target and a verdict.

Ratios are against a bare client of the same server in the same run (bench/*floor*).  Servers are
Debian's, on private ports; what is not there is left out, and said.
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "support"))

from proxy import Proxy  # noqa: E402

HEAD = ("store", "what", "tenure", "beside", "figure", "target", "verdict")
NOTE = ("Renewals, acquire + release (cycles) and 10,000 renewals in one batch beside a bare client on the same "
        "server with the same durability; medians of interleaved rounds. PostgreSQL, Redis, etcd and Kubernetes: the "
        "same statement, script or request. Consul, ZooKeeper, NATS and S3: the one compare-and-swap that the server "
        "has, which compares a version only; ours compares the nonce as well. Redis keeps nothing on disk, ZooKeeper "
        "and NATS answer before their flush here, the others flush first. Resident memory is that of `tenure run`, "
        "without the pages of its guard. Requests are what an idle standby sends for each renewal of the leader; "
        "s3: asks every 100 ms here.")
TTL, RENEW = "15s", 5.0
LIMIT_MIB = {"zookeeper": 10.0, "nats": 10.0}  # the others 8
LEAD_MS = {"kube": 15.0, "consul": 20.0, "zookeeper": 20.0, "nats": 20.0, "s3": 100.0}  # the others 5


def row(store, what, tenure, beside, figure, unit, limit, most):
    """most: the figure may not be above the limit; else not below."""
    met = figure <= limit if most else figure >= limit
    return (store, what, tenure, beside, f"{figure:.2f}{unit}",
            f"{'at most' if most else 'at least'} {limit:g}{unit}", "met" if met else "MISSED")


# ---- Beside bare clients ----------------------------------------------------

LINE = re.compile(r"(\w+)\s+([\d.]+) (\S+)\s+floor\s+([\d.]+) \S+\s+ratio ([\d.]+)")


def floors(store, build, note):
    note(f"{store}: beside a bare client")
    tool = {"postgres": ["pg_floor.py"], "redis": ["redis_floor"]}.get(store, ["floors.py", store])
    done = subprocess.run([str(ROOT / "bench" / tool[0]), *tool[1:], str(build)], check=True,
                          capture_output=True, text=True)
    rows = []
    for what, ours, unit, bare, ratio in LINE.findall(done.stdout):
        if what == "reads":  # nobody was promised anything about them
            continue
        batch = what == "batch"
        rows.append(row(store, what, f"{ours} {unit}", f"{bare} {unit}", float(ratio), " x",
                        2.0 if batch else 0.9, batch))
    return rows


def release_to_lead(store, rig, build, rounds, note):
    note(f"{store}: from a release until the next one leads")
    done = subprocess.run([str(build / "bench" / "handover"), rig.url(), str(rounds)], check=True,
                          capture_output=True, text=True)
    median = float(re.search(r"median (\d+) us", done.stdout).group(1)) / 1000
    return row(store, "release to lead", f"{median:.2f} ms", "-", median, " ms",
               LEAD_MS.get(store, 5.0), True)


# ---- Idle candidates --------------------------------------------------------

class Idle:
    """A leader and a standby that have nothing to do."""

    def __init__(self, rig, build, folder):
        self.rig = rig
        self.proxies = [Proxy(("127.0.0.1", rig.port)) for _ in range(2)]
        self.build, self.folder = build, folder
        self.logs, self.processes = [], []
        self.start("leading")
        self.start("c0 leads")

    def start(self, word):
        which = len(self.logs)
        url = self.rig.url(port=self.proxies[which].port)
        self.logs.append(open(os.path.join(self.folder, f"{id(self)}-{which}"), "w+"))
        self.processes.append(subprocess.Popen(
            [str(self.build / "tenure"), "run", "--store", url, "--name", "w", "--id", f"c{which}",
             "--ttl", TTL, "--", "sleep", "1000"], stdin=subprocess.DEVNULL, stdout=self.logs[which],
            stderr=self.logs[which]))
        self.until(which, word)

    def until(self, which, word):
        for _ in range(3000):
            self.logs[which].seek(0)
            if word in self.logs[which].read():
                return
            time.sleep(0.01)
        self.logs[which].seek(0)
        raise SystemExit(f"{self.rig.url()}: {word} never came: {self.logs[which].read()}")

    def asked(self):
        """Requests of the leader, one a renewal, and of the standby: each is one piece."""
        return [proxy.pieces["up"] for proxy in self.proxies]

    def resident(self, which):
        text = pathlib.Path(f"/proc/{self.processes[which].pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+)", text).group(1)) / 1024

    def close(self):
        for process in reversed(self.processes):
            process.terminate()
            process.wait()
        for proxy in self.proxies:
            proxy.close()
        for log in self.logs:
            log.close()


def idle(stores, build, seconds, note):
    """All of them at once: they do nothing, and so do not disturb each other."""
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        pairs = {store: Idle(rig, build, folder) for store, rig in stores.items()}
        try:
            time.sleep(RENEW)  # connections, watches and first looks are over
            before = {store: pair.asked() for store, pair in pairs.items()}
            note(f"server stores: idle for {seconds} s")
            time.sleep(seconds)
            for store, pair in pairs.items():
                renewals, asked = (b - a for a, b in zip(before[store], pair.asked()))
                asked /= renewals
                for which, role in enumerate(("leader", "standby")):
                    figure = pair.resident(which)
                    rows.append(row(store, f"idle {role}, resident", f"{figure:.2f} MiB", "-",
                                    figure, " MiB", LIMIT_MIB.get(store, 8.0), True))
                if not pair.rig.polls:
                    rows.append(row(store, "idle standby, requests", f"{asked:.2f} a renewal", "-",
                                    asked, "", 1.0, True))
        finally:
            for pair in pairs.values():
                pair.close()
    return rows


def section(report, build, note, quick=False):
    os.environ["TENURE_BUILD"] = str(build)
    from rig import RIGS
    rows, stores = [], {}
    try:
        for store in ("postgres", "redis", "etcd", "kube", "consul", "zookeeper", "nats", "s3"):
            if RIGS[store].missing:
                note(f"{store}: left out: {RIGS[store].missing}")
                continue
            stores[store] = RIGS[store]()
        rows += idle(stores, build, 10 if quick else 20, note)
        for store, rig in stores.items():
            rig.clear()
            rows.append(release_to_lead(store, rig, build, 20 if quick else 100, note))
    finally:
        for rig in stores.values():
            rig.close()
    for store in stores:
        rows += floors(store, build, note)
    rows.sort(key=lambda r: list(stores).index(r[0]))
    report.table("The server stores", HEAD, rows, NOTE)
