"""What only an S3 server can do wrong, and where its credentials come from."""

import contextlib
import functools
import http.server
import json
import os
import threading
import urllib.parse

import pytest
import server_minio
import store_checks
from process import free_port, until
from proxy import Proxy
from server_minio import BUCKET, USER, Minio, Server
from tenure import Store

needs_minio = pytest.mark.skipif(server_minio.MISSING is not None, reason=str(server_minio.MISSING))
PASSWORD = "password-one"
refused = functools.partial(store_checks.refused, secret=PASSWORD)


@pytest.fixture(scope="module")
def minio():
    os.environ["MINIO_PASSWORD"] = PASSWORD
    with Minio() as running:
        yield running


class Fake:
    """A server that keeps objects in a dictionary; answer(handler) may say something else first.  Conditions are
    kept if atomic is set, looked at without a lock if it is None, and ignored if it is False."""

    def __init__(self, atomic=True):
        self.objects, self.lock, self.atomic = {}, threading.Lock(), atomic
        self.answer, self.seen, self.looked, self.gate = None, [], {}, threading.Condition()
        self.parts = False  # it leaves who was refused: the connection ends with the next request, without a word
        self.twice = False  # what it has done it is asked for again, and the second answer is sent on
        fake = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def say(self, code, body=b"", **headers):
                self.send_response(code)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def error(self, code, name):
                self.refused = fake.parts and self.command == "PUT"
                self.say(code, f"<Error><Code>{name}</Code><Message>so it is</Message></Error>".encode())

            def handle_one(self):
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                fake.seen.append(f"{self.command} {self.path}")
                if getattr(self, "refused", False):
                    self.close_connection = True
                    return
                if fake.answer and fake.answer(self):
                    return
                if self.command == "PUT":
                    fake.put(self, body)
                elif "list-type" in self.path:
                    self.say(200, b"<ListBucketResult><IsTruncated>false</IsTruncated></ListBucketResult>")
                elif self.path in fake.objects:
                    tag, value = fake.objects[self.path]
                    self.say(200, value, ETag=f'"{tag}"')
                else:
                    self.error(404, "NoSuchKey")

            do_GET = do_PUT = handle_one

            def log_message(self, *_):
                pass

        self.server = Server(Handler)
        self.port = self.server.port

    def holds(self, handler):
        tag = self.objects.get(handler.path, (None, None))[0]
        if handler.headers.get("If-None-Match") == "*":
            return tag is None
        wanted = handler.headers.get("If-Match")
        return wanted is None or wanted == f'"{tag}"'

    def wait_for_another(self, handler):
        """Two have looked at one state before one writes; whoever comes after them need not wait."""
        state = handler.path, self.objects.get(handler.path, (None, None))[0]
        with self.gate:
            self.looked[state] = self.looked.get(state, 0) + 1
            self.gate.notify_all()
            self.gate.wait_for(lambda: self.looked[state] > 1, timeout=30)

    def put(self, handler, body):
        with self.lock if self.atomic else contextlib.nullcontext():
            holds = self.atomic is False or self.holds(handler)
            if self.atomic is None and holds:
                self.wait_for_another(handler)
            if holds:
                tag = f"{len(self.seen)}-{id(body):x}"
                self.objects[handler.path] = tag, body
        if holds and not self.twice:
            handler.say(200, ETag=f'"{tag}"')
        else:
            handler.error(412, "PreconditionFailed")

    def url(self, query=""):
        return f"s3://{BUCKET}?endpoint=http://127.0.0.1:{self.port}&user=me&password_env=S3_SECRET{query}"

    def __enter__(self):
        os.environ["S3_SECRET"] = PASSWORD
        return self

    def __exit__(self, *_):
        self.server.close()


# ---- Servers that cannot be used -----------------------------------------------------------------

@pytest.mark.parametrize("atomic", [False, None], ids=["ignores", "looks-and-then-writes"])
def test_server_that_does_not_keep_conditions_is_refused(atomic):
    with Fake(atomic) as fake:
        for _ in range(2):  # nor when it is asked again
            error = refused(Store, fake.url())
            assert error.status == "config" and "does not keep conditions on writes" in error.text


def test_conditions_are_ignored_from_one_day_on():
    with Fake() as fake:
        with Store(fake.url()) as store:
            assert store.swap("a/x").status == "ok"
        fake.atomic = False
        error = refused(Store, fake.url())
        assert error.status == "config" and "does not keep conditions" in error.text


