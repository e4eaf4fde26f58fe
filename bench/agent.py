#!/usr/bin/python3
"""make bench-agent: the HTTP side of an agent beside its peers, in one run.

    bench/agent.py [--seconds 2] [--rounds 3] [--flood 60] [--streams 1000] [--many 64 1000] [--write]

Requests a second of one core, by the clock on the wall, with keep-alive: the server on the first core,
wrk on the second, 32 connections; etcd's /health and Patroni's REST API take turns with us.  What open
event streams cost, in memory and to whoever commits; leases lost while the ports are flooded.  `tenure run` with its one election, and
`tenure agent` with four behind one address; and what an election costs among 64 and 1,000.  Each figure beside its target.  --write puts the tables
into docs/evidence/benchmarks-agent.md.
"""

import argparse
import datetime
import http.client
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
TOKEN, REQUESTS = "token-of-the-benchmark", 200


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
    name, elections = "tenure run", 1

    def __init__(self, folder, ttl="3s", core="0", limit=60):
        self.port = free_port()
        self.base = f"http://127.0.0.1:{self.port}"
        self.log = os.path.join(folder, f"agent-{self.port}.log")
        pin = ["taskset", "-c", core] if core else []
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(
                [*pin, TENURE, *self.command(folder, ttl)], stdin=subprocess.DEVNULL, stderr=log)
        wait_for(self.base + "/readyz", limit)

    def command(self, folder, ttl):
        return ["run", "--name", "bench", "--store",
                "file:" + os.path.join(folder, f"store-{self.port}"), "--ttl", ttl, "--listen",
                f"127.0.0.1:{self.port}", "--", "sleep", "86400"]

    def status(self):
        return json.loads(get(self.base + "/_ha/status"))["elections"]

    def terms(self):
        return [e["epoch"] for e in self.status()]

    def renewals(self):
        return sum(e["renewals"]["ok"] for e in self.status())

    def failed(self):
        return sum(sum(e["renewals"]["failed"].values()) for e in self.status())

    def resident_mib(self):
        with open(f"/proc/{self.process.pid}/status") as f:
            return int(re.search(r"VmRSS:\s+(\d+)", f.read()).group(1)) / 1024

    def lost(self, terms):
        """Terms that are not what they were, and losses that were told."""
        with open(self.log) as f:
            told = sum('"event":"lost"' in line for line in f)
        return told + sum(a != b for a, b in zip(terms, self.terms()))

    def close(self, limit=60):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(limit)


class Fleet(Agent):
    """tenure agent: four elections, each a process of its own, behind one address."""
    name, elections = "tenure agent, 4 elections", 4

    def command(self, folder, ttl):
        config = os.path.join(folder, f"{self.port}.yaml")
        with open(config, "w") as f:
            json.dump({"coordinate": {"type": "file_lease", "ttl": ttl,
                                      "path": os.path.join(folder, f"store-{self.port}")},
                       "http": {"listen": f"127.0.0.1:{self.port}"},
                       "run": {"command": ["sleep", "86400"]},
                       "elections": [{"name": f"bench{i}"} for i in range(self.elections)]}, f)
        return ["agent", "--config", config]


class Many(Fleet):
    """tenure agent with as many elections as are asked for; on both cores."""

    def __init__(self, folder, elections):
        self.elections = elections
        began = time.monotonic()
        super().__init__(folder, ttl="60s", core="", limit=600)
        self.ready_s = time.monotonic() - began

    def children(self):
        with open(f"/proc/{self.process.pid}/task/{self.process.pid}/children") as f:
            return [int(pid) for pid in f.read().split()]


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


def favour(pids, nice):
    """Before what else the machine does, if we may; all contenders alike.  The scheduler shares
    the cores among sessions, so it is the session's place that counts."""
    for pid in pids:
        try:
            with open(f"/proc/{pid}/autogroup", "w") as f:
                f.write(str(nice))
        except OSError:
            pass


