#!/usr/bin/python3
"""make bench-agent: the HTTP side of an agent beside its peers, in one run.

    bench/agent.py [--seconds 5] [--rounds 3] [--flood 60] [--streams 1000] [--write]

Requests a second of one core with keep-alive (wrk on the other core, 32
connections; the server's own time on its core is what counts), beside etcd's /health and Patroni's REST API; what open event
streams cost; leases lost while the port is flooded.  --write puts the tables
into docs/benchmarks-agent.md.
"""

import argparse
import datetime
import json
import os
import platform
import re
import resource
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from lib.contenders import BUILD, ROOT, Etcd, free_port, present  # noqa: E402

TENURE = os.path.join(BUILD, "tenure")


def note(text):
    print(text, file=sys.stderr, flush=True)


def get(url, **headers):
    with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=30) as answer:
        return answer.read().decode()


def wait_for(url, limit=60):
    end = time.monotonic() + limit
    while True:
        try:
            return get(url)
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.1)


class Agent:
    """tenure run on a file store in memory, its core the first."""

    def __init__(self, folder, ttl="3s", core="0"):
        self.port = free_port()
        self.base = f"http://127.0.0.1:{self.port}"
        self.log = os.path.join(folder, "agent.log")
        pin = ["taskset", "-c", core] if core else []
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(
                [*pin, TENURE, "run", "--name", "bench", "--store",
                 "file:" + os.path.join(folder, "store"), "--ttl", ttl, "--listen",
                 f"127.0.0.1:{self.port}", "--", "sleep", "86400"], stdin=subprocess.DEVNULL,
                stderr=log)
        wait_for(self.base + "/leader")

    def status(self):
        return json.loads(get(self.base + "/_ha/status"))["elections"][0]

    def resident_mib(self):
        with open(f"/proc/{self.process.pid}/status") as f:
            return int(re.search(r"VmRSS:\s+(\d+)", f.read()).group(1)) / 1024

    def lost(self):
        with open(self.log) as f:
            return sum('"event":"lost"' in line for line in f)

    def close(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(60)


class Patroni:
    """Its REST API, over etcd; PostgreSQL itself does nothing meanwhile."""

    def __init__(self, folder, etcd):
        self.port, pg = free_port(), free_port()
        self.folder = os.path.join(folder, "patroni")
        os.mkdir(self.folder)
        binaries = sorted(d for d in os.listdir("/usr/lib/postgresql"))[-1]
        config = os.path.join(self.folder, "patroni.yml")
        with open(config, "w") as f:
            f.write(f"""
scope: bench
name: one
restapi: {{listen: "127.0.0.1:{self.port}", connect_address: "127.0.0.1:{self.port}"}}
etcd3: {{host: "{etcd.endpoint}"}}
bootstrap: {{dcs: {{ttl: 30, loop_wait: 10}}, initdb: [{{encoding: UTF8}}, no-sync]}}
postgresql:
  listen: 127.0.0.1:{pg}
  connect_address: 127.0.0.1:{pg}
  data_dir: {self.folder}/data
  bin_dir: /usr/lib/postgresql/{binaries}/bin
  pgpass: {self.folder}/pgpass
  parameters: {{unix_socket_directories: {self.folder}}}
  authentication: {{superuser: {{username: postgres, password: bench}}, replication: {{username: r, password: bench}}}}
""")
        as_user = []
        if os.geteuid() == 0:
            shutil.chown(self.folder, "postgres", "postgres")
            os.chmod(folder, 0o755)
            as_user = ["setpriv", "--reuid=postgres", "--regid=postgres", "--init-groups"]
        log = open(os.path.join(self.folder, "log"), "wb")
        self.process = subprocess.Popen(
            ["taskset", "-c", "0", *as_user, "patroni", config], stdin=subprocess.DEVNULL,
            stdout=log, stderr=log, start_new_session=True)
        self.base = f"http://127.0.0.1:{self.port}"
        wait_for(self.base + "/liveness")

    def close(self):
        os.killpg(self.process.pid, signal.SIGTERM)
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()


def cpu_seconds(pid):
    """Of all its threads; what others do on this machine does not count."""
    total = 0
    for task in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{task}/schedstat") as f:
            total += int(f.read().split()[0])
    return total / 1e9


def rate(url, pid, seconds):
    """Requests a second of the server's time on its core."""
    before = cpu_seconds(pid)
    out = subprocess.run(["taskset", "-c", "1", "wrk", "-t1", "-c32", f"-d{seconds}s", url],
                         capture_output=True, text=True, check=True).stdout
    used = cpu_seconds(pid) - before
    return float(re.search(r"(\d+) requests in", out).group(1)) / used


def rates(folder, args):
    agent, etcd, patroni = Agent(folder), None, None
    targets = [("tenure /livez", agent.base + "/livez", agent.process.pid),
               ("tenure /leader", agent.base + "/leader", agent.process.pid)]
    try:
        if present("etcd"):
            etcd = Etcd(folder)
            subprocess.run(["taskset", "-a", "-cp", "0", str(etcd.server.pid)], check=True,
                           stdout=subprocess.DEVNULL)
            targets.append(("etcd /health", f"http://{etcd.endpoint}/health", etcd.server.pid))
        if etcd and present("patroni"):
            try:
                patroni = Patroni(folder, etcd)
                targets.append(("Patroni /liveness", patroni.base + "/liveness",
                                patroni.process.pid))
            except OSError as error:
                with open(os.path.join(folder, "patroni", "log")) as f:
                    note(f.read()[-2000:])
                note(f"Patroni did not answer, its row is left out: {error}")
        found = {name: [] for name, _, _ in targets}
        for number in range(args.rounds):
            for name, url, pid in targets:
                found[name].append(rate(url, pid, args.seconds))
                note(f"round {number + 1}: {name}: {found[name][-1]:.0f}/s")
        return {name: statistics.median(values) for name, values in found.items()}
    finally:
        for server in (patroni, etcd, agent):
            if server:
                server.close()


def streams(folder, args):
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(8192, resource.getrlimit(
        resource.RLIMIT_NOFILE)[1]),) * 2)
    agent, sockets = Agent(folder, core=None), []
    try:
        before, epoch = agent.resident_mib(), agent.status()["epoch"]
        for _ in range(args.streams):
            s = socket.create_connection(("127.0.0.1", agent.port), timeout=30)
            s.sendall(b"GET /v1/leadership?stream=1 HTTP/1.1\r\nHost: localhost\r\n\r\n")
            sockets.append(s)
        end, most = time.monotonic() + 20, 0
        while time.monotonic() < end:
            for s in sockets:
                s.recv(1 << 16)
            most = max(most, agent.resident_mib())
        status = agent.status()
        return {"streams": args.streams, "before": before, "resident": most,
                "failed": sum(status["renewals"]["failed"].values()),
                "lost": int(status["epoch"] != epoch) + agent.lost()}
    finally:
        for s in sockets:
            s.close()
        agent.close()