@needs_minio
def test_bucket_that_is_missing_is_not_an_absent_register(minio):
    error = refused(Store, minio.url().replace(f"//{BUCKET}", "//elsewhere"))
    assert error.status == "config" and "no such bucket" in error.text


def test_not_found_by_somebody_else_is_not_absence():
    with Fake() as fake, Store(fake.url()) as store:
        for code, name in ((404, "NoSuchBucket"), (404, "Whatever")):
            fake.answer = lambda handler: handler.error(code, name) or True
            assert refused(store.read, "a/x").status == "config"
        fake.answer = lambda handler: handler.say(404, b"<html>nginx</html>") or True
        assert refused(store.read, "a/x").status == "config"


# ---- What answers mean -----------------------------------------------------------------------------

@pytest.mark.parametrize("code,name,status", [
    (500, "InternalError", "unknown"), (502, "", "unknown"), (503, "SlowDown", "unknown"), (504, "", "unknown"),
    (408, "RequestTimeout", "unknown"), (429, "TooManyRequests", "unavailable"), (403, "AccessDenied", "denied"),
    (403, "RequestTimeTooSkewed", "denied"), (409, "ConditionalRequestConflict", "conflict"),
    (301, "PermanentRedirect", "config"), (501, "NotImplemented", "config")])
def test_refusal_of_a_change(code, name, status):
    """Unknown unless it certainly was not carried out; and the next one works."""
    with Fake() as fake, Store(fake.url()) as store:
        base = store.swap("a/x", None, b"one").token
        fake.answer = lambda handler: handler.command == "PUT" and (handler.error(code, name) or True)
        assert store.swap("a/x", base, b"two").status == status
        fake.answer = None
        assert store.swap("a/x", base, b"three").status == "ok"


def test_connection_of_a_refusal_is_not_used_again():
    """MinIO closes it without a word, also while others of the same batch look for a connection."""
    with Fake() as fake, Store(fake.url()) as store:
        fake.parts = True
        token = store.swap("a/0").token
        for number in range(5):
            assert store.swap("a/0").status == "conflict"
            assert store.swap(f"b/{number}").status == "ok"
            _, answers, _ = store.swap_many([(f"a/{i}", None, b"x") for i in range(8)])
            assert {answer.status for key, answer in answers.items() if key != "a/0" and not number} <= {"ok"}
            assert all(answer.status in ("ok", "conflict") for answer in answers.values()), answers
        assert store.read("a/0").token == token


@pytest.mark.parametrize("code,name", [(500, "InternalError"), (503, "SlowDown"), (429, "")])
def test_read_that_fails_is_unavailable_never_absence(code, name):
    with Fake() as fake, Store(fake.url()) as store:
        fake.answer = lambda handler: handler.error(code, name) or True
        assert refused(store.read, "a/x").status == "unavailable"
        assert refused(store.list, "a/").status == "unavailable"


def test_change_that_something_on_the_way_sends_twice_is_ours():
    """The second one finds the first: the nonce tells."""
    with Fake() as fake, Store(fake.url()) as store:
        token = store.swap("a/x", None, b"one").token
        fake.twice = True
        again = store.swap("a/x", token, b"two")
        fake.twice = False
        assert again.status == "ok" and store.read("a/x").token == again.token
        assert store.swap("a/x", token, b"three").status == "conflict"


# ---- Credentials -----------------------------------------------------------------------------------

AWS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE", "AWS_REGION",
       "AWS_DEFAULT_REGION", "AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE", "AWS_WEB_IDENTITY_TOKEN_FILE",
       "AWS_ROLE_ARN", "AWS_ENDPOINT_URL_STS", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
       "AWS_CONTAINER_CREDENTIALS_FULL_URI", "AWS_CONTAINER_AUTHORIZATION_TOKEN",
       "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", "AWS_EC2_METADATA_SERVICE_ENDPOINT")


@pytest.fixture
def nobody(monkeypatch, tmp_path):
    for name in AWS:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")  # this machine may have a role
    return tmp_path


def plain(minio, query=""):
    return f"s3://{BUCKET}?endpoint=http://127.0.0.1:{minio.port}{query}"


