"""The programs that are measured side by side: each supervises `stamp`."""

import json
import os
import shutil
import socket
import subprocess
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.join(ROOT, "build")
STAMP = os.path.join(BUILD, "bench", "stamp")


def boottime():
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Tenure:
    """tenure run on an embedded store."""

    lock_lives_with_program = False

    def __init__(self, url, name=None, ttl="15s"):
        self.url, self.ttl = url, ttl
        self.name = name or "tenure, " + url.split(":")[0] + ":"

    def command(self, log):
        return [os.path.join(BUILD, "tenure"), "run", "--store", self.url, "--name", "bench",
                "--ttl", self.ttl, "--log", "none", "--", STAMP, log]

    def stop(self):
        pass


class Leads(Tenure):
    """tenure run until it leads, which its trace tells; the program's start comes after that."""

    def __init__(self, url):
        super().__init__(url, f"tenure leads, {url.split(':')[0]}:")

    def command(self, log):
        tenure, run, *rest = super().command(log)
        return [tenure, run, "--trace", log + ".trace", *rest]

    def moment(self, log):
        with open(log + ".trace") as trace:
            return next(event["at_ns"] for event in map(json.loads, trace)
                        if event.get("event") == "granted")


class Library:
    """The library alone: no guard, no program to start."""

    lock_lives_with_program = False

    def __init__(self, url):
        self.url, self.name = url, "libtenure, " + url.split(":")[0] + ":"

    def command(self, log):
        return [os.path.join(BUILD, "bench", "lead"), self.url, log]

    def stop(self):
        pass


class Flock:
    name = "flock(1)"
    lock_lives_with_program = True

    def __init__(self, path):
        self.path = path

    def command(self, log):
        return ["flock", self.path, STAMP, log]

    def stop(self):
        pass


class Etcd:
    """One etcd server for both of etcdctl's ways."""

    def __init__(self, folder):
        client, peer = free_port(), free_port()
        self.endpoint = f"127.0.0.1:{client}"
        self.server = subprocess.Popen(
            ["etcd", "--data-dir", os.path.join(folder, "etcd"), "--name", "e",
             "--listen-client-urls", f"http://{self.endpoint}",
             "--advertise-client-urls", f"http://{self.endpoint}",
             "--listen-peer-urls", f"http://127.0.0.1:{peer}",
             "--initial-advertise-peer-urls", f"http://127.0.0.1:{peer}",
             "--initial-cluster", f"e=http://127.0.0.1:{peer}", "--logger", "zap",
             "--log-level", "error"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.env = dict(os.environ, ETCDCTL_API="3")
        for _ in range(200):
            if subprocess.run(["etcdctl", "--endpoints", self.endpoint, "endpoint", "health"],
                              env=self.env, capture_output=True).returncode == 0:
                return
            time.sleep(0.05)
        raise RuntimeError("etcd did not start")

    def close(self):
        self.server.kill()
        self.server.wait()


class EtcdLock:
    name = "etcdctl lock"
    lock_lives_with_program = True

    def __init__(self, etcd, ttl=15):
        self.etcd, self.ttl = etcd, ttl

    def command(self, log):
        return ["env", "ETCDCTL_API=3", "etcdctl", "--endpoints", self.etcd.endpoint, "lock",
                "--ttl", str(self.ttl), "bench", STAMP, log]

    def stop(self):
        pass


class EtcdElect:
    """etcdctl elect runs no command: it prints a line when it leads."""

    name = "etcdctl elect"
    lock_lives_with_program = True

    def __init__(self, etcd):
        self.etcd = etcd

    def command(self, log):
        line = f"ETCDCTL_API=3 etcdctl --endpoints {self.etcd.endpoint} elect bench me"
        return ["sh", "-c", f"{line} | (read -r key && exec {STAMP} {log})"]

    def stop(self):
        pass


class Redlock:
    """The Redlock client of Node.js on one Redis server; its packages come from npm."""

    name = "redlock (Node.js)"
    lock_lives_with_program = False

    def __init__(self, folder, ttl_ms=15000):
        self.folder = os.path.join(folder, "redlock")
        shutil.copytree(os.path.join(ROOT, "bench", "peers", "redlock"), self.folder)
        done = subprocess.run(["npm", "install", "--no-audit", "--no-fund", "--silent"],
                              cwd=self.folder, capture_output=True, timeout=180)
        if done.returncode != 0:
            raise RuntimeError("npm could not install redlock")
        self.port, self.ttl = free_port(), ttl_ms
        self.server = subprocess.Popen(
            ["redis-server", "--port", str(self.port), "--bind", "127.0.0.1", "--save", "",
             "--dir", self.folder], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(0.3)

    def command(self, log):
        return ["node", os.path.join(self.folder, "run.mjs"), str(self.port), str(self.ttl), STAMP,
                log]

    def close(self):
        self.server.kill()
        self.server.wait()


def present(name):
    return shutil.which(name) is not None
