"""The server stores behind one face, for faults that all of them must stand.

A Rig is a running server and what an operator can do to it; a Door is a user of that server whose
secret stands in a file.  The election that is disturbed is always called "w".
"""

import contextlib
import json
import os
import pathlib
import shutil
import subprocess
import tempfile

import pytest
import server_consul
import server_etcd
import server_kube
import server_minio
import server_nats
import server_postgres
import server_redis
import server_zookeeper
from disk import SmallDisk
from process import until
from server_consul import Consul
from server_etcd import Etcd
from server_kube import Kube
from server_minio import Authorizer, Minio
from server_nats import Nats
from server_postgres import Postgres
from server_redis import Redis
from server_zookeeper import ZooKeeper

QUOTA = 24 << 20  # bytes, of the etcd behind etcd: and kube:


class Door:
    """How a user with a password comes in."""

    def __init__(self, rig, file):
        self.rig, self.file = rig, file
        self.write("one")
        self.url = rig.let_in(file)

    def write(self, secret):
        """The file is replaced as a whole, as those who mount secrets do it."""
        fresh = self.file.with_suffix(".new")
        fresh.write_text(self.rig.secret_file(secret))
        fresh.chmod(0o600)
        fresh.rename(self.file)


class Rig:
    """Defaults; every store says what differs.  ttl_ms: for leases that are meant to end."""

    ttl_ms = 2000
    full_needs_mount = True
    partial = 7  # bytes: less than the answer to a swap
    looks = False  # it reads before a swap that expects something: what fails at once was not sent
    lands_late = True  # a request that its client gave up is still carried out
    black_holed_open, black_holed_swap = ("timeout",), "timeout"
    stopped_swap = ("unknown",)
    obeys_late = False  # what a stopped server had received it still carries out
    tells_deletions = False  # a register that an operator deletes wakes a wait
    full_words = ("disk is full", "to disk", "quota", "space exceeded", "is the server up")
    polls = False  # nothing tells of changes: a wait asks once an interval

    def __init__(self, server):
        self.server = server

    def close(self):
        self.server.stop()

    @property
    def port(self):
        return self.server.port

    def url(self, port=None):
        return self.server.url(port=port)

    def settle(self):
        """Wait until the server serves again."""
        until(self.server.healthy)

    def change(self):
        """Something that every renewal changes; None while there is nobody to ask."""
        try:
            return self.mark()
        except (OSError, AssertionError, server_redis.RedisReply):
            return None

    def renewals(self, count=1):
        for _ in range(count):
            before = until(self.change)
            until(lambda: self.change() not in (None, before))

    def kill(self):
        """And start it again."""
        self.server.kill()
        self.server.start()
        self.settle()

    def shut_down(self):
        """It is gone when this returns."""
        self.server.kill()

    def value(self, number):
        """What may stand in w/lease, another one for each number."""
        return b"%d" % number

    def pause(self):
        self.server.pause()

    def resume(self):
        self.server.resume()

    def forbid_all(self):
        """The user of the Door may not even look."""
        self.forbid()

    def prepare(self):
        """What an operator does after the server has been emptied."""

    def secret_file(self, secret):
        return secret + "\n"

    def rotate(self, door, secret):
        """From now on the user's secret is another one; the file does not know it yet."""
        self.change_secret(secret)

    @contextlib.contextmanager
    def door(self, folder):
        """A user with the secret "one"."""
        try:
            yield Door(self, folder / "secret")
        finally:
            self.lock_up()

    def lock_up(self):
        """Nobody needs the Door any more."""


# ---- PostgreSQL -------------------------------------------------------------

