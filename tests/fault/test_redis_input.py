"""Bad URLs, credentials, certificates and servers: one line each, with the fix, without secrets."""

import os
import pathlib
import resource
import shutil
import socket
import subprocess
import threading

import pytest
import server_redis
from process import free_port
from server_redis import Redis, make_certificates
from tenure import Store, StoreError, Token

pytestmark = pytest.mark.skipif(server_redis.MISSING is not None, reason=str(server_redis.MISSING))

CANARY = "cAnArY-secret-77"


def refused(url, **named):
    with pytest.raises(StoreError) as caught:
        Store(url, **named)
    assert CANARY not in str(caught.value)
    assert "\n" not in caught.value.text
    return caught.value


# ---- URLs --------------------------------------------------------------------------------------

@pytest.mark.parametrize("url, words", [
    ("redis:", "needs a host"),
    ("redis://", "needs a host"),
    ("redis://host:notaport", "is not a host"),
    ("redis://host:0", "is not a host"),
    ("redis://host:99999", "is not a host"),
    ("redis://[::1", "is not a host"),
    ("redis://a,,b", "is not a host"),
    ("redis://a b", "is not a host"),
    ("redis://" + ",".join(f"h{i}" for i in range(9)), "more than 8 hosts"),
    ("redis://h/x", "db must be a number from 0 to 65535"),
    ("redis://h/-1", "db must be a number from 0 to 65535"),
    ("redis://h/99999999999", "db must be a number from 0 to 65535"),
    ("redis://h/1?db=2", "database once"),
    ("redis://h?prefix=", "prefix must be"),
    ("redis://h?prefix=a*b", "prefix must be"),
    ("redis://h?prefix=" + "x" * 65, "prefix must be"),
    ("redis://h?replicas=many", "replicas must be"),
    ("redis://h?sentinel_check=maybe", "sentinel_check must be"),
    ("redis://h?ca_file=/x", "does not know the parameter 'ca_file'"),
    ("redis://h?colour=red", "does not know the parameter 'colour'"),
    (f"redis://u:{CANARY}@h?password_file=/x", "password once"),
    (f"redis://h?password_env=A&password_file=/x", "password once"),
    (f"redis://u:{CANARY}%zz@h", "escape in the password"),
    ("unix:", "absolute path of a socket"),
    ("unix:relative", "absolute path of a socket"),
    ("unix:/" + "x" * 108, "absolute path of a socket"),
    ("redis+unix://host/path", "absolute path of a socket"),
    ("redis+sentinel://h", "needs the master's name"),
    ("redis+sentinel:///main", "needs a host"),
    ("rediss://h?verify=perhaps", "verify must be"),
    ("rediss://h?key_file=/x", "key_file needs cert_file"),
])
def test_url_mistakes(url, words):
    error = refused(url)
    assert error.status == "config" and words in error.text


def test_nobody_there(tmp_path):
    error = refused(f"redis://127.0.0.1:{free_port()}")
    assert error.status == "unavailable" and "Connection refused" in error.text
    error = refused(f"unix:{tmp_path}/none")
    assert error.status == "unavailable" and "No such file" in error.text
    error = refused("redis://no-such-host.invalid")
    assert error.status in ("unavailable", "timeout") and "no-such-host.invalid" in error.text


@pytest.mark.parametrize("scheme, status, words", [
    ("redis", "unavailable", "not Redis' protocol"),
    ("rediss", "denied", "does not speak TLS"),
])
def test_something_else_listens(scheme, status, words):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        def serve():
            client, _ = listener.accept()
            client.recv(100)
            client.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            try:
                while client.recv(65536):
                    pass  # unread bytes would turn the close into a reset
            except ConnectionError:
                pass
            client.close()

        thread = threading.Thread(target=serve)
        thread.start()
        error = refused(f"{scheme}://127.0.0.1:{listener.getsockname()[1]}")
        thread.join()
    assert error.status == status and words in error.text


def test_database_that_is_not_there():
    with Redis(("databases", 2)) as redis:
        error = refused(redis.url("/7"))
        assert error.status == "config" and "no such database" in error.text


def test_several_hosts_that_are_no_cluster():
    with Redis() as one, Redis() as two:
        error = refused(f"redis://127.0.0.1:{one.port},127.0.0.1:{two.port}")
        assert error.status == "config" and "redis+sentinel:" in error.text


# ---- Credentials -------------------------------------------------------------------------------