def rate(url, pid, seconds):
    """Requests a second by the clock, and a second of the server's own time."""
    before = cpu_seconds(pid)
    out = subprocess.run(["taskset", "-c", "1", "wrk", "-t1", "-c32", f"-d{seconds}s", url],
                         capture_output=True, text=True, check=True).stdout
    used = cpu_seconds(pid) - before
    if "Non-2xx" in out:
        raise SystemExit(f"bench/agent.py: {url} does not answer 200:\n{out}")
    count = float(re.search(r"(\d+) requests in", out).group(1))
    return float(re.search(r"Requests/sec:\s+([\d.]+)", out).group(1)), count / used


def rates(folder, args):
    agent, fleet, etcd, patroni = Agent(folder), Fleet(folder), None, None
    one, several = agent.process.pid, fleet.process.pid
    targets = [("`tenure run` /livez", agent.base + "/livez", one),
               ("`tenure run` /leader", agent.base + "/leader", one),
               ("`tenure agent` /livez", fleet.base + "/livez", several),
               ("`tenure agent` /leader?name=NAME", fleet.base + "/leader?name=bench2", several),
               ("`tenure agent` /leader, of all four", fleet.base + "/leader", several)]
    try:
        if present("etcd"):
            etcd = Etcd(folder)
            subprocess.run(["taskset", "-a", "-cp", "0", str(etcd.server.pid)], check=True,
                           stdout=subprocess.DEVNULL)
            targets.append((ETCD, f"http://{etcd.endpoint}/health", etcd.server.pid))
        if etcd and present("patroni"):
            try:
                patroni = Patroni(folder, etcd)
                targets.append((PATRONI, patroni.base + "/liveness", patroni.process.pid))
            except OSError as error:
                with open(os.path.join(folder, "patroni", "log")) as f:
                    note(f.read()[-2000:])
                note(f"Patroni did not answer, its row is left out: {error}")
        found = {name: [] for name, _, _ in targets}
        pids = {os.getpid(), *(pid for _, _, pid in targets)}
        favour(pids, NICE)
        for number in range(args.rounds):
            for name, url, pid in targets:
                found[name].append(rate(url, pid, args.seconds))
                note(f"round {number + 1}: {name}: {found[name][-1][0]:.0f}/s")
        favour(pids, 0)
        # What else the machine does can only take away.
        return {name: (max(wall for wall, _ in values), statistics.median(own for _, own in values))
                for name, values in found.items()}
    finally:
        for server in (patroni, etcd, fleet, agent):
            if server:
                server.close()


def streams(folder, args, kind):
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(8192, resource.getrlimit(
        resource.RLIMIT_NOFILE)[1]),) * 2)
    agent, sockets = kind(folder, core=None), []
    try:
        before, terms, failed = agent.resident_mib(), agent.terms(), agent.failed()
        for _ in range(args.streams):
            s = socket.create_connection(("127.0.0.1", agent.port), timeout=30)
            s.sendall(b"GET /v1/leadership?stream=1 HTTP/1.1\r\nHost: localhost\r\n\r\n")
            sockets.append(s)
        end, most = time.monotonic() + 10, 0
        while time.monotonic() < end:
            for s in sockets:
                s.recv(1 << 16)
            most = max(most, agent.resident_mib())
        note(f"{kind.name}: {args.streams} streams: {most:.1f} MiB")
        return {"before": before, "resident": most, "failed": agent.failed() - failed,
                "lost": agent.lost(terms)}
    finally:
        for s in sockets:
            s.close()
        agent.close()


class Writer(Agent):
    """tenure run with a state."""

    def command(self, folder, ttl):
        token = os.path.join(folder, "token")
        with open(os.open(token, os.O_WRONLY | os.O_CREAT, 0o600), "w") as f:
            f.write(TOKEN)
        line = super().command(folder, ttl)
        return [*line[:-3], "--state", "store", "--token-file", token, *line[-3:]]

    def request_ms(self, n):
        """The median of n commits, one after the other over one connection."""
        connection, took = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30), []
        for _ in range(n):
            began = time.monotonic()
            connection.request("PUT", "/v1/state/bench/one", b"x", {"Authorization": "Bearer " + TOKEN})
            answer = connection.getresponse()
            answer.read()
            took.append(time.monotonic() - began)
            assert answer.status == 200, answer.status
        connection.close()
        return 1000 * statistics.median(took)