class PostgresRig(Rig):
    missing = server_postgres.MISSING
    stopped_swap = ("unknown", "timeout")

    def __init__(self, scheme="postgres"):
        super().__init__(Postgres())
        self.scheme = scheme
        self.query = "?retry=300ms" if scheme == "postgres+advisory" else ""
        self.prepare()

    def prepare(self):
        self.server.sql(subprocess.run(
            [str(pathlib.Path(os.environ["TENURE_BUILD"]) / "tenure"), "store", "schema",
             "--store", "postgres://"], capture_output=True, text=True, check=True).stdout)

    def url(self, port=None):
        return self.server.url(self.query, scheme=self.scheme, port=port)

    def settle(self):
        """Whoever starts it has waited."""

    def shut_down(self):
        self.server.shutdown()

    def mark(self):
        return self.server.sql("SELECT nonce FROM tenure.register WHERE key = 'w/lease'")

    def clear(self):
        self.server.sql("DELETE FROM tenure.register")

    delete = clear

    def dump(self):
        return subprocess.run(["pg_dump", "-h", self.server.dir, "-p", str(self.port), "-U",
                               "postgres", "--clean", "-n", "tenure", "postgres"],
                              capture_output=True, text=True, check=True).stdout

    def restore(self, dump):
        subprocess.run(["psql", "-Xq1", "-v", "ON_ERROR_STOP=1", "-h", self.server.dir, "-p",
                        str(self.port), "-U", "postgres", "postgres"], input=dump, text=True,
                       capture_output=True, check=True)

    def empty(self):
        self.server.kill()
        shutil.rmtree(self.server.data)
        subprocess.run(["cp", "-a", str(server_postgres.template()), str(self.server.data)],
                       check=True)
        self.server.start()

    def secret_file(self, secret):
        return f"*:*:*:app:{secret}\n"

    def let_in(self, file):
        self.server.sql("DROP OWNED BY app; DROP ROLE app"
                        if self.server.sql("SELECT 1 FROM pg_roles WHERE rolname = 'app'") else "")
        self.server.sql("CREATE ROLE app LOGIN PASSWORD 'one'")
        self.allow()
        self.server.hba("host all app 127.0.0.1/32 scram-sha-256", "host all all 127.0.0.1/32 trust")
        join = "&" if self.query else "?"
        return self.server.url(f"{self.query}{join}passfile={file}", user="app", scheme=self.scheme)

    def change_secret(self, secret):
        self.server.sql(f"ALTER ROLE app PASSWORD '{secret}'")
        self.server.end_sessions("usename = 'app'")

    def forbid(self):
        self.server.sql("REVOKE UPDATE ON tenure.register FROM app")

    def forbid_all(self):
        self.server.sql("REVOKE ALL ON tenure.register FROM app")

    def allow(self):
        self.server.sql("GRANT USAGE ON SCHEMA tenure TO app;"
                        "GRANT SELECT, INSERT, UPDATE ON tenure.register TO app")

    @contextlib.contextmanager
    def full(self):
        """Its log does not fit any more: the server ends itself, and starts when there is room."""
        disk, log = SmallDisk("48m"), self.server.data / "pg_wal"
        server_postgres._give(disk.path)
        try:
            self._move(log, disk.path / "log")
            log.symlink_to(disk.path / "log")
            self.server.start()
            yield lambda: self._fill(disk), lambda: self._make_room(disk)
            self.server.shutdown()
            log.unlink()
            shutil.rmtree(log, ignore_errors=True)
            subprocess.run(["mv", str(disk.path / "log"), str(log)], check=True)
            self.server.start()
        finally:
            disk.close()

    def _move(self, here, there):
        self.server.shutdown()
        subprocess.run(["mv", str(here), str(there)], check=True)

    def _fill(self, disk):
        disk.fill()
        with contextlib.suppress(AssertionError):
            while True:
                self.server.sql("SELECT pg_switch_wal(); CREATE TABLE x (); DROP TABLE x")

    def _make_room(self, disk):
        disk.room()
        with contextlib.suppress(AssertionError):
            until(self.server.answers)
            return
        self.server.process.wait()
        self.server.start()


class AdvisoryRig(PostgresRig):
    def __init__(self):
        super().__init__("postgres+advisory")


# ---- Redis ------------------------------------------------------------------

