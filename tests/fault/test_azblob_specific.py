"""What only Azure's storage can do wrong, and where a login for it comes from."""

import base64
import hashlib
import hmac
import http.server
import json
import threading
import urllib.parse

import pytest
import server_azurite
from server_azurite import ACCOUNT, CONTAINER, Azurite, account_key
from server_minio import Server
from tenure import Store, StoreError

needs_azurite = pytest.mark.skipif(server_azurite.MISSING is not None, reason=str(server_azurite.MISSING))
VARIABLES = ("AZURE_STORAGE_ACCOUNT", "AZURE_STORAGE_KEY", "AZURE_STORAGE_SAS_TOKEN", "AZURE_CLIENT_ID",
             "AZURE_TENANT_ID", "AZURE_FEDERATED_TOKEN_FILE", "AZURE_AUTHORITY_HOST", "IDENTITY_ENDPOINT",
             "IDENTITY_HEADER", "AZURE_POD_IDENTITY_AUTHORITY_HOST")


@pytest.fixture(autouse=True)
def no_login(monkeypatch):
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)


def refused(call, *args):
    with pytest.raises(StoreError) as caught:
        call(*args)
    assert "\n" not in caught.value.text
    return caught.value


def done(answer):
    assert answer.status == "ok", answer
    return answer.token


# ---- A real server --------------------------------------------------------

@pytest.fixture(scope="module")
def azurite():
    with Azurite() as running:
        yield running


def shared_access(key, rights="rwlc"):
    """An account's signature, as the portal makes them."""
    fields = {"sp": rights, "ss": "b", "srt": "co", "st": "", "se": "2099-01-01T00:00:00Z", "sip": "", "spr": "",
              "sv": "2021-08-06", "ses": ""}
    text = "\n".join([ACCOUNT, *fields.values(), ""])
    mac = hmac.new(base64.b64decode(key), text.encode(), hashlib.sha256).digest()
    return urllib.parse.urlencode({**{n: v for n, v in fields.items() if v}, "sig": base64.b64encode(mac).decode()})


@needs_azurite
def test_the_ways_to_log_in(azurite, tmp_path, monkeypatch):
    place = f"azblob://{CONTAINER}/ways?endpoint=http://127.0.0.1:{azurite.port}"
    token = None
    for name, text in (("password_file", azurite.key), ("sas_file", shared_access(azurite.key)),
                       ("sas_file", "?" + shared_access(azurite.key))):
        (tmp_path / "secret").write_text(text + "\n")
        with Store(f"{place}&account={ACCOUNT}&{name}={tmp_path}/secret") as store:
            token = done(store.swap("w/lease", token, text.encode()))
            assert store.read("w/lease").data == text.encode()
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT", ACCOUNT)
    for name, text in (("AZURE_STORAGE_SAS_TOKEN", shared_access(azurite.key)), ("AZURE_STORAGE_KEY", azurite.key)):
        monkeypatch.setenv(name, text)
        with Store(place) as store:
            assert "w/lease" in str(store.list("w/"))


@needs_azurite
def test_logins_that_are_refused(azurite, tmp_path):
    place = f"azblob://{CONTAINER}/refused?endpoint=http://127.0.0.1:{azurite.port}&account={ACCOUNT}"
    for name, text, word in (("password_file", account_key("two"), "the login is wrong"),
                             ("password_file", "not base64!", "not base64"),
                             ("sas_file", shared_access(account_key("two")), "login is wrong"),
                             ("sas_file", "no signature", "not a shared access signature"),
                             ("sas_file", shared_access(azurite.key, "l"), "may not read, write and list")):
        (tmp_path / "secret").write_text(text + "\n")
        error = refused(Store, f"{place}&{name}={tmp_path}/secret")
        assert error.status in ("denied", "config") and word in error.text, error.text
        assert text not in error.text


@needs_azurite
def test_a_container_that_is_not_there(azurite, monkeypatch):
    monkeypatch.setenv("AZURITE_KEY", azurite.key)
    error = refused(Store, azurite.url().replace(f"//{CONTAINER}?", "//missing?"))
    assert error.status == "config" and "no such container" in error.text


# ---- A server of ours -----------------------------------------------------