@needs_minio
def test_no_credentials(minio, nobody):
    error = refused(Store, plain(minio))
    assert error.status == "denied" and "AWS_ACCESS_KEY_ID" in error.text


@needs_minio
def test_credentials_of_the_environment(minio, nobody, monkeypatch):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", USER)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", PASSWORD)
    with Store(plain(minio)) as store:
        assert store.swap("env/x").status == "ok"


@needs_minio
def test_credentials_of_a_profile(minio, nobody, monkeypatch):
    (nobody / ".aws").mkdir()
    (nobody / ".aws/credentials").write_text(
        f"# comment\n[default]\naws_access_key_id = nobody\naws_secret_access_key=wrong\n\n"
        f"[work]\naws_access_key_id = {USER}\n aws_secret_access_key = {PASSWORD}\n")
    (nobody / ".aws/config").write_text("[profile work]\nregion = eu-west-3\n")
    error = refused(Store, plain(minio))
    assert error.status == "denied" and "access key's ID" in error.text
    with Store(plain(minio, "&profile=work&region=us-east-1")) as store:
        assert store.swap("profile/x").status == "ok"
    monkeypatch.setenv("AWS_PROFILE", "work")
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    Store(plain(minio)).close()


@needs_minio
def test_secret_that_is_rotated_is_read_again(minio, nobody):
    file = nobody / "secret"
    file.write_text("something else\n")
    error = refused(Store, plain(minio, f"&user={USER}&password_file={file}"))
    assert error.status == "denied" and "password" in error.text
    file.write_text(PASSWORD + "\n")
    with Store(plain(minio, f"&user={USER}&password_file={file}")) as store:
        assert store.swap("rotated/x").status == "ok"


class Giver:
    """Gives out keys: key-0, key-1 and so on.  The bucket's server (Fake) believes the newest only."""

    def __init__(self, fake, ends="2099-01-01T00:00:00Z"):
        self.asked, self.given, self.ends, self.code = [], 0, ends, 200
        giver, fake.answer = self, self.refuse_old

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def handle_one(self):
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
                giver.asked.append((self.command, self.path, {k.lower(): v for k, v in self.headers.items()}, body))
                answer = giver.give(self.path) if giver.code == 200 else ""
                self.send_response(giver.code)
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer.encode())

            do_GET = do_PUT = do_POST = handle_one

            def log_message(self, *_):
                pass

        self.server = Server(Handler)
        self.origin = f"http://127.0.0.1:{self.server.port}"

    def give(self, path):
        if path == "/latest/api/token":
            return "a-token"
        if path.endswith("/security-credentials/"):
            return "the-role"
        name, self.given = f"key-{self.given}", self.given + 1
        if path == "/sts":
            return (f"<R><Credentials><AccessKeyId>{name}</AccessKeyId><SecretAccessKey>s</SecretAccessKey>"
                    f"<SessionToken>session</SessionToken><Expiration>{self.ends}</Expiration></Credentials></R>")
        return json.dumps({"AccessKeyId": name, "SecretAccessKey": "s", "Token": "session", "Expiration": self.ends})

    def refuse_old(self, handler):
        sent = handler.headers.get("Authorization", "")
        if f"Credential=key-{self.given - 1}/" in sent and handler.headers.get("x-amz-security-token") == "session":
            return False
        handler.error(403, "ExpiredToken")
        return True

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.server.close()


def role_url(fake):
    return f"s3://{BUCKET}?endpoint=http://127.0.0.1:{fake.port}"


def test_role_of_a_pod(nobody, monkeypatch):
    identity = "from-the-cluster" * 100  # real ones are as long
    (nobody / "token").write_text(identity + "\n")
    with Fake() as fake, Giver(fake) as giver:
        monkeypatch.setenv("AWS_WEB_IDENTITY_TOKEN_FILE", str(nobody / "token"))
        monkeypatch.setenv("AWS_ROLE_ARN", "arn:aws:iam::1:role/x")
        monkeypatch.setenv("AWS_ENDPOINT_URL_STS", giver.origin + "/sts")
        with Store(role_url(fake)) as store:
            token = store.swap("a/x").token
            assert giver.given == 1  # they last
            giver.given += 1  # and are revoked
            assert store.swap("a/x", token).status == "ok" and giver.given == 3
        method, _, _, body = giver.asked[0]
        form = dict(urllib.parse.parse_qsl(body))
        assert method == "POST" and form["WebIdentityToken"] == identity
        assert form["Action"] == "AssumeRoleWithWebIdentity" and form["RoleArn"] == "arn:aws:iam::1:role/x"