class RedisRig(Rig):
    missing = server_redis.MISSING
    obeys_late = True
    lease = "{tenure}:k:w/lease"

    def __init__(self, server=None):
        super().__init__(server or Redis(("appendonly", "yes"), ("appendfsync", "always")))

    def url(self, port=None):
        return f"redis://127.0.0.1:{port or self.port}"

    def settle(self):
        """Whoever starts it has waited."""

    def mark(self):
        return self.server.cmd("GET", self.lease)

    def clear(self):
        self.server.cmd("FLUSHALL")

    def delete(self):
        self.server.cmd("DEL", self.lease)

    def dump(self):
        copy = pathlib.Path(tempfile.mkdtemp(dir=self.server.dir)) / "aof"
        shutil.copytree(self.server.dir / "appendonlydir", copy)
        return copy

    def restore(self, dump):
        self.server.kill()
        shutil.rmtree(self.server.dir / "appendonlydir")
        if dump:
            shutil.copytree(dump, self.server.dir / "appendonlydir")
        self.server.start()

    def empty(self):
        self.restore(None)

    def let_in(self, file):
        self.server.cmd("ACL", "SETUSER", "app", "reset", "on", ">one", "~*", "&*", "+@all")
        return f"redis://127.0.0.1:{self.port}?user=app&password_file={file}"

    def change_secret(self, secret):
        self.server.cmd("ACL", "SETUSER", "app", "resetpass", f">{secret}")
        self.server.cmd("CLIENT", "KILL", "USER", "app")

    def forbid(self):
        self.server.cmd("ACL", "SETUSER", "app", "-mset", "-set")

    def forbid_all(self):
        self.server.cmd("ACL", "SETUSER", "app", "-@all", "+auth")

    def allow(self):
        self.server.cmd("ACL", "SETUSER", "app", "+@all")

    @contextlib.contextmanager
    def full(self):
        """With `always` Redis ends itself when its log cannot be written; with `everysec` it
        refuses changes."""
        disk, kept = SmallDisk(), self.server
        try:
            with Redis(("appendonly", "yes"), ("appendfsync", "everysec"), ("dir", disk.path),
                       ("auto-aof-rewrite-percentage", 0)) as self.server:
                yield disk.fill, disk.room
        finally:
            self.server = kept
            disk.close()


# ---- etcd -------------------------------------------------------------------