@pytest.fixture
def locked():
    with Redis(("user", "default", "off"),
               ("user", "app", "on", f">{CANARY}", "~*", "&*", "+@all")) as redis:
        yield redis


def rights(redis, *rules):
    redis.cmd("ACL", "SETUSER", "app", *rules, auth=("app", CANARY))


def test_credentials(locked, tmp_path):
    here = f"127.0.0.1:{locked.port}"
    Store(f"redis://app:{CANARY}@{here}").close()
    error = refused(f"redis://{here}")
    assert error.status == "denied" and "password" in error.text
    error = refused(f"redis://app:wrong-{CANARY}@{here}")
    assert error.status == "denied" and "wrong" in error.text
    error = refused(f"redis://{here}?user=app&password_file={tmp_path}/none")
    assert error.status == "denied" and "No such file" in error.text
    (tmp_path / "empty").write_text("\n")
    error = refused(f"redis://{here}?user=app&password_file={tmp_path}/empty")
    assert error.status == "config" and "is empty" in error.text
    error = refused(f"redis://{here}?user=app&password_env=TENURE_TEST_UNSET")
    assert error.status == "config" and "TENURE_TEST_UNSET" in error.text


def test_password_from_the_environment(locked, build):
    done = subprocess.run(
        [build / "tests/conformance/tenure-conformance",
         f"redis://127.0.0.1:{locked.port}?user=app&password_env=APP_PASSWORD", "--dir", build,
         "--filter", "info"], env={**os.environ, "APP_PASSWORD": CANARY}, capture_output=True,
        text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert CANARY not in done.stdout + done.stderr
    # The program that is run with it does not get it.
    done = subprocess.run(
        [build / "tenure", "run", "--name", "w", "--store",
         f"redis://127.0.0.1:{locked.port}?user=app&password_env=APP_PASSWORD", "--", "env"],
        env={**os.environ, "APP_PASSWORD": CANARY}, capture_output=True, text=True)
    assert done.returncode == 0 and "TENURE_EPOCH=" in done.stdout
    assert CANARY not in done.stdout + done.stderr


def test_password_without_need_is_told():
    with Redis() as redis:
        error = refused(f"redis://:{CANARY}@127.0.0.1:{redis.port}")
        assert error.status == "denied" and "the server has none" in error.text


def test_server_that_repeats_arguments_gives_no_secret_away():
    with Redis(("rename-command", "AUTH", "")) as redis:
        error = refused(f"redis://app:{CANARY}@127.0.0.1:{redis.port}")
        assert error.status == "unsupported"


def test_rotation_of_the_password(locked, tmp_path):
    file = tmp_path / "password"
    file.write_text(CANARY)
    with Store(f"redis://127.0.0.1:{locked.port}?user=app&password_file={file}") as store:
        base = store.swap("a/lease").token
        rights(locked, f"<{CANARY}", ">fresh")
        locked.cmd("CLIENT", "KILL", "TYPE", "normal", auth=("app", "fresh"))
        answer = store.swap("a/lease", base)
        assert answer.status == "denied"
        file.write_text("fresh\n")
        assert store.swap("a/lease", base).status == "ok"


@pytest.mark.parametrize("missing", ["-publish", "-mset", "-zadd", "-set", "-getrange", "-evalsha",
                                     "resetchannels"])
def test_missing_right_changes_nothing(locked, missing):
    with Store(f"redis://app:{CANARY}@127.0.0.1:{locked.port}") as store:
        base = store.swap("a/lease").token
        rights(locked, missing)
        answer = store.swap("a/lease", base)
        assert answer.status == "denied" and "docs/reference/stores/redis.md" in answer.text
        rights(locked, "+@all", "allchannels")
        assert store.read("a/lease").token == base


@pytest.mark.parametrize("missing", ["-info", "-script", "-persist"])
def test_missing_right_to_connect(locked, missing):
    rights(locked, missing)
    assert refused(f"redis://app:{CANARY}@127.0.0.1:{locked.port}").status == "denied"


def test_missing_right_to_subscribe(locked):
    with Store(f"redis://app:{CANARY}@127.0.0.1:{locked.port}") as store:
        base = store.swap("a/lease").token
        rights(locked, "-subscribe")
        with pytest.raises(StoreError) as caught:
            store.wait([("a/lease", base)], timeout=5)
        assert caught.value.status == "denied"


# ---- TLS ---------------------------------------------------------------------------------------

class Tls:
    def __init__(self, folder, *options):
        self.ca, self.cert, self.key = make_certificates(folder)
        self.port = free_port()
        self.redis = Redis(("tls-port", self.port), ("tls-cert-file", self.cert),
                           ("tls-key-file", self.key), ("tls-ca-cert-file", self.ca), *options)


@pytest.fixture
def tls(tmp_path):
    server = Tls(tmp_path, ("tls-auth-clients", "optional"))
    yield server
    server.redis.stop()


def test_tls_names_and_authorities(tls, tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    other_ca = make_certificates(other)[0]
    Store(f"rediss://localhost:{tls.port}?ca_file={tls.ca}").close()
    error = refused(f"rediss://localhost:{tls.port}?ca_file={other_ca}")
    assert error.status == "denied" and "certificate is refused" in error.text
    error = refused(f"rediss://localhost:{tls.port}")  # the system's authorities
    assert error.status == "denied" and "certificate is refused" in error.text
    error = refused(f"rediss://127.0.0.1:{tls.port}?ca_file={tls.ca}")  # not in the certificate
    assert error.status == "denied" and "mismatch" in error.text
    error = refused(f"rediss://localhost:{tls.port}?ca_file={tls.ca}&server_name=elsewhere")
    assert error.status == "denied" and "mismatch" in error.text
    Store(f"rediss://127.0.0.1:{tls.port}?ca_file={tls.ca}&server_name=localhost").close()
    error = refused(f"rediss://localhost:{tls.port}?ca_file={tmp_path}/none")
    assert error.status == "config" and "ca_file" in error.text


def test_tls_switched_off_is_told(tls):
    with Store(f"rediss://127.0.0.1:{tls.port}?verify=none") as store:
        assert b"verify=none" in store.info().promise


def test_tls_on_the_wrong_port(tls):
    error = refused(f"rediss://localhost:{tls.redis.port}?ca_file={tls.ca}", timeout=0.5)
    assert error.status == "timeout" and "does this port speak it?" in error.text
    assert refused(f"redis://localhost:{tls.port}").status == "unavailable"


def test_tls_client_certificate(tmp_path):
    server = Tls(tmp_path, ("tls-auth-clients", "yes"))
    try:
        url = f"rediss://localhost:{server.port}?ca_file={server.ca}"
        assert refused(url).status == "unavailable"
        Store(f"{url}&cert_file={server.cert}&key_file={server.key}").close()
        locked_key = tmp_path / "locked.key"
        subprocess.run(["openssl", "ec", "-in", server.key, "-aes256", "-passout", "pass:x", "-out",
                        locked_key], check=True, capture_output=True)
        error = refused(f"{url}&cert_file={server.cert}&key_file={locked_key}")
        assert error.status == "config" and "key_file" in error.text
    finally:
        server.redis.stop()


def mapped(build, url):
    done = subprocess.run([build / "tests/conformance/tenure-conformance", url, "--dir", build,
                           "--filter", "info"], env={**os.environ, "LD_DEBUG": "files"},
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    return {name for name in ("libssl", "libcrypto", "libhiredis") if name in done.stderr}


def test_libraries_load_on_demand(tls, build):
    assert mapped(build, "memory:x") == set()
    assert mapped(build, tls.redis.url()) == {"libhiredis"}
    assert mapped(build, f"rediss://localhost:{tls.port}?ca_file={tls.ca}") == {
        "libhiredis", "libssl", "libcrypto"}


def test_module_that_is_not_there(build, tmp_path):
    tool = tmp_path / "tool"
    shutil.copy(build / "tests/conformance/tenure-conformance", tool)
    shutil.copy(build / "libtenure.so.0", tmp_path)
    done = subprocess.run([tool, "redis://h"], env={"LD_LIBRARY_PATH": str(tmp_path)},
                          capture_output=True, text=True)
    assert done.returncode == 2
    assert "libhiredis" in done.stdout + done.stderr


# ---- Hostile servers ---------------------------------------------------------------------------

class Hostile(threading.Thread):
    """Speaks enough Redis to be let in, then answers every script with `answer`."""

    INFO = (b"redis_version:7.0.15\r\nrole:master\r\ncluster_enabled:0\r\n"
            b"master_replid:0123456789abcdef0123456789abcdef01234567\r\n")

    def __init__(self, answer, info=INFO, handshake=True):
        super().__init__(daemon=True)
        self.answer, self.info_text, self.handshake = answer, info, handshake
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"redis://127.0.0.1:{self.listener.getsockname()[1]}"
        self.start()

    def run(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(client,), daemon=True).start()

    def serve(self, client):
        file = client.makefile("rb")
        scripts = 0
        try:
            while True:
                args = []
                for _ in range(int(file.readline()[1:])):
                    args.append(file.read(int(file.readline()[1:]) + 2)[:-2])
                if not self.handshake:
                    client.sendall(self.answer)
                elif args[0] == b"SCRIPT":
                    client.sendall(b"$40\r\n" + b"a" * 40 + b"\r\n")
                else:
                    scripts += 1
                    client.sendall(b"$%d\r\n%s\r\n" % (len(self.info_text), self.info_text)
                                   if scripts == 1 else self.answer)
        except (OSError, ValueError):
            client.close()

    def close(self):
        self.listener.close()


ANSWERS = [
    b"+OK\r\n", b":1\r\n", b"$-1\r\n", b"*0\r\n", b"*-1\r\n", b"$0\r\n\r\n", b"*1\r\n*1\r\n*0\r\n",
    b"*2\r\n$1\r\n1\r\n$3\r\nooo\r\n", b"*2\r\n:1\r\n:1\r\n", b"*2\r\n$0\r\n\r\n$1\r\no\r\n",
    b"*2\r\n$3\r\n1x1\r\n$1\r\no\r\n", b"*3\r\n$0\r\n\r\n$1\r\n1\r\n$3\r\na/b\r\n",
    b"*5\r\n$4\r\n1 zz\r\n$1\r\n0\r\n$1\r\na\r\n$1\r\na\r\n$1\r\nx\r\n",
    b"*2000000000\r\n", b"$2000000000\r\n", b"*1025\r\n", b"*9\r\n" * 12, b"!!!\r\n", b"\0" * 100,
    b"-\r\n", b"-MOVED\r\n", b"-MOVED 1 x\r\n", b"-MOVED 1 :1\r\n", b"-NOSCRIPT\r\n",
    b"-OOM \xff\r\n", b"-" + b"x" * 5000 + b"\r\n",
    b"$8\r\ntenure1 \r\n", b"$20\r\n" + b"x" * 20 + b"\r\n", b"$5000000\r\n" + b"x" * 5000000,
]


@pytest.mark.parametrize("number", range(len(ANSWERS)))
def test_hostile_answers(number):
    server = Hostile(ANSWERS[number])
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with Store(server.url) as store:
        try:
            assert not store.read("a", timeout=0.5).token
        except StoreError as error:
            assert error.status in ("unavailable", "timeout", "corrupt")
        answer = store.swap("a", None, timeout=0.5)
        # One of them is what a script says; all others are not believed.
        assert answer.status in ("unknown", "unavailable", "timeout", "corrupt", "conflict")
        seen = Token()
        seen._version, seen._nonce[0] = b"1@0123456789abcdef", 1
        answer = store.swap("a", seen, timeout=0.5)
        assert answer.status in ("unknown", "unavailable", "timeout", "corrupt", "conflict")
        for call in (lambda: store.list("", timeout=0.5),
                     lambda: store.wait([("a", seen)], timeout=0.5)):
            try:
                call()
            except StoreError as error:
                assert error.status in ("unavailable", "timeout", "corrupt", "unsupported")
    server.close()
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 500_000


@pytest.mark.parametrize("number", range(len(ANSWERS)))
def test_hostile_greetings(number):
    server = Hostile(ANSWERS[number], handshake=False)
    assert refused(server.url, timeout=0.5).status in ("unavailable", "timeout", "unsupported",
                                                       "denied", "corrupt")
    server.close()


@pytest.mark.parametrize("info, words", [
    (b"", "too old"),
    (b"redis_version:3.2.0\r\nrole:master\r\n", "too old"),
    (b"redis_version:7.0.0\r\nrole:slave\r\n", "replica"),
    (b"redis_version:7.0.0\r\n", "replica"),
    (b"redis_version:7.0.0\r\nrole:master\r\nmaster_replid:zz\r\n", "replication id"),
    (b"redis_version:7.0.0\r\nrole:master\r\nmaster_replid:" + b"a" * 39 + b"\r\n",
     "replication id"),
])
def test_servers_that_will_not_do(info, words):
    server = Hostile(b"+OK\r\n", info)
    error = refused(server.url, timeout=5)
    assert words in error.text
    server.close()
