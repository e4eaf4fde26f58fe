"""Real NATS servers: Debian's own (OLD), and that of another suite's package (scripts/suite-server); one, or a
cluster.  And a client of a few lines, for what an operator does."""

import base64
import contextlib
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import time

from process import Daemon, Patience, free_port, until

ROOT = pathlib.Path(__file__).resolve().parents[2]
OLD = shutil.which("nats-server") or shutil.which("nats-server", path="/usr/sbin:/usr/local/sbin")


def _program():
    # `make test-all` gets it and requires it.
    required = os.environ.get("TENURE_SERVERS") == "required"
    done = subprocess.run([str(ROOT / "scripts/suite-server"), *([] if required else ["--check"]), "nats-server"],
                          check=required, capture_output=not required, stdout=subprocess.PIPE if required else None,
                          text=True)
    return done.stdout.strip() if done.returncode == 0 else None


PROGRAM = _program()
MISSING = None if PROGRAM else "no nats-server of today here: run scripts/suite-server nats-server, or make test-all"
MISSING_OLD = None if OLD else "NATS is not installed: run scripts/deps test, or apt-get install nats-server"


class Client:
    """One connection of somebody who may do everything."""

    def __init__(self, port, timeout=10):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=timeout)
        self.pipe = self.socket.makefile("rwb")
        self.inbox, self.number = f"_INBOX.{os.urandom(8).hex()}", 0
        assert self.pipe.readline().startswith(b"INFO ")
        self.pipe.write(b'CONNECT {"verbose":false,"headers":true,"no_responders":true}\r\n'
                        + f"SUB {self.inbox}.* 1\r\n".encode())

    def request(self, subject, body=b"", headers=None):
        self.number += 1
        reply = f"{self.inbox}.{self.number}"
        head = b"".join(f"{k}: {v}\r\n".encode() for k, v in (headers or {}).items())
        if headers:
            head = b"NATS/1.0\r\n" + head + b"\r\n"
            line = f"HPUB {subject} {reply} {len(head)} {len(head) + len(body)}\r\n"
        else:
            line = f"PUB {subject} {reply} {len(body)}\r\n"
        self.pipe.write(line.encode() + head + body + b"\r\n")
        self.pipe.flush()
        while True:
            words = self.pipe.readline().split()
            if not words:
                raise OSError("the server ended the connection")
            if words[0] == b"PING":
                self.pipe.write(b"PONG\r\n")
                self.pipe.flush()
            elif words[0] == b"-ERR":
                raise OSError(" ".join(map(bytes.decode, words)))
            elif words[0] in (b"MSG", b"HMSG"):
                data = self.pipe.read(int(words[-1]) + 2)[:-2]
                if words[0] == b"HMSG":
                    if b" 503" in data[:14]:
                        raise OSError("no responders")
                    data = data[int(words[-2]):]
                if words[1].decode() == reply:
                    return json.loads(data)

    def close(self):
        with contextlib.suppress(OSError):
            self.pipe.close()
            self.socket.close()