def state_requests(folder):
    """What a page that somebody has open costs whoever commits."""
    agent = Writer(folder, core=None)
    try:
        alone = agent.request_ms(REQUESTS)
        with socket.create_connection(("127.0.0.1", agent.port), timeout=30) as s:
            s.sendall(b"GET /v1/leadership?stream=1 HTTP/1.1\r\nHost: localhost\r\n\r\n")
            s.recv(1 << 16)
            beside = agent.request_ms(REQUESTS)
        note(f"a state request: {alone:.2f} ms, beside a stream {beside:.2f} ms")
        return alone, beside
    finally:
        agent.close()


def flood(folder, args):
    """Both at once, which is worse than each alone."""
    agents = [Agent(folder, core=None), Fleet(folder, core=None)]
    try:
        before = [(a.terms(), a.renewals(), a.failed()) for a in agents]
        note(f"flooded for {args.flood} s")
        loads = [subprocess.Popen(["wrk", "-t1", "-c64", f"-d{args.flood}s", agent.base + path],
                                  stdout=subprocess.DEVNULL)
                 for agent in agents for path in ("/livez", "/_ha/status")]
        for load in loads:
            load.wait()
        return [{"name": a.name, "renewals": a.renewals() - renewals, "failed": a.failed() - failed,
                 "p99_ms": max(e["renewals"]["p99_ms"] for e in a.status()), "lost": a.lost(terms)}
                for a, (terms, renewals, failed) in zip(agents, before)]
    finally:
        for agent in agents:
            agent.close()


# ---- Figures beside their targets -------------------------------------------

ETCD, PATRONI = "etcd /health", "Patroni /liveness"
LEAST, MIB, TIMES = 20_000, 32, 2
NICE = -10


def private_kib(pid):
    with open(f"/proc/{pid}/smaps_rollup") as f:
        return sum(int(line.split()[1]) for line in f if line.startswith("Private_"))


def timed(ask, *args):
    began = time.monotonic()
    ask(*args)
    return time.monotonic() - began


def many(folder, elections):
    """What an election costs in an agent with that many of them, once they all lead and are idle."""
    note(f"{elections} elections in one agent")
    agent = Many(folder, elections)
    try:
        first = timed(get, agent.base + "/_ha/status")
        time.sleep(5)
        found = {"n": elections, "ready_s": agent.ready_s, "first_s": first,
                 "status_s": timed(get, agent.base + "/_ha/status"),
                 "metrics_s": timed(get, agent.base + "/metrics"), "agent_kib": private_kib(agent.process.pid),
                 "files": len(os.listdir(f"/proc/{agent.process.pid}/fd"))}
        children = agent.children()
        found["kib"] = statistics.median(private_kib(pid) for pid in children)
        found["threads"] = statistics.median(len(os.listdir(f"/proc/{pid}/task")) for pid in children)
        found["leading"] = sum(e["leading"] for e in agent.status())
        return found
    finally:
        agent.close(300)


def many_row(m):
    met = m["leading"] == m["n"] and m["kib"] < 1024
    return (f"| {m['n']:,} | {m['leading']:,} | {m['ready_s']:.1f} s | {m['kib']:.0f} KiB, {m['threads']:.0f} threads "
            f"| {m['agent_kib'] / 1024:.1f} MiB, {m['files']:,} files | {m['first_s']:.2f} s, {m['status_s']:.2f} s "
            f"| {m['metrics_s']:.2f} s | all lead, < 1 MiB each | {verdict(met)} |")


def verdict(met):
    return "met" if met else "**missed**"