class EtcdRig(Rig):
    missing = server_etcd.MISSING
    full_needs_mount = False
    partial = 150
    lands_late = False
    black_holed_swap = "unknown"  # the kernel took the request: it may yet arrive
    tells_deletions = True
    lease = "/tenure/w/lease"

    def __init__(self, server=None):
        super().__init__(server or Etcd("--quota-backend-bytes", QUOTA))
        self.root = ()

    def mark(self):
        if self.root:
            return self.server.ctl(*self.root, "get", self.lease + "#nonce")
        return self.server.get(self.lease + "#nonce")

    def clear(self):
        self.server.ctl("del", "--prefix", "/tenure/")

    def delete(self):
        self.server.delete(self.lease)

    def dump(self):
        file = pathlib.Path(tempfile.mkdtemp(dir=self.server.dir)) / "snapshot"
        self.server.ctl("snapshot", "save", file)
        return file

    def restore(self, dump):
        server = self.server
        server.kill()
        shutil.rmtree(server.data)
        if dump:
            peer = f"http://127.0.0.1:{server.peers[server.name]}"
            server.ctl("snapshot", "restore", dump, "--name", server.name, "--data-dir",
                       server.data, "--initial-cluster", f"{server.name}={peer}",
                       "--initial-advertise-peer-urls", peer)
        server.start()
        self.settle()

    def empty(self):
        self.restore(None)

    def let_in(self, file):
        for args in (("user", "add", "root:rootpw"), ("user", "grant-role", "root", "root"),
                     ("role", "add", "app"), ("user", "add", "app:one"),
                     ("user", "grant-role", "app", "app"), ("auth", "enable")):
            self.server.ctl(*args)
        self.root = ("--user", "root:rootpw")
        self.allow()
        return self.server.url(f"?user=app&password_file={file}")

    def change_secret(self, secret):
        self.server.ctl(*self.root, "user", "passwd", "app", "--interactive=false",
                        text=secret + "\n")

    def _permit(self, what):
        self.server._ctl(*self.root, "role", "revoke-permission", "app", "--prefix=true", "/tenure/")
        self.server.ctl(*self.root, "role", "grant-permission", "app", "--prefix=true", what,
                        "/tenure/")

    def forbid(self):
        self._permit("read")

    def forbid_all(self):
        self._permit("write")

    def allow(self):
        self._permit("readwrite")

    def lock_up(self):
        """While there is a Door everybody is asked for a password."""
        self.server.ctl(*self.root, "auth", "disable")
        self.root = ()
        for args in (("user", "delete", "app"), ("role", "delete", "app"), ("user", "delete", "root")):
            self.server.ctl(*args)

    @contextlib.contextmanager
    def full(self):
        """etcd's quota: it refuses changes until an operator has made room."""
        etcd = self.etcd()

        def fill():
            for i in range(QUOTA // 1_000_000 + 4):
                try:
                    etcd.put(f"/ballast/{i}", os.urandom(1_000_000))
                except OSError:
                    return
            raise AssertionError("the quota is never used up")

        def room():
            etcd.ctl("del", "--prefix", "/ballast/")
            etcd.ctl("compact", etcd.revision())
            etcd.ctl("defrag")
            etcd.ctl("alarm", "disarm")

        yield fill, room

    def etcd(self):
        return self.server


# ---- Consul -----------------------------------------------------------------

class ConsulRig(Rig):
    missing = server_consul.MISSING
    partial = 150
    lands_late = False
    black_holed_swap = "unknown"  # the kernel took the request: it may yet arrive
    tells_deletions = True
    full_words = ("no space left", "did not answer in time", "the server says")  # it has no leader
    lease = "tenure/w/lease#"

    def __init__(self, server=None):
        super().__init__(server or Consul())

    def mark(self):
        return self.server.names(self.lease)

    def clear(self):
        self.server.delete("", tree=True)

    def delete(self):
        self.server.delete(self.lease, tree=True)

    def dump(self):
        return self.server.call("GET", "snapshot", token=server_consul.MASTER)

    def restore(self, dump):
        self.server.call("PUT", "snapshot", dump, token=server_consul.MASTER)
        self.settle()

    def empty(self):
        self.server.kill()
        shutil.rmtree(self.server.data)
        self.server.start()
        self.settle()

    def secret_file(self, secret):
        return server_consul.secret(secret) + "\n"

    def let_in(self, file):
        self.allow()
        self.change_secret("one")
        return self.server.url(f"?token_file={file}")

    def change_secret(self, secret):
        self.server.token(server_consul.secret(secret))

    def _permit(self, what):
        self.server.policy(f'key_prefix "tenure/" {{ policy = "{what}" }}')

    def forbid(self):
        self._permit("read")

    def forbid_all(self):
        self._permit("deny")

    def allow(self):
        self._permit("write")

    def lock_up(self):
        self.server.token(None)

    @contextlib.contextmanager
    def full(self):
        """Its log does not fit any more: it leads no longer, and does again when there is room."""
        disk, kept = SmallDisk("48m"), self.server
        try:
            with Consul({"data_dir": str(disk.path)}) as self.server:
                yield lambda: self._fill(disk), disk.room
        finally:
            self.server = kept
            disk.close()

    def _fill(self, disk):
        disk.fill()
        with contextlib.suppress(OSError):
            while True:
                self.server.call("PUT", "kv/ballast", os.urandom(100_000), timeout=5)


# ---- Kubernetes -------------------------------------------------------------

class KubeRig(EtcdRig):
    missing = server_kube.MISSING
    ttl_ms = 5000
    partial = 60
    black_holed_open, black_holed_swap = ("timeout", "unavailable"), "timeout"
    lease = "shared"

    def __init__(self):
        Rig.__init__(self, Kube(users={"app": "one", "late": "two"},
                                etcd=("--quota-backend-bytes", QUOTA)))
        self.root = ()

    def url(self, port=None):
        return self.server.url(self.lease, port=port)

    def value(self, number):
        """A record: a Lease holds nothing else."""
        return json.dumps({
            "holder": "me", "epoch": number + 1, "ttl_ms": 5000, "incarnation": "1" * 32, "grant": "2" * 32,
            "transitions": 3, "priority": 0, "address": "", "build": "", "cause": "",
            "acquired_at": "2026-01-31T12:00:00.250Z", "renewed_at": "2026-01-31T12:00:00.250Z"}).encode()

    def object(self):
        return self.server.lease(self.lease)

    def mark(self):
        lease = self.object()
        return lease and lease["metadata"]["resourceVersion"]

    def clear(self):
        self.server.clear()

    def delete(self):
        self.server.delete(self.lease)

    def dump(self):
        return EtcdRig.dump(self._behind())

    def restore(self, dump):
        """As Kubernetes asks for it: the API server is started anew over what was restored."""
        self.server.kill()
        EtcdRig.restore(self._behind(), dump)
        self.server.start()
        self.settle()

    def _behind(self):
        rig = EtcdRig.__new__(EtcdRig)
        rig.server, rig.root = self.server.etcd, ()
        return rig

    def etcd(self):
        return self.server.etcd

    def let_in(self, file):
        self.allow()
        return self.server.url(self.lease, user={"tokenFile": str(file)}, name="config-door")

    def rotate(self, door, secret):
        """The server knows "one" and "two" all the time: what is in the file expires."""
        door.write("expired")

    def _grant(self, *verbs):
        for user in ("app", "late"):
            self.server.grant(user, list(verbs))

    def forbid(self):
        self._grant("get", "list", "watch", "create")

    def forbid_all(self):
        self._grant("delete")

    def allow(self):
        self._grant("get", "list", "watch", "create", "update", "patch")

    def lock_up(self):
        pass


# ---- ZooKeeper ----------------------------------------------------------------

class ZooKeeperRig(Rig):
    missing = server_zookeeper.MISSING
    tells_deletions = True
    lease = "/tenure/w/lease#"

    def __init__(self, server=None):
        super().__init__(server or ZooKeeper())
        self.login = "app:one"

    def mark(self):
        return self.server.get(self.lease)

    def clear(self):
        self.server.delete("/tenure")

    def delete(self):
        self.server.delete(self.lease)

    def dump(self):
        copy = pathlib.Path(tempfile.mkdtemp(dir=self.server.dir)) / "data"
        shutil.copytree(self.server.data, copy)
        return copy

    def restore(self, dump):
        self.server.kill()
        shutil.rmtree(self.server.data)
        if dump:
            shutil.copytree(dump, self.server.data)
        self.server.start()
        self.settle()

    def empty(self):
        self.restore(None)

    def let_in(self, file):
        self.server.put("/tenure", b"")
        self.change_secret("one")
        return self.server.url(f"?user=app&password_file={file}")

    def change_secret(self, secret):
        self.login = f"app:{secret}"
        self.allow()

    def forbid(self):
        self.server.permit("/tenure", self.login, read=True)

    def forbid_all(self):
        self.server.permit("/tenure", "nobody:at all", all=True)

    def allow(self):
        self.server.permit("/tenure", self.login, all=True)

    def lock_up(self):
        self.clear()

    @contextlib.contextmanager
    def full(self):
        """The server ends itself, and starts when there is room."""
        disk, kept = SmallDisk(), self.server
        try:
            with ZooKeeper(data=disk.path) as self.server:
                yield disk.fill, lambda: self._make_room(disk)
        finally:
            self.server = kept
            disk.close()

    def _make_room(self, disk):
        disk.room()
        self.server.kill()
        self.server.start()
        self.settle()


# ---- S3 -------------------------------------------------------------------

class S3Rig(Rig):
    missing = server_minio.MISSING
    partial = 60
    lands_late = False
    black_holed_swap = "unknown"  # the kernel took the request: it may yet arrive
    tells_deletions = polls = True
    lease = "tenure/w/lease!"

    def __init__(self):
        os.environ["MINIO_PASSWORD"] = "password-one"
        super().__init__(Minio())
        self.authorizer = Authorizer()

    def settle(self):
        self.server.ready()

    def mark(self):
        return self.server.get(self.lease)

    def clear(self):
        for name in self.server.names("tenure/"):
            if name != "tenure/.tenure":
                self.server.delete(name)

    def delete(self):
        self.server.delete(self.lease)

    def dump(self):
        """As an operator copies it who has stopped the server."""
        folder = pathlib.Path(tempfile.mkdtemp(dir=self.server.dir)) / "dump"
        self.server.kill()
        shutil.copytree(self.server.data, folder)
        self.server.start()
        self.settle()
        return folder

    def restore(self, dump):
        self.server.kill()
        shutil.rmtree(self.server.data)
        if dump:
            shutil.copytree(dump, self.server.data)
        self.server.data.mkdir(exist_ok=True)
        self.server.start()
        self.settle()

    def empty(self):
        self.restore(None)

    def let_in(self, file):
        if not self.server.authorizer:  # from now on
            self.server.authorizer = self.authorizer
            self.server.restart()
        return self.server.url(file=file)

    def secret_file(self, secret):
        return f"password-{secret}\n"

    def change_secret(self, secret):
        self.server.password = f"password-{secret}"
        self.server.restart()

    def forbid(self):
        self.authorizer.refused = ("s3:PutObject",)

    def forbid_all(self):
        self.authorizer.refused = ("s3:PutObject", "s3:GetObject", "s3:ListBucket")

    def allow(self):
        self.authorizer.refused = ()

    def lock_up(self):
        self.allow()
        if self.server.password != "password-one":
            self.change_secret("one")

    def close(self):
        super().close()
        self.authorizer.close()

    @contextlib.contextmanager
    def full(self):
        """A disk that is full; there is another server for that."""
        disk, kept = SmallDisk(), self.server
        try:
            with Minio(data=disk.path / "minio") as self.server:
                yield disk.fill, disk.room
        finally:
            self.server = kept
            disk.close()


# ---- NATS ---------------------------------------------------------------------

class NatsRig(Rig):
    missing = server_nats.MISSING
    looks = True
    stopped_swap = ("timeout",)
    tells_deletions = True
    full_words = ("no space left",)
    lease = "k.w.lease"

    def __init__(self, server=None):
        super().__init__(server or Nats())

    def mark(self):
        return self.server.get(self.lease)

    def clear(self):
        self.server.purge()

    def delete(self):
        self.server.delete(self.lease)

    def dump(self):
        copy = pathlib.Path(tempfile.mkdtemp(dir=self.server.dir)) / "data"
        self.server.pause()
        shutil.copytree(self.server.data, copy)
        self.server.resume()
        return copy

    def restore(self, dump):
        self.server.kill()
        shutil.rmtree(self.server.data)
        if dump:
            shutil.copytree(dump, self.server.data)
        self.server.start()
        self.settle()

    def empty(self):
        self.restore(None)

    def let_in(self, file):
        self.secret = "one"
        self.allow()
        return self.server.url(f"?user=app&password_file={file}")

    def change_secret(self, secret):
        self.secret = secret
        self.allow()

    def forbid(self):
        self.server.let_in(self.secret, '{ publish: { deny: "$KV.>" } }')

    def forbid_all(self):
        self.server.let_in(self.secret, '{ publish: { deny: ">" } }')

    def allow(self):
        self.server.let_in(self.secret)

    @contextlib.contextmanager
    def full(self):
        """It refuses changes, and serves them again after a restart when there is room."""
        disk, kept = SmallDisk(), self.server
        try:
            with Nats(data=disk.path) as self.server:
                yield lambda: self._fill(disk), lambda: self._make_room(disk)
        finally:
            self.server = kept
            disk.close()

    def _fill(self, disk):
        disk.fill()
        for size in (3000, 1):
            with contextlib.suppress(OSError):
                while True:
                    self.server.put("ballast", os.urandom(size))

    def _make_room(self, disk):
        disk.room()
        self.server.kill()
        self.server.start()
        self.settle()


RIGS = {"postgres": PostgresRig, "advisory": AdvisoryRig, "redis": RedisRig, "etcd": EtcdRig,
        "consul": ConsulRig, "kube": KubeRig, "zookeeper": ZooKeeperRig, "nats": NatsRig, "s3": S3Rig}



def running_rig(name):
    """Its fixture, for as long as somebody needs the server."""
    kind = RIGS[name]
    if kind.missing:
        pytest.skip(kind.missing)
    rig = kind()
    yield rig
    rig.close()