class Nats(Daemon):
    """One server, which lets everybody do everything who brings no login.  routes: the ports of a cluster.  users:
    what stands in its configuration, and nobody gets in without being one of them."""

    def __init__(self, program=None, name="one", routes=(), tls=None, users=None, data=None, sync=False, start=True):
        super().__init__("nats")
        self.program, self.name, self.routes, self.tls, self.users = program or PROGRAM, name, routes, tls, users
        self.port, self.route = free_port(), free_port()
        self.data = data or self.dir / "data"
        self.sync = sync  # it flushes before it answers
        self.app = None  # (password, permissions) of the user "app"
        self.client = None
        if not start:
            return
        try:
            self.start()
            until(self.healthy)
        except BaseException:
            self.stop()
            raise

    def write_config(self):
        lines = [f"listen: 127.0.0.1:{self.port}", f"server_name: {self.name}",
                 f'jetstream {{ store_dir: "{self.data}"']
        if self.sync:
            lines[-1] += ", sync_interval: always"
        lines[-1] += " }"
        if self.routes:
            peers = ", ".join(f'"nats://127.0.0.1:{port}"' for port in self.routes if port != self.route)
            lines.append(f"cluster {{ name: c, listen: 127.0.0.1:{self.route}, routes: [{peers}] }}")
        if self.tls:
            ca, cert, key = self.tls
            lines.append(f'tls {{ ca_file: "{ca}", cert_file: "{cert}", key_file: "{key}", verify: true }}')
        if self.users:
            lines.append(self.users)
        elif not self.tls:
            users = "{ user: admin, password: admin }"
            if self.app:
                password, permissions = self.app
                users += f', {{ user: app, password: "{password}", permissions: {permissions} }}'
            lines += [f"authorization {{ users: [{users}] }}", "no_auth_user: admin"]
        (self.dir / "config").write_text("\n".join(lines) + "\n")

    def start(self):
        self.write_config()
        self.spawn([self.program, "-c", str(self.dir / "config")])

    def let_in(self, password, permissions="{}"):
        """The user "app" has this password and these rights from now on."""
        self.app = (password, permissions)
        before = self.log().count("Reloaded server configuration")
        self.write_config()
        self.signal(signal.SIGHUP)
        until(lambda: self.log().count("Reloaded server configuration") > before)

    def request(self, subject, body=b"", headers=None):
        """OSError if nobody answers."""
        try:
            if not self.client:
                self.client = Client(self.port)
            return self.client.request(subject, body, headers)
        except (OSError, ValueError) as error:
            self.hang_up()
            raise OSError(str(error)) from error

    def api(self, what, **body):
        return self.request(f"$JS.API.{what}", json.dumps(body).encode() if body else b"")

    def hang_up(self):
        client, self.client = self.client, None
        if client:
            client.close()

    def healthy(self):
        assert self.alive(), self.log()
        if self.users or self.tls:
            return "Server is ready" in self.log()
        try:
            return "error" not in self.api("INFO")
        except OSError:
            return False

    def bucket(self, name="tenure"):
        return self.api(f"STREAM.INFO.KV_{name}")

    def get(self, key, bucket="tenure"):
        """The last message of a key of the bucket; None if there is none."""
        answer = self.api(f"STREAM.MSG.GET.KV_{bucket}", last_by_subj=f"$KV.{bucket}.{key}")
        if "error" in answer and answer["error"]["err_code"] not in (10037, 10059):
            raise OSError(str(answer))
        return base64.b64decode(answer["message"].get("data", "")) if "message" in answer else None

    def put(self, key, value, bucket="tenure", **headers):
        answer = self.request(f"$KV.{bucket}.{key}", value, {k.replace("_", "-"): v for k, v in headers.items()})
        if "error" in answer:
            raise OSError(str(answer))
        return answer["seq"]

    def delete(self, key, bucket="tenure"):
        """As `nats kv del` does it: a message that says so."""
        self.put(key, b"", bucket, KV_Operation="DEL")

    def purge(self, bucket="tenure"):
        self.api(f"STREAM.PURGE.KV_{bucket}")

    def url(self, query="", port=None):
        return f"nats://127.0.0.1:{port or self.port}{query}"

    def kill(self):
        super().kill()
        self.hang_up()

    def stop(self):
        self.hang_up()
        super().stop()


class Cluster:
    """Three servers."""

    def __init__(self, program=None, wait=True):
        names = ("one", "two", "three")
        self.members = [Nats(program, name, start=False) for name in names]
        routes = [member.route for member in self.members]
        try:
            for member in self.members:
                member.routes = routes
                member.start()
            if wait:
                until(self.healthy)
                until(self.places)
        except BaseException:
            self.stop()
            raise

    def healthy(self):
        """It has a leader, and each member knows it."""
        return all(member.healthy() for member in self.members if member.alive())

    def places(self):
        """It puts a stream on all members.  Members of 2.10 that connect to each other at the same
        moment may take one of them for gone until it starts again: one in seven clusters did."""
        patience = Patience(10)
        while not patience.is_over():
            with contextlib.suppress(OSError):
                answer = self.members[0].api("STREAM.CREATE.probe", name="probe", subjects=["probe"],
                                             num_replicas=len(self.members))
                if "error" not in answer:
                    self.members[0].api("STREAM.DELETE.probe")
                    return True
            time.sleep(0.2)
        for member in self.members:
            member.kill()
            member.start()
            until(self.healthy)
        return False

    def leader(self, bucket="tenure"):
        """The member that leads the bucket."""
        def find():
            for member in self.members:
                with contextlib.suppress(OSError, KeyError):
                    if member.alive():
                        name = member.bucket(bucket)["cluster"]["leader"]
                        return next(m for m in self.members if m.name == name)
            return None
        return until(find)

    def url(self, query="?replicas=3"):
        return "nats://" + ",".join(f"127.0.0.1:{m.port}" for m in self.members) + query

    def stop(self):
        for member in self.members:
            member.stop()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()