def rate_rows(found):
    rows = []
    for name, (wall, own) in found.items():
        if not name.startswith("`tenure"):
            rows.append(f"| {name} | {wall:,.0f} | {own:,.0f} | | |")
            continue
        goals = [(f">= {LEAST:,}", wall >= LEAST)]
        if ETCD in found:
            goals.append((f">= etcd ({wall / found[ETCD][0]:.1f} x)", wall >= found[ETCD][0]))
        if PATRONI in found:
            ratio = wall / found[PATRONI][0]
            goals.append((f">= 10 x Patroni ({ratio:.0f} x)", ratio >= 10))
        rows.append(f"| {name} | {wall:,.0f} | {own:,.0f} | {', '.join(g for g, _ in goals)} | "
                    f"{verdict(all(met for _, met in goals))} |")
    return "\n".join(rows)


def report(args, found, held, asked, flooded, crowds):
    streams_rows = "\n".join(
        f"| {name} | {h['resident']:.1f} MiB ({h['before']:.1f} before) | {h['failed']} | {h['lost']} "
        f"| < {MIB} MiB, none | {verdict(h['resident'] < MIB and h['failed'] + h['lost'] == 0)} |"
        for name, h in held.items())
    flood_rows = "\n".join(
        f"| {f['name']} | {f['renewals']} | {f['failed']} | {f['p99_ms']} ms | {f['lost']} | none lost "
        f"| {verdict(f['lost'] == 0)} |" for f in flooded)
    return f"""# Benchmarks of the HTTP side

Measured by `bench/agent.py --seconds {args.seconds} --rounds {args.rounds} --flood {args.flood}` \
(a part of `make bench`), {datetime.date.today()}, on {os.cpu_count()} cores, Linux \
{platform.release()}, load average {os.getloadavg()[1]:.1f}.

| one core, keep-alive, 32 connections | requests a second, by the clock | a second of its own time | target | verdict |
|---|---|---|---|---|
{rate_rows(found)}

The server has one core, wrk the other; the best of {args.rounds} rounds by turns, because the clock counts whatever
else the machine does.

| {args.streams:,} open event streams, ttl 3s | resident | failed renewals | lost leases | target | verdict |
|---|---|---|---|---|---|
{streams_rows}

| a commit over `--listen`, median of {REQUESTS} | alone | beside one event stream | target | verdict |
|---|---|---|---|---|
| tenure run, file store in memory | {asked[0]:.2f} ms | {asked[1]:.2f} ms | < {TIMES} x | {verdict(asked[1] < TIMES * asked[0])} |

| flooded for {args.flood} s, both at once, 128 connections each, ttl 3s | renewals | failed | 99 % within | lost leases | target | verdict |
|---|---|---|---|---|---|---|
{flood_rows}

| elections in one agent, ttl 60s, file store in memory | lead | until all lead | an election, private | the agent itself, private | `/_ha/status`, the first and again | `/metrics` | target | verdict |
|---|---|---|---|---|---|---|---|---|
{chr(10).join(map(many_row, crowds))}

An election is a process of its own; its guard and its program come on top. The first question makes every one of them
read its candidates and its history.
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--flood", type=int, default=60)
    parser.add_argument("--streams", type=int, default=1000)
    parser.add_argument("--many", type=int, nargs="*", default=[64, 1000])
    parser.add_argument("--write", action="store_true")
    args = parser.parse_args()
    if not present("wrk"):
        sys.exit("bench/agent.py: wrk is not installed: scripts/deps bench")

    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    folder = tempfile.mkdtemp(prefix="tenure-bench.", dir=memory)
    try:
        found = rates(folder, args)
        held = {kind.name: streams(folder, args, kind) for kind in (Agent, Fleet)}
        asked = state_requests(folder)
        flooded = flood(folder, args)
        crowds = [many(folder, n) for n in args.many]
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    text = report(args, found, held, asked, flooded, crowds)
    print(text)
    if args.write:
        with open(os.path.join(ROOT, "docs/evidence/benchmarks-agent.md"), "w") as f:
            f.write(text)


if __name__ == "__main__":
    main()