class Fake:
    """Blobs in a dictionary for whoever brings the newest token, and somebody who gives out tokens."""

    def __init__(self, keeps_conditions=True):
        self.blobs, self.tokens, self.asked, self.lasts = {}, [], [], 3600
        self.lock, self.keeps_conditions = threading.Lock(), keeps_conditions
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
                self.say(code, f"<Error><Code>{name}</Code><Message>so it is</Message></Error>".encode())

            def give_token(self, body):
                with fake.lock:
                    fake.asked.append((self.command, self.path, dict(self.headers), body.decode()))
                    fake.tokens.append(f"token-{len(fake.tokens)}")
                    answer = {"access_token": fake.tokens[-1], "expires_in": str(fake.lasts)}
                self.say(200, json.dumps(answer).encode())

            def put(self, body):
                path, match = self.path.split("?")[0], self.headers.get("If-Match")
                with fake.lock:
                    tag = fake.blobs.get(path, (None,))[0]
                    if fake.keeps_conditions and self.headers.get("If-None-Match") == "*" and tag:
                        return self.error(409, "BlobAlreadyExists")
                    if fake.keeps_conditions and match and match != f'"{tag}"':
                        return self.error(412, "ConditionNotMet")
                    fake.blobs[path] = tag, _ = f"0x{len(fake.blobs)}{hash(body) & 0xffffffff:08X}", body
                self.say(201, ETag=f'"{tag}"')

            def handle_one(self):
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                if "oauth2" in self.path or "identity" in self.path:
                    return self.give_token(body)
                if self.headers.get("Authorization") != f"Bearer {fake.tokens[-1] if fake.tokens else ''}":
                    return self.error(401, "InvalidAuthenticationInfo")
                if self.command == "PUT":
                    return self.put(body)
                if self.path not in fake.blobs:
                    return self.error(404, "BlobNotFound")
                tag, value = fake.blobs[self.path]
                self.say(200, value, ETag=f'"{tag}"')

            do_GET = do_PUT = do_POST = handle_one

            def log_message(self, *_):
                pass

        self.server = Server(Handler)
        self.origin = f"http://127.0.0.1:{self.server.port}"

    def url(self):
        return f"azblob://{CONTAINER}?endpoint={self.origin}&account={ACCOUNT}"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.server.close()


def test_a_server_that_ignores_conditions_is_refused(monkeypatch):
    with Fake(keeps_conditions=False) as fake:
        monkeypatch.setenv("AZURE_POD_IDENTITY_AUTHORITY_HOST", fake.origin)
        error = refused(Store, fake.url())
    assert error.status == "config" and "does not keep conditions" in error.text


def test_the_identity_of_a_machine(monkeypatch):
    monkeypatch.setenv("AZURE_CLIENT_ID", "me")
    with Fake() as fake:
        monkeypatch.setenv("AZURE_POD_IDENTITY_AUTHORITY_HOST", fake.origin)
        with Store(fake.url()) as store:
            token = done(store.swap("w/lease", None, b"one"))
            assert len(fake.asked) == 1  # it lasts
            method, path, headers, _ = fake.asked[0]
            assert method == "GET" and path.startswith("/metadata/identity/oauth2/token?api-version=2018-02-01")
            assert headers["Metadata"] == "true" and path.endswith("&client_id=me")
            fake.tokens.append("revoked")
            done(store.swap("w/lease", token, b"two"))  # refused, and fetched again
            assert len(fake.asked) == 2


def test_the_identity_of_a_service(monkeypatch):
    with Fake() as fake:
        monkeypatch.setenv("IDENTITY_ENDPOINT", fake.origin + "/identity")
        monkeypatch.setenv("IDENTITY_HEADER", "s3cr3t")
        with Store(fake.url()) as store:
            done(store.swap("w/lease", None, b"one"))
        headers = {name.lower(): value for name, value in fake.asked[0][2].items()}
        assert headers["x-identity-header"] == "s3cr3t"


def test_the_identity_of_a_workload(monkeypatch, tmp_path):
    """It is fetched again before it ends, without being refused: tokens of no lifetime to speak of."""
    (tmp_path / "token").write_text("from-the-cluster\n")
    with Fake() as fake:
        fake.lasts = 1
        monkeypatch.setenv("AZURE_AUTHORITY_HOST", fake.origin)
        monkeypatch.setenv("AZURE_TENANT_ID", "tenant")
        monkeypatch.setenv("AZURE_CLIENT_ID", "me")
        monkeypatch.setenv("AZURE_FEDERATED_TOKEN_FILE", str(tmp_path / "token"))
        with Store(fake.url()) as store:
            token = done(store.swap("w/lease", None, b"0"))
            server_azurite.until(lambda: store.read("w/lease") and len(fake.asked) > 1)
            done(store.swap("w/lease", token, b"1"))
        method, path, _, body = fake.asked[0]
        assert (method, path) == ("POST", "/tenant/oauth2/v2.0/token")
        form = dict(urllib.parse.parse_qsl(body))
        assert form["client_assertion"] == "from-the-cluster" and form["scope"] == "https://storage.azure.com/.default"


def test_nobody_gives_out_tokens(monkeypatch):
    with Fake() as fake:
        monkeypatch.setenv("AZURE_POD_IDENTITY_AUTHORITY_HOST", "http://127.0.0.1:1")
        error = refused(Store, fake.url())
    assert "no managed identity answers" in error.text and "AZURE_STORAGE_KEY" in error.text


@pytest.mark.parametrize("change, word", [
    (f"account={ACCOUNT}", "name the storage account"),
    ("Not_An_Account", "not the name of a storage account"),
])
def test_urls_that_make_no_sense(change, word):
    place = f"azblob://{CONTAINER}?endpoint=http://127.0.0.1:1"
    error = refused(Store, place if "=" in change else f"{place}&account={change}")
    assert error.status == "config" and word in error.text