def test_role_of_a_container(nobody, monkeypatch):
    with Fake() as fake, Giver(fake) as giver:
        monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", giver.origin + "/task")
        monkeypatch.setenv("AWS_CONTAINER_AUTHORIZATION_TOKEN", "s3cr3t")
        with Store(role_url(fake)) as store:
            assert store.swap("a/x").status == "ok"
        assert giver.asked[0][:2] == ("GET", "/task") and giver.asked[0][2]["authorization"] == "s3cr3t"


def test_giver_that_is_overrun_is_asked_again(nobody, monkeypatch):
    with Fake() as fake, Giver(fake) as giver:
        monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", giver.origin + "/task")
        giver.code = 429
        assert refused(Store, role_url(fake)).status == "unavailable"
        giver.code = 403
        assert refused(Store, role_url(fake)).status == "denied"


def test_keys_for_ever_are_fetched_once(nobody, monkeypatch):
    with Fake() as fake, Giver(fake, ends="9999-12-31T23:59:59Z") as giver:
        monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", giver.origin + "/task")
        with Store(role_url(fake)) as store:
            assert store.swap("a/x").status == "ok" and giver.given == 1


def test_an_error_that_says_much():
    with Fake() as fake:
        fake.answer = lambda handler: handler.say(500, f"<Error><Code>InternalError</Code><Message>{'m' * 1000}"
                                                       "</Message></Error>".encode()) or True
        error = refused(Store, fake.url())
    assert error.text.count("m" * 100) == 1 and "InternalError" in error.text.split("mmm")[0]
    assert "InternalError" not in error.text.split("mmm")[-1], error.text


def test_role_of_a_machine(nobody, monkeypatch):
    """With keys that end at once: each request fetches them again, and none is refused."""
    with Fake() as fake, Giver(fake, ends="2001-01-01T00:00:00Z") as giver:
        monkeypatch.delenv("AWS_EC2_METADATA_DISABLED")
        monkeypatch.setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", giver.origin)
        with Store(role_url(fake)) as store:
            assert store.swap("a/x").status == "ok"
        assert giver.given > 1
        (first, _, head, _), (_, second, asked, _), (_, third, _, _) = giver.asked[:3]
        assert first == "PUT" and "x-aws-ec2-metadata-token-ttl-seconds" in head
        assert asked["x-aws-ec2-metadata-token"] == "a-token" and third == second + "the-role"


# ---- The rest --------------------------------------------------------------------------------------

@needs_minio
def test_foreign_objects_are_left_alone(minio):
    for name in ("tenure/other", "tenure/.hidden!", "tenure/a b!", "tenure/\u00e4!", "elsewhere/x!"):
        minio.put(name, b"mine")
    with Store(minio.url()) as store:
        token = store.swap("a/x", None, b"1").token
        assert store.swap("a", None, b"2").status == store.swap("a/x/y", None, b"3").status == "ok"
        keys = [key for key, _ in store.list("")[0]]
        assert [key for key in keys if key in ("a", "a/x", "a/x/y")] == ["a", "a/x", "a/x/y"]
        assert "other" not in keys and store.read("a/x").token == token
    assert minio.get("tenure/other") == minio.get("tenure/a b!") == b"mine"


@needs_minio
def test_idle_standby_asks_once_an_interval(minio):
    with Proxy(("127.0.0.1", minio.port)) as proxy, \
            Store(minio.url(port=proxy.port).replace("poll=100ms", "poll=60s")) as store, \
            Store(minio.url()) as other:
        token = other.swap("idle/x").token

        def quiet():
            passed = proxy.passed["up"]
            for _ in range(5):
                assert not store.wait([("idle/x", token)], timeout=0.01)
            return proxy.passed["up"] == passed

        until(quiet, limit=50)  # within the interval: who asks at every wait never is


def test_nobody_there_says_where():
    port = free_port()
    error = refused(Store, f"s3://{BUCKET}?endpoint=http://127.0.0.1:{port}&user=me&password_env=PATH")
    assert error.status == "unavailable" and str(port) in error.text
