"""Real ZooKeeper servers of Debian's packages: one, or an ensemble."""

import base64
import contextlib
import hashlib
import pathlib
import shutil
import socket

from process import Daemon, free_port, until

JAR = pathlib.Path("/usr/share/java/zookeeper.jar")
try:
    from kazoo.client import KazooClient
    from kazoo.exceptions import KazooException, NoNodeError
    from kazoo.handlers.threading import KazooTimeoutError
    from kazoo.security import make_acl
except ImportError:
    KazooClient = None

MISSING = None if shutil.which("java") and JAR.exists() and KazooClient else (
    "ZooKeeper is not installed: run scripts/deps test, or apt-get install libzookeeper-java "
    "default-jre-headless python3-kazoo")

SUPER = "super:root"  # may do everything


def digest(login):
    return base64.b64encode(hashlib.sha1(login.encode()).digest()).decode()


class ZooKeeper(Daemon):
    """One server.  peers: {number: (quorum port, election port)} of an ensemble."""

    def __init__(self, number=1, peers=None, data=None, start=True):
        super().__init__("zookeeper")
        self.number, self.peers = number, peers
        self.port = free_port()
        self.data = data or self.dir / "data"
        self.client = None
        if not start:
            return
        try:
            self.start()
            until(self.healthy)
        except BaseException:
            self.stop()
            raise

    def start(self):
        self.data.mkdir(exist_ok=True)
        lines = [f"dataDir={self.data}", f"clientPort={self.port}", "clientPortAddress=127.0.0.1",
                 "tickTime=200", "initLimit=50", "syncLimit=10", "admin.enableServer=false",
                 "maxSessionTimeout=60000", "maxClientCnxns=0", "4lw.commands.whitelist=*"]
        if self.peers:
            (self.data / "myid").write_text(str(self.number))
            lines += [f"server.{n}=127.0.0.1:{q}:{e}" for n, (q, e) in self.peers.items()]
        (self.dir / "zoo.cfg").write_text("\n".join(lines) + "\n")
        self.spawn(["java", "-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto",
                    "-Dzookeeper.preAllocSize=64",  # KiB, instead of 64 MiB
                    "-Dzookeeper.forceSync=no",  # processes are killed here, not machines
                    "-Dzookeeper.DigestAuthenticationProvider.superDigest="
                    f"super:{digest(SUPER)}", "-cp", str(JAR),
                    "org.apache.zookeeper.server.quorum.QuorumPeerMain", str(self.dir / "zoo.cfg")])

    def word(self, word):
        """One of its four-letter words; "" while there is nobody to ask."""
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=5) as s:
                s.settimeout(5)
                s.sendall(word.encode())
                answer = b""
                while piece := s.recv(65536):
                    answer += piece
                return answer.decode()
        except OSError:
            return ""

    def healthy(self):
        assert self.alive(), self.log()
        return "Mode: " in self.word("srvr")

    def leads(self):
        return any(mode in self.word("srvr") for mode in ("Mode: leader", "Mode: standalone"))

    def restart(self):
        self.kill()
        self.start()
        until(self.healthy)

    def call(self, what):
        """what(client), of somebody who may do everything.  OSError if nobody answers."""
        try:
            if not self.client:
                self.client = KazooClient(f"127.0.0.1:{self.port}", timeout=10,
                                          auth_data=[("digest", SUPER)])
                self.client.start(timeout=30)
            return what(self.client)
        except NoNodeError:
            raise
        except (KazooException, KazooTimeoutError) as error:
            self.hang_up()
            raise OSError(str(error)) from error

    def hang_up(self):
        client, self.client = self.client, None
        if client:
            with contextlib.suppress(Exception):
                client.stop()
                client.close()

    def get(self, path):
        try:
            return self.call(lambda c: c.get(path)[0])
        except NoNodeError:
            return None

    def put(self, path, data):
        if not self.call(lambda c: c.exists(path)):
            self.call(lambda c: c.create(path, data, makepath=True))
        else:
            self.call(lambda c: c.set(path, data))

    def delete(self, path):
        with contextlib.suppress(NoNodeError):
            self.call(lambda c: c.delete(path, recursive=True))

    def tree(self, path):
        """The path and everything below it."""
        try:
            names = self.call(lambda c: c.get_children(path))
        except NoNodeError:
            return []
        return [path] + [p for name in names for p in self.tree(f"{path}/{name}")]

    def permit(self, path, login, **rights):
        """Only that user may, at the path and all below it."""
        acl = [make_acl("digest", f"{login.split(':')[0]}:{digest(login)}", **rights)]
        for node in self.tree(path):
            with contextlib.suppress(NoNodeError):
                self.call(lambda c, node=node: c.set_acls(node, acl))

    def url(self, query="", port=None):
        return f"zookeeper://127.0.0.1:{port or self.port}{query}"

    def kill(self):
        super().kill()
        self.hang_up()

    def stop(self):
        self.hang_up()
        super().stop()


class Ensemble:
    """Three servers."""

    def __init__(self):
        peers = {n: (free_port(), free_port()) for n in (1, 2, 3)}
        self.members = [ZooKeeper(n, peers, start=False) for n in peers]
        try:
            for member in self.members:
                member.start()
            for member in self.members:
                until(member.healthy)
        except BaseException:
            self.stop()
            raise

    def leader(self):
        return until(lambda: next((m for m in self.members if m.alive() and m.leads()), None))

    def url(self, query=""):
        return "zookeeper://" + ",".join(f"127.0.0.1:{m.port}" for m in self.members) + query

    def stop(self):
        for member in self.members:
            member.stop()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()
