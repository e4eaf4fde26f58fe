"""Real Redis servers, Sentinels and clusters of Debian's packages."""

import shutil
import socket
import subprocess

from process import Daemon, free_port, until

MISSING = None if shutil.which("redis-server") else (
    "redis-server is not installed: run scripts/deps, or apt-get install redis-server "
    "redis-sentinel redis-tools openssl")


class RedisReply(Exception):
    """An error that the server told."""


class Client:
    """Just enough of the protocol to look behind tenure's back."""

    def __init__(self, port=None, path=None):
        if path:
            self.sock = socket.socket(socket.AF_UNIX)
            self.sock.connect(str(path))
        else:
            self.sock = socket.create_connection(("127.0.0.1", port))
        self.sock.settimeout(30)
        self.file = self.sock.makefile("rb")

    def _reply(self):
        line = self.file.readline()
        if not line:
            raise ConnectionError("closed")
        kind, text = line[:1], line[1:-2]
        if kind == b"-":
            raise RedisReply(text.decode())
        if kind == b":":
            return int(text)
        if kind == b"$":
            return None if text == b"-1" else self.file.read(int(text) + 2)[:-2]
        if kind == b"*":
            return None if text == b"-1" else [self._reply() for _ in range(int(text))]
        return text

    def __call__(self, *args):
        request = b"*%d\r\n" % len(args)
        for arg in args:
            arg = arg if isinstance(arg, bytes) else str(arg).encode()
            request += b"$%d\r\n%s\r\n" % (len(arg), arg)
        self.sock.sendall(request)
        return self._reply()

    def close(self):
        self.file.close()
        self.sock.close()


class Redis(Daemon):
    """redis-server on a private port; options are (name, value...) of redis.conf."""

    def __init__(self, *options, port=None):
        super().__init__("redis")
        self.port = port or free_port()
        self.socket = self.dir / "sock"
        self.options = [("save", ""), ("unixsocket", self.socket), ("bind", "127.0.0.1"),
                        ("port", self.port), ("dir", self.dir), ("shutdown-timeout", 0), *options]
        try:
            self.start()
        except BaseException:
            self.stop()
            raise

    def conf(self):
        return self.dir / "redis.conf"

    def start(self):
        def word(text):
            return '"' + str(text).replace("\\", "\\\\").replace('"', '\\"') + '"'

        if not self.conf().exists():
            self.conf().write_text("".join(
                " ".join([name, *map(word, values)]) + "\n" for name, *values in self.options))
        self.spawn(["redis-server", str(self.conf())])
        until(self.answers)

    def answers(self):
        assert self.alive(), self.log()
        try:
            self.cmd("PING")
        except RedisReply as error:
            return not str(error).startswith("LOADING")
        except OSError:
            return False
        return True

    def cmd(self, *args, auth=None):
        """One command, over the Unix socket, on a connection of its own."""
        for left in (2, 1, 0):
            client = Client(path=self.socket)
            try:
                if auth:
                    client("AUTH", *auth)
                return client(*args)
            except ConnectionError:
                if not left:  # a Sentinel hangs up on everybody when it demotes a master
                    raise
            finally:
                client.close()

    def info(self, section, field):
        for line in self.cmd("INFO", section).decode().splitlines():
            if line.startswith(field + ":"):
                return line.split(":", 1)[1]
        return None

    def restart(self):
        self.kill()
        self.start()

    def url(self, query="", scheme="redis"):
        return f"{scheme}://127.0.0.1:{self.port}{query}"


class Sentinel(Redis):
    """One Sentinel; knows one master called "main"."""

    def __init__(self, master_port, quorum, *options, down_after_ms=1000):
        self.rules = [("sentinel", "monitor", "main", "127.0.0.1", master_port, quorum),
                      ("sentinel", "down-after-milliseconds", "main", down_after_ms),
                      ("sentinel", "failover-timeout", "main", 6000), *options]
        super().__init__()

    def start(self):
        if not self.conf().exists():
            head = [("port", self.port), ("bind", "127.0.0.1"), ("dir", self.dir)]
            self.conf().write_text("".join(
                " ".join(map(str, row)) + "\n" for row in head + self.rules))
        self.spawn(["redis-server", str(self.conf()), "--sentinel"])
        until(self.answers)

    def cmd(self, *args, auth=None):
        client = Client(port=self.port)
        try:
            if auth:
                client("AUTH", *auth)
            return client(*args)
        finally:
            client.close()

    def master_port(self):
        return int(self.cmd("SENTINEL", "get-master-addr-by-name", "main")[1])


class SentinelSet:
    """One master, one replica, three Sentinels that know each other."""

    def __init__(self, *options, down_after_ms=1000):
        self.parts = []
        try:
            self.master = self._add(Redis(*options))
            self.replica = self._add(Redis(("replicaof", "127.0.0.1", self.master.port),
                                           ("repl-diskless-sync-delay", 0), *options))
            until(lambda: self.replica.info("replication", "master_link_status") == "up")
            self.sentinels = [self._add(Sentinel(self.master.port, 2,
                                                 down_after_ms=down_after_ms))
                              for _ in range(3)]
            for sentinel in self.sentinels:
                until(lambda s=sentinel: self._knows_all(s))
        except BaseException:
            self.stop()
            raise

    @staticmethod
    def _knows_all(sentinel):
        info = sentinel.cmd("INFO", "sentinel").decode()
        return "slaves=1,sentinels=3" in info and "status=ok" in info

    def _add(self, part):
        self.parts.append(part)
        return part

    def url(self, query="", scheme="redis+sentinel"):
        hosts = ",".join(f"127.0.0.1:{s.port}" for s in self.sentinels)
        return f"{scheme}://{hosts}/main{query}"

    def agreed(self, server):
        """Every Sentinel calls this server the master."""
        return all(s.master_port() == server.port for s in self.sentinels)

    def stop(self):
        for part in reversed(self.parts):
            part.stop()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()


class Cluster:
    """Three masters that share the slots."""

    def __init__(self):
        self.nodes = []
        try:
            for _ in range(3):
                self.nodes.append(Redis(("cluster-enabled", "yes"), ("cluster-port", free_port()),
                                        ("cluster-node-timeout", 2000)))
            subprocess.run(["redis-cli", "--cluster", "create", "--cluster-yes",
                            *(f"127.0.0.1:{n.port}" for n in self.nodes)],
                           check=True, stdout=subprocess.DEVNULL)
            for node in self.nodes:
                until(lambda n=node: b"cluster_state:ok" in n.cmd("CLUSTER", "INFO"))
        except BaseException:
            self.stop()
            raise

    def stop(self):
        for node in self.nodes:
            node.stop()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()


def make_certificates(folder, name="localhost"):
    """A CA, and a server's certificate for a name and 127.0.0.1.  Returns (ca, cert, key)."""
    def openssl(*args):
        subprocess.run(["openssl", *map(str, args)], check=True, capture_output=True)

    ca, ca_key = folder / "ca.pem", folder / "ca.key"
    cert, key, request = folder / "server.pem", folder / "server.key", folder / "server.csr"
    openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
            "-subj", "/CN=a CA of this test", "-days", "2", "-keyout", ca_key, "-out", ca)
    openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
            "-subj", f"/CN={name}", "-keyout", key, "-out", request)
    extensions = folder / "ext"
    extensions.write_text(f"subjectAltName=DNS:{name}\n")
    openssl("x509", "-req", "-in", request, "-CA", ca, "-CAkey", ca_key, "-CAcreateserial",
            "-days", "2", "-extfile", extensions, "-out", cert)
    return ca, cert, key