def flood(folder, args):
    agent = Agent(folder, core=None)
    try:
        epoch, renewals = agent.status()["epoch"], agent.status()["renewals"]["ok"]
        loads = [subprocess.Popen(["wrk", "-t1", "-c64", f"-d{args.flood}s", agent.base + path],
                                  stdout=subprocess.DEVNULL)
                 for path in ("/livez", "/_ha/status")]
        for load in loads:
            load.wait()
        status = agent.status()
        return {"seconds": args.flood, "renewals": status["renewals"]["ok"] - renewals,
                "failed": sum(status["renewals"]["failed"].values()),
                "p99_ms": status["renewals"]["p99_ms"],
                "lost": int(status["epoch"] != epoch) + agent.lost()}
    finally:
        agent.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--flood", type=int, default=60)
    parser.add_argument("--streams", type=int, default=1000)
    parser.add_argument("--write", action="store_true")
    args = parser.parse_args()
    if not present("wrk"):
        sys.exit("bench/agent.py: wrk is not installed: scripts/deps bench")

    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    folder = tempfile.mkdtemp(prefix="tenure-bench.", dir=memory)
    try:
        found = rates(folder, args)
        held = streams(folder, args)
        flooded = flood(folder, args)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    ours = found["tenure /livez"]
    rows = "\n".join(f"| {name} | {value:,.0f} | {ours / value:.1f} |"
                     for name, value in found.items())
    text = f"""# Benchmarks of the HTTP side

Measured by `bench/agent.py --seconds {args.seconds} --rounds {args.rounds} --flood {args.flood}`, \
{datetime.date.today()}, on {os.cpu_count()} cores, Linux {platform.release()}, \
load average {os.getloadavg()[1]:.1f}.

| one core, keep-alive, 32 connections | requests a second of its time | tenure is so many times as fast |
|---|---|---|
{rows}

{held['streams']:,} open event streams: {held['resident']:.1f} MiB resident \
({held['before']:.1f} before), {held['failed']} failed renewals, {held['lost']} lost leases, ttl 3s.

Flooded for {flooded['seconds']} s on /livez and /_ha/status, 128 connections: \
{flooded['renewals']} renewals, {flooded['failed']} failed, 99 % within {flooded['p99_ms']} ms, \
{flooded['lost']} lost leases, ttl 3s.
"""
    print(text)
    if args.write:
        with open(os.path.join(ROOT, "docs", "benchmarks-agent.md"), "w") as f:
            f.write(text)


if __name__ == "__main__":
    main()
